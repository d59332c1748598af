/* build: no_notify
 *
 * no_notify listener|refused COMMAND...: executes COMMAND where husk cannot have a seccomp listener: because this process
 * tree already has one (a second is EBUSY), or because seccomp(2) itself is refused (ENOSYS), as some containers do.
 */
#include "step.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    struct sock_filter allow_all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_filter no_seccomp[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    int listener = !strcmp(argv[1], "listener");
    struct sock_fprog program = {listener ? 1 : 4, listener ? allow_all : no_seccomp};
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    int fd = MUST(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, listener ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0, &program));
    if (listener)
        MUST(fcntl(fd, F_SETFD, 0)); /* stays open across execve: a closed listener would not count */
    execvp(argv[2], argv + 2);
    say("%s: %s", argv[2], errname(errno));
    return 127;
}
