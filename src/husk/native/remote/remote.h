/* native/remote: making a guest thread, stopped on its way out of a notified call, run another call. */
#ifndef HUSK_REMOTE_H
#define HUSK_REMOTE_H

#include "core.h"

#include <sys/types.h>
#include <sys/user.h>

/* remote.c: ptrace. All return 0 or -errno. On an error the thread is gone and there is nothing left to detach. */
struct remote_thread {
    pid_t tid;
    struct user_regs_struct registers; /* as they were when the notified call would have returned */
    uint64_t signal_mask;
    uint64_t cookie; /* marks its calls as husk's own, where the filter notifies those of guests */
};
int remote_attach(pid_t tid);                                  /* before the answer */
int remote_wait_stop(struct remote_thread *thread, pid_t tid); /* after the answer */
int remote_detach(struct remote_thread *thread);               /* with the registers it has */
int remote_block_signals(struct remote_thread *thread);
int remote_call(struct remote_thread *thread, long nr, const uint64_t args[6], long *result);
/* Likewise. -EINVAL: the guest has exchanged the instruction meanwhile, and no call, or another one, was made. */
int remote_checked_call(struct remote_thread *thread, long nr, const uint64_t args[6], long *result);
int remote_finish(struct remote_thread *thread, int64_t value); /* detach; the notified call returns `value` */
/* The thread makes a clone(2), checked likewise. If a child is born, it is traced from its first instruction, `child`
 * is its tid, and the thread stays inside the call. Otherwise `child` is 0 and `result` the error. */
int remote_clone(struct remote_thread *thread, const uint64_t args[6], pid_t *child, long *result);
int remote_finish_inside(struct remote_thread *thread); /* detach inside that call; the host sets its result */
void remote_restore_arguments(struct user_regs_struct *regs, const struct remote_thread *from); /* rdi to r9 */
/* Detach inside an execveat with these arguments. `watched`: stay until it is over, and if it fails close args[0]. */
int remote_execute(struct remote_thread *thread, const uint64_t args[6], bool watched);
int remote_repeat(struct remote_thread *thread, long nr); /* detach; the thread makes the notified call `nr` again */
void remote_abandon(pid_t tid); /* detach from a thread that turned out not to be the caller's */
void remote_delete_timer(void); /* before one of husk's own threads ends: its timer does not end with it */

/* reap_tracees.c */
void remote_reap_tracee(pid_t tid); /* after a failed ptrace request: the tracee is dying, and only we can reap it */
bool remote_is_dead(pid_t tid);

/* remote_calls.c: the remote calls that Python asks for. */
#define REMOTE_TRACED (-EBUSY) /* another process traces the thread; the call is not answered, and the receiver will */
/* Answer with a copy of `source` in the guest's table, and stop the thread before it can look at that number, which is
 * stored in `guest_fd`. On an error other than REMOTE_TRACED the call has been answered and the thread runs on. */
int remote_stop_with_fd(int listener, const struct seccomp_notif *notif, int source, bool cloexec,
                        struct remote_thread *thread, int *guest_fd);
/* Answer with errno `number` (0: the call returns 0), and stop the thread on its way out. */
int remote_stop_answered(Call *call, int number, struct remote_thread *thread);
PyObject *remote_py_seek(Call *call, PyObject *args);
PyObject *remote_py_set_owner(Call *call, PyObject *args);
PyObject *remote_py_map(Call *call, PyObject *args);
PyObject *remote_py_unmap(Call *call, PyObject *args);
PyObject *remote_py_interrupt(Call *call, PyObject *args);
PyObject *remote_py_change_directory(Call *call, PyObject *args);
PyObject *remote_py_give_path(Call *call, PyObject *args);
PyObject *remote_py_give_terminal(Call *call, PyObject *args); /* takes over the descriptor */

/* restrict.c: rules that a program makes for itself. */
#define REMOTE_MARK 0xf001ff00 /* bits of personality(2) that mean nothing to Linux; as in syscalls/restricting.py */
bool remote_is_marked(const Listener *listener, pid_t tid);
bool remote_is_restricting(const Listener *listener, const struct seccomp_notif *notif); /* husk's own call */
PyObject *remote_py_mark(Listener *self, PyObject *tid);
PyObject *remote_py_use_marks(Listener *self, PyObject *noargs);
PyObject *remote_py_restrict(Call *call, PyObject *args);
PyObject *remote_py_landlock_ruleset(PyObject *self, PyObject *args);
PyObject *remote_py_open_without(PyObject *self, PyObject *args);

/* pending_exec.c: programs that wait for their loader. */
struct remote_exec_table *remote_exec_table_new(void); /* the caller owns it; NULL: no memory */
void remote_exec_table_free(struct remote_exec_table *table);
/* Copies `info` and takes over both descriptors. NULL: no memory, and they stay the caller's. */
struct remote_exec *remote_exec_new(int program_fd, int interpreter_fd, const char *info, size_t info_size);
void remote_exec_free(struct remote_exec *exec);
/* Takes over `exec`. */
void remote_exec_expect(Listener *listener, struct remote_exec *exec, pid_t tgid, pid_t tid, int loader);
/* Drops what waits since an earlier execve of the thread, which the host refused after all. */
void remote_exec_drop_failed(Listener *listener, pid_t tid);
bool remote_exec_answer_loader(Listener *listener, const struct seccomp_notif *notif); /* false: nothing waits for it */
PyObject *remote_py_begun(Listener *self, PyObject *tgid);

/* exec_loader.c: the thread executes the loader. Takes over `exec`. `empty` is the guest address of an empty string. */
int remote_exec_loader(Listener *listener, const struct seccomp_notif *notif, int loader, uint64_t empty, uint64_t argv,
                       uint64_t envp, struct remote_exec *exec);
/* The thread executes the loader by the name it gave: its call goes on. `key`: of that name. Takes over `exec`. */
int remote_exec_continue(Listener *listener, const struct seccomp_notif *notif, int key, struct remote_exec *exec);
/* Takes over the program's and the interpreter's descriptor. */
PyObject *remote_py_exec_loader(Call *call, PyObject *args);

/* sealed_send.c: a message that the guest's own thread sends, with a header that no guest can change. */
#define REMOTE_AGAIN INT64_MIN /* as a call's value: the guest makes the call again */
struct remote_messages *remote_messages_new(void); /* the caller owns it; NULL: no memory */
void remote_messages_free(struct remote_messages *messages);
bool remote_is_sealed_send(const Listener *listener, const struct seccomp_notif *notif); /* it may continue */
/* send(fd, own_fd, parts, control, flags, waits, stream, address): True if the guest's thread has sent, or got an
 * error. Then own_fd is closed, before the guest runs on. Not for receivers: one of them lets the sendmsg continue. */
PyObject *remote_py_send(Call *call, PyObject *args);

/* clone3.c: clone3(2), as a clone(2) of the guest's own thread. */
bool remote_answer_thread(Listener *listener, const struct seccomp_notif *notif); /* false: Python has to look */
/* clone(flags, stack, parent_tid or pidfd, child_tid, tls, parent_tid beside a pidfd, clear_handlers) */
PyObject *remote_py_clone(Call *call, PyObject *args);

/* signals.c */
int remote_answer_sigaction(Listener *listener, const struct seccomp_notif *notif);

#endif
