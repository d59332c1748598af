/* build: direct_calls
 *
 * direct_calls SECRET [restricted|FILE]: makes calls at the one instruction by which guests look up names of /usr
 * themselves (native/loader/resident.h), with arguments that no code of husk's ever gives it: names outside /usr, ways
 * through `..` and links, flags that write or make, descriptors, other calls. Without that instruction, natively, it
 * makes the same calls with one of its own.
 * SECRET is a host file that begins with ORIGINAL. `restricted`: the program first forbids itself with Landlock to read
 * anything. FILE: a file below /usr that a mount covers. It asks for names in husk's state directory by "state?".
 */
#include "reached.h"
#include <linux/landlock.h>
#include <linux/openat2.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define INSTRUCTION 0x567f00000b80
#define SHOWN "/husk-host"
#define TABLE "/husk-directories"

static int there; /* has this process that instruction? */

/* `call` with all six arguments. */
static long at_place(long nr, long a, long b, long c, long d, long e, long f) {
    long result;
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    if (!there) {
        __asm__ volatile("syscall" : "=a"(result)
                         : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
    } else {
        __asm__ volatile("lea -128(%%rsp), %%rsp; call *%[place]; lea 128(%%rsp), %%rsp" : "=a"(result)
                         : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9), [place] "r"(INSTRUCTION)
                         : "rcx", "r11", "memory");
    }
    return result;
}

static long opens(long dirfd, const char *name, long flags) {
    return at_place(SYS_openat, dirfd, (long)name, flags, 0600, 0, 0);
}

static const char *text_of(long result) { return result < 0 ? errname((int)-result) : "done"; }

/* ---- reading what is not shown ----------------------------------------------------------------------------------- */

static char names[64][PATH_MAX];
static int name_count;

static __attribute__((format(printf, 1, 2))) void name(const char *format, ...) {
    va_list values;
    va_start(values, format);
    vsnprintf(names[name_count++], PATH_MAX, format, values);
    va_end(values);
}

static void make_names(const char *file) {
    static const char *const befores[] = {
        "", SHOWN, SHOWN "/..", SHOWN "/usr/..", SHOWN "/usr/../..", SHOWN "/usr/bin/../../..", "/proc/self/root",
        "/proc/1/root", "/proc/self/cwd/../../../../../..", "/proc/thread-self/root", "//", "/./..",
    };
    name_count = 0;
    for (size_t i = 0; i < sizeof befores / sizeof *befores; i++)
        name("%s%s", befores[i], file);
    for (int up = 1; up < 20; up++) {
        char dots[80] = "";
        for (int i = 0; i < up; i++)
            strcat(dots, "../");
        name("%s%s", dots, file + 1);
        name("%s%s%s", SHOWN "/usr/lib/", dots, file + 1);
    }
}

/* Can the instruction open, see, or read as a link any of these names, in any way? */
static int reached_by(const char *file) {
    static const long flags[] = {O_RDONLY, O_NONBLOCK, O_CLOEXEC | O_NOCTTY, O_PATH, O_RDWR, O_WRONLY | O_NONBLOCK,
                                 O_DIRECTORY, O_NOFOLLOW, 1L << 32, O_RDONLY | 1L << 33};
    struct stat s;
    char text[PATH_MAX];
    int reached = 0, directories[] = {AT_FDCWD, open("/", O_RDONLY), open(".", O_PATH), open("/usr", O_RDONLY),
                                      open("/proc/self", O_RDONLY), open("/tmp", O_RDONLY), 0, 77};
    make_names(file);
    for (int i = 0; i < name_count; i++)
        for (size_t d = 0; d < sizeof directories / sizeof *directories; d++) {
            long dirfd = directories[d], bytes = (long)names[i];
            for (size_t f = 0; f < sizeof flags / sizeof *flags; f++)
                reached += reads((int)opens(dirfd, names[i], flags[f])) ? 1 : 0;
            reached += at_place(SYS_newfstatat, dirfd, bytes, (long)&s, 0, 0, 0) == 0;
            reached += at_place(SYS_newfstatat, dirfd, bytes, (long)&s, AT_SYMLINK_NOFOLLOW, 0, 0) == 0;
            reached += at_place(SYS_readlinkat, dirfd, bytes, (long)text, sizeof text, 0, 0) >= 0;
            reached += at_place(SYS_newfstatat, (unsigned)dirfd, bytes, (long)&s, 0x100L << 32, 0, 0) == 0;
        }
    for (size_t d = 1; d < 6; d++)
        close(directories[d]);
    return reached;
}

