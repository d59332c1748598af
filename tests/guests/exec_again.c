/* build: exec_again -pthread
 *
 * The same program again and again, by its absolute name: from children, from a vfork child, from a second thread, after
 * calls that failed late, with a full table of descriptors, with a signal pending, and traced by its parent.
 */
#include "step.h"
#include <pthread.h>
#include <sys/ptrace.h>
#include <sys/resource.h>

#define PROGRAM "/bin/true"
static char *words[] = {"true", NULL}, *nothing[] = {NULL};
static char huge[1 << 18];
static char **volatile nowhere = (char **)8; /* arguments that cannot be read */

static void fill_table(void) {
    struct rlimit limit;
    MUST(getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = 24;
    MUST(setrlimit(RLIMIT_NOFILE, &limit));
    while (dup(0) >= 0)
        ;
    close(23);
}

static void *execute(void *unused) {
    execve(PROGRAM, words, nothing);
    _exit(errno);
    return unused;
}

static void in_child(const char *how, int kind) {
    pid_t pid = MUST(fork());
    if (pid == 0) {
        char *long_words[] = {"true", huge, NULL};
        pthread_t thread;
        sigset_t all;
        int failed = 0;
        switch (kind) {
        case 1:
            failed = execve(PROGRAM, long_words, nothing) == -1 && errno == E2BIG ? 0 : 1;
            break;
        case 2:
            failed = execve(PROGRAM, nowhere, nothing) == -1 && errno == EFAULT ? 0 : 1;
            break;
        case 3:
            pthread_create(&thread, NULL, execute, NULL);
            for (;;)
                pause();
        case 4:
            fill_table();
            break;
        case 5: /* stays pending, and ends the new program */
            sigfillset(&all);
            sigprocmask(SIG_SETMASK, &all, NULL);
            raise(SIGTERM);
            break;
        case 6:
            MUST(ptrace(PTRACE_TRACEME, 0, 0, 0));
            break;
        }
        if (failed)
            _exit(99);
        execve(PROGRAM, words, nothing);
        _exit(errno);
    }
    int status = wait_for(pid);
    const char *first = "";
    if (WIFSTOPPED(status)) {
        first = WSTOPSIG(status) == SIGTRAP ? "stopped, " : "stopped by another signal, ";
        MUST(ptrace(PTRACE_CONT, pid, 0, 0));
        status = wait_for(pid);
    }
    if (WIFEXITED(status))
        say("%s: %s%s", how, first, WEXITSTATUS(status) ? errname(WEXITSTATUS(status)) : "executed");
    else
        say("%s: signal %d", how, WTERMSIG(status));
}

int main(void) {
    memset(huge, 'x', sizeof huge - 1);
    for (int round = 0; round < 3; round++) {
        in_child("child", 0);
        in_child("after E2BIG", 1);
        in_child("after EFAULT", 2);
        in_child("thread", 3);
        in_child("one descriptor free", 4);
        in_child("with a blocked signal", 5);
        in_child("traced", 6);
        pid_t pid = vfork();
        if (pid == 0) {
            execve(PROGRAM, words, nothing);
            _exit(errno);
        }
        say("vfork: %d", wait_for(pid));
    }
    execve(PROGRAM, words, nothing);
    return errno;
}
