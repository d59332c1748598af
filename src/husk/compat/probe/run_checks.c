/* compat/probe: husk-probe's main program: runs each check in a child of its own and prints one line for each.
 *
 *     husk-probe [--list] [--limit SECONDS] [CALL...]
 *
 * A line has five fields, with tabs between them: call (or path), case, registers of the last call under test (hex,
 * with commas; empty if none was made), result, detail. Results: works, errno, no-effect, crash, hang, skipped. The
 * detail is the errno's or signal's name, or words; "works" has one where the right answer was an errno. Lines that
 * begin with # tell about the run. Exit code 0: all checks ran, whatever they found.
 *
 * A child tells the parent through a pipe: registers before each call under test, the result at its end. So what is
 * known when a call kills the child or never returns is known to the parent too. Nothing here needs more than fork,
 * pipe2, wait4, kill and alarm. */
#include "probe.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>

extern const struct probe_check *const __start_probe_checks[], *const __stop_probe_checks[];

#define DETAIL 160
#define LIMIT 10 /* seconds for one check: only a fault takes as long, on a busy machine too */

struct record {
    int kind; /* 'c' a call under test, 's' a scratch directory was made, 'r' the result */
    int result;
    long number;
    long arguments[6];
    char detail[DETAIL];
};

static int report_fd = -1;
static char root[512];
static bool have_root;
int probe_index;

/* -- in the child -- */

static void report(const struct record *record)
{
    (void)!write(report_fd, record, sizeof *record); /* smaller than PIPE_BUF: whole, or not at all */
}

static long make_call(long number, const long arguments[6])
{
    long value;
    register long r10 __asm__("r10") = arguments[3];
    register long r8 __asm__("r8") = arguments[4];
    register long r9 __asm__("r9") = arguments[5];
    __asm__ volatile("syscall"
                     : "=a"(value)
                     : "a"(number), "D"(arguments[0]), "S"(arguments[1]), "d"(arguments[2]), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return value;
}

long probe_raw(long number, const long arguments[6])
{
    long value = make_call(number, arguments);
    if (value < 0 && value >= -4095)
        errno = (int)-value;
    return value;
}

void probe_tell_call(long number, const long arguments[6])
{
    static struct record record; /* a check that repeats a call must not fill the pipe */
    if (record.kind != 'c' || record.number != number || memcmp(record.arguments, arguments, sizeof record.arguments)) {
        record.kind = 'c';
        record.number = number;
        memcpy(record.arguments, arguments, sizeof record.arguments);
        report(&record);
    }
}

long probe_call(long number, const long arguments[6])
{
    probe_tell_call(number, arguments);
    return make_call(number, arguments);
}

_Noreturn void probe_finish(enum probe_result result, const char *detail)
{
    struct record record = {.kind = 'r', .result = result};
    strncpy(record.detail, detail, DETAIL - 1);
    report(&record);
    _exit(0);
}

long probe_must(long value)
{
    if (value < 0 && value >= -4095)
        probe_finish(PROBE_ERRNO, probe_errno_name((int)-value));
    return value;
}

long probe_must_or(long value, const int *errnos)
{
    for (; *errnos; errnos++)
        if (value == -*errnos)
            probe_finish(PROBE_WORKS, probe_errno_name(*errnos));
    return probe_must(value);
}

void probe_answers(long value, const int *errnos)
{
    probe_must_or(value, errnos);
    probe_finish(PROBE_NO_EFFECT, "it succeeded, where Linux refuses");
}

void probe_effect(bool holds, const char *text)
{
    if (!holds)
        probe_finish(PROBE_NO_EFFECT, text);
}

void probe_need(bool holds, const char *what)
{
    int reason = errno;
    if (holds)
        return;
    char detail[DETAIL];
    snprintf(detail, sizeof detail, "needs %s (%s)", what, probe_errno_name(reason));
    probe_finish(PROBE_SKIPPED, detail);
}

_Noreturn void probe_skip(const char *why)
{
    probe_finish(PROBE_SKIPPED, why);
}

const char *probe_scratch_root(void)
{
    return have_root ? root : NULL;
}

void probe_tell_scratch(void)
{
    struct record record = {.kind = 's'};
    report(&record);
}

static _Noreturn void in_child(const struct probe_check *check)
{
    setpgid(0, 0); /* so that whatever the check leaves can be ended with it */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGALRM, SIG_DFL);
    check->run();
    probe_finish(PROBE_WORKS, "");
}

/* -- in the parent -- */

static void wake(int number)
{
    (void)number; /* wait4 ends with EINTR */
}

static void remove_tree(int dir, const char *name)
{
    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
        return;
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == EACCES && fchmodat(dir, name, 0700, 0) == 0)
        fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *listing = fd >= 0 ? fdopendir(fd) : NULL;
    if (listing) {
        fchmod(fd, 0700);
        for (struct dirent *entry; (entry = readdir(listing));)
            if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
                remove_tree(fd, entry->d_name);
        closedir(listing);
    } else if (fd >= 0) {
        close(fd);
    }
    unlinkat(dir, name, AT_REMOVEDIR);
}

