/* native: descriptors that come through a gate.
 *
 * husk can put a descriptor into a guest's table only while a thread of it waits in a notified call. So a process with
 * a gate gets one end of a pair of sockets, at a number that programs do not come to by themselves, and its gate's code
 * receives there what husk sends. The guest may close it, replace it, send it elsewhere or read what another thread was
 * sent: then it asks in the ordinary way, or has taken from itself what its box may have anyway.
 *
 * At most one message is under way. So a message is that of the thread whose request was answered last, and what a
 * guest leaves unread is one file at most. */
#define _GNU_SOURCE
#include "gate/gate.h"

#include "notify/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

_Static_assert(CMSG_LEN(sizeof(int)) == GATE_RIGHTS_BYTES && CMSG_SPACE(sizeof(int)) == GATE_RIGHTS_ROOM, "layout");

#define MOST_UNREAD 1024 /* then nobody is going to read it */

/* Is it an end of a pair that husk made for this? Of all that husk makes for guests no other are datagram sockets. */
static bool is_ours(int fd)
{
    struct ucred maker = {0};
    int type = 0;
    socklen_t size = sizeof maker, type_size = sizeof type;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_size) == 0 && type == SOCK_DGRAM &&
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &maker, &size) == 0 && maker.pid == getpid();
}

/* Has the guest nothing there but a channel, which its parent left? */
static bool is_free(pid_t tid)
{
    int there = guest_get_fd(tid, GATE_CHANNEL);
    if (there < 0)
        return there == -EBADF;
    bool ours = is_ours(there);
    close(there);
    return ours;
}

/* Put `fd` at the number of a channel. That is above most programs' limit, so the limit is raised for this moment; the
 * process has one thread, which waits. */
static bool inject(int listener, const struct seccomp_notif *notif, int fd)
{
    struct seccomp_notif_addfd add = {.id = notif->id, .flags = SECCOMP_ADDFD_FLAG_SETFD, .srcfd = (uint32_t)fd,
                                      .newfd = GATE_CHANNEL, .newfd_flags = O_CLOEXEC};
    struct rlimit before, raised;
    pid_t tid = (pid_t)notif->pid;
    if (prlimit(tid, RLIMIT_NOFILE, NULL, &before) < 0 || before.rlim_max <= GATE_CHANNEL)
        return false;
    bool low = before.rlim_cur <= GATE_CHANNEL;
    raised = (struct rlimit){GATE_CHANNEL + 1, before.rlim_max};
    if (low && prlimit(tid, RLIMIT_NOFILE, &raised, NULL) < 0)
        return false;
    bool done = ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add) == GATE_CHANNEL;
    return (!low || prlimit(tid, RLIMIT_NOFILE, &before, NULL) == 0) && done;
}

int gate_make_channel(int listener, const struct seccomp_notif *notif, struct stat *theirs)
{
    int ends[2];
    if (!is_free((pid_t)notif->pid) || socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends) < 0)
        return -1;
    /* What the guest sends is not kept. */
    bool made = shutdown(ends[0], SHUT_RD) == 0 && fstat(ends[1], theirs) == 0 && inject(listener, notif, ends[1]);
    close(ends[1]);
    if (made)
        return ends[0];
    close(ends[0]);
    *theirs = (struct stat){0};
    return -1;
}

bool gate_send(struct gate_process *gate, int fd, uint64_t sum)
{
    union {
        struct cmsghdr header;
        char bytes[GATE_RIGHTS_ROOM];
    } rights = {.header = {.cmsg_len = GATE_RIGHTS_BYTES, .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    struct iovec part = {&sum, sizeof sum};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1,
                             .msg_control = &rights, .msg_controllen = sizeof rights};
    int unread = 0;
    if (gate->channel < 0 || ioctl(gate->channel, SIOCOUTQ, &unread) < 0)
        return false;
    if (unread) {
        if (++gate->unread == MOST_UNREAD) {
            close(gate->channel);
            gate->channel = -1;
        }
        return false;
    }
    gate->unread = 0;
    memcpy(CMSG_DATA(&rights.header), &fd, sizeof fd);
    return sendmsg(gate->channel, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof sum;
}

/* is_channel(tid, fd): is this descriptor of a guest's the channel of its gate? */
PyObject *gate_py_is_channel(PyObject *self, PyObject *args)
{
    int tid, number;
    (void)self;
    if (!PyArg_ParseTuple(args, "ii:is_channel", &tid, &number))
        return NULL;
    int fd = number == GATE_CHANNEL ? guest_get_fd(tid, number) : -1;
    bool found = fd >= 0 && is_ours(fd);
    if (fd >= 0)
        close(fd);
    return PyBool_FromLong(found);
}
