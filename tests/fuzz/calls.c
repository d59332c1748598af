/* build: fuzz_calls -static -pthread
 *
 * fuzz_calls LIST SEED CALLS ROUNDS: makes random system calls, plausible and absurd ones, from several threads and
 * processes. LIST has one "number name" for each call of the registry. A worker makes CALLS calls, at most, from one seed;
 * it may crash, block or be replaced. The supervisor, which fuzzes nothing, ends it and starts the next with the next
 * seed. After each round the supervisor checks that the box still answers, prints one line, and waits for one.
 * fuzz_calls LIST SEED CALLS replays one worker, and prints each call before it is made.
 *
 * Only calls that would end the worker every time are left out (exit, exit_group; a child makes the others), and
 * processes whose death would end the supervisor. A child makes PTRACE_TRACEME too: it would make the supervisor a
 * tracer, which has to reap each thread itself.
 */
#define _GNU_SOURCE
#include "worker.h"

#include <termios.h>

static void answers(void) {
    /* In an image the guest may own these, and may have removed its own permissions. */
    chmod("/", 0755);
    chmod("/tmp", 01777);
    char text[16] = "";
    int fd = open("/given/file", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, 8) != 8 || memcmp(text, "ORIGINAL", 8) != 0) {
        printf("the box no longer reads: %s\n", strerror(errno));
        exit(1);
    }
    close(fd);
    fd = open("/tmp/answer", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, "x", 1) != 1 || close(fd) != 0 || unlink("/tmp/answer") != 0) {
        printf("the box no longer writes: %s\n", strerror(errno));
        exit(1);
    }
    pid_t child = vfork();
    if (child == 0) {
        execl("/fuzz/fuzz_calls", "fuzz_calls", NULL); /* static, on a read-only mount: always there */
        _exit(errno);
    }
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        printf("the box no longer executes: status %x, %s\n", status, strerror(errno));
        exit(1);
    }
}

/* With -t the workers have the terminal too, and may have stopped its output, changed its modes or taken its foreground. */
static struct termios modes;
static bool on_a_terminal;

static void take_the_terminal(void) {
    if (!on_a_terminal)
        return;
    tcsetpgrp(0, getpgrp());
    tcflow(0, TCOON);
    tcsetattr(0, TCSANOW, &modes);
    printf("\n"); /* after whatever the workers wrote there */
}

/* Is there another round? Reads a line. */
static bool asked_for_more(void) {
    char byte = 0;
    while (byte != '\n')
        if (read(0, &byte, 1) != 1)
            return false;
    return true;
}

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

/* Which calls the fuzzing reached, and their results: "call NAME MADE GOOD ERRNO COUNT …". */
static void tell_answers(void) {
    for (unsigned i = 0; i < call_count; i++) {
        unsigned long made = 0;
        for (int error = 0; error <= MOST_ERRNO; error++)
            made += shared->answers[i][error];
        printf("call %s %lu %u", calls[i].name, made, shared->answers[i][0]);
        for (int error = 1; error <= MOST_ERRNO; error++)
            if (shared->answers[i][error])
                printf(" %d %u", error, shared->answers[i][error]);
        printf("\n");
    }
}

int main(int words_given, char **words) {
    if (words_given < 4)
        return words_given == 1 ? 0 : 2; /* see answers() */
    setvbuf(stdout, NULL, _IOLBF, 0);
    read_list(words[1]);
    uint64_t seed = strtoull(words[2], NULL, 0);
    unsigned long each = strtoul(words[3], NULL, 0), rounds = words_given > 4 ? strtoul(words[4], NULL, 0) : 0;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    supervisor = getpid();
    on_a_terminal = tcgetattr(0, &modes) == 0;
    signal(SIGTTOU, SIG_IGN);
    signal(SIGTTIN, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    signal(SIGTSTP, SIG_IGN);
    umask(0);
    if (!rounds) {
        saying = true;
        work(seed, each, 0);
    }
    unsigned long made = 0, crashed = 0, stuck = 0, whole = 0;
    for (unsigned long round = 0; round < rounds; round++) {
        pid_t pids[WORKERS];
        unsigned long seen[WORKERS] = {0};
        double since[WORKERS], nudged[WORKERS];
        for (int i = 0; i < WORKERS; i++) {
            shared->made[i] = 0;
            since[i] = nudged[i] = now();
            fflush(stdout);
            pids[i] = fork();
            if (pids[i] == 0)
                work(seed + round * WORKERS + i, each, i);
        }
        for (int left = WORKERS; left;) {
            for (int i = 0; i < WORKERS; i++) {
                int status;
                if (pids[i] <= 0)
                    continue;
                if (waitpid(pids[i], &status, WNOHANG) == pids[i]) {
                    *(status == 0 ? &whole : &crashed) += 1;
                    kill(-pids[i], SIGKILL); /* what it started */
                    pids[i] = 0, left--;
                } else if (shared->made[i] != seen[i]) {
                    seen[i] = shared->made[i], since[i] = nudged[i] = now();
                } else if (now() - since[i] > 0.7) {
                    stuck++, since[i] = now() + 1e9;
                    take_the_terminal();
                    for (int thread = 0; thread < THREADS; thread++)
                        printf("stuck in %s\n", calls[shared->within[i][thread]].name);
                    kill(-pids[i], SIGKILL);
                    kill(pids[i], SIGKILL);
                } else if (now() - nudged[i] > 0.1) { /* stopped, or without its clocks: continue it, or kill it */
                    nudged[i] = now();
                    kill(pids[i], SIGCONT);
                    kill(pids[i], SIGALRM);
                }
            }
            usleep(1000);
        }
        for (int i = 0; i < WORKERS; i++)
            made += shared->made[i];
        take_the_terminal();
        answers();
        printf("round %lu made %lu whole %lu crashed %lu stuck %lu\n", round, made, whole, crashed, stuck);
        if (!asked_for_more()) {
            take_the_terminal();
            tell_answers();
            return 1;
        }
    }
    printf("done\n");
    return 0;
}
