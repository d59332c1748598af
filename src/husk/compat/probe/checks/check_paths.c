/* compat/probe: checks of files below /proc, /sys and /dev: that they are there, and say something.
 *
 * Nothing is read that could block or take something away (the kernel's messages), and devices that can do harm are not
 * opened: for these it counts that the name is there. */
#include "probe.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>

/* The file can be read, and begins with something. */
static void reads(const char *path)
{
    char text[4096];
    int fd = (int)MUST(CALL(openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    EFFECT(MUST(RAW(read, fd, text, sizeof text)) > 0);
}

/* The file can be read; it may be empty. */
static void opens(const char *path)
{
    char text[4096];
    int fd = (int)MUST(CALL(openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    MUST(RAW(read, fd, text, sizeof text));
}

/* The text is somewhere in the file. */
static void says(const char *path, const char *wanted)
{
    static char text[1 << 16];
    int fd = (int)MUST(CALL(openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC));
    size_t length = 0;
    long got;
    while (length < sizeof text - 1 && (got = MUST(RAW(read, fd, text + length, sizeof text - 1 - length))) > 0)
        length += (size_t)got;
    EFFECT(memmem(text, length, wanted, strlen(wanted)) != NULL);
}

/* The directory has an entry. */
static void lists(const char *path)
{
    int fd = (int)MUST(CALL(openat, AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    DIR *listing = fdopendir(fd);
    int count = 0;
    NEED(listing != NULL, "fdopendir");
    for (struct dirent *entry; (entry = readdir(listing));)
        count += entry->d_name[0] != '.';
    EFFECT(count > 0);
}

/* The link leads somewhere. */
static void leads(const char *path)
{
    char target[512];
    EFFECT(MUST(CALL(readlinkat, AT_FDCWD, path, target, sizeof target)) > 0);
}

/* The name is there. */
static void is_there(const char *path)
{
    struct stat status;
    MUST(CALL(newfstatat, AT_FDCWD, path, &status, AT_SYMLINK_NOFOLLOW));
}

/* A character device of this number, which may be opened. */
static void device(const char *path, unsigned number, int flags)
{
    struct stat status;
    int fd = (int)MUST(CALL(openat, AT_FDCWD, path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    EFFECT(fstat(fd, &status) == 0 && S_ISCHR(status.st_mode) && (!number || status.st_rdev == number));
}

#define READS(path) CHECK_PATH(path) { reads(path); }
#define OPENS(path) CHECK_PATH(path) { opens(path); }
#define SAYS(path, text) CHECK_PATH(path) { says(path, text); }
#define LISTS(path) CHECK_PATH(path) { lists(path); }
#define LEADS(path) CHECK_PATH(path) { leads(path); }
#define IS_THERE(path) CHECK_PATH(path) { is_there(path); }

/* -- a process -- */

LEADS("/proc/self")
LEADS("/proc/thread-self")
LISTS("/proc/self/attr")
OPENS("/proc/self/autogroup")
READS("/proc/self/auxv")
READS("/proc/self/cgroup")
READS("/proc/self/coredump_filter")
LEADS("/proc/self/cwd")
LEADS("/proc/self/exe")
LISTS("/proc/self/fd")
LISTS("/proc/self/fdinfo")
READS("/proc/self/gid_map")
SAYS("/proc/self/io", "rchar:")
SAYS("/proc/self/limits", "Max open files")
READS("/proc/self/loginuid")
IS_THERE("/proc/self/map_files")
SAYS("/proc/self/maps", "[stack]")
SAYS("/proc/self/mountinfo", " / ")
SAYS("/proc/self/mounts", " / ")
LISTS("/proc/self/net")
LISTS("/proc/self/ns")
LEADS("/proc/self/ns/cgroup")
LEADS("/proc/self/ns/ipc")
LEADS("/proc/self/ns/mnt")
LEADS("/proc/self/ns/net")
LEADS("/proc/self/ns/pid")
LEADS("/proc/self/ns/time")
LEADS("/proc/self/ns/user")
LEADS("/proc/self/ns/uts")
READS("/proc/self/numa_maps")
READS("/proc/self/oom_score")
READS("/proc/self/oom_score_adj")
READS("/proc/self/personality")
OPENS("/proc/self/projid_map")
LEADS("/proc/self/root")
READS("/proc/self/sched")
READS("/proc/self/schedstat")
READS("/proc/self/sessionid")
READS("/proc/self/setgroups")
SAYS("/proc/self/smaps", "Rss:")
SAYS("/proc/self/smaps_rollup", "Rss:")
OPENS("/proc/self/stack")
READS("/proc/self/statm")
READS("/proc/self/syscall")
LISTS("/proc/self/task")
OPENS("/proc/self/timers")
READS("/proc/self/timerslack_ns")
READS("/proc/self/uid_map")
OPENS("/proc/self/wchan")

CHECK_PATH("/proc/self/clear_refs")
{
    MUST(CALL(openat, AT_FDCWD, "/proc/self/clear_refs", O_WRONLY | O_CLOEXEC));
}

CHECK_PATH("/proc/self/cmdline")
{
    says("/proc/self/cmdline", "husk-probe");
}

CHECK_PATH("/proc/self/comm")
{
    NEED(prctl(PR_SET_NAME, "probing") == 0, "PR_SET_NAME");
    says("/proc/self/comm", "probing\n");
}

CHECK_PATH("/proc/self/environ")
{
    opens("/proc/self/environ");
}

CHECK_PATH("/proc/self/fd/*")
{
    int fd = probe_memfd(3), again;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    again = (int)MUST(CALL(openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC));
    NEED(write(fd, "abc", 3) == 3, "write");
    char text[8] = {0};
    EFFECT(read(again, text, sizeof text) == 3 && !strcmp(text, "abc"));
}

CHECK_PATH("/proc/self/fdinfo/*")
{
    int fd = probe_memfd(10);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    NEED(lseek(fd, 7, SEEK_SET) == 7, "lseek");
    says(path, "pos:\t7");
}

CHECK_PATH("/proc/self/mem")
{
    static char secret[] = "written by the probe";
    char seen[sizeof secret] = {0};
    int fd = (int)MUST(CALL(openat, AT_FDCWD, "/proc/self/mem", O_RDONLY | O_CLOEXEC));
    EFFECT(pread(fd, seen, sizeof seen, (off_t)secret) == sizeof seen && !strcmp(seen, secret));
}

CHECK_PATH("/proc/self/pagemap")
{
    char *page = probe_pages(1);
    uint64_t entry = 0;
    page[0] = 1;
    int fd = (int)MUST(CALL(openat, AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
    EFFECT(pread(fd, &entry, 8, (off_t)((unsigned long)page / 4096 * 8)) == 8 && entry >> 63);
}

CHECK_PATH("/proc/self/stat")
{
    char begin[32];
    snprintf(begin, sizeof begin, "%d (", (int)getpid());
    says("/proc/self/stat", begin);
}

CHECK_PATH("/proc/self/status")
{
    char line[32];
    snprintf(line, sizeof line, "\nPid:\t%d\n", (int)getpid());
    says("/proc/self/status", line);
}

CHECK_PATH("/proc/self/task/*/comm")
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", (int)gettid());
    reads(path);
}

CHECK_PATH("/proc/*/status")
{
    /* Of another process: a child. */
    pid_t pid = probe_fork();
    if (pid == 0) {
        probe_sleep(5000);
        _exit(0);
    }
    char path[64], line[32];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    snprintf(line, sizeof line, "\nPPid:\t%d\n", (int)getpid());
    says(path, line);
}

/* -- the machine -- */

OPENS("/proc/buddyinfo")
READS("/proc/cgroups")
READS("/proc/cmdline")
READS("/proc/consoles")
SAYS("/proc/cpuinfo", "processor")
OPENS("/proc/crypto")
READS("/proc/devices")
OPENS("/proc/diskstats")
SAYS("/proc/filesystems", "nodev")
READS("/proc/interrupts")
OPENS("/proc/kallsyms")
OPENS("/proc/keys")
IS_THERE("/proc/kcore")
IS_THERE("/proc/kmsg")
READS("/proc/loadavg")
OPENS("/proc/locks")
SAYS("/proc/meminfo", "MemTotal:")
OPENS("/proc/misc")
OPENS("/proc/modules")
LEADS("/proc/mounts")
LEADS("/proc/net")
READS("/proc/net/dev")
OPENS("/proc/net/if_inet6")
READS("/proc/net/route")
READS("/proc/net/tcp")
READS("/proc/net/unix")
OPENS("/proc/partitions")
LISTS("/proc/pressure")
IS_THERE("/proc/slabinfo")
READS("/proc/softirqs")
SAYS("/proc/stat", "cpu ")
OPENS("/proc/swaps")
IS_THERE("/proc/sysrq-trigger")
READS("/proc/uptime")
SAYS("/proc/version", "Linux")
READS("/proc/vmstat")
OPENS("/proc/zoneinfo")

READS("/proc/sys/fs/file-max")
READS("/proc/sys/fs/inotify/max_user_watches")
READS("/proc/sys/fs/nr_open")
READS("/proc/sys/fs/pipe-max-size")
IS_THERE("/proc/sys/fs/protected_symlinks")
READS("/proc/sys/kernel/cap_last_cap")
READS("/proc/sys/kernel/core_pattern")
READS("/proc/sys/kernel/dmesg_restrict")
READS("/proc/sys/kernel/domainname")
READS("/proc/sys/kernel/hostname")
READS("/proc/sys/kernel/keys/maxkeys")
READS("/proc/sys/kernel/msgmax")
READS("/proc/sys/kernel/msgmnb")
READS("/proc/sys/kernel/msgmni")
READS("/proc/sys/kernel/ngroups_max")
READS("/proc/sys/kernel/osrelease")
SAYS("/proc/sys/kernel/ostype", "Linux")
READS("/proc/sys/kernel/overflowgid")
READS("/proc/sys/kernel/overflowuid")
READS("/proc/sys/kernel/perf_event_paranoid")
READS("/proc/sys/kernel/pid_max")
READS("/proc/sys/kernel/random/boot_id")
READS("/proc/sys/kernel/random/uuid")
READS("/proc/sys/kernel/randomize_va_space")
READS("/proc/sys/kernel/sem")
READS("/proc/sys/kernel/shmall")
READS("/proc/sys/kernel/shmmax")
READS("/proc/sys/kernel/shmmni")
READS("/proc/sys/kernel/threads-max")
READS("/proc/sys/kernel/version")
READS("/proc/sys/kernel/yama/ptrace_scope")
READS("/proc/sys/net/core/somaxconn")
READS("/proc/sys/net/ipv4/ip_local_port_range")
READS("/proc/sys/user/max_user_namespaces")
READS("/proc/sys/vm/max_map_count")
READS("/proc/sys/vm/mmap_min_addr")
READS("/proc/sys/vm/overcommit_memory")
READS("/proc/sys/vm/overcommit_ratio")
READS("/proc/sys/vm/swappiness")

LISTS("/sys/class/net")
READS("/sys/devices/system/cpu/online")
READS("/sys/devices/system/cpu/possible")
READS("/sys/devices/system/cpu/present")
LISTS("/sys/devices/system/cpu")
LISTS("/sys/devices/system/node")
LISTS("/sys/fs/cgroup")
LISTS("/sys/kernel")
READS("/sys/kernel/mm/transparent_hugepage/enabled")
LISTS("/sys/module")

/* -- devices -- */

CHECK_PATH("/dev/null")
{
    device("/dev/null", 0x103, O_RDWR);
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    char one;
    EFFECT(write(fd, "x", 1) == 1 && read(fd, &one, 1) == 0);
}

CHECK_PATH("/dev/zero")
{
    device("/dev/zero", 0x105, O_RDONLY);
    char bytes[4] = "xxx";
    int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    EFFECT(read(fd, bytes, 4) == 4 && !memcmp(bytes, "\0\0\0\0", 4));
}

CHECK_PATH("/dev/full")
{
    device("/dev/full", 0x107, O_WRONLY);
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    EFFECT(write(fd, "x", 1) == -1 && errno == ENOSPC);
}

CHECK_PATH("/dev/random")
{
    device("/dev/random", 0x108, O_RDONLY);
    reads("/dev/random");
}

CHECK_PATH("/dev/urandom")
{
    device("/dev/urandom", 0x109, O_RDONLY);
    reads("/dev/urandom");
}

CHECK_PATH("/dev/ptmx")
{
    int fd = (int)MUST(CALL(openat, AT_FDCWD, "/dev/ptmx", O_RDWR | O_CLOEXEC | O_NOCTTY));
    EFFECT(isatty(fd));
}

CHECK_PATH("/dev/shm")
{
    char path[64];
    snprintf(path, sizeof path, "/dev/shm/husk-probe-%d", (int)getpid());
    int fd = (int)MUST(CALL(openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    bool gone = unlink(path) == 0;
    EFFECT(gone && write(fd, "x", 1) == 1);
}

CHECK_PATH("/dev/tty")
{
    /* Without a terminal ENXIO is Linux's answer. */
    MUST_OR(CALL(openat, AT_FDCWD, "/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY), ENXIO);
}

LEADS("/dev/fd")
LEADS("/dev/stdin")
LEADS("/dev/stdout")
LEADS("/dev/stderr")
IS_THERE("/dev/pts")
IS_THERE("/dev/console")
IS_THERE("/dev/fuse")
IS_THERE("/dev/kmsg")
IS_THERE("/dev/kvm")
IS_THERE("/dev/loop-control")
IS_THERE("/dev/mapper/control")
IS_THERE("/dev/mem")
IS_THERE("/dev/net/tun")
