/* compat/probe: checks of user and group ids, capabilities, limits, accounts, scheduling and priorities.
 *
 * Ids are only set to those the caller has, or to one that wants privilege; all of it ends with the check's process. */
#include "probe.h"

#include <linux/capability.h>
#include <linux/ioprio.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/times.h>

/* -- ids -- */

CHECK(getuid, "agrees with getresuid")
{
    uid_t real, effective, saved;
    NEED(getresuid(&real, &effective, &saved) == 0, "getresuid");
    EFFECT(MUST(CALL(getuid)) == (long)real);
}

CHECK(geteuid, "agrees with getresuid")
{
    uid_t real, effective, saved;
    NEED(getresuid(&real, &effective, &saved) == 0, "getresuid");
    EFFECT(MUST(CALL(geteuid)) == (long)effective);
}

CHECK(getgid, "agrees with getresgid")
{
    gid_t real, effective, saved;
    NEED(getresgid(&real, &effective, &saved) == 0, "getresgid");
    EFFECT(MUST(CALL(getgid)) == (long)real);
}

CHECK(getegid, "agrees with getresgid")
{
    gid_t real, effective, saved;
    NEED(getresgid(&real, &effective, &saved) == 0, "getresgid");
    EFFECT(MUST(CALL(getegid)) == (long)effective);
}

CHECK(getresuid, "three of them")
{
    uid_t ids[3] = {~0u, ~0u, ~0u};
    MUST(CALL(getresuid, ids, ids + 1, ids + 2));
    EFFECT(ids[0] == getuid() && ids[1] == geteuid() && ids[2] != ~0u);
}

CHECK(getresgid, "three of them")
{
    gid_t ids[3] = {~0u, ~0u, ~0u};
    MUST(CALL(getresgid, ids, ids + 1, ids + 2));
    EFFECT(ids[0] == getgid() && ids[1] == getegid() && ids[2] != ~0u);
}

CHECK(getgroups, "their number, and as many")
{
    static gid_t groups[65536];
    long count = MUST(CALL(getgroups, 0, NULL));
    EFFECT(MUST(CALL(getgroups, 65536, groups)) == count);
}

CHECK(setuid, "one's own")
{
    uid_t me = getuid();
    MUST(CALL(setuid, me));
    EFFECT(getuid() == me && geteuid() == me);
}

CHECK(setuid, "another's: for good, or not without privilege")
{
    MUST_OR(CALL(setuid, 12345), EPERM, EINVAL);
    EFFECT(getuid() == 12345 && geteuid() == 12345);
}

CHECK(setgid, "one's own")
{
    gid_t me = getgid();
    MUST(CALL(setgid, me));
    EFFECT(getgid() == me && getegid() == me);
}

CHECK(setreuid, "-1 leaves them as they are")
{
    uid_t me = getuid(), effective = geteuid();
    MUST(CALL(setreuid, -1, -1));
    EFFECT(getuid() == me && geteuid() == effective);
}

CHECK(setregid, "-1 leaves them as they are")
{
    gid_t me = getgid(), effective = getegid();
    MUST(CALL(setregid, -1, -1));
    EFFECT(getgid() == me && getegid() == effective);
}

CHECK(setresuid, "to those one has")
{
    uid_t me = getuid();
    MUST(CALL(setresuid, me, me, me));
    EFFECT(getuid() == me);
}

CHECK(setresuid, "another's: or not without privilege")
{
    MUST_OR(CALL(setresuid, -1, 12345, -1), EPERM, EINVAL);
    EFFECT(geteuid() == 12345);
}

CHECK(setresgid, "to those one has")
{
    gid_t me = getgid();
    MUST(CALL(setresgid, me, me, me));
    EFFECT(getgid() == me);
}

CHECK(setfsuid, "tells the one before")
{
    EFFECT(MUST(CALL(setfsuid, geteuid())) == (long)geteuid());
    EFFECT(MUST(CALL(setfsuid, -1)) == (long)geteuid());
}

CHECK(setfsgid, "tells the one before")
{
    EFFECT(MUST(CALL(setfsgid, getegid())) == (long)getegid());
    EFFECT(MUST(CALL(setfsgid, -1)) == (long)getegid());
}

CHECK(setgroups, "none, or not without privilege")
{
    MUST_OR(CALL(setgroups, 0, NULL), EPERM);
    EFFECT(RAW(getgroups, 0, NULL) == 0);
}

