/* build: storm -pthread
 *
 * storm SECONDS [v]: four threads open, stat, read links, list and rename without pause, while SIGALRM, SIGCHLD and directed
 * signals come as fast as they can be sent, to handlers WITHOUT SA_RESTART. None of these calls may ever fail: Linux
 * does not interrupt look-ups. Meanwhile another thread checks the reverse: a blocking read does get its EINTR.
 * On a busy machine little happens in a second, so a storm goes on beyond SECONDS until there was enough of everything.
 */
#include "step.h"
#include <dirent.h>
#include <pthread.h>
#include <sys/time.h>

static volatile sig_atomic_t alarms, children, directed;
static volatile int stop;
static long failures, not_interrupted;
static volatile long rounds[4], interrupted; /* another thread looks at them meanwhile */
static pthread_t workers[4], reader;
static char first_failure[200];

static void on_signal(int sig) {
    if (sig == SIGALRM)
        alarms++;
    else if (sig == SIGCHLD)
        children++;
    else
        directed++;
}

#define PATIENCE 40 /* seconds more than asked for: what is few then is a mistake */

static int enough(long forks) {
    int all = alarms > 50 && children > 5 && directed > 100 && forks > 5 && interrupted > 20;
    for (int i = 0; i < 4; i++)
        all = all && rounds[i] >= 3;
    return all;
}

static void failed(const char *call) {
    if (__atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED) == 0)
        snprintf(first_failure, sizeof first_failure, "%s: %s", call, errname(errno));
}

#define CHECK(expression) ({ long r_ = (expression); if (r_ < 0) failed(#expression); r_; })

static void *work(void *number) {
    int me = (int)(intptr_t)number;
    char file[32], other[32], link[32], text[64];
    struct stat st;
    snprintf(file, sizeof file, "w%d", me);
    snprintf(other, sizeof other, "v%d", me);
    snprintf(link, sizeof link, "l%d", me);
    CHECK(symlink(file, link));
    while (!stop) {
        int fd = CHECK(open(file, O_RDWR | O_CREAT, 0644));
        CHECK(fstat(fd, &st));
        CHECK(write(fd, "x", 1));
        CHECK(close(fd));
        CHECK(stat(file, &st));
        CHECK(lstat(link, &st));
        CHECK(access("/usr/bin/env", X_OK));
        CHECK(readlink(link, text, sizeof text));
        CHECK(rename(file, other));
        CHECK(chmod(other, 0600));
        CHECK(rename(other, file));
        if (rounds[me] % 16 == 0) {
            DIR *dir = opendir(".");
            CHECK(dir ? 0 : -1);
            while (dir && readdir(dir))
                ;
            if (dir)
                closedir(dir);
            CHECK(getcwd(text, sizeof text) ? 0 : errno == ERANGE ? 0 : -1);
        }
        if (rounds[me] % 16 == 8) {
            CHECK(mkdir(other, 0755));
            CHECK(rmdir(other));
            CHECK(unlink(file));
        }
        rounds[me]++;
    }
    return NULL;
}

static void *read_forever(void *fd) {
    char byte;
    while (!stop) {
        ssize_t n = read((int)(intptr_t)fd, &byte, 1);
        if (n < 0 && errno == EINTR)
            interrupted++;
        else if (!stop)
            not_interrupted++;
    }
    return NULL;
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 2;
    struct sigaction action = {.sa_handler = on_signal};
    MUST(sigaction(SIGALRM, &action, NULL));
    MUST(sigaction(SIGCHLD, &action, NULL));
    MUST(sigaction(SIGUSR1, &action, NULL));
    int pipes[2];
    MUST(pipe(pipes));
    for (int i = 0; i < 4; i++)
        pthread_create(&workers[i], NULL, work, (void *)(intptr_t)i);
    pthread_create(&reader, NULL, read_forever, (void *)(intptr_t)pipes[0]);
    struct itimerval timer = {{0, 500}, {0, 500}};
    MUST(setitimer(ITIMER_REAL, &timer, NULL));
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    long forks = 0;
    for (int i = 0;; i++) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        double passed = now.tv_sec - begin.tv_sec + (now.tv_nsec - begin.tv_nsec) / 1e9;
        if (passed > seconds && (enough(forks) || passed > seconds + PATIENCE))
            break;
        for (int j = 0; j < 4; j++)
            pthread_kill(workers[j], SIGUSR1);
        pthread_kill(reader, SIGUSR1);
        if (i % 8 == 0) {
            pid_t pid = fork();
            if (pid == 0)
                _exit(0);
            if (pid < 0)
                failed("fork");
            else
                forks++;
            while (waitpid(-1, NULL, WNOHANG) > 0)
                ;
        }
        struct timespec pause = {0, 200000};
        nanosleep(&pause, NULL);
    }
    timer = (struct itimerval){0};
    setitimer(ITIMER_REAL, &timer, NULL);
    stop = 1;
    for (int i = 0; i < 4; i++)
        pthread_join(workers[i], NULL);
    close(pipes[1]);
    pthread_kill(reader, SIGUSR1);
    pthread_join(reader, NULL);
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        ;
    for (int i = 0; i < 4; i++)
        if (rounds[i] < 3)
            say("thread %d came only to %ld rounds", i, rounds[i]);
    say("alarms %s, children %s, directed %s, forks %s", alarms > 50 ? "many" : "FEW", children > 5 ? "many" : "FEW",
        directed > 100 ? "many" : "FEW", forks > 5 ? "many" : "FEW");
    say("reads interrupted %s, otherwise ended %ld", interrupted > 20 ? "many" : "FEW", not_interrupted);
    say("failures %ld%s%s", failures, failures ? ", first " : "", first_failure);
    if (argc > 2)
        dprintf(2, "rounds %ld %ld %ld %ld alarms %d children %d directed %d interrupted %ld\n", rounds[0], rounds[1], rounds[2],
                rounds[3], (int)alarms, (int)children, (int)directed, interrupted);
    return failures != 0;
}
