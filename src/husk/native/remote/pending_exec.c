/* native: programs that wait for their loader, from the execve to the loader's question.
 *
 * Several threads of one process may be in execve at once. One of them wins, and the host ends the others. The loader's
 * descriptor tells which one won: each execve injects a descriptor of its own, and the host tells the new program the
 * number N of the one it was started by (AT_EXECFN is "/dev/fd/N"). So a program waits under process id and N. Threads
 * with separate descriptor tables may have the same N and then get each other's program. Only that guest is affected.
 * A loader that the host found by its name has no descriptor; then a number below 0 that stands for the name is N.
 *
 * Life of one: Python or programs.c makes it. It is expected, and owned by the table, while its thread is stopped. The
 * loader asks and gets its descriptors; where the guest's table has room for one only, it asks a second time for the
 * interpreter's. The description stays a while, because /proc has to name the program while the loader still works. If
 * the host refused the execveat after all (E2BIG), the entry is dropped at that thread's next execve, or when the table
 * is full. */
#include "remote/remote.h"

#include "call_table.h"
#include "loader/protocol.h"
#include "fastpath/fastpath.h"
#include "gate/gate.h"
#include "notify/notify.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_PENDING 256
#define MANY_UNASKED 8 /* above this, some of them probably belong to processes that died in between */

struct remote_exec {
    struct remote_exec *next; /* owned; the one expected before */
    pid_t tgid, tid;      /* tid: of the thread that called execve; once its loader asks, its tid is the tgid */
    int loader;           /* the number of the loader's descriptor in the guest, or the key of its name */
    bool asked;           /* the loader has its descriptors */
    int program_fd, interpreter_fd; /* owned; -1: none, or given to the loader */
    uint32_t info_size;
    _Alignas(struct husk_exec_info) char info[]; /* struct husk_exec_info and its strings */
};

struct remote_exec_table {
    pthread_mutex_t lock;
    struct remote_exec *first;
    unsigned count;
};

struct remote_exec_table *remote_exec_table_new(void)
{
    struct remote_exec_table *table = calloc(1, sizeof *table);
    if (table)
        pthread_mutex_init(&table->lock, NULL);
    return table;
}

struct remote_exec *remote_exec_new(int program_fd, int interpreter_fd, const char *info, size_t info_size)
{
    struct remote_exec *exec = info_size <= HUSK_EXEC_INFO_MAX ? malloc(sizeof *exec + info_size) : NULL;
    if (!exec)
        return NULL;
    *exec = (struct remote_exec){.program_fd = program_fd, .interpreter_fd = interpreter_fd,
                                .info_size = (uint32_t)info_size};
    memcpy(exec->info, info, info_size);
    return exec;
}

void remote_exec_free(struct remote_exec *exec)
{
    if (!exec)
        return;
    if (exec->program_fd >= 0)
        close(exec->program_fd);
    if (exec->interpreter_fd >= 0)
        close(exec->interpreter_fd);
    free(exec);
}

/* ---- the table; all of these with its lock held ------------------------------------------------------------------ */

static void drop(struct remote_exec_table *table, struct remote_exec **link)
{
    struct remote_exec *gone = *link;
    *link = gone->next;
    table->count--;
    remote_exec_free(gone);
}

/* Make room: drop the oldest one whose loader has asked; else one of a dead process; else the oldest. */
static void drop_one(struct remote_exec_table *table)
{
    struct remote_exec **asked = NULL, **dead = NULL, **last = NULL;
    for (struct remote_exec **link = &table->first; *link; link = &(*link)->next) {
        last = link;
        if ((*link)->asked)
            asked = link;
    }
    for (struct remote_exec **link = &table->first; !asked && *link; link = &(*link)->next)
        if (remote_is_dead((*link)->tgid))
            dead = link;
    drop(table, asked ? asked : dead ? dead : last);
}

