/* native/host: calls husk makes on the host, for itself or in a guest's name. Nothing here knows of notifications. */
#ifndef HUSK_HOST_H
#define HUSK_HOST_H

#include "core.h"

#include <linux/capability.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>

/* hostfs.c. Descriptors that come in stay the caller's; those that go out belong to the caller. */
int host_open_beneath(int root, const char *relative, uint64_t flags, uint64_t mode); /* -errno, or -HOST_CLOSED_… */
/* No guard. */
int host_open_beneath_once(int root, const char *relative, uint64_t flags, uint64_t mode, uint64_t resolve);
PyObject *host_stat(const struct stat *stat); /* a new HostStat */
int host_add_types(PyObject *module);         /* -1: an exception is set */
PyObject *host_py_open_beneath(PyObject *self, PyObject *args);
PyObject *host_py_open_interruptible(PyObject *self, PyObject *args);
PyObject *host_py_set_times(PyObject *self, PyObject *args);
PyObject *host_py_stat_beneath(PyObject *self, PyObject *args);
PyObject *host_py_stat_fd(PyObject *self, PyObject *args);
PyObject *host_py_watch(PyObject *self, PyObject *args);
PyObject *host_py_new_watches(PyObject *self, PyObject *args);
PyObject *host_py_clear_umask(PyObject *self, PyObject *args);

/* listings.c */
PyObject *host_py_list_names(PyObject *self, PyObject *args);
PyObject *host_py_pack_entries(PyObject *self, PyObject *args);

