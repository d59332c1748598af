/* build: proc_basics -pthread
 *
 * Processes: fork, vfork, wait in its forms, groups and sessions, orphans, pipes, ids, limits.
 */
#include "step.h"
#include <sys/fsuid.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/utsname.h>

static void exits(void) {
    int wrong = 0;
    for (int code = 0; code < 256; code += 17) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(code);
        int status = wait_for(pid);
        wrong += !WIFEXITED(status) || WEXITSTATUS(status) != code;
    }
    say("exit codes wrong %d", wrong);
    const int signals[] = {SIGHUP, SIGINT, SIGKILL, SIGSEGV, SIGTERM, SIGABRT, SIGPIPE, SIGUSR1, SIGXCPU, SIGSYS};
    for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            raise(signals[i]);
            _exit(0);
        }
        say("%s", status_text(wait_for(pid)));
    }
    pid_t pid = fork();
    if (pid == 0)
        abort();
    say("abort: %s", status_text(wait_for(pid)));
    pid = fork();
    if (pid == 0)
        exit(300);
    say("exit(300): %s", status_text(wait_for(pid)));
}

static void waits(void) {
    int status;
    STEP(waitpid(-1, &status, 0));
    STEP(waitpid(getpid(), &status, WNOHANG));
    int gate[2];
    MUST(pipe(gate));
    pid_t pid = fork();
    if (pid == 0) {
        char byte;
        close(gate[1]);
        if (read(gate[0], &byte, 1) < 0)
            _exit(1);
        _exit(3);
    }
    close(gate[0]);
    STEP(waitpid(pid, &status, WNOHANG));
    kill(pid, SIGSTOP);
    int right = waitpid(pid, &status, WUNTRACED) == pid;
    say("stopped %d: %s", right, status_text(status));
    kill(pid, SIGCONT);
    right = waitpid(pid, &status, WCONTINUED) == pid;
    say("continued %d: %s", right, status_text(status));
    close(gate[1]);
    siginfo_t info;
    memset(&info, 0, sizeof info);
    STEP(waitid(P_PID, pid, &info, WEXITED | WNOWAIT));
    say("code %d status %d", info.si_code == CLD_EXITED, info.si_status);
    struct rusage usage;
    right = wait4(pid, &status, 0, &usage) == pid;
    say("wait4 %d: %s", right, status_text(status));
    STEP(waitpid(pid, &status, 0));
    STEP(kill(pid, 0));
    STEP(waitid(P_PID, pid, &info, 0));
    signal(SIGCHLD, SIG_IGN);
    pid = fork();
    if (pid == 0)
        _exit(0);
    STEP(waitpid(pid, &status, 0)); /* no child to wait for when SIGCHLD is ignored */
    signal(SIGCHLD, SIG_DFL);
    for (int i = 0; i < 20; i++)
        if (fork() == 0)
            _exit(i);
    int count = 0, sum = 0;
    while (wait(&status) > 0)
        count++, sum += WEXITSTATUS(status);
    say("20 children: %d, sum %d", count, sum);
}

static void vforks(void) {
    volatile int shared = 1;
    pid_t pid = vfork();
    if (pid == 0) {
        shared = 2;
        _exit(9);
    }
    say("vfork: shared %d, %s", shared, status_text(wait_for(pid)));
    int fd = MUST(open("/dev/null", O_RDONLY));
    pid = vfork();
    if (pid == 0) {
        close(fd); /* the descriptor table is the child's own */
        _exit(chdir("/") != 0);
    }
    wait_for(pid);
    STEP(fcntl(fd, F_GETFD));
    close(fd);
    char cwd[PATH_MAX];
    say("parent's directory is not / %d", strcmp(getcwd(cwd, sizeof cwd), "/") != 0);
}

