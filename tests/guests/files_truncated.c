/* build: files_truncated
 *
 * Files that are there already are opened for writing and truncated, in new directories and in sticky ones, many in a
 * row: with every flag, mode and kind of name, while others have them open. And what is removed and renamed in a
 * sticky directory.
 */
#include "step.h"

static const int ways[] = {
    O_WRONLY | O_TRUNC, O_WRONLY | O_CREAT | O_TRUNC, O_RDWR | O_CREAT | O_TRUNC, O_WRONLY | O_TRUNC | O_APPEND,
    O_RDONLY | O_TRUNC, O_WRONLY | O_CREAT | O_EXCL | O_TRUNC, O_RDWR | O_TRUNC | O_NOFOLLOW, O_WRONLY, O_RDWR | O_CREAT,
    O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_CLOEXEC, O_WRONLY | O_CREAT | O_TRUNC | O_DIRECTORY,
};

static void show(int fd, const char *name) {
    struct stat by_fd = {0}, by_name;
    if (fd >= 0)
        MUST(fstat(fd, &by_fd));
    if (lstat(name, &by_name) < 0)
        say("  none: %s", errname(errno));
    else
        say("  mode %o, links %ld, size %ld, same %d %d", by_name.st_mode, (long)by_name.st_nlink, (long)by_name.st_size,
            fd < 0 || by_fd.st_ino == by_name.st_ino, fd < 0 || by_fd.st_size == by_name.st_size);
}

static void open_again(const char *name, int flags, int size) {
    int fd = open(name, flags, 0644);
    say("%#x: %s", flags, fd < 0 ? errname(errno) : "opened");
    show(fd, name);
    if (fd < 0)
        return;
    STEP(write(fd, "other text", size) >= 0);
    say("  flags %#x", fcntl(fd, F_GETFL) & ~0100000);
    show(fd, name);
    close(fd);
}

static void make(const char *name, mode_t mode) {
    int fd = MUST(open(name, O_WRONLY | O_CREAT | O_EXCL, mode));
    MUST(write(fd, "some text", 9));
    MUST(close(fd));
}

static void in_a_row(void) {
    char name[64];
    for (int i = 0; i < 66; i++) {
        struct stat before, after;
        snprintf(name, sizeof name, i & 1 ? "f%d" : "./f%d", i);
        make(name, 0644);
        int held = MUST(open(name, O_RDONLY));
        MUST(stat(name, &before));
        open_again(name, ways[i % (sizeof ways / sizeof *ways)], i % 9);
        MUST(fstat(held, &after));
        say("held: size %ld, later %d %d", (long)after.st_size, after.st_mtime >= before.st_mtime,
            after.st_ctime >= before.st_ctime);
        close(held);
        if (i % 3 == 0)
            STEP(unlink(name));
    }
}

static void of_every_mode(void) {
    static const mode_t modes[] = {0600, 0400, 0200, 0, 0755, 0100, 0711, 01644};
    for (unsigned i = 0; i < 2 * sizeof modes / sizeof *modes; i++) {
        char name[64];
        snprintf(name, sizeof name, "m%u", i);
        make(name, 0666);
        STEP(chmod(name, modes[i / 2]));
        open_again(name, i & 1 ? O_RDWR | O_CREAT | O_TRUNC : O_WRONLY | O_TRUNC, 5);
        STEP(chmod(name, 0644));
        open_again(name, O_WRONLY | O_TRUNC, 3);
    }
}

static void of_every_kind(void) {
    make("one", 0644);
    STEP(link("one", "two"));
    open_again("two", O_WRONLY | O_CREAT | O_TRUNC, 4);
    show(-1, "one");
    STEP(unlink("one"));
    open_again("two", O_WRONLY | O_CREAT | O_TRUNC, 2);
    STEP(symlink("two", "link"));
    open_again("link", O_WRONLY | O_CREAT | O_TRUNC, 3);
    show(-1, "two");
    open_again("link", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 3);
    STEP(symlink("three", "dangling"));
    open_again("dangling", O_WRONLY | O_CREAT | O_TRUNC, 3);
    STEP(mkdir("folder", 0755));
    open_again("folder", O_WRONLY | O_CREAT | O_TRUNC, 3);
    open_again("folder/.", O_WRONLY | O_CREAT | O_TRUNC, 3);
    open_again("two/", O_WRONLY | O_CREAT | O_TRUNC, 3);
    open_again("two/.", O_WRONLY | O_TRUNC, 3);
    STEP(rename("two", "four"));
    open_again("four", O_WRONLY | O_CREAT | O_TRUNC, 6);
    open_again("two", O_WRONLY | O_TRUNC, 6);
    STEP(rename("four", "three"));
    open_again("three", O_WRONLY | O_TRUNC, 7);
    int held = MUST(open("three", O_RDONLY));
    STEP(unlink("three"));
    open_again("three", O_WRONLY | O_TRUNC, 7);
    open_again("three", O_WRONLY | O_CREAT | O_TRUNC, 1);
    struct stat s;
    MUST(fstat(held, &s));
    say("held: links %ld, size %ld", (long)s.st_nlink, (long)s.st_size);
    close(held);
    STEP(unlink("folder/."));
    STEP(rmdir("folder/."));
    STEP(rename("folder/.", "other"));
    STEP(mkdir("folder/.", 0755));
    STEP(rmdir("folder/"));
}

static void removals(void) {
    char name[64], other[64];
    for (int i = 0; i < 30; i++) {
        snprintf(name, sizeof name, "r%d", i);
        snprintf(other, sizeof other, "s%d", i / 2);
        make(name, 0644);
        if (i % 3 == 0)
            STEP(chmod(name, 0444));
        if (i % 3)
            STEP(rename(name, other));
        else
            STEP(unlink(name));
        show(-1, name);
        show(-1, other);
    }
}

int main(void) {
    static const mode_t modes[] = {0755, 01777, 01755, 0555};
    umask(022);
    for (unsigned i = 0; i < sizeof modes / sizeof *modes; i++) {
        char name[16];
        snprintf(name, sizeof name, "place%u", i);
        MUST(mkdir(name, 0755));
        MUST(chdir(name));
        if (modes[i] & 0200) {
            MUST(chmod(".", modes[i]));
            say("== mode %o", modes[i]);
            in_a_row();
            of_every_mode();
            of_every_kind();
            removals();
        } else {
            make("f", 0644);
            MUST(chmod(".", modes[i]));
            open_again("f", O_WRONLY | O_CREAT | O_TRUNC, 3);
            STEP(unlink("f"));
            STEP(rename("f", "g"));
            MUST(chmod(".", 0755));
        }
        MUST(chdir(".."));
    }
    return 0;
}
