/* build: doors -pthread
 *
 * doors PID PORT ABSTRACT FILE: tries each way out of a sandbox that a kernel has, once, and prints "NAME: open" or
 * "NAME: ERRNO" (or "NAME: signal N" where trying is deadly). PID is a process outside, of the same user; PORT a TCP
 * server on the host's loopback, ABSTRACT a Unix server there; FILE a host file that is not mounted. Natively most of
 * them are open to any user. The test has the list, and which wall closes each in a box.
 */
#include "step.h"

#include <arpa/inet.h>
#include <asm/ldt.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/fanotify.h>
#include <sys/io.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/quota.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>

static void door(const char *name, long result) {
    if (result >= 0)
        printf("%s: open\n", name);
    else
        printf("%s: %s\n", name, strerrorname_np(errno));
}

/* In a child: what follows would change this process, or end it. */
static void guarded(const char *name, long (*knock)(void)) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        errno = 0;
        long result = knock();
        _exit(result >= 0 ? 0 : errno ? errno : 255);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status))
        printf("%s: signal %d\n", name, WTERMSIG(status));
    else if (WEXITSTATUS(status) == 0)
        printf("%s: open\n", name);
    else
        printf("%s: %s\n", name, strerrorname_np(WEXITSTATUS(status)));
}

static long new_user(void) { return unshare(CLONE_NEWUSER); }
static long new_mount(void) { return unshare(CLONE_NEWUSER | CLONE_NEWNS); }
static long new_user_by_clone(void) {
    long child = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
    if (child == 0)
        _exit(0);
    return child;
}
static long new_user_by_clone3(void) {
    struct { uint64_t flags, rest[10]; } args = {.flags = CLONE_NEWUSER};
    args.rest[3] = SIGCHLD;
    long child = syscall(SYS_clone3, &args, sizeof args);
    if (child == 0)
        _exit(0);
    return child;
}
static long traced(void) { return ptrace(PTRACE_TRACEME, 0, 0, 0); }
static long trace_child(void) {
    pid_t child = fork();
    if (child == 0)
        for (;;)
            pause();
    long result = ptrace(PTRACE_SEIZE, child, 0, 0);
    int saved = errno;
    kill(child, SIGKILL);
    errno = saved;
    return result;
}
/* getpid, as a 32-bit program would call it */
static long int80(void) {
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(20) : "memory", "r8", "r9", "r10", "r11");
    errno = result < 0 ? -result : 0;
    return result;
}
static long x32(void) { return syscall(0x40000000 | SYS_getpid); }
static long root_again(void) { return setuid(0); }
static long own_filter_listener(void) {
    struct { unsigned short code; unsigned char jt, jf; unsigned k; } allow = {6, 0, 0, SECCOMP_RET_ALLOW};
    struct { unsigned short length; void *filter; } program = {1, &allow};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}
static long old_persona(void) { return personality(READ_IMPLIES_EXEC); }
static long undumpable_mm(void) { return prctl(PR_SET_MM, PR_SET_MM_START_BRK, 0x10000, 0, 0); }
static long page_zero(void) {
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    return page == MAP_FAILED ? -1 : 0;
}
static long clone3_with(uint64_t flags, int word, uint64_t value) {
    struct { uint64_t flags, rest[10]; } args = {.flags = flags};
    args.rest[3] = SIGCHLD;
    args.rest[word] = value;
    if (word == 7)
        args.rest[8] = 1;
    long child = syscall(SYS_clone3, &args, sizeof args);
    if (child == 0)
        _exit(0);
    return child;
}
static long chosen_number(void) {
    int wanted = 4000;
    return clone3_with(0, 7 /* set_tid */, (uintptr_t)&wanted);
}
static long another_cgroup(void) { return clone3_with(0x200000000 /* CLONE_INTO_CGROUP */, 9, open("/sys/fs/cgroup", O_RDONLY)); }
static long own_domain(void) {
    uint64_t handled = 1;
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    int rules = syscall(444 /* landlock_create_ruleset */, &handled, sizeof handled, 0);
    return rules < 0 ? -1 : syscall(446 /* landlock_restrict_self */, rules, 0);
}
/* A supervisor cannot read memory that is closed to all other processes. */
static long undumpable(void) {
    static long value = 7;
    struct iovec here = {&value, sizeof value}, there = here;
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    pid_t child = fork();
    if (child == 0)
        _exit(process_vm_readv(getppid(), &here, 1, &there, 1, 0) == sizeof value);
    int status = 0;
    waitpid(child, &status, 0);
    errno = EPERM;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}
