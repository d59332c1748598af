/* build: gate_changes -pthread
 *
 * Files made, dated, changed and removed, so often that a runtime may take these calls in a way of its own, at the
 * worst moments: with other umasks, from many threads, in children of fork and vfork, with bad pointers, with a full
 * table, with a signal at every instruction whose handler makes files too, forks, or jumps away. After each step it is
 * checked what the file is.
 */
#include "single_step.h"
#include <pthread.h>
#include <sys/resource.h>

static int sub = -1;
static char *volatile null, *volatile bad = (char *)8;

/* Make a file, give it times and modes, and remove it: how much of that was wrong. */
static int work(const char *name, mode_t mode, mode_t mask, int in_sub) {
    struct timespec when[2] = {{1000, 11}, {2000, 22}}, other[2] = {{0, UTIME_OMIT}, {3000, 33}};
    struct stat s;
    char text[16] = "";
    int dir = in_sub ? sub : AT_FDCWD, flags = in_sub ? O_RDWR | O_CLOEXEC : O_RDWR;
    int fd = openat(dir, name, flags | O_CREAT | O_EXCL, mode);
    if (fd < 0)
        return 1;
    int wrong = fstat(fd, &s) != 0 || (s.st_mode & 07777) != (mode & ~mask) || s.st_size != 0 || s.st_nlink != 1;
    wrong += !!(fcntl(fd, F_GETFD) & FD_CLOEXEC) != in_sub;
    wrong += openat(dir, name, O_WRONLY | O_CREAT | O_EXCL, mode) != -1 || errno != EEXIST;
    wrong += write(fd, name, strlen(name)) != (ssize_t)strlen(name);
    wrong += pread(fd, text, sizeof text, 0) != (ssize_t)strlen(name) || strcmp(text, name) != 0;
    wrong += futimens(fd, when) != 0 || fstat(fd, &s) != 0 || s.st_mtim.tv_sec != 2000 || s.st_mtim.tv_nsec != 22;
    wrong += fchmod(fd, 0640) != 0 || fstat(fd, &s) != 0 || (s.st_mode & 07777) != 0640;
    wrong += close(fd) != 0;
    wrong += utimensat(dir, name, other, 0) != 0 || fstatat(dir, name, &s, 0) != 0 || s.st_mtim.tv_sec != 3000 ||
             s.st_atim.tv_sec != 1000;
    wrong += fchmodat(dir, name, 0604, 0) != 0 || fstatat(dir, name, &s, 0) != 0 || (s.st_mode & 07777) != 0604;
    wrong += s.st_size != (off_t)strlen(name);
    fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC, mode);
    wrong += fd < 0 || fstat(fd, &s) != 0 || s.st_size != 0 || (s.st_mode & 07777) != 0604 || close(fd) != 0;
    wrong += unlinkat(dir, name, 0) != 0;
    wrong += fstatat(dir, name, &s, 0) != -1 || errno != ENOENT;
    wrong += unlinkat(dir, name, 0) != -1 || errno != ENOENT;
    /* And a directory of that name. */
    wrong += mkdirat(dir, name, mode) != 0 || fstatat(dir, name, &s, 0) != 0;
    wrong += (s.st_mode & 07777) != (mode & ~mask) || s.st_nlink != 2;
    wrong += mkdirat(dir, name, mode) != -1 || errno != EEXIST;
    wrong += utimensat(dir, name, when, 0) != 0 || fstatat(dir, name, &s, 0) != 0 || s.st_mtim.tv_sec != 2000;
    wrong += unlinkat(dir, name, 0) != -1 || errno != EISDIR;
    wrong += unlinkat(dir, name, AT_REMOVEDIR) != 0;
    return wrong + (unlinkat(dir, name, AT_REMOVEDIR) != -1 || errno != ENOENT);
}

static int work_on(int rounds, int who) {
    static const mode_t modes[] = {0666, 0600, 0777, 0};
    int wrong = 0;
    char name[16];
    for (int i = 0; i < rounds; i++) {
        snprintf(name, sizeof name, "n%d-%d", who, i % 7);
        wrong += work(name, modes[i % 3], 022, i & 1);
    }
    return wrong;
}

static void masks(void) {
    int wrong = 0;
    for (int i = 0; i < 120; i++) {
        mode_t mask = (mode_t)(i * 37 & 0777);
        if (i & 1)
            umask(mask);
        else
            syscall(SYS_umask, mask);
        struct stat s;
        int fd = open("masked", O_WRONLY | O_CREAT | O_EXCL, 0777);
        wrong += fd < 0 || fstat(fd, &s) != 0 || (s.st_mode & 07777) != (0777 & ~mask);
        close(fd);
        wrong += unlink("masked") != 0;
        wrong += mkdir("masked", 0777) != 0 || stat("masked", &s) != 0 || (s.st_mode & 07777) != (0777 & ~mask);
        wrong += rmdir("masked") != 0;
    }
    umask(022);
    say("masks: wrong %d", wrong);
}

