/* build: pty_sides -lutil
 *
 * A pseudo-terminal and its two sides: making one, its name and what stat says of it, opening the slave, the line
 * discipline's modes, packet mode, exclusive mode, what hanging up looks like. Numbers are never printed.
 */
#include "step.h"
#include <dirent.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <termios.h>

#ifndef TIOCGPTPEER
#define TIOCGPTPEER 0x5441
#endif

static int listed(int number) {
    char name[16];
    snprintf(name, sizeof name, "%d", number);
    DIR *dir = opendir("/dev/pts");
    int found = 0;
    for (struct dirent *entry; (entry = readdir(dir));)
        found += !strcmp(entry->d_name, name) && entry->d_type == DT_CHR;
    closedir(dir);
    return found;
}

static void show_read(const char *label, int fd) {
    char text[256];
    ssize_t n = read(fd, text, sizeof text);
    if (n < 0)
        say("%s: %s", label, errname(errno));
    else
        say("%s: %zd bytes, \"%.*s\"", label, n, (int)n, text);
}

/* Bytes arrive on the other side when the kernel gets round to it: wait for all that was written. */
static void show_all(const char *label, int fd, size_t expected) {
    char text[256];
    size_t got = 0;
    for (ssize_t n; got < expected; got += n)
        n = MUST(read(fd, text + got, expected - got));
    say("%s: \"%.*s\"", label, (int)got, text);
}

static int pending(int fd) {
    int n = -1;
    return ioctl(fd, FIONREAD, &n) < 0 ? -errno : n;
}

static void names(void) {
    int master = MUST(posix_openpt(O_RDWR | O_NOCTTY)), number = -1;
    STEP(open("/dev/pts/9999999", O_RDWR));
    STEP(ioctl(master, TIOCGPTN, &number));
    char expected[64], name[64];
    snprintf(expected, sizeof expected, "/dev/pts/%d", number);
    STEP(open(expected, O_RDWR | O_NOCTTY)); /* locked */
    STEP(grantpt(master));
    STEP(unlockpt(master));
    STEP(ptsname_r(master, name, sizeof name));
    say("ptsname: %s", strcmp(name, expected) ? "another" : "as expected");
    int slave = MUST(open(name, O_RDWR | O_NOCTTY));
    struct stat by_name, by_fd, of_master;
    MUST(stat(name, &by_name)), MUST(fstat(slave, &by_fd)), MUST(fstat(master, &of_master));
    /* Group and its rights are how the host's administrator mounted devpts. */
    say("slave: mode %o, major %d, minor as number %d, owner me %d, links %d", by_name.st_mode & ~0077u,
        major(by_name.st_rdev), (int)minor(by_name.st_rdev) == number, by_name.st_uid == getuid(),
        (int)by_name.st_nlink);
    say("name and descriptor agree: %d", by_name.st_ino == by_fd.st_ino && by_name.st_dev == by_fd.st_dev &&
                                             by_name.st_rdev == by_fd.st_rdev);
    say("master: mode %o, device %d:%d", of_master.st_mode, major(of_master.st_rdev), minor(of_master.st_rdev));
    char found[64] = "";
    STEP(ttyname_r(slave, found, sizeof found));
    say("ttyname: %s", strcmp(found, expected) ? found : "as expected");
    STEP(isatty(slave));
    STEP(isatty(master));
    say("listed: %d", listed(number));
    STEP(chmod(name, 0600));
    MUST(stat(name, &by_name));
    say("mode after chmod: %o", by_name.st_mode);
    STEP(fchmod(slave, 0620));
    STEP(access(name, R_OK | W_OK));
    STEP(unlink(name) == -1);
    MUST(close(slave));
    MUST(close(master));
    STEP(open(name, O_RDWR | O_NOCTTY));
    STEP(stat(name, &by_name));
    say("still listed: %d", listed(number));
    STEP(ioctl(1, TIOCGPTN, &number)); /* a pipe */
    STEP(open("/dev/pts/ptmx", O_RDWR));
}

