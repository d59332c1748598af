/* build: busy_program -pthread
 *
 * busy_program PROGRAM SECONDS: two threads execute PROGRAM without pause, and each execution fails, while a process on
 * the host opens it for writing. A supervisor asks for a lease to learn whether a file is open for writing. The host
 * tells the holder of a lease about a writer by SIGIO, whose default action ends the process: the supervisor, and with
 * it the whole box. Harmless without a supervisor. Prints "survived", and whether the executions got as far as their
 * arguments; it goes on until they did.
 */
#include "step.h"
#include <pthread.h>

static char **volatile nowhere = (char **)1; /* arguments that cannot be read: execve fails late */
static char *nothing[] = {NULL};
static volatile int found;

static void *execute(void *program) {
    for (;;) {
        execve(program, nowhere, nothing);
        if (errno == EFAULT)
            found = 1;
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 96;
    pthread_t thread;
    for (int i = 0; i < 2; i++)
        pthread_create(&thread, NULL, execute, argv[1]);
    usleep((useconds_t)(atof(argv[2]) * 1e6));
    for (int more = 0; more < 600 && !found; more++)
        usleep(100000);
    say("survived, program %s", found ? "found" : "never found");
    _exit(0);
}
