/* compat/probe: checks of modes, owners, times, sizes by name, and extended attributes. */
#include "probe.h"

#include <stdio.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <utime.h>

static void file(const char *name, const char *content)
{
    NEED(close(probe_file(name, content)) == 0, "close");
}

static int directory(void)
{
    probe_scratch();
    int fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    NEED(fd >= 0, "open of a directory");
    return fd;
}

static struct stat look(const char *name)
{
    struct stat status;
    NEED(lstat(name, &status) == 0, "lstat");
    return status;
}

/* -- modes -- */

CHECK(chmod, "keeps every bit of a mode")
{
    file("f", "");
    MUST(CALL(chmod, "f", 01751));
    EFFECT((look("f").st_mode & 07777) == 01751);
}

CHECK(chmod, "a file without rights cannot be read by others than root")
{
    file("f", "secret");
    MUST(CALL(chmod, "f", 0));
    char text[16];
    EFFECT(geteuid() == 0 || probe_read_text("f", text, sizeof text) == -EACCES);
}

CHECK(fchmod, "keeps every bit of a mode")
{
    int fd = probe_file("f", "");
    MUST(CALL(fchmod, fd, 0710));
    EFFECT((look("f").st_mode & 07777) == 0710);
}

CHECK(fchmod, "of a file without a name")
{
    int fd = probe_memfd(0);
    struct stat status;
    MUST(CALL(fchmod, fd, 0700));
    EFFECT(fstat(fd, &status) == 0 && (status.st_mode & 07777) == 0700);
}

CHECK(fchmodat, "from a directory")
{
    file("f", "");
    MUST(CALL(fchmodat, directory(), "f", 0640));
    EFFECT((look("f").st_mode & 07777) == 0640);
}

CHECK(fchmodat2, "flags=AT_EMPTY_PATH")
{
    int fd = probe_file("f", "");
    MUST(CALL(fchmodat2, fd, "", 0604, AT_EMPTY_PATH));
    EFFECT((look("f").st_mode & 07777) == 0604);
}

CHECK(fchmodat2, "flags=AT_SYMLINK_NOFOLLOW: a link has no mode to change")
{
    file("f", "");
    NEED(symlink("f", "l") == 0 && chmod("f", 0644) == 0, "symlink");
    long value = CALL(fchmodat2, AT_FDCWD, "l", 0600, AT_SYMLINK_NOFOLLOW);
    EFFECT((look("f").st_mode & 07777) == 0644);
    ANSWERS(value, EOPNOTSUPP);
}

/* -- owners: the caller's own, so that no privilege is needed -- */

CHECK(chown, "to oneself")
{
    file("f", "");
    MUST(CALL(chown, "f", geteuid(), getegid()));
    EFFECT(look("f").st_uid == geteuid() && look("f").st_gid == getegid());
}

CHECK(chown, "to another user is EPERM without privilege")
{
    file("f", "");
    MUST_OR(CALL(chown, "f", 12345, -1), EPERM, EINVAL);
    EFFECT(look("f").st_uid == 12345);
}

CHECK(chown, "-1 leaves an owner as it is")
{
    file("f", "");
    MUST(CALL(chown, "f", -1, -1));
    EFFECT(look("f").st_uid == geteuid() && look("f").st_gid == getegid());
}

CHECK(chown, "takes a set-uid bit away")
{
    file("f", "");
    NEED(chmod("f", 04755) == 0, "chmod");
    MUST(CALL(chown, "f", geteuid(), getegid()));
    EFFECT((look("f").st_mode & 07777) == 0755);
}

CHECK(fchown, "to oneself")
{
    int fd = probe_file("f", "");
    MUST(CALL(fchown, fd, geteuid(), getegid()));
    EFFECT(look("f").st_uid == geteuid() && look("f").st_gid == getegid());
}

CHECK(lchown, "of a link that leads nowhere")
{
    probe_scratch();
    NEED(symlink("nowhere", "l") == 0, "symlink");
    MUST(CALL(lchown, "l", geteuid(), getegid()));
    EFFECT(look("l").st_uid == geteuid());
}

CHECK(fchownat, "flag=AT_SYMLINK_NOFOLLOW: of a link that leads nowhere")
{
    int dir = directory();
    NEED(symlink("nowhere", "l") == 0, "symlink");
    EFFECT(CALL(fchownat, dir, "l", geteuid(), -1, 0) == -ENOENT);
    MUST(CALL(fchownat, dir, "l", geteuid(), -1, AT_SYMLINK_NOFOLLOW));
}

