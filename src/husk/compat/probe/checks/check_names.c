/* compat/probe: checks of calls that carry a file name: opening, making, removing, looking, listing, watching.
 *
 * Not here: attributes of files (check_attributes.c). All files are below the check's own scratch directory. */
#include "probe.h"

#include <dirent.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/vfs.h>

static bool is_directory(const char *name)
{
    struct stat status;
    return lstat(name, &status) == 0 && S_ISDIR(status.st_mode);
}

static int directory(const char *name)
{
    probe_scratch();
    NEED(mkdir(name, 0755) == 0, "mkdir");
    int fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    NEED(fd >= 0, "open of a directory");
    return fd;
}

static void file(const char *name, const char *content)
{
    NEED(close(probe_file(name, content)) == 0, "close");
}

static bool reads(int fd, const char *content)
{
    char text[64] = {0};
    return read(fd, text, sizeof text) == (ssize_t)strlen(content) && !strcmp(text, content);
}

/* -- opening -- */

CHECK(open, "reads a file")
{
    file("f", "hello");
    EFFECT(reads((int)MUST(CALL(open, "f", O_RDONLY, 0)), "hello"));
}

CHECK(open, "flags=O_CREAT: with the mode, less the umask")
{
    probe_scratch();
    umask(022);
    MUST(CALL(open, "new", O_WRONLY | O_CREAT, 0666));
    struct stat status;
    EFFECT(stat("new", &status) == 0 && (status.st_mode & 07777) == 0644 && status.st_size == 0);
}

CHECK(open, "flags=O_EXCL")
{
    file("f", "hello");
    long value = CALL(open, "f", O_WRONLY | O_CREAT | O_EXCL, 0666);
    ANSWERS(value, EEXIST);
}

CHECK(open, "flags=O_TRUNC")
{
    file("f", "hello");
    MUST(CALL(open, "f", O_WRONLY | O_TRUNC, 0));
    EFFECT(probe_holds("f", ""));
}

CHECK(open, "flags=O_APPEND")
{
    file("f", "hello");
    int fd = (int)MUST(CALL(open, "f", O_WRONLY | O_APPEND, 0));
    NEED(write(fd, "!", 1) == 1, "write");
    EFFECT(probe_holds("f", "hello!"));
}

CHECK(open, "flags=O_CLOEXEC")
{
    file("f", "");
    EFFECT(fcntl((int)MUST(CALL(open, "f", O_RDONLY | O_CLOEXEC, 0)), F_GETFD) == FD_CLOEXEC);
}

CHECK(open, "flags=O_DIRECTORY: a file is ENOTDIR")
{
    file("f", "");
    ANSWERS(CALL(open, "f", O_RDONLY | O_DIRECTORY, 0), ENOTDIR);
}

CHECK(open, "flags=O_NOFOLLOW: a link is ELOOP")
{
    file("f", "");
    NEED(symlink("f", "l") == 0, "symlink");
    ANSWERS(CALL(open, "l", O_RDONLY | O_NOFOLLOW, 0), ELOOP);
}

CHECK(open, "flags=O_PATH: a file, not for reading")
{
    file("f", "hello");
    int fd = (int)MUST(CALL(open, "f", O_PATH, 0));
    char one;
    struct stat status;
    EFFECT(read(fd, &one, 1) == -1 && errno == EBADF && fstat(fd, &status) == 0 && status.st_size == 5);
}

CHECK(open, "flags=O_PATH: a directory to start from")
{
    close(directory("d"));
    int fd = (int)MUST(CALL(open, "d", O_PATH, 0));
    EFFECT(mkdirat(fd, "e", 0755) == 0 && is_directory("d/e"));
}

CHECK(open, "flags=O_TMPFILE: a file without a name, that can get one")
{
    probe_scratch();
    int fd = (int)MUST_OR(CALL(open, ".", O_TMPFILE | O_RDWR, 0600), EOPNOTSUPP);
    NEED(write(fd, "abc", 3) == 3, "write");
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    EFFECT(!probe_exists("named") && linkat(AT_FDCWD, self, AT_FDCWD, "named", AT_SYMLINK_FOLLOW) == 0);
    EFFECT(probe_holds("named", "abc"));
}

