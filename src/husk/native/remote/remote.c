/* native: remote calls. husk stops a guest thread on its way back from a notified call and makes it run another call,
 * in its own context. Nothing is written to its memory.
 *
 *   remote_attach      PTRACE_SEIZE + PTRACE_INTERRUPT: the stop is certain, but the thread still waits for the answer
 *   (answer the notification; the value does not matter)
 *   remote_wait_stop   the thread is about to return to user space
 *   remote_execute     it repeats its `syscall` instruction with other registers, as an execveat; or
 *   remote_call …      it makes calls while traced; then remote_finish restores its registers and sets a result
 *
 * Linux handles signals at the end of a call, so an execve is done before a signal that comes meanwhile takes effect. A
 * stop signal that took effect earlier would do harm: it leaves a vfork parent asleep, which no key can stop or wake.
 * So we stay attached until the thread is inside its execveat. From there the host does as it always does.
 *
 * ptrace belongs to one thread: all of it happens in the receiving thread, in one go. The kernel handles the trap
 * before it dequeues signals (get_signal), so at the stop no handler has seen the borrowed registers. */
#include "remote/remote.h"

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

/* waitpid may miss a wake-up. de_thread() gives the leader's tid to the thread that executes *before* it wakes the
 * leader's tracer, and the kernel filters such wake-ups by tid: that one is lost. So a timer interrupts the wait. */
static __thread timer_t timer;
static __thread bool timer_made;

static void set_timer(bool on)
{
    if (!timer_made) {
        struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = CORE_WAKE_SIGNAL};
        event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
        timer_made = timer_create(CLOCK_MONOTONIC, &event, &timer) == 0;
    }
    struct itimerspec when = {{0, on ? LOOK_AGAIN_NS : 0}, {0, on ? LOOK_AGAIN_NS : 0}};
    if (timer_made)
        timer_settime(timer, 0, &when, NULL);
}

void remote_delete_timer(void)
{
    if (timer_made)
        timer_delete(timer);
    timer_made = false;
}

/* Waits for the tracee's next stop. -ESRCH: it is gone. */
static int next_stop(pid_t tid, int *status)
{
    int result = 0;
    set_timer(true);
    for (;;) {
        pid_t got = waitpid(tid, status, __WALL);
        if (got < 0 && errno == EINTR) {
            if (!remote_is_dead(tid))
                continue;
            remote_reap_tracee(tid);
            result = -ESRCH;
        } else if (got < 0 || WIFEXITED(*status) || WIFSIGNALED(*status)) {
            result = -ESRCH;
        }
        break;
    }
    set_timer(false);
    return result;
}

/* To be called after a failed ptrace request: -errno. */
static int failed(pid_t tid)
{
    int error = errno;
    if (error == ESRCH)
        remote_reap_tracee(tid);
    return -error;
}

int remote_wait_stop(struct remote_thread *thread, pid_t tid)
{
    int status;
    thread->tid = tid;
    for (;;) {
        int error = next_stop(tid, &status);
        if (error)
            return error;
        if (status >> 16 == PTRACE_EVENT_STOP)
            break;
        /* A signal was about to be delivered before our trap: let it be delivered, the trap follows. */
        if (ptrace(PTRACE_CONT, tid, 0, WSTOPSIG(status)) < 0)
            return failed(tid);
    }
    if (ptrace(PTRACE_GETREGS, tid, 0, &thread->registers) < 0)
        return failed(tid);
    return 0;
}

int remote_detach(struct remote_thread *thread)
{
    return ptrace(PTRACE_DETACH, thread->tid, 0, 0) < 0 ? failed(thread->tid) : 0;
}

