/* compat/probe: checks of clocks, timers and sleeping. */
#include "probe.h"

#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/timex.h>
#include <time.h>

#define MS 1000000L
#define PLAUSIBLE 1500000000L /* 2017: no machine that runs this is older, unless its clock was never set */

static volatile sig_atomic_t signals_seen;
static volatile int signal_value;

static void count_signal(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    signal_value = info->si_value.sival_int;
    signals_seen++;
}

static void catch_signal(int number, int flags)
{
    struct sigaction action = {.sa_sigaction = count_signal, .sa_flags = SA_SIGINFO | flags};
    NEED(sigaction(number, &action, NULL) == 0, "sigaction");
}

/* Waits at most two seconds for a signal. */
static bool signalled(void)
{
    for (int n = 0; n < 2000 && !signals_seen; n++)
        probe_sleep(1);
    return signals_seen > 0;
}

static int64_t realtime(void)
{
    struct timespec now;
    NEED(clock_gettime(CLOCK_REALTIME, &now) == 0, "clock_gettime");
    return now.tv_sec;
}

/* -- telling the time -- */

CHECK(time, "tells seconds since 1970, twice")
{
    long kept = 0, now = MUST(CALL(time, &kept));
    EFFECT(now == kept && now > PLAUSIBLE && labs(now - (long)realtime()) <= 2);
}

CHECK(gettimeofday, "agrees with clock_gettime")
{
    struct timeval now = {0, -1};
    MUST(CALL(gettimeofday, &now, NULL));
    EFFECT(now.tv_usec >= 0 && now.tv_usec < 1000000 && labs(now.tv_sec - (long)realtime()) <= 2);
}

static void clock_advances(int clock, long sleep_ms)
{
    struct timespec before = {-1, -1}, after = {-1, -1};
    MUST(CALL(clock_gettime, clock, &before));
    int64_t busy_until = probe_now() + sleep_ms * MS;
    while (probe_now() < busy_until)
        ; /* busy, since some clocks count only processor time */
    MUST(CALL(clock_gettime, clock, &after));
    int64_t passed = (after.tv_sec - before.tv_sec) * 1000000000LL + after.tv_nsec - before.tv_nsec;
    EFFECT(before.tv_nsec >= 0 && before.tv_nsec < 1000000000 && passed > 0);
}

CHECK(clock_gettime, "which_clock=CLOCK_REALTIME")
{
    clock_advances(CLOCK_REALTIME, 1);
}
CHECK(clock_gettime, "which_clock=CLOCK_MONOTONIC")
{
    clock_advances(CLOCK_MONOTONIC, 1);
}
CHECK(clock_gettime, "which_clock=CLOCK_PROCESS_CPUTIME_ID")
{
    clock_advances(CLOCK_PROCESS_CPUTIME_ID, 12);
}
CHECK(clock_gettime, "which_clock=CLOCK_THREAD_CPUTIME_ID")
{
    clock_advances(CLOCK_THREAD_CPUTIME_ID, 12);
}
CHECK(clock_gettime, "which_clock=CLOCK_MONOTONIC_RAW")
{
    clock_advances(CLOCK_MONOTONIC_RAW, 1);
}
CHECK(clock_gettime, "which_clock=CLOCK_REALTIME_COARSE")
{
    clock_advances(CLOCK_REALTIME_COARSE, 25);
}
CHECK(clock_gettime, "which_clock=CLOCK_MONOTONIC_COARSE")
{
    clock_advances(CLOCK_MONOTONIC_COARSE, 25);
}
CHECK(clock_gettime, "which_clock=CLOCK_BOOTTIME")
{
    clock_advances(CLOCK_BOOTTIME, 1);
}
CHECK(clock_gettime, "which_clock=CLOCK_TAI")
{
    clock_advances(CLOCK_TAI, 1);
}

CHECK(clock_gettime, "refuses a clock that does not exist")
{
    struct timespec now;
    ANSWERS(CALL(clock_gettime, 77, &now), EINVAL);
}

static void clock_resolution(int clock)
{
    struct timespec step = {-1, -1};
    MUST_OR(CALL(clock_getres, clock, &step), clock > CLOCK_BOOTTIME ? EINVAL : 0); /* alarms need a device */
    EFFECT(step.tv_sec == 0 && step.tv_nsec > 0 && step.tv_nsec <= 100 * MS);
}

