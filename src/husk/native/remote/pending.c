/* native: programs that wait for their loader, from the execve that asked for them to the loader's question.
 *
 * Several threads of one process may be in execve at once; one of them wins, and the host ends the others. Who won is
 * known by the loader's descriptor: each execve puts one of its own into the guest's table, and the host tells the new
 * program by which it was started (AT_EXECFN is "/dev/fd/N"). So a program waits under process and N. Threads that do not
 * share their descriptors may have the same N and then get each other's program: nobody but the guest's author is
 * concerned.
 *
 * Life of one: made by Python or programs.c; expected (the table owns it) while its thread is stopped; given to the loader,
 * which takes its descriptors, the interpreter's by a second question where the guest's table has room for one only; its
 * description stays a while, because /proc has to name the program while the loader still works. One that the host refused
 * after all (E2BIG) goes with its thread's next execve, or when the table is full. */
#include "core.h"
#include "notify/pin.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "loader/protocol.h"

#define MOST_PENDING 256
#define MANY_UNASKED 8 /* with more on their way, some are likely to be of processes that died on it */

struct pending {
    struct pending *next; /* the one expected before */
    pid_t tgid, tid;      /* tid: who called execve; no longer a number of the winner's once its loader asks */
    int loader;           /* the guest's descriptor it will be started by */
    bool asked;           /* the loader has its descriptors */
    int program_fd, interpreter_fd;
    uint32_t info_size;
    _Alignas(struct husk_exec_info) char info[]; /* struct husk_exec_info and its strings */
};

struct pending_table {
    pthread_mutex_t lock;
    struct pending *first;
    unsigned count;
};

struct pending_table *pending_table_new(void)
{
    struct pending_table *table = calloc(1, sizeof *table);
    if (table)
        pthread_mutex_init(&table->lock, NULL);
    return table;
}

struct pending *pending_new(int program_fd, int interpreter_fd, const char *info, size_t info_size)
{
    struct pending *pending = info_size <= HUSK_EXEC_INFO_MAX ? malloc(sizeof *pending + info_size) : NULL;
    if (!pending)
        return NULL;
    *pending = (struct pending){.program_fd = program_fd, .interpreter_fd = interpreter_fd,
                                .info_size = (uint32_t)info_size};
    memcpy(pending->info, info, info_size);
    return pending;
}

void pending_free(struct pending *pending)
{
    if (!pending)
        return;
    if (pending->program_fd >= 0)
        close(pending->program_fd);
    if (pending->interpreter_fd >= 0)
        close(pending->interpreter_fd);
    free(pending);
}

/* ---- the table; all of these with its lock held ------------------------------------------------------------------- */

static void drop(struct pending_table *table, struct pending **link)
{
    struct pending *gone = *link;
    *link = gone->next;
    table->count--;
    pending_free(gone);
}

/* Make room: the oldest that only its names are kept of; else one whose process died; else the oldest. */
static void drop_one(struct pending_table *table)
{
    struct pending **asked = NULL, **dead = NULL, **last = NULL;
    for (struct pending **link = &table->first; *link; link = &(*link)->next) {
        last = link;
        if ((*link)->asked)
            asked = link;
    }
    for (struct pending **link = &table->first; !asked && *link; link = &(*link)->next)
        if (task_is_dead((*link)->tgid))
            dead = link;
    drop(table, asked ? asked : dead ? dead : last);
}

void pending_table_free(struct pending_table *table)
{
    while (table && table->first)
        drop(table, &table->first);
    free(table);
}

/* ---- life ---------------------------------------------------------------------------------------------------------- */

void pending_expect(Listener *listener, struct pending *pending, pid_t tgid, pid_t tid, int loader)
{
    struct pending_table *table = listener->pending;
    unsigned unasked = 0;
    pending->tgid = tgid;
    pending->tid = tid;
    pending->loader = loader;
    pthread_mutex_lock(&table->lock);
    for (struct pending *one = table->first; one; one = one->next)
        unasked += !one->asked;
    for (struct pending **link = &table->first; *link;) {
        /* The same number again: an execve of before failed, or the guest closed what it was given. And where a thread
         * can execute, no loader works any more: the names it was given are not needed. */
        if ((*link)->tgid == tgid ? (*link)->loader == loader || (*link)->asked
                                  : !(*link)->asked && unasked > MANY_UNASKED && task_is_dead((*link)->tgid))
            drop(table, link);
        else
            link = &(*link)->next;
    }
    if (table->count >= MOST_PENDING)
        drop_one(table);
    pending->next = table->first;
    table->first = pending;
    table->count++;
    pthread_mutex_unlock(&table->lock);
}