/* -- capabilities -- */

CHECK(capget, "the version, and one's own sets")
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct sets[2] = {{~0u, 0, 0}, {0, 0, 0}};
    MUST(CALL(capget, &head, sets));
    EFFECT((sets[0].effective & ~sets[0].permitted) == 0);
}

CHECK(capset, "what is dropped is gone")
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct sets[2] = {{0}};
    MUST(CALL(capset, &head, sets));
    struct __user_cap_data_struct now[2] = {{~0u, ~0u, ~0u}, {~0u, ~0u, ~0u}};
    EFFECT(RAW(capget, &head, now) == 0 && now[0].permitted == 0 && now[1].permitted == 0);
}

CHECK(capset, "what one does not have is EPERM")
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct sets[2] = {{0}};
    NEED(RAW(capset, &head, sets) == 0, "capset");
    sets[0].permitted = 1;
    ANSWERS(CALL(capset, &head, sets), EPERM);
}

/* -- limits -- */

static void reads_limit(int resource)
{
    struct rlimit limit = {7, 3};
    MUST(CALL(getrlimit, resource, &limit));
    EFFECT(limit.rlim_cur <= limit.rlim_max);
}

CHECK(getrlimit, "resource=RLIMIT_NOFILE")
{
    reads_limit(RLIMIT_NOFILE);
}
CHECK(getrlimit, "resource=RLIMIT_STACK")
{
    reads_limit(RLIMIT_STACK);
}
CHECK(getrlimit, "resource=RLIMIT_CORE")
{
    reads_limit(RLIMIT_CORE);
}
CHECK(getrlimit, "resource=RLIMIT_AS")
{
    reads_limit(RLIMIT_AS);
}

CHECK(getrlimit, "resource=RLIMIT_LOCKS")
{
    reads_limit(RLIMIT_LOCKS);
}