static void find_root(void)
{
    const char *places[] = {getenv("TMPDIR"), "/tmp", "/dev/shm", "/var/tmp", "."};
    for (size_t n = 0; n < sizeof places / sizeof *places && !have_root; n++) {
        char absolute[256];
        if (!places[n] || !*places[n] || strlen(places[n]) > 200)
            continue;
        if (places[n][0] != '/' && !getcwd(absolute, sizeof absolute))
            continue;
        snprintf(root, sizeof root, "%s%s%s/husk-probe-%d", places[n][0] == '/' ? "" : absolute,
                 places[n][0] == '/' ? "" : "/", places[n], (int)getpid());
        have_root = mkdir(root, 0700) == 0;
    }
}

struct outcome {
    struct record call; /* the last one */
    struct record result;
};

static void collect(int fd, struct outcome *outcome)
{
    struct record record;
    while (read(fd, &record, sizeof record) == (ssize_t)sizeof record) {
        if (record.kind == 'c')
            outcome->call = record;
        else if (record.kind == 'r' && outcome->result.kind != 'r')
            outcome->result = record;
        else if (record.kind == 's') {
            char name[32];
            snprintf(name, sizeof name, "%d", probe_index);
            int dir = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            remove_tree(dir, name);
            close(dir);
        }
    }
}

static void settle(struct outcome *outcome, enum probe_result result, const char *detail)
{
    outcome->result = (struct record){.kind = 'r', .result = result};
    strncpy(outcome->result.detail, detail, DETAIL - 1);
}

static void run(const struct probe_check *check, int limit, struct outcome *outcome)
{
    int ends[2];
    if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) < 0) {
        settle(outcome, PROBE_SKIPPED, "needs pipe2, to tell a result");
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        /* High, and out of the way of checks that count descriptors. */
        report_fd = fcntl(ends[1], F_DUPFD_CLOEXEC, 200);
        if (report_fd < 0)
            report_fd = ends[1];
        else
            close(ends[1]);
        in_child(check);
    }
    close(ends[1]);
    if (child < 0) {
        close(ends[0]);
        settle(outcome, PROBE_SKIPPED, "needs fork, to stand alone");
        return;
    }
    setpgid(child, child);
    int status = 0;
    bool hung = false;
    alarm((unsigned)limit);
    while (wait4(child, &status, 0, NULL) < 0) {
        if (errno != EINTR)
            break;
        hung = true;
        kill(-child, SIGKILL);
        kill(child, SIGKILL);
        alarm(1); /* a kernel that cannot kill it keeps us here: try again */
    }
    alarm(0);
    kill(-child, SIGKILL);
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ; /* what the check left came to us: PR_SET_CHILD_SUBREAPER */
    collect(ends[0], outcome);
    close(ends[0]);
    if (outcome->result.kind == 'r')
        return;
    if (hung)
        settle(outcome, PROBE_HANG, "");
    else if (WIFSIGNALED(status))
        settle(outcome, PROBE_CRASH, probe_signal_name(WTERMSIG(status)));
    else
        settle(outcome, PROBE_NO_EFFECT, "the process ended without a result");
}

static void print(const struct probe_check *check, const struct outcome *outcome)
{
    static const char *const words[] = {"works", "errno", "no-effect", "skipped", "crash", "hang"};
    char line[1024];
    int length = snprintf(line, sizeof line, "%s\t%s\t", check->call, check->name);
    for (int n = 0; n < 6 && outcome->call.kind; n++)
        length += snprintf(line + length, sizeof line - (size_t)length, "%s%#lx", n ? "," : "",
                           outcome->call.arguments[n]);
    length += snprintf(line + length, sizeof line - (size_t)length, "\t%s\t%s\n", words[outcome->result.result],
                       outcome->result.detail);
    (void)!write(1, line, (size_t)length);
}

static bool wanted(const struct probe_check *check, char **names)
{
    if (!*names)
        return true;
    for (; *names; names++)
        if (!strcmp(*names, check->call))
            return true;
    return false;
}

int main(int argc, char **argv)
{
    bool list = false;
    int limit = LIMIT, first = 1;
    for (; first < argc && argv[first][0] == '-'; first++) {
        if (!strcmp(argv[first], "--list"))
            list = true;
        else if (!strcmp(argv[first], "--limit") && first + 1 < argc)
            limit = atoi(argv[++first]);
        else {
            static const char usage[] = "usage: husk-probe [--list] [--limit SECONDS] [CALL...]\n";
            (void)!write(2, usage, sizeof usage - 1);
            return 2;
        }
    }
    const size_t count = (size_t)(__stop_probe_checks - __start_probe_checks);
    struct utsname name = {0};
    uname(&name);
    char line[256];
    int length = snprintf(line, sizeof line, "# husk-probe 1: %zu checks, %s %s, uid %d\n", count, name.sysname,
                          name.release, (int)getuid());
    (void)!write(1, line, (size_t)length);
    if (!list) {
        find_root();
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        struct sigaction action = {.sa_handler = wake}; /* without SA_RESTART */
        sigaction(SIGALRM, &action, NULL);
        signal(SIGTTOU, SIG_IGN);
    }
    for (size_t n = 0; n < count; n++) {
        const struct probe_check *check = __start_probe_checks[n];
        if (!wanted(check, argv + first))
            continue;
        struct outcome outcome = {0};
        probe_index = (int)n;
        if (list) {
            length = snprintf(line, sizeof line, "%s\t%s\n", check->call, check->name);
            (void)!write(1, line, (size_t)length);
            continue;
        }
        run(check, limit, &outcome);
        print(check, &outcome);
    }
    if (have_root)
        rmdir(root);
    return 0;
}