static void groups(void) {
    int ready[2], gate[2];
    MUST(pipe2(ready, O_CLOEXEC));
    MUST(pipe2(gate, O_CLOEXEC));
    pid_t pids[3];
    for (int i = 0; i < 3; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            setpgid(0, i ? pids[0] : 0);
            if (write(ready[1], "x", 1) != 1)
                _exit(1);
            pause();
            _exit(0);
        }
        setpgid(pids[i], pids[0]);
    }
    char byte;
    for (int i = 0; i < 3; i++)
        if (read(ready[0], &byte, 1) != 1)
            _exit(1);
    say("one group %d", getpgid(pids[2]) == pids[0] && getpgid(pids[1]) == pids[0]);
    STEP(kill(-pids[0], 0));
    STEP(killpg(pids[0], SIGTERM));
    for (int i = 0; i < 3; i++)
        say("%s", status_text(wait_for(pids[i])));
    STEP(kill(-pids[0], 0));
    pid_t pid = fork(); /* in a child: this process may lead a session already */
    if (pid == 0) {
        STEP(setpgid(0, 0));
        STEP(setsid()); /* a group leader may not */
        _exit(0);
    }
    wait_for(pid);
    pid = fork();
    if (pid == 0) {
        OK(setsid());
        say("leader of all %d", getsid(0) == getpid() && getpgrp() == getpid());
        STEP(setsid());
        STEP(setpgid(0, 0));
        STEP(open("/dev/tty", O_RDWR));
        _exit(0);
    }
    wait_for(pid);
    STEP(getpgid(99999999));
    STEP(kill(99999999, 0));
    STEP(kill(getpid(), 65));
}

static void orphans(void) {
    int report[2];
    MUST(pipe2(report, O_CLOEXEC));
    pid_t pid = fork();
    if (pid == 0) {
        pid_t middle = getpid();
        if (fork() == 0) {
            while (getppid() == middle)
                nap_ms(5);
            char text[40];
            int n = snprintf(text, sizeof text, "orphan has a new parent %d", getppid() != middle && getppid() > 0);
            if (write(report[1], text, n) != n)
                _exit(1);
            _exit(0);
        }
        _exit(0);
    }
    wait_for(pid);
    close(report[1]);
    char text[100] = {0};
    if (read(report[0], text, sizeof text - 1) < 0)
        _exit(1);
    say("%s", text);
    close(report[0]);
    STEP(prctl(PR_SET_CHILD_SUBREAPER, 1));
    pid = fork();
    if (pid == 0) {
        if (fork() == 0) {
            nap_ms(50);
            _exit(33);
        }
        _exit(0);
    }
    wait_for(pid);
    int status = 0;
    pid_t got = wait(&status);
    say("a subreaper gets the orphan %d: %s", got > 0, status_text(status));
    STEP(prctl(PR_SET_CHILD_SUBREAPER, 0));
    int gate[2];
    MUST(pipe(gate));
    pid = fork();
    if (pid == 0) {
        close(gate[0]);
        int ready[2];
        MUST(pipe(ready));
        pid_t inner = fork();
        if (inner == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            MUST(write(ready[1], "x", 1)); /* a parent that died before it was asked for would send nothing */
            pause();
            _exit(0);
        }
        MUST(read(ready[0], &(char){0}, 1));
        _exit(0);
    }
    wait_for(pid);
    close(gate[1]);
    char byte;
    say("PR_SET_PDEATHSIG ends the child: %zd", read(gate[0], &byte, 1));
    close(gate[0]);
}

static void pipes(void) {
    int ends[2];
    char text[20] = {0};
    STEP(pipe2(ends, O_CLOEXEC));
    STEP(write(ends[1], "data", 4));
    STEP(read(ends[0], text, 20));
    STEP(fcntl(ends[1], F_GETPIPE_SZ));
    close(ends[1]);
    STEP(read(ends[0], text, 20));
    close(ends[0]);
    MUST(pipe(ends));
    close(ends[0]);
    signal(SIGPIPE, SIG_IGN);
    STEP(write(ends[1], "data", 4));
    signal(SIGPIPE, SIG_DFL);
    pid_t pid = fork();
    if (pid == 0) {
        if (write(ends[1], "data", 4))
            _exit(1);
    }
    say("%s", status_text(wait_for(pid)));
    close(ends[1]);
    STEP(syscall(SYS_pipe2, (int *)8, 0));
}

