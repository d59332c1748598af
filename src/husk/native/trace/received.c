/* native/trace: one received call: who made it, what becomes of it, and what is written down about it.
 *
 * A native call is continued whatever its pointers say: nothing behind them was judged. What is read from there, a
 * socket address, is only written down. */
#include "trace/trace.h"

#include "loader/protocol.h"
#include "loader/resident.h"
#include "notify/notify.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#define FIRST_LINES 4096

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
    return hash ^ hash >> 29;
}

static void count_kind(Recorder *recorder, const struct trace_task *task, const struct seccomp_data *data,
                       enum trace_way way, int error)
{
    struct trace_kind kind = {.nr = data->nr, .way = way, .error = error};
    uint64_t hash = mix(mix(0, data->nr), way << 16 | error);
    for (int i = 0; i < 6; i++)
        if (data->nr < CALL_NUMBERS && recorder->telling[data->nr] >> i & 1) {
            kind.values[i] = data->args[i] & 0xffffffff; /* flags and commands are ints to Linux */
            hash = mix(hash, kind.values[i] + i);
        }
    uint32_t *link = &recorder->kind_buckets[hash % TRACE_KINDS];
    for (; *link != TRACE_NONE; link = &recorder->kinds[*link].next) {
        struct trace_kind *known = &recorder->kinds[*link];
        if (known->nr == kind.nr && known->way == way && known->error == error &&
            memcmp(known->values, kind.values, sizeof kind.values) == 0) {
            known->count++;
            return;
        }
    }
    if (recorder->kind_count == TRACE_KINDS) {
        recorder->unsorted[data->nr < CALL_NUMBERS ? data->nr : CALL_NUMBERS - 1][way]++;
        return;
    }
    kind.count = 1;
    kind.first = task ? task->shown : 0;
    kind.next = TRACE_NONE;
    memcpy(kind.args, data->args, sizeof kind.args);
    *link = recorder->kind_count;
    recorder->kinds[recorder->kind_count++] = kind;
}

static void write_line(Recorder *recorder, const struct trace_task *task, const struct seccomp_data *data,
                       enum trace_way way, int error, int64_t now)
{
    if (!recorder->lines_most)
        return;
    if (recorder->lines_count == recorder->lines_room) {
        size_t room = recorder->lines_room ? 2 * recorder->lines_room : FIRST_LINES;
        room = room < recorder->lines_most ? room : recorder->lines_most;
        struct trace_line *lines =
            room > recorder->lines_room ? realloc(recorder->lines, room * sizeof *lines) : NULL;
        if (!lines) {
            recorder->lost_lines++;
            return;
        }
        recorder->lines = lines;
        recorder->lines_room = room;
    }
    struct trace_line *line = &recorder->lines[recorder->lines_count++];
    *line = (struct trace_line){.when_ns = now, .tid = task ? task->shown : 0, .nr = (uint16_t)data->nr,
                                .way = (uint8_t)way, .error = (uint8_t)error};
    memcpy(line->args, data->args, sizeof line->args);
}

/* The guest may change what is read here: it is written down, and decides nothing. */
static void note_address(Recorder *recorder, pid_t tid, const struct seccomp_data *data)
{
    uint64_t where = data->args[1], size = data->args[2] & 0xffffffff; /* of connect and bind */
    struct trace_address seen = {.nr = data->nr};
    if (data->nr == SYS_sendto) {
        where = data->args[4];
        size = data->args[5] & 0xffffffff;
    } else if (data->nr == SYS_sendmsg) {
        struct { uint64_t name; uint32_t size, gap; } header; /* how struct msghdr begins */
        if (guest_read(tid, data->args[1], &header, sizeof header) != sizeof header)
            return;
        where = header.name;
        size = header.size;
    }
    if (!where || size < 2 || size > TRACE_ADDRESS || guest_read(tid, where, seen.bytes, size) != (ssize_t)size)
        return;
    seen.size = (uint32_t)size;
    for (uint32_t i = 0; i < recorder->address_count; i++) {
        struct trace_address *known = &recorder->addresses[i];
        if (known->nr == seen.nr && known->size == seen.size && memcmp(known->bytes, seen.bytes, size) == 0) {
            known->count++;
            return;
        }
    }
    if (recorder->address_count == TRACE_ADDRESSES) {
        recorder->lost_addresses++;
        return;
    }
    seen.count = 1;
    recorder->addresses[recorder->address_count++] = seen;
}

/* Counted for the program, in the part of the run that is now. The parts grow with the run. */
static void count_for_run(Recorder *recorder, const struct trace_task *task, int64_t now)
{
    if (!task || task->run == TRACE_NONE)
        return;
    struct trace_run *run = &recorder->runs[task->run];
    while ((now - recorder->began_ns) / recorder->slot_ns >= TRACE_SLOTS) {
        recorder->slot_ns *= 2;
        for (uint32_t i = 0; i < recorder->run_count; i++) {
            uint32_t *slots = recorder->runs[i].slots;
            for (int slot = 0; slot < TRACE_SLOTS; slot++)
                slots[slot] = slot < TRACE_SLOTS / 2 ? slots[2 * slot] + slots[2 * slot + 1] : 0;
        }
    }
    run->count++;
    run->ended_ns = now;
    run->slots[(now - recorder->began_ns) / recorder->slot_ns]++;
}

