/* native: calls that husk, run as root, makes with the credentials of another user, because Linux records who made
 * them.
 *
 * Files. What husk makes below a mount belongs to the mount's owner from the first moment, and only the owner's rights
 * apply to it. Otherwise a user who may rename there could put a file of root in the place of the one that husk has
 * just made and is about to give to the owner.
 *
 * Sockets. The peer of a connection sees the credentials of the process that connected or listened (SO_PEERCRED,
 * SO_PEERGROUPS), and may trust root. Descriptors in flight lie in a socket until they are received. They are in no
 * table, and sockets inside sockets hide any number of them. Linux charges them to the sender's uid, up to
 * RLIMIT_NOFILE, unless the sender has CAP_SYS_ADMIN or CAP_SYS_RESOURCE. Charged to root they would have no bound, and
 * a process of root without these capabilities could send none any more, the next husk-init first of all. The same
 * holds for the buffers of FIFOs (pipe(7)). For netlink see kernel/net/netlink.py.
 *
 * Credentials are per thread in Linux. libc changes those of all threads, so the system calls are made directly. A
 * thread never goes on with another user's credentials: restoring them is retried until the host, which may lack memory
 * for a moment, allows it. */
#include "host/host.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { UNCHANGED = -1 }; /* as an id: leave it as it is */

static int get_capabilities(struct host_capabilities *held)
{
    *held = (struct host_capabilities){.header = {.version = _LINUX_CAPABILITY_VERSION_3}};
    return syscall(SYS_capget, &held->header, held->data) < 0 ? -errno : 0;
}

/* A system call that restores credentials: retried until it succeeds. */
static void must(long number, long a, long b, long c)
{
    while (syscall(number, a, b, c) < 0)
        sched_yield();
}

void host_restore_capabilities(struct host_capabilities *held)
{
    must(SYS_capset, (long)&held->header, (long)held->data, 0);
}

/* Takes `some` out of the effective set. `all` receives what is to be restored. */
int host_drop_capabilities(uint32_t some, struct host_capabilities *all)
{
    int error = get_capabilities(all);
    if (error)
        return error;
    struct host_capabilities fewer = *all;
    fewer.data[0].effective &= ~some;
    return syscall(SYS_capset, &fewer.header, fewer.data) < 0 ? -errno : 0;
}

/* ---- process attributes that a change of ids resets -------------------------------------------------------------- */

/* When a process changes its ids Linux clears its dumpable flag and its parent-death signal. That protects programs
 * that gain rights. But this process may be any program that uses husk as a library, which wants its core files, or
 * wants to have none. So both are restored after each change. One change at a time: otherwise a thread would save what
 * another thread's change has just cleared. */
static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_handler = PTHREAD_ONCE_INIT;

static void unlock_in_child(void)
{
    changing = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; /* the thread that held it is not in the child */
}

static void install_fork_handler(void)
{
    pthread_atfork(NULL, NULL, unlock_in_child);
}

void host_begin_change(struct host_process_flags *saved)
{
    pthread_once(&fork_handler, install_fork_handler);
    pthread_mutex_lock(&changing);
    saved->dumpable = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
    if (prctl(PR_GET_PDEATHSIG, &saved->death_signal) < 0)
        saved->death_signal = 0;
    saved->parent = saved->death_signal ? getppid() : 0;
}

void host_end_change(const struct host_process_flags *saved)
{
    if (saved->dumpable == 1)
        prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    pthread_mutex_unlock(&changing);
    if (saved->death_signal) {
        prctl(PR_SET_PDEATHSIG, saved->death_signal, 0, 0, 0);
        if (getppid() != saved->parent) /* the parent died in between */
            kill(getpid(), saved->death_signal);
    }
}

/* ---- effective ids: what a socket's peer sees -------------------------------------------------------------------- */

struct effective_ids {
    struct host_capabilities capabilities;
    uid_t user;
    gid_t group, *groups; /* groups: owned */
    int group_count;
};

