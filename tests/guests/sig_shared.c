/* build: sig_shared -pthread
 *
 * A signal for the whole process, while two threads wait in calls that a handler interrupts. One of them runs the handler;
 * the other is not affected and waits on. Without SA_RESTART only the thread that ran the handler sees EINTR.
 */
#include "step.h"
#include <pthread.h>

#define ROUNDS 8
static volatile int runs, interrupted, opened, strange, tids[2];
static char *const names[2] = {"one", "two"};
static void handler(int sig) { (void)sig; runs++; }

static void *wait_in_open(void *number) {
    tids[(intptr_t)number] = gettid();
    for (;;) {
        int fd = open(names[(intptr_t)number], O_RDONLY);
        if (fd >= 0) {
            __atomic_add_fetch(&opened, 1, __ATOMIC_SEQ_CST);
            close(fd);
            return NULL;
        }
        __atomic_add_fetch(errno == EINTR ? &interrupted : &strange, 1, __ATOMIC_SEQ_CST);
        if (errno != EINTR) { say("open: %d %s", errno, errname(errno)); }
    }
}

static void round_of(int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    pthread_t threads[2];
    sigset_t usr1;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    runs = interrupted = opened = strange = tids[0] = tids[1] = 0;
    MUST(sigaction(SIGUSR1, &action, NULL));
    for (int i = 0; i < 2; i++)
        MUST(mkfifo(names[i], 0600));
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, wait_in_open, (void *)(intptr_t)i);
    pthread_sigmask(SIG_BLOCK, &usr1, NULL); /* not for this thread */
    for (int i = 1; i <= ROUNDS; i++) {
        for (int j = 0; j < 2; j++) {
            while (!tids[j])
                nap_ms(1);
            until_asleep(tids[j]); /* in its open */
        }
        MUST(kill(getpid(), SIGUSR1));
        while (runs < i)
            nap_ms(1);
    }
    for (int i = 0; i < 2; i++) {
        int fd = MUST(open(names[i], O_WRONLY));
        pthread_join(threads[i], NULL);
        close(fd);
        unlink(names[i]);
    }
    say("%s: opened %d, strange errors %d, interrupted %s", flags ? "restarting" : "not restarting", opened, strange,
        interrupted ? "yes" : "no");
    pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);
}

int main(void) {
    round_of(SA_RESTART);
    round_of(0);
    return 0;
}
