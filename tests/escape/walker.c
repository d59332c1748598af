/* build: walker
 *
 * walker DIRECTORY SECONDS: uses DIRECTORY/moving/file in every way, while a process on the host swaps `moving` between
 * a directory and a symbolic link that leads out of the mount. Prints "reached" if it ever reads something that begins
 * with ORIGINAL (which lies only outside), else "safe". The host sees whether anything outside was changed.
 */
#include "step.h"

#include <sys/xattr.h>

int main(int count, char **words) {
    if (count != 3 || chdir(words[1]) != 0)
        return 2;
    const char *name = "moving/file";
    char text[8], reached = 0;
    unsigned rounds = 0;
    time_t end = time(NULL) + atoi(words[2]);
    while (!reached && (time(NULL) <= end || rounds < 3)) {
        rounds++;
        int fd = open(name, O_RDWR);
        if (fd < 0)
            fd = open(name, O_RDONLY);
        if (fd >= 0) {
            reached = pread(fd, text, 8, 0) == 8 && memcmp(text, "ORIGINAL", 8) == 0;
            close(fd);
        }
        truncate(name, 3);
        chmod(name, 0600);
        utimensat(AT_FDCWD, name, NULL, 0);
        setxattr(name, "user.husk", "x", 1, 0);
        fd = open("moving/new", O_WRONLY | O_CREAT | O_EXCL, 0600);
        if (fd >= 0)
            close(fd);
        mkdir("moving/directory", 0700);
        symlink("x", "moving/symlink");
        link("mine", "moving/linked");
        rename("moving/new", "moving/newer");
        rename("moving/newer", "taken");
        unlink("moving/file");
        rmdir("moving/directory");
        unlink("moving/symlink");
        unlink("moving/linked");
        fd = open(name, O_WRONLY | O_CREAT, 0600);
        if (fd >= 0) {
            write(fd, "of the box", 10);
            close(fd);
        }
        mknod("moving/fifo", S_IFIFO | 0600, 0);
        unlink("moving/fifo");
    }
    printf("%s\n", reached ? "reached" : "safe");
    return 0;
}
