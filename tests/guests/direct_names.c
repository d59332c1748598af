/* build: direct_names -pthread
 *
 * Names below /usr, asked once and then so often that a runtime may answer without being asked: every call that looks a
 * name up or opens it, from the C library and from instructions of the program's own, with every kind of name, bad
 * pointers, and what can be done with a file that was opened so. Each later answer is compared with the first.
 *
 * direct_names [DIRECTORY]: names of this directory only; a test has put links and files of all kinds there.
 */
#include "single_step.h"

#include <dirent.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/time.h>

#define ROUNDS 8 /* of forty calls each */
#define ENV "/usr/bin/env"

extern char **environ;
static char *self;

/* ---- the calls --------------------------------------------------------------------------------------------------- */

struct answer {
    long result;
    int error, flags, fd_flags, changed; /* changed: it failed, and wrote to the buffer all the same */
    struct stat stat;
    char text[64];
};

/* A call at an instruction of this program; 1000: it has changed a register that a call leaves alone. */
#define RAW(name, number) \
    static __attribute__((noinline)) long name(long a, long b, long c, long d) { \
        long result, rdi = a, rsi = b, rdx = c, rbx = 11; \
        register long r10 __asm__("r10") = d, r8 __asm__("r8") = 88, r9 __asm__("r9") = 99, r12 __asm__("r12") = 12; \
        register long r13 __asm__("r13") = 13, r14 __asm__("r14") = 14, r15 __asm__("r15") = 15; \
        __asm__ volatile("nop; movl %[nr], %%eax; syscall" \
                         : "=&a"(result), "+D"(rdi), "+S"(rsi), "+d"(rdx), "+b"(rbx), "+r"(r10), "+r"(r8), "+r"(r9), \
                           "+r"(r12), "+r"(r13), "+r"(r14), "+r"(r15) \
                         : [nr] "i"(number) \
                         : "rcx", "r11", "memory", "cc"); \
        if (rdi != a || rsi != b || rdx != c || r10 != d || rbx != 11 || r8 != 88 || r9 != 99 || r12 != 12 || \
            r13 != 13 || r14 != 14 || r15 != 15) \
            return 1000; \
        errno = result < 0 ? (int)-result : 0; \
        return result < 0 ? -1 : result; \
    }

RAW(raw_stat, SYS_stat)
RAW(raw_lstat, SYS_lstat)
RAW(raw_fstat, SYS_fstat)
RAW(raw_stat_at, SYS_newfstatat)
RAW(raw_access, SYS_access)
RAW(raw_access_at, SYS_faccessat)
RAW(raw_access2, SYS_faccessat2)
RAW(raw_readlink, SYS_readlink)
RAW(raw_readlink_at, SYS_readlinkat)
RAW(raw_open, SYS_open)
RAW(raw_open_at, SYS_openat)

static long read_some(long fd, struct answer *a) {
    if (fd < 0)
        return -1;
    a->flags = fcntl((int)fd, F_GETFL);
    a->fd_flags = fcntl((int)fd, F_GETFD);
    long result = fstat((int)fd, &a->stat);
    if (S_ISDIR(a->stat.st_mode))
        a->flags &= ~(O_APPEND | O_SYNC); /* without a meaning there */
    if (result == 0 && S_ISREG(a->stat.st_mode) && !(a->flags & O_PATH) && (a->flags & O_ACCMODE) == O_RDONLY)
        result = read((int)fd, a->text, sizeof a->text);
    int error = errno;
    close((int)fd);
    errno = error;
    return result;
}

typedef long ask(const char *name, struct answer *a);
#define ASK(function, expression) static long function(const char *name, struct answer *a) { \
        struct stat *s = &a->stat; \
        char *text = a->text; \
        const long n = (long)name; \
        (void)s, (void)text, (void)n; \
        return (expression); \
    }

