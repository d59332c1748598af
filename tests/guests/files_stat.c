/* build: files_stat
 *
 * Metadata: stat, lstat, fstat, statx, access, chmod, utimensat, truncate. They must agree with each other.
 */
#include "step.h"
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <utime.h>

static void compare(const char *path) {
    struct stat by_name, by_link, by_fd, at, empty;
    struct statx extended;
    int fd = open(path, O_RDONLY);
    if (stat(path, &by_name) || lstat(path, &by_link) || fstat(fd, &by_fd) || fstatat(AT_FDCWD, path, &at, 0) ||
        fstatat(fd, "", &empty, AT_EMPTY_PATH) || statx(AT_FDCWD, path, 0, STATX_BASIC_STATS, &extended)) {
        say("%s: %s", path, errname(errno));
    } else {
        int same = !memcmp(&by_name, &by_fd, sizeof by_name) && !memcmp(&by_name, &at, sizeof at) && !memcmp(&by_name, &empty, sizeof at);
        int x = extended.stx_ino == by_name.st_ino && extended.stx_mode == by_name.st_mode && extended.stx_size == (uint64_t)by_name.st_size &&
                extended.stx_nlink == by_name.st_nlink && extended.stx_uid == by_name.st_uid &&
                makedev(extended.stx_dev_major, extended.stx_dev_minor) == by_name.st_dev &&
                extended.stx_mtime.tv_nsec == by_name.st_mtim.tv_nsec && extended.stx_blocks == (uint64_t)by_name.st_blocks;
        say("%s: mode %o, all agree %d, statx agrees %d, lstat %s, mask %x", path, by_name.st_mode, same, x,
            by_link.st_ino == by_name.st_ino ? "same" : "differs", extended.stx_mask & 0x7ff);
    }
    close(fd);
}

static void basics(void) {
    struct stat st;
    put_text("file", "0123456789", 0640);
    MUST(mkdir("dir", 0750));
    MUST(symlink("file", "link"));
    MUST(symlink("absent", "dangling"));
    MUST(mkfifo("fifo", 0622));
    compare("file");
    compare("dir");
    compare("link");
    compare(".");
    compare("/dev/null");
    compare("/usr/bin/env");
    STEP(stat("missing", &st));
    STEP(stat("", &st));
    STEP(stat("dangling", &st));
    STEP(lstat("dangling", &st));
    STEP(lstat("link/", &st));
    STEP(lstat("dangling/", &st));
    STEP(stat("file/", &st));
    STEP(stat("file/x", &st));
    STEP(stat("fifo", &st));
    say("fifo %d mode %o", S_ISFIFO(st.st_mode), st.st_mode);
    STEP(fstatat(AT_FDCWD, "", &st, AT_EMPTY_PATH));
    STEP(fstatat(AT_FDCWD, "", &st, 0));
    STEP(fstatat(77, "", &st, AT_EMPTY_PATH));
    STEP(fstatat(77, "file", &st, 0));
    STEP(fstatat(AT_FDCWD, "link", &st, AT_SYMLINK_NOFOLLOW));
    say("is a link %d", S_ISLNK(st.st_mode));
    STEP(fstatat(AT_FDCWD, "file", &st, 0x10000));
    struct statx x;
    STEP(statx(AT_FDCWD, "file", AT_STATX_SYNC_TYPE, STATX_BASIC_STATS, &x));
    STEP(statx(AT_FDCWD, "file", 0, 0x80000000, &x));
    STEP(fstat(77, &st));
    STEP(fstat(0, &st));
    MUST(stat("file", &st));
    say("owner %s group %s size %ld", st.st_uid == geteuid() ? "me" : "other", st.st_gid == getegid() ? "mine" : "other", (long)st.st_size);
    struct stat again, root, up;
    MUST(stat("./dir/../file", &again));
    say("same inode %d", again.st_ino == st.st_ino && again.st_dev == st.st_dev);
    MUST(stat("/", &root));
    MUST(stat("/..", &up));
    say("/.. is / %d", root.st_ino == up.st_ino && root.st_dev == up.st_dev);
    struct statfs fs;
    STEP(statfs(".", &fs));
    say("block size set %d name length %ld", fs.f_bsize > 0, (long)fs.f_namelen);
    STEP(statfs("missing", &fs));
    int ends[2], pair[2];
    MUST(pipe(ends));
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    const struct { const char *what; int fd; } held[] = {
        {"pipe", ends[0]},
        {"socket", pair[0]},
        {"memfd", MUST(memfd_create("m", 0))},
        {"eventfd", MUST(eventfd(0, 0))},
        {"proc", MUST(open("/proc/self/stat", O_RDONLY))},
        {"proc directory", MUST(open("/proc", O_RDONLY | O_DIRECTORY))},
        {"device", MUST(open("/dev/null", O_RDONLY))},
    };
    for (unsigned i = 0; i < sizeof held / sizeof *held; i++) {
        MUST(fstatfs(held[i].fd, &fs));
        say("%s lives in %lx", held[i].what, (unsigned long)fs.f_type);
        close(held[i].fd);
    }
    close(ends[1]);
    close(pair[1]);
}

