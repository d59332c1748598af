/* build: files_matrix
 *
 * Every call that takes one name, on every kind of name: which errno wins. The names are made anew after each change,
 * so that no answer depends on the one before.
 */
#include "step.h"

#include <dirent.h>
#include <linux/openat2.h>
#include <sys/statfs.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <utime.h>

static const char *const names[] = {
    "file", "dir", "dir/inner", "to_file", "to_dir", "dangling", "loop", "fifo", "missing", "missing/x", "file/", "file/.",
    "file/x", "dir/", "dir/.", "dir/..", "to_file/", "to_dir/", "to_dir/inner", "dangling/", "loop/x", "fifo/", "missing/",
    "", ".", "..", "./", "/", "//dir", "closed/inner", "closed/missing", "unread", "unwritten", "shut", "shut/x", "to_closed",
    "to_shut_file", "to_dir/../file", "dir/../missing/../file", "LONG", "LONG/x", "PATHMAX", "NULL", "BAD",
};

static void fixture(void) {
    MUST(mkdir("t", 0755)); /* "..", which is ours, too */
    MUST(mkdir("t/u", 0755));
    MUST(chdir("t/u"));
    put_usual_names();
    MUST(mkfifo("fifo", 0644));
    MUST(mkdir("closed", 0755));
    put_text("closed/inner", "x", 0644);
    MUST(chmod("closed", 0600));
    put_text("unread", "secret", 0200);
    put_text("unwritten", "fixed", 0400);
    MUST(mkdir("shut", 0));
    MUST(symlink("closed/inner", "to_closed"));
    MUST(symlink("shut/x", "to_shut_file"));
}

static void remove_all(const char *name) {
    chmod(name, 0700);
    DIR *dir = opendir(name);
    if (dir) {
        for (struct dirent *entry; (entry = readdir(dir));) {
            if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
                continue;
            char path[PATH_MAX];
            snprintf(path, sizeof path, "%s/%s", name, entry->d_name);
            struct stat st;
            if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
                remove_all(path);
            else
                unlink(path);
        }
        closedir(dir);
    }
    rmdir(name);
}

static const char *spelled(const char *name) {
    static char text[8192];
    if (!strcmp(name, "NULL"))
        return NULL;
    if (!strcmp(name, "BAD"))
        return (const char *)16;
    if (!strncmp(name, "LONG", 4)) {
        memset(text, 'n', 256);
        strcpy(text + 256, name + 4);
        return text;
    }
    if (!strcmp(name, "PATHMAX")) {
        text[0] = 0;
        for (int i = 0; i < 1400; i++)
            memcpy(text + 3 * i, "./.", 4), text[3 * i + 2] = '/';
        text[4200] = 0;
        return text;
    }
    if (!strcmp(name, "//dir"))
        return "//nosuchdirectory";
    return name;
}

static struct stat st;
static struct statfs sf;
static struct statx sx;
static char buffer[4096];
static int opened(const char *path, int flags) {
    int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK, 0640);
    if (fd >= 0)
        close(fd);
    return fd < 0 ? -1 : 0;
}
static int open2(const char *path, uint64_t flags, uint64_t resolve) {
    struct open_how how = {.flags = flags | O_CLOEXEC | (flags & O_PATH ? 0 : O_NONBLOCK), .resolve = resolve};
    long fd;
    do /* a rename anywhere on this machine may be in the way: Linux says EAGAIN, and means: try again */
        fd = syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
    while (fd < 0 && errno == EAGAIN);
    if (fd >= 0)
        close(fd);
    return fd < 0 ? -1 : 0;
}
static const struct timespec then[2] = {{1000, 5}, {2000, 7}};

