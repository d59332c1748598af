/* build: long_name
 *
 * long_name DIRECTORY LINK DETOUR COUNT: executes DIRECTORY/DETOUR/../DETOUR/../…/LINK, 4,095 bytes in all, COUNT
 * times, twice. Each execution fails. It prints "ready" and waits for a byte of input before, between and after. The
 * name can be resolved, but not the name that has the link's longer text in place of its last component. A supervisor
 * that tries that after it opened the program must not forget to close it. On any host each execution ends with EFAULT.
 */
#include "step.h"

static char **volatile nowhere = (char **)1; /* arguments that cannot be read: execve fails late */

static void pause_here(void) {
    char byte;
    say("ready");
    if (read(0, &byte, 1) != 1)
        _exit(0);
}

int main(int argc, char **argv) {
    if (argc < 5)
        return 96;
    static char name[PATH_MAX];
    char *nothing[] = {NULL};
    size_t length = PATH_MAX - 1, at = strlen(argv[1]), last = length - strlen(argv[2]);
    memcpy(name, argv[1], at);
    for (size_t detour = strlen(argv[3]) + 4; at + detour < last; at += detour)
        snprintf(name + at, detour + 1, "/%s/..", argv[3]);
    memset(name + at, '/', last - at);
    memcpy(name + last, argv[2], strlen(argv[2]));
    int count = atoi(argv[4]), wrong = 0;
    for (int phase = 0; phase < 2; phase++) {
        pause_here();
        for (int i = 0; i < count; i++)
            wrong += execve(name, nowhere, nothing) != -1 || errno != EFAULT;
    }
    pause_here();
    say("length %zu, wrong %d", strlen(name), wrong);
    return 0;
}