/* All links of the shown /usr that lead away from it. */
static int reached_through_links(void) {
    static const char *const links[] = {"bin/awk", "bin/which", "bin/pager", "bin/editor", "lib/ssl/certs", "local/man",
                                        "share/zoneinfo/localtime", "lib/os-release", "bin/vi", "bin/cc", "bin/java"};
    char path[200], text[200];
    struct stat s;
    int reached = 0;
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        snprintf(path, sizeof path, SHOWN "/usr/%s", links[i]);
        long size = at_place(SYS_readlinkat, AT_FDCWD, (long)path, (long)text, sizeof text - 1, 0, 0);
        if (size <= 0 || text[0] != '/')
            continue;
        long fd = opens(AT_FDCWD, path, O_RDONLY);
        reached += fd >= 0 || at_place(SYS_newfstatat, AT_FDCWD, (long)path, (long)&s, 0, 0, 0) == 0;
    }
    return reached;
}

/* ---- writing, making, changing ----------------------------------------------------------------------------------- */

static int writable(void) {
    static const long flags[] = {O_WRONLY, O_RDWR, O_RDWR | O_TRUNC, O_RDONLY | O_TRUNC, O_WRONLY | O_APPEND, O_ACCMODE,
                                 O_CREAT | O_WRONLY, O_CREAT | O_RDONLY | O_EXCL, O_TMPFILE | O_RDWR,
                                 O_RDONLY | O_APPEND};
    static const char *const files[] = {SHOWN "/usr/bin/env", SHOWN "/usr/bin", SHOWN "/usr", SHOWN, TABLE, "/",
                                        "/husk-made",
                                        SHOWN "/made", SHOWN "/usr/made", "/husk-loader"};
    int done = 0;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        for (size_t f = 0; f < sizeof flags / sizeof *flags; f++) {
            long fd = opens(AT_FDCWD, files[i], flags[f]);
            done += fd >= 0 && files[i][1] == 'h'; /* husk opens the guest's own "/" */
            if (fd >= 0)
                close((int)fd);
        }
    return done;
}

