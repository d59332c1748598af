/* build: wrong_program
 *
 * An execve fails after its program was found, and an execveat of another program follows. The second must not start
 * what a supervisor prepared for the first. On any host the second one, echo, runs.
 */
#include "step.h"

static char **volatile nowhere = (char **)1; /* arguments that cannot be read: execve fails late */

int main(void) {
    char *nothing[] = {NULL}, *echo[] = {"echo", "the right program", NULL}, *quiet[] = {"true", NULL};
    int status;
    for (int i = 0; i < 3; i++) { /* so that a supervisor has the first program in its cache */
        pid_t child = MUST(fork());
        if (child == 0) {
            execve("/bin/true", quiet, nothing);
            _exit(95);
        }
        MUST(waitpid(child, &status, 0));
    }
    pid_t child = MUST(fork());
    if (child == 0) {
        STEP(execve("/bin/true", nowhere, nothing));
        syscall(SYS_execveat, AT_FDCWD, "/bin/echo", echo, nothing, 0);
        _exit(95);
    }
    MUST(waitpid(child, &status, 0));
    say("status %d", status);
    return 0;
}
