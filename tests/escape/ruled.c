/* build: ruled
 *
 * ruled list: prints KIND and operation of each line of the table below.
 * ruled DIRECTORY NAME: does each operation once, number N in DIRECTORY/N, where the host has prepared NAME: a file, a
 * directory with a file `inner`, a link to `../far`, or nothing. Prints "did KIND: OPERATION" for each that succeeded, and
 * what it has read. Whoever holds NAME back, by a rule or otherwise, compares the lines and looks at the host.
 */
#include "step.h"
#include <dirent.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/xattr.h>

static char at[1024], name[100];

static const char *in(const char *what) {
    static char room[8][2048];
    static int turn;
    char *made = room[turn++ % 8];
    snprintf(made, sizeof room[0], "%s/%s", at, what);
    return made;
}
static const char *it(void) { return in(name); }
static const char *inner(const char *what) {
    static char room[2][600];
    static int turn;
    char *made = room[turn++ % 2];
    snprintf(made, sizeof room[0], "%s/%s", name, what);
    return in(made);
}

static int shows(int fd) { /* prints what is in it */
    char text[256];
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (n > 0)
        printf("%.*s\n", (int)n, text);
    return n > 0;
}
static int done(int fd) {
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}
static int held(void) { return open(at, O_RDONLY | O_DIRECTORY); }
static int lists(const char *where, const char *what) {
    DIR *dir = opendir(where);
    int yes = 0;
    for (struct dirent *one; dir && (one = readdir(dir));)
        yes |= strcmp(one->d_name, what) == 0;
    if (dir)
        closedir(dir);
    return yes;
}

/* ---- looking: a rule that denies leaves these ---- */
static int do_stat(void) { struct stat s; return lstat(it(), &s) == 0; }
static int do_statx(void) {
    char room[512];
    return syscall(SYS_statx, AT_FDCWD, it(), AT_SYMLINK_NOFOLLOW, 0x7ff, room) == 0;
}
static int do_fstatat(void) {
    struct stat s;
    int fd = held(), yes = fstatat(fd, name, &s, AT_SYMLINK_NOFOLLOW) == 0;
    close(fd);
    return yes;
}
static int do_exists(void) { return faccessat(AT_FDCWD, it(), F_OK, AT_SYMLINK_NOFOLLOW) == 0; }
static int do_readdir(void) { return lists(at, name); }

/* ---- reading ---- */
static int do_open(void) { return shows(open(it(), O_RDONLY)); }
static int do_openat(void) { int fd = held(), yes = shows(openat(fd, name, O_RDONLY)); close(fd); return yes; }
static int do_dots(void) { char p[600]; snprintf(p, sizeof p, "./../%s/./%s", strrchr(at, '/') + 1, name); return shows(open(in(p), O_RDONLY)); }
static int do_o_path(void) {
    char p[64];
    int pin = open(it(), O_PATH), yes;
    snprintf(p, sizeof p, "/proc/self/fd/%d", pin);
    yes = pin >= 0 && shows(open(p, O_RDONLY));
    done(pin);
    return yes;
}
static int do_alias(void) { return symlink(name, in("alias")) == 0 && shows(open(in("alias"), O_RDONLY)); }
static int do_access(void) { return access(it(), R_OK) == 0; }
static int do_getxattr(void) { char t[64]; return getxattr(it(), "user.secret", t, sizeof t) > 0; }
static int do_listxattr(void) { char t[64]; return listxattr(it(), t, sizeof t) > 0; }
static int do_execve(void) {
    int fd = open(it(), O_PATH);
    pid_t child = fork();
    if (!child) {
        char *argv[] = {name, NULL};
        execv(it(), argv);
        _exit(99);
    }
    int status = 0;
    waitpid(child, &status, 0);
    done(fd);
    return WIFEXITED(status) && WEXITSTATUS(status) != 99;
}
static int do_watch(void) {
    int queue = inotify_init(), yes = inotify_add_watch(queue, it(), IN_ALL_EVENTS | IN_DONT_FOLLOW) >= 0;
    close(queue);
    return yes;
}
static int do_readlink(void) { char t[64]; return readlink(it(), t, sizeof t) > 0; }
static int do_opendir(void) { return lists(it(), "inner"); }
static int do_deeper(void) { return shows(open(inner("inner"), O_RDONLY)); }
static int do_chdir(void) { int back = held(), yes = chdir(it()) == 0; yes = fchdir(back) == 0 && yes; close(back); return yes; }
static int do_directory_path(void) {
    int fd = open(it(), O_PATH | O_DIRECTORY), yes = fd >= 0 && shows(openat(fd, "inner", O_RDONLY));
    done(fd);
    return yes;
}

