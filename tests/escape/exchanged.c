/* build: exchanged
 *
 * exchanged NAME SECONDS: a user who may rename in the directory exchanges two files without pause, so that NAME is
 * either the guest's own file or a file of root that the guest may not touch. Reads and changes it in every way. A
 * supervisor run as root that judges one file and then opens the other discloses root's file. Prints "reached" if it
 * read something that begins with ORIGINAL, else "safe". The host sees whether it changed anything.
 */
#include "reached.h"
#include <sys/xattr.h>

int main(int argc, char **argv) {
    if (argc != 3)
        return 96;
    const char *name = argv[1];
    int reached = 0, rounds = 0;
    for (time_t end = time(NULL) + atoi(argv[2]); !reached && (time(NULL) <= end || rounds < 50); rounds++) {
        reached |= reads(open(name, O_RDONLY));
        reached |= reads(open(name, O_RDWR));
        close(open(name, O_WRONLY | O_TRUNC));
        truncate(name, 0);
        chmod(name, 0666);
        utimensat(AT_FDCWD, name, NULL, 0);
        setxattr(name, "user.husk", "x", 1, 0);
        int fd = open(name, O_PATH);
        char path[40];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        reached |= reads(open(path, O_RDONLY));
        close(fd);
    }
    say(reached ? "reached" : "safe");
    return 0;
}
