/* build: time_timers -pthread
 *
 * Timers: setitimer, alarm, timer_create, timerfd, sleeping, and the clocks they go by. Nothing here says how long
 * something took.
 */
#include "step.h"
#include <poll.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>

static volatile int ticks, last_signal, last_code, last_value;
static void tick(int sig, siginfo_t *info, void *context) {
    (void)context;
    ticks++, last_signal = sig, last_code = info->si_code, last_value = info->si_value.sival_int;
}

static void await(int wanted) {
    while (ticks < wanted)
        nap_ms(1);
}

static void spin(int wanted) { /* a timer of processor time needs some */
    while (ticks < wanted)
        for (volatile int i = 0; i < 10000; i++)
            ;
}

static void interval_timers(void) {
    struct itimerval soon = {{0, 0}, {0, 2000}}, again = {{0, 2000}, {0, 2000}}, none = {0}, found;
    STEP(getitimer(ITIMER_REAL, &found));
    say("armed %d", found.it_value.tv_usec || found.it_value.tv_sec);
    STEP(setitimer(ITIMER_REAL, &soon, NULL));
    await(1);
    say("signal %d", last_signal);
    STEP(setitimer(ITIMER_REAL, &again, &found));
    say("was armed %d", found.it_value.tv_usec || found.it_value.tv_sec);
    await(4);
    STEP(setitimer(ITIMER_REAL, &none, &found));
    say("interval %ld", (long)found.it_interval.tv_usec);
    ticks = 0;
    STEP(setitimer(ITIMER_VIRTUAL, &soon, NULL));
    spin(1);
    say("signal %d", last_signal);
    ticks = 0;
    STEP(setitimer(ITIMER_PROF, &soon, NULL));
    spin(1);
    say("signal %d", last_signal);
    struct itimerval wrong = {{0, 0}, {0, 1000000}};
    STEP(setitimer(ITIMER_REAL, &wrong, NULL));
    STEP(setitimer(7, &soon, NULL));
    STEP(getitimer(ITIMER_REAL, (void *)8));
    STEP(alarm(1000));
    STEP(alarm(500) > 900);
    pid_t pid = fork();
    if (pid == 0) {
        STEP(alarm(0)); /* not inherited */
        _exit(0);
    }
    wait_for(pid);
    STEP(alarm(0) > 400);
}

static void posix_timers(void) {
    timer_t timer, quiet;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN, .sigev_value.sival_int = 9};
    struct itimerspec soon = {{0, 0}, {0, 2000000}}, often = {{0, 1000000}, {0, 1000000}}, none = {0}, found;
    ticks = 0;
    STEP(timer_create(CLOCK_MONOTONIC, &event, &timer));
    STEP(timer_gettime(timer, &found));
    STEP(timer_settime(timer, 0, &soon, NULL));
    await(1);
    say("signal %d code %d value %d", last_signal == SIGRTMIN, last_code == SI_TIMER, last_value);
    sigset_t block, old;
    sigemptyset(&block);
    sigaddset(&block, SIGRTMIN);
    MUST(sigprocmask(SIG_BLOCK, &block, &old));
    STEP(timer_settime(timer, 0, &often, &found));
    nap_ms(20);
    /* Taken while it is blocked: a handler could run once more before the question, and that one has no overruns. */
    siginfo_t taken;
    STEP(sigwaitinfo(&block, &taken) == SIGRTMIN);
    say("overruns counted %d, told with it %d", timer_getoverrun(timer) > 3, taken.si_overrun > 3);
    STEP(timer_settime(timer, 0, &none, &found));
    say("interval %ld", found.it_interval.tv_nsec);
    while (sigtimedwait(&block, NULL, &(struct timespec){0, 0}) > 0)
        ;
    MUST(sigprocmask(SIG_SETMASK, &old, NULL));
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    struct itimerspec past = {{0, 0}, {now.tv_sec - 1, 0}};
    ticks = 0;
    STEP(timer_settime(timer, TIMER_ABSTIME, &past, NULL));
    await(1);
    STEP(timer_delete(timer));
    STEP(timer_delete(timer));
    STEP(timer_settime(timer, 0, &soon, NULL));
    event.sigev_notify = SIGEV_NONE;
    STEP(timer_create(CLOCK_REALTIME, &event, &quiet));
    soon.it_value.tv_sec = 1000;
    STEP(timer_settime(quiet, 0, &soon, NULL));
    STEP(timer_gettime(quiet, &found));
    say("left %d", found.it_value.tv_sec >= 900);
    pid_t pid = fork();
    if (pid == 0) {
        STEP(timer_gettime(quiet, &found)); /* not inherited */
        _exit(0);
    }
    wait_for(pid);
    STEP(timer_delete(quiet));
    event.sigev_notify = SIGEV_THREAD_ID, event._sigev_un._tid = gettid(), event.sigev_signo = SIGUSR1;
    ticks = 0;
    STEP(timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer));
    soon.it_value = (struct timespec){0, 1000000};
    STEP(timer_settime(timer, 0, &soon, NULL));
    spin(1);
    say("signal %d", last_signal);
    STEP(timer_delete(timer));
    event._sigev_un._tid = 1;
    STEP(syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer));
    STEP(syscall(SYS_timer_create, 77, NULL, &timer));
}

