/* native: what root's husk does for a guest as somebody else, because Linux writes down who did it.
 *
 * What is made below a mount belongs to its owner from the first moment, and Linux lets only them change it: who may rename
 * there could put a file of root's in the place of what husk has made and is about to give away.
 *
 * Who connects or listens is shown to the other end (SO_PEERCRED, SO_PEERGROUPS), which may trust root. Descriptors that
 * are sent lie in a socket until somebody receives them, in no table, and sockets that lie in sockets hide any number:
 * Linux counts them for the sender, up to RLIMIT_NOFILE, unless the sender has CAP_SYS_ADMIN or CAP_SYS_RESOURCE. As root's
 * they would have no bound, and those of root's who lack these could send none any more, the next husk-init first of all.
 * The same goes for the buffers of FIFOs (pipe(7)).
 *
 * Credentials are each thread's own; libc, which changes all threads, is not asked. A thread never goes on as somebody
 * else: what is to be taken back is tried until the host, which may lack memory for a moment, lets us. */
#include "core.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { AS_IT_IS = -1 };

struct capabilities {
    struct __user_cap_header_struct header;
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
};

static int get_capabilities(struct capabilities *held)
{
    *held = (struct capabilities){.header = {.version = _LINUX_CAPABILITY_VERSION_3}};
    return syscall(SYS_capget, &held->header, held->data) < 0 ? -errno : 0;
}

static void must(long number, long a, long b, long c)
{
    while (syscall(number, a, b, c) < 0)
        sched_yield();
}

/* ---- what a change of ids takes away ------------------------------------------------------------------------------ */

/* A process that changes its ids is no longer dumpable, nor told when its parent dies. That is for programs that become
 * more than they were; the process may be any program that uses husk as a library, and wants its core files, or wants to
 * have none. So both are as they were after each change. One at a time, or one thread would take for the program's wish
 * what is another's change. */
struct lost {
    int dumpable, signal;
    pid_t parent;
};

static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t forks_known = PTHREAD_ONCE_INIT;

static void in_child(void)
{
    changing = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; /* who held it is the parent's */
}

