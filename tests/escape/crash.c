/* build: crash
 *
 * crash: asks for core files of any size in every way, lets a child crash, and prints whether the kernel wrote one.
 */
#include "step.h"
#include <sys/prctl.h>
#include <sys/resource.h>

int main(void) {
    struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY}, now;
    getrlimit(RLIMIT_CORE, &now);
    now.rlim_cur = now.rlim_max;
    setrlimit(RLIMIT_CORE, &now);
    setrlimit(RLIMIT_CORE, &all);
    prlimit(0, RLIMIT_CORE, &all, NULL);
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    pid_t child = MUST(fork());
    if (child == 0) {
        prlimit(getpid(), RLIMIT_CORE, &all, NULL);
        abort();
    }
    int status;
    MUST(waitpid(child, &status, 0));
    say("signal %d, core %d", WTERMSIG(status), WCOREDUMP(status) != 0);
    return 0;
}