/* Other calls at that instruction: the host would act on its own names. */
static int other_calls(const char *secret) {
    char copy[] = SHOWN "/usr/bin/env", *argv[] = {"env", NULL}, *envp[] = {NULL};
    struct open_how how = {.flags = O_RDONLY};
    struct statx x;
    int done = 0;
    static const char *const files[] = {SHOWN "/usr/bin/env", TABLE, "/husk-loader", SHOWN "/usr/bin", SHOWN};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        long file = (long)files[i];
        done += at_place(SYS_openat2, AT_FDCWD, file, (long)&how, sizeof how, 0, 0) >= 0;
        done += at_place(SYS_open, file, O_RDONLY, 0, 0, 0, 0) >= 0;
        done += at_place(SYS_stat, file, (long)&x, 0, 0, 0, 0) >= 0;
        done += at_place(SYS_lstat, file, (long)&x, 0, 0, 0, 0) >= 0;
        done += at_place(SYS_access, file, 0, 0, 0, 0, 0) >= 0;
        done += at_place(SYS_faccessat2, AT_FDCWD, file, 0, 0, 0, 0) >= 0;
        done += at_place(SYS_statx, AT_FDCWD, file, 0, STATX_BASIC_STATS, (long)&x, 0) >= 0;
        done += at_place(SYS_statfs, file, (long)&x, 0, 0, 0, 0) >= 0;
        done += at_place(SYS_truncate, file, 0, 0, 0, 0, 0) >= 0;
        done += at_place(SYS_chmod, file, 0777, 0, 0, 0, 0) >= 0;
        done += at_place(SYS_unlink, file, 0, 0, 0, 0, 0) >= 0;
        done += at_place(SYS_rename, file, (long)"/husk-moved", 0, 0, 0, 0) >= 0;
        done += at_place(SYS_link, file, (long)"/tmp/linked", 0, 0, 0, 0) >= 0;
        done += at_place(SYS_chdir, file, 0, 0, 0, 0, 0) >= 0;
        done += at_place(SYS_chroot, file, 0, 0, 0, 0, 0) >= 0;
        done += at_place(SYS_getxattr, file, (long)"user.x", (long)&x, 8, 0, 0) >= 0;
        done += at_place(SYS_open_tree, AT_FDCWD, file, 0, 0, 0, 0) >= 0;
        done += at_place(SYS_mount, file, (long)"/tmp", 0, MS_ASYNC, 0, 0) >= 0;
    }
    done += at_place(SYS_mkdir, (long)SHOWN "/made", 0755, 0, 0, 0, 0) >= 0;
    pid_t pid = MUST(fork());
    if (!pid) {
        at_place(SYS_execve, (long)copy, (long)argv, (long)envp, 0, 0, 0);
        at_place(SYS_execveat, AT_FDCWD, (long)copy, (long)argv, (long)envp, 0, 0);
        at_place(SYS_execve, (long)secret, (long)argv, (long)envp, 0, 0, 0);
        _exit(9);
    }
    done += wait_for(pid) != 9 << 8;
    return done;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static int table_writable(void) {
    int done = 0;
    long fd = opens(AT_FDCWD, TABLE, O_RDONLY);
    char *shared = (char *)0x567f04000000, name[64];
    if (there) {
        done += mprotect(shared, 4096, PROT_READ | PROT_WRITE) == 0;
        done += madvise(shared, 4096, MADV_REMOVE) == 0;
        struct iovec from = {"x", 1}, to = {shared, 1};
        done += process_vm_writev(getpid(), &from, 1, &to, 1, 0) > 0;
        int mem = open("/proc/self/mem", O_RDWR);
        done += mem >= 0 && pwrite(mem, "x", 1, (long)shared) > 0;
        close(mem);
    }
    if (fd >= 0) {
        done += mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, 0) != MAP_FAILED;
        char *mine = mmap(NULL, 4096, PROT_READ, MAP_SHARED, (int)fd, 0);
        done += mine != MAP_FAILED && mprotect(mine, 4096, PROT_READ | PROT_WRITE) == 0;
        done += write((int)fd, "x", 1) > 0;
        done += ftruncate((int)fd, 0) == 0;
        struct stat before, after;
        done += at_place(SYS_newfstatat, AT_FDCWD, (long)TABLE, (long)&before, 0, 0, 0) != 0;
        fchmod((int)fd, 0777), fchown((int)fd, 0, 0), futimens((int)fd, NULL);
        done += at_place(SYS_newfstatat, AT_FDCWD, (long)TABLE, (long)&after, 0, 0, 0) != 0;
        done += memcmp(&before, &after, sizeof after) != 0;
        done += fallocate((int)fd, 3 /* punch a hole */, 0, 4096) == 0;
        snprintf(name, sizeof name, "/proc/self/fd/%d", (int)fd);
        done += open(name, O_RDWR) >= 0;
        done += opens(AT_FDCWD, name, O_RDWR) >= 0;
        done += linkat((int)fd, "", AT_FDCWD, "/tmp/table", AT_EMPTY_PATH) == 0;
        close((int)fd);
    }
    return done;
}

/* ---- husk's own files -------------------------------------------------------------------------------------------- */