static long everybody(void) { return kill(1, SIGURG); }

static void of_process(const char *pid) {
    static const char *const NAMES[] = {"mem", "environ", "maps", "root/etc/hostname", "cwd/.", "fd/0", "exe", "auxv",
                                        "task", "ns/user", "status", "stat"};
    char path[100], label[40], byte;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        snprintf(path, sizeof path, "/proc/%s/%s", pid, NAMES[i]);
        snprintf(label, sizeof label, "proc/PID/%s", NAMES[i]);
        int fd = open(path, O_RDONLY);
        door(label, fd);
        if (fd >= 0) {
            if (read(fd, &byte, 1) < 0 && errno == EIO)
                errno = 0;
            close(fd);
        }
    }
    pid_t number = atoi(pid);
    struct iovec here = {&byte, 1}, there = {(void *)0x400000, 1};
    door("process_vm_readv", syscall(SYS_process_vm_readv, number, &here, 1, &there, 1, 0) < 0 && errno != EFAULT ? -1 : 0);
    door("process_vm_writev", syscall(SYS_process_vm_writev, number, &here, 1, &there, 1, 0) < 0 && errno != EFAULT ? -1 : 0);
    door("ptrace another", ptrace(PTRACE_SEIZE, number, 0, 0));
    door("signal", kill(number, SIGURG));
    door("setpriority", setpriority(0, number, 19)); /* which any user may, whatever it was */
    unsigned long processors = ~0UL, list, size;
    door("sched_setaffinity", syscall(SYS_sched_setaffinity, number, sizeof processors, &processors));
    struct rlimit limit;
    door("prlimit", prlimit(number, RLIMIT_NOFILE, NULL, &limit));
    door("robust list", syscall(SYS_get_robust_list, number, &list, &size));
    int pidfd = syscall(SYS_pidfd_open, number, 0);
    door("process_madvise", pidfd < 0 ? -1 : syscall(440, pidfd, &there, 1, 20 /* MADV_COLD */, 0));
    door("pidfd signal", pidfd < 0 ? -1 : syscall(SYS_pidfd_send_signal, pidfd, SIGURG, NULL, 0));
    door("pidfd_getfd", pidfd < 0 ? -1 : syscall(SYS_pidfd_getfd, pidfd, 0, 0));
    /* The kernel sends this signal when a byte arrives. It is deadly, so that the test sees it. */
    int pipes[2];
    if (pipe(pipes) == 0 && fcntl(pipes[0], F_SETOWN, number) == 0 && fcntl(pipes[0], F_SETSIG, SIGUSR2) == 0 &&
        fcntl(pipes[0], F_SETFL, O_ASYNC) == 0 && write(pipes[1], "x", 1) == 1)
        usleep(100000); /* the test then checks that the process lives */
}

static long reach(int family, int type, const void *address, socklen_t size) {
    int fd = socket(family, type, 0);
    if (fd < 0)
        return -1;
    struct timeval soon = {20, 0};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof soon);
    long result = connect(fd, address, size);
    int saved = errno;
    close(fd);
    errno = saved;
    return result;
}

