/* build: pty_session -lutil
 *
 * Sessions and their controlling terminals: who gets one by opening it, /dev/tty, foreground groups, the signals of
 * keys, background readers and writers, and the end of a session. Each part is a child in a session of its own.
 */
#include "step.h"
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>

static int master;
static char name[64];

static void make(void) {
    master = MUST(posix_openpt(O_RDWR | O_NOCTTY));
    MUST(grantpt(master)), MUST(unlockpt(master));
    MUST(ptsname_r(master, name, sizeof name) ? -1 : 0);
}

static long tty_number(void) {
    char text[512], *rest;
    int fd = MUST(open("/proc/self/stat", O_RDONLY));
    ssize_t n = MUST(read(fd, text, sizeof text - 1));
    close(fd);
    text[n] = 0;
    int tty = 0;
    rest = strrchr(text, ')');
    sscanf(rest + 2, "%*c %*d %*d %*d %d", &tty);
    return tty;
}

static long terminal_of(int fd) {
    struct stat found;
    MUST(fstat(fd, &found));
    return (long)found.st_rdev;
}

static void in_session(const char *label, void (*part)(void)) {
    say("-- %s", label);
    make();
    pid_t child = MUST(fork());
    if (!child) {
        alarm(60);
        MUST(setsid());
        part();
        _exit(0);
    }
    int status;
    while (waitpid(child, &status, 0) < 0)
        ;
    if (WIFSIGNALED(status))
        say("died of %s", sigabbrev_np(WTERMSIG(status)));
    else if (status)
        say("exit code %d", WEXITSTATUS(status));
    close(master);
}

static void opening(void) {
    STEP(open("/dev/tty", O_RDWR));
    say("tty number %ld", tty_number());
    int quiet = MUST(open(name, O_RDWR | O_NOCTTY));
    say("with O_NOCTTY: tty number %ld", tty_number());
    STEP(tcgetpgrp(quiet));
    int writer = MUST(open(name, O_WRONLY));
    say("writing only: tty number %ld", tty_number());
    int taken = MUST(open(name, O_RDWR | O_CLOEXEC));
    say("opened: tty number is the terminal's %d, close-on-exec %d", tty_number() == terminal_of(taken),
        fcntl(taken, F_GETFD));
    say("session is mine %d, foreground is mine %d", tcgetsid(taken) == getpid(), tcgetpgrp(taken) == getpgrp());
    int tty = MUST(open("/dev/tty", O_RDWR));
    say("/dev/tty: session is mine %d, isatty %d", tcgetsid(tty) == getpid(), isatty(tty));
    STEP(write(tty, "through tty\n", 12));
    char text[13]; /* the newline is two bytes there, and they may come later than the rest */
    for (size_t got = 0; got < sizeof text;)
        got += MUST(read(master, text + got, sizeof text - got));
    say("master: %.11s", text);
    STEP(ioctl(taken, TIOCSCTTY, 0)); /* it is already */
    int other = MUST(posix_openpt(O_RDWR)), second;
    unlockpt(other);
    second = MUST(open(ptsname(other), O_RDWR));
    STEP(ioctl(second, TIOCSCTTY, 0)); /* a session has one */
    close(writer), close(other);
}

static void ordinary(void) {
    /* Not a session leader: opening takes nothing. */
    pid_t child = MUST(fork());
    if (!child) {
        int slave = MUST(open(name, O_RDWR));
        say("a child: tty number %ld", tty_number());
        STEP(ioctl(slave, TIOCSCTTY, 0));
        STEP(open("/dev/tty", O_RDWR));
        _exit(0);
    }
    MUST(waitpid(child, NULL, 0));
    int slave = MUST(open(name, O_RDWR | O_NOCTTY));
    STEP(ioctl(slave, TIOCSCTTY, 0));
    child = MUST(fork());
    if (!child) {
        MUST(setsid());
        say("another session: tty number %ld", tty_number());
        STEP(ioctl(slave, TIOCSCTTY, 0)); /* another session has it */
        int again = MUST(open(name, O_RDWR));
        say("nor by opening: tty number %ld", tty_number());
        STEP(tcgetpgrp(again));
        _exit(0);
    }
    MUST(waitpid(child, NULL, 0));
}

static volatile sig_atomic_t hung_up;

static void on_hup(int signal) {
    (void)signal;
    hung_up++;
}

static void leaving(void) {
    signal(SIGHUP, on_hup), signal(SIGCONT, SIG_IGN);
    int slave = MUST(open(name, O_RDWR));
    STEP(ioctl(slave, TIOCNOTTY));
    say("SIGHUP came %d, tty number %ld", hung_up, tty_number());
    STEP(open("/dev/tty", O_RDWR));
    STEP(ioctl(slave, TIOCNOTTY));
    STEP(ioctl(slave, TIOCSCTTY, 0));
    say("back: %d", tty_number() == terminal_of(slave));
}