CHECK(open, "flags=O_NONBLOCK: a FIFO without a writer")
{
    probe_scratch();
    NEED(mkfifo("p", 0600) == 0, "mkfifo");
    EFFECT(CALL(open, "p", O_WRONLY | O_NONBLOCK, 0) == -ENXIO);
    EFFECT(fcntl((int)MUST(CALL(open, "p", O_RDONLY | O_NONBLOCK, 0)), F_GETFL) & O_NONBLOCK);
    EFFECT(open("p", O_WRONLY | O_CLOEXEC) >= 0);
}

CHECK(open, "flags=O_DIRECT: opened, or the file system cannot")
{
    file("f", "");
    EFFECT(fcntl((int)MUST_OR(CALL(open, "f", O_RDONLY | O_DIRECT, 0), EINVAL), F_GETFL) & O_DIRECT);
}

CHECK(open, "flags=O_SYNC")
{
    file("f", "");
    EFFECT((fcntl((int)MUST(CALL(open, "f", O_WRONLY | O_SYNC, 0)), F_GETFL) & O_SYNC) == O_SYNC);
}

CHECK(open, "flags=O_DSYNC")
{
    file("f", "");
    EFFECT((fcntl((int)MUST(CALL(open, "f", O_WRONLY | O_DSYNC, 0)), F_GETFL) & O_SYNC) == O_DSYNC);
}

CHECK(open, "flags=O_NOATIME: of a file of one's own")
{
    file("f", "hello");
    EFFECT(reads((int)MUST(CALL(open, "f", O_RDONLY | O_NOATIME, 0)), "hello"));
}

CHECK(open, "flags=O_NOCTTY")
{
    file("f", "hello");
    EFFECT(reads((int)MUST(CALL(open, "f", O_RDONLY | O_NOCTTY, 0)), "hello"));
}

CHECK(open, "flags=O_LARGEFILE")
{
    file("f", "hello");
    EFFECT(reads((int)MUST(CALL(open, "f", O_RDONLY | 0100000, 0)), "hello"));
}

CHECK(open, "flags=O_ASYNC: it is ignored")
{
    file("f", "hello");
    EFFECT(reads((int)MUST(CALL(open, "f", O_RDONLY | O_ASYNC, 0)), "hello"));
}

CHECK(open, "flags=O_WRONLY: is not for reading")
{
    file("f", "hello");
    int fd = (int)MUST(CALL(open, "f", O_WRONLY, 0));
    char one;
    EFFECT(read(fd, &one, 1) == -1 && errno == EBADF && write(fd, "J", 1) == 1 && probe_holds("f", "Jello"));
}

CHECK(open, "a name that does not exist is ENOENT")
{
    probe_scratch();
    ANSWERS(CALL(open, "nothing", O_RDONLY, 0), ENOENT);
}

CHECK(open, "a loop of links is ELOOP")
{
    probe_scratch();
    NEED(symlink("b", "a") == 0 && symlink("a", "b") == 0, "symlink");
    ANSWERS(CALL(open, "a", O_RDONLY, 0), ELOOP);
}

CHECK(open, "a name of 300 letters is ENAMETOOLONG")
{
    char name[301];
    memset(name, 'n', 300);
    name[300] = 0;
    probe_scratch();
    ANSWERS(CALL(open, name, O_RDONLY | O_CREAT, 0600), ENAMETOOLONG);
}

CHECK(creat, "truncates what was there")
{
    file("f", "hello");
    int fd = (int)MUST(CALL(creat, "f", 0600));
    EFFECT(probe_holds("f", "") && write(fd, "x", 1) == 1 && probe_holds("f", "x"));
}

CHECK(openat, "from a directory")
{
    int dir = directory("d");
    file("d/f", "hello");
    EFFECT(reads((int)MUST(CALL(openat, dir, "f", O_RDONLY, 0)), "hello"));
}

CHECK(openat, "flags=O_TMPFILE: a file without a name, or the file system cannot")
{
    int dir = directory("d");
    int fd = (int)MUST_OR(CALL(openat, dir, ".", O_TMPFILE | O_RDWR, 0600), EOPNOTSUPP);
    struct stat status;
    EFFECT(write(fd, "abc", 3) == 3 && fstat(fd, &status) == 0 && status.st_nlink == 0 && status.st_size == 3);
}

CHECK(openat, "a file to start from is ENOTDIR")
{
    ANSWERS(CALL(openat, probe_file("f", ""), "g", O_RDONLY, 0), ENOTDIR);
}

static long open_how(int dir, const char *name, uint64_t flags, uint64_t resolve)
{
    struct open_how how = {.flags = flags, .resolve = resolve};
    return CALL(openat2, dir, name, &how, sizeof how);
}