static void descriptors(void) {
    int fd = STEP(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    uint64_t count = 0;
    struct itimerspec soon = {{0, 1000000}, {0, 1000000}}, far = {{0, 0}, {1000, 0}}, none = {0}, found;
    STEP(read(fd, &count, 8));
    STEP(timerfd_settime(fd, 0, &soon, NULL));
    nap_ms(20);
    STEP(read(fd, &count, 4));
    STEP(read(fd, &count, 8));
    say("expired more than once %d", count > 1);
    STEP(timerfd_settime(fd, 0, &far, &found));
    say("interval %ld", found.it_interval.tv_nsec);
    STEP(read(fd, &count, 8));
    STEP(timerfd_gettime(fd, &found));
    say("left %d", found.it_value.tv_sec >= 900);
    struct pollfd poll_fd = {fd, POLLIN, 0};
    STEP(poll(&poll_fd, 1, 0));
    far.it_value.tv_sec = 1;
    STEP(timerfd_settime(fd, TFD_TIMER_ABSTIME, &far, NULL)); /* long past */
    STEP(poll(&poll_fd, 1, -1));
    STEP(read(fd, &count, 8));
    STEP(timerfd_settime(fd, 0, &none, NULL));
    STEP(timerfd_settime(fd, 77, &none, NULL));
    STEP(timerfd_settime(0, 0, &none, NULL));
    STEP(write(fd, &count, 8));
    STEP(lseek(fd, 0, SEEK_SET));
    STEP(timerfd_create(CLOCK_MONOTONIC, 1));
    STEP(timerfd_create(CLOCK_PROCESS_CPUTIME_ID, 0));
    STEP(timerfd_create(CLOCK_REALTIME_ALARM, 0));
    close(fd);
    STEP(close(MUST(timerfd_create(CLOCK_BOOTTIME, 0))));
}

static void clocks(void) {
    const clockid_t ids[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID,
                             CLOCK_MONOTONIC_RAW, CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE, CLOCK_BOOTTIME, CLOCK_TAI, 55};
    struct timespec t, resolution;
    for (unsigned i = 0; i < sizeof ids / sizeof *ids; i++) {
        int got = clock_gettime(ids[i], &t), direct = syscall(SYS_clock_gettime, ids[i], &t);
        say("clock %d: %d %d, resolution %d", ids[i], got, direct, clock_getres(ids[i], &resolution) ? -errno : (int)resolution.tv_nsec);
    }
    STEP(clock_settime(CLOCK_REALTIME, &(struct timespec){1, 0}));
    STEP(clock_settime(CLOCK_MONOTONIC, &(struct timespec){1, 0}));
    STEP(clock_settime(CLOCK_BOOTTIME, &(struct timespec){1, 0}));
    STEP(clock_settime(CLOCK_PROCESS_CPUTIME_ID, &(struct timespec){1, 0}));
    STEP(clock_settime(99, &(struct timespec){1, 0}));
    STEP(settimeofday(&(struct timeval){1, 0}, NULL));
    STEP(nanosleep(&(struct timespec){0, 1000000000}, NULL));
    STEP(nanosleep(&(struct timespec){-1, 0}, NULL));
    STEP(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &(struct timespec){1, 0}, NULL));
    STEP(clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, &(struct timespec){0, 1}, NULL));
    clockid_t of_child;
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    STEP(clock_getcpuclockid(pid, &of_child));
    STEP(clock_gettime(of_child, &t));
    MUST(kill(pid, SIGKILL));
    wait_for(pid);
    STEP(clock_gettime(of_child, &t));
    struct tms all;
    OK(times(&all));
    OK(time(NULL));
}

int main(void) {
    struct sigaction action = {.sa_sigaction = tick, .sa_flags = SA_SIGINFO | SA_RESTART};
    const int signals[] = {SIGALRM, SIGVTALRM, SIGPROF, SIGRTMIN, SIGUSR1};
    for (int i = 0; i < 5; i++)
        MUST(sigaction(signals[i], &action, NULL));
    interval_timers();
    posix_timers();
    descriptors();
    clocks();
    return 0;
}
