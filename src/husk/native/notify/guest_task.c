/* native: what the host's /proc says about a guest thread. The host kernel keeps working directory, umask and
 * descriptor table; husk only reads them. After each read husk checks that the call still waits, since a tid may be
 * reused. */
#include "notify/notify.h"

#include "host/host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef PIDFD_THREAD
#define PIDFD_THREAD O_EXCL
#endif

static PyObject *link_text(Call *call, const char *path, int missing)
{
    char text[4200];
    ssize_t n = readlink(path, text, sizeof text);
    if (n < 0)
        return core_raise_errno(errno == ENOENT ? missing : errno);
    if (!notify_is_valid(call->listener->fd, call->notif.id))
        return core_raise_errno(ESRCH);
    return PyBytes_FromStringAndSize(text, n);
}

PyObject *guest_py_fd_link(Call *call, PyObject *args)
{
    int fd;
    char path[64];
    if (!PyArg_ParseTuple(args, "i:fd_link", &fd))
        return NULL;
    if (fd < 0)
        return core_raise_errno(EBADF);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", call->notif.pid, fd);
    return link_text(call, path, EBADF);
}

PyObject *guest_py_cwd_link(Call *call, PyObject *Py_UNUSED(noargs))
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/cwd", call->notif.pid);
    return link_text(call, path, ENOENT);
}

PyObject *guest_py_fd_stat(Call *call, PyObject *args)
{
    int fd;
    char path[64];
    struct stat s;
    if (!PyArg_ParseTuple(args, "i:fd_stat", &fd))
        return NULL;
    if (fd < 0)
        return core_raise_errno(EBADF);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", call->notif.pid, fd);
    if (stat(path, &s) < 0)
        return core_raise_errno(errno == ENOENT ? EBADF : errno);
    if (!notify_is_valid(call->listener->fd, call->notif.id))
        return core_raise_errno(ESRCH);
    return host_stat(&s);
}

static int field_of(const char *text, ssize_t size, const char *label, int base, long *value)
{
    if (size <= 0)
        return -ESRCH;
    const char *line = strstr(text, label); /* labels start with a newline: a process name cannot hold one unescaped */
    if (!line)
        return -ENOENT;
    *value = strtol(line + strlen(label), NULL, base);
    return 0;
}

static int status_field(pid_t tid, const char *label, int base, long *value)
{
    char text[4096];
    ssize_t n = host_read_proc(text, sizeof text, "/proc/%d/status", tid);
    return field_of(text, n, label, base, value);
}

