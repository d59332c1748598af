/* build: gate_opens -pthread
 *
 * Files opened for reading, so often that a runtime may hand over descriptors in a way of its own, at the worst
 * moments: from many threads, in children of fork and vfork, with a full table, with other things at the number that the runtime
 * may use, after all descriptors were closed, with a signal at every single instruction whose handler opens too, forks,
 * or jumps away. What was opened is read: each descriptor must be of the file that was asked for.
 */
#include "single_step.h"
#include <dirent.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define FILES 5
#define HIGH 1024 /* where a runtime may have something of its own */

static int sub = -1;
static char *volatile null, *volatile bad = (char *)8;

/* 0: the file is there, and is the right one. */
static int ask(int i) {
    char name[16], text[16] = "";
    int fd, flags = i % 2 ? O_RDONLY | O_CLOEXEC : O_RDONLY;
    snprintf(name, sizeof name, "file%d", i);
    if (i == 3)
        fd = openat(sub, name, flags);
    else if (i == 4)
        return open("no-such-name", flags) != -1 || errno != ENOENT;
    else
        fd = open(name, flags);
    if (fd < 0)
        return 1;
    int wrong = read(fd, text, sizeof text) != 5 || strcmp(text, name) != 0;
    wrong |= !!(fcntl(fd, F_GETFD) & FD_CLOEXEC) != (i % 2);
    return close(fd) || wrong;
}

static int ask_all(int rounds) {
    int wrong = 0;
    for (int i = 0; i < rounds * FILES; i++)
        wrong += ask(i % FILES) != 0;
    return wrong;
}

static int open_descriptors(void) {
    DIR *all = opendir("/proc/self/fd");
    int count = 0;
    MUST(all ? 0 : -1);
    while (readdir(all))
        count++;
    closedir(all);
    return count - 3; /* the two dots, and the listing's own */
}

/* In a process with threads the C library opens in another way, but for streams that are no point of cancellation. */
static int ask_by_stream(int i) {
    char name[16], text[16] = "";
    snprintf(name, sizeof name, i == 3 ? "sub/file%d" : "file%d", i == 4 ? 0 : i);
    FILE *file = fopen(name, i % 2 ? "rce" : "rc");
    if (!file)
        return 1;
    int wrong = fread(text, 1, sizeof text, file) != 5 || strcmp(text, strrchr(name, 'f')) != 0;
    wrong |= !!(fcntl(fileno(file), F_GETFD) & FD_CLOEXEC) != (i % 2);
    return fclose(file) || wrong;
}

static void *of_thread(void *rounds) {
    int wrong = 0;
    for (int i = 0; i < (int)(intptr_t)rounds * FILES; i++)
        wrong += ask_by_stream(i % FILES) != 0;
    return (void *)(intptr_t)wrong;
}

static void threads(void) {
    pthread_t all[8];
    long wrong = 0;
    for (int i = 0; i < 8; i++)
        MUST(pthread_create(&all[i], NULL, of_thread, (void *)(intptr_t)200));
    wrong += (intptr_t)of_thread((void *)200) + ask_all(10);
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
        if (!child)
            _exit(ask_all(i * 5) != 0);
        wrong += ask_all(5);
        wrong += status_of(child);
    }
    say("children: wrong %d", wrong);
    volatile int there = 0, here = 0;
    for (int i = 0; i < 20; i++) {
        pid_t child = vfork();
        if (!child) {
            int first = open("file0", O_RDONLY); /* in the child's table only */
            there += first < 0 || ask(1) || ask(3);
            _exit(0);
        }
        status_of(child);
        here += ask_all(1);
    }
    say("vfork: wrong there %d here %d", there, here);
}

static void pointers(void) {
    for (int i = 0; i < 10; i++)
        ask_all(1);
    STEP(open(null, O_RDONLY));
    STEP(open(bad, O_RDONLY));
    STEP(open("", O_RDONLY));
    STEP(open("file0/", O_RDONLY));
    STEP(open("file0", O_RDONLY | O_DIRECTORY));
    STEP(open("closed", O_RDONLY));
    STEP(open("link", O_RDONLY | O_NOFOLLOW));
    STEP(openat(-1, "file0", O_RDONLY));
    STEP(openat(99, "file0", O_RDONLY));
    int wrong = 0;
    for (int i = 0; i < 50; i++) {
        int fd = open("link", O_RDONLY), flags = fcntl(fd, F_GETFL);
        char text[16] = "";
        wrong += read(fd, text, sizeof text) != 5 || strcmp(text, "file2") != 0 || flags & (O_NONBLOCK | O_ACCMODE);
        close(fd);
        fd = open("file1", O_RDONLY | O_NONBLOCK | O_NOCTTY);
        wrong += !(fcntl(fd, F_GETFL) & O_NONBLOCK) || write(fd, "x", 1) != -1 || errno != EBADF;
        close(fd);
        fd = open("sub", O_RDONLY | O_DIRECTORY);
        struct stat s;
        wrong += fstat(fd, &s) != 0 || !S_ISDIR(s.st_mode) || read(fd, text, 1) != -1 || errno != EISDIR;
        wrong += faccessat(fd, "file3", R_OK, 0) != 0;
        close(fd);
    }
    say("kinds: wrong %d", wrong);
    /* A lock belongs to the open file: it goes with the last descriptor, at once. */
    wrong = 0;
    int holder = open("file2", O_RDONLY);
    for (int i = 0; i < 100; i++) {
        int fd = open("file2", O_RDONLY);
        wrong += flock(fd, LOCK_EX | LOCK_NB) != 0;
        close(fd);
        wrong += flock(holder, LOCK_EX | LOCK_NB) != 0;
        wrong += flock(holder, LOCK_UN) != 0;
    }
    close(holder);
    say("locks: wrong %d", wrong);
}