static void identity(void) {
    say("ids agree %d", getuid() == geteuid() && getgid() == getegid());
    uid_t r, e, s;
    STEP(getresuid(&r, &e, &s));
    say("same %d root %d", r == e && e == s, r == 0);
    STEP(getgroups(0, NULL));
    STEP(setuid(getuid()));
    STEP(setgid(getgid()));
    STEP(setuid(0));
    STEP(setgid(0));
    STEP(setuid(-1));
    STEP(setgid(-1));
    STEP(setuid(123456));
    STEP(setgid(123456));
    STEP(setresuid(-1, -1, -1));
    STEP(setresgid(-1, -1, -1));
    STEP(setresuid(getuid(), -1, getuid()));
    STEP(setresgid(-1, getgid(), -1));
    STEP(setresuid(-1, 0, -1));
    STEP(setresgid(-1, -1, 123456));
    STEP(setregid(getgid(), 0));
    STEP(setregid(-1, getgid()));
    STEP(setegid(0));
    STEP(setfsuid(123456) == (int)getuid());
    STEP(setfsgid(0) == (int)getgid());
    STEP(setreuid(0, 0));
    STEP(setgroups(0, NULL));
    STEP(seteuid(0));
    struct utsname name;
    STEP(uname(&name));
    say("%s %s", name.sysname, name.machine);
    umask(022);
    STEP(umask(0777));
    STEP(umask(022));
    struct rlimit limit;
    STEP(getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = 20;
    STEP(setrlimit(RLIMIT_NOFILE, &limit));
    int fd, last = -1;
    while ((fd = open("/dev/null", O_RDONLY)) >= 0)
        last = fd;
    say("opened up to %d, then %s", last, errname(errno));
    while (last > 2)
        close(last--);
    STEP(chroot("/"));
    STEP(prctl(PR_SET_NAME, "renamed"));
    char comm[17] = {0};
    STEP(prctl(PR_GET_NAME, comm));
    char *text = get_file("/proc/self/comm", NULL);
    say("%s %.7s", comm, text);
    STEP(sched_yield());
    OK(getpriority(PRIO_PROCESS, 0));
    STEP(setpriority(PRIO_PROCESS, 0, 5));
}

static void foreign_memory(void) {
    static char shared_text[32] = "of the parent";
    char copy[32] = "", words[32] = "from outside";
    int ready[2], go[2];
    MUST(pipe(ready));
    MUST(pipe(go));
    pid_t pid = fork();
    if (pid == 0) {
        strcpy(shared_text, "of the child");
        MUST(write(ready[1], "", 1));
        MUST(read(go[0], copy, 1));
        say("the child sees: %s", shared_text);
        _exit(0);
    }
    MUST(read(ready[0], copy, 1));
    struct iovec mine = {copy, sizeof copy}, theirs = {shared_text, sizeof shared_text}, nowhere = {(void *)8, 32};
    STEP(process_vm_readv(pid, &mine, 1, &theirs, 1, 0));
    say("read: %s, mine: %s", copy, shared_text);
    STEP(process_vm_readv(pid, &mine, 1, &nowhere, 1, 0));
    STEP(process_vm_readv(pid, &mine, 1, &theirs, 1, 1));
    mine.iov_base = words;
    STEP(process_vm_writev(pid, &mine, 1, &theirs, 1, 0));
    STEP(process_vm_readv(1, &mine, 1, &theirs, 1, 0)); /* not our process */
    STEP(process_vm_readv(0x3fffffff, &mine, 1, &theirs, 1, 0));
    MUST(write(go[1], "", 1));
    wait_for(pid);
    STEP(process_vm_readv(pid, &mine, 1, &theirs, 1, 0));
    close(ready[0]), close(ready[1]), close(go[0]), close(go[1]);
}

static void *unshare_thread(void *unused) {
    (void)unused;
    STEP(unshare(CLONE_THREAD));
    STEP(unshare(CLONE_VM));
    return NULL;
}

static void unsharing(void) {
    STEP(unshare(0));
    STEP(unshare(CLONE_FS | CLONE_FILES));
    STEP(unshare(CLONE_THREAD));
    STEP(unshare(CLONE_SIGHAND | CLONE_VM));
    STEP(unshare(1));
    STEP(unshare(CLONE_PARENT));
    pid_t pid = fork();
    if (pid == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, unshare_thread, NULL);
        pthread_join(thread, NULL);
        _exit(0);
    }
    wait_for(pid);
}

static void personalities(void) {
    pid_t pid = fork();
    if (pid == 0) {
        struct utsname name;
        STEP(personality(PER_BSD));
        STEP(personality(SHORT_INODE | WHOLE_SECONDS | STICKY_TIMEOUTS));
        STEP(personality(PER_LINUX32));
        uname(&name);
        say("machine %s", name.machine);
        pid_t child = fork();
        if (child == 0) {
            STEP(personality(PER_LINUX));
            _exit(0);
        }
        wait_for(child);
        STEP(personality(0xffffffff));
        _exit(0);
    }
    wait_for(pid);
    STEP(personality(0xffffffff));
}

int main(void) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none); /* whether a core is dumped depends on the host */
    exits();
    waits();
    vforks();
    groups();
    orphans();
    pipes();
    identity();
    personalities();
    unsharing();
    foreign_memory();
    return 0;
}
