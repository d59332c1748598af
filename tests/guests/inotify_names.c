/* inotify: names that come, go and move, and what happens to files through them. The directory `low` is there before:
 * in husk it may be the host's, beneath a layer.
 *
 * build: inotify_names */
#include "inotify.h"

#include <dirent.h>
#include <sys/xattr.h>

static int queue;

static int list(const char *name) {
    int count = 0;
    DIR *directory = opendir(name);
    if (!directory)
        return -1;
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

static void directory(void) {
    say("-- a directory");
    STEP(mkdir("d", 0755));
    put_text("d/before", "before\n", 0644);
    STEP(inotify_add_watch(queue, "d", IN_ALL_EVENTS));
    int fd;
    DO(fd = open("d/new", O_RDWR | O_CREAT | O_EXCL, 0640));
    DO(write(fd, "text", 4));
    DO(ftruncate(fd, 2));
    DO(fchmod(fd, 0600));
    char byte;
    DO(pread(fd, &byte, 1, 0));
    DO(close(fd));
    DO(fd = open("d/before", O_RDONLY));
    DO(read(fd, &byte, 1));
    DO(close(fd));
    DO(truncate("d/before", 3));
    DO(fd = open("d/before", O_WRONLY | O_TRUNC));
    DO(close(fd));
    DO(chmod("d/before", 0640));
    DO(utimensat(AT_FDCWD, "d/before", NULL, 0));
    DO(list("d"));
    DO(mkdir("d/sub", 0700));
    DO(list("d/sub"));
    DO(chmod("d/sub", 0755));
    DO(symlink("before", "d/link"));
    DO(fd = open("d/link", O_RDONLY));
    DO(close(fd));
    DO(mkfifo("d/fifo", 0600));
    DO(link("d/before", "d/twin"));
    DO(setxattr("d/before", "user.colour", "red", 3, 0));
    DO(removexattr("d/before", "user.colour"));
    DO(lchown("d/link", -1, getgid()));
    DO(rename("d/new", "d/newer"));
    DO(rename("d/newer", "d/before"));
    DO(renameat2(AT_FDCWD, "d/before", AT_FDCWD, "d/twin", RENAME_EXCHANGE));
    DO(rename("d/sub", "d/sub2"));
    DO(rename("d/twin", "outside"));
    DO(rename("outside", "d/inside"));
    DO(rename("d/sub2", "subout"));
    put_text("subout/unseen", "x", 0644);
    events(queue, "a file outside", 0);
    DO(rename("subout", "d/subin"));
    put_text("d/subin/unseen2", "x", 0644);
    events(queue, "a file in a sub-directory", 0);
    DO(unlink("d/inside"));
    DO(unlink("d/link"));
    DO(unlink("d/fifo"));
    DO(unlink("d/subin/unseen") | unlink("d/subin/unseen2"));
    DO(rmdir("d/subin"));
    DO(unlink("d/before"));
    DO(chmod("d", 0700));
    DO(fd = open("d", O_RDONLY | O_DIRECTORY));
    DO(close(fd));
    DO(rename("d", "e"));
    DO(mkdir("e/still", 0700));
    DO(rmdir("e/still"));
    DO(rmdir("e"));
}

static void file(void) {
    say("-- a file");
    put_text("f", "text\n", 0644);
    int fd, other;
    MUST(other = open("f", O_WRONLY | O_APPEND)); /* open before the watch exists */
    STEP(inotify_add_watch(queue, "f", IN_ALL_EVENTS));
    DO(write(other, "more", 4));
    DO(close(other));
    DO(fd = open("f", O_RDWR));
    DO(chmod("f", 0600));
    DO(rename("f", "g"));
    DO(link("g", "h"));
    DO(unlink("g"));
    DO(write(fd, "x", 1));
    DO(rename("h", "i"));
    DO(unlink("i"));
    DO(write(fd, "x", 1));
    DO(close(fd));
    put_text("f", "text\n", 0644);
    put_text("over", "text\n", 0644);
    STEP(inotify_add_watch(queue, "f", IN_ALL_EVENTS));
    DO(rename("over", "f"));
    STEP(inotify_add_watch(queue, "f", IN_ALL_EVENTS));
    DO(unlink("f"));
}

static void both(void) {
    say("-- a directory, its sub-directory and a file");
    STEP(mkdir("d", 0755));
    STEP(mkdir("d/s", 0755));
    put_text("d/s/f", "text\n", 0644);
    STEP(chdir("d/s"));
    STEP(inotify_add_watch(queue, "f", IN_ALL_EVENTS));
    STEP(inotify_add_watch(queue, ".", IN_ALL_EVENTS));
    STEP(inotify_add_watch(queue, "..", IN_ALL_EVENTS));
    int fd;
    DO(fd = open("f", O_WRONLY | O_APPEND));
    DO(write(fd, "x", 1));
    DO(close(fd));
    DO(rename("f", "../f"));
    DO(rename("../f", "f2"));
    DO(chmod(".", 0711));
    DO(rename("../s", "../t"));
    DO(unlink("f2"));
    char here[PATH_MAX];
    say("getcwd ends in %s", strrchr(MUST((long)getcwd(here, sizeof here)) ? here : "/", '/'));
    DO(rmdir("../t"));
    DO(chdir(".."));
    DO(chdir(".."));
    DO(rmdir("d"));
}

static void there_before(void) {
    say("-- what was there before");
    int fd, early;
    char byte;
    if (link("low/twin1", "low/twin2") < 0 && errno != EEXIST)
        say("low/twin2: %s", errname(errno));
    if (mkfifo("low/fifo", 0644) < 0 && errno != EEXIST)
        say("low/fifo: %s", errname(errno));
    MUST(early = open("low/early", O_RDONLY));
    STEP(inotify_add_watch(queue, "low", IN_ALL_EVENTS));
    STEP(inotify_add_watch(queue, "low/watched", IN_ALL_EVENTS));
    STEP(inotify_add_watch(queue, "low/link", IN_ALL_EVENTS | IN_DONT_FOLLOW));
    STEP(inotify_add_watch(queue, "low/link", IN_ALL_EVENTS));
    DO(fd = open("low/read", O_RDONLY));
    DO(read(fd, &byte, 1));
    DO(close(fd));
    DO(fd = open("low/written", O_WRONLY | O_APPEND));
    DO(write(fd, "x", 1));
    DO(close(fd));
    DO(fd = open("low/emptied", O_WRONLY | O_TRUNC));
    DO(close(fd));
    DO(truncate("low/cut", 1));
    DO(chmod("low/mode", 0600));
    DO(fd = open("low/mode", O_WRONLY));
    DO(write(fd, "y", 1));
    DO(close(fd));
    DO(link("low/mode", "low/mode2"));
    DO(unlink("low/mode"));
    DO(fd = open("low/mode2", O_WRONLY));
    DO(close(fd));
    DO(rename("low/mode2", "low/sub/mode3"));
    DO(rename("low/moved", "low/moved2"));
    DO(fd = open("low/moved2", O_RDWR));
    DO(write(fd, "z", 1));
    DO(close(fd));
    DO(fd = open("low/watched", O_WRONLY | O_APPEND));
    DO(write(fd, "x", 1));
    DO(rename("low/watched", "low/sub/watched"));
    DO(unlink("low/sub/watched"));
    DO(close(fd));
    DO(unlink("low/gone"));
    DO(fd = open("low/gone", O_WRONLY | O_CREAT, 0644));
    DO(close(fd));
    DO(unlink("low/twin1"));
    DO(fd = open("low/twin2", O_WRONLY));
    DO(write(fd, "x", 1));
    DO(close(fd));
    DO(fd = open("low/fifo", O_RDWR | O_NONBLOCK));
    DO(write(fd, "x", 1));
    DO(close(fd));
    DO(rename("low/link", "low/link2"));
    DO(unlink("low/link2"));
    DO(chmod("low/sub", 0700));
    DO(rename("low/sub", "low/sub2"));
    DO(unlink("low/sub2/mode3"));
    DO(rmdir("low/sub2"));
    DO(close(early));
}

int main(int argc, char **argv) {
    if (argc > 1)
        MUST(chdir(argv[1]));
    queue = STEP(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
    directory();
    file();
    both();
    there_before();
    STEP(close(queue));
    return 0;
}