void remote_exec_table_free(struct remote_exec_table *table)
{
    while (table && table->first)
        drop(table, &table->first);
    free(table);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

void remote_exec_expect(Listener *listener, struct remote_exec *exec, pid_t tgid, pid_t tid, int loader)
{
    struct remote_exec_table *table = listener->execs;
    unsigned unasked = 0;
    exec->tgid = tgid;
    exec->tid = tid;
    exec->loader = loader;
    pthread_mutex_lock(&table->lock);
    for (struct remote_exec *one = table->first; one; one = one->next)
        unasked += !one->asked;
    for (struct remote_exec **link = &table->first; *link;) {
        /* The same number again: the earlier execve failed, or the guest closed the loader's descriptor. But two
         * threads may execute the same name, and either may fail. And in a process that can call execve no loader runs
         * any more, so the descriptions of asked ones are not needed. */
        bool again = (*link)->loader == loader && (loader >= 0 || (*link)->tid == tid);
        if ((*link)->tgid == tgid ? again || (*link)->asked
                                  : !(*link)->asked && unasked > MANY_UNASKED && remote_is_dead((*link)->tgid))
            drop(table, link);
        else
            link = &(*link)->next;
    }
    if (table->count >= MOST_PENDING)
        drop_one(table);
    exec->next = table->first;
    table->first = exec;
    table->count++;
    pthread_mutex_unlock(&table->lock);
}

void remote_exec_drop_failed(Listener *listener, pid_t tid)
{
    struct remote_exec_table *table = listener->execs;
    pthread_mutex_lock(&table->lock);
    for (struct remote_exec **link = &table->first; *link;) {
        if ((*link)->tid == tid && !(*link)->asked)
            drop(table, link);
        else
            link = &(*link)->next;
    }
    pthread_mutex_unlock(&table->lock);
}

/* Take out the one that `loader` was expected for; the caller owns it. A copy without descriptors stays, for /proc.
 * Drops those of the process's other threads, which are gone. NULL: none was expected (or no memory), and nothing is
 * dropped. */
static struct remote_exec *take(struct remote_exec_table *table, pid_t tgid, int loader)
{
    struct remote_exec *taken = NULL;
    pthread_mutex_lock(&table->lock);
    for (struct remote_exec *one = table->first; one && !taken; one = one->next) {
        if (one->tgid == tgid && one->loader == loader && !one->asked) {
            taken = remote_exec_new(one->program_fd, one->interpreter_fd, one->info, one->info_size);
            if (!taken)
                break;
            one->program_fd = one->interpreter_fd = -1;
            one->asked = true;
            for (struct remote_exec **link = &table->first; *link;) {
                if ((*link)->tgid == tgid && *link != one)
                    drop(table, link);
                else
                    link = &(*link)->next;
            }
        }
    }
    pthread_mutex_unlock(&table->lock);
    return taken;
}

/* Puts `fd` in the place of the interpreter's descriptor of a program whose loader has asked, and returns the one that
 * was there, or `fd` if there is no such program. Called with a descriptor to keep it for the second question, and with
 * -1 to answer that. */
static int exchange_interpreter(struct remote_exec_table *table, pid_t tgid, int loader, int fd)
{
    pthread_mutex_lock(&table->lock);
    for (struct remote_exec *one = table->first; one; one = one->next)
        if (one->tgid == tgid && one->loader == loader && one->asked) {
            int held = one->interpreter_fd;
            one->interpreter_fd = fd;
            fd = held;
            break;
        }
    pthread_mutex_unlock(&table->lock);
    return fd;
}

/* `fd` is a descriptor of the guest, or a negative errno. */
static void answer_injected(Listener *listener, const struct seccomp_notif *notif, int fd)
{
    if (fd >= 0)
        notify_answer_value(listener->fd, notif->id, fd);
    else
        notify_answer_error(listener->fd, notif->id, -fd);
}

static bool answer_second_question(Listener *listener, const struct seccomp_notif *notif, pid_t tgid)
{
    int interpreter = exchange_interpreter(listener->execs, tgid, (int)notif->data.args[ARG_husk_call_fd], -1);
    if (interpreter < 0)
        return false;
    int fd = notify_inject_fd(listener->fd, notif, interpreter, true);
    answer_injected(listener, notif, fd);
    close(interpreter);
    return true;
}

bool remote_exec_answer_loader(Listener *listener, const struct seccomp_notif *notif)
{
    pid_t tgid = guest_thread_group(notif->pid);
    if (tgid <= 0)
        return false;
    if (notif->data.args[ARG_husk_call_op] == HUSK_EXEC_INTERPRETER)
        return answer_second_question(listener, notif, tgid);
    if (notif->data.args[ARG_husk_call_op] != HUSK_EXEC_INFO)
        return false;
    struct remote_exec *mine = take(listener->execs, tgid, (int)notif->data.args[ARG_husk_call_fd]);
    if (!mine)
        return false;
    struct husk_exec_info *info = (struct husk_exec_info *)mine->info;
    if (listener->gates && fast_direct_is_open(listener->cache)) {
        info->flags |= HUSK_DIRECT_NAMES;
        gate_learn_interpreter(listener->gates, mine->interpreter_fd);
    }
    struct notify_pin pin;
    notify_pin_begin(&pin, notif->pid); /* once for both injections */
    int fd = notify_inject_fd(listener->fd, notif, mine->program_fd, true);
    if (fd >= 0 && mine->interpreter_fd >= 0) {
        info->interpreter_fd = notify_inject_fd(listener->fd, notif, mine->interpreter_fd, true);
        if (info->interpreter_fd == -EMFILE) {
            info->interpreter_fd = HUSK_ASK_LATER;
            mine->interpreter_fd =
                exchange_interpreter(listener->execs, tgid, (int)notif->data.args[ARG_husk_call_fd],
                                     mine->interpreter_fd);
        } else if (info->interpreter_fd < 0) {
            fd = info->interpreter_fd;
        }
    }
    notify_pin_end(&pin);
    /* The injection just now has shown that the caller still waits. */
    if (fd >= 0 && (notif->data.args[ARG_husk_call_size] < mine->info_size ||
                    guest_write(notif->pid, notif->data.args[ARG_husk_call_buf], mine->info, mine->info_size) !=
                        (ssize_t)mine->info_size))
        fd = -EFAULT;
    answer_injected(listener, notif, fd);
    remote_exec_free(mine);
    return true;
}

PyObject *remote_py_begun(Listener *self, PyObject *arg)
{
    pid_t tgid = (pid_t)PyLong_AsLong(arg);
    if (PyErr_Occurred())
        return NULL;
    char *info = malloc(HUSK_EXEC_INFO_MAX);
    size_t size = 0;
    if (!info)
        return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&self->execs->lock);
    struct remote_exec *one = self->execs->first;
    while (one && one->tgid != tgid)
        one = one->next;
    if (one) {
        size = one->info_size;
        memcpy(info, one->info, size);
    }
    pthread_mutex_unlock(&self->execs->lock);
    Py_END_ALLOW_THREADS
    PyObject *result = size ? PyBytes_FromStringAndSize(info, size) : Py_NewRef(Py_None);
    free(info);
    return result;
}
