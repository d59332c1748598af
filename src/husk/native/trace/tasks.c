/* native/trace: who calls: threads, the processes they belong to, and the programs these run.
 *
 * husk keeps no process table; a trace needs one to tell a story. It is made of what is seen: a thread is looked up in
 * the host's /proc when its first call arrives, while it waits, and forgotten when it calls exit. A thread that is
 * killed stays until the table is full; then those that are gone are swept out. */
#include "trace/trace.h"

#include "host/host.h"
#include "loader/resident.h"
#include "notify/notify.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS (TRACE_TASKS / 4)
#define RESIDENT(field) (HUSK_RESIDENT_DATA + offsetof(struct husk_resident, field))

static uint32_t *find(Recorder *recorder, pid_t tid)
{
    uint32_t *link = &recorder->task_buckets[(uint32_t)tid % BUCKETS];
    while (*link != TRACE_NONE && recorder->tasks[*link].tid != tid)
        link = &recorder->tasks[*link].next;
    return link;
}

static void drop(Recorder *recorder, uint32_t *link)
{
    struct trace_task *task = &recorder->tasks[*link];
    uint32_t number = *link;
    if (task->run != TRACE_NONE)
        recorder->runs[task->run].threads--;
    *link = task->next;
    task->next = recorder->task_free;
    recorder->task_free = number;
    recorder->task_count--;
}

void trace_task_drop(Recorder *recorder, struct trace_task *task)
{
    drop(recorder, find(recorder, task->tid));
}

static void sweep(Recorder *recorder)
{
    char path[32];
    for (uint32_t bucket = 0; bucket < BUCKETS; bucket++)
        for (uint32_t *link = &recorder->task_buckets[bucket]; *link != TRACE_NONE;) {
            snprintf(path, sizeof path, "/proc/%d", recorder->tasks[*link].tid);
            if (access(path, F_OK) < 0)
                drop(recorder, link);
            else
                link = &recorder->tasks[*link].next;
        }
}

/* The last of the numbers behind a label of /proc/TID/status: namespaces are listed from the outermost one. */
static int last_number(const char *status, const char *label)
{
    const char *line = strstr(status, label), *end = line ? strchr(line + 1, '\n') : NULL;
    int number = 0;
    if (!end)
        return 0;
    for (const char *at = line + strlen(label); at < end; at++)
        if (*at >= '0' && *at <= '9' && (at[-1] == '\t' || at[-1] == ' '))
            number = atoi(at);
    return number;
}

static uint32_t new_run(Recorder *recorder, pid_t tgid, int pid, int parent)
{
    if (recorder->run_count == TRACE_RUNS) {
        recorder->lost_runs++;
        return TRACE_NONE;
    }
    struct trace_run *run = &recorder->runs[recorder->run_count];
    *run = (struct trace_run){.tgid = tgid, .pid = pid, .parent = parent, .status = -1};
    run->began_ns = run->ended_ns = core_now_ns();
    return recorder->run_count++;
}

/* The program of a process whose first thread has ended before others. */
static uint32_t run_of(const Recorder *recorder, pid_t tgid)
{
    for (uint32_t number = recorder->run_count; number-- > 0;)
        if (recorder->runs[number].tgid == tgid && recorder->runs[number].threads)
            return number;
    return TRACE_NONE;
}

struct trace_task *trace_task_get(Recorder *recorder, pid_t tid)
{
    uint32_t *link = find(recorder, tid);
    if (*link != TRACE_NONE)
        return &recorder->tasks[*link];
    if (recorder->task_free == TRACE_NONE) {
        sweep(recorder);
        if (recorder->task_free == TRACE_NONE) {
            recorder->lost_tasks++;
            return NULL;
        }
        link = find(recorder, tid);
    }
    char status[4096];
    if (host_read_proc(status, sizeof status, "/proc/%d/status", tid) <= 0) {
        recorder->lost_tasks++; /* it was killed just now */
        return NULL;
    }
    pid_t tgid = last_number(status, "\nTgid:"), parent = last_number(status, "\nPPid:");
    int shown = last_number(status, "\nNSpid:");
    bool first = recorder->run_count == 0;
    uint32_t run = TRACE_NONE, leader = *find(recorder, tgid), above = *find(recorder, parent);
    if (tgid != tid)
        run = leader != TRACE_NONE ? recorder->tasks[leader].run : run_of(recorder, tgid);
    if (run == TRACE_NONE)
        run = new_run(recorder, tgid, last_number(status, "\nNStgid:"),
                      above != TRACE_NONE && recorder->tasks[above].run != TRACE_NONE
                          ? recorder->runs[recorder->tasks[above].run].pid : 0);
    uint32_t number = recorder->task_free;
    struct trace_task *task = &recorder->tasks[number];
    recorder->task_free = task->next;
    /* The first of all is still husk-init: its program begins when the first loader leaves. */
    *task = (struct trace_task){.tid = tid, .tgid = tgid, .shown = shown, .run = run, .next = TRACE_NONE,
                                .loading = first};
    *find(recorder, tid) = number;
    recorder->task_count++;
    if (run != TRACE_NONE)
        recorder->runs[run].threads++;
    return task;
}

/* Forget the other threads of the process: they are gone, or about to be. */
static void drop_others(Recorder *recorder, const struct trace_task *task)
{
    if (task->run != TRACE_NONE && recorder->runs[task->run].threads == 1)
        return;
    for (uint32_t bucket = 0; bucket < BUCKETS; bucket++)
        for (uint32_t *link = &recorder->task_buckets[bucket]; *link != TRACE_NONE;) {
            if (recorder->tasks[*link].tgid == task->tgid && &recorder->tasks[*link] != task)
                drop(recorder, link);
            else
                link = &recorder->tasks[*link].next;
        }
}

void trace_process_ended(Recorder *recorder, struct trace_task *task, int status)
{
    if (task->run != TRACE_NONE)
        recorder->runs[task->run].status = status & 0xff;
    drop_others(recorder, task);
    trace_task_drop(recorder, task);
}

/* The thread waits in the loader's last call: name and arguments are there, and the program cannot change them yet. */
void trace_program_begins(Recorder *recorder, struct trace_task *task)
{
    task->loading = false;
    drop_others(recorder, task);
    if (task->run == TRACE_NONE)
        return;
    struct trace_run *run = &recorder->runs[task->run];
    if (run->executed) {
        uint32_t number = new_run(recorder, task->tgid, run->pid, run->parent);
        run->threads--;
        task->run = number;
        if (number == TRACE_NONE)
            return;
        run = &recorder->runs[number];
        run->threads = 1;
    }
    run->executed = true;
    char argv[TRACE_TEXT], exe[TRACE_TEXT];
    ssize_t argv_size = host_read_proc(argv, sizeof argv, "/proc/%d/cmdline", task->tid);
    ssize_t exe_size = guest_read(task->tid, RESIDENT(exe), exe, sizeof exe - 1);
    argv_size = argv_size < 0 ? 0 : argv_size;
    exe[exe_size < 0 ? 0 : exe_size] = 0;
    exe_size = strlen(exe);
    run->texts = malloc(argv_size + exe_size + 1);
    if (!run->texts)
        return;
    memcpy(run->texts, argv, argv_size);
    memcpy(run->texts + argv_size, exe, exe_size);
    run->argv_size = argv_size;
    run->exe_size = exe_size;
}
