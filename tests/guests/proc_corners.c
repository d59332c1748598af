/* build: proc_corners
 *
 * Corners that test suites look into: magic links, short addresses, the limit on core files, what /proc shows of a
 * process that has ended, a process's own memory, the watches in fdinfo, and the parent of the first program.
 */
#include "step.h"
#include <linux/openat2.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

static long open_how(const char *name, uint64_t flags, uint64_t resolve) {
    struct open_how how = {.flags = flags, .resolve = resolve};
    return syscall(SYS_openat2, AT_FDCWD, name, &how, sizeof how);
}

static void magic_links(void) {
    char held[64];
    put_text("file", "text", 0644);
    MUST(symlink("file", "link"));
    snprintf(held, sizeof held, "/proc/self/fd/%ld", MUST(open("file", O_RDONLY)));
    OK(open_how(held, O_RDONLY, RESOLVE_NO_MAGICLINKS));
    OK(open_how(held, O_RDWR | O_CREAT, RESOLVE_NO_MAGICLINKS));
    OK(open_how("/proc/self/exe", O_RDONLY, RESOLVE_NO_MAGICLINKS));
    OK(open_how("/proc/self/exe", O_RDONLY | O_CREAT, RESOLVE_NO_MAGICLINKS));
    OK(open_how("/proc/self/exe", O_RDONLY | O_CREAT, 0));
    OK(open_how("/proc/self/exe", O_PATH | O_NOFOLLOW, RESOLVE_NO_MAGICLINKS));
    OK(open_how("/proc/self/root/usr", O_RDONLY, RESOLVE_NO_MAGICLINKS));
    OK(open_how("link", O_RDWR | O_CREAT, RESOLVE_NO_MAGICLINKS));
    OK(open_how("/proc/self/status", O_RDONLY, RESOLVE_NO_MAGICLINKS));
}

