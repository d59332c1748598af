/* native: what the parts of husk._core share. Each .c file is one room; this header names their doors.
 *
 * Ownership: a `Call` never owns descriptors; a `Listener` owns its listener descriptor; every function here that
 * returns a descriptor gives it to the caller. Nothing in this folder calls Python without holding the GIL. */
#ifndef HUSK_CORE_H
#define HUSK_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/user.h>
#include <time.h>

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif
#ifndef SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#endif

/* Gets one of husk's own threads out of a waiting call; its handler does nothing. */
#define WAKE_SIGNAL (SIGRTMIN + 7)

/* A guest can date a file as late as 2446 (ext4), and 64 bits of nanoseconds end in 2262: such a time is the last one there
 * is. Good for comparing; who shows a time uses host_stat. */
static inline int64_t nanoseconds(struct timespec t)
{
    int64_t ns;
    if (__builtin_mul_overflow(t.tv_sec, 1000000000LL, &ns) || __builtin_add_overflow(ns, t.tv_nsec, &ns))
        return t.tv_sec < 0 ? INT64_MIN : INT64_MAX;
    return ns;
}

static inline int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return nanoseconds(t);
}

typedef struct name_cache name_cache;

/* One listener and what its threads need to answer without Python. */
typedef struct {
    PyObject_HEAD
    int fd;               /* owned */
    volatile int stopped; /* set once; receivers leave at the next wake-up */
    name_cache *cache;    /* counted; NULL: every call goes to Python */
    uint64_t cookie;      /* marks husk's own remote calls for the filter */
    struct lead *lead;    /* owned; who receives */
    struct pending_table *pending; /* owned; programs that wait for their loader */
    int loader_fd;        /* borrowed */
    int mapped;           /* network addresses have to be translated */
    int confined;         /* names a guest slips into a native send lead nowhere */
    uint64_t shown[8];    /* by call number: Python sees each, whatever could be answered without */
} Listener;

/* One received notification. Lives until answered; answering twice is an error the kernel reports as ENOENT. */
typedef struct {
    PyObject_HEAD
    Listener *listener; /* strong reference */
    struct seccomp_notif notif;
    bool answered;
} Call;

extern PyTypeObject Listener_type;
extern PyTypeObject Call_type;

/* lead.c: one thread at a time receives. */
struct lead *lead_new(void);
void lead_free(struct lead *lead);
bool lead_take(struct lead *lead, const volatile int *stopped); /* waits for it; false: stopped */
void lead_into_python(struct lead *lead);                       /* keeps it, unless Python takes long */
void lead_drop(struct lead *lead);
void lead_wake(struct lead *lead);                              /* those who wait look around */

/* answer.c: answers, without Python. All return 0 or -errno. */
int answer_value(int listener, uint64_t id, int64_t value);
int answer_error(int listener, uint64_t id, int error);
int answer_continue(int listener, uint64_t id);
int inject_descriptor(int listener, const struct seccomp_notif *notif, int source, bool cloexec); /* >= 0: the guest's number */
int add_descriptor(int listener, const struct seccomp_notif *notif, int source, bool cloexec); /* likewise, bound for it (pin.c) */
int answer_descriptor(int listener, const struct seccomp_notif *notif, int source, bool cloexec); /* likewise, and return it */
bool still_valid(int listener, uint64_t id);

/* notify.c */
PyObject *wake_thread(PyObject *self, PyObject *args);
PyObject *open_interruptible(PyObject *self, PyObject *args);

/* memory.c: guest memory, never faulting. Return bytes moved or -errno. */
ssize_t guest_read(pid_t tid, uint64_t address, void *to, size_t size);
ssize_t guest_write(pid_t tid, uint64_t address, const void *from, size_t size);
ssize_t guest_string(pid_t tid, uint64_t address, char *to, size_t limit); /* length without NUL; -ENAMETOOLONG */

/* remote.c: making a guest thread, stopped on its way out of a notified call, do something else. */
struct remote {
    pid_t tid;
    struct user_regs_struct registers; /* as they were when the call would have returned */
    uint64_t signal_mask;
};
int remote_attach(pid_t tid);                                        /* before the answer */
int remote_wait_stop(struct remote *remote, pid_t tid);              /* after the answer */
int remote_detach(struct remote *remote);                            /* as it is */
int remote_block_signals(struct remote *remote);
int remote_call(struct remote *remote, long nr, const uint64_t args[6], long *result);
int remote_finish(struct remote *remote, int64_t value);             /* the guest sees `value` */
int remote_execute(struct remote *remote, const uint64_t args[6], bool watched); /* the guest makes this execveat; if it
                                                                        fails and is watched, its descriptor is closed */
void remote_abandon(pid_t tid);
void remote_thread_ends(void); /* of ours: its timer does not go by itself */

/* gone.c */
void tracee_lost(pid_t tid); /* a ptrace request failed: it is dying, and must be reaped */
bool task_is_dead(pid_t tid);

/* signals.c */
int serve_rt_sigaction(Listener *listener, const struct seccomp_notif *notif);

/* namecache.c */
name_cache *cache_new(void);
name_cache *cache_share(name_cache *cache);
void cache_free(name_cache *cache);
PyObject *listener_cache_identity(Listener *self, PyObject *args);
PyObject *listener_cache_learn(Listener *self, PyObject *args);
PyObject *listener_cache_image(Listener *self, PyObject *args);
PyObject *listener_cache_handle(Listener *self, PyObject *args);
PyObject *listener_cache_listing(Listener *self, PyObject *args); /* listing.c */
PyObject *listener_cache_forget(Listener *self, PyObject *args);
PyObject *listener_cache_watched(Listener *self, PyObject *noargs);

