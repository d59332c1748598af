/* Shared by the programs that try to read a file of root: its text begins with ORIGINAL. */
#include "step.h"

/* Closes `fd`, which may be -1. */
static int reads(int fd) {
    char text[8];
    int reached = fd >= 0 && pread(fd, text, 8, 0) == 8 && memcmp(text, "ORIGINAL", 8) == 0;
    if (fd >= 0)
        close(fd);
    return reached;
}
