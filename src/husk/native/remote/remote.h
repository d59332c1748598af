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
int remote_finish(struct remote_thread *thread, int64_t value); /* detach; the notified call returns `value` */
/* Detach inside an execveat with these arguments. `watched`: stay until it is over, and if it fails close args[0]. */
int remote_execute(struct remote_thread *thread, const uint64_t args[6], bool watched);
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
PyObject *remote_py_seek(Call *call, PyObject *args);
PyObject *remote_py_map(Call *call, PyObject *args);
PyObject *remote_py_unmap(Call *call, PyObject *args);
PyObject *remote_py_interrupt(Call *call, PyObject *args);
PyObject *remote_py_change_directory(Call *call, PyObject *args);
PyObject *remote_py_give_terminal(Call *call, PyObject *args); /* takes over the descriptor */

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
/* Takes over the program's and the interpreter's descriptor. */
PyObject *remote_py_exec_loader(Call *call, PyObject *args);

/* signals.c */
int remote_answer_sigaction(Listener *listener, const struct seccomp_notif *notif);

#endif
