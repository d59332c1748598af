/* build: gate_lies -pthread
 *
 * gate_lies FILE: what a guest gains by writing into its gate, the memory through which it asks about names without a
 * system call. It finds the gate behind its C library's fstatat, then asks by hand for FILE, which the box does not
 * have: by its name, through the descriptors and working directories of other tasks, with sizes that are too long, by
 * telling husk that it holds directories which it never opened, and while another thread writes garbage over every
 * slot. It tries to change and to list things so, too. Afterwards a child with a gate of its own gets right answers.
 * Without a gate there is nothing to lie in, and it says so on standard error.
 */
#include "step.h"
#include "../../src/husk/native/gate/layout.h"
#include "../../src/husk/native/loader/resident.h"
#include <pthread.h>

static uint8_t *base;

/* Where the jump in fstatat leads. */
static uint8_t *find_gate(void) {
    const uint8_t *code = (const uint8_t *)(uintptr_t)fstatat;
    for (int i = 0; i < 300; i++) {
        int32_t distance;
        if (code[i] != 0xe9 || code[i + 5] != 0x0f || code[i + 6] != 0x05)
            continue;
        memcpy(&distance, code + i + 1, 4);
        return (uint8_t *)((uintptr_t)(code + i + 5 + distance) & ~(uintptr_t)0xfff) - GATE_STUBS;
    }
    return NULL;
}

/* The directory that a request says it begins in. */
static uint64_t told_dev, told_ino;

/* Post a request, and wait for a moment: what husk said, or -1000. */
static long post(int slot_number, long nr, const long args[6], long tid, const char *name, unsigned long size) {
    uint8_t *slot = base + GATE_SLOTS + slot_number * GATE_SLOT_BYTES, *request = slot + GATE_SLOT_REQUEST;
    uint32_t *state = (uint32_t *)(void *)slot, *answered = (uint32_t *)(void *)(slot + GATE_SLOT_ANSWERED);
    static uint32_t turn = 4000;
    long value;
    uint64_t given;
    turn += 4;
    memcpy(request + GATE_REQUEST_NR, &nr, 8);
    memcpy(request + GATE_REQUEST_ARGS, args, 48);
    memcpy(request + GATE_REQUEST_TID, &tid, 8);
    memcpy(request + GATE_REQUEST_DEV, &told_dev, 8);
    memcpy(request + GATE_REQUEST_INO, &told_ino, 8);
    memcpy(request + GATE_REQUEST_SIZE, &size, 8);
    strncpy((char *)request + GATE_REQUEST_NAME, name, GATE_LONGEST_NAME);
    __atomic_store_n(state, turn | GATE_POSTED, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 20000; i++) {
        if (__atomic_load_n(answered, __ATOMIC_SEQ_CST) == turn) {
            memcpy(&given, slot + GATE_SLOT_SIZE, 8);
            memcpy(&value, slot + GATE_SLOT_VALUE, 8);
            return given == GATE_DECLINED || given == GATE_WHO ? -2000 : value;
        }
        if (i % 1000 == 999)
            sched_yield();
        __builtin_ia32_pause();
    }
    return -1000;
}

static volatile int enough;

static void *garbage(void *unused) {
    (void)unused;
    unsigned long random = 88172645463325252UL;
    while (!enough) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        uint8_t *at = base + GATE_SHARED + random % (GATE_BYTES - GATE_SHARED - 8);
        memcpy(at, &random, random % 8 + 1);
        if (random % 5 == 0)
            base[GATE_SLOTS + random / 5 % GATE_SLOT_COUNT * GATE_SLOT_BYTES] = GATE_POSTED;
    }
    return NULL;
}

static int ask(int rounds) {
    struct stat first, again;
    int wrong = stat("/usr/bin", &first);
    for (int i = 0; i < rounds; i++)
        wrong += stat("/usr/bin", &again) || again.st_ino != first.st_ino || again.st_mtime != first.st_mtime ||
                 stat("/usr/no-such-name", &again) != -1 || errno != ENOENT;
    return wrong;
}