CHECK(fchownat, "flag=AT_EMPTY_PATH")
{
    int fd = probe_file("f", "");
    MUST(CALL(fchownat, fd, "", geteuid(), getegid(), AT_EMPTY_PATH));
    EFFECT(look("f").st_uid == geteuid());
}

/* -- size and times -- */

CHECK(truncate, "shrinks and grows")
{
    file("f", "0123456789");
    MUST(CALL(truncate, "f", 4));
    EFFECT(probe_holds("f", "0123"));
    MUST(CALL(truncate, "f", 100000));
    EFFECT(look("f").st_size == 100000);
}

CHECK(truncate, "a directory is EISDIR")
{
    probe_scratch();
    ANSWERS(CALL(truncate, ".", 4), EISDIR);
}

CHECK(utime, "sets both times")
{
    file("f", "");
    struct utimbuf times = {1000000000, 1100000000};
    MUST(CALL(utime, "f", &times));
    EFFECT(look("f").st_atime == 1000000000 && look("f").st_mtime == 1100000000);
}

static const struct timeval MICROSECONDS[2] = {{1000000000, 123456}, {1100000000, 654321}};

CHECK(utimes, "to the microsecond")
{
    file("f", "");
    MUST(CALL(utimes, "f", MICROSECONDS));
    EFFECT(look("f").st_atime == 1000000000 && look("f").st_mtim.tv_nsec == 654321000);
}

CHECK(futimesat, "to the microsecond")
{
    file("f", "");
    MUST(CALL(futimesat, directory(), "f", MICROSECONDS));
    EFFECT(look("f").st_atime == 1000000000 && look("f").st_mtim.tv_nsec == 654321000);
}

static const struct timespec NANOSECONDS[2] = {{1000000000, 123456789}, {1100000000, 987654321}};

CHECK(utimensat, "to the nanosecond")
{
    file("f", "");
    MUST(CALL(utimensat, AT_FDCWD, "f", NANOSECONDS, 0));
    EFFECT(look("f").st_atim.tv_nsec == 123456789 && look("f").st_mtim.tv_nsec == 987654321);
}

CHECK(utimensat, "UTIME_OMIT and UTIME_NOW")
{
    file("f", "");
    NEED(utimensat(AT_FDCWD, "f", NANOSECONDS, 0) == 0, "utimensat");
    struct timespec wish[2] = {{0, UTIME_OMIT}, {0, UTIME_NOW}};
    MUST(CALL(utimensat, AT_FDCWD, "f", wish, 0));
    EFFECT(look("f").st_atime == 1000000000 && look("f").st_mtime > 1500000000);
}

CHECK(utimensat, "flags=AT_SYMLINK_NOFOLLOW: the link's own times")
{
    file("f", "");
    NEED(symlink("f", "l") == 0, "symlink");
    MUST(CALL(utimensat, AT_FDCWD, "l", NANOSECONDS, AT_SYMLINK_NOFOLLOW));
    EFFECT(look("l").st_mtime == 1100000000 && look("f").st_mtime != 1100000000);
}

CHECK(utimensat, "without a name it is the descriptor's file")
{
    int fd = probe_file("f", "");
    MUST(CALL(utimensat, fd, NULL, NANOSECONDS, 0));
    EFFECT(look("f").st_mtime == 1100000000);
}

/* -- extended attributes; a file system without them answers EOPNOTSUPP -- */

static bool has(const char *name, const char *wanted)
{
    char value[32] = {0};
    ssize_t length = lgetxattr(name, "user.probe", value, sizeof value);
    return wanted ? length == (ssize_t)strlen(wanted) && !strcmp(value, wanted) : length < 0 && errno == ENODATA;
}

static int tagged(void)
{
    int fd = probe_file("f", "");
    NEED(fsetxattr(fd, "user.probe", "one", 3, 0) == 0, "fsetxattr");
    return fd;
}

CHECK(setxattr, "follows a link")
{
    file("f", "");
    NEED(symlink("f", "l") == 0, "symlink");
    MUST(CALL(setxattr, "l", "user.probe", "one", 3, 0));
    EFFECT(has("f", "one"));
}

CHECK(setxattr, "flags=XATTR_CREATE: what is there stays")
{
    tagged();
    long value = CALL(setxattr, "f", "user.probe", "two", 3, XATTR_CREATE);
    EFFECT(has("f", "one"));
    ANSWERS(value, EEXIST);
}

CHECK(setxattr, "flags=XATTR_REPLACE: what is not there stays away")
{
    file("f", "");
    ANSWERS(CALL(setxattr, "f", "user.probe", "two", 3, XATTR_REPLACE), ENODATA);
}

CHECK(lsetxattr, "of a file")
{
    file("f", "");
    MUST(CALL(lsetxattr, "f", "user.probe", "one", 3, 0));
    EFFECT(has("f", "one"));
}

