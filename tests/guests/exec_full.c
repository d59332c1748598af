/* build: exec_full
 *
 * execve(2) when hardly a descriptor is free: none, one, two. What is open is closed by it, or is not.
 */
#include "step.h"
#include <sys/resource.h>

static void attempt(int room, int flag) {
    pid_t pid = MUST(fork());
    if (pid == 0) {
        struct rlimit limit;
        MUST(getrlimit(RLIMIT_NOFILE, &limit));
        limit.rlim_cur = 24;
        MUST(setrlimit(RLIMIT_NOFILE, &limit));
        int last = -1;
        for (int fd; (fd = open("/dev/null", O_RDONLY | flag)) >= 0; last = fd)
            ;
        for (int i = 0; i < room; i++)
            MUST(close(last - i));
        execl("/bin/sh", "sh", "-c", "exit 3", NULL);
        int error = errno;
        for (int i = 0; i < room; i++)
            MUST(dup(0)); /* nothing was left behind */
        _exit(error);
    }
    int code = WEXITSTATUS(wait_for(pid));
    say("room for %d, %s: %s", room, flag ? "then for all" : "then as well",
        code == 3 ? "executed" : code == 127 ? "died" : errname(code));
}

int main(void) {
    for (int room = 0; room < 4; room++)
        attempt(room, O_CLOEXEC);
    for (int room = 1; room < 4; room++)
        attempt(room, 0);
    return 0;
}
