/* native: remote calls. A guest thread whose notified call is being answered is stopped on its way back to user space
 * and made to run another call, in its own context, with nothing written to its memory.
 *
 *   remote_attach      PTRACE_SEIZE + PTRACE_INTERRUPT: the stop is now certain, but the thread still waits for us
 *   (answer the notification; the value does not matter)
 *   remote_wait_stop   the thread is about to return to user space
 *   remote_execute     …and repeats its `syscall` instruction with other registers, as an execveat; or
 *   remote_call …      runs calls under our eyes, then remote_finish gives it the original registers and a result
 *
 * Linux looks at signals when a call is over, so an execve is done before any signal that comes meanwhile takes effect. A
 * stop that took effect before would be worse than early: it leaves a vfork parent asleep, which no key can stop or wake.
 * So we stay until the thread is inside its execveat; from there the host does as it always does.
 *
 * ptrace belongs to one thread: all of it happens in the receiving thread, in one go. The kernel handles the trap
 * before it dequeues signals (get_signal), so at the stop no handler has seen the half-way state. */
#include "core.h"

#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef PTRACE_EVENT_STOP
#define PTRACE_EVENT_STOP 128
#endif

int remote_attach(pid_t tid)
{
    if (ptrace(PTRACE_SEIZE, tid, 0, PTRACE_O_TRACESYSGOOD) < 0)
        return -errno;
    if (ptrace(PTRACE_INTERRUPT, tid, 0, 0) < 0) {
        int error = errno;
        remote_abandon(tid);
        return -error;
    }
    return 0;
}

#define LOOK_AGAIN_NS 20000000 /* how long a wait may sleep before it looks again */

/* waitpid's sleep must not be endless. de_thread() gives a leader's number to the thread that executes *before* it wakes
 * the leader's tracer, and the kernel filters such wake-ups by number: that one is lost. So a timer wakes us. */
static __thread timer_t timer;
static __thread bool timer_made;

static void wake_me(bool on)
{
    if (!timer_made) {
        struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = WAKE_SIGNAL};
        event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
        timer_made = timer_create(CLOCK_MONOTONIC, &event, &timer) == 0;
    }
    struct itimerspec when = {{0, on ? LOOK_AGAIN_NS : 0}, {0, on ? LOOK_AGAIN_NS : 0}};
    if (timer_made)
        timer_settime(timer, 0, &when, NULL);
}

void remote_thread_ends(void)
{
    if (timer_made)
        timer_delete(timer);
    timer_made = false;
}

/* Next stop of the tracee, or -ESRCH when it is gone. */
static int next_stop(pid_t tid, int *status)
{
    int result = 0;
    wake_me(true);
    for (;;) {
        pid_t got = waitpid(tid, status, __WALL);
        if (got < 0 && errno == EINTR) {
            if (!task_is_dead(tid))
                continue;
            tracee_lost(tid);
            result = -ESRCH;
        } else if (got < 0 || WIFEXITED(*status) || WIFSIGNALED(*status)) {
            result = -ESRCH;
        }
        break;
    }
    wake_me(false);
    return result;
}

static int failed(pid_t tid)
{
    int error = errno;
    if (error == ESRCH)
        tracee_lost(tid);
    return -error;
}

int remote_wait_stop(struct remote *remote, pid_t tid)
{
    int status;
    remote->tid = tid;
    for (;;) {
        int error = next_stop(tid, &status);
        if (error)
            return error;
        if (status >> 16 == PTRACE_EVENT_STOP)
            break;
        /* A signal reached its delivery before our trap: let it be delivered, the trap follows. */
        if (ptrace(PTRACE_CONT, tid, 0, WSTOPSIG(status)) < 0)
            return failed(tid);
    }
    if (ptrace(PTRACE_GETREGS, tid, 0, &remote->registers) < 0)
        return failed(tid);
    return 0;
}

int remote_detach(struct remote *remote)
{
    return ptrace(PTRACE_DETACH, remote->tid, 0, 0) < 0 ? failed(remote->tid) : 0;
}