/* One line per call; `p` is the name. Raw calls where glibc would look at the pointer itself. */
#define CALLS(R, W)                                                                                                       \
    R(open_rdonly, opened(p, O_RDONLY))                                                                                \
    R(open_wronly, opened(p, O_WRONLY))                                                                                \
    R(open_rdwr, opened(p, O_RDWR))                                                                                    \
    W(open_creat, opened(p, O_WRONLY | O_CREAT))                                                                       \
    W(open_creat_excl, opened(p, O_WRONLY | O_CREAT | O_EXCL))                                                         \
    W(open_trunc, opened(p, O_WRONLY | O_TRUNC))                                                                       \
    W(open_rd_trunc, opened(p, O_RDONLY | O_TRUNC))                                                                    \
    R(open_dir, opened(p, O_RDONLY | O_DIRECTORY))                                                                     \
    W(open_dir_creat, opened(p, O_RDONLY | O_DIRECTORY | O_CREAT))                                                     \
    R(open_nofollow, opened(p, O_RDONLY | O_NOFOLLOW))                                                                 \
    W(open_nofollow_creat, opened(p, O_WRONLY | O_NOFOLLOW | O_CREAT))                                                 \
    R(open_path, opened(p, O_PATH))                                                                                    \
    R(open_path_nofollow, opened(p, O_PATH | O_NOFOLLOW))                                                              \
    R(open_path_dir, opened(p, O_PATH | O_DIRECTORY))                                                                  \
    R(open_tmpfile, opened(p, O_WRONLY | O_TMPFILE))                                                                   \
    R(open_tmpfile_rd, opened(p, O_RDONLY | O_TMPFILE))                                                                \
    R(open_noatime, opened(p, O_RDONLY | O_NOATIME))                                                                   \
    R(open_mode3, opened(p, 3))                                                                                        \
    R(openat2_plain, open2(p, O_RDONLY, 0))                                                                            \
    R(openat2_beneath, open2(p, O_RDONLY, RESOLVE_BENEATH))                                                            \
    R(openat2_no_links, open2(p, O_RDONLY, RESOLVE_NO_SYMLINKS))                                                       \
    R(openat2_path, open2(p, O_PATH, RESOLVE_IN_ROOT))                                                                 \
    R(stat, syscall(SYS_stat, p, &st))                                                                                 \
    R(lstat, syscall(SYS_lstat, p, &st))                                                                               \
    R(statx, syscall(SYS_statx, AT_FDCWD, p, 0, 0x7ff, &sx))                                                           \
    R(statx_nofollow, syscall(SYS_statx, AT_FDCWD, p, AT_SYMLINK_NOFOLLOW, 0x7ff, &sx))                                \
    R(statx_empty, syscall(SYS_statx, AT_FDCWD, p, AT_EMPTY_PATH, 0x7ff, &sx))                                         \
    R(fstatat_empty, syscall(SYS_newfstatat, AT_FDCWD, p, &st, AT_EMPTY_PATH))                                         \
    R(statfs, syscall(SYS_statfs, p, &sf))                                                                             \
    R(access_f, syscall(SYS_access, p, F_OK))                                                                          \
    R(access_r, syscall(SYS_access, p, R_OK))                                                                          \
    R(access_w, syscall(SYS_access, p, W_OK))                                                                          \
    R(access_x, syscall(SYS_access, p, X_OK))                                                                          \
    R(faccessat2_nofollow, syscall(SYS_faccessat2, AT_FDCWD, p, W_OK, AT_SYMLINK_NOFOLLOW))                            \
    R(faccessat2_eaccess, syscall(SYS_faccessat2, AT_FDCWD, p, R_OK, AT_EACCESS))                                      \
    R(faccessat2_empty, syscall(SYS_faccessat2, AT_FDCWD, p, R_OK, AT_EMPTY_PATH))                                     \
    R(readlink, syscall(SYS_readlink, p, buffer, sizeof buffer))                                                       \
    W(chdir, syscall(SYS_chdir, p))                                                                                    \
    W(chroot, syscall(SYS_chroot, p))                                                                                  \
    W(mkdir, syscall(SYS_mkdir, p, 0755))                                                                              \
    W(rmdir, syscall(SYS_rmdir, p))                                                                                    \
    W(unlink, syscall(SYS_unlink, p))                                                                                  \
    W(unlinkat_dir, syscall(SYS_unlinkat, AT_FDCWD, p, AT_REMOVEDIR))                                                  \
    W(mknod_file, syscall(SYS_mknod, p, S_IFREG | 0600, 0))                                                            \
    W(mknod_zero, syscall(SYS_mknod, p, 0600, 0))                                                                      \
    W(mknod_fifo, syscall(SYS_mknod, p, S_IFIFO | 0600, 0))                                                            \
    W(mknod_char, syscall(SYS_mknod, p, S_IFCHR | 0600, 0x103))                                                        \
    W(mknod_dir, syscall(SYS_mknod, p, S_IFDIR | 0600, 0))                                                             \
    W(mknod_odd, syscall(SYS_mknod, p, 0170000 | 0600, 0))                                                             \
    W(symlink_to, syscall(SYS_symlink, "target", p))                                                                   \
    W(symlink_of, syscall(SYS_symlink, p, "dir/made"))                                                                 \
    W(link_from, syscall(SYS_link, p, "dir/made"))                                                                     \
    W(link_to, syscall(SYS_link, "file", p))                                                                           \
    W(linkat_follow, syscall(SYS_linkat, AT_FDCWD, p, AT_FDCWD, "dir/made", AT_SYMLINK_FOLLOW))                        \
    W(linkat_empty, syscall(SYS_linkat, AT_FDCWD, p, AT_FDCWD, "dir/made", AT_EMPTY_PATH))                             \
    W(rename_from, syscall(SYS_rename, p, "dir/made"))                                                                 \
    W(rename_to, syscall(SYS_rename, "file", p))                                                                       \
    W(rename_dir_to, syscall(SYS_rename, "dir", p))                                                                    \
    W(rename_noreplace, syscall(SYS_renameat2, AT_FDCWD, "file", AT_FDCWD, p, 1))                                      \
    W(rename_exchange, syscall(SYS_renameat2, AT_FDCWD, "file", AT_FDCWD, p, 2))                                       \
    W(chmod, syscall(SYS_chmod, p, 0600))                                                                              \
    W(fchmodat2_nofollow, syscall(452, AT_FDCWD, p, 0600, AT_SYMLINK_NOFOLLOW))                                        \
    W(fchmodat2_empty, syscall(452, AT_FDCWD, p, 0700, AT_EMPTY_PATH))                                                 \
    R(chown_none, syscall(SYS_chown, p, -1, -1))                                                                       \
    W(chown_root, syscall(SYS_chown, p, 0, -1))                                                                        \
    R(lchown_none, syscall(SYS_lchown, p, -1, -1))                                                                     \
    R(fchownat_empty, syscall(SYS_fchownat, AT_FDCWD, p, -1, -1, AT_EMPTY_PATH))                                       \
    W(truncate, syscall(SYS_truncate, p, 3))                                                                           \
    W(truncate_negative, syscall(SYS_truncate, p, -1L))                                                                 \
    R(utime, syscall(SYS_utime, p, NULL))                                                                              \
    R(utimes, syscall(SYS_utimes, p, NULL))                                                                            \
    R(futimesat, syscall(SYS_futimesat, AT_FDCWD, p, NULL))                                                            \
    R(utimensat, syscall(SYS_utimensat, AT_FDCWD, p, then, 0))                                                         \
    R(utimensat_nofollow, syscall(SYS_utimensat, AT_FDCWD, p, then, AT_SYMLINK_NOFOLLOW))                              \
    R(utimensat_empty, syscall(SYS_utimensat, AT_FDCWD, p, then, AT_EMPTY_PATH))                                       \
    W(setxattr, syscall(SYS_setxattr, p, "user.a", "v", 1, 0))                                                         \
    W(lsetxattr, syscall(SYS_lsetxattr, p, "user.a", "v", 1, 0))                                                       \
    W(setxattr_trusted, syscall(SYS_setxattr, p, "trusted.a", "v", 1, 0))                                              \
    W(setxattr_odd, syscall(SYS_setxattr, p, "odd.a", "v", 1, 0))                                                      \
    R(getxattr, syscall(SYS_getxattr, p, "user.a", buffer, 10))                                                        \
    R(lgetxattr, syscall(SYS_lgetxattr, p, "user.a", buffer, 10))                                                      \
    R(listxattr, syscall(SYS_listxattr, p, buffer, 0) < 0 ? -1 : 0)                                                    \
    W(removexattr, syscall(SYS_removexattr, p, "user.a"))                                                              \
    W(execve, syscall(SYS_execve, p, NULL, NULL))                                                                      \
    W(umount, syscall(SYS_umount2, p, 0))                                                                              \
    W(swapon, syscall(SYS_swapon, p, 0))                                                                               \
    W(acct, syscall(SYS_acct, p))                                                                                      \
    W(name_to_handle, syscall(SYS_name_to_handle_at, AT_FDCWD, p, NULL, NULL, 0))

