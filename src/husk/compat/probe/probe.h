/* compat/probe: husk-probe, a static program that measures the Linux it stands in by small self-contained checks.
 *
 * Here: the words that checks are written in. run_checks.c runs each check in a child of its own and prints one line;
 * support.c has what checks share; checks/ has the checks, one file for each family of calls.
 *
 * How to add a check. Write in the file of its family in checks/
 *
 *     CHECK(ftruncate, "shrinks a file")
 *     {
 *         int fd = probe_file("f", "0123456789");
 *         MUST(CALL(ftruncate, fd, 4));
 *         EFFECT(probe_size(fd) == 4);
 *     }
 *
 * and build: no list has to be changed. (A new file goes into meson.build.)
 *
 *   CHECK(call, "case")  the call is the name of a registry row. The case is words that are unique for this call, or it
 *                        names the argument values that the check is about, with the argument names of the row's
 *                        signature and the values' names in abi/registry/flags.py (or numbers): "option=ARCH_SET_GS",
 *                        "family=AF_INET type=SOCK_RAW". Words may follow: "cmd=F_SETLK: a second owner waits".
 *                        From such a case comes an argument note of the measured profile.
 *   CHECK_PATH("/proc/self/maps")  the same for a file; its result becomes the profile's claim about that path.
 *   CALL(call, ...)      makes the call under test: raw, with these registers, which are reported. It returns what the
 *                        kernel returns, -EPERM for instance; errno stays as it is. Every check makes at least one.
 *                        Helpers and preparations use the C library instead.
 *   MUST(CALL(...))      ends the check with "errno NAME" if the call failed, else gives the value.
 *   MUST_OR(CALL(...), EOPNOTSUPP)   the same, but this errno is a right answer too, on hardware that lacks something
 *                        for one: the check ends with "works" and that errno.
 *   ANSWERS(CALL(...), EINVAL, EPERM)   for calls that must not succeed here: one of these errnos says that the call is
 *                        there ("works", with that errno); another errno, ENOSYS for one, is the result as it is.
 *   EFFECT(condition)    ends the check with "no effect" and the condition's text unless it holds.
 *   NEED(condition, "what")   ends the check with "skipped" unless it holds: for preparations, not for the call itself.
 *   probe_skip("why")    the same without a condition.
 *   Falling off the end is "works". A signal that kills the check is "crash SIGNAL", and time up is "hang".
 *
 * Rules. A check proves the effect, not the return value: it reads back what the call should have changed. It needs no
 * privilege, and it does no harm as root either: choose arguments with which success is harmless. It stands alone:
 * no order, no descriptor but its own; it may change its process at will, since the process ends with it. Files only
 * below probe_scratch(). It ends within milliseconds, and its children die with its process group. A result must not
 * depend on chance: a time has a generous limit, and a comparison of times a wide one. */
#ifndef HUSK_PROBE_H
#define HUSK_PROBE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "call_numbers.h"

enum probe_result {
    PROBE_WORKS,
    PROBE_ERRNO,
    PROBE_NO_EFFECT,
    PROBE_SKIPPED,
    PROBE_CRASH, /* the parent's, as the next one */
    PROBE_HANG,
};

struct probe_check {
    const char *call;
    const char *name;
    void (*run)(void);
};

/* Each check puts a pointer into one section of the program; the linker names its ends. */
#define PROBE_JOIN_(a, b) a##b
#define PROBE_JOIN(a, b) PROBE_JOIN_(a, b)
#define PROBE_DEFINE(call_text, case_text)                                                                             \
    static void PROBE_JOIN(check_, __LINE__)(void);                                                                    \
    static const struct probe_check PROBE_JOIN(row_, __LINE__) = {call_text, case_text, PROBE_JOIN(check_, __LINE__)}; \
    static const struct probe_check *const PROBE_JOIN(entry_, __LINE__)                                                \
        __attribute__((section("probe_checks"), used)) = &PROBE_JOIN(row_, __LINE__);                                  \
    static void PROBE_JOIN(check_, __LINE__)(void)
#define CHECK(call, text) PROBE_DEFINE(#call, text)
#define CHECK_PATH(path) PROBE_DEFINE(path, "")