static void *of_thread(void *who) { return (void *)(intptr_t)work_on(40, (int)(intptr_t)who); }

static void threads(void) {
    pthread_t all[6];
    intptr_t wrong = 0;
    for (int i = 0; i < 6; i++)
        MUST(pthread_create(&all[i], NULL, of_thread, (void *)(intptr_t)(i + 2)));
    wrong += work_on(20, 1);
    for (int i = 0; i < 6; i++) {
        void *of_it;
        pthread_join(all[i], &of_it);
        wrong += (intptr_t)of_it;
    }
    say("threads: wrong %ld", (long)wrong);
}

static int status_of(pid_t child) {
    int status;
    MUST(waitpid(child, &status, 0));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void children(void) {
    volatile int wrong = 0;
    for (int i = 0; i < 8; i++) {
        pid_t child = MUST(fork());
        if (!child)
            _exit(work_on(i * 4, 20 + i) != 0);
        wrong += work_on(6, 1);
        wrong += status_of(child);
    }
    volatile int there = 0;
    for (int i = 0; i < 12; i++) {
        pid_t child = vfork();
        if (!child) {
            there += work("of-vfork", 0666, 022, i & 1);
            _exit(0);
        }
        status_of(child);
        wrong += work_on(2, 1);
    }
    say("children: wrong %d, of vfork %d", wrong, there);
}

static void pointers(void) {
    char *pages = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(munmap(pages + 2 * 4096, 4096));
    struct timespec *across = (struct timespec *)(pages + 4096 - 16), *over = (struct timespec *)(pages + 8192 - 16);
    struct stat s;
    int fd = MUST(open("there", O_WRONLY | O_CREAT, 0644));
    for (int i = 0; i < 3; i++) {
        work_on(4, 1);
        STEP(open(null, O_WRONLY | O_CREAT, 0600));
        STEP(open(bad, O_WRONLY | O_CREAT, 0600));
        STEP(open("", O_WRONLY | O_CREAT, 0600));
        STEP(open("sub", O_WRONLY | O_CREAT, 0600));
        STEP(open("no/where", O_WRONLY | O_CREAT, 0600));
        STEP(openat(99, "new", O_WRONLY | O_CREAT, 0600));
        STEP(mkdir(null, 0700));
        STEP(mkdir(bad, 0700));
        STEP(mkdir("", 0700));
        STEP(mkdir("sub", 0700));
        STEP(mkdir("no/where", 0700));
        STEP(mkdirat(99, "new", 0700));
        STEP(mkdir("new/", 0700));
        STEP(rmdir(bad));
        STEP(rmdir("there"));
        STEP(rmdir("."));
        STEP(rmdir("new/"));
        STEP(unlink(null));
        STEP(unlink(bad));
        STEP(unlink("sub"));
        STEP(unlinkat(99, "new", 0));
        STEP(unlinkat(sub, "new", 0));
        STEP(unlinkat(AT_FDCWD, "there", 1 << 20));
        STEP(chmod(bad, 0600));
        STEP(fchmod(99, 0600));
        STEP(syscall(SYS_utimensat, fd, NULL, bad, 0));
        STEP(futimens(fd, (void *)bad));
        STEP(futimens(fd, over));
        STEP(futimens(99, NULL));
        STEP(utimensat(AT_FDCWD, "there", (void *)bad, 0));
        across[0] = (struct timespec){500 + i, 5}, across[1] = (struct timespec){600 + i, 6};
        STEP(futimens(fd, across));
        MUST(fstat(fd, &s));
        say("across two pages: %ld %ld", (long)s.st_atim.tv_sec, (long)s.st_mtim.tv_sec);
        across[1].tv_nsec = 1000000000;
        STEP(futimens(fd, across));
        time_t now = time(NULL);
        STEP(futimens(fd, NULL));
        MUST(fstat(fd, &s));
        say("now: %d", s.st_mtim.tv_sec >= now - 1 && s.st_mtim.tv_sec < now + 60);
    }
    close(fd);
    /* By a descriptor for reading the times are set as well. */
    fd = MUST(open("there", O_RDONLY));
    across[1].tv_nsec = 6;
    STEP(futimens(fd, across));
    close(fd);
    MUST(unlink("there"));
    munmap(pages, 2 * 4096);
}

static void full_table(void) {
    struct rlimit limit, before;
    MUST(getrlimit(RLIMIT_NOFILE, &before));
    limit = before;
    limit.rlim_cur = 32;
    MUST(setrlimit(RLIMIT_NOFILE, &limit));
    int wrong = 0, taken = 0, all[64], fd;
    while (taken < 64 && (fd = dup(1)) >= 0)
        all[taken++] = fd;
    for (int i = 0; i < 40; i++) {
        wrong += open("new", O_WRONLY | O_CREAT, 0600) != -1 || errno != EMFILE;
        wrong += access("new", F_OK) != -1 || errno != ENOENT;
    }
    for (int i = 0; i < taken; i++)
        close(all[i]);
    MUST(setrlimit(RLIMIT_NOFILE, &before));
    say("a full table: wrong %d, then %d", wrong, work_on(10, 1));
}

/* A program that was written just now can be executed: nobody else has it open for writing. */
static void programs(void) {
    static char bytes[1 << 20];
    int from = MUST(open("/bin/true", O_RDONLY)), wrong = 0;
    ssize_t size = MUST(read(from, bytes, sizeof bytes));
    close(from);
    for (int i = 0; i < 25; i++) {
        char name[16], *words[] = {name, NULL};
        snprintf(name, sizeof name, "./prog%d", i);
        int fd = MUST(open(name, O_WRONLY | O_CREAT | O_EXCL, 0755));
        wrong += write(fd, bytes, (size_t)size) != size;
        close(fd);
        pid_t child = vfork();
        if (!child) {
            execv(name, words);
            _exit(errno);
        }
        wrong += status_of(child) != 0;
        wrong += unlink(name) != 0;
    }
    say("programs: wrong %d", wrong);
}

/* ---- a signal at every instruction ------------------------------------------------------------------------------- */

static int ask_inside(void) { return work("inside", 0666, 022, 1); }

/* Make a file and remove it, stepped through. What a jump left is removed before. */
static int stepped_work(void) {
    struct timespec when[2] = {{1000, 11}, {2000, 22}};
    struct stat s;
    steps = 0;
    trap(1);
    int fd = open("stepped", O_WRONLY | O_CREAT | O_TRUNC, 0666);
    trap(0);
    if (fd < 0)
        return 1;
    trap(1);
    int set = futimens(fd, when);
    trap(0);
    int wrong = set || fstat(fd, &s) != 0 || s.st_mtim.tv_sec != 2000 || s.st_size != 0;
    wrong += close(fd);
    trap(1);
    int gone = unlinkat(AT_FDCWD, "stepped", 0);
    trap(0);
    /* A child that a handler forked may have been here first. */
    wrong += (gone != 0 && !(what == FORK && errno == ENOENT)) + (access("stepped", F_OK) == 0);
    trap(1);
    int made = mkdir("stepped-in", 0777);
    trap(0);
    wrong += (made != 0 && !(what == FORK && errno == EEXIST)) || (made == 0 && stat("stepped-in", &s) == 0 &&
                                                                  (s.st_mode & 07777) != 0755);
    trap(1);
    gone = rmdir("stepped-in");
    trap(0);
    return wrong + (gone != 0 && !(what == FORK && errno == ENOENT));
}

static void every_instruction(int mode, const char *title, int stride) {
    volatile int wrong = 0;
    what = mode;
    wrong_inside = 0;
    for (at = 0; at < 2400; at += at < 1500 ? stride : 60) {
        work("before", 0666, 022, 1); /* so that somebody listens */
        int here = at;
        if (mode == JUMP && sigsetjmp(away, 1) != 0) {
            unlink("stepped");
            rmdir("stepped-in");
            continue;
        }
        wrong += stepped_work() != 0;
        if (forked_here)
            _exit(wrong + work("of-fork", 0666, 022, 1) != 0);
        if (steps <= here)
            break; /* it has fewer instructions */
    }
    say("%s at every instruction: wrong %d inside %ld", title, wrong, wrong_inside);
}

static volatile long ticks;
static timer_t timer;
static const struct itimerspec soon = {{0, 0}, {0, 300000}};

static void tick(int number) {
    (void)number;
    int saved = errno;
    ticks++;
    wrong_inside += work("of-signal", 0666, 022, 0);
    timer_settime(timer, 0, &soon, NULL); /* the next one comes when this is done, however long that took */
    errno = saved;
}

static void storm(void) {
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    MUST(sigaction(SIGUSR1, &action, NULL));
    MUST(timer_create(CLOCK_MONOTONIC, &event, &timer));
    wrong_inside = 0;
    MUST(timer_settime(timer, 0, &soon, NULL));
    int wrong = work_on(200, 1);
    MUST(timer_delete(timer));
    say("a storm of signals: wrong %d inside %ld, came %d", wrong, wrong_inside, ticks > 0);
}

int main(void) {
    umask(022);
    MUST(mkdir("sub", 0755));
    sub = MUST(open("sub", O_RDONLY | O_DIRECTORY));
    say("at first: wrong %d", work_on(60, 1));
    masks();
    children();
    pointers();
    full_table();
    programs();
    storm();
    handle_steps();
    every_instruction(ASK, "a change", 7);
    every_instruction(FORK, "a fork", 23);
    every_instruction(JUMP, "a jump", 7);
    say("after that: wrong %d", work_on(20, 1));
    threads();
    say("at last: wrong %d", work_on(20, 1));
    return 0;
}
