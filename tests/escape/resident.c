/* build: resident
 *
 * resident: overwrites what husk's loader left in this program (signal thunks, identity, path) with several kinds of
 * garbage, then unmaps it. After each it makes the calls for which husk reads it, in this process and in another one.
 * It makes them by syscall(2): other functions of its C library lead through that region (docs/design/025-gate.md).
 * It is the guest's own memory: wrong answers about the guest itself are allowed, and nothing else may be affected.
 * Natively there is no such region, and the program makes one. Prints "survived N".
 */
#include "step.h"

#include <sys/prctl.h>

#define REGION ((char *)0x567f00000000)
#define SIZE (5 * 4096UL)

static void handler(int signal) {
    (void)signal;
}

static void ask(const char *process) {
    static const char *const NAMES[] = {"exe", "comm", "cmdline", "maps", "stat", "status", "auxv", "environ"};
    char path[64], text[4096];
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        snprintf(path, sizeof path, "/proc/%s/%s", process, NAMES[i]);
        if (syscall(SYS_readlink, path, text, sizeof text) < 0) {
            int fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY);
            if (fd >= 0) {
                while (read(fd, text, sizeof text) > 0)
                    ;
                close(fd);
            }
        }
    }
}

static void rubbish(int kind) {
    uint64_t *words = (void *)REGION;
    uint64_t state = 88172645463325252 + kind;
    for (size_t i = 0; i < SIZE / 8; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        words[i] = kind == 0 ? 0 : kind == 1 ? ~0UL : kind == 2 ? (uint64_t)&words[i] : kind == 3 ? 4096 : state;
    }
}

/* In a child: a signal may well end it, because its thunks are rubbish. */
static int round_of(int kind) {
    if (kind < 8)
        rubbish(kind);
    else
        munmap(REGION, SIZE);
    struct sigaction plain = {.sa_handler = handler}, old;
    for (int i = 1; i < 65; i++)
        syscall(SYS_rt_sigaction, i, &plain, &old, 8);
    for (int i = 1; i < 65; i++)
        syscall(SYS_rt_sigaction, i, NULL, &old, 8);
    ask("self");
    int fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/exe", O_WRONLY); /* is it running? */
    if (fd >= 0)
        close(fd);
    chdir("/");
    return 0;
}

int main(int count, char **words) {
    if (count > 1)
        return 0; /* executed by a round */
    signal(SIGUSR1, handler);
    if (mprotect(REGION, SIZE, PROT_READ | PROT_WRITE) != 0 &&
        mmap(REGION, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        return 1;
    char told[24];
    int survived = 0;
    for (int kind = 0; kind < 9; kind++) {
        int ready[2], go[2];
        char byte, name[16];
        if (pipe(ready) || pipe(go))
            return 1;
        pid_t child = fork();
        if (child == 0) {
            round_of(kind);
            write(ready[1], "x", 1);
            read(go[0], &byte, 1);
            execl(words[0], words[0], "again", NULL);
            _exit(9);
        }
        close(ready[1]);
        read(ready[0], &byte, 1);
        snprintf(name, sizeof name, "%d", child);
        ask(name);
        write(go[1], "x", 1);
        int status;
        if (waitpid(child, &status, 0) == child && status == 0)
            survived++;
        close(ready[0]), close(go[0]), close(go[1]);
    }
    write(1, told, snprintf(told, sizeof told, "survived %d\n", survived));
    return 0;
}
