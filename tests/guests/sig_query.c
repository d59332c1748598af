/* build: sig_query
 *
 * sigaction(2) with nothing but a question: no new action, only "what is set?". A step per kind of answer.
 */
#include "step.h"

struct kernel_action { void *handler; unsigned long flags; void *restorer; unsigned long mask; };

static volatile sig_atomic_t count;
static void plain(int sig) { (void)sig; count++; }
static void other(int sig) { (void)sig; }

static void ask(const char *label, int sig, void (*expected)(int)) {
    struct sigaction got;
    MUST(sigaction(sig, NULL, &got));
    say("%s: handler %s flags %x", label, got.sa_handler == expected ? "same" : "OTHER", got.sa_flags);
}

static void set(int sig, void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    MUST(sigaction(sig, &action, NULL));
}

int main(void) {
    ask("default", SIGUSR1, SIG_DFL);
    set(SIGUSR1, SIG_IGN, 0);
    ask("ignored", SIGUSR1, SIG_IGN);
    set(SIGUSR1, plain, SA_RESTART | SA_NODEFER);
    ask("handler with SA_RESTART", SIGUSR1, plain);
    set(SIGSEGV, plain, 0);
    ask("handler of a fault", SIGSEGV, plain);
    set(SIGUSR1, plain, 0);
    ask("handler without SA_RESTART", SIGUSR1, plain);
    set(SIGPWR, plain, 0);
    ask("handler of a rare signal without SA_RESTART", SIGPWR, plain);
    /* The action that was read can be set again and called, and is then the handler once more. */
    struct sigaction seen, back, away = {.sa_handler = other};
    MUST(sigaction(SIGUSR1, NULL, &seen));
    MUST(sigaction(SIGUSR1, &away, NULL));
    MUST(sigaction(SIGUSR1, &seen, NULL));
    raise(SIGUSR1);
    seen.sa_handler(SIGUSR1);
    say("put back, raised and called: runs %d", (int)count);
    MUST(sigaction(SIGUSR1, &away, &back));
    say("old action when another is set: handler %s", back.sa_handler == plain ? "same" : "OTHER");
    /* A new action is only read: the caller's memory is as before. */
    struct kernel_action raw = {plain, 0x04000000, plain, 0}, kept = raw;
    MUST(syscall(SYS_rt_sigaction, SIGUSR2, &raw, NULL, 8));
    say("a raw caller's structure is as before %d", !memcmp(&raw, &kept, sizeof raw));
    return 0;
}
