/* build: files_old_handles
 *
 * usage: files_old_handles [prepare|prepared]   `prepare` only makes the files, `prepared` finds them made
 *
 * What a descriptor from before the first change of a file shows and leads to: after the file was truncated by another
 * name, after it was removed or replaced, after every other descriptor was closed, and in another process. What such a
 * descriptor itself reads is not printed: on a copy-on-write mount that is the old content
 * (docs/design/011-copy-up.md).
 */
#include "step.h"

#include <sys/xattr.h>

#define MANY 80 /* more than husk keeps without a look at who holds what */

static void make(const char *name) {
    int fd = MUST(open(name, O_WRONLY | O_CREAT | O_EXCL, 0644));
    MUST(write(fd, "what was in ", 12));
    MUST(write(fd, name, strlen(name)));
    MUST(close(fd));
}

static void prepare(void) {
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "over1", "over2", "held0", "held1",
                                        "held2", "linked"};
    char name[16];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        make(names[i]);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "f%d", i);
        make(name);
    }
    MUST(mkdir("deep", 0755));
    MUST(symlink("../linked", "deep/link"));
    MUST(symlink("where it leads", "leads"));
    MUST(mkfifo("fifo", 0644));
    MUST(link("linked", "deep/twin"));
}

static void show(const char *what, int fd) {
    struct stat s;
    if (fstat(fd, &s) < 0)
        say("  %s: %s", what, errname(errno));
    else
        say("  %s: mode %o, links %ld, size %ld", what, s.st_mode, (long)s.st_nlink, (long)s.st_size);
}

static int again(int fd, int flags) {
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return open(link, flags);
}

static void content(const char *what, int fd) {
    char text[64] = "";
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    say("  %s: %zd \"%s\"", what, n, text);
}

static void sizes(void) {
    int old = MUST(open("linked", O_RDONLY)), path = MUST(open("linked", O_PATH));
    show("before", old);
    STEP(truncate("deep/link", 5));
    show("truncated by a symbolic link", old);
    show("by O_PATH", path);
    STEP(truncate("deep/twin", 3));
    show("truncated by a hard link", old);
    STEP(truncate("linked", 9000));
    show("longer", old);
    show("by O_PATH", path);
    STEP(close(MUST(open("deep/twin", O_WRONLY | O_TRUNC))));
    show("opened with O_TRUNC", old);
    int writer = MUST(open("linked", O_RDWR | O_APPEND));
    STEP(write(writer, "some words", 10));
    show("written to", old);
    STEP(ftruncate(writer, 4));
    show("truncated by descriptor", old);
    STEP(unlink("linked"));
    show("one name left", old);
    STEP(rename("deep/twin", "deep/moved"));
    STEP(truncate("deep/moved", 2));
    show("renamed", old);
    STEP(unlink("deep/moved"));
    show("no name left", old);
    STEP(ftruncate(writer, 7));
    show("truncated without a name", old);
    close(writer);
    show("closed by who wrote", old);
    show("by O_PATH", path);
    close(path);
    close(old);
}

/* `first`: how the old descriptor is opened. `last`: what takes the file's name. */
static void without_a_name(const char *name, int first, const char *last, int keep_writer) {
    static const int ways[] = {O_RDONLY, O_WRONLY, O_RDWR, O_RDWR | O_NONBLOCK, O_WRONLY | O_APPEND | O_CREAT, O_PATH};
    int old = MUST(open(name, first));
    int writer = again(old, O_RDWR | O_NONBLOCK);
    say("%s opened with %#x, written by %s", name, first, writer < 0 ? errname(errno) : "another descriptor");
    STEP(write(writer, "NEW", 3));
    STEP(last ? rename(last, name) : unlink(name));
    show("old", old);
    if (!keep_writer)
        close(writer);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        int fd = again(old, ways[i]);
        say("  again with %#x: %s", ways[i], fd < 0 ? errname(errno) : "opened");
        if (fd < 0)
            continue;
        show("it", fd);
        content("it", fd);
        STEP(write(fd, "+", 1));
        close(fd);
    }
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", old);
    STEP(truncate(link, 4));
    STEP(chmod(link, 0640));
    show("old", old);
    int fd = again(old, O_RDWR | O_TRUNC);
    show("emptied", fd);
    STEP(linkat(AT_FDCWD, link, AT_FDCWD, "back", AT_SYMLINK_FOLLOW));
    if (keep_writer) {
        STEP(write(writer, "more", 4));
        content("by who wrote first", fd);
        close(writer);
    }
    close(fd);
    close(old);
}