static void full_table(void) {
    struct rlimit limit, before;
    MUST(getrlimit(RLIMIT_NOFILE, &before));
    limit = before;
    limit.rlim_cur = 32;
    MUST(setrlimit(RLIMIT_NOFILE, &limit));
    int last = -1, fd, wrong = 0, taken = 0, all[64];
    while (taken < 64 && (fd = open("file0", O_RDONLY)) >= 0) {
        wrong += fd <= last;
        all[taken++] = last = fd;
    }
    say("a full table: last %d errno %d wrong %d", last, errno, wrong);
    for (int i = 0; i < 20; i++)
        wrong += open("file0", O_RDONLY) != -1 || errno != EMFILE;
    close(7);
    wrong += open("file1", O_RDONLY) != 7;
    for (int i = 0; i < taken; i++)
        close(all[i]);
    MUST(setrlimit(RLIMIT_NOFILE, &before));
    say("then: wrong %d, asked %d", wrong, ask_all(20));
}

/* What the guest itself puts there is not to be touched. */
static void number_taken(void) {
    struct rlimit limit;
    MUST(getrlimit(RLIMIT_NOFILE, &limit));
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max < 2 * HIGH ? limit.rlim_max : 2 * HIGH;
    if (limit.rlim_cur <= HIGH + 1 || setrlimit(RLIMIT_NOFILE, &limit) < 0) {
        say("taken: %s", "nothing was read there");
        return;
    }
    int ends[2], wrong = 0;
    char text[64] = "";
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends));
    MUST(dup2(ends[0], HIGH));
    for (int i = 0; i < 10; i++)
        MUST(send(ends[1], "message", 7, 0) == 7 ? 0 : -1);
    wrong += ask_all(100);
    for (int i = 0; i < 10; i++)
        wrong += recv(HIGH, text, sizeof text, MSG_DONTWAIT) != 7 || strcmp(text, "message") != 0;
    wrong += recv(HIGH, text, sizeof text, MSG_DONTWAIT) != -1 || errno != EAGAIN;
    MUST(close(HIGH));
    close(ends[0]), close(ends[1]);
    wrong += ask_all(20);
    limit.rlim_cur = before;
    MUST(setrlimit(RLIMIT_NOFILE, &limit));
    say("taken: %s", wrong ? "something was read there" : "nothing was read there");
}

static void all_closed(void) {
    pid_t child = MUST(fork());
    if (!child) {
        for (int i = 0; i < 60; i++)
            ask_all(1);
        syscall(SYS_close_range, 3, ~0U, 0);
        sub = open("sub", O_RDONLY | O_DIRECTORY);
        _exit(sub != 3 || ask_all(60) != 0);
    }
    say("all closed: wrong %d", status_of(child));
}

/* ---- a signal at every instruction ------------------------------------------------------------------------------- */

static int ask_inside(void) { return ask(1) != 0; }

/* One open, stepped through. The descriptor stays open where a jump comes after it, as natively. */
static int stepped_ask(const char *name, int missing) {
    char text[16] = "";
    steps = 0;
    errno = 0;
    trap(1);
    int fd = open(name, O_RDONLY);
    trap(0);
    if (missing)
        return fd != -1 || errno != ENOENT;
    /* A child that was forked after the call shares the position. */
    int wrong = pread(fd, text, sizeof text, 0) != 5 || strcmp(text, name) != 0;
    return close(fd) || wrong;
}

static void every_instruction(int mode, const char *title, int stride) {
    volatile int wrong = 0;
    what = mode;
    wrong_inside = 0;
    for (volatile int i = 0; i < 2; i++) {
        for (at = i * stride / 2; at < 900; at += at < 420 ? stride : 60) {
            ask_all(1); /* so that somebody listens */
            int here = at;
            if (mode == JUMP && sigsetjmp(away, 1) != 0)
                continue;
            wrong += stepped_ask(i ? "no-such-name" : "file2", i);
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
    wrong_inside += ask((int)(ticks++ % FILES)) != 0;
    errno = saved;
}

static void storm(void) {
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
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
    for (int i = 0; i < FILES; i++) {
        char name[32];
        snprintf(name, sizeof name, "%sfile%d", i == 3 ? "sub/" : "", i);
        int fd = MUST(open(name, O_WRONLY | O_CREAT, 0644));
        MUST(write(fd, i == 3 ? name + 4 : name, 5) == 5 ? 0 : -1);
        close(fd);
    }
    close(MUST(open("closed", O_WRONLY | O_CREAT, 0)));
    MUST(symlink("file2", "link"));
    sub = MUST(open("sub", O_RDONLY | O_DIRECTORY));
    int before = open_descriptors();
    say("at first: wrong %d", ask_all(100));
    children();
    pointers();
    full_table();
    number_taken();
    all_closed();
    storm();
    say("open: %d more", open_descriptors() - before);
    handle_steps();
    every_instruction(ASK, "an open", 3);
    every_instruction(FORK, "a fork", 6);
    say("still: %d more", open_descriptors() - before);
    every_instruction(JUMP, "a jump", 3);
    say("after that: wrong %d", ask_all(20));
    threads();
    say("at last: wrong %d", ask_all(20));
    return 0;
}