CHECK(setrlimit, "resource=RLIMIT_NOFILE: the next descriptor is EMFILE")
{
    struct rlimit limit;
    NEED(getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
    limit.rlim_cur = 20;
    MUST(CALL(setrlimit, RLIMIT_NOFILE, &limit));
    int fd = 0;
    while (fd >= 0 && fd < 100)
        fd = dup(2) < 0 ? dup(0) : fd + 1;
    EFFECT(fd == -1 && errno == EMFILE);
}

CHECK(setrlimit, "resource=RLIMIT_LOCKS: kept, and means nothing since Linux 2.4")
{
    struct rlimit limit;
    NEED(getrlimit(RLIMIT_LOCKS, &limit) == 0, "getrlimit");
    limit.rlim_cur = limit.rlim_max;
    MUST(CALL(setrlimit, RLIMIT_LOCKS, &limit));
}

CHECK(setrlimit, "resource=RLIMIT_FSIZE: a file that grows too large is SIGXFSZ")
{
    struct rlimit limit = {10, 10};
    int fd = probe_file("f", "");
    signal(SIGXFSZ, SIG_IGN);
    MUST(CALL(setrlimit, RLIMIT_FSIZE, &limit));
    EFFECT(pwrite(fd, "x", 1, 100) == -1 && errno == EFBIG);
}

CHECK(setrlimit, "resource=RLIMIT_CORE: none")
{
    struct rlimit limit = {0, 0};
    MUST(CALL(setrlimit, RLIMIT_CORE, &limit));
    EFFECT(getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_max == 0);
}

CHECK(setrlimit, "more than the hard limit is EPERM without privilege")
{
    struct rlimit limit;
    NEED(getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
    limit.rlim_cur = limit.rlim_max = 100;
    NEED(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
    limit.rlim_max = 200;
    MUST_OR(CALL(setrlimit, RLIMIT_NOFILE, &limit), EPERM);
}

CHECK(prlimit64, "pid=0: sets and tells the old one")
{
    struct rlimit wish, old = {0}, now = {0};
    NEED(getrlimit(RLIMIT_NOFILE, &wish) == 0, "getrlimit");
    rlim_t before = wish.rlim_cur;
    wish.rlim_cur = 50;
    MUST(CALL(prlimit64, 0, RLIMIT_NOFILE, &wish, &old));
    EFFECT(old.rlim_cur == before && getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_cur == 50);
}

CHECK(prlimit64, "of a child")
{
    struct rlimit old = {7, 3};
    MUST(CALL(prlimit64, probe_sleeper(), RLIMIT_NOFILE, NULL, &old));
    EFFECT(old.rlim_cur <= old.rlim_max);
}

CHECK(prlimit64, "resource=RLIMIT_STACK")
{
    struct rlimit old = {7, 3};
    MUST(CALL(prlimit64, 0, RLIMIT_STACK, NULL, &old));
    EFFECT(old.rlim_cur <= old.rlim_max);
}

CHECK(prlimit64, "resource=RLIMIT_LOCKS")
{
    struct rlimit old = {7, 3};
    MUST(CALL(prlimit64, 0, RLIMIT_LOCKS, NULL, &old));
    EFFECT(old.rlim_cur <= old.rlim_max);
}

CHECK(prlimit64, "resource=RLIMIT_CORE: none")
{
    struct rlimit wish = {0, 0}, now;
    MUST(CALL(prlimit64, 0, RLIMIT_CORE, &wish, NULL));
    EFFECT(getrlimit(RLIMIT_CORE, &now) == 0 && now.rlim_max == 0);
}

/* -- accounts -- */

static void burn(void)
{
    int64_t until = probe_now() + 25000000;
    while (probe_now() < until)
        ;
}

static void uses_time(int who)
{
    struct rusage usage;
    memset(&usage, 0, sizeof usage);
    burn();
    MUST(CALL(getrusage, who, &usage));
    EFFECT(usage.ru_utime.tv_sec * 1000000 + usage.ru_utime.tv_usec + usage.ru_stime.tv_usec > 0);
}

CHECK(getrusage, "who=RUSAGE_SELF")
{
    uses_time(RUSAGE_SELF);
}
CHECK(getrusage, "who=RUSAGE_THREAD")
{
    uses_time(RUSAGE_THREAD);
}

CHECK(getrusage, "who=RUSAGE_CHILDREN")
{
    struct rusage usage;
    memset(&usage, 0, sizeof usage);
    pid_t pid = probe_fork();
    if (pid == 0) {
        burn();
        _exit(0);
    }
    probe_wait(pid);
    MUST(CALL(getrusage, RUSAGE_CHILDREN, &usage));
    EFFECT(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec > 0);
}

CHECK(times, "time goes on")
{
    struct tms before = {0}, after = {0};
    long first = MUST(CALL(times, &before));
    burn();
    burn();
    long second = MUST(CALL(times, &after));
    EFFECT(second > first && after.tms_utime + after.tms_stime >= before.tms_utime + before.tms_stime);
}

/* -- scheduling -- */

CHECK(sched_yield, "returns")
{
    MUST(CALL(sched_yield));
}

CHECK(sched_get_priority_max, "policy=SCHED_FIFO")
{
    EFFECT(MUST(CALL(sched_get_priority_max, SCHED_FIFO)) == 99);
}

CHECK(sched_get_priority_min, "policy=SCHED_FIFO")
{
    EFFECT(MUST(CALL(sched_get_priority_min, SCHED_FIFO)) == 1);
}

CHECK(sched_getscheduler, "pid=0: the usual policy")
{
    EFFECT(MUST(CALL(sched_getscheduler, 0)) == SCHED_OTHER);
}

CHECK(sched_getscheduler, "of a child")
{
    EFFECT(MUST(CALL(sched_getscheduler, probe_sleeper())) == SCHED_OTHER);
}

static void sets_policy(int policy)
{
    struct sched_param parameter = {0};
    MUST(CALL(sched_setscheduler, 0, policy, &parameter));
    EFFECT(sched_getscheduler(0) == policy);
}

CHECK(sched_setscheduler, "policy=SCHED_NORMAL")
{
    sets_policy(SCHED_OTHER);
}
CHECK(sched_setscheduler, "policy=SCHED_BATCH")
{
    sets_policy(SCHED_BATCH);
}
CHECK(sched_setscheduler, "policy=SCHED_IDLE")
{
    sets_policy(SCHED_IDLE);
}

CHECK(sched_setscheduler, "policy=SCHED_EXT: or the kernel was built without")
{
    struct sched_param parameter = {0};
    MUST_OR(CALL(sched_setscheduler, 0, 7, &parameter), EINVAL);
}

CHECK(sched_setscheduler, "policy=SCHED_FIFO: or not without privilege")
{
    struct sched_param parameter = {1};
    MUST_OR(CALL(sched_setscheduler, 0, SCHED_FIFO, &parameter), EPERM);
    EFFECT(sched_getscheduler(0) == SCHED_FIFO);
}

CHECK(sched_setparam, "pid=0: the one it has")
{
    struct sched_param parameter = {0};
    MUST(CALL(sched_setparam, 0, &parameter));
}

CHECK(sched_getparam, "pid=0: none with the usual policy")
{
    struct sched_param parameter = {-1};
    MUST(CALL(sched_getparam, 0, &parameter));
    EFFECT(parameter.sched_priority == 0);
}

CHECK(sched_rr_get_interval, "pid=0: a time")
{
    struct timespec interval = {-1, -1};
    MUST(CALL(sched_rr_get_interval, 0, &interval));
    EFFECT(interval.tv_sec >= 0 && interval.tv_nsec >= 0);
}

CHECK(sched_getaffinity, "pid=0: at least one processor")
{
    cpu_set_t set;
    CPU_ZERO(&set);
    EFFECT(MUST(CALL(sched_getaffinity, 0, sizeof set, &set)) > 0 && CPU_COUNT(&set) >= 1);
}

CHECK(sched_getaffinity, "of a child")
{
    cpu_set_t set;
    CPU_ZERO(&set);
    EFFECT(MUST(CALL(sched_getaffinity, probe_sleeper(), sizeof set, &set)) > 0 && CPU_COUNT(&set) >= 1);
}

CHECK(sched_setaffinity, "pid=0: on one processor from now on")
{
    cpu_set_t all, one, now;
    NEED(sched_getaffinity(0, sizeof all, &all) == 0, "sched_getaffinity");
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all)) {
            CPU_SET(cpu, &one);
            break;
        }
    MUST(CALL(sched_setaffinity, 0, sizeof one, &one));
    EFFECT(sched_getaffinity(0, sizeof now, &now) == 0 && CPU_EQUAL(&now, &one));
}

struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

/* A nice value that any user may set: the probe itself may have been started at any. */
static int nicer(void)
{
    int now = getpriority(PRIO_PROCESS, 0);
    return now < 19 ? now + 1 : now;
}

CHECK(sched_setattr, "pid=0: a nice value")
{
    struct attributes wish = {.size = 48, .policy = SCHED_OTHER, .nice = nicer()};
    MUST(CALL(sched_setattr, 0, &wish, 0));
    EFFECT(getpriority(PRIO_PROCESS, 0) == wish.nice);
}

CHECK(sched_getattr, "pid=0: policy and nice value")
{
    struct attributes now = {.policy = 77};
    MUST(CALL(sched_getattr, 0, &now, sizeof now, 0));
    EFFECT(now.size >= 48 && now.policy == SCHED_OTHER && now.nice == getpriority(PRIO_PROCESS, 0));
}

CHECK(getpriority, "which=PRIO_PROCESS: who 0 is the caller")
{
    long value = MUST(CALL(getpriority, PRIO_PROCESS, 0));
    EFFECT(value >= 1 && value <= 40);
}

CHECK(getpriority, "which=PRIO_PGRP: one's own group")
{
    long value = MUST(CALL(getpriority, PRIO_PGRP, 0));
    EFFECT(value >= 1 && value <= 40);
}

CHECK(setpriority, "which=PRIO_PROCESS: less from now on")
{
    int wish = nicer();
    MUST(CALL(setpriority, PRIO_PROCESS, 0, wish));
    EFFECT(getpriority(PRIO_PROCESS, 0) == wish);
}

CHECK(setpriority, "which=PRIO_PGRP: one's own group")
{
    int wish = nicer();
    MUST(CALL(setpriority, PRIO_PGRP, 0, wish));
    EFFECT(getpriority(PRIO_PROCESS, 0) == wish);
}

CHECK(ioprio_set, "which=IOPRIO_WHO_PROCESS: idle")
{
    MUST(CALL(ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0)));
    EFFECT(IOPRIO_PRIO_CLASS(RAW(ioprio_get, IOPRIO_WHO_PROCESS, 0)) == IOPRIO_CLASS_IDLE);
}

CHECK(ioprio_get, "which=IOPRIO_WHO_PROCESS")
{
    NEED(RAW(ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, 6)) == 0, "ioprio_set");
    EFFECT(MUST(CALL(ioprio_get, IOPRIO_WHO_PROCESS, 0)) == IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, 6));
}
