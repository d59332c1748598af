/* native: execve. The guest thread executes the loader instead of the program it named
 * (docs/design/001-execution.md). */
#include "remote/remote.h"

#include "loader/protocol.h"
#include "notify/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>

#define FEW 64        /* strings of a list, and … */
#define SHORT 512     /* … bytes of a string: 64 KiB at most in both lists */

/* Could the host find arguments and environment too long (E2BIG)? Its limit is at least 128 KiB, so that few short
 * strings are never too long. This is only a guess, which decides whether to watch the call to its end: watching holds
 * up the receiving thread. -EFAULT: a list cannot be read. */
static int may_be_too_long(pid_t tid, uint64_t argv, uint64_t envp)
{
    uint64_t lists[2] = {argv, envp}, strings[FEW + 1];
    char texts[2 * FEW * SHORT];
    struct iovec local = {texts, 0}, parts[2 * FEW];
    int count = 0;
    for (int list = 0; list < 2; list++) {
        if (!lists[list])
            continue;
        ssize_t n = guest_read(tid, lists[list], strings, sizeof strings) / (ssize_t)sizeof *strings, i = 0;
        if (n <= 0)
            return -EFAULT;
        for (; i < n && i < FEW && strings[i]; i++) {
            if (i + 1 < n && strings[i + 1] > strings[i] && strings[i + 1] - strings[i] <= SHORT)
                continue; /* it ends where the next one begins */
            size_t in_page = 4096 - (strings[i] & 4095);
            parts[count] = (struct iovec){(void *)(uintptr_t)strings[i], in_page < SHORT ? in_page : SHORT};
            local.iov_len += parts[count++].iov_len;
        }
        if (i == n || strings[i])
            return true;
    }
    if (count && process_vm_readv(tid, &local, 1, parts, count, 0) != (ssize_t)local.iov_len)
        return true;
    const char *text = texts;
    for (int i = 0; i < count; text += parts[i++].iov_len)
        if (!memchr(text, 0, parts[i].iov_len))
            return true;
    return false;
}

int remote_exec_loader(Listener *listener, const struct seccomp_notif *notif, int loader, uint64_t empty, uint64_t argv,
                       uint64_t envp, struct remote_exec *exec)
{
    struct remote_thread thread;
    pid_t tgid = guest_thread_group(notif->pid); /* trusted once remote_stop_with_fd succeeds: the tid was not reused */
    /* An execveat that the host refuses leaves the loader's descriptor behind in the guest. So we guess before. */
    int too_long = may_be_too_long(notif->pid, argv, envp);
    if (too_long < 0) {
        notify_answer_error(listener->fd, notif->id, EFAULT);
        remote_exec_free(exec);
        return -EFAULT;
    }
    int fd, error = remote_stop_with_fd(listener->fd, notif, loader, true, &thread, &fd);
    if (error) {
        remote_exec_free(exec);
        return error;
    }
    remote_exec_expect(listener, exec, tgid, notif->pid, fd); /* before the thread goes on and its loader can ask */
    /* A racing guest could overwrite the empty string. Then the host would look for a path below the loader, which is a
     * file, or in a root that is empty; and Landlock allows only the loader to be executed. */
    uint64_t args[6] = {fd, empty, argv, envp, AT_EMPTY_PATH, listener->cookie};
    /* A thread that does not lead its group gets another tid during execve, and waitpid cannot wait for the old one. */
    return remote_execute(&thread, args, too_long && tgid == (pid_t)notif->pid);
}

/* Nothing that was looked at is trusted here. Should the guest change the name before the host reads it, the host finds
 * the loader under another name, or nothing: its root holds the loader and empty directories. */
int remote_exec_continue(Listener *listener, const struct seccomp_notif *notif, int key, struct remote_exec *exec)
{
    remote_exec_expect(listener, exec, guest_thread_group(notif->pid), notif->pid, key);
    int error = notify_answer_continue(listener->fd, notif->id);
    if (error)
        remote_exec_drop_failed(listener, notif->pid); /* the caller is gone */
    return error;
}

PyObject *remote_py_exec_loader(Call *call, PyObject *args)
{
    int loader, program_fd, interpreter_fd, error;
    unsigned long long empty, argv, envp;
    const char *info, *name;
    Py_ssize_t info_size, name_size;
    if (!PyArg_ParseTuple(args, "iKKKiiy#y#:exec_loader", &loader, &empty, &argv, &envp, &program_fd, &interpreter_fd,
                          &info, &info_size, &name, &name_size))
        return NULL;
    struct remote_exec *exec = remote_exec_new(program_fd, interpreter_fd, info, info_size);
    if (!exec)
        return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS
    /* By name the loader needs a descriptor later, when it is too late for an error. */
    if (name_size && guest_has_free_fd(call->notif.pid))
        error = remote_exec_continue(call->listener, &call->notif, husk_name_key(name), exec);
    else
        error = remote_exec_loader(call->listener, &call->notif, loader, empty, argv, envp, exec);
    Py_END_ALLOW_THREADS
    call->answered = error != REMOTE_TRACED;
    return PyLong_FromLong(error);
}