static void restore_effective(struct effective_ids *own)
{
    struct host_process_flags saved;
    host_begin_change(&saved);
    must(SYS_setresuid, UNCHANGED, own->user, UNCHANGED);
    host_restore_capabilities(&own->capabilities);
    must(SYS_setresgid, UNCHANGED, own->group, UNCHANGED);
    must(SYS_setgroups, own->group_count, (long)own->groups, 0);
    host_end_change(&saved);
    free(own->groups);
}

/* Peers see the effective ids. File access still uses husk's own ids (the fsuid): husk has already decided whether the
 * guest may. Real and saved ids stay, since Linux decides by them who may send us signals. */
static int change_effective(struct effective_ids *own, uid_t user, gid_t group)
{
    uid_t real, saved_uid;
    int error = get_capabilities(&own->capabilities);
    if (error || getresuid(&real, &own->user, &saved_uid) < 0)
        return error ? error : -errno;
    if (own->user != real && own->user != saved_uid)
        return -EPERM; /* there would be no way back */
    own->group = getegid();
    own->group_count = getgroups(0, NULL);
    own->groups = malloc((own->group_count + 1) * sizeof *own->groups);
    if (!own->groups)
        return -ENOMEM;
    if ((own->group_count = getgroups(own->group_count, own->groups)) < 0 || syscall(SYS_setgroups, 0, NULL) < 0) {
        error = -errno;
        free(own->groups);
        return error;
    }
    struct host_process_flags saved;
    host_begin_change(&saved);
    if (syscall(SYS_setresgid, UNCHANGED, group, UNCHANGED) < 0 ||
        syscall(SYS_setresuid, UNCHANGED, user, UNCHANGED) < 0)
        error = -errno;
    syscall(SYS_setfsgid, own->group);
    syscall(SYS_setfsuid, own->user);
    host_end_change(&saved);
    if (error)
        restore_effective(own);
    return error;
}

bool host_is_other_user(long long user)
{
    return user >= 0 && (uid_t)user != geteuid();
}

int host_run_as_peer(long long user, long long group, int (*action)(const void *), const void *argument)
{
    if (!host_is_other_user(user))
        return action(argument);
    struct effective_ids own;
    int error = change_effective(&own, (uid_t)user, (gid_t)group);
    if (error)
        return error;
    error = action(argument);
    restore_effective(&own);
    return error;
}

/* ---- file system ids: the owner of new files --------------------------------------------------------------------- */

/* What root may do to other users' files, such as truncating them without clearing their set-uid bit, and to use more
 * of a file system than the owner's quota. Names are still resolved with husk's own rights: husk has already decided
 * whether the guest may. */
static const uint32_t OVER_OTHERS = CAP_TO_MASK(CAP_CHOWN) | CAP_TO_MASK(CAP_FOWNER) | CAP_TO_MASK(CAP_FSETID) |
                                    CAP_TO_MASK(CAP_LINUX_IMMUTABLE) | CAP_TO_MASK(CAP_MKNOD) |
                                        CAP_TO_MASK(CAP_SYS_RESOURCE);

/* setfsuid and setfsgid do not report failure. Called with -1 they return the current id. */
bool host_file_ids_are(uid_t user, gid_t group)
{
    return (uid_t)setfsuid(UNCHANGED) == user && (gid_t)setfsgid(UNCHANGED) == group;
}

static int change_file_ids(uid_t user, gid_t group, const struct host_capabilities *all)
{
    struct host_process_flags saved;
    int error = 0;
    struct host_capabilities fewer = *all;
    fewer.data[0].effective &= ~OVER_OTHERS;
    host_begin_change(&saved);
    syscall(SYS_setfsgid, group);
    syscall(SYS_setfsuid, user);
    if (!host_file_ids_are(user, group))
        error = -EPERM;
    else if (syscall(SYS_capset, &fewer.header, fewer.data) < 0)
        error = -errno;
    host_end_change(&saved);
    return error;
}

static void restore_file_ids(uid_t user, gid_t group, struct host_capabilities *all)
{
    struct host_process_flags saved;
    host_begin_change(&saved);
    while (!host_file_ids_are(user, group)) {
        syscall(SYS_setfsuid, user);
        syscall(SYS_setfsgid, group);
        sched_yield();
    }
    host_restore_capabilities(all);
    host_end_change(&saved);
}