static void peers(void) {
    int master = MUST(open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)), lock = 1, number, got = 7;
    STEP(ioctl(master, TIOCGPTLCK, &lock));
    say("locked: %d", lock);
    STEP(ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY));
    lock = 0;
    STEP(ioctl(master, TIOCSPTLCK, &lock));
    int slave = MUST(ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
    say("close-on-exec: %d, access mode %d", fcntl(slave, F_GETFD), fcntl(slave, F_GETFL) & O_ACCMODE);
    STEP(ioctl(slave, TIOCGPTPEER, O_RDWR));
    STEP(ioctl(1, TIOCGPTPEER, O_RDWR));
    STEP(ioctl(-1, TIOCGPTPEER, O_RDWR));
    STEP(ioctl(slave, TIOCGPTN, &number));
    int reader = MUST(ioctl(master, TIOCGPTPEER, O_RDONLY | O_NOCTTY | O_NONBLOCK));
    show_read("nothing yet", reader);
    STEP(write(reader, "x", 1));
    STEP(ioctl(slave, TIOCEXCL));
    STEP(ioctl(slave, TIOCGEXCL, &got));
    say("exclusive: %d", got);
    STEP(ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY));
    STEP(ioctl(slave, TIOCNXCL));
    OK(ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY));
    char again[64];
    snprintf(again, sizeof again, "/proc/self/fd/%d", slave);
    OK(open(again, O_RDWR | O_NOCTTY));
}

static void modes(int master, int slave) {
    struct termios t;
    MUST(tcgetattr(slave, &t));
    say("fresh: icanon %d echo %d isig %d opost %d onlcr %d intr %d eof %d", !!(t.c_lflag & ICANON),
        !!(t.c_lflag & ECHO), !!(t.c_lflag & ISIG), !!(t.c_oflag & OPOST), !!(t.c_oflag & ONLCR), t.c_cc[VINTR],
        t.c_cc[VEOF]);
    STEP(write(master, "one\ntw", 6));
    show_read("slave reads a line", slave);
    show_all("master reads the echo", master, 7);
    STEP(write(master, "\177o\004", 3)); /* erase, then end of file without a newline */
    show_read("slave reads", slave);
    show_all("master reads the echo", master, 4);
    STEP(write(master, "\004", 1));
    show_read("slave reads the end", slave);
    STEP(write(slave, "a\nb", 3));
    show_all("master", master, 4);
    struct pollfd at = {.fd = slave, .events = POLLIN};
    cfmakeraw(&t);
    STEP(tcsetattr(slave, TCSAFLUSH, &t));
    STEP(write(master, "\003raw\n", 5));
    do
        MUST(poll(&at, 1, 5000));
    while (pending(slave) < 5);
    STEP(tcflush(slave, TCIFLUSH));
    say("after the flush: %d", pending(slave));
    STEP(write(slave, "a\nb", 3));
    show_all("master, raw", master, 3);
    STEP(tcdrain(slave));
    STEP(tcsendbreak(slave, 0));
    STEP(tcflow(slave, TCOOFF));
    STEP(tcflow(slave, TCOON));
    struct winsize w = {30, 100, 0, 0};
    STEP(ioctl(master, TIOCSWINSZ, &w));
    memset(&w, 0, sizeof w);
    STEP(ioctl(slave, TIOCGWINSZ, &w));
    say("size %d %d", w.ws_row, w.ws_col);
    int line = -1;
    STEP(ioctl(slave, TIOCGETD, &line));
    STEP(syscall(SYS_vhangup));
}

static void packets(int master, int slave) {
    int on = 1;
    STEP(ioctl(master, TIOCPKT, &on));
    STEP(write(slave, "p", 1));
    show_read("data, with a zero before it", master);
    STEP(tcflush(slave, TCIFLUSH));
    char control = 0;
    STEP(read(master, &control, 1));
    say("control byte %d", control);
    on = 0;
    STEP(ioctl(master, TIOCPKT, &on));
}

static void hang_up(void) {
    int master, slave;
    MUST(openpty(&master, &slave, NULL, NULL, NULL));
    MUST(write(slave, "last words", 10));
    MUST(close(slave));
    show_all("master, slave closed", master, 10);
    show_read("master again", master);
    struct pollfd at = {.fd = master, .events = POLLIN};
    STEP(poll(&at, 1, 5000));
    say("events %x", at.revents);
    MUST(close(master));
    MUST(openpty(&master, &slave, NULL, NULL, NULL));
    MUST(close(master));
    show_read("slave, master closed", slave);
    STEP(write(slave, "x", 1));
    struct termios t;
    STEP(tcgetattr(slave, &t));
    STEP(isatty(slave));
    char name[64];
    STEP(ttyname_r(slave, name, sizeof name) != 0);
    MUST(close(slave));
}

int main(void) {
    names();
    peers();
    int master, slave;
    MUST(openpty(&master, &slave, NULL, NULL, NULL));
    modes(master, slave);
    packets(master, slave);
    hang_up();
    return 0;
}
