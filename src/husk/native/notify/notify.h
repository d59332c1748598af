/* native/notify: receiving notifications, answering them, and looking at the guest thread that waits. */
#ifndef HUSK_NOTIFY_H
#define HUSK_NOTIFY_H

#include "core.h"

#include <sched.h>
#include <sys/types.h>

/* listener.c, call.c: the two Python classes. */
extern PyTypeObject *notify_listener_type;
extern PyType_Spec notify_listener_spec;
extern PyTypeObject *notify_call_type;
extern PyType_Spec notify_call_spec;
PyObject *notify_py_wake_thread(PyObject *self, PyObject *args);

/* ready_tables.c: what the build made of the registry's rows. */
PyObject *notify_py_ready_filter(PyObject *self, PyObject *args);
PyObject *notify_py_ready_calls(PyObject *self, PyObject *noargs);

/* leader.c: one thread at a time receives; the others follow. */
struct notify_leader *notify_leader_new(void); /* the caller owns it; NULL: no memory */
void notify_leader_free(struct notify_leader *leader);
bool notify_leader_acquire(struct notify_leader *leader, const volatile int *stopped); /* waits; false: stopped */
void notify_leader_enter_python(struct notify_leader *leader); /* stays leader unless Python takes long */
void notify_leader_release(struct notify_leader *leader);
void notify_leader_wake_followers(struct notify_leader *leader); /* so that they see `stopped` */

/* answer.c: answers, without Python. `listener` and `source` stay the caller's. All return -errno on failure. */
int notify_answer_value(int listener, uint64_t id, int64_t value);
int notify_answer_error(int listener, uint64_t id, int error);
int notify_answer_continue(int listener, uint64_t id);
/* Put a copy of `source` into the guest's table; its number there. The call stays unanswered. */
int notify_inject_fd(int listener, const struct seccomp_notif *notif, int source, bool cloexec);
/* Likewise, within a pin. */
int notify_inject_fd_pinned(int listener, const struct seccomp_notif *notif, int source, bool cloexec);
/* Likewise, and the call returns the number. */
int notify_answer_fd(int listener, const struct seccomp_notif *notif, int source, bool cloexec);
bool notify_is_valid(int listener, uint64_t id); /* does the caller still wait? */

/* pin.c: guest thread and receiver may be pinned to one processor between begin and end. */
struct notify_pin {
    pid_t tid; /* the guest thread that is pinned; 0: none */
    int64_t began_ns;
    cpu_set_t guest; /* the affinity it gets back */
};
void notify_pin_begin(struct notify_pin *pin, pid_t tid);
void notify_pin_end(struct notify_pin *pin);
void notify_unpin_receiver(pid_t caller); /* unless the receiver is pinned for this caller; 0: always */

/* guest_memory.c: never faults. Return the number of bytes moved, or -errno. */
ssize_t guest_read(pid_t tid, uint64_t address, void *to, size_t size);
ssize_t guest_write(pid_t tid, uint64_t address, const void *from, size_t size);
ssize_t guest_string(pid_t tid, uint64_t address, char *to, size_t limit); /* length without NUL; -ENAMETOOLONG */

/* guest_task.c: what the host's /proc says about a guest thread. Check notify_is_valid afterwards: tids are reused. */
pid_t guest_thread_group(pid_t tid);  /* -1: it is gone */
pid_t guest_tracer(pid_t tid);        /* the thread that traces it, in husk or elsewhere; 0: none; -1: it is gone */
bool guest_has_free_fd(pid_t tid);    /* false: its table is full, or husk cannot tell */
bool guest_table_is_full(pid_t tid);  /* false: it has room, or husk cannot tell */
int guest_umask_from(int status);     /* from an open status file; -1: its thread is gone */
int guest_get_fd(pid_t tid, int fd);  /* a duplicate of the guest's descriptor, which the caller closes; -errno */
PyObject *guest_py_fd_link(Call *call, PyObject *args);
PyObject *guest_py_fd_stat(Call *call, PyObject *args);
PyObject *guest_py_position(Call *call, PyObject *args);
PyObject *guest_py_get_fd(Call *call, PyObject *args);
PyObject *guest_py_cwd_link(Call *call, PyObject *noargs);
PyObject *guest_py_umask(Call *call, PyObject *noargs);
PyObject *guest_py_tgid(Call *call, PyObject *noargs);
PyObject *guest_py_table_is_full(Call *call, PyObject *noargs);
PyObject *guest_py_shares_table(PyObject *self, PyObject *args);
PyObject *guest_py_same_open_file(PyObject *self, PyObject *args);

#endif