void pending_drop_stale(Listener *listener, pid_t tid)
{
    struct pending_table *table = listener->pending;
    pthread_mutex_lock(&table->lock);
    for (struct pending **link = &table->first; *link;) {
        if ((*link)->tid == tid && !(*link)->asked)
            drop(table, link);
        else
            link = &(*link)->next;
    }
    pthread_mutex_unlock(&table->lock);
}

/* Take out what was expected, and drop what the process's other threads had prepared: they are gone. A copy
 * without descriptors stays, for its names. NULL: nothing was expected, and nothing is dropped. */
static struct pending *take(struct pending_table *table, pid_t tgid, int loader)
{
    struct pending *taken = NULL;
    pthread_mutex_lock(&table->lock);
    for (struct pending *one = table->first; one && !taken; one = one->next) {
        if (one->tgid == tgid && one->loader == loader && !one->asked) {
            taken = pending_new(one->program_fd, one->interpreter_fd, one->info, one->info_size);
            if (!taken)
                break;
            one->program_fd = one->interpreter_fd = -1;
            one->asked = true;
            for (struct pending **link = &table->first; *link;) {
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

/* The interpreter of a program whose loader has asked: kept for its second question (fd >= 0), or given out for it (-1). */
static int exchange_interpreter(struct pending_table *table, pid_t tgid, int loader, int fd)
{
    pthread_mutex_lock(&table->lock);
    for (struct pending *one = table->first; one; one = one->next)
        if (one->tgid == tgid && one->loader == loader && one->asked) {
            int held = one->interpreter_fd;
            one->interpreter_fd = fd;
            fd = held;
            break;
        }
    pthread_mutex_unlock(&table->lock);
    return fd;
}

static bool answer_later(Listener *listener, const struct seccomp_notif *notif, pid_t tgid)
{
    int interpreter = exchange_interpreter(listener->pending, tgid, (int)notif->data.args[3], -1);
    if (interpreter < 0)
        return false;
    int fd = inject_descriptor(listener->fd, notif, interpreter, true);
    if (fd >= 0)
        answer_value(listener->fd, notif->id, fd);
    else
        answer_error(listener->fd, notif->id, -fd);
    close(interpreter);
    return true;
}

bool pending_answer_loader(Listener *listener, const struct seccomp_notif *notif)
{
    pid_t tgid = thread_group(notif->pid);
    if (tgid <= 0)
        return false;
    if (notif->data.args[0] == HUSK_EXEC_INTERPRETER)
        return answer_later(listener, notif, tgid);
    if (notif->data.args[0] != HUSK_EXEC_INFO)
        return false;
    struct pending *mine = take(listener->pending, tgid, (int)notif->data.args[3]);
    if (!mine)
        return false;
    struct husk_exec_info *info = (struct husk_exec_info *)mine->info;
    struct pin pin;
    pin_if_it_helps(&pin, notif->pid); /* once for both hand-overs */
    int fd = inject_descriptor(listener->fd, notif, mine->program_fd, true);
    if (fd >= 0 && mine->interpreter_fd >= 0) {
        info->interpreter_fd = inject_descriptor(listener->fd, notif, mine->interpreter_fd, true);
        if (info->interpreter_fd == -EMFILE) {
            info->interpreter_fd = HUSK_ASK_LATER;
            mine->interpreter_fd =
                exchange_interpreter(listener->pending, tgid, (int)notif->data.args[3], mine->interpreter_fd);
        } else if (info->interpreter_fd < 0) {
            fd = info->interpreter_fd;
        }
    }
    pin_release(&pin);
    /* That the caller still lives was seen by the hand-over just now. */
    if (fd >= 0 && (notif->data.args[2] < mine->info_size ||
                    guest_write(notif->pid, notif->data.args[1], mine->info, mine->info_size) != (ssize_t)mine->info_size))
        fd = -EFAULT;
    if (fd >= 0)
        answer_value(listener->fd, notif->id, fd);
    else
        answer_error(listener->fd, notif->id, -fd);
    pending_free(mine);
    return true;
}

PyObject *listener_begun(Listener *self, PyObject *arg)
{
    pid_t tgid = (pid_t)PyLong_AsLong(arg);
    if (PyErr_Occurred())
        return NULL;
    char *info = malloc(HUSK_EXEC_INFO_MAX);
    size_t size = 0;
    if (!info)
        return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&self->pending->lock);
    struct pending *one = self->pending->first;
    while (one && one->tgid != tgid)
        one = one->next;
    if (one) {
        size = one->info_size;
        memcpy(info, one->info, size);
    }
    pthread_mutex_unlock(&self->pending->lock);
    Py_END_ALLOW_THREADS
    PyObject *result = size ? PyBytes_FromStringAndSize(info, size) : Py_NewRef(Py_None);
    free(info);
    return result;
}
