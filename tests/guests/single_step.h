/* For guests that want a signal at every instruction of something: `trap(1)`, the call, `trap(0)`. The handler of
 * SIGTRAP does at instruction number `at` what `what` says. */
#ifndef SINGLE_STEP_H
#define SINGLE_STEP_H

#include "step.h"
#include <setjmp.h>
#include <ucontext.h>

#define TRAP_FLAG 0x100

enum { ASK, FORK, JUMP };
static volatile long at, steps; /* which instruction is wanted; how many there were */
static volatile int what, forked_here;
static volatile long wrong_inside; /* what ASK found wrong, and children of FORK that did not end well */
static sigjmp_buf away;            /* where JUMP goes */

static int ask_inside(void); /* the guest's own: how many answers were wrong */

static void stepped(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    ucontext_t *frame = context;
    int saved = errno, status = 0;
    if (steps++ != at)
        return;
    if (what == ASK) {
        wrong_inside += ask_inside();
    } else if (what == FORK) {
        pid_t child = fork();
        if (child)
            wrong_inside += waitpid(child, &status, 0) != child || status != 0;
        else
            forked_here = 1, frame->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG; /* it goes on from here, at full speed */
    } else {
        frame->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
        siglongjmp(away, 1);
    }
    errno = saved;
}

static void handle_steps(void) {
    struct sigaction action = {.sa_sigaction = stepped, .sa_flags = SA_SIGINFO};
    MUST(sigaction(SIGTRAP, &action, NULL));
}

static inline void trap(int on) {
    unsigned long flags;
    __asm__ volatile("pushfq; popq %0" : "=r"(flags)::"memory");
    flags = on ? flags | TRAP_FLAG : flags & ~(unsigned long)TRAP_FLAG;
    __asm__ volatile("pushq %0; popfq" ::"r"(flags) : "memory", "cc");
}

#endif