/* The test says what is there, one name in a line. How many of them can be opened, made or changed? */
static int state_opened(void) {
    int done = 0;
    char path[PATH_MAX];
    while (fgets(path, sizeof path, stdin)) {
        static const long flags[] = {O_RDONLY, O_RDONLY | O_NONBLOCK, O_RDWR, O_WRONLY | O_NONBLOCK, O_PATH,
                                     O_RDONLY | O_DIRECTORY, O_RDWR | O_CREAT};
        struct stat s;
        path[strcspn(path, "\n")] = 0;
        for (size_t f = 0; f < sizeof flags / sizeof *flags; f++) {
            long fd = opens(AT_FDCWD, path, flags[f]);
            done += fd >= 0;
            if (fd >= 0)
                close((int)fd);
        }
        done += at_place(SYS_newfstatat, AT_FDCWD, (long)path, (long)&s, AT_EMPTY_PATH, 0, 0) == 0;
    }
    return done;
}

/* The working directory is a placeholder: an empty directory of husk's. */
static int relative_found(void) {
    int done = 0;
    static const char *const some[] = {"x", "1", "2", "3", "../x", "../../x", "../../lock", "../../../lock"};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        struct stat s;
        done += opens(AT_FDCWD, some[i], O_RDONLY) >= 0;
        done += opens(AT_FDCWD, some[i], O_RDWR | O_CREAT) >= 0 && some[i][0] == '.';
        done += at_place(SYS_newfstatat, AT_FDCWD, (long)some[i], (long)&s, 0, 0, 0) == 0 && some[i][0] == '.';
    }
    return done;
}

/* ---- shown names, all the same ----------------------------------------------------------------------------------- */

static int restrict_all(void) {
    const uint64_t rights = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
    struct landlock_ruleset_attr all = {.handled_access_fs = rights};
    int ruleset = (int)syscall(SYS_landlock_create_ruleset, &all, sizeof all, 0);
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || syscall(SYS_landlock_restrict_self, ruleset, 0) < 0;
}

static long opens_and_reads(const char *file) {
    char text[16];
    long fd = opens(AT_FDCWD, file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fd;
    ssize_t got = pread((int)fd, text, sizeof text, 0);
    int error = errno;
    close((int)fd);
    return got < 0 ? -error : 0;
}

int main(int argc, char **argv) {
    if (argc < 2)
        return 96;
    unsigned char code[2];
    int ends[2];
    MUST(pipe(ends));
    there = write(ends[1], (void *)INSTRUCTION, 2) == 2 && read(ends[0], code, 2) == 2 && code[0] == 0x0f &&
            code[1] == 5;
    const char *more = argc > 2 ? argv[2] : "";
    if (strcmp(more, "restricted") == 0 && restrict_all()) {
        say("restricted: %s", errname(errno));
        return 97;
    }
    /* Often enough for husk to lead the C library's calls there. */
    struct stat s;
    for (int i = 0; i < 200; i++)
        stat("/usr/bin/env", &s), access("/usr/bin/env", R_OK);
    say("a shown file: %s", text_of(opens_and_reads(SHOWN "/usr/bin/env")));
    say("the same by its name: %s", text_of(opens_and_reads("/usr/bin/env")));
    if (more[0] == '/') {
        char path[PATH_MAX];
        snprintf(path, sizeof path, SHOWN "%s", more);
        say("covered: %s", text_of(opens_and_reads(path)));
        say("covered, by its name: %s", text_of(opens_and_reads(more)));
        say("covered, seen: %s", text_of(at_place(SYS_newfstatat, AT_FDCWD, (long)path, (long)&s, 0, 0, 0)));
    }
    say("secret: %d", reached_by(argv[1]));
    MUST(chdir("/usr/lib"));
    say("secret, from /usr: %d", reached_by(argv[1]));
    MUST(chdir("/tmp"));
    say("secret, from /tmp: %d", reached_by(argv[1]));
    say("through links: %d", reached_through_links());
    say("writable: %d", writable());
    say("relative: %d", relative_found());
    say("other calls: %d", other_calls(argv[1]));
    say("table: %d", table_writable());
    say("state?");
    say("state: %d", state_opened());
    for (int i = 0; i < 200; i++)
        stat("/usr/bin/env", &s), access("/usr/bin/env", R_OK);
    return 0;
}
