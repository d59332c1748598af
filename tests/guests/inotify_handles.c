/* inotify: what happens through descriptors that are older than the watch or have lost their name, through the other
 * name of a file, and what the queue's own fdinfo says.
 *
 * build: inotify_handles */
#include "inotify.h"

#include <sys/sysmacros.h>

static int queue;

static void times_of(void) {
    say("-- times");
    put_text("f", "text\n", 0644);
    STEP(inotify_add_watch(queue, "f", IN_ALL_EVENTS));
    struct timespec access[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_OMIT}};
    struct timespec change[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_NOW}};
    struct timespec given[2] = {{.tv_sec = 1000}, {.tv_nsec = UTIME_OMIT}};
    struct timespec nothing[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_OMIT}};
    DO(utimensat(AT_FDCWD, "f", access, 0));
    DO(utimensat(AT_FDCWD, "f", change, 0));
    DO(utimensat(AT_FDCWD, "f", given, 0));
    struct stat now;
    MUST(stat("f", &now));
    say("accessed at %ld", (long)now.st_atime);
    DO(utimensat(AT_FDCWD, "f", nothing, 0));
    DO(utimensat(AT_FDCWD, "f", NULL, 0));
    STEP(mkdir("timed", 0755));
    STEP(inotify_add_watch(queue, "timed", IN_ALL_EVENTS));
    DO(utimensat(AT_FDCWD, "timed", access, 0));
    DO(utimensat(AT_FDCWD, "timed", change, 0));
    DO(rmdir("timed"));
    DO(unlink("f"));
}

static void without_name(void) {
    say("-- a file without a name");
    int fd;
    STEP(mkdir("d", 0755));
    put_text("d/f", "text\n", 0644);
    MUST(fd = open("d/f", O_RDWR));
    STEP(inotify_add_watch(queue, "d", IN_ALL_EVENTS));
    STEP(inotify_add_watch(queue, "d/f", IN_ALL_EVENTS));
    DO(unlink("d/f"));
    DO(ftruncate(fd, 100));
    DO(fchmod(fd, 0600));
    struct timespec access[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_OMIT}};
    DO(futimens(fd, access));
    DO(close(fd));
    DO(rmdir("d"));
}

static void other_name(void) {
    say("-- a file with a name elsewhere");
    int fd;
    STEP(mkdir("here", 0755));
    STEP(mkdir("there", 0755));
    put_text("here/f", "text\n", 0644);
    STEP(link("here/f", "there/g"));
    STEP(inotify_add_watch(queue, "here", IN_ALL_EVENTS));
    DO(fd = open("there/g", O_RDWR));
    DO(write(fd, "x", 1));
    DO(ftruncate(fd, 10));
    DO(close(fd));
    DO(fd = open("here/f", O_RDWR));
    DO(write(fd, "x", 1));
    DO(close(fd));
    DO(link("there/g", "there/h"));
    DO(rename("there/h", "there/i"));
    DO(unlink("there/i"));
    DO(rename("there/g", "here/g"));
    DO(fd = open("here/g", O_RDONLY));
    DO(close(fd));
    DO(rename("here/f", "there/f"));
    DO(fd = open("there/f", O_RDONLY));
    DO(close(fd));
    DO(unlink("here/g"));
    DO(fd = open("there/f", O_RDONLY));
    char text[32] = "";
    DO(read(fd, text, sizeof text - 1));
    say("it says %.6s", text);
    DO(close(fd));
    DO(unlink("there/f"));
    DO(rmdir("there"));
    DO(rmdir("here"));
}

static void directory_held(void) {
    say("-- a directory that was open before");
    int fd, sub;
    STEP(mkdir("d", 0755));
    STEP(mkdir("d/s", 0755));
    MUST(fd = open("d", O_RDONLY | O_DIRECTORY));
    MUST(sub = open("d/s", O_RDONLY | O_DIRECTORY));
    STEP(inotify_add_watch(queue, "d", IN_ALL_EVENTS));
    STEP(inotify_add_watch(queue, "d/s", IN_ALL_EVENTS));
    DO(mkdirat(sub, "new", 0700));
    DO(faccessat(sub, "new", F_OK, 0));
    DO(unlinkat(fd, "s/new", AT_REMOVEDIR));
    DO(rmdir("d/s"));
    DO(faccessat(sub, "new", F_OK, 0));
    DO(close(sub));
    DO(rmdir("d"));
    DO(close(fd));
    say("-- a working directory");
    STEP(mkdir("w", 0755));
    STEP(chdir("w"));
    STEP(inotify_add_watch(queue, "../w", IN_ALL_EVENTS));
    DO(rmdir("../w"));
    DO(chdir(".."));
}

static void fdinfo(void) {
    say("-- fdinfo");
    put_text("f", "text\n", 0644);
    int watch = inotify_add_watch(queue, "f", IN_MODIFY | IN_ATTRIB), fd;
    struct stat file;
    MUST(stat("f", &file));
    char name[64], text[4096], *line;
    snprintf(name, sizeof name, "/proc/self/fdinfo/%d", queue);
    MUST(fd = open(name, O_RDONLY));
    ssize_t length = MUST(read(fd, text, sizeof text - 1));
    text[length] = 0;
    close(fd);
    MUST((line = strstr(text, "inotify wd:")) ? 0 : -1);
    unsigned seen, mask, device, ignored;
    unsigned long inode;
    int fields = sscanf(line, "inotify wd:%x ino:%lx sdev:%x mask:%x ignored_mask:%x", &seen, &inode, &device, &mask,
                        &ignored);
    say("%d fields: watch %d, inode %d, device %d, mask %x, ignored %x", fields, seen == (unsigned)watch,
        inode == file.st_ino, device == (major(file.st_dev) << 20 | minor(file.st_dev)), mask, ignored);
    DO(unlink("f"));
}

int main(void) {
    queue = STEP(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
    times_of();
    without_name();
    other_name();
    directory_held();
    fdinfo();
    STEP(close(queue));
    return 0;
}