static void other_kinds(void) {
    char text[64] = "";
    int link = MUST(open("leads", O_PATH | O_NOFOLLOW)), fifo = MUST(open("fifo", O_RDONLY | O_NONBLOCK));
    int path = MUST(open("fifo", O_PATH));
    STEP(unlink("leads"));
    STEP(unlink("fifo"));
    show("a symbolic link", link);
    STEP(readlinkat(link, "", text, sizeof text));
    say("  %s", text);
    STEP(again(link, O_RDONLY));
    show("a FIFO", fifo);
    show("by O_PATH", path);
    STEP(readlinkat(path, "", text, sizeof text));
    int fd = again(path, O_RDWR | O_NONBLOCK);
    show("again", fd);
    STEP(fsetxattr(fd, "user.", "v", 1, 0));
    STEP(fsetxattr(fd, "user.one", "v", 1, 0));
    STEP(ftruncate(fd, 0));
    STEP(write(fd, "text", 4));
    close(fd);
    close(path);
    close(fifo);
    close(link);
}

static void in_another_process(void) {
    int go[2], held[3];
    MUST(pipe(go));
    for (int i = 0; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "held%d", i);
        held[i] = MUST(open(name, O_RDONLY));
    }
    pid_t child = fork();
    if (!child) {
        char byte;
        close(go[1]);
        MUST(read(go[0], &byte, 1));
        for (int i = 0; i < 3; i++) {
            int fd = again(held[i], O_RDWR);
            say("in the child: %s", fd < 0 ? errname(errno) : "opened");
            content("it", fd);
            show("it", fd);
        }
        _exit(0);
    }
    for (int i = 0; i < 3; i++) {
        char name[16];
        close(held[i]);
        snprintf(name, sizeof name, "held%d", i);
        int fd = MUST(open(name, O_WRONLY | O_TRUNC));
        MUST(write(fd, name, 5));
        close(fd);
        MUST(unlink(name));
    }
    for (int i = 0; i < MANY; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%d", i);
        int fd = MUST(open(name, O_RDWR)), old = MUST(open(name, O_RDONLY));
        MUST(write(fd, name, 2));
        MUST(unlink(name));
        close(fd);
        if (i % 40 == 39) { /* this one is still held */
            fd = again(old, O_RDWR);
            content("in the parent", fd);
            show("in the parent", fd);
            close(fd);
        }
        close(old);
    }
    MUST(write(go[1], "", 1));
    STEP(waitpid(child, NULL, 0) == child);
}

int main(int argc, char **argv) {
    if (argc < 2 || !strcmp(argv[1], "prepare"))
        prepare();
    if (argc > 1 && !strcmp(argv[1], "prepare"))
        return 0;
    sizes();
    other_kinds();
    without_a_name("a", O_RDONLY, NULL, 1);
    without_a_name("b", O_RDONLY, NULL, 0);
    without_a_name("c", O_PATH, NULL, 1);
    without_a_name("d", O_PATH, NULL, 0);
    without_a_name("e", O_RDONLY, "over1", 1);
    without_a_name("f", O_RDONLY, "over2", 0);
    STEP(mkdir("own", 0755));
    STEP(rename("g", "own/g"));
    STEP(rename("h", "own/h"));
    STEP(open("own/new", O_CREAT | O_WRONLY, 0644) >= 0);
    without_a_name("own/g", O_RDONLY, NULL, 1);
    without_a_name("own/h", O_RDONLY, "own/new", 0);
    in_another_process();
    return 0;
}