ASK(by_stat, stat(name, s))
ASK(by_lstat, lstat(name, s))
ASK(by_stat_at, fstatat(AT_FDCWD, name, s, AT_NO_AUTOMOUNT))
ASK(by_stat_bad_dir, fstatat(77, name, s, 0))
ASK(by_stat_empty, fstatat(AT_FDCWD, name, s, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW))
ASK(by_stat_flags, fstatat(AT_FDCWD, name, s, 0x40000))
ASK(by_raw_stat, raw_stat(n, (long)s, 0, 0))
ASK(by_raw_lstat, raw_lstat(n, (long)s, 0, 0))
ASK(by_raw_stat_at, raw_stat_at(AT_FDCWD, n, (long)s, AT_SYMLINK_NOFOLLOW))
ASK(by_access, access(name, F_OK))
ASK(by_access_read, access(name, R_OK))
ASK(by_access_write, access(name, W_OK))
ASK(by_access_execute, access(name, R_OK | X_OK))
ASK(by_access_wrong, access(name, 8))
ASK(by_raw_access, raw_access(n, R_OK, 0, 0))
ASK(by_access_at, raw_access_at(77, n, X_OK, 0))
ASK(by_access2, raw_access2(AT_FDCWD, n, R_OK, 0))
ASK(by_access2_effective, faccessat(AT_FDCWD, name, X_OK, AT_EACCESS))
ASK(by_access2_link, faccessat(AT_FDCWD, name, F_OK, AT_SYMLINK_NOFOLLOW))
ASK(by_readlink, readlink(name, text, sizeof a->text))
ASK(by_readlink_one, readlink(name, text, 1))
ASK(by_readlink_none, raw_readlink(n, (long)text, 0, 0))
ASK(by_readlink_at, readlinkat(77, name, text, sizeof a->text))
ASK(by_raw_readlink, raw_readlink(n, (long)text, sizeof a->text, 0))
ASK(by_raw_readlink_at, raw_readlink_at(AT_FDCWD, n, (long)text, -1))
ASK(by_open, read_some(open(name, O_RDONLY), a))
ASK(by_open_cloexec, read_some(open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK), a))
ASK(by_open_nofollow, read_some(openat(77, name, O_RDONLY | O_NOFOLLOW | O_NOCTTY), a))
ASK(by_open_directory, read_some(open(name, O_RDONLY | O_DIRECTORY), a))
ASK(by_open_path, read_some(open(name, O_PATH), a))
ASK(by_open_path_link, read_some(open(name, O_PATH | O_NOFOLLOW | O_CLOEXEC), a))
ASK(by_open_write, read_some(open(name, O_WRONLY), a))
ASK(by_open_both, read_some(open(name, O_RDWR), a))
ASK(by_open_strange, read_some(open(name, O_RDONLY | O_APPEND | O_SYNC), a))
ASK(by_open_truncate, read_some(open(name, O_RDONLY | O_TRUNC), a))
ASK(by_open_create, read_some(open(name, O_RDONLY | O_CREAT | O_EXCL, 0600), a))
ASK(by_open_temporary, read_some(open(name, O_RDWR | O_TMPFILE, 0600), a))
ASK(by_raw_open, read_some(raw_open(n, O_RDONLY, 0, 0), a))
ASK(by_raw_open_at, read_some(raw_open_at(AT_FDCWD, n, O_RDONLY | O_CLOEXEC, 0), a))

static const struct { const char *title; ask *ask; char kind; } CALLS[] = {
    {"stat", by_stat, 's'}, {"lstat", by_lstat, 's'}, {"fstatat", by_stat_at, 's'},
    {"fstatat(77)", by_stat_bad_dir, 's'},
    {"fstatat(empty)", by_stat_empty, 's'}, {"fstatat(?)", by_stat_flags, 's'}, {"raw stat", by_raw_stat, 's'},
    {"raw lstat", by_raw_lstat, 's'}, {"raw fstatat", by_raw_stat_at, 's'}, {"access", by_access, 'a'},
    {"access(r)", by_access_read, 'a'}, {"access(w)", by_access_write, 'a'}, {"access(rx)", by_access_execute, 'a'},
    {"access(8)", by_access_wrong, 'a'}, {"raw access", by_raw_access, 'a'}, {"faccessat(77)", by_access_at, 'a'},
    {"faccessat2", by_access2, 'a'}, {"faccessat2(e)", by_access2_effective, 'a'},
    {"faccessat2(l)", by_access2_link, 'a'}, {"readlink", by_readlink, 'l'}, {"readlink(1)", by_readlink_one, 'l'},
    {"readlink(0)", by_readlink_none, 'l'}, {"readlinkat(77)", by_readlink_at, 'l'},
    {"raw readlink", by_raw_readlink, 'l'},
    {"readlinkat(-1)", by_raw_readlink_at, 'l'}, {"open", by_open, 'o'}, {"open(cloexec)", by_open_cloexec, 'o'},
    {"open(nofollow)", by_open_nofollow, 'o'}, {"open(directory)", by_open_directory, 'o'},
    {"open(path)", by_open_path, 'o'}, {"open(path of link)", by_open_path_link, 'o'}, {"open(w)", by_open_write, 'o'},
    {"open(rw)", by_open_both, 'o'}, {"open(append)", by_open_strange, 'o'}, {"open(truncate)", by_open_truncate, 'o'},
    {"open(create)", by_open_create, 'o'}, {"open(temporary)", by_open_temporary, 'o'}, {"raw open", by_raw_open, 'o'},
    {"raw openat", by_raw_open_at, 'o'},
};
#define CALL_COUNT (sizeof CALLS / sizeof *CALLS)

