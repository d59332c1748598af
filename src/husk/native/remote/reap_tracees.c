/* native: tracees that died in our hands. What is traced can be reaped by its tracer alone, so each must be. */
#include "core.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LOOK_AGAIN_NS 20000000

/* Tracees that died in our hands and could not be reaped at once. Whoever is traced can be reaped by no one else, and its
 * parent waits for ever; but a dead leader shows only when its last thread is gone, so no receiver may wait for it. */
static pthread_mutex_t lost_lock = PTHREAD_MUTEX_INITIALIZER;
static struct lost {
    struct lost *next;
    pid_t tid;
} *lost;
static bool janitor_runs;

static bool reaped(pid_t tid)
{
    int status;
    pid_t got = waitpid(tid, &status, __WALL | WNOHANG); /* any thread of ours may wait for a tracee of another */
    return got < 0 ? errno != EINTR : got == tid && (WIFEXITED(status) || WIFSIGNALED(status));
}

static void *janitor(void *unused)
{
    (void)unused;
    for (;;) {
        nanosleep(&(struct timespec){0, LOOK_AGAIN_NS}, NULL);
        pthread_mutex_lock(&lost_lock);
        for (struct lost **link = &lost; *link;) {
            struct lost *one = *link;
            if (!reaped(one->tid)) {
                link = &one->next;
                continue;
            }
            *link = one->next;
            free(one);
        }
        bool more = janitor_runs = lost != NULL;
        pthread_mutex_unlock(&lost_lock);
        if (!more)
            return NULL;
    }
}

/* A ptrace request failed: the tracee is dying. */
void tracee_lost(pid_t tid)
{
    for (int tries = 0; tries < 20; tries++) {
        if (reaped(tid))
            return;
        nanosleep(&(struct timespec){0, 50000}, NULL);
    }
    struct lost *one = malloc(sizeof *one);
    if (!one)
        return;
    pthread_mutex_lock(&lost_lock);
    *one = (struct lost){lost, tid};
    lost = one;
    if (!janitor_runs) {
        pthread_t thread;
        janitor_runs = pthread_create(&thread, NULL, janitor, NULL) == 0;
        if (janitor_runs)
            pthread_detach(thread);
    }
    pthread_mutex_unlock(&lost_lock);
}

bool task_is_dead(pid_t tid)
{
    char path[32], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return true;
    text[n] = 0;
    char *end = strrchr(text, ')');
    return !end || end[2] == 'Z' || end[2] == 'X';
}
