/* build: proc_files -pthread
 *
 * /proc as a program reads it: which files there are for a process and a thread, their modes, what opening gives, the words
 * that programs look for. Numbers differ from run to run; shapes do not.
 */
#include "step.h"

#include <pthread.h>
#include <sys/prctl.h>

static char text[1 << 20];

static long slurp(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    long size = 0, n;
    while (size < (long)sizeof text - 1 && (n = read(fd, text + size, sizeof text - 1 - size)) > 0)
        size += n;
    text[size] = 0;
    close(fd);
    return size;
}

static void about(const char *path) {
    struct stat st;
    if (lstat(path, &st) < 0) {
        say("%s: %s", path, errname(errno));
        return;
    }
    int reading = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), read_error = errno;
    int writing = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK), write_error = errno;
    int making = open(path, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), make_error = errno;
    say("%s: mode %o mine %d size %ld, read %s, write %s, make %s", path, st.st_mode, st.st_uid == getuid(), (long)st.st_size,
        reading < 0 ? errname(read_error) : "ok", writing < 0 ? errname(write_error) : "ok",
        making < 0 ? errname(make_error) : "ok");
    close(reading);
    close(writing);
    close(making);
}

/* The first word of each line, up to a colon or a run of spaces. */
static void keys(const char *path) {
    if (slurp(path) < 0) {
        say("keys of %s: %s", path, errname(errno));
        return;
    }
    char line[8000] = "";
    for (char *at = strtok(text, "\n"); at && strlen(line) < 7000; at = strtok(NULL, "\n")) {
        if (strspn(at, "0123456789abcdef-") == strcspn(at, " "))
            continue; /* an address */
        size_t length = strcspn(at, ":\t") < strcspn(at, " ") ? strcspn(at, ":\t") : strcspn(at, " ");
        strcat(line, " ");
        strncat(line, at, length);
    }
    say("keys of %s:%s", path, line);
}

static void field(const char *path, const char *key) {
    slurp(path);
    char *at = strstr(text, key);
    say("%s", at ? strtok(at, "\n") : "no such line");
}

static pid_t second;

static void *thread(void *ready) {
    second = gettid();
    MUST(prctl(PR_SET_NAME, "second"));
    pthread_barrier_wait(ready);
    pthread_barrier_wait(ready);
    return NULL;
}