int main(int argc, char **argv) {
    /* "prepare" makes the names and ends; "prepared" finds them there, where nothing can be made (a read-only mount). */
    int prepared = argc > 1 && !strcmp(argv[1], "prepared");
    const char *only = argc > 1 && !prepared ? argv[1] : "";
    int home = MUST(open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    umask(022);
    if (prepared)
        MUST(chdir("t/u"));
    else
        fixture();
    if (!strcmp(only, "prepare"))
        return 0;
    for (unsigned n = 0; n < sizeof names / sizeof *names; n++) {
        const char *p = spelled(names[n]);
        long result;
        int number;
#define ASK(what, call)                                                                                                \
    if (!*only || !strcmp(only, #what)) {                                                                              \
        errno = 0;                                                                                                     \
        result = (call);                                                                                               \
        number = errno;                                                                                                \
        say(#what "(%s) = %ld %s", names[n], result, result == -1 ? errname(number) : "ok");                           \
    }
#define CHANGE(what, call)                                                                                             \
    ASK(what, call)                                                                                                    \
    if ((!*only || !strcmp(only, #what)) && result != -1) {                                                            \
        MUST(fchdir(home));                                                                                            \
        if (!prepared)                                                                                                 \
            remove_all("t"), fixture();                                                                                \
        else                                                                                                           \
            MUST(chdir("t/u"));                                                                                        \
    }
        CALLS(ASK, CHANGE)
    }
    MUST(fchdir(home));
    if (!prepared)
        remove_all("t");
    return 0;
}
