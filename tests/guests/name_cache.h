/* How name_cache.c looks at a name and prints what it sees; nothing here changes anything.
 *
 * Nothing printed depends on the clock. Prepared inodes, which are those that have the old time when they are first seen,
 * are numbered in that order; the numbers of others may be used again by the host, and are not shown. */
#ifndef NAME_CACHE_H
#define NAME_CACHE_H

#include "step.h"

#include <linux/fs.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/xattr.h>

#define OLD 1000000000 /* the time all prepared files have */

static struct { dev_t dev; ino_t ino; } seen[4096];
static int seen_count;
static dev_t devices[16];
static time_t started;

static int number_of(const struct stat *s)
{
    int i;
    for (i = 0; i < seen_count; i++)
        if (seen[i].dev == s->st_dev && seen[i].ino == s->st_ino)
            return i;
    if (s->st_mtime != OLD)
        return -1;
    seen[seen_count].dev = s->st_dev;
    seen[seen_count].ino = s->st_ino;
    return seen_count++;
}

static int device_of(dev_t dev)
{
    int i;
    for (i = 0; i < 15 && devices[i] && devices[i] != dev; i++)
        ;
    devices[i] = dev;
    return i;
}

static const char *kind_of(mode_t mode)
{
    return S_ISREG(mode) ? "reg" : S_ISDIR(mode) ? "dir" : S_ISLNK(mode) ? "lnk" : S_ISFIFO(mode) ? "fifo"
         : S_ISSOCK(mode) ? "sock" : S_ISCHR(mode) ? "chr" : "?";
}

static void show(const char *call, const char *name, long result, const struct stat *s)
{
    if (result < 0)
        say("  %s %s = %s", call, name, errname(errno));
    else
        /* The host decides when it gives blocks to new content. */
        say("  %s %s = %s %04o links=%ld %u:%u size=%lld blocks=%lld/%ld dev=%d ino=%d mtime=%s", call, name,
            kind_of(s->st_mode), s->st_mode & 07777, (long)s->st_nlink, s->st_uid, s->st_gid, (long long)s->st_size,
            s->st_mtime == OLD ? (long long)s->st_blocks : -1, (long)s->st_blksize, device_of(s->st_dev), number_of(s),
            s->st_mtime == OLD ? "old" : s->st_mtime >= started - 2 ? "new" : "other");
}

static void show_number(const char *call, const char *name, long result)
{
    if (result < 0)
        say("  %s %s = %s", call, name, errname(errno));
    else
        say("  %s %s = %ld", call, name, result);
}

static void show_statx(const char *call, const char *name, int dirfd, int flags)
{
    struct statx x;
    struct stat s = {0};
    memset(&x, 0xee, sizeof x);
    long result = syscall(SYS_statx, dirfd, name, flags, STATX_BASIC_STATS, &x);
    if (result == 0) {
        s.st_mode = x.stx_mode, s.st_nlink = x.stx_nlink, s.st_uid = x.stx_uid, s.st_gid = x.stx_gid, s.st_size = x.stx_size;
        s.st_blocks = x.stx_blocks, s.st_blksize = x.stx_blksize, s.st_ino = x.stx_ino;
        s.st_mtime = x.stx_mtime.tv_sec;
        s.st_dev = (dev_t)x.stx_dev_major << 8 | x.stx_dev_minor;
    }
    show(call, name, result, &s);
    if (result == 0)
        say("  %s %s: mask has the basics %d, attributes %llx, rdev %u:%u, nsec %u", call, name,
            (x.stx_mask & STATX_BASIC_STATS) == STATX_BASIC_STATS, (unsigned long long)x.stx_attributes, x.stx_rdev_major,
            x.stx_rdev_minor, x.stx_mtime.tv_sec == OLD ? x.stx_mtime.tv_nsec : 0);
}

struct record {
    uint64_t ino;
    int64_t off;
    uint16_t size;
    uint8_t type;
    char name[];
};

static int by_name(const void *one, const void *other)
{
    return strcmp(*(char *const *)one, *(char *const *)other);
}

