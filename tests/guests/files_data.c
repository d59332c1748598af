/* build: files_data
 *
 * Contents: append, offsets and who shares them, holes, mappings, files without a name, locks.
 */
#include "step.h"
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#define SYS_cachestat_ 451 /* newer than some headers */

static void show(const char *path) {
    char text[200];
    int fd = open(path, O_RDONLY);
    ssize_t n = read(fd, text, sizeof text);
    say("  %s: [%.*s]", path, (int)(n > 0 ? n : 0), text);
    close(fd);
}

static void offsets(void) {
    char text[20] = {0};
    put_text("f", "0123456789", 0644);
    STEP(open("f", O_RDWR));
    STEP(read(3, text, 4));
    STEP(lseek(3, 0, SEEK_CUR));
    STEP(dup(3));
    STEP(lseek(4, 2, SEEK_SET));
    STEP(lseek(3, 0, SEEK_CUR));
    STEP(open("f", O_RDWR));
    STEP(lseek(5, 0, SEEK_CUR));
    pid_t pid = fork();
    if (pid == 0) {
        STEP(write(3, "AB", 2));
        _exit(0);
    }
    wait_for(pid);
    STEP(lseek(3, 0, SEEK_CUR));
    STEP(pread(3, text, 3, 1));
    say("text %.3s", text);
    STEP(pwrite(3, "Z", 1, 9));
    STEP(lseek(3, -1, SEEK_SET));
    STEP(lseek(3, 100, SEEK_END));
    STEP(write(3, "end", 3));
    STEP(lseek(3, 0, SEEK_DATA));
    struct iovec parts[2] = {{"one", 3}, {"two", 3}};
    STEP(pwritev(3, parts, 2, 0));
    close(3), close(4), close(5);
    show("f");
    STEP(open("f", O_WRONLY | O_APPEND));
    STEP(open("f", O_WRONLY | O_APPEND));
    STEP(write(3, "a", 1));
    STEP(write(4, "b", 1));
    STEP(lseek(3, 0, SEEK_SET));
    STEP(write(3, "c", 1));
    STEP(lseek(3, 0, SEEK_CUR));
    STEP(fcntl(3, F_SETFL, 0));
    STEP(lseek(3, 0, SEEK_SET));
    STEP(write(3, "d", 1));
    close(3), close(4);
    struct stat st;
    MUST(stat("f", &st));
    say("size %ld", (long)st.st_size);
}

static void nameless(void) {
    char text[20] = {0};
    put_text("u", "unlinked", 0644);
    STEP(open("u", O_RDWR));
    STEP(unlink("u"));
    STEP(access("u", F_OK));
    STEP(read(3, text, 8));
    say("text %s", text);
    STEP(write(3, "more", 4));
    struct stat st;
    STEP(fstat(3, &st));
    say("nlink %lu size %ld", (unsigned long)st.st_nlink, (long)st.st_size);
    STEP(fchmod(3, 0600));
    char target[PATH_MAX] = {0};
    ssize_t n = readlink("/proc/self/fd/3", target, sizeof target - 1);
    say("link %.*s", (int)n, target);
    STEP(open("/proc/self/fd/3", O_RDONLY)); /* through the magic link the file has a way back */
    STEP(read(4, text, 12));
    say("text %s", text);
    close(4);
    put_text("u", "new one", 0644);
    STEP(pread(3, text, 4, 0));
    close(3);
    show("u");
    put_text("old", "old content", 0644);
    put_text("new", "new content", 0644);
    STEP(open("old", O_RDONLY));
    STEP(rename("new", "old"));
    memset(text, 0, sizeof text);
    STEP(read(3, text, 11));
    say("still %s", text);
    close(3);
    show("old");
}

static void mappings(void) {
    put_file("map", (char[8192]){0}, 8192, 0644);
    int fd = MUST(open("map", O_RDWR));
    char *shared = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    char *private = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    strcpy(shared + 4096, "through the mapping");
    strcpy(private, "for us alone");
    char text[30] = {0};
    STEP(pread(fd, text, 19, 4096));
    say("text %s", text);
    STEP(pread(fd, text, 5, 0));
    say("private writes stay private %d", text[0] == 0);
    pid_t pid = fork();
    if (pid == 0) {
        strcpy(shared, "from the child");
        _exit(0);
    }
    wait_for(pid);
    say("shared: %s", shared);
    STEP(msync(shared, 8192, MS_SYNC));
    int read_only = MUST(open("map", O_RDONLY));
    STEP(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, read_only, 0) == MAP_FAILED ? -1 : 0);
    STEP(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, read_only, 0) == MAP_FAILED ? -1 : 0);
    STEP(mmap(NULL, 4096, PROT_READ, MAP_SHARED, read_only, 0) == MAP_FAILED ? -1 : 0);
    int write_only = MUST(open("map", O_WRONLY));
    STEP(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, write_only, 0) == MAP_FAILED ? -1 : 0);
    STEP(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, read_only, 0) == MAP_FAILED ? -1 : 0);
    /* A file seen through a mapping and one rewritten by name are the same file. */
    put_text("map", "short", 0644);
    say("after truncation by name: %.5s", shared);
    pid = fork();
    if (pid == 0) {
        volatile char byte = shared[4096]; /* past the end: SIGBUS */
        _exit(byte);
    }
    say("beyond the end: %s", status_text(wait_for(pid)));
    int env = MUST(open("/usr/bin/env", O_RDONLY));
    char *text_segment = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, env, 0);
    say("ELF %d", text_segment != MAP_FAILED && !memcmp(text_segment, "\177ELF", 4));
    close(fd), close(read_only), close(write_only), close(env);
}

