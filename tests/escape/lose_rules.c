/* build: lose_rules
 *
 * lose_rules FILE: a program restricts itself with Landlock so that it cannot read FILE, and then tries to get rid of
 * the rules: with personality(2), also as a supervisor would call it, while other threads change its code, and by
 * handing the work to a child without a parent. On Linux nothing helps.
 */
#include "cookie.h"

#include <linux/landlock.h>
#include <pthread.h>

static const char *file;
static uint64_t cookie;

static void look(const char *when) {
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    say("%s: %s", when, fd < 0 ? errname(errno) : "read");
    if (fd >= 0)
        close(fd);
}

static int ruleset(void) {
    uint64_t handled = LANDLOCK_ACCESS_FS_READ_FILE;
    return MUST(syscall(444, &handled, sizeof handled, 0));
}

/* Code of our own that makes any call; another thread changes `syscall` to something else and back. */
static unsigned char *gate;
static volatile int flipping = 1;

static void *flip(void *unused) {
    (void)unused;
    while (flipping) {
        gate[7] = 0x90, gate[8] = 0x90; /* nothing */
        gate[7] = 0x0f, gate[8] = 0x05; /* syscall */
    }
    return NULL;
}

static void through_the_gate(void) {
    /* mov $446,%rax; syscall; ret, with the arguments where a C call has them */
    static const unsigned char code[] = {0x48, 0xc7, 0xc0, 0xbe, 0x01, 0, 0, 0x0f, 0x05, 0xc3};
    pthread_t thread;
    int denied = 0, rounds = 0;
    gate = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (gate == MAP_FAILED)
        return;
    memcpy(gate, code, sizeof code);
    MUST(pthread_create(&thread, NULL, flip, NULL));
    for (; rounds < 30; rounds++) {
        int child = MUST(fork()), status;
        if (!child) { /* the child has no second thread, so it makes one */
            MUST(pthread_create(&thread, NULL, flip, NULL));
            long result = ((long (*)(long, long))gate)(ruleset(), 0);
            int fd = result == 0 ? open(file, O_RDONLY) : -1;
            _exit(result == 0 && fd >= 0); /* it says that the rules hold, and they do not */
        }
        MUST(waitpid(child, &status, 0));
        denied += status == 0 || WIFSIGNALED(status);
    }
    flipping = 0;
    pthread_join(thread, NULL);
    say("code that changes: %s", denied == rounds ? "held" : "lost");
}

int main(int argc, char **argv) {
    (void)argc;
    int *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), status;
    file = argv[1];
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    cookie = learned(shared);
    look("before");
    through_the_gate();
    MUST(syscall(446, ruleset(), 0));
    look("restricted");
    for (unsigned persona = 0; persona < 2; persona++)
        syscall(SYS_personality, persona);
    look("after personality");
    syscall(SYS_personality, 0, 0, 0, 0, 0, cookie);
    look("with the supervisor's number");
    syscall(SYS_personality, 0xf001ff00);
    look("with a forged mark");
    syscall(446, -1, 0, 0, 0, 0, cookie);
    look("after an empty restriction");
    *shared = 0; /* it still holds a byte of the cookie, which may be 77 */
    pid_t child = MUST(fork());
    if (!child) {
        if (fork())
            _exit(0);
        usleep(50000);
        look("in an orphan");
        *shared = 77;
        _exit(0);
    }
    MUST(waitpid(child, &status, 0));
    for (int i = 0; i < 400 && *shared != 77; i++)
        usleep(10000);
    return 0;
}