static bool is_own(Recorder *recorder, pid_t tid)
{
    for (int i = 0; i < TRACE_OWN; i++)
        if (__atomic_load_n(&recorder->own[i], __ATOMIC_ACQUIRE) == tid)
            return true;
    return false;
}

void trace_own_begin(Recorder *recorder, pid_t tid)
{
    for (int i = 0; recorder && i < TRACE_OWN; i++) {
        int nobody = 0;
        if (__atomic_compare_exchange_n(&recorder->own[i], &nobody, tid, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            return;
    }
}

void trace_own_end(Recorder *recorder, pid_t tid)
{
    for (int i = 0; recorder && i < TRACE_OWN; i++) {
        int that = tid;
        if (__atomic_compare_exchange_n(&recorder->own[i], &that, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            return;
    }
}

void trace_loader_asked(Recorder *recorder, pid_t tid)
{
    struct trace_task *task = trace_task_get(recorder, tid);
    if (task)
        task->loading = true;
}

/* husk-init executes the first program on the person's behalf: that call belongs to the story. */
static bool is_husks(Recorder *recorder, const struct trace_task *task, const struct seccomp_notif *notif)
{
    return (task && task->loading && notif->data.nr != SYS_execve) || is_own(recorder, notif->pid);
}

bool trace_caller(Recorder *recorder, const struct seccomp_notif *notif, int *shown_tid)
{
    struct trace_task *task = trace_task_get(recorder, notif->pid);
    *shown_tid = task ? task->shown : (int)notif->pid;
    return is_husks(recorder, task, notif);
}

static bool is_from_thunk(const struct seccomp_data *data)
{
    return data->instruction_pointer > HUSK_RESIDENT &&
        data->instruction_pointer < HUSK_RESIDENT + HUSK_RESIDENT_LEAVE;
}

static bool is_loaders_last(const struct seccomp_data *data)
{
    return data->nr == SYS_munmap && data->instruction_pointer > HUSK_RESIDENT + HUSK_RESIDENT_LEAVE &&
        data->instruction_pointer < HUSK_RESIDENT_DATA;
}

static void continue_native(Recorder *recorder, int listener, const struct seccomp_notif *notif,
                            struct trace_task *task, bool own)
{
    const struct seccomp_data *data = &notif->data;
    if (task && task->loading && is_loaders_last(data))
        trace_program_begins(recorder, task);
    else if (task && !own && data->nr == SYS_exit_group)
        trace_process_ended(recorder, task, (int)data->args[0]);
    else if (task && !own && data->nr == SYS_exit) {
        if (task->run != TRACE_NONE && recorder->runs[task->run].threads == 1)
            trace_process_ended(recorder, task, (int)data->args[0]);
        else
            trace_task_drop(recorder, task);
    }
    notify_answer_continue(listener, notif->id);
}

/* A call that husk answers without Python, and whose result is therefore not seen: the host has continued it, or a
 * stopped thread has made it. */
void trace_answered_in_c(Recorder *recorder, const struct seccomp_notif *notif)
{
    struct trace_task *task = trace_task_get(recorder, notif->pid);
    if (is_husks(recorder, task, notif))
        return;
    switch (notif->data.nr) {
    case SYS_connect:
    case SYS_bind:
    case SYS_sendto:
    case SYS_sendmsg:
        note_address(recorder, notif->pid, &notif->data);
    }
    count_kind(recorder, task, &notif->data, TRACE_ANSWERED, 0);
    write_line(recorder, task, &notif->data, TRACE_ANSWERED, 0, core_now_ns());
}

bool trace_answer(Recorder *recorder, int listener, const struct seccomp_notif *notif)
{
    const struct seccomp_data *data = &notif->data;
    struct trace_task *task = trace_task_get(recorder, notif->pid);
    if (data->nr == HUSK_CALL) {
        if (data->args[ARG_husk_call_op] != HUSK_WAS_BEGUN || !is_from_thunk(data))
            return false;
        notify_answer_value(listener, notif->id, trace_call_had_begun(task, notif->pid, (const uint64_t *)data->args));
        return true;
    }
    uint32_t action = trace_rules_run(recorder->rules, recorder->rules_count, data);
    if (action != SECCOMP_RET_ALLOW && action != SECCOMP_RET_USER_NOTIF &&
        (action & SECCOMP_RET_ACTION_FULL) != SECCOMP_RET_ERRNO)
        action = SECCOMP_RET_ERRNO | ENOSYS; /* only the host could kill or trap; the call must not run in any case */
    bool native = action == SECCOMP_RET_ALLOW, refused = (action & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO;
    enum trace_way way = native ? TRACE_NATIVE : refused ? TRACE_REFUSED : TRACE_ANSWERED;
    int error = refused ? (int)(action & SECCOMP_RET_DATA) : 0;
    bool own = is_husks(recorder, task, notif);
    if (!own) {
        int64_t now = core_now_ns();
        count_for_run(recorder, task, now);
        if (way != TRACE_ANSWERED) {
            count_kind(recorder, task, data, way, error);
            write_line(recorder, task, data, way, error, now);
        }
        if (task) {
            struct trace_call *last = &task->past[task->received++ % TRACE_PAST];
            last->nr = data->nr;
            memcpy(last->args, data->args, sizeof last->args);
        }
    }
    if (native) {
        continue_native(recorder, listener, notif, task, own);
        return true;
    }
    if (refused) {
        if (error)
            notify_answer_error(listener, notif->id, error);
        else
            notify_answer_value(listener, notif->id, 0);
        return true;
    }
    return false; /* answered as without a trace */
}