static const struct answer *answer(size_t call, const char *name, struct answer *a) {
    memset(a, 0, sizeof *a);
    if (CALLS[call].kind == 's')
        memset(&a->stat, 0xee, sizeof a->stat);
    errno = 0;
    a->result = CALLS[call].ask(name, a);
    a->error = a->result < 0 ? errno : 0;
    if (CALLS[call].kind == 's' && a->result < 0) {
        const unsigned char *bytes = (const unsigned char *)&a->stat;
        for (size_t i = 0; i < sizeof a->stat; i++)
            a->changed |= bytes[i] != 0xee;
    }
    a->stat.st_atim = (struct timespec){0}; /* reading may change it */
    return a;
}

static int differs(const struct answer *one, const struct answer *other) {
    return one->result != other->result || one->error != other->error || one->flags != other->flags ||
           one->fd_flags != other->fd_flags || one->changed != other->changed ||
           memcmp(&one->stat, &other->stat, sizeof one->stat) != 0 ||
           memcmp(one->text, other->text, sizeof one->text) != 0;
}

static const char *owner_of(const struct stat *s) {
    static char text[40];
    snprintf(text, sizeof text, "%u:%u", s->st_uid, s->st_gid);
    return s->st_uid == geteuid() ? "me" : text;
}

static void show(size_t call, const char *name, const struct answer *a) {
    const struct stat *s = &a->stat;
    const char *title = CALLS[call].title;
    if (a->result < 0)
        say("  %s %s = %s%s", title, name, errname(a->error), a->changed ? ", with a changed buffer" : "");
    else if (CALLS[call].kind == 's')
        say("  %s %s = %o %s links %d size %ld", title, name, s->st_mode, owner_of(s),
            S_ISDIR(s->st_mode) ? 0 : (int)s->st_nlink, S_ISDIR(s->st_mode) ? 0 : (long)s->st_size);
    else if (CALLS[call].kind == 'l')
        say("  %s %s = %ld \"%.*s\"", title, name, a->result, (int)sizeof a->text, a->text);
    else if (CALLS[call].kind == 'o')
        say("  %s %s = %ld flags %x %x mode %o %s", title, name, a->result, a->flags, a->fd_flags, s->st_mode,
            owner_of(s));
    else
        say("  %s %s = %ld", title, name, a->result);
}

/* Ask everything about a name, and go on asking. */
static void look(const char *name) {
    struct answer first[CALL_COUNT], now;
    char start[40];
    snprintf(start, sizeof start, "%s", name);
    for (size_t i = 0; i < CALL_COUNT; i++)
        show(i, start, answer(i, name, &first[i]));
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < CALL_COUNT; i++)
            if (differs(&first[i], answer(i, name, &now)) && wrong++ < 3)
                show(i, start, &now);
    say("%s again: different %d", start, wrong);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static const char *const NAMES[] = {
    ENV, "/usr", "/usr/", "/usr/.", "/usr/..", "/usr/../usr/bin/env", "/usr/bin", "/usr/bin/", "/usr/bin/.",
    "/usr/bin/..", "/usr/bin/../bin/env", "/usr/bin/./env", "/usr//bin//env", "//usr/bin/env", "/usr/bin/env/",
    "/usr/bin/env/none", "/usr/bin/env/.", "/usr/bin/env/..", "/usr/bin/python3", "/usr/bin/python3/",
    "/usr/bin/python3/none", "/usr/bin/sh", "/usr/bin/awk", "/usr/bin/passwd", "/bin/sh", "/bin/awk", "/bin/none",
    "/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/os-release", "/etc/os-release",
    "/usr/none", "/usr/none/", "/usr/none/..", "/usr/none/none", "/usr/none/none/none", "/usr/bin/none",
    "/usr/bin/none/",
    "/usr/bin/none/none", "/usr/share/doc", "/usr/share/../share/doc/../none", "/usr/bin/../../usr/bin/../bin/env", "",
    "/", ".", "..", "/husk-host/usr/bin/env", "/husk-directories",
};