static void short_addresses(void) {
    int four = MUST(socket(AF_INET, SOCK_STREAM, 0)), six = MUST(socket(AF_INET6, SOCK_STREAM, 0));
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(80), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 b = {.sin6_family = AF_INET6, .sin6_port = htons(80), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    STEP(bind(four, (void *)&a, 0));
    STEP(bind(four, (void *)&a, 4));
    STEP(bind(four, (void *)&a, 15));
    STEP(bind(four, (void *)&a, sizeof a));
    STEP(bind(six, (void *)&b, 8));
    STEP(bind(six, (void *)&b, 23));
    STEP(bind(six, (void *)&b, sizeof b));
}

/* The limit is finite inside and out: what can be seen of one that is follows Linux's rules. */
static void core_limit(void) {
    struct rlimit had, upside_down = {5, 2}, finite = {0, 1}, none = {RLIM_INFINITY, RLIM_INFINITY};
    STEP(setrlimit(RLIMIT_CORE, &upside_down));
    STEP(setrlimit(RLIMIT_CORE, (void *)8));
    STEP(setrlimit(RLIMIT_CORE, &finite));
    STEP(prlimit(0, RLIMIT_CORE, &upside_down, &had));
    STEP(setrlimit(RLIMIT_CORE, &none));
    STEP(prlimit(0, RLIMIT_CORE, &none, &had));
    STEP(getrlimit(RLIMIT_CORE, &had));
    say("hard limit %ld", (long)had.rlim_max);
}

static void core_filter(const char *written) {
    char text[16] = "";
    if (written) {
        int fd = MUST(open("/proc/self/coredump_filter", O_WRONLY | O_TRUNC));
        STEP(write(fd, written, strlen(written)));
        close(fd);
    }
    int fd = MUST(open("/proc/self/coredump_filter", O_RDONLY));
    ssize_t n = MUST(read(fd, text, sizeof text - 1));
    close(fd);
    say("%.*s", (int)n - 1, text);
}

/* Each process has its own, which its children begin with. */
static void core_filters(void) {
    core_filter("0x33\n");
    core_filter("0123");
    pid_t child = MUST(fork());
    if (child == 0) {
        core_filter(NULL);
        core_filter("4095");
        _exit(0);
    }
    wait_for(child);
    core_filter(NULL);
    int idle = MUST(open("/proc/self/coredump_filter", O_WRONLY));
    core_filter(NULL);
    close(idle);
}

static void look_at(pid_t pid, const char *name) {
    char path[64], text[64], target[64];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    int fd = open(path, O_RDONLY), error = errno;
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
    if (fd < 0)
        say("%s: open %s", name, errname(error));
    else
        say("%s: read %s", name, n < 0 ? errname(errno) : n ? "something" : "nothing");
    close(fd);
    if (readlink(path, target, sizeof target) < 0 && errno != EINVAL)
        say("%s: readlink %s", name, errname(errno));
    if (lstat(path, &st) == 0 && !S_ISLNK(st.st_mode))
        say("%s: mode %o, root's %d", name, st.st_mode & 0777, st.st_uid == 0);
}

static void zombie(void) {
    static const char *const names[] = {"auxv", "cgroup", "cmdline", "comm",   "cwd",    "environ", "exe",
                                        "fd",   "io",     "limits",  "maps",   "mem",    "mounts",  "mountinfo",
                                        "net/dev", "ns",  "root",    "stat",   "statm",  "status",  "task"};
    char path[64], entries[4096];
    pid_t pid = MUST(fork());
    if (!pid)
        _exit(0);
    siginfo_t info;
    MUST(waitid(P_PID, pid, &info, WEXITED | WNOWAIT));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        look_at(pid, names[i]);
    snprintf(path, sizeof path, "/proc/%d", pid);
    int held = MUST(open(path, O_RDONLY | O_DIRECTORY));
    MUST(wait_for(pid));
    STEP(openat(held, "stat", O_RDONLY));
    STEP(syscall(SYS_getdents64, held, entries, sizeof entries));
}

static void own_memory(void) {
    static const long constant = 7;
    volatile long variable = 42;
    long copy = 0;
    int fd = OK(open("/proc/self/mem", O_RDWR));
    STEP(pread(fd, &copy, sizeof copy, (long)&variable));
    say("copied %ld", copy);
    copy = 43;
    STEP(pwrite(fd, &copy, sizeof copy, (long)&variable));
    say("variable %ld", variable);
    STEP(pread(fd, &copy, sizeof copy, (long)&constant));
    STEP(pread(fd, &copy, sizeof copy, 0));
    char byte;
    OK(fd = open("/proc/thread-self/mem", O_RDONLY));
    STEP(read(fd, &byte, 1));
    pid_t pid = MUST(fork());
    if (!pid) { /* the descriptor is of the parent's memory */
        copy = 44;
        fd = MUST(open("/proc/self/mem", O_RDWR));
        STEP(pwrite(fd, &copy, sizeof copy, (long)&variable));
        _exit(variable == 44);
    }
    say("child: %s, variable %ld", status_text(wait_for(pid)), variable);
}

static void watches(void) {
    char path[64], *text;
    put_text("file", "text", 0644);
    int queue = MUST(inotify_init1(IN_CLOEXEC)), number, mask;
    MUST(inotify_add_watch(queue, "file", IN_MODIFY));
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", queue);
    text = strstr(get_file(path, NULL), "inotify ");
    say("fields %d, wd %d", text ? sscanf(text, "inotify wd:%d ino:%*x sdev:%*x mask:%x", &number, &mask) : -1, number);
}

static void parent(void) {
    struct sched_param param;
    cpu_set_t set;
    STEP(sched_getscheduler(getppid()));
    STEP(sched_getparam(getppid(), &param));
    STEP(sched_getaffinity(getppid(), sizeof set, &set));
    STEP(syscall(SYS_getpriority, PRIO_PROCESS, getppid()) > 0);
    STEP(syscall(SYS_ioprio_get, 1, getppid()) >= 0);
}

int main(void) {
    static const struct named_case cases[] = {CASE(magic_links), CASE(short_addresses), CASE(core_limit),
                                              CASE(core_filters), CASE(zombie), CASE(own_memory), CASE(watches)};
    say("--- parent");
    parent();
    run_cases(cases, sizeof cases / sizeof *cases);
    return 0;
}
