/* build: gate_torture -pthread
 *
 * Questions about names, asked often enough that a runtime may answer them without a system call, at the worst moments:
 * from many threads, in children of fork and vfork, with bad pointers, with a signal at every single instruction whose
 * handler asks too, forks, or jumps away. Every answer is checked against the first one.
 */
#include "single_step.h"
#include <pthread.h>
#include <spawn.h>

#define NAMES 5
static const char *names[NAMES] = {"/usr/bin/env", "/usr/lib", "/usr/bin/no-such-name", "own", "sub/inner"};
static struct stat first[NAMES];
static int errors[NAMES];
static char own_link[64];
static char *volatile null, *volatile bad = (char *)8; /* volatile: the compiler knows that these cannot work */

static int same(const struct stat *a, const struct stat *b) {
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_mode == b->st_mode && a->st_size == b->st_size &&
           a->st_nlink == b->st_nlink && a->st_uid == b->st_uid && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* 0: as the first time. */
static int ask(int i) {
    struct stat s;
    memset(&s, 0x55, sizeof s);
    errno = 0;
    int result = i % 2 ? lstat(names[i], &s) : stat(names[i], &s);
    if (result ? errno != errors[i] : errors[i] || !same(&s, &first[i]))
        return 1;
    char text[64] = "";
    if (i == 3 && (readlink("link", text, sizeof text) != 10 || memcmp(text, own_link, 11)))
        return 2;
    return access(names[i], F_OK) ? errno != errors[i] : errors[i] != 0;
}

static int ask_all(int rounds) {
    int wrong = 0;
    for (int i = 0; i < rounds * NAMES; i++)
        wrong += ask(i % NAMES) != 0;
    return wrong;
}

static void *of_thread(void *rounds) {
    return (void *)(intptr_t)ask_all((int)(intptr_t)rounds);
}

static void threads(void) {
    pthread_t all[8];
    long wrong = 0;
    for (int i = 0; i < 8; i++)
        MUST(pthread_create(&all[i], NULL, of_thread, (void *)(intptr_t)100));
    wrong += ask_all(100);
    for (int i = 0; i < 8; i++) {
        void *of_it;
        pthread_join(all[i], &of_it);
        wrong += (intptr_t)of_it;
    }
    say("threads: wrong %ld", wrong);
}

static int status_of(pid_t child) {
    int status;
    MUST(waitpid(child, &status, 0));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void children(void) {
    int wrong = 0;
    for (int i = 0; i < 10; i++) {
        pid_t child = MUST(fork());
        if (!child) {
            int found = ask_all(i * 4);
            pid_t grandchild = fork();
            if (!grandchild)
                _exit(ask_all(10) != 0);
            _exit(found + status_of(grandchild) != 0);
        }
        wrong += ask_all(2);
        wrong += status_of(child);
    }
    say("children: wrong %d", wrong);
    /* A vfork child has its parent's memory, and a working directory and descriptors of its own. */
    volatile int there = 0, here = 0;
    for (int i = 0; i < 20; i++) {
        pid_t child = vfork();
        if (!child) {
            struct stat s;
            there += chdir("sub") || stat("inner", &s) || !same(&s, &first[4]) || !stat("own", &s);
            _exit(0);
        }
        status_of(child);
        here += ask_all(1);
    }
    say("vfork: wrong there %d here %d", there, here);
    char *argv[] = {"/bin/true", NULL}, *envp[] = {NULL};
    int spawned = 0;
    for (int i = 0; i < 10; i++) {
        pid_t child;
        spawned += posix_spawn(&child, argv[0], NULL, NULL, argv, envp) || status_of(child) || ask_all(1);
    }
    say("posix_spawn: wrong %d", spawned);
}

static void pointers(void) {
    char *pages = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct stat s;
    MUST(munmap(pages + 2 * 4096, 4096));
    MUST(mprotect(pages, 4096, PROT_READ | PROT_WRITE));
    for (int i = 0; i < 30; i++)
        ask_all(1);
    STEP(stat(null, &s));
    STEP(stat(bad, &s));
    STEP(stat(pages + 2 * 4096, &s));
    char *end = pages + 2 * 4096;
    strcpy(end - 9, "/usr/lib");
    STEP(stat(end - 9, &s));
    strcpy(end - 5, "/usr");
    STEP(stat(end - 5, &s));
    memcpy(end - 5, "/usr/", 5);
    STEP(stat(end - 5, &s));
    strcpy(pages + 4096 - 4, "/usr/lib");
    STEP(stat(pages + 4096 - 4, &s));
    say("across a page: same %d", same(&s, &first[1]));
    STEP(stat("/usr/lib", (struct stat *)null));
    STEP(stat("/usr/lib", (struct stat *)bad));
    STEP(stat("/usr/no-such-name", (struct stat *)bad));
    STEP(stat("/usr/lib", (struct stat *)(end - 8)));
    STEP(stat("/usr/lib", (struct stat *)(end - sizeof s)));
    STEP(stat("/usr/lib", (struct stat *)(end - sizeof s + 8)));
    STEP(stat("/usr/lib", (struct stat *)(pages + 4096 - 16)));
    say("buffer across a page: same %d", same((struct stat *)(pages + 4096 - 16), &first[1]));
    MUST(mprotect(pages, 4096, PROT_READ));
    STEP(stat("/usr/lib", (struct stat *)(pages + 64)));
    STEP(stat("/usr/lib", (struct stat *)(pages + 4096 - 16)));
    char longer[600];
    memset(longer, '/', sizeof longer);
    strcpy(longer + 400, "usr/lib");
    STEP(stat(longer, &s));
    memset(longer, 'x', 400);
    STEP(stat(longer, &s));
    STEP(fstatat(-1, "own", &s, 0));
    STEP(fstatat(99, "own", &s, 0));
    STEP(fstatat(-1, "/usr/lib", &s, 0));
    STEP(fstatat(AT_FDCWD, "", &s, 0));
    STEP(fstatat(AT_FDCWD, "own", &s, 0x40000000));
    int sub = MUST(open("sub", O_RDONLY | O_DIRECTORY));
    int wrong = 0;
    for (int i = 0; i < 50; i++)
        wrong += fstatat(sub, "inner", &s, 0) || !same(&s, &first[4]);
    say("by descriptor: wrong %d", wrong);
    close(sub);
    STEP(fstatat(sub, "inner", &s, 0));
    char text[64];
    STEP(readlink("link", text, 3));
    STEP(readlink("link", text, sizeof text));
    STEP(readlink("link", bad, 20));
    STEP(readlink("own", text, sizeof text));
    memset(text, '.', sizeof text);
    STEP(readlink("link", text, sizeof text));
    say("left alone: %d", text[10] == '.');
}

/* ---- a signal at every instruction ------------------------------------------------------------------------------- */

static int ask_inside(void) { return ask(1) != 0; }

/* One question, stepped through. */
static int stepped_ask(int i) {
    struct stat s;
    int result, number;
    memset(&s, 0x55, sizeof s);
    steps = 0;
    errno = 0;
    trap(1);
    result = stat(names[i], &s);
    trap(0);
    number = errno;
    return result ? number != errors[i] : errors[i] || !same(&s, &first[i]);
}

static void every_instruction(int mode, const char *title, int stride) {
    volatile int wrong = 0;
    static const int asked[] = {1, 2, 4};
    what = mode;
    wrong_inside = 0;
    for (volatile int i = 0; i < 3; i++) {
        for (at = i * stride / 3; at < 700; at += at < 260 ? stride : 60) {
            ask_all(1); /* so that somebody listens */
            int here = at;
            if (mode == JUMP && sigsetjmp(away, 1) != 0)
                continue;
            wrong += stepped_ask(asked[i]);
            if (forked_here)
                _exit(wrong + ask_all(3) != 0);
            if (steps <= here)
                break; /* it has fewer instructions */
        }
    }
    say("%s at every instruction: wrong %d inside %ld", title, wrong, wrong_inside);
}

static volatile long ticks;
static void tick(int number) {
    (void)number;
    int saved = errno;
    wrong_inside += ask((int)(ticks++ % NAMES)) != 0;
    errno = saved;
}

static void storm(void) {
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct sigaction action = {.sa_handler = tick};
    MUST(sigaction(SIGUSR1, &action, NULL));
    MUST(timer_create(CLOCK_MONOTONIC, &event, &timer));
    struct itimerspec often = {{0, 300000}, {0, 300000}};
    wrong_inside = 0;
    MUST(timer_settime(timer, 0, &often, NULL));
    int wrong = ask_all(400);
    MUST(timer_delete(timer));
    say("a storm of signals: wrong %d inside %ld, came %d", wrong, wrong_inside, ticks > 0);
}

int main(void) {
    MUST(mkdir("sub", 0755));
    close(MUST(open("own", O_WRONLY | O_CREAT, 0644)));
    close(MUST(open("sub/inner", O_WRONLY | O_CREAT, 0644)));
    strcpy(own_link, "/some/text");
    MUST(symlink(own_link, "link"));
    for (int i = 0; i < NAMES; i++)
        errors[i] = (i % 2 ? lstat(names[i], &first[i]) : stat(names[i], &first[i])) ? errno : 0;
    say("at first: wrong %d", ask_all(100));
    threads();
    children();
    pointers();
    storm();
    handle_steps();
    every_instruction(ASK, "a question", 3);
    every_instruction(FORK, "a fork", 6);
    every_instruction(JUMP, "a jump", 3);
    say("at last: wrong %d", ask_all(20));
    return 0;
}