static void names(void) {
    MUST(chdir("/usr/lib"));
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        look(NAMES[i]);
    const char *const relative[] = {"os-release", "./os-release", "../bin/env", "x86_64-linux-gnu/libc.so.6", "none"};
    for (size_t i = 0; i < sizeof relative / sizeof *relative; i++)
        look(relative[i]);
    int found = 0;
    struct stat s;
    char name[64];
    for (int i = 0; i < 2000; i++) {
        snprintf(name, sizeof name, "/usr/lib/none-%d", i);
        found += stat(name, &s) != -1 || errno != ENOENT;
        found += open(name, O_RDONLY) != -1 || errno != ENOENT;
        snprintf(name, sizeof name, "/usr/none-%d/none", i % 50);
        found += access(name, F_OK) != -1 || errno != ENOENT;
    }
    say("missing ones that were found: %d", found);
}

/* A name of `size` bytes: `head`, fillers, `tail`. */
static const char *of_size(const char *head, const char *filler, const char *tail, size_t size) {
    static char text[8192];
    size_t at = strlen(head), step = strlen(filler);
    strcpy(text, head);
    while (at + step + strlen(tail) <= size)
        at += (size_t)sprintf(text + at, "%s", filler);
    while (at + strlen(tail) < size)
        at += (size_t)sprintf(text + at, "/");
    strcpy(text + at, tail);
    return text;
}

static void long_names(void) {
    const size_t sizes[] = {200, 253, 254, 255, 256, 257, 264, 265, 511, 1000, 4094, 4095, 4096, 5000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        say("%zu bytes", sizes[i]);
        look(of_size("/usr/bin", "/.", "/env", sizes[i]));
        look(of_size("/usr/bin/", "x", "", sizes[i]));
        look(of_size("/usr/", "x", "/env", sizes[i]));
    }
}

/* ---- bad pointers ------------------------------------------------------------------------------------------------ */

/* Nothing follows the name in memory, not even the NUL where `cut` says so. */
static void edges(void) {
    const char *const some[] = {ENV, "/usr/bin/python3", "/usr/bin/none", "/usr/bin", "/", ""};
    struct answer now;
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        look(edge_string(some[i]));
        size_t size = strlen(some[i]);
        char *cut = memcpy(edge_buffer(size), some[i], size);
        int wrong = 0;
        for (int round = 0; round < ROUNDS; round++)
            for (size_t call = 0; call < CALL_COUNT; call++)
                wrong += answer(call, cut, &now)->result != -1 ||
                         (now.error != EFAULT && now.error != EBADF && now.error != EINVAL);
        say("%s without its end: wrong %d", some[i], wrong);
    }
    /* Over the border of two pages, at every place. */
    char *pages = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int wrong = 0;
    MUST(munmap(pages + 2 * 4096, 4096));
    for (int round = 0; round < 20; round++)
        for (size_t i = 0; i < sizeof ENV; i++) {
            struct stat s;
            char *name = memcpy(pages + 4096 - i, ENV, sizeof ENV);
            wrong += stat(name, &s) != 0 || s.st_size == 0 || access(name, X_OK) != 0;
            wrong += readlink(name, (char *)&s, sizeof s) != -1 || errno != EINVAL;
        }
    say("over a border: wrong %d", wrong);
}

static const char *errors_of(long *results, int count) {
    static char text[200];
    int at = 0;
    text[0] = 0;
    for (int i = 0; i < count; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, " %s", results[i] ? errname((int)-results[i]) : "0");
    return text;
}

#define ERROR(expression) ((expression) < 0 ? -errno : 0)

