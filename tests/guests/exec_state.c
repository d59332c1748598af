/* build: exec_state -pthread
 *
 * What survives execve(2) and what does not: descriptors, signals, timers, masks, threads, thread-local base registers.
 * argv[1] is the directory of the guest programs.
 */
#include "step.h"
#include <pthread.h>
#include <sys/time.h>

static char show[PATH_MAX];

static void execute(const char *letters, char **argv) {
    char letters_env[32], pid_env[32];
    snprintf(letters_env, sizeof letters_env, "SHOW=%s", letters);
    snprintf(pid_env, sizeof pid_env, "EXPECT_PID=%d", getpid());
    char *envp[] = {letters_env, pid_env, NULL};
    execve(show, argv, envp);
    say("execve = -1 %s", errname(errno));
    _exit(1);
}

static char *plain[] = {"show", NULL};
static void handler(int sig) { (void)sig; }

static void descriptors(void) {
    int a = MUST(open("/dev/null", O_RDONLY));
    int b = MUST(open("/dev/null", O_RDONLY | O_CLOEXEC));
    MUST(dup2(a, 20));
    MUST(dup3(b, 21, O_CLOEXEC));
    MUST(dup2(b, 22)); /* a duplicate does not inherit close-on-exec */
    MUST(fcntl(a, F_DUPFD_CLOEXEC, 30));
    int pipes[2];
    MUST(pipe2(pipes, O_CLOEXEC));
    MUST(fcntl(pipes[1], F_SETFD, 0));
    execute("d", plain);
}

static void only_standard_descriptors(void) { execute("d", plain); }

static void no_descriptors_but_stdout(void) {
    close(0);
    close(2);
    execute("d", plain);
}

static void signals(void) {
    signal(SIGUSR1, SIG_IGN);
    signal(SIGCHLD, SIG_IGN);
    signal(SIGUSR2, handler);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART | SA_NODEFER};
    sigaction(SIGTERM, &action, NULL);
    action.sa_handler = SIG_IGN;
    action.sa_flags = SA_RESTART;
    sigaction(SIGWINCH, &action, NULL);
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
    sigaltstack(&stack, NULL);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGRTMIN + 1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    raise(SIGHUP);
    execute("s", plain);
}

static void timers(void) {
    alarm(100);
    execute("p", plain);
}

static void fires_after_exec(void) {
    /* A timer of processor time: even on a busy machine the new program has begun and printed its line by then. */
    struct itimerval soon = {.it_value = {0, 150000}};
    signal(SIGVTALRM, handler); /* reset by execve: the alarm ends the new program */
    MUST(setitimer(ITIMER_VIRTUAL, &soon, NULL));
    execute("b", plain);
}

static void *idle(void *unused) {
    for (;;)
        pause();
    return unused;
}

static void *execute_in_thread(void *letters) {
    execute(letters, plain);
    return NULL;
}

static void from_a_thread(void) {
    pthread_t threads[4];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, idle, NULL);
    pthread_create(&threads[3], NULL, execute_in_thread, "pdn");
    for (;;)
        pause();
}

static void from_the_leader_with_threads(void) {
    pthread_t thread;
    for (int i = 0; i < 3; i++)
        pthread_create(&thread, NULL, idle, NULL);
    execute("pdn", plain);
}

static void *fail_in_thread(void *unused) {
    (void)unused;
    STEP(execve("./missing", plain, plain));
    return NULL;
}

static void failed_exec_keeps_threads(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, fail_in_thread, NULL);
    pthread_join(thread, NULL);
    say("leader goes on");
}

static unsigned long gs_value[2] = {0x1122334455667788, 7};

static unsigned long read_gs(void) {
    unsigned long value;
    __asm__ volatile("movq %%gs:0, %0" : "=r"(value));
    return value;
}

static void *gs_in_thread(void *unused) {
    (void)unused;
    unsigned long base = 1;
    STEP(syscall(SYS_arch_prctl, 0x1004, &base));
    say("gs base of a new thread %s", base == (unsigned long)gs_value ? "as its creator" : base ? "other" : "zero");
    static unsigned long mine = 42;
    STEP(syscall(SYS_arch_prctl, 0x1001 /* ARCH_SET_GS */, &mine));
    say("gs:0 in the thread = %lu", read_gs());
    return NULL;
}

static void gs_base(void) {
    STEP(syscall(SYS_arch_prctl, 0x1001, gs_value));
    say("gs:0 = %lx", read_gs());
    struct stat st;
    stat("/", &st); /* a call husk answers must leave the register alone */
    say("gs:0 after stat = %lx", read_gs());
    pid_t pid = fork();
    if (pid == 0) {
        say("gs:0 in a child = %lx", read_gs());
        _exit(0);
    }
    wait_for(pid);
    pthread_t thread;
    pthread_create(&thread, NULL, gs_in_thread, NULL);
    pthread_join(thread, NULL);
    say("gs:0 = %lx", read_gs());
    execute("p", plain);
}

static void place(void) {
    umask(027);
    MUST(mkdir("here", 0755));
    MUST(chdir("here"));
    execute("w", plain);
}

static void removed_place(void) {
    MUST(mkdir("gone", 0755));
    MUST(chdir("gone"));
    MUST(rmdir("../gone"));
    execute("w", plain);
}

static void no_arguments(void) {
    char *none[] = {NULL};
    execute("n", none);
}

static void empty_environment(void) {
    char *none[] = {NULL};
    execve(show, plain, none);
    _exit(1);
}

static void odd_environment(void) {
    char *odd[] = {"SHOW=e", "A=1", "A=2", "no equals sign", "=x", "", "LONG=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", NULL};
    execve(show, plain, odd);
    _exit(1);
}

static void after_vfork(void) {
    say("vfork parent before");
    pid_t pid = vfork();
    if (pid == 0) {
        char *envp[] = {"SHOW=ds", NULL};
        execve(show, plain, envp);
        _exit(1);
    }
    say("vfork parent after: %s", status_text(wait_for(pid)));
}

static void failed_after_vfork(void) {
    char *volatile name = edge_string("./missing");
    pid_t pid = vfork();
    if (pid == 0) {
        execve(name, plain, plain);
        _exit(errno == ENOENT ? 42 : 43);
    }
    say("child: %s; the name is still %s", status_text(wait_for(pid)), name);
}

static const struct named_case cases[] = {
    CASE(only_standard_descriptors), CASE(descriptors), CASE(no_descriptors_but_stdout), CASE(signals), CASE(timers),
    CASE(fires_after_exec), CASE(from_a_thread), CASE(from_the_leader_with_threads), CASE(failed_exec_keeps_threads),
    CASE(gs_base), CASE(place), CASE(removed_place), CASE(no_arguments), CASE(empty_environment), CASE(odd_environment),
    CASE(after_vfork), CASE(failed_after_vfork),
};

int main(int argc, char **argv) {
    if (argc < 2)
        return 2;
    snprintf(show, sizeof show, "%s/exec_show", argv[1]);
    int pipes[2];
    MUST(pipe(pipes)); /* an input that never ends and never delivers, for the case that waits */
    MUST(dup2(pipes[0], 0));
    MUST(close(pipes[0]));
    MUST(fcntl(pipes[1], F_DUPFD_CLOEXEC, 100));
    MUST(close(pipes[1]));
    run_cases(cases, sizeof cases / sizeof *cases);
    return 0;
}
