/* build: daemon
 *
 * daemon FILE: the classical double fork: new session, no controlling terminal, all descriptors closed, environment
 * cleared. The daemon appends a byte to FILE every 20 ms for as long as it lives; the first process ends at once.
 */
#include "step.h"

int main(int argc, char **argv) {
    if (argc < 2)
        return 2;
    int fd = MUST(open(argv[1], O_WRONLY | O_CREAT | O_APPEND, 0644));
    MUST(write(fd, "s", 1));
    if (fork() > 0)
        return 0;
    setsid();
    signal(SIGHUP, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    if (fork() > 0)
        _exit(0);
    if (chdir("/"))
        _exit(1);
    close(0), close(1), close(2);
    clearenv();
    for (;;) {
        if (write(fd, ".", 1) != 1)
            _exit(1);
        nap_ms(20);
    }
}
