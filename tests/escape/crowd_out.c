/* build: crowd_out
 *
 * crowd_out STARTS: three processes call execve without pause, and each call fails, while others start a program with
 * so many arguments that the start takes long. The failing calls must not displace what a supervisor keeps for a start
 * in progress. On any host all of them start. Prints how many failed.
 */
#include "step.h"

static char **volatile nowhere = (char **)1; /* arguments that cannot be read: execve fails late */

#define CROWD 3
#define TEXTS 15
#define LENGTH 130000 /* just below what Linux takes as one argument */

int main(int argc, char **argv) {
    int starts = argc > 1 ? atoi(argv[1]) : 100, failed = 0, status;
    char *nothing[] = {NULL}, *arguments[TEXTS + 2] = {"true"};
    pid_t crowd[CROWD];
    for (int i = 1; i <= TEXTS; i++) {
        arguments[i] = malloc(LENGTH);
        memset(arguments[i], 'a', LENGTH - 1);
        arguments[i][LENGTH - 1] = 0;
    }
    for (int i = 0; i < CROWD; i++)
        if ((crowd[i] = MUST(fork())) == 0)
            for (;;)
                execve("/bin/true", nowhere, nothing);
    for (int i = 0; i < starts; i++) {
        pid_t child = MUST(fork());
        if (child == 0) {
            execve("/bin/true", arguments, nothing);
            _exit(95);
        }
        MUST(waitpid(child, &status, 0));
        failed += status != 0;
    }
    for (int i = 0; i < CROWD; i++) {
        kill(crowd[i], SIGKILL);
        MUST(waitpid(crowd[i], NULL, 0));
    }
    say("%d of %d starts failed", failed, starts);
    return 0;
}
