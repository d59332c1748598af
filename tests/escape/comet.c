/* build: comet
 *
 * comet FILE PROCESSES: that many processes, each in a session of its own, only fork and end, so that none keeps its
 * process id for long. They count in FILE, which all have mapped. The first one ends at once. A supervisor that lists
 * processes and then kills what it found is too late. On an unprotected host they go on for ever (here: until FILE
 * begins with a 1).
 */
#include "step.h"

int main(int argc, char **argv) {
    if (argc != 3)
        return 96;
    int fd = MUST(open(argv[1], O_RDWR));
    volatile long *shared = mmap(NULL, 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    for (int i = 0; i < atoi(argv[2]); i++) {
        if (MUST(fork()) == 0) {
            MUST(setsid());
            while (!shared[0]) {
                pid_t child = fork();
                if (child > 0)
                    _exit(0);
                shared[1]++;
            }
            _exit(0);
        }
    }
    while (shared[1] < 300)
        usleep(1000);
    say("on their way");
    return 0;
}