static void pointers(void) {
    char *ro = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *edge = edge_buffer(sizeof(struct stat) - 1);
    char *gone = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *const bad[] = {NULL, (char *)8, ro, edge, gone, (char *)-1, (char *)0x7ffffffff000,
                         (char *)0x8000000000000000};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct stat s, *to = (struct stat *)bad[i];
        char text[8];
        long first[12], now[12];
        int wrong = 0;
        int fd = MUST(open(ENV, O_RDONLY));
        for (int round = 0; round < 200; round++) {
            int n = 0;
            now[n++] = ERROR(raw_stat((long)ENV, (long)to, 0, 0));
            now[n++] = ERROR(raw_lstat((long)"/usr/bin/python3", (long)to, 0, 0));
            now[n++] = ERROR(raw_stat_at(AT_FDCWD, (long)ENV, (long)to, 0));
            now[n++] = ERROR(raw_stat((long)"/usr/bin/none", (long)to, 0, 0));
            now[n++] = ERROR(raw_fstat(fd, (long)to, 0, 0));
            now[n++] = ERROR(raw_readlink((long)"/usr/bin/python3", (long)bad[i] + 4092 * (bad[i] == ro), 8, 0));
            now[n++] = ERROR(raw_readlink((long)ENV, (long)bad[i], 8, 0));
            if (bad[i] != ro && bad[i] != edge) {
                now[n++] = ERROR(raw_stat((long)bad[i], (long)&s, 0, 0));
                now[n++] = ERROR(raw_access((long)bad[i], R_OK, 0, 0));
                now[n++] = ERROR(raw_readlink((long)bad[i], (long)text, 8, 0));
                now[n++] = ERROR(raw_open((long)bad[i], O_RDONLY, 0, 0));
                now[n++] = ERROR(raw_stat_at(fd, (long)bad[i], (long)&s, AT_EMPTY_PATH));
            }
            if (round == 0) {
                memcpy(first, now, sizeof first);
                say("pointer %zu:%s", i, errors_of(now, n));
            }
            wrong += memcmp(first, now, sizeof *now * (size_t)n) != 0;
        }
        close(fd);
        say("pointer %zu: different %d", i, wrong);
    }
    /* A buffer that is the name, too. */
    union { struct stat s; char name[sizeof(struct stat)]; } both;
    int wrong = 0;
    for (int round = 0; round < 200; round++) {
        strcpy(both.name, ENV);
        wrong += raw_stat((long)both.name, (long)&both.s, 0, 0) != 0 || !S_ISREG(both.s.st_mode);
        strcpy(both.name, "/usr/bin/python3");
        wrong += raw_readlink((long)both.name, (long)both.name, 64, 0) < 2 || both.name[0] == '/';
    }
    say("name and buffer in one place: wrong %d", wrong);
}

/* ---- descriptors ------------------------------------------------------------------------------------------------- */

static const char *link_of(int fd) {
    static char text[PATH_MAX];
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(name, text, sizeof text - 1);
    text[size < 0 ? 0 : size] = 0;
    return text;
}

static const char *mapped_as(const void *at) {
    static char line[PATH_MAX + 200];
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned long start, end;
    char *name = "not there";
    while (maps && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx", &start, &end) == 2 && (unsigned long)at >= start && (unsigned long)at < end) {
            line[strcspn(line, "\n")] = 0;
            name = strchr(line, '/') ? strchr(line, '/') : "no name";
            break;
        }
    if (maps)
        fclose(maps);
    return name;
}

static int same_file(const struct stat *one, const struct stat *other) {
    return one->st_dev == other->st_dev && one->st_ino == other->st_ino && one->st_mode == other->st_mode &&
           one->st_uid == other->st_uid && one->st_gid == other->st_gid && one->st_size == other->st_size &&
           one->st_ctim.tv_sec == other->st_ctim.tv_sec;
}

static void passed(int fd, const struct stat *named) {
    int pair[2];
    char byte = 'x', room[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct stat s;
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    STEP(sendmsg(pair[0], &message, 0));
    STEP(recvmsg(pair[1], &message, 0));
    int got = -1;
    memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof got);
    MUST(fstat(got, &s));
    say("passed: same file %d, %s", same_file(&s, named), link_of(got));
    close(got), close(pair[0]), close(pair[1]);
}

static void reopened(int fd) {
    char name[64];
    struct answer now;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    for (size_t i = 0; i < CALL_COUNT; i++)
        if (CALLS[i].kind == 'o' && strcmp(CALLS[i].title, "open(truncate)") != 0)
            show(i, "itself again", answer(i, name, &now));
}