/* make_as(user, group, make): what `make` returns. It restores the ids itself, so that no exception can skip it. */
PyObject *host_py_make_as(PyObject *self, PyObject *args)
{
    (void)self;
    unsigned user, group;
    PyObject *make, *made = NULL;
    if (!PyArg_ParseTuple(args, "IIO:make_as", &user, &group, &make))
        return NULL;
    struct host_capabilities all;
    uid_t own = (uid_t)setfsuid(UNCHANGED);
    gid_t own_group = (gid_t)setfsgid(UNCHANGED);
    int error = get_capabilities(&all);
    if (error)
        return core_raise_errno(-error);
    error = change_file_ids(user, group, &all);
    if (!error)
        made = PyObject_CallNoArgs(make);
    restore_file_ids(own, own_group, &all);
    return error ? core_raise_errno(-error) : made;
}

/* ---- the real uid: which user Linux charges ---------------------------------------------------------------------- */

enum { PAST_LIMITS = CAP_TO_MASK(CAP_SYS_ADMIN) | CAP_TO_MASK(CAP_SYS_RESOURCE) };
enum { OVER_NETWORKS = CAP_TO_MASK(CAP_NET_ADMIN) | CAP_TO_MASK(CAP_NET_RAW) };

static int send_one_fd(int socket, int fd)
{
    union {
        char room[CMSG_SPACE(sizeof fd)];
        struct cmsghdr header;
    } control = {.header = {.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    struct iovec part = {"", 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

static int send_one_fd_within_limits(int socket, int fd)
{
    struct host_capabilities all;
    int error = host_drop_capabilities(PAST_LIMITS, &all);
    if (error)
        return error;
    error = send_one_fd(socket, fd);
    host_restore_capabilities(&all);
    return error;
}

/* May the current uid have one more descriptor in flight? Asks the host, by sending one into a socket pair of our own.
 * The message itself cannot be sent without those capabilities: they are needed to state the guest's credentials in
 * it. */
static int may_send_more(void)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    int fd = eventfd(0, EFD_CLOEXEC);
    int error = fd < 0 ? -errno : send_one_fd_within_limits(pair[0], fd);
    close(pair[0]);
    close(pair[1]);
    if (fd >= 0)
        close(fd);
    return error;
}

/* A guest's control messages about its packets are for Linux to judge: some of them need network capabilities. */
static ssize_t send_without_network_rights(int fd, const struct msghdr *message, int flags)
{
    struct host_capabilities all;
    ssize_t sent = host_drop_capabilities(OVER_NETWORKS, &all);
    if (sent)
        return sent;
    if ((sent = sendmsg(fd, message, flags)) < 0)
        sent = -errno;
    host_restore_capabilities(&all);
    return sent;
}

ssize_t host_send_as(uid_t user, int fd, const struct msghdr *message, int flags)
{
    int family;
    socklen_t size = sizeof family;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size) < 0)
        return -errno;
    if (family != AF_UNIX)
        return send_without_network_rights(fd, message, flags);
    uid_t own = getuid();
    /* Linux charges descriptors in flight to the real uid */
    if (syscall(SYS_setresuid, user, UNCHANGED, UNCHANGED) < 0)
        return -errno;
    ssize_t sent = may_send_more();
    if (sent == 0) {
        sent = sendmsg(fd, message, flags);
        if (sent < 0)
            sent = -errno;
    }
    must(SYS_setresuid, own, UNCHANGED, UNCHANGED);
    return sent;
}

int host_open_as(uid_t user, const char *path, int flags)
{
    uid_t own = getuid();
    if (syscall(SYS_setresuid, user, UNCHANGED, UNCHANGED) < 0)
        return -errno;
    struct host_capabilities all;
    int fd = host_drop_capabilities(PAST_LIMITS, &all);
    if (fd == 0) {
        fd = open(path, flags);
        if (fd < 0)
            fd = -errno;
        host_restore_capabilities(&all);
    }
    must(SYS_setresuid, own, UNCHANGED, UNCHANGED);
    return fd;
}