/* ---- changing ---- */
static int do_write(void) { int fd = open(it(), O_WRONLY); int yes = fd >= 0 && write(fd, "x", 1) == 1; done(fd); return yes; }
static int do_append(void) { int fd = open(it(), O_WRONLY | O_APPEND); int yes = fd >= 0 && write(fd, "x", 1) == 1; done(fd); return yes; }
static int do_rewrite(void) { return done(open(it(), O_WRONLY | O_TRUNC)); }
static int do_create_over(void) { return done(open(it(), O_WRONLY | O_CREAT | O_TRUNC, 0644)); }
static int do_reopen(void) { /* opened for reading, then again through /proc for writing */
    char p[64];
    int fd = open(it(), O_RDONLY), yes;
    snprintf(p, sizeof p, "/proc/self/fd/%d", fd);
    yes = fd >= 0 && done(open(p, O_RDWR));
    done(fd);
    return yes;
}
static int do_truncate(void) { return truncate(it(), 1) == 0; }
static int do_chmod(void) { return chmod(it(), 0700) == 0; }
static int do_fchmod(void) { int fd = open(it(), O_RDONLY), yes = fd >= 0 && fchmod(fd, 0711) == 0; done(fd); return yes; }
static int do_chown(void) { return lchown(it(), getuid(), getgid()) == 0; }
static int do_utimes(void) { return utimensat(AT_FDCWD, it(), NULL, AT_SYMLINK_NOFOLLOW) == 0; }
static int do_setxattr(void) { return setxattr(it(), "user.husk", "x", 1, 0) == 0; }
static int do_removexattr(void) { return removexattr(it(), "user.secret") == 0; }
static int do_may_write(void) { return access(it(), W_OK) == 0; }
static int do_unlink(void) { return unlink(it()) == 0; }
static int do_rmdir(void) { unlink(inner("inner")); return rmdir(it()) == 0; }
static int do_rename(void) { return rename(it(), in("taken")) == 0; }
static int do_rename_over(void) { return rename(in("victim"), it()) == 0; }
static int do_exchange(void) { return syscall(SYS_renameat2, AT_FDCWD, in("victim"), AT_FDCWD, it(), 2) == 0; }
static int do_exchange_back(void) { return syscall(SYS_renameat2, AT_FDCWD, it(), AT_FDCWD, in("victim"), 2) == 0; }
static int do_link(void) { return link(it(), in("linked")) == 0; }
static int do_link_handle(void) {
    char p[64];
    int fd = open(it(), O_PATH), yes;
    snprintf(p, sizeof p, "/proc/self/fd/%d", fd);
    yes = fd >= 0 && linkat(AT_FDCWD, p, AT_FDCWD, in("linked"), AT_SYMLINK_FOLLOW) == 0;
    done(fd);
    return yes;
}
static int do_create_in(void) { return done(open(inner("new"), O_WRONLY | O_CREAT, 0644)); }
static int do_mkdir_in(void) { return mkdir(inner("new"), 0755) == 0; }
static int do_unlink_in(void) { return unlink(inner("inner")) == 0; }
static int do_rename_in(void) { return rename(inner("inner"), in("taken")) == 0; }
static int do_rename_into(void) { return rename(in("victim"), inner("victim")) == 0; }
static int do_write_in(void) { return done(open(inner("inner"), O_WRONLY | O_TRUNC)); }
static int do_tmpfile_in(void) { return done(open(it(), O_TMPFILE | O_WRONLY, 0644)); }

/* ---- making what is not there yet ---- */
static int do_create(void) { return done(open(it(), O_WRONLY | O_CREAT | O_EXCL, 0644)); }
static int do_mkdir(void) { return mkdir(it(), 0755) == 0; }
static int do_symlink(void) { return symlink("x", it()) == 0; }
static int do_mknod(void) { return mknod(it(), S_IFREG | 0644, 0) == 0; }
static int do_mkfifo(void) { return mkfifo(it(), 0644) == 0; }
static int do_bind(void) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0), back = open(".", O_PATH | O_DIRECTORY), yes = 0;
    snprintf(to.sun_path, sizeof to.sun_path, "%s", name);
    if (chdir(at) == 0)
        yes = bind(fd, (struct sockaddr *)&to, sizeof to) == 0;
    if (fchdir(back) < 0)
        yes = 0;
    close(fd);
    close(back);
    return yes;
}
static int do_make_link(void) { return link(in("victim"), it()) == 0; }
static int do_make_rename(void) { return rename(in("victim"), it()) == 0; }
static int do_make_tmpfile(void) {
    char p[64];
    int fd = open(at, O_TMPFILE | O_WRONLY, 0644), yes;
    snprintf(p, sizeof p, "/proc/self/fd/%d", fd);
    yes = fd >= 0 && linkat(AT_FDCWD, p, AT_FDCWD, it(), AT_SYMLINK_FOLLOW) == 0;
    done(fd);
    return yes;
}
static int do_make_through_link(void) { return symlink(name, in("alias")) == 0 && done(open(in("alias"), O_WRONLY | O_CREAT, 0644)); }
static int do_make_other_case(void) {
    char other[100];
    snprintf(other, sizeof other, "%s", name);
    other[0] &= ~0x20;
    return done(open(in(other), O_WRONLY | O_CREAT | O_EXCL, 0644));
}