static void moved(int fd) {
    int ends[2], own = MUST(open("copy", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    off_t at = 4;
    char bytes[16];
    MUST(pipe(ends));
    STEP(sendfile(ends[1], fd, &at, 100));
    at = 4;
    STEP(splice(fd, &at, ends[1], NULL, 100, 0));
    STEP(read(ends[0], bytes, sizeof bytes));
    STEP(pread(fd, bytes, sizeof bytes, 1));
    STEP(lseek(fd, 0, SEEK_CUR));
    STEP(sendfile(own, fd, NULL, 1000));
    STEP(lseek(fd, 0, SEEK_CUR));
    STEP(posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED));
    STEP(write(fd, "x", 1));
    STEP(ftruncate(fd, 0));
    STEP(fchmod(fd, 0777));
    STEP(futimens(fd, NULL));
    STEP(fchown(fd, geteuid(), -1));
    STEP(fallocate(fd, 0, 0, 1));
    STEP(flock(fd, LOCK_SH | LOCK_NB));
    STEP(flock(fd, LOCK_UN));
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    STEP(fcntl(fd, F_SETLK, &lock));
    lock.l_type = F_WRLCK;
    STEP(fcntl(fd, F_SETLK, &lock));
    OK(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    OK(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0));
    STEP(openat(fd, "env", O_RDONLY));
    STEP(fchdir(fd));
    STEP(unlink("copy"));
    close(own), close(ends[0]), close(ends[1]);
}

static void descriptors(void) {
    struct stat named, s;
    int fd = -1, wrong = 0;
    MUST(stat(ENV, &named));
    for (int i = 0; i < 500; i++) {
        int next = MUST(open(ENV, O_RDONLY | O_CLOEXEC));
        wrong += fstat(next, &s) != 0 || !same_file(&s, &named);
        wrong += raw_fstat(next, (long)&s, 0, 0) != 0 || !same_file(&s, &named);
        wrong += fstatat(next, "", &s, AT_EMPTY_PATH) != 0 || !same_file(&s, &named);
        if (fd >= 0)
            close(fd);
        fd = next;
    }
    say("opened files that differ: %d", wrong);
    struct statfs by_name, by_fd;
    MUST(statfs(ENV, &by_name));
    MUST(fstatfs(fd, &by_fd));
    say("file system: same type %d, same flags %d", by_name.f_type == by_fd.f_type, by_name.f_flags == by_fd.f_flags);
    say("link %s", link_of(fd));
    say("flags %x %x", fcntl(fd, F_GETFL), fcntl(fd, F_GETFD));
    STEP(fcntl(fd, F_SETFD, 0));
    STEP(fcntl(fd, F_SETFL, O_NONBLOCK));
    say("flags %x %x", fcntl(fd, F_GETFL), fcntl(fd, F_GETFD));
    STEP(fcntl(fd, F_SETFL, 0));
    int copy = MUST(dup(fd));
    MUST(fstat(copy, &s));
    say("copy: same file %d, %s", same_file(&s, &named), link_of(copy));
    MUST(lseek(copy, 100, SEEK_SET));
    say("one place %d", lseek(fd, 0, SEEK_CUR) == 100);
    close(copy);
    void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    say("mapped %s", mapped_as(code));
    say("the C library %s", strstr(mapped_as((void *)strlen), "/libc") ? "has its name" : "has not");
    say("from libm.so.6 %s", link_of(MUST(open("/lib/x86_64-linux-gnu/libm.so.6", O_RDONLY))));
    const char *target = link_of(MUST(open("/usr/bin/python3", O_RDONLY)));
    say("of a link %s", strstr(target, "/usr/bin/python3.") ? "its target" : "?");
    reopened(fd);
    moved(fd);
    passed(fd, &named);
    int program = MUST(open("/usr/bin/true", O_RDONLY | O_CLOEXEC));
    pid_t child = MUST(fork());
    if (!child) {
        char *argv[] = {"true", NULL};
        fexecve(program, argv, environ);
        _exit(99);
    }
    say("fexecve: %s", status_text(wait_for(child)));
}

static void full_table(void) {
    struct rlimit few = {12, 12};
    struct stat s;
    int wrong = 0, last = -1, fd;
    for (int i = 0; i < 100; i++)
        close(MUST(open(ENV, O_RDONLY)));
    MUST(setrlimit(RLIMIT_NOFILE, &few));
    while ((fd = open(ENV, O_RDONLY)) >= 0)
        last = fd;
    say("full: %s, last %d", errname(errno), last);
    for (int i = 0; i < 200; i++) {
        wrong += open(ENV, O_RDONLY) != -1 || errno != EMFILE;
        wrong += raw_open((long)ENV, O_RDONLY | O_NOFOLLOW, 0, 0) != -1 || errno != EMFILE;
        wrong += open("/usr/bin/none", O_RDONLY) != -1 || (errno != ENOENT && errno != EMFILE);
        wrong += stat(ENV, &s) != 0 || access(ENV, R_OK) != 0;
    }
    say("full: wrong %d", wrong);
    close(last);
    STEP(open("/usr/bin/none", O_RDONLY));
    say("room again %d", open(ENV, O_RDONLY) == last);
}

/* ---- threads, children, signals ---------------------------------------------------------------------------------- */

static const char *const PLAIN[] = {ENV, "/usr/bin/python3", "/usr/bin/none", "/usr/lib/os-release", "/usr/share/doc"};
#define PLAIN_COUNT (sizeof PLAIN / sizeof *PLAIN)
static struct answer expected[PLAIN_COUNT][CALL_COUNT];

static void expect(void) {
    for (size_t i = 0; i < PLAIN_COUNT; i++)
        for (size_t call = 0; call < CALL_COUNT; call++)
            answer(call, PLAIN[i], &expected[i][call]);
}

static int wrong_answers(int rounds) {
    struct answer now;
    int wrong = 0;
    for (int round = 0; round < rounds; round++)
        for (size_t i = 0; i < PLAIN_COUNT; i++)
            for (size_t call = 0; call < CALL_COUNT; call++)
                wrong += differs(&expected[i][call], answer(call, PLAIN[i], &now));
    return wrong;
}

static void *of_thread(void *rounds) { return (void *)(intptr_t)wrong_answers((int)(intptr_t)rounds); }

static void threads(void) {
    pthread_t all[8];
    intptr_t wrong = 0;
    for (int i = 0; i < 8; i++)
        MUST(pthread_create(&all[i], NULL, of_thread, (void *)(intptr_t)10));
    for (int i = 0; i < 8; i++) {
        void *of_it;
        pthread_join(all[i], &of_it);
        wrong += (intptr_t)of_it;
    }
    say("threads: wrong %d", (int)wrong);
}

/* Has this process asked before, or is it new? */
static int child(void) {
    expect();
    return wrong_answers(20) != 0;
}

static void children(void) {
    char *argv[] = {self, "child", NULL};
    volatile int wrong = 0;
    for (volatile int i = 0; i < 3; i++) {
        pid_t pid = MUST(fork());
        if (!pid)
            _exit(wrong_answers(10) != 0);
        wrong += wait_for(pid) != 0;
        volatile int asked = -1;
        pid = vfork();
        if (!pid) {
            struct stat s;
            asked = stat(ENV, &s) + access(ENV, X_OK) + close(open(ENV, O_RDONLY | O_CLOEXEC));
            execv(self, argv);
            _exit(99);
        }
        wrong += wait_for(pid) != 0 || asked != 0;
        MUST(posix_spawn(&pid, self, NULL, NULL, argv, environ) ? -1 : 0);
        wrong += wait_for(pid) != 0;
        wrong += wrong_answers(1);
    }
    say("children: wrong %d", wrong);
}

static volatile int came;
static struct stat first_env;

static int ask_little(void) {
    struct stat s;
    char text[64];
    int wrong = stat(ENV, &s) != 0 || !same_file(&s, &first_env);
    wrong += stat("/usr/bin/none", &s) != -1 || errno != ENOENT;
    wrong += readlink("/usr/bin/python3", text, sizeof text) < 2 || text[0] != 'p';
    int fd = open(ENV, O_RDONLY | O_CLOEXEC);
    wrong += fd < 0 || fstat(fd, &s) != 0 || !same_file(&s, &first_env);
    close(fd);
    return wrong;
}

static void asks(int number) {
    int error = errno;
    wrong_inside += ask_little();
    came += number > 0;
    errno = error;
}

static void jumps(int number) {
    came += number > 0;
    siglongjmp(away, 1);
}

static void signals(void) {
    const struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}}, soon = {{0, 0}, {0, 150}};
    struct sigaction action = {.sa_handler = asks, .sa_flags = SA_RESTART};
    volatile int wrong = 0;
    MUST(stat(ENV, &first_env));
    MUST(sigaction(SIGALRM, &action, NULL));
    MUST(setitimer(ITIMER_REAL, &often, NULL));
    for (int i = 0; i < 30; i++)
        wrong += wrong_answers(1);
    MUST(setitimer(ITIMER_REAL, &never, NULL));
    say("a handler that asks: came %d, wrong %d, inside %ld", came > 0, wrong, wrong_inside);
    action.sa_handler = jumps;
    MUST(sigaction(SIGALRM, &action, NULL));
    volatile int jumped = 0, left = 300;
    while (left-- > 0) {
        if (sigsetjmp(away, 1) == 0) {
            MUST(setitimer(ITIMER_REAL, &soon, NULL));
            for (struct stat s;;)
                stat(ENV, &s);
        }
        jumped++;
        if (left % 10 == 0)
            wrong += ask_little();
    }
    say("a handler that jumps: jumped %d, wrong %d", jumped, wrong);
}

