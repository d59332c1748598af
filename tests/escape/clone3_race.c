/* build: clone3_race -lpthread
 *
 * clone3 for a plain child, while other threads change the flags in memory to those of new namespaces, or the
 * instruction that makes the call. A child that has capabilities is in a user namespace of its own. Then processes that
 * are killed while they make children: every child must run on and end. Prints what each way has reached.
 */
#include "step.h"
#include <linux/capability.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>

#define ESCAPED 99
enum { LEAST_MS = 400, ROUNDS = 60, KILLED = 60 };

static struct clone_args args = {.exit_signal = SIGCHLD};
static volatile int stop;
static unsigned char *code;

static int is_free(void) {
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{0}};
    return syscall(SYS_capget, &head, data) == 0 && (data[0].effective | data[1].effective);
}

static void *flip_flags(void *unused) {
    static const uint64_t wanted[] = {CLONE_NEWUSER, CLONE_NEWUSER | CLONE_NEWNS, CLONE_NEWUSER | CLONE_NEWPID,
                                      CLONE_NEWUSER | CLONE_NEWNET, CLONE_NEWUSER | CLONE_NEWTIME};
    (void)unused;
    for (unsigned i = 0; !stop; i++) {
        *(volatile uint64_t *)&args.flags = wanted[i % 5];
        *(volatile uint64_t *)&args.flags = 0;
    }
    return NULL;
}

static void *flip_instruction(void *unused) {
    (void)unused;
    while (!stop) {
        *(volatile uint16_t *)code = 0x08eb; /* jmp: to the second call */
        *(volatile uint16_t *)code = 0x050f; /* syscall */
    }
    return NULL;
}

/* clone3(rdi, rsi); where it jumps to asks for a user namespace, by clone. */
static void write_code(void) {
    static const unsigned char first[] = {0x0f, 0x05, 0xc3},
                               second[] = {0xbf, SIGCHLD, 0, 0, 0x10, 0x31, 0xf6, 0x31, 0xd2, 0x4d, 0x31, 0xd2, 0x4d,
                                           0x31, 0xc0, 0xb8, 56, 0, 0, 0, 0x0f, 0x05, 0xc3};
    code = (void *)MUST(mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    memcpy(code, first, sizeof first);
    memcpy(code + 10, second, sizeof second);
}

static long by_code(void) {
    long result;
    __asm__ volatile("call *%%rbx"
                     : "=a"(result)
                     : "a"(SYS_clone3), "D"(&args), "S"(sizeof args), "b"(code)
                     : "rcx", "rdx", "r8", "r10", "r11", "memory");
    return result;
}

static void race(const char *label, void *(*other)(void *)) {
    pthread_t threads[2];
    struct timespec then, now;
    int made = 0, escaped = 0, status;
    stop = 0;
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, other, NULL);
    clock_gettime(CLOCK_MONOTONIC, &then);
    for (long i = 0, ms = 0; i < ROUNDS || ms < LEAST_MS; i++) {
        long child = other == flip_flags ? syscall(SYS_clone3, &args, sizeof args) : by_code();
        if (child == 0)
            _exit(is_free() ? ESCAPED : 0);
        if (child > 0) {
            made++;
            MUST(waitpid((pid_t)child, &status, 0));
            escaped += WIFEXITED(status) && WEXITSTATUS(status) == ESCAPED;
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
        ms = (now.tv_sec - then.tv_sec) * 1000 + (now.tv_nsec - then.tv_nsec) / 1000000;
    }
    stop = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    args.flags = 0;
    say("%s: %s, escaped %d", label, made || other != flip_flags ? "done" : "no child", escaped);
}

/* As long as a child lives, the pipe has a writer. */
static void killed(void) {
    int ends[2], status;
    char byte;
    MUST(pipe(ends));
    for (int i = 0; i < KILLED; i++) {
        pid_t maker = MUST(fork());
        if (maker == 0)
            for (;;) {
                pid_t child = (pid_t)syscall(SYS_clone3, &args, sizeof args);
                if (child == 0)
                    _exit(0);
                waitpid(child, &status, 0);
            }
        usleep(i * 37 % 900);
        MUST(kill(maker, SIGKILL));
        MUST(waitpid(maker, &status, 0));
    }
    close(ends[1]);
    alarm(20); /* one is stopped for ever */
    say("killed: %ld", (long)read(ends[0], &byte, 1));
}

int main(void) {
    write_code();
    race("flags", flip_flags);
    race("instruction", flip_instruction);
    killed();
    return 0;
}