/* proc_files.c */
/* What one read of the file gives, terminated: its size, or -errno and an empty text. */
ssize_t host_read_proc(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
enum { HOST_READABLE = 1, HOST_WRITABLE = 2, HOST_EXECUTABLE = 4, HOST_SHARED = 8 };
struct host_mapping {
    uint64_t start, end, offset, ino;
    unsigned major, minor, flags;
};
/* The mapping around an address. -ENOENT: there is none. -ENOTTY: the host cannot tell this way (before Linux 6.11). */
int host_find_mapping(pid_t tid, uint64_t address, struct host_mapping *found);

/* credentials.c: one call with the credentials of another user. `user` -1: with those the thread has. All return
 * -errno. */
bool host_is_other_user(long long user); /* not -1, and not the effective uid */
int host_open_as(uid_t user, const char *path, int flags); /* a descriptor for the caller */
int host_run_as_peer(long long user, long long group, int (*action)(const void *), const void *argument);
ssize_t host_send_as(uid_t user, int fd, const struct msghdr *message, int flags);
PyObject *host_py_make_as(PyObject *self, PyObject *args);

/* Around every change of a thread's ids or capabilities, not around what is done with them: Linux clears these two. */
struct host_process_flags {
    int dumpable, death_signal;
    pid_t parent;
};
void host_begin_change(struct host_process_flags *saved);
void host_end_change(const struct host_process_flags *saved);

struct host_capabilities {
    struct __user_cap_header_struct header;
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
};
/* Takes `some` out of the thread's effective set; `all` receives what is to be restored. -errno. */
int host_drop_capabilities(uint32_t some, struct host_capabilities *all);
void host_restore_capabilities(struct host_capabilities *held); /* tries until the host allows it */
bool host_file_ids_are(uid_t user, gid_t group); /* setfsuid and setfsgid do not report failure */

/* guard.c: what a walk beneath a mounted host directory may pass. The first three stand for no errno, so that the fast
 * path leaves them to Python: a file system that speaks for the kernel is closed (EACCES, and why), a closed directory
 * itself was to be opened (ENOENT; to look at it is allowed), and a rule closes it (this number plus the rule's). */
#define HOST_CLOSED_FILE_SYSTEM 100000
#define HOST_CLOSED_DIRECTORY 100001
#define HOST_CLOSED_BY_RULE 200000
/* False: `root` has no guard, and nothing was done. Else *fd is the caller's, or -errno. `look`: the caller asks for
 * attributes only, which a rule that denies leaves to see. */
bool host_guard_open(int root, const char *relative, uint64_t flags, uint64_t mode, bool look, int *fd);
/* For a look-up beneath `root` that does not ask the guard, because the directory is held. May files be opened there,
 * or does that take the credentials of the mount's owner? */
bool host_opens_as_husk(int root);
/* Does no rule close the name (`found` is NULL), or the file that was found there? */
bool host_rules_leave(int root, const char *relative, const struct stat *found);
/* Does no rule say anything about the name (`found` is NULL), and is the file that was found there no one's concern but
 * the guest's? Else only Python knows whether it may be changed. */
bool host_may_change(int root, const char *relative, const struct stat *found);
/* The guest has made this directory below `root`, or removed it. */
void host_made_directory(int root, const struct stat *made);
void host_removed_directory(int root, const struct stat *gone);
PyObject *host_raise(int root, int result); /* OSError for a negative result of host_open_beneath */
int host_add_guard_types(PyObject *module); /* -1: an exception is set */
PyObject *host_py_guard_root(PyObject *self, PyObject *args);
PyObject *host_py_unguard_root(PyObject *self, PyObject *args);
PyObject *host_py_is_fixed(PyObject *self, PyObject *args);
PyObject *host_py_kernel_file_system(PyObject *self, PyObject *args);
PyObject *host_py_own_file(PyObject *self, PyObject *args);
PyObject *host_py_made_directory(PyObject *self, PyObject *args);
PyObject *host_py_judge_name(PyObject *self, PyObject *args);
PyObject *host_py_hidden_names(PyObject *self, PyObject *args);
PyObject *host_py_name_matches(PyObject *self, PyObject *args); /* name_rules.c */

/* mount_roots.c */
PyObject *host_py_upward(PyObject *self, PyObject *args);
PyObject *host_py_mount_id(PyObject *self, PyObject *args);
PyObject *host_py_names_present(PyObject *self, PyObject *args);
PyObject *host_py_real_path(PyObject *self, PyObject *args);

/* advisory_locks.c: on descriptors that stay the caller's; EINTR is returned. */
PyObject *host_py_lock_file(PyObject *self, PyObject *args);
PyObject *host_py_lock_range(PyObject *self, PyObject *args);

/* ipc.c */
PyObject *host_py_ipc_make(PyObject *self, PyObject *args);
PyObject *host_py_ipc_find(PyObject *self, PyObject *args);
PyObject *host_py_ipc_tell(PyObject *self, PyObject *args);
PyObject *host_py_ipc_limits(PyObject *self, PyObject *args);
PyObject *host_py_ipc_give(PyObject *self, PyObject *args);
PyObject *host_py_ipc_remove(PyObject *self, PyObject *args);
PyObject *host_py_new_queue(PyObject *self, PyObject *args);

/* sockets.c: on descriptors that stay the caller's. */
PyObject *host_py_socket_name(PyObject *self, PyObject *args);
PyObject *host_py_bind_address(PyObject *self, PyObject *args);
PyObject *host_py_connect_address(PyObject *self, PyObject *args);
PyObject *host_py_listen_on(PyObject *self, PyObject *args);
PyObject *host_py_accept_address(PyObject *self, PyObject *args);
PyObject *host_py_send_message(PyObject *self, PyObject *args);
PyObject *host_py_receive_message(PyObject *self, PyObject *args);
PyObject *host_py_get_option(PyObject *self, PyObject *args);
PyObject *host_py_set_option(PyObject *self, PyObject *args);
PyObject *host_py_socket_kind(PyObject *self, PyObject *args);

/* relay.c */
PyObject *host_py_relay(PyObject *self, PyObject *args); /* takes over a `feed` that is no terminal */

/* kernel_features.c */
PyObject *host_py_landlock_abi(PyObject *self, PyObject *noargs);
PyObject *host_py_notification_sizes(PyObject *self, PyObject *noargs);

/* marked.c */
PyObject *host_py_kill_marked(PyObject *self, PyObject *args);
PyObject *host_py_tag_process(PyObject *self, PyObject *args);

#endif
