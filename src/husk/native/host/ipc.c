/* native: System V semaphores and queues, and POSIX queues, which husk makes for boxes without an ipc namespace. Python
 * has none of these calls. */
#include "host/host.h"

#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/random.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SEMAPHORES, QUEUE };

/* Older C libraries do not define them; Linux has them since 4.17. */
#ifndef SEM_STAT_ANY
#define SEM_STAT_ANY 20
#endif
#ifndef MSG_STAT_ANY
#define MSG_STAT_ANY 13
#endif

/* The kernel's own structs are read and written as they are: raw calls, which glibc does not translate. */
static long control(int kind, int id, int command, void *data)
{
    return kind == SEMAPHORES ? syscall(SYS_semctl, id, 0, command, data) : syscall(SYS_msgctl, id, command, data);
}

/* ipc_make(kind, key, count, mode): the id of a new object; EEXIST where the host has one with this key. */
PyObject *host_py_ipc_make(PyObject *self, PyObject *args)
{
    (void)self;
    int kind, key, count, mode;
    if (!PyArg_ParseTuple(args, "iiii:ipc_make", &kind, &key, &count, &mode))
        return NULL;
    int flags = (mode & 0777) | IPC_CREAT | IPC_EXCL;
    int id = kind == SEMAPHORES ? semget(key, count, flags) : msgget(key, flags);
    return id < 0 ? core_raise_errno(errno) : PyLong_FromLong(id);
}

/* ipc_find(kind, key): the id of the object that the host has with this key. */
PyObject *host_py_ipc_find(PyObject *self, PyObject *args)
{
    (void)self;
    int kind, key;
    if (!PyArg_ParseTuple(args, "ii:ipc_find", &kind, &key))
        return NULL;
    int id = kind == SEMAPHORES ? semget(key, 0, 0) : msgget(key, 0);
    return id < 0 ? core_raise_errno(errno) : PyLong_FromLong(id);
}

/* ipc_tell(kind, id): what IPC_STAT says of the object, in the kernel's struct. Its mode may forbid even its owner to
 * ask, so the host is asked by index, which needs no permission; EINVAL where another object has that index by now. */
PyObject *host_py_ipc_tell(PyObject *self, PyObject *args)
{
    (void)self;
    static const int index_bits[] = {15, 24}; /* the second where the host was started with ipcmni_extend */
    int kind, id;
    if (!PyArg_ParseTuple(args, "ii:ipc_tell", &kind, &id))
        return NULL;
    for (unsigned i = 0; i < sizeof index_bits / sizeof *index_bits; i++) {
        char told[256] = {0};
        int index = id & ((1 << index_bits[i]) - 1);
        if (control(kind, index, kind == SEMAPHORES ? SEM_STAT_ANY : MSG_STAT_ANY, told) == id)
            return PyBytes_FromStringAndSize(told, kind == SEMAPHORES ? sizeof(struct semid_ds)
                                                                      : sizeof(struct msqid_ds));
    }
    return core_raise_errno(EINVAL);
}

/* ipc_limits(kind): what IPC_INFO says. */
PyObject *host_py_ipc_limits(PyObject *self, PyObject *args)
{
    (void)self;
    int kind;
    char told[256] = {0};
    if (!PyArg_ParseTuple(args, "i:ipc_limits", &kind))
        return NULL;
    if (control(kind, 0, IPC_INFO, told) < 0)
        return core_raise_errno(errno);
    return PyBytes_FromStringAndSize(told, kind == SEMAPHORES ? sizeof(struct seminfo) : sizeof(struct msginfo));
}

/* ipc_give(kind, id, uid, gid): change the owner; husk is root then, and may ask whatever the mode says. */
PyObject *host_py_ipc_give(PyObject *self, PyObject *args)
{
    (void)self;
    int kind, id;
    unsigned uid, gid;
    union {
        struct semid_ds semaphores;
        struct msqid_ds queue;
        struct ipc_perm owner; /* the first member of both */
    } told;
    if (!PyArg_ParseTuple(args, "iiII:ipc_give", &kind, &id, &uid, &gid))
        return NULL;
    if (control(kind, id, IPC_STAT, &told) < 0)
        return core_raise_errno(errno);
    told.owner.uid = uid, told.owner.gid = gid;
    if (control(kind, id, IPC_SET, &told) < 0)
        return core_raise_errno(errno);
    Py_RETURN_NONE;
}

PyObject *host_py_ipc_remove(PyObject *self, PyObject *args)
{
    (void)self;
    int kind, id;
    if (!PyArg_ParseTuple(args, "ii:ipc_remove", &kind, &id))
        return NULL;
    if (control(kind, id, IPC_RMID, NULL) < 0)
        return core_raise_errno(errno);
    Py_RETURN_NONE;
}

/* new_queue(most messages, size of one): the descriptor of a POSIX queue without a name; 0 and 0: as large as the host
 * makes them. It has a random name for a moment, which no other user can open. */
PyObject *host_py_new_queue(PyObject *self, PyObject *args)
{
    (void)self;
    long messages, size;
    unsigned long long number[2];
    char name[64];
    if (!PyArg_ParseTuple(args, "ll:new_queue", &messages, &size))
        return NULL;
    if (getrandom(number, sizeof number, 0) != sizeof number)
        return core_raise_errno(EIO);
    snprintf(name, sizeof name, "husk-%016llx%016llx", number[0], number[1]);
    struct mq_attr wanted = {.mq_maxmsg = messages, .mq_msgsize = size};
    int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
    long fd = syscall(SYS_mq_open, name, flags, 0600, messages || size ? &wanted : NULL);
    if (fd < 0)
        return core_raise_errno(errno);
    syscall(SYS_mq_unlink, name);
    return PyLong_FromLong(fd);
}