/* Up to six arguments of any scalar type, as registers. */
#define PROBE_L0() {0}
#define PROBE_L1(a) {(long)(a)}
#define PROBE_L2(a, b) {(long)(a), (long)(b)}
#define PROBE_L3(a, b, c) {(long)(a), (long)(b), (long)(c)}
#define PROBE_L4(a, b, c, d) {(long)(a), (long)(b), (long)(c), (long)(d)}
#define PROBE_L5(a, b, c, d, e) {(long)(a), (long)(b), (long)(c), (long)(d), (long)(e)}
#define PROBE_L6(a, b, c, d, e, f) {(long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f)}
#define PROBE_PICK(ignored, a, b, c, d, e, f, chosen, ...) chosen
#define PROBE_LONGS(...)                                                                                               \
    PROBE_PICK(ignored, ##__VA_ARGS__, PROBE_L6, PROBE_L5, PROBE_L4, PROBE_L3, PROBE_L2, PROBE_L1, PROBE_L0)           \
    (__VA_ARGS__)

#define CALL(call, ...) probe_call(NR_##call, (const long[6])PROBE_LONGS(__VA_ARGS__))
#define MUST(value) probe_must(value)
#define MUST_OR(value, ...) probe_must_or(value, (const int[]){__VA_ARGS__, 0})
#define ANSWERS(value, ...) probe_answers(value, (const int[]){__VA_ARGS__, 0})
#define EFFECT(condition) probe_effect(condition, #condition)
#define NEED(condition, what) probe_need(condition, what)

/* run_checks.c: the words above. */
long probe_call(long number, const long arguments[6]);
void probe_tell_call(long number, const long arguments[6]); /* reports a call that is made without CALL */
long probe_must(long value);
long probe_must_or(long value, const int *errnos);
void probe_answers(long value, const int *errnos);
void probe_effect(bool holds, const char *text);
void probe_need(bool holds, const char *what);
_Noreturn void probe_skip(const char *why);
_Noreturn void probe_finish(enum probe_result result, const char *detail);
const char *probe_errno_name(int number);
const char *probe_signal_name(int number);

/* The same call without a report: for calls that the C library lacks, in preparations. It returns -errno, as the kernel
 * does, and sets errno too, for NEED. */
long probe_raw(long number, const long arguments[6]);
#define RAW(call, ...) probe_raw(NR_##call, (const long[6])PROBE_LONGS(__VA_ARGS__))

/* support.c: preparations. Each ends the check as "skipped" if it fails. */
void probe_scratch(void);                                  /* makes an empty directory for this check and enters it */
int probe_file(const char *name, const char *content);     /* makes a file in the scratch directory; open for both */
bool probe_holds(const char *name, const char *content);   /* the file has exactly this content */
bool probe_exists(const char *name);                       /* the name itself; a link is not followed */
int probe_memfd(size_t size);                              /* an anonymous file of zeros */
long probe_size(int fd);
void probe_pipe(int ends[2]);
char *probe_pages(size_t count);                           /* fresh private memory, readable and writable */
char *probe_shared(size_t count);                          /* the same, shared with children */
pid_t probe_fork(void);
pid_t probe_sleeper(void);                                 /* a child that waits to be killed */
int probe_wait(pid_t pid);                                 /* as wait4's status */
int probe_touch(volatile char *address, bool write);       /* the signal that a child gets for it, or 0 */
int probe_child_exit(int (*run)(void *), void *argument);  /* runs it in a child; its exit code, or -signal */
void probe_in_session(void (*run)(void)); /* the rest of the check, in a child that leads a session; does not return */
void probe_terminal(int *master, int *slave);              /* a pseudo-terminal of the check's own */
long probe_read_text(const char *path, char *text, size_t size); /* terminated; -errno if it cannot be read */
void probe_sleep(int milliseconds);
int64_t probe_now(void);                                   /* nanoseconds of CLOCK_MONOTONIC */

/* A thread without a C library: it runs `run(argument)` and ends. The stack is never freed, as the check soon ends. */
struct probe_thread {
    volatile int tid; /* zeroed by the kernel at the thread's end */
};
void probe_thread_start(struct probe_thread *thread, int (*run)(void *), void *argument);
void probe_thread_join(struct probe_thread *thread);

/* run_checks.c: for support.c. */
const char *probe_scratch_root(void); /* NULL where no directory can be written */
void probe_tell_scratch(void);        /* the parent has to remove this check's directory */
extern int probe_index;               /* of the check that runs: names its directory */

#endif
