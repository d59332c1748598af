/* native: clone3(2), as a clone(2) that the guest's own thread makes.
 *
 * Goal. The flags of clone3 lie in the guest's memory, where no filter looks, and where another thread changes them
 * after husk has looked.
 *
 * Chosen. husk copies them once (kernel/syscalls/processes.py) and has the stopped thread call clone, with the same
 * flags in a register. The filter judges that clone as it judges any other: nothing here decides what is allowed, and
 * nothing depends on memory. A child begins with the registers and the signal mask of the call. So husk traces it from
 * its birth, and gives it those of the guest's call before its first instruction.
 *
 * CLONE_CLEAR_SIGHAND has no bit in clone. The child sets its handled signals to the default before it begins.
 *
 * Only for children with memory of their own. Threads, and children in the memory of their parent, get ENOSYS: C
 * libraries try clone3 for each of these, and then clone, which is native and costs a tenth (docs/processes.md).
 *
 * Rejected: the arguments in sealed pages (sealed_send.c). Flags would be judged here as well as in the filter, hosts
 * without mseal would have no clone3, and the child would have to be traced all the same: it has the wrong rdi. */
#include "remote/remote.h"

#include "host/host.h"
#include "loader/resident.h"
#include "notify/notify.h"
#include "trace/trace.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define SCRATCH (HUSK_RESIDENT_DATA + offsetof(struct husk_resident, scratch))
enum { ACTION_BYTES = 32 }; /* struct sigaction, as the kernel reads it */

/* Before Python, because C libraries make every thread this way. */
bool remote_answer_thread(Listener *listener, const struct seccomp_notif *notif)
{
    uint64_t flags;
    if (guest_read(notif->pid, notif->data.args[0], &flags, sizeof flags) != sizeof flags)
        return false;
    if (!(flags & CLONE_VM) || flags >> 32)
        return false;
    notify_answer_error(listener->fd, notif->id, ENOSYS);
    return true;
}

/* The number of a new process in the innermost pid namespace, which is its parent's. */
static int shown_number(const char *status)
{
    const char *line = strstr(status, "\nNSpid:"), *end = line ? strchr(line + 1, '\n') : NULL;
    while (end && end[-1] != '\t')
        end--;
    return end ? atoi(end) : 0;
}

/* As flush_signal_handlers() of the kernel: what is ignored stays ignored. The scratch memory is in the child's own
 * copy of the resident page. */
static int clear_handlers(struct remote_thread *child, const char *status)
{
    const char *line = strstr(status, "\nSigCgt:");
    uint64_t caught = line ? strtoull(line + 8, NULL, 16) : 0;
    const uint8_t none[ACTION_BYTES] = {0};
    int error = 0;
    if (caught && guest_write(child->tid, SCRATCH, none, sizeof none) != sizeof none)
        return 0;
    for (int signal = 1; caught && !error; signal++, caught >>= 1) {
        const uint64_t args[6] = {signal, SCRATCH, 0, 8, child->cookie, child->cookie};
        long result;
        if (caught & 1)
            error = remote_call(child, SYS_rt_sigaction, args, &result);
    }
    return error;
}

/* `parent`: the thread that made it, and what it was like before. */
static void begin(const struct remote_thread *parent, pid_t tid, bool cleared)
{
    char status[4096];
    struct remote_thread child = {.cookie = parent->cookie};
    if (remote_wait_stop(&child, tid))
        return; /* killed meanwhile */
    remote_restore_arguments(&child.registers, parent);
    child.signal_mask = parent->signal_mask;
    if (cleared && host_read_proc(status, sizeof status, "/proc/%d/status", tid) > 0 &&
        clear_handlers(&child, status))
        return;
    remote_finish(&child, 0);
}

/* The thread was killed before it could tell the number of its child, if it had made one. A receiver traces nothing
 * else, so a stopped tracee is that child. ECHILD: there is none. */
static void begin_unknown(const struct remote_thread *parent, bool cleared)
{
    for (int tries = 0; tries < 100; tries++) {
        siginfo_t found = {0};
        if (waitid(P_ALL, 0, &found, WSTOPPED | WNOHANG | WNOWAIT | __WALL | __WNOTHREAD) < 0)
            return;
        if (found.si_pid) {
            begin(parent, found.si_pid, cleared);
            return;
        }
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
}

static int clone_stopped(struct remote_thread *thread, const uint64_t args[6], uint64_t number_at, bool cleared)
{
    pid_t child;
    long result = 0;
    int error = remote_clone(thread, args, &child, &result);
    if (error == -EINVAL)
        return remote_finish(thread, -ENOSYS);
    if (error)
        begin_unknown(thread, cleared);
    if (error || !child)
        return error ? error : remote_finish(thread, result);
    if (number_at) { /* as in Linux, an address that does not exist is no error */
        char status[4096];
        host_read_proc(status, sizeof status, "/proc/%d/status", child);
        int number = shown_number(status);
        guest_write(thread->tid, number_at, &number, sizeof number);
    }
    error = remote_finish_inside(thread);
    begin(thread, child, cleared);
    return error;
}

PyObject *remote_py_clone(Call *call, PyObject *args)
{
    unsigned long long a[5], number_at;
    int cleared, error;
    if (!PyArg_ParseTuple(args, "KKKKKKp:clone", &a[0], &a[1], &a[2], &a[3], &a[4], &number_at, &cleared))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    Listener *listener = call->listener;
    struct remote_thread thread;
    uint8_t scratch;
    pid_t tid = (pid_t)call->notif.pid;
    if (cleared && guest_read(tid, SCRATCH, &scratch, 1) != 1)
        error = REMOTE_TRACED; /* it has unmapped what the child would need */
    else
        error = remote_stop_answered(call, ENOSYS, &thread);
    if (!error)
        error = remote_block_signals(&thread);
    if (!error) {
        const uint64_t that[6] = {a[0], a[1], a[2], a[3], a[4], listener->cookie};
        thread.cookie = listener->cookie;
        trace_own_begin((Recorder *)listener->recorder, tid);
        error = clone_stopped(&thread, that, number_at, cleared);
        trace_own_end((Recorder *)listener->recorder, tid);
    }
    Py_END_ALLOW_THREADS
    call->answered = error != REMOTE_TRACED;
    return PyLong_FromLong(error);
}