int remote_block_signals(struct remote_thread *thread)
{
    /* Signals stay pending while the thread works for us: none is lost, and no handler sees the borrowed registers. */
    uint64_t all = ~0ULL;
    if (ptrace(PTRACE_GETSIGMASK, thread->tid, sizeof thread->signal_mask, &thread->signal_mask) < 0 ||
        ptrace(PTRACE_SETSIGMASK, thread->tid, sizeof all, &all) < 0)
        return failed(thread->tid);
    return 0;
}

static int set_call(struct remote_thread *thread, long nr, const uint64_t args[6])
{
    struct user_regs_struct regs = thread->registers;
    regs.rip -= 2;       /* back to the `syscall` instruction, by which every notified call was made */
    regs.orig_rax = -1;  /* so that the kernel does not restart the old call */
    regs.rax = nr;
    regs.rdi = args[0];
    regs.rsi = args[1];
    regs.rdx = args[2];
    regs.r10 = args[3];
    regs.r8 = args[4];
    regs.r9 = args[5];
    return ptrace(PTRACE_SETREGS, thread->tid, 0, &regs) < 0 ? failed(thread->tid) : 0;
}

static bool is_birth(int event)
{
    return event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK || event == PTRACE_EVENT_CLONE;
}

/* Run to the next entry into, or exit from, a call; or, if `child` is not NULL, to the birth of a child, whose tid is
 * then stored there. */
static int to_stop(struct remote_thread *thread, pid_t *child)
{
    for (int status, deliver = 0;;) {
        if (ptrace(PTRACE_SYSCALL, thread->tid, 0, deliver) < 0)
            return failed(thread->tid);
        int error = next_stop(thread->tid, &status);
        if (error || WSTOPSIG(status) == (SIGTRAP | 0x80))
            return error;
        if (child && is_birth(status >> 16)) {
            unsigned long tid = 0;
            if (ptrace(PTRACE_GETEVENTMSG, thread->tid, 0, &tid) < 0)
                return failed(thread->tid);
            *child = (pid_t)tid;
            return 0;
        }
        /* SIGSTOP cannot be blocked. It is delivered here; the group's stop is reported as an event, and takes effect
         * when we detach. */
        deliver = status >> 16 ? 0 : WSTOPSIG(status);
    }
}

static int to_call_stop(struct remote_thread *thread)
{
    return to_stop(thread, NULL);
}

/* From the entry into a call to its end. */
static int finish_call(struct remote_thread *thread, long *result)
{
    struct user_regs_struct regs;
    int error = to_call_stop(thread);
    if (!error && ptrace(PTRACE_GETREGS, thread->tid, 0, &regs) < 0)
        error = failed(thread->tid);
    *result = error ? 0 : (long)regs.rax;
    return error;
}

int remote_call(struct remote_thread *thread, long nr, const uint64_t args[6], long *result)
{
    int error = set_call(thread, nr, args);
    if (!error)
        error = to_call_stop(thread);
    return error ? error : finish_call(thread, result);
}

/* To the entry into this call. -EINVAL: the guest exchanged the instruction; the thread has left what it entered. */
static int enter_checked(struct remote_thread *thread, long nr, const uint64_t args[6])
{
    struct user_regs_struct regs;
    long skipped;
    int error = set_call(thread, nr, args);
    if (!error)
        error = to_call_stop(thread);
    if (!error && ptrace(PTRACE_GETREGS, thread->tid, 0, &regs) < 0)
        error = failed(thread->tid);
    if (error)
        return error;
    /* From here on only the tracer can change what the kernel will use. */
    if ((long)regs.orig_rax == nr && regs.rdi == args[0] && regs.rsi == args[1] && regs.rdx == args[2])
        return 0;
    regs.orig_rax = -1; /* the kernel skips it */
    if (ptrace(PTRACE_SETREGS, thread->tid, 0, &regs) < 0)
        return failed(thread->tid);
    error = finish_call(thread, &skipped);
    return error ? error : -EINVAL;
}

int remote_checked_call(struct remote_thread *thread, long nr, const uint64_t args[6], long *result)
{
    int error = enter_checked(thread, nr, args);
    return error ? error : finish_call(thread, result);
}

