/* build: files_statx
 *
 * statx(2) with all masks and flags, statfs(2) of each tree, the flags of the access calls, and the old forms of utime.
 */
#include "step.h"

#include <linux/magic.h>
#include <linux/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <utime.h>

static struct statx sx;
static int x(const char *path, int flags, unsigned mask) {
    memset(&sx, 0xaa, sizeof sx);
    return syscall(SYS_statx, AT_FDCWD, path, flags, mask, &sx);
}

static void describe(const char *path, int flags, unsigned mask) {
    if (x(path, flags, mask) < 0) {
        say("statx %s %x %x: %s", path, flags, mask, errname(errno));
        return;
    }
    struct stat st;
    int follow = !(flags & AT_SYMLINK_NOFOLLOW);
    MUST(follow ? stat(path, &st) : lstat(path, &st));
    /* Fields that were not asked for may be there or not: that depends on the kernel and the file system. */
    int counts = !strcmp(path, "/proc"); /* its link count is the number of processes, and others come and go */
    int timed = (mask & (STATX_MTIME | STATX_CTIME)) == (STATX_MTIME | STATX_CTIME);
    say("statx %s %x %x: basic %x type %x, kind and size %d, inode %d, blocks %d, times %d, device %d, owner %d", path,
        flags, mask, sx.stx_mask & mask & 0x7ff, sx.stx_mode & S_IFMT, st.st_mode == sx.stx_mode && (uint64_t)st.st_size == sx.stx_size,
        sx.stx_ino == st.st_ino, sx.stx_blocks == (uint64_t)st.st_blocks,
        !timed || (sx.stx_mtime.tv_sec == st.st_mtim.tv_sec && sx.stx_mtime.tv_nsec == st.st_mtim.tv_nsec &&
            sx.stx_ctime.tv_nsec == st.st_ctim.tv_nsec),
        sx.stx_dev_major == (st.st_dev >> 8 & 0xfff) && sx.stx_dev_minor == ((st.st_dev & 0xff) | (st.st_dev >> 12 & 0xfff00)),
        sx.stx_uid == st.st_uid && sx.stx_gid == st.st_gid && (counts || sx.stx_nlink == st.st_nlink));
}

static const char *kind_of(long type) {
    return type == PROC_SUPER_MAGIC ? "proc" : type == SYSFS_MAGIC ? "sysfs" : "disk or memory";
}

static void space(const char *path) {
    struct statfs f;
    struct statvfs v;
    if (statfs(path, &f) < 0 || statvfs(path, &v) < 0) {
        say("statfs %s: %s", path, errname(errno));
        return;
    }
    say("statfs %s: %s, names %ld, block size %d, free within all %d, same as statvfs %d, has blocks %d, flags valid %d", path,
        kind_of(f.f_type), (long)f.f_namelen, f.f_bsize > 0, f.f_bavail <= f.f_bfree && f.f_bfree <= f.f_blocks,
        v.f_bsize == (unsigned long)f.f_bsize && v.f_blocks == f.f_blocks && v.f_namemax == (unsigned long)f.f_namelen,
        f.f_blocks > 0, (f.f_flags & 0x20) != 0);
    int fd = open(path, O_RDONLY | O_NONBLOCK);
    struct statfs g = {0};
    if (fd >= 0)
        say("fstatfs agrees %d", fstatfs(fd, &g) == 0 && g.f_type == f.f_type && g.f_bsize == f.f_bsize &&
                                     !memcmp(&f.f_fsid, &g.f_fsid, sizeof f.f_fsid) && f.f_flags == g.f_flags);
    close(fd);
}

static void times(const char *what, const char *path) {
    struct stat st;
    MUST(lstat(path, &st));
    say("%s: atime %ld.%09ld mtime %ld.%09ld", what, (long)st.st_atim.tv_sec, st.st_atim.tv_nsec, (long)st.st_mtim.tv_sec,
        st.st_mtim.tv_nsec);
}

