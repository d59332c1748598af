/* build: push_keys
 *
 * Tries to reach the terminal of the person who started husk: to type into it, to leave its modes changed, to open it
 * by name, to take its foreground. On a host that still allows TIOCSTI the person's shell executes the words. On any
 * host the modes can be changed, and every other terminal of the same user can be opened.
 */
#include "step.h"
#include <sys/ioctl.h>
#include <termios.h>

static const char words[] = "echo pw\"\"ned\n";

int main(void) {
    struct stat own = {0}, other;
    for (int fd = 0; fd < 3; fd++) {
        int pushed = 0, line = 0;
        errno = 0;
        for (const char *c = words; *c; c++)
            pushed += ioctl(fd, TIOCSTI, c) == 0;
        say("%d: pushed %d %s", fd, pushed, pushed ? "" : errname(errno));
        say("%d: TIOCSETD %d, TIOCCONS %d, TIOCLINUX %d", fd, ioctl(fd, TIOCSETD, &line), ioctl(fd, TIOCCONS),
            ioctl(fd, TIOCLINUX, "\2"));
        say("%d: session mine %d, stolen %d", fd, tcgetsid(fd) == getsid(0), ioctl(fd, TIOCSCTTY, 1));
        if (isatty(fd))
            fstat(fd, &own);
    }
    int foreign = 0;
    for (int number = 0; number < 4096; number++) {
        char name[32];
        snprintf(name, sizeof name, "/dev/pts/%d", number);
        int fd = open(name, O_RDWR | O_NOCTTY | O_NONBLOCK);
        if (fd < 0)
            continue;
        fstat(fd, &other);
        foreign += other.st_rdev != own.st_rdev;
        close(fd);
    }
    say("foreign terminals: %d", foreign);
    say("device: %lx", (long)own.st_rdev);
    for (int fd = 0; fd < 3; fd++) {
        struct termios spoilt;
        if (tcgetattr(fd, &spoilt) == 0) {
            cfmakeraw(&spoilt);
            tcsetattr(fd, TCSANOW, &spoilt);
            tcflow(fd, TCOOFF);
        }
    }
    return 0;
}