int guest_umask_from(int status)
{
    char text[4096];
    long mask;
    ssize_t n = status < 0 ? -1 : pread(status, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = 0;
    return field_of(text, n, "\nUmask:", 8, &mask) ? -1 : (int)mask;
}

PyObject *guest_py_umask(Call *call, PyObject *Py_UNUSED(noargs))
{
    long mask;
    int error = status_field(call->notif.pid, "\nUmask:", 8, &mask);
    return error ? core_raise_errno(-error) : PyLong_FromLong(mask);
}

pid_t guest_thread_group(pid_t tid)
{
    /* Most callers lead their thread group, and signal 0 to "thread tid of group tid" asks just that. It is cheaper
     * than a pidfd and far cheaper than reading a status file. EPERM: there is such a thread, of another user. */
    if (syscall(SYS_tgkill, tid, tid, 0) == 0 || errno == EPERM)
        return tid;
    long tgid;
    return status_field(tid, "\nTgid:", 10, &tgid) ? -1 : (pid_t)tgid;
}

pid_t guest_tracer(pid_t tid)
{
    long tracer;
    return status_field(tid, "\nTracerPid:", 10, &tracer) ? -1 : (pid_t)tracer;
}

/* Of the limit of descriptors; 0: unknown, or none at all. */
static rlim_t most_descriptors(pid_t tid)
{
    static const char title[] = "Max open files";
    char path[64], text[4096];
    struct rlimit limit;
    if (syscall(SYS_prlimit64, tid, RLIMIT_NOFILE, NULL, &limit) == 0)
        return limit.rlim_cur;
    /* Over another user's processes prlimit takes a capability that root may lack in a container. */
    snprintf(path, sizeof path, "/proc/%d/limits", tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n < 0 ? 0 : n] = 0;
    const char *line = strstr(text, title);
    return line ? strtoull(line + sizeof title, NULL, 10) : 0;
}

bool guest_has_free_fd(pid_t tid)
{
    char path[64];
    struct stat s;
    rlim_t most = most_descriptors(tid);
    if (!most)
        return false;
    /* Most often the highest number is free, and that costs a fifth of asking /proc. */
    long highest = most > INT_MAX ? INT_MAX : (long)most - 1;
    if (syscall(SYS_kcmp, tid, tid, KCMP_FILE, highest, highest) < 0 && errno == EBADF)
        return true;
    snprintf(path, sizeof path, "/proc/%d/fd", tid);
    /* Since Linux 6.2 the size of this directory is how many descriptors are open. */
    return stat(path, &s) == 0 && s.st_size > 0 && (rlim_t)s.st_size < most;
}

bool guest_table_is_full(pid_t tid)
{
    char path[64];
    rlim_t most = most_descriptors(tid);
    if (!most || guest_has_free_fd(tid))
        return false;
    /* Descriptors above a limit that was lowered since do not count. */
    snprintf(path, sizeof path, "/proc/%d/fd", tid);
    DIR *folder = opendir(path);
    if (!folder)
        return false;
    rlim_t taken = 0;
    for (struct dirent *entry; (entry = readdir(folder));)
        taken += entry->d_name[0] != '.' && strtoull(entry->d_name, NULL, 10) < most;
    closedir(folder);
    return taken >= most;
}

PyObject *guest_py_table_is_full(Call *call, PyObject *Py_UNUSED(noargs))
{
    bool full;
    Py_BEGIN_ALLOW_THREADS
    full = guest_table_is_full(call->notif.pid);
    Py_END_ALLOW_THREADS
    return PyBool_FromLong(full);
}

PyObject *guest_py_tgid(Call *call, PyObject *Py_UNUSED(noargs))
{
    pid_t tgid = guest_thread_group(call->notif.pid);
    return tgid < 0 ? core_raise_errno(ESRCH) : PyLong_FromLong(tgid);
}

PyObject *guest_py_position(Call *call, PyObject *args)
{
    int fd;
    char text[512];
    if (!PyArg_ParseTuple(args, "i:position", &fd))
        return NULL;
    ssize_t n = host_read_proc(text, sizeof text, "/proc/%d/fdinfo/%d", call->notif.pid, fd);
    if (n < 5 || memcmp(text, "pos:", 4) != 0)
        return core_raise_errno(EBADF);
    return PyLong_FromLongLong(strtoll(text + 4, NULL, 10));
}

static int duplicate(pid_t task, unsigned flags, int fd)
{
    int pidfd = syscall(SYS_pidfd_open, task, flags);
    if (pidfd < 0)
        return errno == EINVAL ? -EINVAL : -ESRCH;
    int copy = syscall(SYS_pidfd_getfd, pidfd, fd, 0);
    int error = errno;
    close(pidfd);
    return copy < 0 ? -error : copy;
}

/* Before Linux 6.9 a pidfd names only a group leader. The thread may have a descriptor table of its own, or the leader
 * may be gone. Then the leader's descriptor of that number is another file, and husk cannot get the right one: EPERM,
 * as on a host that denies pidfd_getfd to husk. Without kcmp husk cannot tell and takes the leader's; separate tables
 * are rare. */
static int duplicate_from_leader(pid_t tid, int fd)
{
    pid_t leader = guest_thread_group(tid);
    int copy = leader < 0 ? -ESRCH : duplicate(leader, 0, fd);
    if (leader < 0 || leader == tid || copy == -EPERM)
        return copy;
    if (copy < 0)
        return syscall(SYS_kcmp, tid, tid, KCMP_FILE, fd, fd) < 0 && errno == EBADF ? -EBADF : -EPERM;
    long differs = syscall(SYS_kcmp, tid, getpid(), KCMP_FILE, fd, copy);
    if (differs == 0 || (differs < 0 && errno != EBADF))
        return copy;
    close(copy);
    return differs < 0 ? -EBADF : -EPERM;
}

int guest_get_fd(pid_t tid, int fd)
{
    /* Of the thread itself: it may not share the group's table (CLONE_FILES). */
    int copy = duplicate(tid, PIDFD_THREAD, fd);
    return copy == -EINVAL ? duplicate_from_leader(tid, fd) : copy;
}

PyObject *guest_py_get_fd(Call *call, PyObject *args)
{
    int fd;
    if (!PyArg_ParseTuple(args, "i:get_fd", &fd))
        return NULL;
    int copy = guest_get_fd(call->notif.pid, fd);
    if (copy < 0)
        return core_raise_errno(-copy);
    if (!notify_is_valid(call->listener->fd, call->notif.id)) {
        close(copy);
        return core_raise_errno(ESRCH);
    }
    return PyLong_FromLong(copy);
}

PyObject *guest_py_shares_table(PyObject *self, PyObject *args)
{
    (void)self;
    int one, other;
    if (!PyArg_ParseTuple(args, "ii:shares_table", &one, &other))
        return NULL;
    return PyBool_FromLong(syscall(SYS_kcmp, one, other, KCMP_FILES, 0, 0) == 0);
}

PyObject *guest_py_same_open_file(PyObject *self, PyObject *args)
{
    (void)self;
    int tid, fd, own;
    if (!PyArg_ParseTuple(args, "iii:same_open_file", &tid, &fd, &own))
        return NULL;
    long order = syscall(SYS_kcmp, tid, getpid(), KCMP_FILE, fd, own);
    return order < 0 ? core_raise_errno(errno) : PyBool_FromLong(order == 0);
}