CHECK(clock_getres, "which_clock=CLOCK_REALTIME")
{
    clock_resolution(CLOCK_REALTIME);
}
CHECK(clock_getres, "which_clock=CLOCK_MONOTONIC")
{
    clock_resolution(CLOCK_MONOTONIC);
}
CHECK(clock_getres, "which_clock=CLOCK_PROCESS_CPUTIME_ID")
{
    clock_resolution(CLOCK_PROCESS_CPUTIME_ID);
}
CHECK(clock_getres, "which_clock=CLOCK_MONOTONIC_RAW")
{
    clock_resolution(CLOCK_MONOTONIC_RAW);
}
CHECK(clock_getres, "which_clock=CLOCK_BOOTTIME")
{
    clock_resolution(CLOCK_BOOTTIME);
}
CHECK(clock_getres, "which_clock=CLOCK_REALTIME_ALARM: or no device for it")
{
    clock_resolution(CLOCK_REALTIME_ALARM);
}
CHECK(clock_getres, "which_clock=CLOCK_TAI")
{
    clock_resolution(CLOCK_TAI);
}

CHECK(clock_gettime, "which_clock=CLOCK_SGI_CYCLE: Linux has it no more")
{
    struct timespec now;
    ANSWERS(CALL(clock_gettime, 10, &now), EINVAL);
}

CHECK(clock_settime, "which_clock=CLOCK_MONOTONIC: cannot be set")
{
    struct timespec now = {1, 0};
    ANSWERS(CALL(clock_settime, CLOCK_MONOTONIC, &now), EINVAL, EPERM);
}

CHECK(clock_settime, "which_clock=CLOCK_REALTIME: refuses a time that is none")
{
    struct timespec now = {realtime(), 2000000000}; /* no kernel sets this */
    ANSWERS(CALL(clock_settime, CLOCK_REALTIME, &now), EINVAL, EPERM);
}

CHECK(settimeofday, "refuses a time that is none")
{
    struct timeval now = {realtime(), 2000000}; /* no kernel sets this */
    ANSWERS(CALL(settimeofday, &now, NULL), EINVAL, EPERM);
}

CHECK(adjtimex, "reads the clock's state")
{
    struct timex state = {.modes = 0}; /* changes nothing */
    MUST(CALL(adjtimex, &state));
    EFFECT(state.tick > 0 && labs(state.time.tv_sec - (long)realtime()) <= 2);
}

CHECK(clock_adjtime, "which_clock=CLOCK_REALTIME: reads its state")
{
    struct timex state = {.modes = 0};
    MUST(CALL(clock_adjtime, CLOCK_REALTIME, &state));
    EFFECT(state.tick > 0 && labs(state.time.tv_sec - (long)realtime()) <= 2);
}

/* -- sleeping -- */

CHECK(nanosleep, "sleeps as long as told")
{
    struct timespec wish = {0, 5 * MS};
    int64_t before = probe_now();
    MUST(CALL(nanosleep, &wish, NULL));
    EFFECT(probe_now() - before >= 5 * MS);
}

CHECK(nanosleep, "tells the rest after a signal")
{
    catch_signal(SIGALRM, SA_RESTART);
    struct itimerval soon = {.it_value = {0, 5000}};
    NEED(setitimer(ITIMER_REAL, &soon, NULL) == 0, "setitimer");
    struct timespec wish = {8, 0}, rest = {0, 0};
    long value = CALL(nanosleep, &wish, &rest);
    if (value != -EINTR)
        MUST(value);
    EFFECT(value == -EINTR && rest.tv_sec >= 1 && rest.tv_sec < 8);
}

CHECK(clock_nanosleep, "which_clock=CLOCK_MONOTONIC")
{
    struct timespec wish = {0, 5 * MS};
    int64_t before = probe_now();
    MUST(CALL(clock_nanosleep, CLOCK_MONOTONIC, 0, &wish, NULL));
    EFFECT(probe_now() - before >= 5 * MS);
}

CHECK(clock_nanosleep, "flags=TIMER_ABSTIME")
{
    int64_t until = probe_now() + 5 * MS;
    struct timespec wish = {until / 1000000000, until % 1000000000};
    MUST(CALL(clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &wish, NULL));
    EFFECT(probe_now() >= until && probe_now() - until < 8000 * MS);
}

