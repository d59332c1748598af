/* build: foreign_memory
 *
 * foreign_memory PID…: reaches into the memory of the given processes, of its parent and of process 1. The address is
 * nonsense, so EFAULT means that only the address was in the way: natively it is for processes of the same user.
 */
#include "step.h"
#include <sys/uio.h>

static void reach(const char *whose, pid_t pid) {
    char byte = 0;
    struct iovec mine = {&byte, 1}, theirs = {(void *)8, 1};
    long got = process_vm_readv(pid, &mine, 1, &theirs, 1, 0);
    say("read %s: %s", whose, got < 0 ? errname(errno) : "done");
    got = process_vm_writev(pid, &mine, 1, &theirs, 1, 0);
    say("write %s: %s", whose, got < 0 ? errname(errno) : "done");
}

int main(int argc, char **argv) {
    reach("parent", getppid());
    reach("first", 1);
    for (int i = 1; i < argc; i++)
        reach("stranger", atoi(argv[i]));
    reach("own", getpid());
    return 0;
}
