/* build: ids
 *
 * ids: prints all its ids and capabilities. ids PROGRAM: executes PROGRAM, a set-user-id copy of this one, by name, by
 * descriptor, and as a script's interpreter. On an unprotected host that changes its ids.
 */
#include "step.h"
#include <sys/auxv.h>

static int tell(void) {
    uid_t real, effective, saved;
    gid_t group, effective_group, saved_group;
    MUST(getresuid(&real, &effective, &saved));
    MUST(getresgid(&group, &effective_group, &saved_group));
    struct { uint32_t version; int pid; } header = {0x20080522, 0};
    struct { uint32_t effective, permitted, inheritable; } held[2];
    MUST(syscall(SYS_capget, &header, held));
    say("one user %d, one group %d, root %d, capabilities %d", real == effective && real == saved,
        group == effective_group && group == saved_group, effective == 0, (held[0].permitted | held[1].permitted) != 0);
    return 0;
}

int main(int argc, char **argv) {
    char *alone[] = {"ids", NULL}, *nothing[] = {NULL};
    if (argc == 1)
        return tell();
    tell();
    for (int way = 0; way < 2; way++) {
        pid_t child = MUST(fork());
        if (child == 0) {
            if (way == 0)
                execve(argv[1], alone, nothing);
            else
                fexecve(MUST(open(argv[1], O_PATH)), alone, nothing);
            say("not executed: %s", errname(errno));
            _exit(0);
        }
        MUST(waitpid(child, NULL, 0));
    }
    return 0;
}