int main(int argc, char **argv) {
    static const char *const own[] = {"auxv", "cgroup", "cmdline", "comm", "coredump_filter", "cpuset", "environ", "cwd", "root",
                                      "fd", "fdinfo", "gid_map", "io", "limits", "loginuid", "maps", "mountinfo", "mounts", "mountstats",
                                      "net", "ns", "oom_adj", "oom_score", "oom_score_adj", "personality", "projid_map", "sched",
                                      "schedstat", "sessionid", "smaps", "smaps_rollup", "stat", "statm", "status", "task",
                                      "timens_offsets", "timerslack_ns", "wchan", "nosuch"};
    char path[300];
    (void)argc;
    for (unsigned i = 0; i < sizeof own / sizeof *own; i++) {
        if (!strcmp(own[i], "loginuid") || !strcmp(own[i], "gid_map") || !strcmp(own[i], "projid_map") || !strcmp(own[i], "oom_adj") ||
            !strcmp(own[i], "timens_offsets") || !strcmp(own[i], "sched"))
            continue; /* who may write them, and whether they exist, depends on namespaces and on how the kernel was built */
        snprintf(path, sizeof path, "/proc/self/%s", own[i]);
        about(path);
        snprintf(path, sizeof path, "/proc/thread-self/%s", own[i]);
        about(path);
    }
    static const char *const top[] = {"cpuinfo", "meminfo", "stat", "uptime", "loadavg", "version", "filesystems", "devices", "diskstats",
                                      "partitions", "swaps", "vmstat", "sys", "sys/kernel", "sys/vm", "sys/fs", "self", "thread-self",
                                      "mounts", "net", "nosuch", "99999999", "0", "01", "self/task/99999999", "self/fd/77", "self/fdinfo/77"};
    for (unsigned i = 0; i < sizeof top / sizeof *top; i++) {
        snprintf(path, sizeof path, "/proc/%s", top[i]);
        about(path);
    }
    static const char *const settings[] = {"kernel/ostype", "kernel/osrelease", "kernel/version", "kernel/pid_max", "kernel/threads-max",
                                           "kernel/cap_last_cap", "kernel/ngroups_max", "kernel/overflowuid", "kernel/hostname",
                                           "kernel/random/boot_id", "kernel/random/uuid", "kernel/random/entropy_avail",
                                           "kernel/shmmax", "kernel/sem", "kernel/msgmax", "kernel/core_pattern", "kernel/domainname",
                                           "vm/overcommit_memory", "vm/max_map_count", "vm/mmap_min_addr", "vm/swappiness", "fs/file-max",
                                           "fs/nr_open", "fs/file-nr", "fs/pipe-max-size", "fs/inotify/max_user_watches",
                                           "fs/mqueue/msg_max", "net/core/somaxconn", "net/ipv4/ip_local_port_range",
                                           "net/ipv4/tcp_keepalive_time", "kernel/nosuch"};
    for (unsigned i = 0; i < sizeof settings / sizeof *settings; i++) {
        snprintf(path, sizeof path, "/proc/sys/%s", settings[i]);
        about(path);
    }
    keys("/proc/self/status");
    keys("/proc/self/limits");
    keys("/proc/self/io");
    keys("/proc/self/sched");
    keys("/proc/self/smaps_rollup");
    keys("/proc/self/fdinfo/0");
    keys("/proc/meminfo");
    keys("/proc/vmstat");
    keys("/proc/cpuinfo");
    keys("/proc/net/netstat");
    slurp("/proc/self/stat");
    int fields = 1;
    for (char *at = strrchr(text, ')'); at && *at; at++)
        fields += *at == ' ';
    say("stat: %d fields after the name, state %c, pid mine %d", fields, strrchr(text, ')')[2], atoi(text) == getpid());
    slurp("/proc/self/statm");
    int a, b, c, d, e, f, g;
    say("statm: %d numbers", sscanf(text, "%d %d %d %d %d %d %d", &a, &b, &c, &d, &e, &f, &g));
    field("/proc/self/status", "Name:");
    field("/proc/self/status", "Umask:");
    field("/proc/self/status", "Threads:");
    field("/proc/self/status", "NoNewPrivs:");
    field("/proc/self/status", "CapEff:");

    say("-- links");
    long n = readlink("/proc/self", path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    say("self is me %d", atoi(path) == getpid());
    n = readlink("/proc/self/exe", path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    say("exe is how I was called %d", !strcmp(path, argv[0]));
    n = readlink("/proc/self/root", path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    say("root %s", path);
    char here[PATH_MAX];
    n = readlink("/proc/self/cwd", path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    say("cwd is getcwd %d", getcwd(here, sizeof here) && !strcmp(path, here));
    STEP(symlink("x", "/proc/self/x"));
    STEP(mkdir("/proc/x", 0700));
    STEP(unlink("/proc/self/status"));
    STEP(chmod("/proc/self/status", 0600));
    STEP(truncate("/proc/self/status", 0));

    say("-- names that can be set");
    int fd = MUST(open("/proc/self/comm", O_WRONLY | O_CLOEXEC));
    STEP(write(fd, "renamed", 7));
    STEP(close(fd));
    STEP(slurp("/proc/self/comm"));
    say("comm %s", text);
    char name[20] = "";
    prctl(PR_GET_NAME, name);
    say("prctl %s", name);
    prctl(PR_SET_NAME, "sixteen letters or more");
    slurp("/proc/self/comm");
    say("comm %s", text);
    field("/proc/self/status", "Name:");
    fd = MUST(open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC));
    STEP(write(fd, "500", 3));
    STEP(write(fd, "5000", 4));
    STEP(write(fd, "x", 1));
    close(fd);
    slurp("/proc/self/oom_score_adj");
    say("oom_score_adj %s", text);
    fd = MUST(open("/proc/self/timerslack_ns", O_RDWR | O_CLOEXEC));
    STEP(write(fd, "123456", 6));
    close(fd);
    slurp("/proc/self/timerslack_ns");
    say("timerslack %s and prctl %d", text, prctl(PR_GET_TIMERSLACK));

    say("-- a second thread");
    pthread_barrier_t ready;
    pthread_t other;
    pthread_barrier_init(&ready, NULL, 2);
    pthread_create(&other, NULL, thread, &ready);
    pthread_barrier_wait(&ready);
    field("/proc/self/status", "Threads:");
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", second);
    slurp(path);
    say("its name %s", text);
    snprintf(path, sizeof path, "/proc/%d/comm", second); /* hidden in listings, there when asked for */
    say("by its own number %ld", slurp(path));
    pthread_barrier_wait(&ready);
    pthread_join(other, NULL);

    say("-- a child that is dead");
    pid_t pid = MUST(fork());
    if (pid == 0)
        _exit(0);
    siginfo_t info;
    MUST(waitid(P_PID, pid, &info, WEXITED | WNOWAIT));
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    field(path, "State:");
    snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
    say("cmdline %ld", slurp(path));
    snprintf(path, sizeof path, "/proc/%d/exe", pid);
    STEP(readlink(path, here, sizeof here));
    snprintf(path, sizeof path, "/proc/%d/cwd", pid);
    STEP(readlink(path, here, sizeof here));
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    say("maps %ld", slurp(path));
    fd = open((snprintf(path, sizeof path, "/proc/%d", pid), path), O_RDONLY | O_DIRECTORY);
    wait_for(pid);
    STEP(openat(fd, "status", O_RDONLY));
    STEP(access(path, F_OK));
    return 0;
}
