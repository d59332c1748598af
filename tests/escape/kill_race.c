/* build: kill_race
 *
 * kill_race KILLS: children change their working directory without pause, which a supervisor does in their place and in
 * their process. They are killed at any moment of it. A tracee that its tracer has forgotten can never be reaped.
 * Harmless on any host. Prints how many children could be reaped.
 */
#include "step.h"

int main(int argc, char **argv) {
    int kills = argc > 1 ? atoi(argv[1]) : 200, reaped = 0, status;
    for (int i = 0; i < kills; i++) {
        pid_t child = MUST(fork());
        if (child == 0)
            for (;;)
                (void)!(chdir("/usr") || chdir("/"));
        usleep(300 + rand() % 1500);
        kill(child, SIGKILL);
        /* Half a minute is enough for any host; one that never comes must not hide the others. */
        for (int wait = 0; wait < 300000 && waitpid(child, &status, WNOHANG) == 0; wait++)
            usleep(100);
        if (kill(child, 0) < 0)
            reaped++;
        else
            break;
    }
    say("%d of %d reaped", reaped, kills);
    return 0;
}