int remote_block_signals(struct remote *remote)
{
    /* Signals stay pending on the guest while it works for us, so none is lost and none sees borrowed registers. */
    uint64_t all = ~0ULL;
    if (ptrace(PTRACE_GETSIGMASK, remote->tid, sizeof remote->signal_mask, &remote->signal_mask) < 0 ||
        ptrace(PTRACE_SETSIGMASK, remote->tid, sizeof all, &all) < 0)
        return failed(remote->tid);
    return 0;
}

static int set_call(struct remote *remote, long nr, const uint64_t args[6])
{
    struct user_regs_struct regs = remote->registers;
    regs.rip -= 2;       /* back onto the `syscall` instruction, the only way a notified call can have come */
    regs.orig_rax = -1;  /* so that the kernel does not take the old call for one to restart */
    regs.rax = nr;
    regs.rdi = args[0];
    regs.rsi = args[1];
    regs.rdx = args[2];
    regs.r10 = args[3];
    regs.r8 = args[4];
    regs.r9 = args[5];
    return ptrace(PTRACE_SETREGS, remote->tid, 0, &regs) < 0 ? failed(remote->tid) : 0;
}

/* Let it run to the next entry into, or exit from, a call. */
static int to_call_stop(struct remote *remote)
{
    for (int status, deliver = 0;;) {
        if (ptrace(PTRACE_SYSCALL, remote->tid, 0, deliver) < 0)
            return failed(remote->tid);
        int error = next_stop(remote->tid, &status);
        if (error || WSTOPSIG(status) == (SIGTRAP | 0x80))
            return error;
        /* SIGSTOP cannot be blocked: it is delivered here, the group's stop passes us by as an event, and takes effect
         * when we detach. */
        deliver = status >> 16 ? 0 : WSTOPSIG(status);
    }
}

/* From the entry into a call to its end. */
static int finish_call(struct remote *remote, long *result)
{
    struct user_regs_struct regs;
    int error = to_call_stop(remote);
    if (!error && ptrace(PTRACE_GETREGS, remote->tid, 0, &regs) < 0)
        error = failed(remote->tid);
    *result = error ? 0 : (long)regs.rax;
    return error;
}

int remote_call(struct remote *remote, long nr, const uint64_t args[6], long *result)
{
    int error = set_call(remote, nr, args);
    if (!error)
        error = to_call_stop(remote);
    return error ? error : finish_call(remote, result);
}

int remote_finish(struct remote *remote, int64_t value)
{
    struct user_regs_struct regs = remote->registers;
    regs.rax = value;
    regs.orig_rax = -1;
    if (ptrace(PTRACE_SETREGS, remote->tid, 0, &regs) < 0 ||
        ptrace(PTRACE_SETSIGMASK, remote->tid, sizeof remote->signal_mask, &remote->signal_mask) < 0 ||
        ptrace(PTRACE_DETACH, remote->tid, 0, 0) < 0)
        return failed(remote->tid);
    return 0;
}

int remote_execute(struct remote *remote, const uint64_t args[6], bool watched)
{
    long result, closed;
    int error = remote_block_signals(remote);
    if (!error)
        error = set_call(remote, SYS_execveat, args);
    if (!error)
        error = to_call_stop(remote);
    if (!error && watched) {
        error = finish_call(remote, &result);
        if (!error && result < 0) {
            uint64_t loader[6] = {args[0]};
            error = remote_call(remote, SYS_close, loader, &closed);
            return error ? error : remote_finish(remote, result);
        }
    }
    if (!error && (ptrace(PTRACE_SETSIGMASK, remote->tid, sizeof remote->signal_mask, &remote->signal_mask) < 0 ||
                   ptrace(PTRACE_DETACH, remote->tid, 0, 0) < 0))
        error = failed(remote->tid);
    return error;
}

void remote_abandon(pid_t tid)
{
    /* Detaching needs a stopped tracee; one that is gone needs only to be reaped by us. */
    int status;
    if (ptrace(PTRACE_DETACH, tid, 0, 0) < 0 && errno == ESRCH) {
        ptrace(PTRACE_INTERRUPT, tid, 0, 0);
        if (next_stop(tid, &status) == 0)
            ptrace(PTRACE_DETACH, tid, 0, 0);
    }
}