CHECK(openat2, "reads a file")
{
    file("f", "hello");
    EFFECT(reads((int)MUST(open_how(AT_FDCWD, "f", O_RDONLY, 0)), "hello"));
}

CHECK(openat2, "RESOLVE_BENEATH keeps out of the parent")
{
    int dir = directory("d");
    file("f", "hello");
    file("d/g", "world");
    EFFECT(reads((int)MUST(open_how(dir, "g", O_RDONLY, RESOLVE_BENEATH)), "world"));
    EFFECT(open_how(dir, "../f", O_RDONLY, RESOLVE_BENEATH) == -EXDEV);
}

CHECK(openat2, "RESOLVE_IN_ROOT makes the directory the root")
{
    int dir = directory("d");
    file("d/g", "world");
    EFFECT(reads((int)MUST(open_how(dir, "/../g", O_RDONLY, RESOLVE_IN_ROOT)), "world"));
}

CHECK(openat2, "RESOLVE_NO_SYMLINKS refuses a link")
{
    file("f", "hello");
    NEED(symlink("f", "l") == 0, "symlink");
    ANSWERS(open_how(AT_FDCWD, "l", O_RDONLY, RESOLVE_NO_SYMLINKS), ELOOP);
}

CHECK(openat2, "RESOLVE_NO_MAGICLINKS refuses /proc/self/fd")
{
    int fd = probe_file("f", "hello");
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    ANSWERS(open_how(AT_FDCWD, self, O_RDONLY, RESOLVE_NO_MAGICLINKS), ELOOP);
}

CHECK(openat2, "RESOLVE_NO_XDEV refuses another mount")
{
    ANSWERS(open_how(AT_FDCWD, "/proc/version", O_RDONLY, RESOLVE_NO_XDEV), EXDEV);
}

CHECK(openat2, "an unknown flag is EINVAL")
{
    file("f", "hello");
    ANSWERS(open_how(AT_FDCWD, "f", 1UL << 40, 0), EINVAL);
}

/* -- making and removing -- */

CHECK(mknod, "a FIFO")
{
    probe_scratch();
    MUST(CALL(mknod, "p", S_IFIFO | 0600, 0));
    struct stat status;
    EFFECT(lstat("p", &status) == 0 && S_ISFIFO(status.st_mode));
}

CHECK(mknod, "a plain file")
{
    probe_scratch();
    MUST(CALL(mknod, "f", S_IFREG | 0600, 0));
    EFFECT(probe_holds("f", ""));
}

CHECK(mknodat, "a socket's name")
{
    int dir = directory("d");
    MUST(CALL(mknodat, dir, "s", S_IFSOCK | 0600, 0));
    struct stat status;
    EFFECT(lstat("d/s", &status) == 0 && S_ISSOCK(status.st_mode));
}

CHECK(mknodat, "the null device: made, or not without privilege")
{
    probe_scratch();
    MUST_OR(CALL(mknodat, AT_FDCWD, "null", S_IFCHR | 0600, 0x103), EPERM);
    struct stat status;
    EFFECT(lstat("null", &status) == 0 && S_ISCHR(status.st_mode) && status.st_rdev == 0x103);
}

CHECK(mkdir, "with the mode, less the umask")
{
    probe_scratch();
    umask(022);
    MUST(CALL(mkdir, "d", 0777));
    struct stat status;
    EFFECT(lstat("d", &status) == 0 && S_ISDIR(status.st_mode) && (status.st_mode & 0777) == 0755);
}

CHECK(mkdirat, "from a directory")
{
    MUST(CALL(mkdirat, directory("d"), "e", 0755));
    EFFECT(is_directory("d/e"));
}

CHECK(rmdir, "an empty one goes, another is ENOTEMPTY")
{
    directory("d");
    file("d/f", "");
    EFFECT(CALL(rmdir, "d") == -ENOTEMPTY && unlink("d/f") == 0);
    MUST(CALL(rmdir, "d"));
    EFFECT(!probe_exists("d"));
}

CHECK(unlink, "an open file stays readable")
{
    int fd = probe_file("f", "hello");
    MUST(CALL(unlink, "f"));
    EFFECT(!probe_exists("f") && reads(fd, "hello"));
    struct stat status;
    EFFECT(fstat(fd, &status) == 0 && status.st_nlink == 0);
}

CHECK(unlink, "a directory is EISDIR")
{
    directory("d");
    ANSWERS(CALL(unlink, "d"), EISDIR);
}

