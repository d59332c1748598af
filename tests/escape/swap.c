/* build: swap -pthread
 *
 * swap WHAT VICTIM OWN SECONDS [LINK]: one thread swaps the file behind descriptor 50 between OWN, which the guest may
 * change, and VICTIM, which it may only read. Another thread asks for a change of "descriptor 50" without pause: a
 * supervisor that judges one file and then acts on the other changes VICTIM. WHAT is open, truncate, utime, chmod or
 * link. On an unprotected host, where VICTIM belongs to the caller, the first swap is enough. Prints "changed" or
 * "unchanged".
 */
#include "step.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define SWAPPED 50
#define NAME "/proc/self/fd/50"

static int own, victim;
static atomic_bool stop;

static void *swap(void *unused) {
    while (!stop) {
        dup2(victim, SWAPPED);
        for (volatile int i = 0; i < 300; i++)
            ;
        dup2(own, SWAPPED);
        for (volatile int i = 0; i < 300; i++)
            ;
    }
    return unused;
}

/* The victim's text begins with ORIGINAL; nothing else here does. */
static bool open_changes(void) {
    char text[8];
    int fd = open(NAME, O_RDWR);
    bool got = fd >= 0 && pread(fd, text, 8, 0) == 8 && memcmp(text, "ORIGINAL", 8) == 0;
    bool written = got && pwrite(fd, "MODIFIED", 8, 0) == 8;
    if (fd >= 0)
        close(fd);
    return written;
}

static bool change(const char *what, const struct stat *before, const char *link) {
    struct timespec early[2] = {{1, 1}, {1, 1}};
    struct stat now;
    switch (what[0]) {
    case 'o':
        return open_changes();
    case 't':
        (void)!truncate(NAME, 5);
        return fstat(victim, &now) == 0 && now.st_size == 5;
    case 'u':
        utimensat(SWAPPED, "", early, AT_EMPTY_PATH);
        utimensat(AT_FDCWD, NAME, early, 0);
        return fstat(victim, &now) == 0 && now.st_mtime == 1;
    case 'c':
        fchmod(SWAPPED, 0666);
        chmod(NAME, 0666);
        return fstat(victim, &now) == 0 && now.st_mode != before->st_mode;
    default:
        (void)!linkat(AT_FDCWD, NAME, AT_FDCWD, link, AT_SYMLINK_FOLLOW);
        if (stat(link, &now) == 0 && now.st_ino == before->st_ino && now.st_dev == before->st_dev)
            return true;
        unlink(link);
        return false;
    }
}

int main(int argc, char **argv) {
    if (argc < 5)
        return 96;
    struct stat before;
    struct timespec start, now;
    pthread_t thread;
    bool changed = false;
    int rounds = 0;
    own = MUST(open(argv[3], O_RDWR | O_CREAT | O_EXCL, 0600));
    MUST(unlink(argv[3])); /* without a name it can only be reached through the descriptor */
    victim = MUST(open(argv[2], O_RDONLY));
    MUST(fstat(victim, &before));
    MUST(dup2(own, SWAPPED));
    pthread_create(&thread, NULL, swap, NULL);
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        changed = change(argv[1], &before, argc > 5 ? argv[5] : "");
        rounds++;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (!changed && now.tv_sec - start.tv_sec + (now.tv_nsec - start.tv_nsec) / 1e9 < atof(argv[4]));
    stop = true;
    pthread_join(thread, NULL);
    say("%s: %s", argv[1], changed ? "changed" : "unchanged");
    say("rounds %d", rounds);
    return 0;
}