#define TRACE_BIRTHS (PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE)

int remote_clone(struct remote_thread *thread, const uint64_t args[6], pid_t *child, long *result)
{
    struct user_regs_struct regs;
    *child = 0;
    if (ptrace(PTRACE_SETOPTIONS, thread->tid, 0, PTRACE_O_TRACESYSGOOD | TRACE_BIRTHS) < 0)
        return failed(thread->tid);
    do {
        int error = enter_checked(thread, SYS_clone, args);
        if (!error)
            error = to_stop(thread, child);
        if (!error && ptrace(PTRACE_GETREGS, thread->tid, 0, &regs) < 0)
            error = failed(thread->tid);
        if (error)
            return error;
        *result = (long)regs.rax;
    } while (!*child && *result == -513 /* ERESTARTNOINTR: a stop came, and no signal is delivered here */);
    return 0;
}

static int leave(struct remote_thread *thread, const struct user_regs_struct *regs)
{
    if (ptrace(PTRACE_SETREGS, thread->tid, 0, regs) < 0 ||
        ptrace(PTRACE_SETSIGMASK, thread->tid, sizeof thread->signal_mask, &thread->signal_mask) < 0 ||
        ptrace(PTRACE_DETACH, thread->tid, 0, 0) < 0)
        return failed(thread->tid);
    return 0;
}

int remote_finish(struct remote_thread *thread, int64_t value)
{
    struct user_regs_struct regs = thread->registers;
    regs.rax = value;
    regs.orig_rax = -1;
    return leave(thread, &regs);
}

void remote_restore_arguments(struct user_regs_struct *regs, const struct remote_thread *from)
{
    regs->rdi = from->registers.rdi;
    regs->rsi = from->registers.rsi;
    regs->rdx = from->registers.rdx;
    regs->r10 = from->registers.r10;
    regs->r8 = from->registers.r8;
    regs->r9 = from->registers.r9;
}

int remote_finish_inside(struct remote_thread *thread)
{
    struct user_regs_struct regs;
    if (ptrace(PTRACE_GETREGS, thread->tid, 0, &regs) < 0)
        return failed(thread->tid);
    remote_restore_arguments(&regs, thread);
    return leave(thread, &regs);
}

int remote_repeat(struct remote_thread *thread, long nr)
{
    struct user_regs_struct regs = thread->registers;
    regs.rip -= 2;
    regs.rax = nr;
    regs.orig_rax = -1;
    return leave(thread, &regs);
}

int remote_execute(struct remote_thread *thread, const uint64_t args[6], bool watched)
{
    long result, closed;
    int error = remote_block_signals(thread);
    if (!error)
        error = set_call(thread, SYS_execveat, args);
    if (!error)
        error = to_call_stop(thread);
    if (!error && watched) {
        error = finish_call(thread, &result);
        if (!error && result < 0) {
            uint64_t loader[6] = {args[0], 0, 0, 0, 0, args[5]}; /* with the cookie */
            error = remote_call(thread, SYS_close, loader, &closed);
            return error ? error : remote_finish(thread, result);
        }
    }
    if (!error && (ptrace(PTRACE_SETSIGMASK, thread->tid, sizeof thread->signal_mask, &thread->signal_mask) < 0 ||
                   ptrace(PTRACE_DETACH, thread->tid, 0, 0) < 0))
        error = failed(thread->tid);
    return error;
}

void remote_abandon(pid_t tid)
{
    /* Detaching needs a stopped tracee. One that is gone only has to be reaped. */
    int status;
    if (ptrace(PTRACE_DETACH, tid, 0, 0) < 0 && errno == ESRCH) {
        ptrace(PTRACE_INTERRUPT, tid, 0, 0);
        if (next_stop(tid, &status) == 0)
            ptrace(PTRACE_DETACH, tid, 0, 0);
    }
}