/* -- timers that signal -- */

CHECK(alarm, "tells what was left, and its signal comes")
{
    catch_signal(SIGALRM, 0);
    MUST(CALL(alarm, 100));
    EFFECT(CALL(alarm, 1) >= 99);
    EFFECT(signalled());
}

CHECK(setitimer, "which=ITIMER_REAL")
{
    catch_signal(SIGALRM, 0);
    struct itimerval soon = {.it_value = {0, 2000}};
    MUST(CALL(setitimer, ITIMER_REAL, &soon, NULL));
    EFFECT(signalled());
}

static void cpu_timer(int which, int number)
{
    catch_signal(number, 0);
    struct itimerval soon = {.it_value = {0, 2000}};
    MUST(CALL(setitimer, which, &soon, NULL));
    int64_t until = probe_now() + 5000 * MS;
    while (!signals_seen && probe_now() < until)
        ;
    EFFECT(signals_seen > 0);
}

CHECK(setitimer, "which=ITIMER_VIRTUAL")
{
    cpu_timer(ITIMER_VIRTUAL, SIGVTALRM);
}

CHECK(setitimer, "which=ITIMER_PROF")
{
    cpu_timer(ITIMER_PROF, SIGPROF);
}

CHECK(getitimer, "tells the rest and the interval")
{
    struct itimerval wish = {.it_interval = {7, 0}, .it_value = {100, 0}}, got = {0};
    NEED(setitimer(ITIMER_REAL, &wish, NULL) == 0, "setitimer");
    MUST(CALL(getitimer, ITIMER_REAL, &got));
    EFFECT(got.it_interval.tv_sec == 7 && got.it_value.tv_sec >= 90 && got.it_value.tv_sec <= 100);
}

static int make_timer(int clock, int notify)
{
    struct sigevent event = {.sigev_notify = notify, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 4711};
    int timer = -1;
    long value = RAW(timer_create, clock, &event, &timer);
    NEED(value == 0, "timer_create");
    return timer;
}

static const struct itimerspec SOON = {.it_value = {0, 2 * MS}};
static const struct itimerspec LATER = {.it_interval = {7, 0}, .it_value = {100, 0}};

static void timer_fires(int clock)
{
    catch_signal(SIGUSR1, 0);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 4711};
    int timer = -1;
    MUST(CALL(timer_create, clock, &event, &timer));
    NEED(RAW(timer_settime, timer, 0, &SOON, NULL) == 0, "timer_settime");
    EFFECT(signalled() && signal_value == 4711);
}

CHECK(timer_create, "which_clock=CLOCK_MONOTONIC")
{
    timer_fires(CLOCK_MONOTONIC);
}
CHECK(timer_create, "which_clock=CLOCK_REALTIME")
{
    timer_fires(CLOCK_REALTIME);
}
CHECK(timer_create, "which_clock=CLOCK_BOOTTIME")
{
    timer_fires(CLOCK_BOOTTIME);
}

CHECK(timer_settime, "its signal carries the value")
{
    catch_signal(SIGUSR1, 0);
    int timer = make_timer(CLOCK_MONOTONIC, SIGEV_SIGNAL);
    MUST(CALL(timer_settime, timer, 0, &SOON, NULL));
    EFFECT(signalled() && signal_value == 4711);
}

CHECK(timer_gettime, "tells the rest and the interval")
{
    int timer = make_timer(CLOCK_MONOTONIC, SIGEV_NONE);
    NEED(RAW(timer_settime, timer, 0, &LATER, NULL) == 0, "timer_settime");
    struct itimerspec got = {0};
    MUST(CALL(timer_gettime, timer, &got));
    EFFECT(got.it_interval.tv_sec == 7 && got.it_value.tv_sec >= 90 && got.it_value.tv_sec <= 100);
}