/* A child in a process group of its own; `front`: it is given the terminal before it runs on. */
static pid_t job(int slave, int front, void (*part)(int)) {
    int go[2];
    MUST(pipe(go));
    pid_t child = MUST(fork());
    if (!child) {
        char byte;
        setpgid(0, 0);
        close(go[1]);
        if (read(go[0], &byte, 1) < 0)
            _exit(1);
        part(slave);
        _exit(0);
    }
    setpgid(child, child);
    if (front)
        MUST(tcsetpgrp(slave, child));
    close(go[0]), close(go[1]);
    return child;
}

static void show_end(const char *label, pid_t child) {
    int status;
    MUST(waitpid(child, &status, WUNTRACED));
    if (WIFSTOPPED(status))
        say("%s: stopped by %s", label, sigabbrev_np(WSTOPSIG(status)));
    else if (WIFSIGNALED(status))
        say("%s: died of %s", label, sigabbrev_np(WTERMSIG(status)));
    else
        say("%s: exit code %d", label, WEXITSTATUS(status));
}

static void reads(int slave) {
    char text[16];
    ssize_t n = read(slave, text, sizeof text);
    say("read = %zd %s", n, n < 0 ? errname(errno) : "");
}

static void writes(int slave) {
    say("write = %zd", write(slave, "x", 1));
}

static void sets_modes(int slave) {
    struct termios t;
    tcgetattr(slave, &t);
    say("tcsetattr = %d", tcsetattr(slave, TCSANOW, &t));
}

static void waits_for_key(int slave) {
    if (write(slave, "ready", 5) != 5)
        _exit(1);
    for (;;)
        pause();
}

static void key(const char *label, int slave, const char *byte) {
    char text[64];
    pid_t child = job(slave, 1, waits_for_key);
    MUST(read(master, text, sizeof text));
    MUST(write(master, byte, 1));
    show_end(label, child);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    tcsetpgrp(slave, getpgrp());
}

static void jobs(void) {
    signal(SIGTTOU, SIG_IGN);
    int slave = MUST(open(name, O_RDWR));
    struct termios t;
    MUST(tcgetattr(slave, &t));
    t.c_lflag &= ~(tcflag_t)ECHO;
    MUST(tcsetattr(slave, TCSANOW, &t));
    key("^C", slave, "\003");
    key("^\\", slave, "\034");
    key("^Z", slave, "\032");
    signal(SIGTTOU, SIG_DFL);
    pid_t child = job(slave, 0, reads);
    show_end("a background reader", child);
    MUST(write(master, "typed\n", 6));
    MUST(tcsetpgrp(slave, child));
    MUST(kill(-child, SIGCONT));
    show_end("in front", child);
    signal(SIGTTOU, SIG_IGN);
    MUST(tcsetpgrp(slave, getpgrp()));
    signal(SIGTTOU, SIG_DFL);
    show_end("a background writer", job(slave, 0, writes));
    t.c_lflag |= TOSTOP;
    MUST(tcsetattr(slave, TCSANOW, &t));
    child = job(slave, 0, writes);
    show_end("a background writer, tostop", child);
    kill(child, SIGKILL), waitpid(child, NULL, 0);
    child = job(slave, 0, sets_modes);
    show_end("setting modes in the background", child);
    kill(child, SIGKILL), waitpid(child, NULL, 0);
    STEP(tcsetpgrp(slave, 1 << 22));
    STEP(tcsetpgrp(slave, -1));
    struct winsize w = {1, 2, 0, 0};
    sigset_t winch;
    sigemptyset(&winch), sigaddset(&winch, SIGWINCH);
    sigprocmask(SIG_BLOCK, &winch, NULL);
    STEP(ioctl(master, TIOCSWINSZ, &w));
    struct timespec patience = {10, 0};
    STEP(sigtimedwait(&winch, NULL, &patience) == SIGWINCH);
}

static void dies_with_children(void) {
    /* The leader's end hangs up on the foreground group. */
    int slave = MUST(open(name, O_RDWR)), up[2];
    MUST(pipe(up));
    if (!MUST(fork())) {
        sigset_t hup, before;
        sigemptyset(&hup), sigaddset(&hup, SIGHUP);
        sigprocmask(SIG_BLOCK, &hup, &before);
        signal(SIGHUP, on_hup);
        MUST(write(up[1], "x", 1));
        while (!hung_up)
            sigsuspend(&before);
        while (tty_number()) /* the signal comes first, and then the session loses its terminal */
            nap_ms(1);
        say("the child got SIGHUP; tty number %ld, write %zd", tty_number(), write(slave, "x", 1));
        _exit(0);
    }
    char byte;
    MUST(read(up[0], &byte, 1));
}

int main(void) {
    in_session("opening", opening);
    in_session("ordinary", ordinary);
    in_session("leaving", leaving);
    in_session("jobs", jobs);
    int done[2];
    MUST(pipe(done));
    in_session("the leader ends", dies_with_children);
    close(done[1]);
    char byte;
    STEP(read(done[0], &byte, 1)); /* the orphan, too, is done */
    return 0;
}