static void permissions(void) {
    STEP(chmod("file", 0));
    STEP(open("file", O_RDONLY));
    STEP(access("file", F_OK));
    STEP(access("file", R_OK));
    STEP(access("file", 8));
    STEP(chmod("file", 0444));
    STEP(open("file", O_WRONLY));
    STEP(access("file", R_OK));
    STEP(access("file", W_OK));
    STEP(access("file", R_OK | X_OK));
    STEP(truncate("file", 3));
    STEP(chmod("file", 0644));
    STEP(faccessat(AT_FDCWD, "file", W_OK, AT_EACCESS));
    STEP(faccessat(AT_FDCWD, "dangling", F_OK, AT_SYMLINK_NOFOLLOW));
    STEP(faccessat(AT_FDCWD, "dangling", F_OK, 0));
    STEP(chmod("missing", 0644));
    STEP(chmod("dangling", 0644));
    STEP(chmod("link", 0600));
    struct stat st;
    MUST(stat("file", &st));
    say("mode %o", st.st_mode);
    STEP(chmod("file", 07755));
    MUST(stat("file", &st));
    say("mode %o", st.st_mode);
    int fd = MUST(open("file", O_WRONLY));
    STEP(write(fd, "x", 1)); /* writing takes the set-id bits away */
    MUST(fstat(fd, &st));
    say("mode after writing %o", st.st_mode);
    STEP(fchmod(fd, 0600));
    close(fd);
    STEP(fchmodat(AT_FDCWD, "file", 0640, 0));
    STEP(fchmod(77, 0600));
    STEP(chmod("/usr/bin/env", 0777));
    STEP(chmod("/", 0777));
    STEP(chmod("dir", 0));
    STEP(open("dir", O_RDONLY));
    STEP(open("dir/x", O_RDONLY));
    STEP(mkdir("dir/x", 0755));
    STEP(stat("dir/x", &st));
    STEP(chdir("dir"));
    STEP(chmod("dir", 0500));
    STEP(mkdir("dir/x", 0755));
    STEP(creat("dir/x", 0644));
    STEP(stat("dir/x", &st));
    STEP(chmod("dir", 0300));
    STEP(mkdir("dir/x", 0755));
    STEP(open("dir", O_RDONLY));
    STEP(rmdir("dir/x"));
    STEP(chmod("dir", 0755));
    STEP(open("/etc/passwd", O_WRONLY));
    STEP(unlink("/usr/bin/env"));
    STEP(mkdir("/usr/bin/new", 0755));
    STEP(chown("file", -1, -1));
    STEP(chown("file", getuid(), getgid()));
    STEP(chown("file", 0, -1));
    STEP(lchown("link", getuid(), -1));
    STEP(fchownat(AT_FDCWD, "missing", -1, -1, 0));
}

