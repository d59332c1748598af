/* native: killing the processes that carry a mark. The mark is their hard limit on file locks (RLIMIT_LOCKS), which
 * Linux hands down through fork and execve and does not use for anything else (sandbox/orphans.py).
 *
 * A process may fork and end faster than it can be found by its number. So one pass has two parts. It walks /proc, a
 * few entries at a time: the kernel looks for each next entry when it is asked for, so that a large buffer would be
 * full of processes that are gone. Then it follows the number that the host gave out last, where such a process has to
 * be. Measured on 6.18, two processors: 1 to 64 such processes are ended within 20 ms; by the walk alone, a single one
 * often got away. */
#include "host/host.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FOLLOWED 300       /* looks at the number given out last, in one pass */
#define MOST_PIDS (1 << 22) /* the host's pid_max is no larger */

struct wanted {
    uint64_t mark, mask;
};

/* For another user's process prlimit(2) takes CAP_SYS_RESOURCE, which root in a container may lack. */
static bool limit_by_file(int pid, uint64_t *hard)
{
    char text[2048];
    ssize_t n = host_read_proc(text, sizeof text, "/proc/%d/limits", pid);
    if (n <= 0)
        return false;
    const char *line = strstr(text, "Max file locks");
    unsigned long long value;
    if (!line || sscanf(line, "Max file locks %*s %llu", &value) != 1) /* "unlimited" is no number */
        return false;
    *hard = value;
    return true;
}

static bool is_marked(int pid, const struct wanted *wanted)
{
    struct rlimit limit;
    uint64_t hard;
    if (prlimit(pid, RLIMIT_LOCKS, NULL, &limit) == 0)
        hard = limit.rlim_max;
    else if (errno != EPERM || geteuid() != 0 || !limit_by_file(pid, &hard))
        return false;
    return hard != RLIM_INFINITY && (hard & wanted->mask) == wanted->mark;
}

/* True: it was alive. The pidfd comes before the second look: if the number is used again in between, it is the pidfd
 * that has no process any more. Without a descriptor for that, the number is used right after the look. */
static bool kill_if_marked(int pid, const struct wanted *wanted)
{
    if (pid <= 1 || pid == getpid() || !is_marked(pid, wanted))
        return false;
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0)
        return errno != ESRCH && is_marked(pid, wanted) && kill(pid, SIGKILL) == 0;
    struct pollfd ended = {.fd = fd, .events = POLLIN};
    bool alive = is_marked(pid, wanted) && poll(&ended, 1, 0) == 0;
    if (alive)
        syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
    close(fd);
    return alive;
}

static long kill_listed(const struct wanted *wanted)
{
    struct entry { uint64_t ino, next; unsigned short size; unsigned char type; char name[]; };
    _Alignas(8) char some[256];
    long alive = 0, n;
    int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (proc < 0) { /* no descriptor is left: every number there can be, in a few seconds */
        for (int pid = 2; pid < MOST_PIDS; pid++)
            alive += kill_if_marked(pid, wanted);
        return alive;
    }
    while ((n = syscall(SYS_getdents64, proc, some, sizeof some)) > 0)
        for (long at = 0; at < n; at += ((struct entry *)(some + at))->size)
            alive += kill_if_marked(atoi(((struct entry *)(some + at))->name), wanted);
    close(proc);
    return alive;
}

static long kill_newest(const struct wanted *wanted)
{
    long alive = 0;
    char text[128];
    int loadavg = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
    for (int i = 0; loadavg >= 0 && i < FOLLOWED; i++) {
        ssize_t n = pread(loadavg, text, sizeof text - 1, 0);
        text[n > 0 ? n : 0] = 0;
        const char *last = strrchr(text, ' '); /* behind it: the number given out last */
        int newest = last ? atoi(last + 1) : 0;
        for (int pid = newest - 2; pid < newest + 6; pid++)
            alive += kill_if_marked(pid, wanted);
    }
    if (loadavg >= 0)
        close(loadavg);
    return alive;
}

PyObject *host_py_kill_marked(PyObject *self, PyObject *args)
{
    (void)self;
    unsigned long long mark, mask;
    if (!PyArg_ParseTuple(args, "KK", &mark, &mask))
        return NULL;
    if (!mark || (mark & mask) != mark) /* 0 may be any process's limit */
        return core_raise_errno(EINVAL);
    struct wanted wanted = {mark, mask};
    long alive;
    Py_BEGIN_ALLOW_THREADS
    alive = kill_listed(&wanted) + kill_newest(&wanted);
    Py_END_ALLOW_THREADS
    return PyLong_FromLong(alive);
}

/* ---- the soft limit: a tag of husk's own (kernel/cred/inherited.py) ---------------------------------------------- */

static void set_real_ids(uid_t user, gid_t group)
{
    while (syscall(SYS_setresgid, group, -1, -1) < 0 || syscall(SYS_setresuid, user, -1, -1) < 0)
        sched_yield(); /* as in credentials.c: a thread never goes on with another user's ids */
}

/* prlimit asks whether the real ids are those of the process, or for CAP_SYS_RESOURCE, which root in a container lacks.
 * Then this thread has the guest's real ids for the call. Everything else that it is stays, so nothing opens but to
 * a signal that is sent to this very thread, by a process of that user outside the box, in these microseconds. */
static int set_soft(int pid, uint64_t tag, uid_t user, gid_t group)
{
    struct rlimit limit;
    uid_t own_user = getuid();
    gid_t own_group = getgid();
    bool other = geteuid() == 0 && own_user == 0;
    int error = prlimit(pid, RLIMIT_LOCKS, NULL, &limit) < 0 ? errno : 0;
    bool change = error == EPERM && other;
    if (change)
        set_real_ids(user, group);
    if (!error || change)
        error = prlimit(pid, RLIMIT_LOCKS, NULL, &limit) < 0 ? errno : 0;
    if (!error && (limit.rlim_max == RLIM_INFINITY || tag > limit.rlim_max))
        error = EINVAL; /* not marked */
    limit.rlim_cur = tag;
    if (!error && prlimit(pid, RLIMIT_LOCKS, &limit, NULL) < 0)
        error = errno;
    if (change)
        set_real_ids(own_user, own_group);
    return error;
}

PyObject *host_py_tag_process(PyObject *self, PyObject *args)
{
    (void)self;
    int pid, error;
    unsigned long long tag;
    unsigned user, group;
    if (!PyArg_ParseTuple(args, "iKII", &pid, &tag, &user, &group))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    error = set_soft(pid, tag, user, group);
    Py_END_ALLOW_THREADS
    if (error)
        return core_raise_errno(error);
    Py_RETURN_NONE;
}