int main(int argc, char **argv) {
    const char *file = argc > 1 ? argv[1] : "/etc/shadow";
    char up[400], root[400], twice[400];
    snprintf(up, sizeof up, "../../../../../../../../..%s", file);
    snprintf(root, sizeof root, "/proc/1/root%s", file);
    snprintf(twice, sizeof twice, "/%s/../%s", file, strrchr(file, '/') + 1);
    long seen = 0, asked = 0, answered = 0, buffer[64];
    setvbuf(stdout, NULL, _IONBF, 0);
    say("at first wrong: %d", ask(2000));
    base = find_gate();
    if (!base) {
        fprintf(stderr, "no gate\n");
        return 0;
    }
    for (int round = 0; round < 12; round++) {
        ask(20); /* so that husk listens */
        for (int tid = 0; tid < 8; tid++) {
            const char *names[] = {file, up, root, twice, file + 1};
            long whose[] = {0, 1, getppid(), getpid(), gettid(), -1, 2147483647, 4294967297};
            for (int n = 0; n < 5; n++) {
                long args[6] = {round % 3 ? AT_FDCWD : round, (long)names[n], (long)buffer, 0, 0, 0};
                long got = post((round + n) % GATE_SLOT_COUNT, SYS_newfstatat, args, whose[tid], names[n],
                                n == 2 && round % 2 ? 100000 : strlen(names[n]));
                asked++;
                answered += got != -1000;
                seen += got >= 0;
            }
        }
    }
    /* The host's numbers of the working directory, and others near them. */
    long (*direct)(long, long, long, long, long) = (void *)(uintptr_t)(HUSK_RESIDENT + HUSK_RESIDENT_DIRECT);
    struct stat here = {0};
    const char *below[] = {file + 1, up + 3, strrchr(file, '/') + 1};
    direct(SYS_newfstatat, AT_FDCWD, (long)".", (long)&here, 0);
    for (long away = -200; away <= 200; away++) {
        told_dev = here.st_dev + (away % 50 == 0);
        told_ino = here.st_ino + away;
        long args[6] = {away % 3 ? AT_FDCWD : 77, (long)below[0], (long)buffer, 0, 0, 0};
        for (int n = 0; n < 3; n++) {
            long got = post((n + 3) % GATE_SLOT_COUNT, SYS_newfstatat, args, gettid(), below[n], strlen(below[n]));
            seen += got >= 0;
        }
        if (away % 16 == 0)
            ask(5);
    }
    told_dev = told_ino = 0;
    /* Changes, by descriptors and threads that it does not have, with umasks that there are none of. */
    for (int round = 0; round < 300; round++) {
        static const long calls[] = {SYS_unlink, SYS_unlinkat, SYS_chmod, SYS_fchmodat, SYS_utimensat, SYS_openat,
                                     SYS_fchmod, SYS_getdents64, SYS_mkdir, SYS_mkdirat, SYS_rmdir};
        const char *names[] = {file, up, root, twice, "", "/usr/bin/env", "/proc/self/mem"};
        long nr = calls[round % 11], tid = (round % 3 ? gettid() : round % 2 ? 1 : getppid()) | (long)round << 55;
        const char *name = names[round / 11 % 7];
        int by_name = nr == SYS_openat || nr == SYS_unlinkat || nr == SYS_fchmodat || nr == SYS_mkdirat;
        long change[6] = {by_name ? AT_FDCWD : round % 40,
                          round % 5 ? (long)name : 0, nr == SYS_openat ? O_WRONLY | O_CREAT | O_EXCL : 0, 0, 0, 0};
        if (nr == SYS_getdents64) { /* of what it holds, or does not, as what it is not */
            told_dev = here.st_dev, told_ino = here.st_ino - round % 3;
            change[2] = round % 2 ? 32768 : -1;
        }
        long got = post(round % GATE_SLOT_COUNT, nr, change, tid, name, strlen(name));
        seen += nr == SYS_getdents64 ? got > 0 : got >= 0 && *name;
        told_dev = told_ino = 0;
        if (round % 16 == 0)
            ask(5);
    }
    long args[6] = {(long)"/usr/bin", 1, 0, 0, 0, 0};
    for (long nr = 0; nr < 460; nr++) { /* calls that have no gate */
        static const int gated[] = {SYS_access, SYS_stat, SYS_lstat, SYS_readlink, SYS_newfstatat, SYS_statx,
                                    SYS_faccessat, SYS_faccessat2, SYS_readlinkat, SYS_getdents64};
        int has = 0;
        for (int i = 0; i < 10; i++)
            has |= nr == gated[i];
        seen += !has && post(0, nr, args, 0, "/usr/bin", 8) >= 0;
        if (nr % 16 == 0)
            ask(5);
    }
    say("seen of what is not there: %ld", seen);
    pthread_t thread;
    MUST(pthread_create(&thread, NULL, garbage, NULL));
    ask(3000); /* its own answers may be garbage: it asked for that */
    enough = 1;
    pthread_join(thread, NULL);
    int status, child = MUST(fork());
    if (!child)
        _exit(ask(3000) != 0);
    MUST(waitpid(child, &status, 0));
    say("a child afterwards: %d", status);
    fprintf(stderr, "asked %ld, answered %ld\n", asked, answered);
    return 0;
}