CHECK(timer_getoverrun, "counts what a blocked signal missed")
{
    catch_signal(SIGUSR1, 0);
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    NEED(sigprocmask(SIG_BLOCK, &blocked, NULL) == 0, "sigprocmask");
    int timer = make_timer(CLOCK_MONOTONIC, SIGEV_SIGNAL);
    struct itimerspec often = {{0, MS}, {0, MS}};
    NEED(RAW(timer_settime, timer, 0, &often, NULL) == 0, "timer_settime");
    long missed = 0;
    for (int n = 0; n < 50 && missed == 0; n++) {
        probe_sleep(20);
        sigprocmask(SIG_UNBLOCK, &blocked, NULL);
        missed = MUST(CALL(timer_getoverrun, timer));
        sigprocmask(SIG_BLOCK, &blocked, NULL);
    }
    NEED(signals_seen > 0, "the timer's signal");
    EFFECT(missed > 0);
}

CHECK(timer_delete, "the timer is gone")
{
    int timer = make_timer(CLOCK_MONOTONIC, SIGEV_NONE);
    MUST(CALL(timer_delete, timer));
    struct itimerspec got;
    EFFECT(RAW(timer_gettime, timer, &got) == -EINVAL);
}

/* -- timers behind descriptors -- */

static void timerfd_fires(int clock)
{
    int fd = (int)MUST(CALL(timerfd_create, clock, TFD_CLOEXEC));
    NEED(timerfd_settime(fd, 0, &SOON, NULL) == 0, "timerfd_settime");
    uint64_t times = 0;
    EFFECT(read(fd, &times, sizeof times) == sizeof times && times >= 1);
    EFFECT(fcntl(fd, F_GETFD) == FD_CLOEXEC);
}

CHECK(timerfd_create, "clockid=CLOCK_MONOTONIC")
{
    timerfd_fires(CLOCK_MONOTONIC);
}
CHECK(timerfd_create, "clockid=CLOCK_REALTIME")
{
    timerfd_fires(CLOCK_REALTIME);
}
CHECK(timerfd_create, "clockid=CLOCK_BOOTTIME")
{
    timerfd_fires(CLOCK_BOOTTIME);
}

CHECK(timerfd_create, "clockid=CLOCK_BOOTTIME_ALARM: or not without privilege or device")
{
    MUST_OR(CALL(timerfd_create, CLOCK_BOOTTIME_ALARM, TFD_CLOEXEC), EPERM, EINVAL, EOPNOTSUPP);
}

CHECK(timerfd_create, "flags=TFD_NONBLOCK")
{
    int fd = (int)MUST(CALL(timerfd_create, CLOCK_MONOTONIC, TFD_NONBLOCK));
    uint64_t times;
    EFFECT(read(fd, &times, sizeof times) == -1 && errno == EAGAIN);
}

CHECK(timerfd_settime, "counts each interval")
{
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    NEED(fd >= 0, "timerfd_create");
    struct itimerspec often = {{0, MS}, {0, MS}};
    MUST(CALL(timerfd_settime, fd, 0, &often, NULL));
    probe_sleep(10);
    uint64_t times = 0;
    EFFECT(read(fd, &times, sizeof times) == sizeof times && times >= 5);
}

CHECK(timerfd_settime, "flags=TFD_TIMER_ABSTIME")
{
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    NEED(fd >= 0, "timerfd_create");
    struct itimerspec past = {.it_value = {0, 1}};
    MUST(CALL(timerfd_settime, fd, TFD_TIMER_ABSTIME, &past, NULL));
    uint64_t times = 0;
    EFFECT(read(fd, &times, sizeof times) == sizeof times && times == 1);
}

CHECK(timerfd_settime, "flags=TFD_TIMER_CANCEL_ON_SET: fires where no one sets the clock")
{
    int fd = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC);
    NEED(fd >= 0, "timerfd_create");
    struct itimerspec past = {.it_value = {1, 0}};
    MUST(CALL(timerfd_settime, fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &past, NULL));
    uint64_t times = 0;
    EFFECT(read(fd, &times, sizeof times) == sizeof times && times == 1);
}

CHECK(timerfd_gettime, "tells the rest and the interval")
{
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    NEED(fd >= 0 && timerfd_settime(fd, 0, &LATER, NULL) == 0, "timerfd_settime");
    struct itimerspec got = {0};
    MUST(CALL(timerfd_gettime, fd, &got));
    EFFECT(got.it_interval.tv_sec == 7 && got.it_value.tv_sec >= 90 && got.it_value.tv_sec <= 100);
}