int main(void) {
    umask(022);
    put_text("file", "text\n", 0644);
    put_text("program", "#!/bin/true\n", 0755);
    put_text("none", "x", 0);
    MUST(mkdir("dir", 0755));
    MUST(symlink("file", "link"));
    MUST(symlink("nowhere", "dangling"));
    MUST(mkfifo("fifo", 0600));
    static const char *const paths[] = {"file", "dir", "link", "dangling", "fifo", ".", "/", "/dev/null", "/proc", "/proc/self",
                                        "/proc/self/status", "/proc/self/fd", "/sys", "missing", ""};
    static const unsigned masks[] = {0, STATX_TYPE, STATX_MODE, STATX_SIZE | STATX_INO, STATX_BASIC_STATS, 0xfff, 0x7fffffff,
                                     0x80000000};
    static const int flags[] = {0, AT_SYMLINK_NOFOLLOW, AT_NO_AUTOMOUNT, AT_STATX_FORCE_SYNC, AT_STATX_DONT_SYNC, 0x6000, 0x40000,
                                AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC};
    for (unsigned p = 0; p < sizeof paths / sizeof *paths; p++)
        for (unsigned f = 0; f < sizeof flags / sizeof *flags; f++)
            for (unsigned m = 0; m < sizeof masks / sizeof *masks; m++)
                describe(paths[p], flags[f], masks[m]);
    /* the mount and the unique mount of two names agree exactly when the names share a mount */
    MUST(x("file", 0, STATX_MNT_ID));
    uint64_t mount = sx.stx_mnt_id;
    say("mount id asked %d", (sx.stx_mask & STATX_MNT_ID) != 0);
    MUST(x("dir", 0, STATX_MNT_ID));
    say("same directory, same mount %d", sx.stx_mnt_id == mount);
    MUST(x("/proc", 0, STATX_MNT_ID));
    say("proc is another mount %d", sx.stx_mnt_id != mount);
    say("proc is a mount root %d, known %d", (sx.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0,
        (sx.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0);
    MUST(x("dir", 0, STATX_BASIC_STATS));
    say("dir is a mount root %d, known %d", (sx.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0,
        (sx.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0);
    MUST(x("file", 0, STATX_BTIME));
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    say("birth time known %d and just now %d", (sx.stx_mask & STATX_BTIME) != 0, llabs(sx.stx_btime.tv_sec - now.tv_sec) < 100);
    MUST(x("/dev/null", 0, STATX_BASIC_STATS));
    say("null is %u:%u", sx.stx_rdev_major, sx.stx_rdev_minor);
    int held = MUST(open("file", O_RDONLY)), path_only = MUST(open("link", O_PATH | O_NOFOLLOW));
    STEP(syscall(SYS_statx, held, "", AT_EMPTY_PATH, 0x7ff, &sx));
    STEP(syscall(SYS_statx, held, "", 0, 0x7ff, &sx));
    STEP(syscall(SYS_statx, held, NULL, AT_EMPTY_PATH, 0x7ff, &sx));
    STEP(syscall(SYS_statx, held, "x", AT_EMPTY_PATH, 0x7ff, &sx));
    STEP(syscall(SYS_statx, -1, "", AT_EMPTY_PATH, 0x7ff, &sx));
    STEP(syscall(SYS_statx, -1, "file", 0, 0x7ff, &sx));
    STEP(syscall(SYS_statx, path_only, "", AT_EMPTY_PATH, 0x7ff, &sx));
    say("the link itself %o", sx.stx_mode & S_IFMT);

    static const char *const trees[] = {".", "file", "/", "/proc", "/proc/self/status", "/sys", "/dev", "/dev/shm", "/dev/null", "/tmp",
                                        "missing", "none", "file/x"};
    for (unsigned t = 0; t < sizeof trees / sizeof *trees; t++)
        space(trees[t]);
    struct statfs sf;
    int ends[2];
    MUST(pipe(ends));
    STEP(fstatfs(ends[0], &sf));
    say("a pipe's type %lx", (long)sf.f_type);
    STEP(fstatfs(-1, &sf));

    static const char *const names[] = {"file", "program", "none", "dir", "link", "dangling", "missing", ""};
    static const int access_flags[] = {0, AT_EACCESS, AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH, AT_EACCESS | AT_SYMLINK_NOFOLLOW, 0x40, 0x1};
    for (unsigned n = 0; n < sizeof names / sizeof *names; n++)
        for (unsigned f = 0; f < sizeof access_flags / sizeof *access_flags; f++)
            for (int mode = 0; mode < 9; mode++) {
                errno = 0;
                long result = syscall(SYS_faccessat2, AT_FDCWD, names[n], mode, access_flags[f]);
                say("faccessat2 %s %d %x = %s", names[n], mode, access_flags[f], result ? errname(errno) : "ok");
            }
    STEP(syscall(SYS_faccessat2, held, "", R_OK, AT_EMPTY_PATH));
    STEP(syscall(SYS_faccessat2, held, "", X_OK, AT_EMPTY_PATH));
    STEP(syscall(SYS_faccessat2, path_only, "", F_OK, AT_EMPTY_PATH));
    STEP(syscall(SYS_faccessat2, ends[0], "", R_OK, AT_EMPTY_PATH));
    STEP(syscall(SYS_faccessat2, -1, "", F_OK, AT_EMPTY_PATH));
    STEP(syscall(452, AT_FDCWD, "link", 0600, AT_SYMLINK_NOFOLLOW));
    STEP(syscall(452, AT_FDCWD, "file", 0600, AT_SYMLINK_NOFOLLOW));
    STEP(syscall(452, held, "", 0640, AT_EMPTY_PATH));
    STEP(syscall(452, path_only, "", 0640, AT_EMPTY_PATH));
    STEP(syscall(452, AT_FDCWD, "file", 0600, 0x40));
    int file_path = MUST(open("file", O_PATH));
    STEP(syscall(452, file_path, "", 0644, AT_EMPTY_PATH));
    STEP(fchmod(file_path, 0600));

    struct utimbuf ut = {100, 200};
    struct timeval tv[2] = {{300, 5}, {400, 6}}, bad[2] = {{1, 1000000}, {1, 0}}, negative[2] = {{1, -1}, {1, 0}};
    STEP(syscall(SYS_utime, "file", &ut));
    times("utime", "file");
    STEP(syscall(SYS_utimes, "link", tv));
    times("utimes", "file");
    STEP(syscall(SYS_utimes, "file", bad));
    STEP(syscall(SYS_utimes, "file", negative));
    STEP(syscall(SYS_utimes, "missing", bad));
    STEP(syscall(SYS_futimesat, held, NULL, tv));
    STEP(syscall(SYS_futimesat, AT_FDCWD, NULL, tv));
    STEP(syscall(SYS_futimesat, -1, NULL, tv));
    STEP(syscall(SYS_futimesat, AT_FDCWD, "dir", tv));
    times("futimesat", "dir");
    struct timespec omit[2] = {{0, UTIME_OMIT}, {7, 9}}, now_and[2] = {{0, UTIME_NOW}, {0, UTIME_OMIT}}, odd[2] = {{0, -5}, {0, 0}};
    STEP(utimensat(AT_FDCWD, "file", omit, 0));
    times("omit", "file");
    STEP(utimensat(AT_FDCWD, "file", now_and, 0));
    STEP(utimensat(AT_FDCWD, "file", odd, 0));
    STEP(utimensat(AT_FDCWD, "missing", odd, 0));
    STEP(syscall(SYS_utimensat, AT_FDCWD, "link", omit, AT_SYMLINK_NOFOLLOW));
    struct stat link_now;
    MUST(lstat("link", &link_now));
    say("the link: mtime %ld.%09ld", (long)link_now.st_mtim.tv_sec, link_now.st_mtim.tv_nsec);
    STEP(syscall(SYS_utimensat, held, NULL, omit, 0));
    STEP(syscall(SYS_utimensat, held, NULL, omit, AT_SYMLINK_NOFOLLOW));
    STEP(syscall(SYS_utimensat, file_path, "", omit, AT_EMPTY_PATH));
    STEP(syscall(SYS_utimensat, file_path, NULL, omit, 0));
    STEP(syscall(SYS_utimensat, AT_FDCWD, "file", omit, 0x40));
    return 0;
}