/* fastpath.c */
bool cache_answer(Listener *listener, const struct seccomp_notif *notif);

/* pending.c: programs that wait for their loader. */
struct pending_table *pending_table_new(void);
void pending_table_free(struct pending_table *table);
struct pending *pending_new(int program_fd, int interpreter_fd, const char *info, size_t info_size); /* takes both, unless NULL */
void pending_free(struct pending *pending);
void pending_expect(Listener *listener, struct pending *pending, pid_t tgid, pid_t tid, int loader); /* takes it */
void pending_drop_stale(Listener *listener, pid_t tid); /* of an execve the host refused after all */
bool pending_answer_loader(Listener *listener, const struct seccomp_notif *notif); /* false: it has nothing to ask */
PyObject *listener_begun(Listener *self, PyObject *arg);

/* programs.c */
PyObject *listener_program_learn(Listener *self, PyObject *args);

/* hostfs.c */
int hostfs_add_types(PyObject *module); /* -1: an exception is set */
int open_beneath(int root, const char *relative, uint64_t flags, uint64_t mode); /* -errno */
PyObject *host_stat(const struct stat *stat); /* a new HostStat */
PyObject *hostfs_open_beneath(PyObject *self, PyObject *args);
PyObject *hostfs_stat_beneath(PyObject *self, PyObject *args);
PyObject *hostfs_stat_fd(PyObject *self, PyObject *args);
PyObject *hostfs_watch(PyObject *self, PyObject *args);
PyObject *hostfs_clear_umask(PyObject *self, PyObject *args);

/* task.c: what the host's proc says of a guest thread. */
PyObject *call_fd_link(Call *call, PyObject *args);
PyObject *call_fd_stat(Call *call, PyObject *args);
PyObject *call_position(Call *call, PyObject *args);
PyObject *call_get_fd(Call *call, PyObject *args);
PyObject *call_cwd_link(Call *call, PyObject *noargs);
PyObject *call_umask(Call *call, PyObject *noargs);
PyObject *call_tgid(Call *call, PyObject *noargs);
pid_t thread_group(pid_t tid);
PyObject *shares_table(PyObject *self, PyObject *args);
int take_descriptor(pid_t tid, int fd); /* a duplicate of a guest's, or -errno; check the call afterwards */

/* exec.c */
int execute_loader(Listener *listener, const struct seccomp_notif *notif, int loader, uint64_t empty, uint64_t argv,
                   uint64_t envp, struct pending *pending); /* takes `pending`; -EBUSY: traced by somebody else, and not answered */
PyObject *call_exec_loader(Call *call, PyObject *args);
PyObject *call_seek(Call *call, PyObject *args);
PyObject *call_map(Call *call, PyObject *args);
PyObject *call_unmap(Call *call, PyObject *args);
PyObject *call_interrupt(Call *call, PyObject *args);
PyObject *call_change_directory(Call *call, PyObject *args);
PyObject *call_give_terminal(Call *call, PyObject *args);

/* relay.c */
PyObject *relay(PyObject *self, PyObject *args);

/* sockets.c */
PyObject *socket_name(PyObject *self, PyObject *args);
PyObject *bind_address(PyObject *self, PyObject *args);
PyObject *connect_address(PyObject *self, PyObject *args);
PyObject *listen_on(PyObject *self, PyObject *args);
PyObject *accept_address(PyObject *self, PyObject *args);
PyObject *send_message(PyObject *self, PyObject *args);
PyObject *receive_message(PyObject *self, PyObject *args);
PyObject *get_option(PyObject *self, PyObject *args);
PyObject *set_option(PyObject *self, PyObject *args);
PyObject *socket_kind(PyObject *self, PyObject *args);

/* acting.c; those in C give -errno */
bool as_other(long long user); /* is that somebody else than who acts? -1: no matter */
int open_as(uid_t user, const char *path, int flags);
int connect_as(uid_t user, gid_t group, int fd, const struct sockaddr *address, socklen_t size);
int listen_as(uid_t user, gid_t group, int fd, int backlog);
PyObject *make_as(PyObject *self, PyObject *args);
ssize_t send_as(uid_t user, int fd, const struct msghdr *message, int flags);

/* messages.c */
bool serve_message(Listener *listener, const struct seccomp_notif *notif); /* false: no message, or one for Python */

/* walls.c */
PyObject *landlock_abi(PyObject *self, PyObject *noargs);
PyObject *notification_sizes(PyObject *self, PyObject *noargs);
PyObject *adopt_orphans(PyObject *self, PyObject *noargs);

/* manifest_type.c, tree.c, tree_stage.c, tree_build.c: the store's part */
extern PyTypeObject Manifest_type;
const struct manifest *manifest_of(PyObject *object); /* valid as long as the object lives */
extern PyTypeObject Tree_type;
PyObject *siphash(PyObject *self, PyObject *args);
PyObject *blobs_publish(PyObject *self, PyObject *args);
PyObject *sync_file_system(PyObject *self, PyObject *args);
PyObject *manifest_fill(PyObject *self, PyObject *args);
PyObject *manifest_seal(PyObject *self, PyObject *args);

PyObject *raise_errno(int error); /* sets OSError, returns NULL */

#endif