CHECK(unlinkat, "flag=AT_REMOVEDIR")
{
    int dir = directory("d");
    NEED(mkdir("d/e", 0755) == 0, "mkdir");
    MUST(CALL(unlinkat, dir, "e", AT_REMOVEDIR));
    EFFECT(!probe_exists("d/e"));
}

CHECK(unlinkat, "from a directory")
{
    int dir = directory("d");
    file("d/f", "");
    MUST(CALL(unlinkat, dir, "f", 0));
    EFFECT(!probe_exists("d/f"));
}

CHECK(rename, "replaces a file")
{
    file("f", "hello");
    file("g", "world");
    MUST(CALL(rename, "f", "g"));
    EFFECT(!probe_exists("f") && probe_holds("g", "hello"));
}

CHECK(rename, "moves a directory with its files")
{
    directory("d");
    directory("e");
    file("d/f", "hello");
    MUST(CALL(rename, "d", "e/d"));
    EFFECT(!probe_exists("d") && probe_holds("e/d/f", "hello"));
}

CHECK(rename, "a directory into itself is EINVAL")
{
    directory("d");
    ANSWERS(CALL(rename, "d", "d/e"), EINVAL);
}

CHECK(renameat, "between two directories")
{
    int from = directory("d"), to = directory("e");
    file("d/f", "hello");
    MUST(CALL(renameat, from, "f", to, "g"));
    EFFECT(!probe_exists("d/f") && probe_holds("e/g", "hello"));
}

CHECK(renameat2, "flags=RENAME_NOREPLACE: what is there stays")
{
    file("f", "hello");
    file("g", "world");
    EFFECT(CALL(renameat2, AT_FDCWD, "f", AT_FDCWD, "g", RENAME_NOREPLACE) == -EEXIST && probe_holds("g", "world"));
    MUST(CALL(renameat2, AT_FDCWD, "f", AT_FDCWD, "h", RENAME_NOREPLACE));
    EFFECT(probe_holds("h", "hello"));
}

CHECK(renameat2, "flags=RENAME_EXCHANGE")
{
    file("f", "hello");
    file("g", "world");
    MUST(CALL(renameat2, AT_FDCWD, "f", AT_FDCWD, "g", RENAME_EXCHANGE));
    EFFECT(probe_holds("f", "world") && probe_holds("g", "hello"));
}

CHECK(renameat2, "flags=RENAME_WHITEOUT: a whiteout stays behind, or the file system cannot")
{
    file("f", "hello");
    MUST_OR(CALL(renameat2, AT_FDCWD, "f", AT_FDCWD, "g", RENAME_WHITEOUT), EPERM, EINVAL);
    struct stat status;
    EFFECT(probe_holds("g", "hello") && lstat("f", &status) == 0 && S_ISCHR(status.st_mode));
}

CHECK(link, "one file, two names")
{
    file("f", "hello");
    MUST(CALL(link, "f", "g"));
    struct stat one, two;
    NEED(stat("f", &one) == 0 && stat("g", &two) == 0, "stat");
    EFFECT(one.st_ino == two.st_ino && one.st_nlink == 2 && probe_holds("g", "hello"));
}

