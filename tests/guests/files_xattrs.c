/* build: files_xattrs
 *
 * Extended attributes: sizes, flags, names that are not allowed, kinds of files that have none.
 */
#include "step.h"

#include <sys/xattr.h>

#define NOWHERE ((char *)(uintptr_t)nowhere)
static volatile uintptr_t nowhere = 16; /* not a constant, or the compiler would complain */

static void list(const char *path) {
    char names[4096], sorted[4096] = "";
    ssize_t n = llistxattr(path, names, sizeof names);
    if (n < 0) {
        say("list %s: %s", path, errname(errno));
        return;
    }
    int count = 0;
    for (ssize_t at = 0; at < n; at += strlen(names + at) + 1)
        if (!strncmp(names + at, "user.", 5))
            count++;
    for (char digit = 'a'; digit <= 'z'; digit++)
        for (ssize_t at = 0; at < n; at += strlen(names + at) + 1)
            if (!strncmp(names + at, "user.", 5) && names[at + 5] == digit) {
                strcat(sorted, " ");
                strcat(sorted, names + at);
            }
    say("list %s: %d:%s", path, count, sorted);
}

int main(void) {
    char buffer[70000], name[300];
    put_text("file", "x", 0644);
    put_text("closed", "x", 0);
    put_text("fixed", "x", 0444);
    MUST(mkdir("dir", 0755));
    MUST(mkdir("sticky", 01777));
    MUST(symlink("file", "link"));
    MUST(symlink("nowhere", "dangling"));
    MUST(mkfifo("fifo", 0644));
    static const char *const paths[] = {"file", "closed", "fixed", "dir", "sticky", "link", "dangling", "fifo", "missing", "file/x", "",
                                        "/dev/null", "/proc/self/status", "/proc"};
    for (unsigned p = 0; p < sizeof paths / sizeof *paths; p++) {
        const char *path = paths[p];
        say("-- %s", path);
        STEP(getxattr(path, "user.absent", buffer, 10));
        STEP(lgetxattr(path, "user.absent", buffer, 10));
        if (path[0] != '/') {
            STEP(setxattr(path, "user.a", "value", 5, 0));
            STEP(lsetxattr(path, "user.b", "", 0, 0));
            STEP(setxattr(path, "user.a", "v2", 2, XATTR_CREATE));
            STEP(setxattr(path, "user.a", "v2", 2, XATTR_REPLACE));
            STEP(setxattr(path, "user.c", "v", 1, XATTR_REPLACE));
            STEP(setxattr(path, "user.c", "v", 1, 7));
            STEP(getxattr(path, "user.a", buffer, 10));
            STEP(getxattr(path, "user.a", buffer, 1));
            STEP(getxattr(path, "user.a", NULL, 0));
            STEP(removexattr(path, "user.c"));
            STEP(setxattr(path, "trusted.a", "v", 1, 0));
            STEP(setxattr(path, "system.nosuch", "v", 1, 0));
            STEP(setxattr(path, "nosuch.a", "v", 1, 0));
            STEP(setxattr(path, "user.", "v", 1, 0));
            STEP(setxattr(path, "user", "v", 1, 0));
            STEP(setxattr(path, "", "v", 1, 0));
            STEP(getxattr(path, "trusted.a", buffer, 10));
            STEP(getxattr(path, "nosuch.a", buffer, 10));
            STEP(lremovexattr(path, "user.b"));
            list(path);
        }
    }
    say("-- sizes");
    memset(name, 'n', sizeof name);
    memcpy(name, "user.", 5);
    name[255] = 0;
    STEP(setxattr("file", name, "v", 1, 0));
    STEP(removexattr("file", name));
    name[255] = 'n', name[256] = 0;
    STEP(setxattr("file", name, "v", 1, 0));
    memset(buffer, 'x', sizeof buffer);
    STEP(setxattr("file", "user.big", buffer, 65537, 0));
    STEP(setxattr("file", "user.half", buffer, 1000, 0));
    STEP(getxattr("file", "user.half", buffer, 70000));
    STEP(getxattr("file", "user.half", buffer, 999));
    STEP(listxattr("file", buffer, 3));
    STEP(setxattr("file", NOWHERE, "v", 1, 0));
    STEP(setxattr("file", "user.x", NOWHERE, 1, 0));
    STEP(getxattr("file", "user.half", NOWHERE, 1000));
    STEP(listxattr("file", NOWHERE, 1000));
    say("-- the forms with a directory, since Linux 6.13");
    struct { uint64_t value; uint32_t size, flags; } args = {(uintptr_t) "value", 5, 0}, get = {(uintptr_t)buffer, 100, 0};
    int here = MUST(open(".", O_PATH | O_DIRECTORY)), held = MUST(open("file", O_RDONLY));
    STEP(syscall(463, here, "file", 0, "user.at", &args, sizeof args));
    STEP(syscall(464, here, "file", 0, "user.at", &get, sizeof get));
    STEP(syscall(464, here, "link", 0, "user.at", &get, sizeof get));
    STEP(syscall(464, here, "link", AT_SYMLINK_NOFOLLOW, "user.at", &get, sizeof get));
    STEP(syscall(464, held, "", AT_EMPTY_PATH, "user.at", &get, sizeof get));
    STEP(syscall(464, held, NULL, AT_EMPTY_PATH, "user.at", &get, sizeof get));
    STEP(syscall(464, held, "", 0, "user.at", &get, sizeof get));
    STEP(syscall(464, -1, "file", 0, "user.at", &get, sizeof get));
    STEP(syscall(464, here, "file", 0x40, "user.at", &get, sizeof get));
    STEP(syscall(464, here, "file", 0, "user.at", &get, 8));
    STEP(syscall(464, here, "file", 0, "user.at", &get, 5000));
    STEP(syscall(464, here, "missing", 0, "", &get, sizeof get));
    get.flags = 1;
    STEP(syscall(464, here, "file", 0, "user.at", &get, sizeof get));
    args.flags = 1;
    STEP(syscall(463, here, "file", 0, "user.at", &args, sizeof args));
    args.flags = 8;
    STEP(syscall(463, here, "missing", 0, "user.at", &args, sizeof args));
    STEP(syscall(463, here, "missing", 0x40, "user.at", NULL, sizeof args));
    STEP(syscall(465, here, "missing", 0, buffer, sizeof buffer));
    STEP(syscall(465, here, "file", 0, buffer, 1));
    STEP(syscall(466, here, "file", 0, "user.at"));
    STEP(syscall(466, here, "file", 0, "user.at"));
    STEP(syscall(466, here, "file", 0x40, ""));
    say("-- by descriptor");
    int fd = MUST(open("file", O_RDONLY)), path = MUST(open("file", O_PATH)), ends[2];
    MUST(pipe(ends));
    STEP(fsetxattr(fd, "user.f", "v", 1, 0));
    STEP(fgetxattr(fd, "user.f", buffer, 10));
    STEP(fgetxattr(path, "user.f", buffer, 10));
    STEP(fsetxattr(path, "user.f", "v", 1, 0));
    STEP(fsetxattr(-1, "user.f", "v", 1, 0));
    STEP(fgetxattr(ends[0], "user.f", buffer, 10));
    STEP(fsetxattr(ends[0], "user.f", "v", 1, 0));
    STEP(fremovexattr(fd, "user.f"));
    STEP(fremovexattr(fd, "user.f"));
    MUST(unlink("file"));
    STEP(fsetxattr(fd, "user.g", "v", 1, 0));
    STEP(fgetxattr(fd, "user.g", buffer, 10));
    return 0;
}
