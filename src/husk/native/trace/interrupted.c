/* native/trace: had an interrupted call begun?
 *
 * Under trace native calls wait for husk too, and until husk has received one a signal interrupts it
 * (docs/design/002-signals.md). The thunk of a handler without SA_RESTART then has to know: a call that had begun ends
 * with EINTR, as in Linux; one that had not is made again. The thunk cannot tell, so it asks.
 *
 * husk remembers the last calls that it received from each thread. If the interrupted call is not the newest, it had
 * not begun; unless the newest is rt_sigreturn: then another handler ran since, and the call may be an older one. If it
 * is there, it may still be another call of the same kind, the next one of a loop. So the answer is what Linux could
 * have done: EINTR for a call that can wait, else once more. */
#include "trace/trace.h"

#include "host/host.h"
#include "notify/notify.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static bool is_nonblocking(pid_t tid, int fd)
{
    char text[128];
    unsigned flags = 0;
    if (host_read_proc(text, sizeof text, "/proc/%d/fdinfo/%d", tid, fd) < 0)
        return true; /* no such descriptor: the call fails at once */
    const char *line = strstr(text, "flags:");
    return line && sscanf(line, "flags: %o", &flags) == 1 && flags & O_NONBLOCK;
}

/* Reading and writing: files on disk never wait in a way that a signal ends. */
static bool descriptor_can_wait(pid_t tid, int fd)
{
    char path[64];
    struct stat s;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", tid, fd);
    if (fd < 0 || stat(path, &s) < 0 || S_ISREG(s.st_mode) || S_ISDIR(s.st_mode) || S_ISBLK(s.st_mode))
        return false;
    return !is_nonblocking(tid, fd);
}

static bool can_wait(pid_t tid, int nr, const uint64_t args[4])
{
    switch (nr) {
    case SYS_read:
    case SYS_write:
    case SYS_pread64:
    case SYS_pwrite64:
    case SYS_readv:
    case SYS_writev:
    case SYS_preadv:
    case SYS_pwritev:
    case SYS_preadv2:
    case SYS_pwritev2:
    case SYS_accept:
    case SYS_accept4:
    case SYS_connect:
        return descriptor_can_wait(tid, (int)args[0]);
    case SYS_recvmsg:
    case SYS_sendmsg:
        return !(args[2] & MSG_DONTWAIT) && descriptor_can_wait(tid, (int)args[0]);
    case SYS_recvfrom:
    case SYS_sendto:
    case SYS_recvmmsg:
    case SYS_sendmmsg:
        return !(args[3] & MSG_DONTWAIT) && descriptor_can_wait(tid, (int)args[0]);
    case SYS_fcntl:
        return args[1] == F_SETLKW || args[1] == F_OFD_SETLKW;
    case SYS_futex:
        switch (args[1] & FUTEX_CMD_MASK) {
        case FUTEX_WAIT:
        case FUTEX_WAIT_BITSET:
        case FUTEX_WAIT_REQUEUE_PI:
            return true;
        default:
            return false;
        }
    case SYS_wait4:
        return !(args[2] & WNOHANG);
    case SYS_waitid:
        return !(args[3] & WNOHANG);
    case SYS_getrandom:
        return false;
    default:
        return true;
    }
}

/* Was this call received, and has the program not gone on since? True in doubt. */
static bool was_received(const struct trace_task *task, const struct trace_call *call)
{
    bool returned = false; /* from a handler before the newest one */
    uint32_t known = task->received < TRACE_PAST ? task->received : TRACE_PAST;
    for (uint32_t back = 1; back <= known; back++) {
        const struct trace_call *past = &task->past[(task->received - back) % TRACE_PAST];
        if (past->nr == call->nr && memcmp(past->args, call->args, sizeof call->args) == 0)
            return true;
        if (back == 1 && past->nr != SYS_rt_sigreturn)
            return false;
        returned |= back > 1 && past->nr == SYS_rt_sigreturn;
    }
    return !returned && known == TRACE_PAST; /* all of them may be those of one long handler */
}

bool trace_call_had_begun(const struct trace_task *task, pid_t tid, const uint64_t args[6])
{
    struct trace_call call = {.nr = (int)args[1]}; /* then its first four arguments */
    memcpy(call.args, args + 2, sizeof call.args);
    return (!task || was_received(task, &call)) && can_wait(tid, call.nr, call.args);
}