static void show_times(const char *path) {
    struct stat st;
    if (lstat(path, &st) == 0)
        say("  %s atime %ld.%09ld mtime %ld.%09ld", path, st.st_atim.tv_sec, st.st_atim.tv_nsec, st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
}

static void times(void) {
    struct timespec set[2] = {{1000000000, 123456789}, {1500000000, 987654321}};
    STEP(utimensat(AT_FDCWD, "file", set, 0));
    show_times("file");
    set[0].tv_nsec = UTIME_OMIT;
    set[1] = (struct timespec){-5, 0};
    STEP(utimensat(AT_FDCWD, "file", set, 0));
    show_times("file");
    set[0] = (struct timespec){7, 1000000000};
    STEP(utimensat(AT_FDCWD, "file", set, 0));
    set[0] = (struct timespec){8, 0};
    set[1] = (struct timespec){9, 0};
    STEP(utimensat(AT_FDCWD, "link", set, AT_SYMLINK_NOFOLLOW));
    show_times("link");
    STEP(utimensat(AT_FDCWD, "link", set, 0));
    show_times("file");
    STEP(utimensat(AT_FDCWD, "dangling", set, 0));
    STEP(utimensat(AT_FDCWD, "missing", set, 0));
    STEP(utimensat(AT_FDCWD, "dir", set, 0));
    show_times("dir");
    STEP(utimensat(AT_FDCWD, "/usr/bin/env", NULL, 0));
    STEP(utimensat(AT_FDCWD, "/usr/bin/env", set, 0));
    int fd = MUST(open("file", O_RDONLY));
    set[0].tv_sec = 11;
    STEP(futimens(fd, set));
    show_times("file");
    close(fd);
    struct timeval old[2] = {{12, 5}, {13, 6}};
    STEP(utimes("file", old));
    show_times("file");
    struct utimbuf older = {14, 15};
    STEP(utime("file", &older));
    show_times("file");
    struct stat before, after;
    STEP(utimensat(AT_FDCWD, "file", NULL, 0));
    MUST(stat("file", &after));
    say("now %d", labs(after.st_mtime - time(NULL)) < 60);
    MUST(utime("dir", &older));
    MUST(stat("dir", &before));
    put_text("dir/entry", "", 0644);
    MUST(stat("dir", &after));
    say("a new name changes the directory's mtime %d", before.st_mtime != after.st_mtime);
    MUST(utime("file", &older));
    fd = MUST(open("file", O_WRONLY));
    MUST(write(fd, "y", 1));
    MUST(fstat(fd, &after));
    say("writing changes mtime %d", after.st_mtime != 15);
    close(fd);
}

static void sizes(void) {
    struct stat st;
    STEP(truncate("file", 100000));
    MUST(stat("file", &st));
    say("size %ld", (long)st.st_size);
    STEP(truncate("file", 5));
    STEP(truncate("file", -1));
    STEP(truncate("dir", 5));
    STEP(truncate("missing", 5));
    STEP(truncate("fifo", 5));
    STEP(truncate("/usr/bin/env", 5));
    STEP(truncate("", 5));
    int fd = MUST(open("file", O_RDONLY));
    STEP(ftruncate(fd, 3));
    close(fd);
    fd = MUST(open("file", O_RDWR));
    STEP(ftruncate(fd, 3));
    STEP(ftruncate(fd, -1));
    STEP(posix_fallocate(fd, 0, 50));
    MUST(stat("file", &st));
    say("size %ld", (long)st.st_size);
    close(fd);
}

int main(void) {
    if (geteuid() == 0) /* it tries to change files of the system, which must fail */
        return 96;
    umask(022);
    basics();
    permissions();
    times();
    sizes();
    return 0;
}