static void of_network(const char *port, const char *abstract) {
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons(atoi(port)), .sin_addr.s_addr = htonl(0x7f000001)};
    door("loopback", reach(AF_INET, SOCK_STREAM, &server, sizeof server));
    server.sin_addr.s_addr = 0;
    door("address 0", reach(AF_INET, SOCK_STREAM, &server, sizeof server));
    server.sin_addr.s_addr = htonl(0x7f654321);
    door("other loopback", reach(AF_INET, SOCK_STREAM, &server, sizeof server));
    struct sockaddr_in6 mapped = {.sin6_family = AF_INET6, .sin6_port = htons(atoi(port))};
    inet_pton(AF_INET6, "::ffff:127.0.0.1", &mapped.sin6_addr);
    door("mapped loopback", reach(AF_INET6, SOCK_STREAM, &mapped, sizeof mapped));
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    strcpy(name.sun_path + 1, abstract);
    door("abstract socket", reach(AF_UNIX, SOCK_STREAM, &name, offsetof(struct sockaddr_un, sun_path) + 1 + strlen(abstract)));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    server.sin_addr.s_addr = htonl(0x7f000001);
    door("fast open", sendto(fd, "x", 1, MSG_FASTOPEN, (void *)&server, sizeof server));
    /* A mark selects among the host's routes. In a control message Linux checks the sender's capabilities. */
    union { char room[CMSG_SPACE(4)]; struct cmsghdr one; } mark = {.one = {CMSG_LEN(4), SOL_SOCKET, SO_MARK}};
    struct iovec part = {"x", 1};
    struct msghdr marked = {&server, sizeof server, &part, 1, &mark, sizeof mark, 0};
    door("mark", sendmsg(socket(AF_INET, SOCK_DGRAM, 0), &marked, 0));
    int pair[2];
    gid_t groups[100];
    socklen_t room = sizeof groups;
    door("groups of the peer", socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 ? getsockopt(pair[0], SOL_SOCKET, 59, groups, &room) : -1);
    door("raw socket", socket(AF_INET, SOCK_RAW, 1));
    door("packet socket", socket(17, SOCK_DGRAM, 0));
    door("vsock", socket(40, SOCK_STREAM, 0));
    door("alg socket", socket(38, SOCK_SEQPACKET, 0));
    door("audit netlink", socket(16, SOCK_RAW, 9));
    door("uevent netlink", socket(16, SOCK_RAW, 15));
}

static void of_files(const char *file) {
    char path[4400], climb[4200];
    door("host file", open(file, O_RDONLY));
    snprintf(climb, sizeof climb, "../../../../../../../../../../..%s", file);
    door("host file by ..", open(climb, O_RDONLY));
    door("host file O_PATH", open(file, O_PATH));
    snprintf(path, sizeof path, "/proc/self/root%s", file);
    door("host file by root", open(path, O_RDONLY));
    snprintf(path, sizeof path, "/proc/self/cwd/%s", climb);
    door("host file by cwd", open(path, O_RDONLY));
    int dir = open(".", O_RDONLY | O_DIRECTORY);
    door("host file by openat", openat(dir, climb, O_RDONLY));
    snprintf(path, sizeof path, "/proc/self/fd/%d/%s", dir, climb);
    door("host file by fd", open(path, O_RDONLY));
    struct stat found;
    door("host file stat", stat(file, &found));
    door("host file access", access(file, F_OK));
    door("host file statx", syscall(SYS_statx, AT_FDCWD, climb, 0, 0x7ff, path));
    door("host directory chdir", chdir("/proc/1/root") == 0 && access(file, F_OK) == 0 ? 0 : -1);
    struct { unsigned size; int type; char bytes[128]; } handle = {.size = 128};
    int mount_id;
    door("name_to_handle_at", syscall(SYS_name_to_handle_at, AT_FDCWD, file, &handle, &mount_id, 0));
    door("open_by_handle_at", syscall(SYS_open_by_handle_at, AT_FDCWD, &handle, O_RDONLY));
    door("dev mem", open("/dev/mem", O_RDONLY));
    door("dev kmsg", open("/dev/kmsg", O_RDONLY));
    door("proc kcore", open("/proc/kcore", O_RDONLY));
    door("proc kallsyms", open("/proc/kallsyms", O_RDONLY));
    door("sysrq", open("/proc/sysrq-trigger", O_WRONLY));
    door("core_pattern", open("/proc/sys/kernel/core_pattern", O_WRONLY));
    door("map_files", open("/proc/self/map_files", O_RDONLY | O_DIRECTORY));
    door("directory notices", fcntl(dir, F_NOTIFY, DN_ACCESS | DN_CREATE));
    int leased = open("leased", O_RDONLY | O_CREAT, 0600);
    door("lease", fcntl(leased, F_SETLEASE, F_RDLCK));
    door("mknod device", mknod("device", S_IFBLK | 0666, 0x0800));
    door("debugfs", open("/sys/kernel/debug", O_RDONLY));
    door("cgroup", open("/sys/fs/cgroup/cgroup.procs", O_RDONLY));
}