/* Read what is left of a directory in pieces of `room` bytes, and print it in the order of names. */
static void show_list(const char *name, int fd, int room)
{
    char buffer[8192], *lines[200];
    int count = 0;
    long n = -1;
    while (count < 190 && (n = syscall(SYS_getdents64, fd, buffer, room)) > 0)
        for (long at = 0; at < n; at += ((struct record *)(buffer + at))->size) {
            struct record *one = (struct record *)(buffer + at);
            MUST(asprintf(&lines[count++], "%s %d%s", one->name, one->type, one->off > 0 && one->ino ? "" : " odd"));
        }
    qsort(lines, count, sizeof *lines, by_name);
    say("  list %s by %d: %d, at its end %d, then %ld", name, room, count, lseek(fd, 0, SEEK_CUR) > 0, n < 0 ? -errno : n);
    for (int i = 0; i < count; free(lines[i++]))
        say("    %s", lines[i]);
}

/* From the beginning, once more through another descriptor of the same open file, and anew. */
static void show_directory(const char *name, int fd)
{
    int copy = MUST(dup(fd));
    show_list(name, fd, 8192);
    show_list(name, copy, 8192);
    MUST(lseek(copy, 0, SEEK_SET));
    show_list(name, fd, 64);
    MUST(lseek(fd, 0, SEEK_SET));
    show_list(name, copy, 8192);
    show_number("getdents64(nowhere)", name, syscall(SYS_getdents64, fd, 8, 8192));
    MUST(lseek(fd, 0, SEEK_SET));
    show_number("getdents64(nowhere)", name, syscall(SYS_getdents64, fd, 8, 8192));
    show_number("getdents64(no room)", name, syscall(SYS_getdents64, fd, 8, 0));
    close(copy);
}

static void show_open(const char *call, const char *name, int dirfd, int flags)
{
    char text[32] = "";
    struct stat s;
    int fd = openat(dirfd, name, flags | O_CLOEXEC);
    if (fd < 0) {
        show_number(call, name, fd);
        return;
    }
    say("  %s %s = descriptor, flags %x, fd flags %x", call, name, fcntl(fd, F_GETFL), fcntl(fd, F_GETFD));
    show("fstat", name, fstat(fd, &s), &s);
    show("fstatat(empty)", name, syscall(SYS_newfstatat, fd, "", &s, AT_EMPTY_PATH), &s);
    if (S_ISREG(s.st_mode)) {
        long n = read(fd, text, sizeof text - 1);
        say("  read %s = %ld \"%.*s\"", name, n, (int)(n > 0 && text[0] > 8 ? n : 0), text);
    }
    if (S_ISDIR(s.st_mode) && !strstr("/usr /dev /sys", name)) /* those depend on the machine */
        show_directory(name, fd);
    close(fd);
}

/* Everything that can be asked about a name. Calls that ask for nearly the same as another: only the second time. */
static void look(int dirfd, const char *name, int again)
{
    struct stat s = {0};
    char text[80];
    int here = dirfd == AT_FDCWD;
    long n;
    show("stat", name, here ? stat(name, &s) : fstatat(dirfd, name, &s, 0), &s);
    int blocks = S_ISFIFO(s.st_mode);
    show("lstat", name, here ? syscall(SYS_lstat, name, &s) : fstatat(dirfd, name, &s, AT_SYMLINK_NOFOLLOW), &s);
    show_statx("statx", name, dirfd, 0);
    if (again)
        show_statx("statx(nofollow)", name, dirfd, AT_SYMLINK_NOFOLLOW);
    int bits = 0, error = 0;
    for (int mode = 0; mode < 8; mode = mode ? 2 * mode : 1) {
        if (here ? syscall(SYS_access, name, mode) == 0 : syscall(SYS_faccessat, dirfd, name, mode) == 0)
            bits |= 1 << mode;
        else
            error = errno;
    }
    say("  access %s = %02x %s", name, bits, error ? errname(error) : "");
    if (again)
        show_number("faccessat2", name, syscall(SYS_faccessat2, dirfd, name, R_OK, AT_EACCESS));
    show_open("open", name, dirfd, O_RDONLY | (blocks ? O_NONBLOCK : 0));
    if (again)
        show_open("open(nofollow)", name, dirfd, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    memset(text, 0, sizeof text);
    n = here ? readlink(name, text, 60) : readlinkat(dirfd, name, text, 60);
    show_number("readlink", n > 0 ? text : name, n);
    if (!again)
        return;
    memset(text, 0, sizeof text);
    n = here ? readlink(name, text, 2) : readlinkat(dirfd, name, text, 2);
    show_number("readlink(2)", n > 0 ? text : name, n);
}

#endif
