/* native: reaping tracees that died while attached. Only their tracer can, and until then the parent waits. */
#include "remote/remote.h"

#include "host/host.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#define LOOK_AGAIN_NS 20000000

/* Tracees that could not be reaped at once. A dead group leader becomes a zombie only when its last thread is gone,
 * which may take long. So no receiver waits for it: a thread of our own does. */
static pthread_mutex_t dying_lock = PTHREAD_MUTEX_INITIALIZER;
static struct tracee {
    struct tracee *next; /* owned */
    pid_t tid;
} *dying;
static bool reaper_runs;

/* A forked child has neither the thread that reaps nor tracees of its own. */
static void forget_in_child(void)
{
    dying_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    dying = NULL;
    reaper_runs = false;
}

static __attribute__((constructor)) void install_fork_handler(void)
{
    pthread_atfork(NULL, NULL, forget_in_child);
}

static bool reaped(pid_t tid)
{
    int status;
    pid_t got = waitpid(tid, &status, __WALL | WNOHANG); /* any thread of husk may wait for another thread's tracee */
    return got < 0 ? errno != EINTR : got == tid && (WIFEXITED(status) || WIFSIGNALED(status));
}

static void *reap_dying(void *unused)
{
    (void)unused;
    for (;;) {
        nanosleep(&(struct timespec){0, LOOK_AGAIN_NS}, NULL);
        pthread_mutex_lock(&dying_lock);
        for (struct tracee **link = &dying; *link;) {
            struct tracee *one = *link;
            if (!reaped(one->tid)) {
                link = &one->next;
                continue;
            }
            *link = one->next;
            free(one);
        }
        bool more = reaper_runs = dying != NULL;
        pthread_mutex_unlock(&dying_lock);
        if (!more)
            return NULL;
    }
}

void remote_reap_tracee(pid_t tid)
{
    for (int tries = 0; tries < 20; tries++) {
        if (reaped(tid))
            return;
        nanosleep(&(struct timespec){0, 50000}, NULL);
    }
    struct tracee *one = malloc(sizeof *one);
    if (!one)
        return;
    pthread_mutex_lock(&dying_lock);
    *one = (struct tracee){dying, tid};
    dying = one;
    if (!reaper_runs) {
        pthread_t thread;
        reaper_runs = pthread_create(&thread, NULL, reap_dying, NULL) == 0;
        if (reaper_runs)
            pthread_detach(thread);
    }
    pthread_mutex_unlock(&dying_lock);
}

bool remote_is_dead(pid_t tid)
{
    char text[512];
    ssize_t n = host_read_proc(text, sizeof text, "/proc/%d/stat", tid);
    if (n <= 0)
        return true;
    char *end = strrchr(text, ')');
    return !end || end[2] == 'Z' || end[2] == 'X';
}