static void of_kernel(void) {
    struct io_uring_params ring = {0};
    door("io_uring", syscall(SYS_io_uring_setup, 4, &ring));
    door("userfaultfd", syscall(SYS_userfaultfd, 1)); /* 1: only faults of user space, open to every user */
    union bpf_attr attributes = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};
    door("bpf", syscall(SYS_bpf, BPF_MAP_CREATE, &attributes, sizeof attributes));
    struct perf_event_attr event = {.type = PERF_TYPE_SOFTWARE, .size = sizeof event, .exclude_kernel = 1, .exclude_hv = 1};
    door("perf_event_open", syscall(SYS_perf_event_open, &event, 0, -1, -1, 0));
    door("kexec_load", syscall(SYS_kexec_load, 0, 0, NULL, 0));
    door("init_module", syscall(SYS_init_module, "", 0, ""));
    door("finit_module", syscall(SYS_finit_module, 0, "", 0));
    door("delete_module", syscall(SYS_delete_module, "no-such-module", 0));
    door("mount", mount("none", "/tmp", "tmpfs", 0, NULL));
    door("umount", umount2("/", MNT_DETACH));
    door("fsopen", syscall(SYS_fsopen, "tmpfs", 0));
    door("open_tree", syscall(SYS_open_tree, AT_FDCWD, "/", 0));
    door("open_tree clone", syscall(SYS_open_tree, AT_FDCWD, "/", 1));
    door("move_mount", syscall(SYS_move_mount, AT_FDCWD, "/tmp", AT_FDCWD, "/", 0));
    door("mount_setattr", syscall(SYS_mount_setattr, AT_FDCWD, "/", 0, NULL, 0));
    door("fsmount", syscall(432, -1, 0, 0));
    door("fspick", syscall(433, AT_FDCWD, "/", 0));
    door("open_tree_attr", syscall(467, AT_FDCWD, "/", 1, NULL, 0));
    uint64_t request[4] = {24, (uint64_t)-1, 0, 0}, mounts[8];
    door("listmount", syscall(458, request, mounts, 8, 0));
    door("statmount", syscall(457, request, mounts, sizeof mounts, 0));
    door("pivot_root", syscall(SYS_pivot_root, ".", "."));
    door("chroot", chroot("."));
    door("setns", setns(open("/proc/self/ns/user", O_RDONLY), 0));
    door("fanotify", fanotify_init(FAN_CLASS_NOTIF | FAN_REPORT_FID, 0));
    door("quotactl", quotactl(Q_SYNC, "/", 0, NULL));
    door("swapon", swapon("/tmp", 0));
    door("acct", acct("/tmp"));
    door("iopl", iopl(3));
    door("ioperm", ioperm(0x80, 1, 1));
    struct user_desc segment = {.entry_number = 0, .base_addr = 0, .limit = 0xfffff, .seg_32bit = 1, .limit_in_pages = 1};
    door("modify_ldt", syscall(SYS_modify_ldt, 1, &segment, sizeof segment));
    door("kcmp", syscall(SYS_kcmp, getpid(), getpid(), 0, 0, 0));
    door("memfd_secret", syscall(447, 0));
    door("syslog", syscall(SYS_syslog, 3, NULL, 0));
    door("sethostname", sethostname("door", 4));
    int terminal = open("/dev/tty", O_RDWR);
    door("TIOCSTI", ioctl(terminal < 0 ? 0 : terminal, TIOCSTI, "x"));
    char command = 2;
    door("TIOCLINUX", ioctl(0, TIOCLINUX, &command));
    door("forged loader", syscall(0x4855, 1, &ring, sizeof ring));
}

int main(int count, char **words) {
    if (count != 5)
        return 2;
    signal(SIGIO, SIG_IGN); /* from dnotify and leases */
    of_kernel();
    of_files(words[4]);
    of_process(words[1]);
    of_network(words[2], words[3]);
    guarded("user namespace", new_user);
    guarded("mount namespace", new_mount);
    guarded("user namespace by clone", new_user_by_clone);
    guarded("user namespace by clone3", new_user_by_clone3);
    guarded("number by clone3", chosen_number);
    guarded("control group by clone3", another_cgroup);
    guarded("Landlock domain", own_domain);
    guarded("undumpable", undumpable);
    guarded("ptrace me", traced);
    guarded("ptrace child", trace_child);
    guarded("int 0x80", int80);
    guarded("x32", x32);
    guarded("setuid 0", root_again);
    guarded("second listener", own_filter_listener);
    guarded("read implies exec", old_persona);
    guarded("prctl mm", undumpable_mm);
    guarded("page zero", page_zero);
    guarded("signal process 1", everybody);
    return 0;
}
