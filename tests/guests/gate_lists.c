/* build: gate_lists -pthread
 *
 * Directories read, so often that a runtime may hand over listings in a way of its own, and answers put into buffers of
 * all kinds: small ones, bad ones, across pages, that are to stay as they are; positions that several descriptors,
 * processes and threads share; descriptors and working directories that are exchanged between two questions.
 */
#include "step.h"
#include <dirent.h>
#include <pthread.h>

#define FILES 300

static char *volatile bad = (char *)8;

/* How many of the FILES a descriptor's listing has from here on, in reads of `room` bytes. */
static int count(int fd, size_t room, char *buffer) {
    int found = 0;
    ssize_t size;
    while ((size = getdents64(fd, buffer, room)) > 0)
        for (ssize_t at = 0; at < size; at += ((struct dirent64 *)(buffer + at))->d_reclen)
            found += strncmp(((struct dirent64 *)(buffer + at))->d_name, "entry", 5) == 0;
    return size < 0 ? -1 : found;
}

static void sizes(void) {
    static char buffer[40000];
    static const size_t rooms[] = {32, 64, 100, 1000, 4096, 5000, 32768, 40000};
    int wrong = 0, fd = MUST(open("full", O_RDONLY | O_DIRECTORY));
    for (int i = 0; i < 80; i++) {
        MUST(lseek(fd, 0, SEEK_SET));
        size_t room = rooms[i % 8];
        char *place = buffer + (i % 8 == 7 ? 0 : i);
        memset(buffer, 0x5a, sizeof buffer);
        wrong += count(fd, room, place) != FILES;
        for (size_t at = (size_t)(place - buffer) + room; at < sizeof buffer; at++)
            wrong += buffer[at] != 0x5a;
    }
    say("sizes: wrong %d", wrong);
    STEP(getdents64(fd, buffer, 0));
    MUST(lseek(fd, 0, SEEK_SET));
    STEP(getdents64(fd, buffer, 8));
    close(fd);
    STEP(getdents64(fd, buffer, 4096));
    fd = MUST(open("full/entry7", O_RDONLY));
    STEP(getdents64(fd, buffer, 4096));
    close(fd);
    fd = MUST(open("full", O_PATH));
    STEP(getdents64(fd, buffer, 4096));
    close(fd);
}

static void pointers(void) {
    static char buffer[40000];
    char *pages = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(munmap(pages + 2 * 4096, 4096));
    int wrong = 0, fd = MUST(open("full", O_RDONLY | O_DIRECTORY));
    for (int i = 0; i < 30; i++) {
        MUST(lseek(fd, 0, SEEK_SET));
        wrong += getdents64(fd, bad, 4096) != -1 || errno != EFAULT;
        wrong += count(fd, sizeof buffer, buffer) != FILES; /* nothing was skipped */
        MUST(lseek(fd, 0, SEEK_SET));
        wrong += count(fd, 4096, pages + 4096) != FILES;
        MUST(lseek(fd, 0, SEEK_SET));
        wrong += count(fd, 8192, pages) != FILES;
        MUST(mprotect(pages, 4096, PROT_READ));
        MUST(lseek(fd, 0, SEEK_SET));
        wrong += getdents64(fd, pages, 4096) != -1 || errno != EFAULT;
        MUST(mprotect(pages, 4096, PROT_READ | PROT_WRITE));
    }
    close(fd);
    say("pointers: wrong %d", wrong);
}

/* Two descriptors, and two processes, of one open directory: each entry once. */
static void shared(void) {
    static char buffer[2000];
    int wrong = 0;
    for (int i = 0; i < 20; i++) {
        int fd = MUST(open("full", O_RDONLY | O_DIRECTORY)), other = MUST(dup(fd)), found = 0, ends[2], part;
        ssize_t size = MUST(getdents64(fd, buffer, sizeof buffer));
        for (ssize_t at = 0; at < size; at += ((struct dirent64 *)(buffer + at))->d_reclen)
            found += strncmp(((struct dirent64 *)(buffer + at))->d_name, "entry", 5) == 0;
        MUST(pipe(ends));
        pid_t child = MUST(fork());
        if (!child) {
            char half[1000];
            part = 0;
            size = getdents64(other, half, sizeof half);
            for (ssize_t at = 0; at < size; at += ((struct dirent64 *)(half + at))->d_reclen)
                part += strncmp(((struct dirent64 *)(half + at))->d_name, "entry", 5) == 0;
            _exit(write(ends[1], &part, sizeof part) != sizeof part);
        }
        int status;
        MUST(waitpid(child, &status, 0));
        MUST(read(ends[0], &part, sizeof part));
        close(ends[0]), close(ends[1]);
        found += part + count(other, sizeof buffer, buffer);
        wrong += found != FILES || status != 0;
        close(fd), close(other);
    }
    say("shared positions: wrong %d", wrong);
}

static int common = -1;
static void *of_thread(void *unused) {
    (void)unused;
    char buffer[600];
    return (void *)(intptr_t)count(common, sizeof buffer, buffer);
}

static void *of_own(void *rounds) {
    intptr_t wrong = 0;
    char *buffer = malloc(32768);
    for (int i = 0; i < (int)(intptr_t)rounds; i++) {
        int fd = open("full", O_RDONLY | O_DIRECTORY);
        wrong += count(fd, 32768, buffer) != FILES;
        close(fd);
    }
    free(buffer);
    return (void *)wrong;
}

