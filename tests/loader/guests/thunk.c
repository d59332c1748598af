/*
 * Installs signal thunks by hand, as the supervisor will, and shows what each
 * kind of call sees. Must run through the loader, with only the bit of read (0)
 * set in eintr_bitmap: supervisor -i 0.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include "resident.h"

static struct husk_resident *const resident = (struct husk_resident *)HUSK_RESIDENT_DATA;
static int pipe_fds[2];
static volatile sig_atomic_t calls, last_signal, saw_info, saw_context, on_altstack, feed;
static char altstack[64 << 10];

static void handler(int sig, siginfo_t *info, void *context)
{
    ucontext_t *uc = context;
    char here;

    calls++;
    last_signal = sig;
    saw_info = info->si_signo == sig;
    saw_context = uc->uc_mcontext.gregs[REG_RSP] != 0 && (uintptr_t)__builtin_frame_address(0) % 16 == 0;
    on_altstack = &here >= altstack && &here < altstack + sizeof altstack;
    if (feed && write(pipe_fds[1], "x", 1) != 1)
        abort();
    feed = 0;
}

static void install(int sig, int slot, int flags)
{
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_RESTART | flags};

    resident->slot_handler[slot] = (uintptr_t)handler;
    action.sa_sigaction = (void (*)(int, siginfo_t *, void *))HUSK_THUNK((uintptr_t)slot);
    if (sigaction(sig, &action, NULL) < 0)
        perror("sigaction");
}

/* Repeatedly: on a busy machine the first alarm may come before the call that it should interrupt. */
static void alarm_soon(void)
{
    struct itimerval soon = {.it_value = {.tv_usec = 30000}, .it_interval = {.tv_usec = 30000}};

    setitimer(ITIMER_REAL, &soon, NULL);
}

static void show(const char *what, long result)
{
    static const struct itimerval never;
    int error = errno;

    setitimer(ITIMER_REAL, &never, NULL);
    printf("%s: %ld %s, handler ran %d, signal ok %d, info %d, context %d, altstack %d\n", what, result,
           result < 0 ? strerrorname_np(error) : "-", calls > 0, last_signal == SIGALRM, (int)saw_info,
           (int)saw_context, (int)on_altstack);
    calls = last_signal = saw_info = saw_context = on_altstack = 0;
}

static long plain_result;

static void plain(int sig, void *info, void *context)
{
    plain_result = sig + (long)(uintptr_t)info + (long)(uintptr_t)context;
}

int main(void)
{
    char byte[8];
    struct iovec iov = {byte, 1};
    void (*as_function)(int, void *, void *) = (void *)HUSK_THUNK(127ul);
    stack_t ss = {.ss_sp = altstack, .ss_size = sizeof altstack};

    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("magic %d version %u identity %lx exe %s\n", resident->magic == HUSK_RESIDENT_MAGIC, resident->version,
           (unsigned long)resident->identity[0], resident->exe);
    printf("exe_len %d execfn %s\n", resident->exe_len == strlen(resident->exe),
           resident->exe + resident->execfn_offset);
    if (pipe(pipe_fds) < 0)
        return 1;

    install(SIGALRM, 3, 0);
    alarm_soon();
    show("read, bit set", read(pipe_fds[0], byte, 1));

    feed = 1; /* a restarted call then has something to return */
    alarm_soon();
    show("readv, bit clear", readv(pipe_fds[0], &iov, 1));

    install(SIGALRM, 127, SA_ONSTACK);
    sigaltstack(&ss, NULL);
    alarm_soon();
    show("read, bit set, altstack", read(pipe_fds[0], byte, 1));

    /* Between calls: rcx differs from rip + 2, the interrupted code must not notice. */
    alarm_soon();
    for (volatile long spin = 0; calls == 0; spin++)
        continue;
    show("no call", 0);
    alarm_soon();
    show("pause", pause());

    resident->slot_handler[127] = (uintptr_t)plain;
    as_function(1, (void *)2, (void *)3); /* a garbage context must not be touched */
    printf("plain call %ld\n", plain_result);

    memset(resident->scratch, 0xaa, sizeof resident->scratch);
    printf("scratch %d bytes\n", (int)sizeof resident->scratch);
    return 0;
}