CHECK(linkat, "flags=AT_SYMLINK_FOLLOW")
{
    file("f", "hello");
    NEED(symlink("f", "l") == 0, "symlink");
    MUST(CALL(linkat, AT_FDCWD, "l", AT_FDCWD, "g", AT_SYMLINK_FOLLOW));
    struct stat status;
    EFFECT(lstat("g", &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 2);
}

CHECK(linkat, "flags=AT_EMPTY_PATH: made, or not without privilege")
{
    int fd = probe_file("f", "hello");
    MUST_OR(CALL(linkat, fd, "", AT_FDCWD, "g", AT_EMPTY_PATH), ENOENT);
    EFFECT(probe_holds("g", "hello"));
}

CHECK(symlink, "leads to its target")
{
    file("f", "hello");
    MUST(CALL(symlink, "f", "l"));
    char target[16] = {0};
    EFFECT(readlink("l", target, sizeof target) == 1 && target[0] == 'f' && probe_holds("l", "hello"));
}

CHECK(symlinkat, "from a directory")
{
    MUST(CALL(symlinkat, "nowhere", directory("d"), "l"));
    char target[16] = {0};
    EFFECT(readlink("d/l", target, sizeof target) == 7 && !strcmp(target, "nowhere"));
}

/* -- looking -- */

static bool describes(const struct stat *status, long size)
{
    return S_ISREG(status->st_mode) && status->st_size == size && status->st_nlink == 1 && status->st_uid == geteuid();
}

CHECK(stat, "follows a link")
{
    file("f", "hello");
    NEED(symlink("f", "l") == 0, "symlink");
    struct stat status = {0};
    MUST(CALL(stat, "l", &status));
    EFFECT(describes(&status, 5));
}

CHECK(fstat, "follows what is written")
{
    int fd = probe_file("f", "hello");
    struct stat status = {0};
    NEED(pwrite(fd, "!", 1, 5) == 1, "pwrite");
    MUST(CALL(fstat, fd, &status));
    EFFECT(describes(&status, 6));
}

CHECK(fstat, "knows a pipe")
{
    int ends[2];
    struct stat status = {0};
    probe_pipe(ends);
    MUST(CALL(fstat, ends[0], &status));
    EFFECT(S_ISFIFO(status.st_mode));
}

CHECK(lstat, "tells about a link itself")
{
    probe_scratch();
    NEED(symlink("nowhere", "l") == 0, "symlink");
    struct stat status = {0};
    MUST(CALL(lstat, "l", &status));
    EFFECT(S_ISLNK(status.st_mode) && status.st_size == 7);
}

CHECK(newfstatat, "flag=AT_SYMLINK_NOFOLLOW")
{
    int dir = directory("d");
    NEED(symlink("nowhere", "d/l") == 0, "symlink");
    struct stat status = {0};
    MUST(CALL(newfstatat, dir, "l", &status, AT_SYMLINK_NOFOLLOW));
    EFFECT(S_ISLNK(status.st_mode));
}

CHECK(newfstatat, "flag=AT_EMPTY_PATH")
{
    int fd = probe_file("f", "hello");
    struct stat status = {0};
    MUST(CALL(newfstatat, fd, "", &status, AT_EMPTY_PATH));
    EFFECT(describes(&status, 5));
}

CHECK(newfstatat, "flag=AT_NO_AUTOMOUNT")
{
    file("f", "hello");
    struct stat status = {0};
    MUST(CALL(newfstatat, AT_FDCWD, "f", &status, AT_NO_AUTOMOUNT));
    EFFECT(describes(&status, 5));
}

CHECK(statx, "mask=STATX_BASIC_STATS")
{
    file("f", "hello");
    struct statx status = {0};
    MUST(CALL(statx, AT_FDCWD, "f", 0, STATX_BASIC_STATS, &status));
    EFFECT((status.stx_mask & STATX_BASIC_STATS) == STATX_BASIC_STATS && status.stx_size == 5);
    EFFECT(status.stx_nlink == 1 && status.stx_uid == geteuid() && (status.stx_mode & S_IFMT) == S_IFREG);
}

CHECK(statx, "mask=STATX_BTIME: a time of birth, or the file system knows none")
{
    file("f", "hello");
    struct statx status = {0};
    MUST(CALL(statx, AT_FDCWD, "f", 0, STATX_BTIME, &status));
    EFFECT(!(status.stx_mask & STATX_BTIME) || status.stx_btime.tv_sec > 1500000000);
}

CHECK(statx, "mask=STATX_MNT_ID")
{
    file("f", "hello");
    struct statx status = {0};
    MUST(CALL(statx, AT_FDCWD, "f", 0, STATX_MNT_ID, &status));
    EFFECT(status.stx_mask & STATX_MNT_ID);
}

/* What a file system does not know it leaves out of the answer's mask. */
static void may_know(unsigned mask)
{
    file("f", "hello");
    struct statx status = {0};
    MUST(CALL(statx, AT_FDCWD, "f", 0, mask | STATX_SIZE, &status));
    EFFECT(status.stx_size == 5);
}

CHECK(statx, "mask=STATX_DIOALIGN: or not known")
{
    may_know(0x2000);
}
CHECK(statx, "mask=STATX_MNT_ID_UNIQUE: or not known")
{
    may_know(0x4000);
}
CHECK(statx, "mask=STATX_SUBVOL: or not known")
{
    may_know(0x8000);
}
CHECK(statx, "mask=STATX_WRITE_ATOMIC: or not known")
{
    may_know(0x10000);
}
CHECK(statx, "mask=STATX_DIO_READ_ALIGN: or not known")
{
    may_know(0x20000);
}

CHECK(statx, "flags=AT_EMPTY_PATH")
{
    int fd = probe_file("f", "hello");
    struct statx status = {0};
    MUST(CALL(statx, fd, "", AT_EMPTY_PATH, STATX_SIZE, &status));
    EFFECT(status.stx_size == 5);
}

CHECK(statx, "flags=AT_NO_AUTOMOUNT")
{
    file("f", "hello");
    struct statx status = {0};
    MUST(CALL(statx, AT_FDCWD, "f", AT_NO_AUTOMOUNT, STATX_SIZE, &status));
    EFFECT(status.stx_size == 5);
}

CHECK(statx, "flags=AT_STATX_DONT_SYNC")
{
    file("f", "hello");
    struct statx status = {0};
    MUST(CALL(statx, AT_FDCWD, "f", AT_STATX_DONT_SYNC, STATX_SIZE, &status));
    EFFECT(status.stx_size == 5);
}

CHECK(statx, "flags=AT_STATX_FORCE_SYNC")
{
    file("f", "hello");
    struct statx status = {0};
    MUST(CALL(statx, AT_FDCWD, "f", AT_STATX_FORCE_SYNC, STATX_SIZE, &status));
    EFFECT(status.stx_size == 5);
}

CHECK(access, "mode=X_OK: a file that nobody may execute")
{
    file("f", "hello");
    EFFECT(MUST(CALL(access, "f", R_OK | W_OK)) == 0);
    ANSWERS(CALL(access, "f", X_OK), EACCES);
}

CHECK(access, "mode=F_OK: there or not")
{
    file("f", "hello");
    MUST(CALL(access, "f", F_OK));
    ANSWERS(CALL(access, "g", F_OK), ENOENT);
}

CHECK(faccessat, "from a directory")
{
    int dir = directory("d");
    file("d/f", "hello");
    MUST(CALL(faccessat, dir, "f", R_OK));
    ANSWERS(CALL(faccessat, dir, "f", X_OK), EACCES);
}

CHECK(faccessat2, "flags=AT_SYMLINK_NOFOLLOW: of a link that leads nowhere")
{
    probe_scratch();
    NEED(symlink("nowhere", "l") == 0, "symlink");
    EFFECT(CALL(faccessat2, AT_FDCWD, "l", F_OK, 0) == -ENOENT);
    MUST(CALL(faccessat2, AT_FDCWD, "l", F_OK, AT_SYMLINK_NOFOLLOW));
}

CHECK(faccessat2, "flags=AT_EACCESS")
{
    file("f", "hello");
    MUST(CALL(faccessat2, AT_FDCWD, "f", R_OK, AT_EACCESS));
    ANSWERS(CALL(faccessat2, AT_FDCWD, "f", X_OK, AT_EACCESS), EACCES);
}

CHECK(faccessat2, "flags=AT_EMPTY_PATH")
{
    MUST(CALL(faccessat2, probe_file("f", ""), "", R_OK, AT_EMPTY_PATH));
}

CHECK(readlink, "cuts to the buffer")
{
    probe_scratch();
    NEED(symlink("nowhere", "l") == 0, "symlink");
    char target[16] = "................";
    EFFECT(MUST(CALL(readlink, "l", target, 3)) == 3 && !memcmp(target, "now.", 4));
}

CHECK(readlinkat, "an empty name means the link that is held")
{
    probe_scratch();
    NEED(symlink("nowhere", "l") == 0, "symlink");
    int fd = open("l", O_PATH | O_NOFOLLOW | O_CLOEXEC);
    NEED(fd >= 0, "open with O_PATH");
    char target[16] = {0};
    EFFECT(MUST(CALL(readlinkat, fd, "", target, 16)) == 7 && !strcmp(target, "nowhere"));
}

static int three_files(void)
{
    int dir = directory("d");
    file("d/one", "");
    file("d/two", "");
    file("d/three", "");
    return dir;
}

CHECK(getdents64, "lists every name once")
{
    int dir = three_files(), seen = 0, others = 0;
    char entries[4096];
    long length = MUST(CALL(getdents64, dir, entries, sizeof entries));
    for (long at = 0; at < length; at += *(uint16_t *)(entries + at + 16)) {
        const char *name = entries + at + 19;
        bool ours = !strcmp(name, "one") || !strcmp(name, "two") || !strcmp(name, "three");
        seen += ours && entries[at + 18] == DT_REG;
        others += !ours;
    }
    EFFECT(seen == 3 && others == 2);
    EFFECT(MUST(CALL(getdents64, dir, entries, sizeof entries)) == 0);
}

CHECK(getdents64, "a buffer too small for one entry is EINVAL")
{
    char entries[8];
    ANSWERS(CALL(getdents64, three_files(), entries, sizeof entries), EINVAL);
}

CHECK(getdents, "lists every name once")
{
    int dir = three_files(), count = 0;
    char entries[4096];
    long length = MUST(CALL(getdents, dir, entries, sizeof entries));
    for (long at = 0; at < length; at += *(uint16_t *)(entries + at + 16))
        count++;
    EFFECT(count == 5);
}

CHECK(statfs, "names a file system with blocks")
{
    probe_scratch();
    struct statfs status = {0};
    MUST(CALL(statfs, ".", &status));
    EFFECT(status.f_bsize > 0 && status.f_namelen >= 255);
}

CHECK(fstatfs, "agrees with statfs")
{
    int dir = directory("d");
    struct statfs one = {0}, two = {0};
    MUST(CALL(fstatfs, dir, &one));
    NEED(statfs("d", &two) == 0, "statfs");
    EFFECT(one.f_type == two.f_type && one.f_bsize == two.f_bsize && one.f_bsize > 0);
}

CHECK(ustat, "tells about the file system of a device")
{
    probe_scratch();
    struct stat status;
    char answer[64] = {0};
    NEED(stat(".", &status) == 0, "stat");
    MUST(CALL(ustat, status.st_dev, answer));
}

CHECK(sysfs, "option=3: counts the types of file systems")
{
    EFFECT(MUST(CALL(sysfs, 3, 0, 0)) > 0);
}

/* -- handles -- */

struct handle {
    unsigned bytes;
    int type;
    unsigned char content[128];
};

CHECK(name_to_handle_at, "a handle, or the file system has none")
{
    file("f", "hello");
    struct handle handle = {.bytes = 128};
    int mount = -1;
    MUST_OR(CALL(name_to_handle_at, AT_FDCWD, "f", &handle, &mount, 0), EOPNOTSUPP);
    EFFECT(handle.bytes > 0 && handle.bytes <= 128 && mount >= 0);
}

CHECK(open_by_handle_at, "a handle that is none: not without privilege, or stale")
{
    probe_scratch();
    int dir = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct handle handle = {.bytes = 8, .type = 1};
    ANSWERS(CALL(open_by_handle_at, dir, &handle, O_RDONLY), EPERM, ESTALE, EINVAL, EOPNOTSUPP);
}

/* -- where we are -- */

CHECK(getcwd, "the directory that chdir chose")
{
    close(directory("d"));
    char before[512] = {0}, path[512] = {0};
    NEED(getcwd(before, sizeof before) && chdir("d") == 0, "chdir");
    long length = MUST(CALL(getcwd, path, sizeof path));
    EFFECT(length == (long)strlen(path) + 1 && length == (long)strlen(before) + 3 && !strcmp(path + length - 3, "/d"));
}

CHECK(getcwd, "a buffer too small is ERANGE")
{
    char path[2];
    probe_scratch();
    ANSWERS(CALL(getcwd, path, sizeof path), ERANGE);
}

CHECK(chdir, "names start there")
{
    close(directory("d"));
    file("d/f", "hello");
    MUST(CALL(chdir, "d"));
    EFFECT(probe_holds("f", "hello"));
}

CHECK(fchdir, "names start there")
{
    int dir = directory("d");
    file("d/f", "hello");
    MUST(CALL(fchdir, dir));
    EFFECT(probe_holds("f", "hello"));
}

CHECK(umask, "tells the old one, and counts for new files")
{
    umask(022);
    EFFECT(MUST(CALL(umask, 077)) == 022);
    file("f", "");
    struct stat status;
    EFFECT(stat("f", &status) == 0 && (status.st_mode & 0777) == 0600);
}

CHECK(chroot, "a name that does not exist")
{
    probe_scratch();
    ANSWERS(CALL(chroot, "nothing"), ENOENT, EPERM);
}

CHECK(chroot, "the scratch directory becomes the root, or not without privilege")
{
    file("f", "hello");
    MUST_OR(CALL(chroot, "."), EPERM); /* this check's process ends in a moment */
    EFFECT(probe_holds("/f", "hello"));
}

/* -- watching -- */

static bool tells_of(int queue, uint32_t mask, const char *name)
{
    char events[4096] __attribute__((aligned(8)));
    ssize_t length = read(queue, events, sizeof events);
    for (ssize_t at = 0; at < length;) {
        const struct inotify_event *event = (const void *)(events + at);
        if ((event->mask & mask) && (!*name || (event->len && !strcmp(event->name, name))))
            return true;
        at += (ssize_t)(sizeof *event + event->len);
    }
    return false;
}

CHECK(inotify_init, "a queue that tells of a new file")
{
    int queue = (int)MUST(CALL(inotify_init));
    close(directory("d"));
    NEED(inotify_add_watch(queue, "d", IN_CREATE) >= 0, "inotify_add_watch");
    file("d/f", "");
    EFFECT(tells_of(queue, IN_CREATE, "f"));
}

CHECK(inotify_init1, "flags=IN_NONBLOCK")
{
    int queue = (int)MUST(CALL(inotify_init1, IN_NONBLOCK));
    char event[64];
    EFFECT(read(queue, event, sizeof event) == -1 && errno == EAGAIN);
}

CHECK(inotify_init1, "flags=IN_CLOEXEC")
{
    EFFECT(fcntl((int)MUST(CALL(inotify_init1, IN_CLOEXEC)), F_GETFD) == FD_CLOEXEC);
}

static int watch(const char *name, uint32_t mask)
{
    int queue = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    NEED(queue >= 0, "inotify_init1");
    MUST(CALL(inotify_add_watch, queue, name, mask));
    return queue;
}

CHECK(inotify_add_watch, "mask=IN_CREATE")
{
    close(directory("d"));
    int queue = watch("d", IN_CREATE);
    file("d/f", "");
    EFFECT(tells_of(queue, IN_CREATE, "f"));
}

CHECK(inotify_add_watch, "mask=IN_MODIFY")
{
    int fd = probe_file("f", "hello");
    int queue = watch("f", IN_MODIFY);
    NEED(write(fd, "J", 1) == 1, "write");
    EFFECT(tells_of(queue, IN_MODIFY, ""));
}

CHECK(inotify_add_watch, "mask=IN_DELETE")
{
    close(directory("d"));
    file("d/f", "");
    int queue = watch("d", IN_DELETE);
    NEED(unlink("d/f") == 0, "unlink");
    EFFECT(tells_of(queue, IN_DELETE, "f"));
}

CHECK(inotify_add_watch, "mask=IN_MOVED_TO")
{
    close(directory("d"));
    file("f", "");
    int queue = watch("d", IN_MOVED_TO);
    NEED(rename("f", "d/g") == 0, "rename");
    EFFECT(tells_of(queue, IN_MOVED_TO, "g"));
}

CHECK(inotify_add_watch, "mask=IN_CLOSE_WRITE")
{
    int fd = probe_file("f", "hello");
    int queue = watch("f", IN_CLOSE_WRITE);
    NEED(close(fd) == 0, "close");
    EFFECT(tells_of(queue, IN_CLOSE_WRITE, ""));
}

CHECK(inotify_add_watch, "mask=IN_ONLYDIR: a file is ENOTDIR")
{
    int queue = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    file("f", "");
    NEED(queue >= 0, "inotify_init1");
    ANSWERS(CALL(inotify_add_watch, queue, "f", IN_ONLYDIR | IN_CREATE), ENOTDIR);
}

CHECK(inotify_rm_watch, "silence, but for a last event")
{
    close(directory("d"));
    int queue = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    int mark = inotify_add_watch(queue, "d", IN_CREATE);
    NEED(mark >= 0, "inotify_add_watch");
    MUST(CALL(inotify_rm_watch, queue, mark));
    EFFECT(tells_of(queue, IN_IGNORED, ""));
    file("d/f", "");
    EFFECT(!tells_of(queue, IN_CREATE, "f"));
}

CHECK(fanotify_init, "a queue")
{
    int queue = (int)MUST(CALL(fanotify_init, 0x200 /* FAN_REPORT_FID: no privilege needed */, O_RDONLY));
    EFFECT(fcntl(queue, F_GETFD) == 0);
}

CHECK(fanotify_mark, "a descriptor that is no queue")
{
    ANSWERS(CALL(fanotify_mark, probe_memfd(0), 1, 0x100, AT_FDCWD, "/"), EINVAL);
}

CHECK(fanotify_mark, "a descriptor that is not open")
{
    ANSWERS(CALL(fanotify_mark, 777, 1, 0x100, AT_FDCWD, "/"), EBADF);
}