static void copies(void) {
    put_text("from", "the quick brown fox", 0644);
    int from = MUST(open("from", O_RDONLY)), to = MUST(open("to", O_RDWR | O_CREAT, 0644));
    STEP(sendfile(to, from, NULL, 9));
    STEP(copy_file_range(from, NULL, to, NULL, 100, 0));
    STEP(copy_file_range(from, NULL, to, NULL, 100, 0));
    STEP(fsync(to));
    STEP(fdatasync(to));
    STEP(fallocate(to, 3, 4, 5)); /* punch a hole, keep the size */
    close(from), close(to);
    char text[30] = {0};
    int fd = MUST(open("to", O_RDONLY));
    ssize_t n = read(fd, text, sizeof text);
    for (ssize_t i = 0; i < n; i++)
        if (!text[i])
            text[i] = '0';
    say("to: %s", text);
    close(fd);
}

static void locks(void) {
    int a = MUST(open("f", O_RDWR)), b = MUST(open("f", O_RDWR));
    STEP(flock(a, LOCK_EX));
    STEP(flock(b, LOCK_EX | LOCK_NB));
    STEP(flock(a, LOCK_SH));
    STEP(flock(b, LOCK_SH | LOCK_NB));
    STEP(flock(a, LOCK_UN));
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 10};
    STEP(fcntl(a, F_SETLK, &lock));
    STEP(fcntl(b, F_SETLK, &lock)); /* the same process: no conflict */
    pid_t pid = fork();
    if (pid == 0) {
        STEP(fcntl(a, F_SETLK, &lock));
        STEP(fcntl(a, F_GETLK, &lock));
        say("held by my parent %d", lock.l_pid == getppid());
        lock.l_type = F_WRLCK;
        lock.l_start = 10;
        STEP(fcntl(a, F_SETLK, &lock));
        _exit(0);
    }
    wait_for(pid);
    close(b); /* drops all locks of this process on the file */
    pid = fork();
    if (pid == 0) {
        STEP(fcntl(a, F_SETLK, &lock));
        _exit(0);
    }
    wait_for(pid);
    lock.l_pid = 0;
    STEP(fcntl(a, F_OFD_SETLK, &lock));
    close(a);
}

/* Where a file lies: in memory (a process that may write to it may ask), and on a disk (not every file system says). */
static void places(void) {
    struct { uint64_t offset, length; } all = {0, 0}, page = {0, 4096};
    struct { uint64_t cached, dirty, written, evicted, lately; } seen;
    struct fiemap map = {.fm_length = ~0ull};
    struct file_dedupe_range same = {.src_length = 1};
    put_text("placed", "0123456789", 0644);
    int fd = MUST(open("placed", O_RDWR));
    STEP(syscall(SYS_cachestat_, fd, &page, &seen, 0));
    say("cached %d", (int)seen.cached);
    STEP(syscall(SYS_cachestat_, fd, &all, &seen, 0));
    STEP(syscall(SYS_cachestat_, fd, &all, &seen, 1));
    STEP(syscall(SYS_cachestat_, fd, (void *)8, &seen, 0));
    STEP(syscall(SYS_cachestat_, fd, &all, (void *)8, 0));
    STEP(syscall(SYS_cachestat_, 77, &all, &seen, 0));
    int others = MUST(open("/etc/passwd", O_RDONLY));
    STEP(syscall(SYS_cachestat_, others, &all, &seen, 0));
    say("extents: %s", ioctl(fd, FS_IOC_FIEMAP, &map) == 0 || errno == EOPNOTSUPP ? "told, or not known" : errname(errno));
    say("sharing: %s", ioctl(fd, FIDEDUPERANGE, &same) == 0 || errno == EOPNOTSUPP ? "done, or not known" : errname(errno));
    close(fd), close(others);
}

int main(void) {
    umask(022);
    offsets();
    nameless();
    mappings();
    copies();
    locks();
    places();
    return 0;
}