CHECK(fsetxattr, "of an open file")
{
    int fd = probe_file("f", "");
    MUST(CALL(fsetxattr, fd, "user.probe", "one", 3, 0));
    EFFECT(has("f", "one"));
}

CHECK(getxattr, "value and length")
{
    tagged();
    char value[8] = {0};
    EFFECT(MUST(CALL(getxattr, "f", "user.probe", value, 8)) == 3 && !strcmp(value, "one"));
    EFFECT(CALL(getxattr, "f", "user.probe", NULL, 0) == 3 && CALL(getxattr, "f", "user.probe", value, 2) == -ERANGE);
}

CHECK(lgetxattr, "a link has none of this name")
{
    tagged();
    char value[8] = {0};
    EFFECT(MUST(CALL(lgetxattr, "f", "user.probe", value, 8)) == 3 && !strcmp(value, "one"));
    NEED(symlink("f", "l") == 0, "symlink");
    EFFECT(CALL(lgetxattr, "l", "user.probe", value, 8) < 0);
}

CHECK(fgetxattr, "of an open file")
{
    int fd = tagged();
    char value[8] = {0};
    EFFECT(MUST(CALL(fgetxattr, fd, "user.probe", value, 8)) == 3 && !strcmp(value, "one"));
}

static bool lists(const char *list, long length)
{
    for (long at = 0; at < length; at += (long)strlen(list + at) + 1)
        if (!strcmp(list + at, "user.probe"))
            return true;
    return false;
}

CHECK(listxattr, "has the name")
{
    char list[512];
    tagged();
    long length = MUST(CALL(listxattr, "f", list, sizeof list));
    EFFECT(lists(list, length));
}

CHECK(llistxattr, "has the name")
{
    char list[512];
    tagged();
    long length = MUST(CALL(llistxattr, "f", list, sizeof list));
    EFFECT(lists(list, length));
}

CHECK(flistxattr, "has the name")
{
    char list[512];
    int fd = tagged();
    long length = MUST(CALL(flistxattr, fd, list, sizeof list));
    EFFECT(lists(list, length));
}

CHECK(removexattr, "it is gone")
{
    tagged();
    MUST(CALL(removexattr, "f", "user.probe"));
    EFFECT(has("f", NULL));
}

CHECK(lremovexattr, "it is gone")
{
    tagged();
    MUST(CALL(lremovexattr, "f", "user.probe"));
    EFFECT(has("f", NULL));
}

CHECK(fremovexattr, "it is gone")
{
    int fd = tagged();
    MUST(CALL(fremovexattr, fd, "user.probe"));
    EFFECT(has("f", NULL));
}

struct xattr_arguments {
    uint64_t value;
    uint32_t size;
    uint32_t flags;
};

CHECK(setxattrat, "from a directory")
{
    file("f", "");
    struct xattr_arguments how = {(uint64_t) "one", 3, 0};
    MUST(CALL(setxattrat, directory(), "f", 0, "user.probe", &how, sizeof how));
    EFFECT(has("f", "one"));
}

CHECK(getxattrat, "at_flags=AT_EMPTY_PATH")
{
    int fd = tagged();
    char value[8] = {0};
    struct xattr_arguments how = {(uint64_t)value, 8, 0};
    EFFECT(MUST(CALL(getxattrat, fd, "", AT_EMPTY_PATH, "user.probe", &how, sizeof how)) == 3 && !strcmp(value, "one"));
}

CHECK(listxattrat, "from a directory")
{
    char list[512];
    tagged();
    long length = MUST(CALL(listxattrat, directory(), "f", 0, list, sizeof list));
    EFFECT(lists(list, length));
}

CHECK(removexattrat, "from a directory")
{
    tagged();
    MUST(CALL(removexattrat, directory(), "f", 0, "user.probe"));
    EFFECT(has("f", NULL));
}

CHECK(file_getattr, "reads the attributes, or the file system has none")
{
    file("f", "");
    uint64_t attributes[3] = {0};
    MUST_OR(CALL(file_getattr, AT_FDCWD, "f", attributes, sizeof attributes, 0), EOPNOTSUPP);
}

CHECK(file_setattr, "writes back what file_getattr read, or the file system has none")
{
    file("f", "");
    uint64_t attributes[3] = {0};
    if (RAW(file_getattr, AT_FDCWD, "f", attributes, sizeof attributes, 0) < 0)
        memset(attributes, 0, sizeof attributes);
    MUST_OR(CALL(file_setattr, AT_FDCWD, "f", attributes, sizeof attributes, 0), EOPNOTSUPP);
}
