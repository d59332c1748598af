/* build: files_edges
 *
 * Where a call meets the end of something: a buffer that runs into unmapped memory, a limit on file sizes, a count
 * beyond an int, a flag the file does not know.
 */
#include "step.h"
#include <dirent.h>
#include <sys/resource.h>

static int entries(const char *buffer, long size) {
    int count = 0;
    for (long at = 0; at < size; count++)
        at += *(const unsigned short *)(buffer + at + 16);
    return count;
}

static void listing(void) {
    MUST(mkdir("full", 0755));
    for (int i = 0; i < 20; i++) {
        char name[32]; /* 20 letters: such an entry has no padding, which Linux would not write */
        snprintf(name, sizeof name, "full/entry-with-number-%02d", i);
        put_text(name, "", 0644);
    }
    say("--- a listing that meets the end of memory");
    int fd = MUST(open("full", O_RDONLY | O_DIRECTORY)), all = 0;
    for (int round = 0; round < 40; round++) {
        char *buffer = edge_buffer(100);
        long got = syscall(SYS_getdents64, fd, buffer, 4096);
        if (got <= 0) {
            say("ends with %ld %s", got, got ? errname(errno) : "");
            break;
        }
        if (got > 100)
            say("more than there is room for");
        all += entries(buffer, got);
    }
    say("entries in all: %d", all);
    MUST(lseek(fd, 0, SEEK_SET));
    STEP(syscall(SYS_getdents64, fd, edge_buffer(10), 4096)); /* not even one fits */
    char *buffer = edge_buffer(4096);
    say("the same position still: %d", entries(buffer, syscall(SYS_getdents64, fd, buffer, 4096)));
    MUST(lseek(fd, 0, SEEK_SET));
    STEP(syscall(SYS_getdents64, fd, buffer, 0x80000000u));
    STEP(syscall(SYS_getdents64, fd, buffer, 0xffffffffu));
    STEP(syscall(SYS_getdents, fd, buffer, 0xffffffffu));
    STEP(syscall(SYS_getdents64, fd, buffer, 0));
    close(fd);
}

static void direct(const char *name, int flags) {
    int fd = open(name, flags | O_DIRECT, 0644);
    say("O_DIRECT %s %x: %s", name, flags, fd < 0 ? errname(errno) : "opened");
    if (fd >= 0)
        close(fd);
}

static volatile sig_atomic_t told;

static void count(int number) {
    told += number == SIGXFSZ;
}

static void sizes(void) {
    say("--- RLIMIT_FSIZE");
    put_text("grows", "0123456789", 0644);
    put_text("is_large", "0123456789012345678901234567890", 0644);
    signal(SIGXFSZ, count);
    struct rlimit limit = {20, 1 << 20};
    MUST(setrlimit(RLIMIT_FSIZE, &limit));
    STEP(truncate("grows", 20));
    STEP(truncate("grows", 21));
    say("told %d", (int)told);
    STEP(truncate("grows", 15));
    STEP(truncate("is_large", 30)); /* smaller, though above the limit */
    STEP(truncate("is_large", 31));
    say("told %d", (int)told);
    limit.rlim_cur = 1 << 20;
    MUST(setrlimit(RLIMIT_FSIZE, &limit));
    STEP(truncate("is_large", 31));
    pid_t child = MUST(fork());
    if (!child) {
        signal(SIGXFSZ, SIG_DFL);
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        limit.rlim_cur = 20;
        setrlimit(RLIMIT_FSIZE, &limit);
        truncate("is_large", 100);
        _exit(1);
    }
    int status;
    MUST(waitpid(child, &status, 0));
    say("by default: signal %d", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

int main(void) {
    umask(022);
    listing();
    say("--- O_DIRECT");
    put_text("plain", "x", 0644);
    MUST(mkfifo("fifo", 0644));
    MUST(symlink("full", "way"));
    direct("full", O_RDONLY);
    direct("way", O_RDONLY | O_DIRECTORY);
    direct("full", O_RDWR); /* EISDIR comes first */
    direct("full", O_PATH);
    direct("fifo", O_RDWR);
    direct("plain", O_RDONLY);
    direct("plain", O_WRONLY);
    direct("new", O_CREAT | O_RDWR);
    direct("missing", O_RDONLY);
    direct("/dev/null", O_RDONLY);
    direct("/dev/zero", O_RDWR);
    direct("/proc/self/status", O_RDONLY);
    direct("/proc/self", O_RDONLY);
    sizes();
    return 0;
}