static void threads(void) {
    pthread_t all[4];
    intptr_t wrong = 0;
    for (int round = 0; round < 10; round++) {
        intptr_t found = 0;
        common = MUST(open("full", O_RDONLY | O_DIRECTORY));
        for (int i = 0; i < 4; i++)
            MUST(pthread_create(&all[i], NULL, of_thread, NULL));
        for (int i = 0; i < 4; i++) {
            void *part;
            pthread_join(all[i], &part);
            found += (intptr_t)part;
        }
        wrong += found != FILES;
        close(common);
    }
    for (int i = 0; i < 4; i++)
        MUST(pthread_create(&all[i], NULL, of_own, (void *)40));
    for (int i = 0; i < 4; i++) {
        void *of_it;
        pthread_join(all[i], &of_it);
        wrong += (intptr_t)of_it;
    }
    say("threads: wrong %ld", (long)wrong);
}

static void changes(void) {
    int wrong = 0;
    char name[32];
    for (int i = 0; i < 40; i++) {
        DIR *all = opendir("full");
        int found = 0;
        snprintf(name, sizeof name, "full/entry-new%d", i);
        close(MUST(open(name, O_WRONLY | O_CREAT, 0600)));
        while (readdir(all))
            found++;
        wrong += found < FILES + 3 + i || found > FILES + 4 + i;
        rewinddir(all);
        long where = 0;
        for (int j = 0; j < 50; j++) {
            if (j == 20)
                where = telldir(all);
            readdir(all);
        }
        seekdir(all, where);
        for (found = 0; readdir(all); found++)
            ;
        wrong += found != FILES + 4 + i - 20;
        closedir(all);
    }
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "full/entry-new%d", i);
        MUST(unlink(name));
    }
    say("changes: wrong %d", wrong);
}

/* What is not answered leaves a buffer as it is; what is, fills all of it. */
static void buffers(void) {
    char *pages = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int wrong = 0, dir = MUST(open("full", O_RDONLY | O_DIRECTORY));
    struct stat right;
    MUST(munmap(pages + 2 * 4096, 4096));
    MUST(stat("full/entry5", &right));
    for (int i = 0; i < 400; i++) {
        char *place = pages + 4096 - 144 + i % 152, before[144];
        memset(place, 0x77 + i % 3, 144);
        memcpy(before, place, 144);
        wrong += fstatat(dir, "no-such-name", (struct stat *)place, 0) != -1 || errno != ENOENT;
        wrong += stat("full/no-such-name", (struct stat *)place) != -1 || errno != ENOENT;
        wrong += memcmp(before, place, 144) != 0;
        wrong += fstatat(dir, "entry5", (struct stat *)place, 0) != 0 || memcmp(place, &right, 120) != 0;
        wrong += fstatat(dir, "entry5", (struct stat *)(pages + 8192 - 100 + i % 100), 0) != -1 || errno != EFAULT;
    }
    MUST(mprotect(pages, 4096, PROT_READ));
    for (int i = 0; i < 60; i++) {
        wrong += stat("full/entry5", (struct stat *)(pages + 4096 - 8 * (i % 30))) != (i % 30 ? -1 : 0);
        wrong += fstatat(dir, "no-such-name", (struct stat *)pages, 0) != -1 || errno != ENOENT;
    }
    say("buffers: wrong %d", wrong);
    close(dir);
}

/* The number is that of another directory at each question. */
static void exchanged(void) {
    int wrong = 0, full = MUST(open("full", O_RDONLY | O_DIRECTORY)), other = MUST(open("other", O_RDONLY | O_DIRECTORY));
    int number = MUST(dup(full));
    struct stat s;
    for (int i = 0; i < 600; i++) {
        int which = i / 3 % 3; /* full, other, closed */
        if (which == 2)
            close(number);
        else
            MUST(dup2(which ? other : full, number));
        int got = fstatat(number, "size", &s, 0), error = errno;
        wrong += which == 2 ? got != -1 || error != EBADF : got != 0 || s.st_size != (which ? 2 : 1);
        if (i % 5 == 0) {
            MUST(fchdir(which ? other : full));
            wrong += stat("size", &s) != 0 || s.st_size != (which ? 2 : 1);
            MUST(fchdir(which ? full : other));
            wrong += lstat("size", &s) != 0 || s.st_size != (which ? 1 : 2);
        }
    }
    MUST(chdir(".."));
    say("exchanged: wrong %d", wrong);
    close(full), close(other), close(number);
}

int main(void) {
    char name[32];
    MUST(mkdir("full", 0755));
    MUST(mkdir("other", 0755));
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "full/entry%d", i);
        close(MUST(open(name, O_WRONLY | O_CREAT, 0644)));
    }
    for (int i = 0; i < 2; i++) {
        int fd = MUST(open(i ? "other/size" : "full/size", O_WRONLY | O_CREAT, 0644));
        MUST(write(fd, "xx", i + 1));
        close(fd);
    }
    struct timespec settled = {0, 150000000}; /* a directory that changed just now may be read in another way */
    MUST(nanosleep(&settled, NULL));
    sizes();
    pointers();
    shared();
    threads();
    buffers();
    exchanged();
    changes();
    return 0;
}