static void know_of_forks(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

static void begin_change(struct lost *lost)
{
    pthread_once(&forks_known, know_of_forks);
    pthread_mutex_lock(&changing);
    lost->dumpable = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
    if (prctl(PR_GET_PDEATHSIG, &lost->signal) < 0)
        lost->signal = 0;
    lost->parent = lost->signal ? getppid() : 0;
}

static void end_change(const struct lost *lost)
{
    if (lost->dumpable == 1)
        prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    pthread_mutex_unlock(&changing);
    if (lost->signal) {
        prctl(PR_SET_PDEATHSIG, lost->signal, 0, 0, 0);
        if (getppid() != lost->parent) /* it died in between */
            kill(getpid(), lost->signal);
    }
}

/* ---- seen as somebody ------------------------------------------------------------------------------------------- */

struct self {
    struct capabilities capabilities;
    uid_t user;
    gid_t group, *groups;
    int group_count;
};

static void become_self(struct self *self)
{
    struct lost lost;
    begin_change(&lost);
    must(SYS_setresuid, AS_IT_IS, self->user, AS_IT_IS);
    must(SYS_capset, (long)&self->capabilities.header, (long)self->capabilities.data, 0);
    must(SYS_setresgid, AS_IT_IS, self->group, AS_IT_IS);
    must(SYS_setgroups, self->group_count, (long)self->groups, 0);
    end_change(&lost);
    free(self->groups);
}

/* The effective ids are what peers see. Files are still reached with husk's own: whether the guest may was judged. Real and
 * saved ids stay, by which Linux decides who may send us signals. */
static int become(struct self *self, uid_t user, gid_t group)
{
    uid_t real, saved;
    int error = get_capabilities(&self->capabilities);
    if (error || getresuid(&real, &self->user, &saved) < 0)
        return error ? error : -errno;
    if (self->user != real && self->user != saved)
        return -EPERM; /* there would be no way back */
    self->group = getegid();
    self->group_count = getgroups(0, NULL);
    self->groups = malloc((self->group_count + 1) * sizeof *self->groups);
    if (!self->groups)
        return -ENOMEM;
    if ((self->group_count = getgroups(self->group_count, self->groups)) < 0 || syscall(SYS_setgroups, 0, NULL) < 0) {
        error = -errno;
        free(self->groups);
        return error;
    }
    struct lost lost;
    begin_change(&lost);
    if (syscall(SYS_setresgid, AS_IT_IS, group, AS_IT_IS) < 0 || syscall(SYS_setresuid, AS_IT_IS, user, AS_IT_IS) < 0)
        error = -errno;
    syscall(SYS_setfsgid, self->group);
    syscall(SYS_setfsuid, self->user);
    end_change(&lost);
    if (error)
        become_self(self);
    return error;
}

int connect_as(uid_t user, gid_t group, int fd, const struct sockaddr *address, socklen_t size)
{
    struct self self;
    int error = become(&self, user, group);
    if (error)
        return error;
    if (connect(fd, address, size) < 0)
        error = -errno;
    become_self(&self);
    return error;
}

int listen_as(uid_t user, gid_t group, int fd, int backlog)
{
    struct self self;
    int error = become(&self, user, group);
    if (error)
        return error;
    if (listen(fd, backlog) < 0)
        error = -errno;
    become_self(&self);
    return error;
}

/* ---- making what is somebody's ------------------------------------------------------------------------------------- */

/* What root may to files of others, such as empty them and leave them set-uid, and beyond what an owner is granted of a file
 * system's room. Names are still reached with husk's own rights: whether the guest may was judged. */
static const uint32_t OVER_OTHERS = CAP_TO_MASK(CAP_CHOWN) | CAP_TO_MASK(CAP_FOWNER) | CAP_TO_MASK(CAP_FSETID) |
                                    CAP_TO_MASK(CAP_LINUX_IMMUTABLE) | CAP_TO_MASK(CAP_MKNOD) | CAP_TO_MASK(CAP_SYS_RESOURCE);

/* Neither of the two tells whether it failed; asked for nobody, they say who it is. */
static bool file_ids_are(uid_t user, gid_t group)
{
    return (uid_t)setfsuid(AS_IT_IS) == user && (gid_t)setfsgid(AS_IT_IS) == group;
}

static int own_files_as(uid_t user, gid_t group, const struct capabilities *all)
{
    struct lost lost;
    int error = 0;
    struct capabilities fewer = *all;
    fewer.data[0].effective &= ~OVER_OTHERS;
    begin_change(&lost);
    syscall(SYS_setfsgid, group);
    syscall(SYS_setfsuid, user);
    if (!file_ids_are(user, group))
        error = -EPERM;
    else if (syscall(SYS_capset, &fewer.header, fewer.data) < 0)
        error = -errno;
    end_change(&lost);
    return error;
}

static void own_files_again(uid_t user, gid_t group, struct capabilities *all)
{
    struct lost lost;
    begin_change(&lost);
    while (!file_ids_are(user, group)) {
        syscall(SYS_setfsuid, user);
        syscall(SYS_setfsgid, group);
        sched_yield();
    }
    must(SYS_capset, (long)&all->header, (long)all->data, 0);
    end_change(&lost);
}

/* make_as(user, group, make): what `make` returns. It takes back by itself what it changed: no exception can skip it. */
PyObject *make_as(PyObject *self, PyObject *args)
{
    (void)self;
    unsigned user, group;
    PyObject *make, *made = NULL;
    if (!PyArg_ParseTuple(args, "IIO:make_as", &user, &group, &make))
        return NULL;
    struct capabilities all;
    uid_t own = (uid_t)setfsuid(AS_IT_IS);
    gid_t own_group = (gid_t)setfsgid(AS_IT_IS);
    int error = get_capabilities(&all);
    if (error)
        return raise_errno(-error);
    error = own_files_as(user, group, &all);
    if (!error)
        made = PyObject_CallNoArgs(make);
    own_files_again(own, own_group, &all);
    return error ? raise_errno(-error) : made;
}

/* ---- counted as somebody's -------------------------------------------------------------------------------------- */

static int send_one(int socket, int fd)
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

enum { PAST_BOUNDS = CAP_TO_MASK(CAP_SYS_ADMIN) | CAP_TO_MASK(CAP_SYS_RESOURCE) };
enum { OVER_NETWORKS = CAP_TO_MASK(CAP_NET_ADMIN) | CAP_TO_MASK(CAP_NET_RAW) };

static int be_without(uint32_t some, struct capabilities *all)
{
    int error = get_capabilities(all);
    if (error)
        return error;
    struct capabilities fewer = *all;
    fewer.data[0].effective &= ~some;
    return syscall(SYS_capset, &fewer.header, fewer.data) < 0 ? -errno : 0;
}

static int send_one_unprivileged(int socket, int fd)
{
    struct capabilities all;
    int error = be_without(PAST_BOUNDS, &all);
    if (error)
        return error;
    error = send_one(socket, fd);
    must(SYS_capset, (long)&all.header, (long)all.data, 0);
    return error;
}

/* Asks the host, by sending one to nobody. The message itself cannot be sent without those capabilities: they are needed to
 * say which guest it is from. */
static int may_send_more(void)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    int fd = eventfd(0, EFD_CLOEXEC);
    int error = fd < 0 ? -errno : send_one_unprivileged(pair[0], fd);
    close(pair[0]);
    close(pair[1]);
    if (fd >= 0)
        close(fd);
    return error;
}

/* What a guest says of its packets is for Linux to judge: some of it is for administrators. */
static ssize_t send_as_ordinary(int fd, const struct msghdr *message, int flags)
{
    struct capabilities all;
    ssize_t sent = be_without(OVER_NETWORKS, &all);
    if (sent)
        return sent;
    if ((sent = sendmsg(fd, message, flags)) < 0)
        sent = -errno;
    must(SYS_capset, (long)&all.header, (long)all.data, 0);
    return sent;
}

/* It is the real id that counts. */
ssize_t send_as(uid_t user, int fd, const struct msghdr *message, int flags)
{
    int family;
    socklen_t size = sizeof family;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size) < 0)
        return -errno;
    if (family != AF_UNIX)
        return send_as_ordinary(fd, message, flags);
    uid_t own = getuid();
    if (syscall(SYS_setresuid, user, AS_IT_IS, AS_IT_IS) < 0)
        return -errno;
    ssize_t sent = may_send_more();
    if (sent == 0) {
        sent = sendmsg(fd, message, flags);
        if (sent < 0)
            sent = -errno;
    }
    must(SYS_setresuid, own, AS_IT_IS, AS_IT_IS);
    return sent;
}

int open_as(uid_t user, const char *path, int flags)
{
    uid_t own = getuid();
    if (syscall(SYS_setresuid, user, AS_IT_IS, AS_IT_IS) < 0)
        return -errno;
    struct capabilities all;
    int fd = be_without(PAST_BOUNDS, &all);
    if (fd == 0) {
        fd = open(path, flags);
        if (fd < 0)
            fd = -errno;
        must(SYS_capset, (long)&all.header, (long)all.data, 0);
    }
    must(SYS_setresuid, own, AS_IT_IS, AS_IT_IS);
    return fd;
}

bool as_other(long long user)
{
    return user >= 0 && (uid_t)user != geteuid();
}