static int ask_inside(void) { return ask_little(); }

/* A signal at (nearly) every instruction of a question. */
static void every_instruction(int how, const char *title, int stride) {
    volatile int wrong = 0, small = 0;
    handle_steps();
    what = how;
    wrong_inside = 0;
    for (at = 0; at < 4000; at += stride) {
        struct stat s;
        long here = at;
        if (how == JUMP && sigsetjmp(away, 1) != 0) {
            wrong += at % 4 == 0 ? ask_little() : 0;
            continue;
        }
        steps = 0;
        trap(1);
        int result = stat(ENV, &s);
        trap(0);
        wrong += result != 0 || !same_file(&s, &first_env);
        if (steps <= here && small++ > 3)
            break; /* it has fewer instructions */
    }
    say("%s at every instruction: wrong %d inside %ld", title, wrong, wrong_inside);
}

/* ---- a directory that was prepared ------------------------------------------------------------------------------- */

static int by_name(const void *one, const void *other) { return strcmp(*(char *const *)one, *(char *const *)other); }

/* Does it change what everybody may write? */
static int changes(size_t call) { return CALLS[call].ask == by_open_truncate || CALLS[call].ask == by_open_temporary; }

static int prepared(const char *directory) {
    char *found[200], name[PATH_MAX];
    int count = 0;
    DIR *entries = opendir(directory);
    MUST(entries ? 0 : -1);
    for (struct dirent *each; count < 200 && (each = readdir(entries));)
        found[count++] = strdup(each->d_name);
    closedir(entries);
    qsort(found, (size_t)count, sizeof *found, by_name);
    MUST(chdir(directory)); /* lines show where from a name begins, and not where the directory is */
    for (int i = 0; i < count; i++) {
        say("--- %s", found[i]);
        struct answer first[CALL_COUNT], now;
        snprintf(name, sizeof name, "%s/%s", directory, found[i]);
        int wrong = 0;
        for (size_t call = 0; call < CALL_COUNT; call++)
            if (!changes(call))
                show(call, found[i], answer(call, name, &first[call]));
        for (int round = 0; round < ROUNDS; round++)
            for (size_t call = 0; call < CALL_COUNT; call++)
                if (!changes(call) && differs(&first[call], answer(call, name, &now)) && wrong++ < 3)
                    show(call, found[i], &now);
        say("%s again: different %d", found[i], wrong);
    }
    return 0;
}