static const struct { const char *kind, *what; int (*act)(void); } TABLE[] = {
    {"file", "look: stat", do_stat}, {"file", "look: statx", do_statx}, {"file", "look: fstatat", do_fstatat},
    {"file", "look: exists", do_exists}, {"file", "look: readdir", do_readdir},
    {"file", "read: open", do_open}, {"file", "read: openat", do_openat}, {"file", "read: dots", do_dots},
    {"file", "read: through O_PATH", do_o_path}, {"file", "read: through a link", do_alias},
    {"file", "read: access", do_access}, {"file", "read: getxattr", do_getxattr},
    {"file", "read: listxattr", do_listxattr}, {"file", "read: execve", do_execve}, {"file", "read: watch", do_watch},
    {"file", "change: write", do_write}, {"file", "change: append", do_append}, {"file", "change: truncating open", do_rewrite},
    {"file", "change: creating open", do_create_over}, {"file", "change: reopen", do_reopen},
    {"file", "change: truncate", do_truncate}, {"file", "change: chmod", do_chmod}, {"file", "change: fchmod", do_fchmod},
    {"file", "change: chown", do_chown}, {"file", "change: utimensat", do_utimes}, {"file", "change: setxattr", do_setxattr},
    {"file", "change: removexattr", do_removexattr}, {"file", "change: access", do_may_write},
    {"file", "change: unlink", do_unlink}, {"file", "change: rename", do_rename},
    {"file", "change: rename over", do_rename_over}, {"file", "change: exchange", do_exchange},
    {"file", "change: exchange back", do_exchange_back}, {"file", "change: link", do_link},
    {"file", "change: link by handle", do_link_handle},
    {"dir", "look: stat", do_stat}, {"dir", "look: readdir", do_readdir},
    {"dir", "read: opendir", do_opendir}, {"dir", "read: a name in it", do_deeper}, {"dir", "read: chdir", do_chdir},
    {"dir", "read: through O_PATH", do_directory_path}, {"dir", "read: watch", do_watch}, {"dir", "read: access", do_access},
    {"dir", "change: chmod", do_chmod}, {"dir", "change: utimensat", do_utimes}, {"dir", "change: chown", do_chown},
    {"dir", "change: setxattr", do_setxattr}, {"dir", "change: remove all", do_rmdir}, {"dir", "change: rename", do_rename},
    {"dir", "change: exchange", do_exchange}, {"dir", "change: create in it", do_create_in},
    {"dir", "change: mkdir in it", do_mkdir_in}, {"dir", "change: unlink in it", do_unlink_in},
    {"dir", "change: rename out of it", do_rename_in}, {"dir", "change: rename into it", do_rename_into},
    {"dir", "change: write in it", do_write_in}, {"dir", "change: O_TMPFILE in it", do_tmpfile_in},
    {"link", "look: stat", do_stat}, {"link", "look: readdir", do_readdir},
    {"link", "read: readlink", do_readlink}, {"link", "read: open", do_open}, {"link", "read: through a link", do_alias},
    {"link", "change: unlink", do_unlink}, {"link", "change: rename", do_rename}, {"link", "change: utimensat", do_utimes},
    {"link", "change: chown", do_chown}, {"link", "change: rename over", do_rename_over},
    {"none", "make: open", do_create}, {"none", "make: mkdir", do_mkdir}, {"none", "make: symlink", do_symlink},
    {"none", "make: mknod", do_mknod}, {"none", "make: mkfifo", do_mkfifo}, {"none", "make: bind", do_bind},
    {"none", "make: link", do_make_link}, {"none", "make: rename", do_make_rename},
    {"none", "make: O_TMPFILE", do_make_tmpfile}, {"none", "make: through a link", do_make_through_link},
    {"none", "make: in other letters", do_make_other_case},
};

int main(int argc, char **argv) {
    size_t count = sizeof TABLE / sizeof *TABLE;
    if (argc == 2) {
        for (size_t i = 0; i < count; i++)
            say("%s %s", TABLE[i].kind, TABLE[i].what);
        return 0;
    }
    if (argc != 3)
        return 96;
    snprintf(name, sizeof name, "%s", argv[2]);
    for (size_t i = 0; i < count; i++) {
        snprintf(at, sizeof at, "%s/%zu", argv[1], i);
        if (TABLE[i].act())
            say("did %s %s", TABLE[i].kind, TABLE[i].what);
    }
    return 0;
}