/* A name that lies in the buffer for the answer, often. */
static void name_in_buffer(const char *name) {
    union {
        char name[sizeof(struct stat)];
        struct stat s;
    } both;
    int wrong = 0;
    struct stat *volatile there = &both.s; /* the compiler need not know */
    for (int i = 0; i < 300; i++) {
        memset(&both, 0, sizeof both);
        strcpy(both.name, name);
        wrong += stat(both.name, there) != 0 || !S_ISREG(both.s.st_mode);
    }
    say("%s, in its own buffer: wrong %d", name, wrong);
}

/* Each page of the C library as code once more, by a mapping of one byte. */
static void single_bytes(void) {
    int fd = open("/lib/x86_64-linux-gnu/libc.so.6", O_RDONLY), mapped = 0;
    for (off_t at = 0; fd >= 0 && at < 1 << 20; at += 4096) {
        void *page = mmap(NULL, 1, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, at);
        mapped += page != MAP_FAILED && munmap(page, 1) == 0;
    }
    close(fd);
    say("mappings of one byte: %d", mapped);
}

int main(int argc, char **argv) {
    self = argv[0];
    if (argc > 1)
        return argv[1][0] == '/' ? prepared(argv[1]) : child();
    descriptors();
    names();
    long_names();
    edges();
    pointers();
    name_in_buffer(ENV);
    name_in_buffer("/usr/bin/awk"); /* a link that leads to another directory */
    single_bytes();
    expect();
    say("expected: wrong %d", wrong_answers(20));
    threads();
    children();
    signals();
    every_instruction(ASK, "a question", 61);
    every_instruction(JUMP, "a jump", 7);
    full_table();
    return 0;
}
