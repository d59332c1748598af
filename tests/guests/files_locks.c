/* build: files_locks
 *
 * Locks of all three kinds among processes, who holds them, leases, and close_range.
 */
#include "step.h"

#include <linux/close_range.h>
#include <sys/file.h>

static struct flock range(short type, off_t from, off_t length) {
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = from, .l_len = length};
}

static const char *kind(short type) { return type == F_RDLCK ? "read" : type == F_WRLCK ? "write" : "none"; }

static void ask(const char *who, int fd, int command, short type, off_t from, off_t length, pid_t holder) {
    struct flock lock = range(type, from, length);
    int result = fcntl(fd, command, &lock);
    if (result < 0)
        say("%s: %s", who, errname(errno));
    else if (lock.l_type == F_UNLCK)
        say("%s: free", who);
    else
        say("%s: %s lock %ld+%ld, pid %s", who, kind(lock.l_type), (long)lock.l_start, (long)lock.l_len,
            lock.l_pid == holder ? "the holder's" : lock.l_pid == -1 ? "-1" : "OTHER");
}

static int set(int fd, int command, short type, off_t from, off_t length) {
    struct flock lock = range(type, from, length);
    return fcntl(fd, command, &lock);
}

static void child_asks(const char *path, int command, pid_t holder) {
    pid_t pid = MUST(fork());
    if (pid == 0) {
        int fd = MUST(open(path, O_RDWR));
        ask("child, whole, write", fd, command, F_WRLCK, 0, 0, holder);
        ask("child, whole, read", fd, command, F_RDLCK, 0, 0, holder);
        ask("child, behind", fd, command, F_WRLCK, 1000, 10, holder);
        STEP(set(fd, command == F_GETLK ? F_SETLK : F_OFD_SETLK, F_WRLCK, 0, 5));
        STEP(set(fd, command == F_GETLK ? F_SETLK : F_OFD_SETLK, F_RDLCK, 0, 5));
        STEP(set(fd, command == F_GETLK ? F_SETLK : F_OFD_SETLK, F_WRLCK, 500, 5));
        _exit(0);
    }
    wait_for(pid);
}

int main(void) {
    put_text("f", "0123456789", 0600);
    put_text("g", "0123456789", 0600);
    int a = MUST(open("f", O_RDWR)), r = MUST(open("f", O_RDONLY));

    say("-- record locks");
    STEP(set(a, F_SETLK, F_WRLCK, 0, 10));
    child_asks("f", F_GETLK, getpid());
    child_asks("g", F_GETLK, getpid());
    STEP(set(a, F_SETLK, F_RDLCK, 2, 4));
    child_asks("f", F_GETLK, getpid());
    STEP(set(a, F_SETLK, F_UNLCK, 0, 3));
    child_asks("f", F_GETLK, getpid());
    ask("own", a, F_GETLK, F_WRLCK, 0, 0, getpid());
    STEP(set(r, F_SETLK, F_WRLCK, 0, 1));
    STEP(set(r, F_SETLK, F_RDLCK, 100, 1));
    STEP(set(a, F_SETLK, 7, 0, 1));
    STEP(set(a, F_SETLK, F_RDLCK, -1, 1));
    STEP(set(a, F_SETLK, F_RDLCK, 10, -5));
    STEP(set(-1, F_SETLK, F_RDLCK, 0, 1));
    struct flock bad = {.l_type = F_RDLCK, .l_whence = 9};
    STEP(fcntl(a, F_SETLK, &bad));
    STEP(fcntl(a, F_SETLK, (void *)16));
    STEP(fcntl(a, F_GETLK, (void *)16));
    STEP(close(dup(a))); /* closing any descriptor of the file drops all record locks */
    child_asks("f", F_GETLK, getpid());

    say("-- locks of the open file");
    STEP(set(a, F_OFD_SETLK, F_WRLCK, 0, 10));
    child_asks("f", F_OFD_GETLK, -2);
    child_asks("f", F_GETLK, -2);
    ask("other descriptor", r, F_OFD_GETLK, F_RDLCK, 0, 0, -2);
    ask("same descriptor", a, F_OFD_GETLK, F_RDLCK, 0, 0, -2);
    struct flock with_pid = {.l_type = F_RDLCK, .l_pid = 1};
    STEP(fcntl(a, F_OFD_SETLK, &with_pid));
    pid_t pid = MUST(fork());
    if (pid == 0) { /* inherits the open file, hence its lock */
        STEP(set(a, F_OFD_SETLK, F_UNLCK, 0, 5));
        _exit(0);
    }
    wait_for(pid);
    child_asks("f", F_OFD_GETLK, -2);
    STEP(set(a, F_OFD_SETLK, F_UNLCK, 0, 0));

    say("-- waiting");
    STEP(set(a, F_SETLK, F_WRLCK, 0, 0));
    int told[2];
    MUST(pipe(told));
    pid = MUST(fork());
    if (pid == 0) {
        int fd = MUST(open("f", O_RDWR));
        MUST(write(told[1], "x", 1));
        STEP(set(fd, F_SETLKW, F_WRLCK, 0, 0));
        _exit(0);
    }
    char byte;
    MUST(read(told[0], &byte, 1));
    nap_ms(20);
    say("unlocking");
    MUST(set(a, F_SETLK, F_UNLCK, 0, 0));
    wait_for(pid);

    say("-- flock");
    int b = MUST(open("f", O_RDONLY));
    STEP(flock(a, LOCK_EX | LOCK_NB));
    STEP(flock(b, LOCK_SH | LOCK_NB));
    STEP(flock(a, LOCK_SH | LOCK_NB));
    STEP(flock(b, LOCK_SH | LOCK_NB));
    STEP(flock(b, LOCK_EX | LOCK_NB));
    STEP(flock(a, LOCK_UN));
    STEP(flock(b, LOCK_EX | LOCK_NB));
    STEP(flock(b, 99));
    STEP(flock(-1, LOCK_EX));
    pid = MUST(fork());
    if (pid == 0) {
        int fd = MUST(open("f", O_RDONLY));
        STEP(flock(fd, LOCK_SH | LOCK_NB));
        STEP(flock(b, LOCK_UN)); /* the parent's, inherited */
        STEP(flock(fd, LOCK_SH | LOCK_NB));
        _exit(0);
    }
    wait_for(pid);
    int d = MUST(open(".", O_RDONLY | O_DIRECTORY)), e = MUST(open(".", O_RDONLY | O_DIRECTORY));
    STEP(flock(d, LOCK_EX | LOCK_NB));
    STEP(flock(e, LOCK_EX | LOCK_NB));
    int g = MUST(open("g", O_RDONLY));
    STEP(flock(g, LOCK_EX | LOCK_NB)); /* equal content is not the same file */
    int p = MUST(open("f", O_PATH));
    STEP(flock(p, LOCK_EX | LOCK_NB));

    say("-- other commands");
    STEP(fcntl(a, F_GETLEASE));
    STEP(fcntl(a, F_SETLEASE, 9));
    STEP(fcntl(-1, F_SETLEASE, F_RDLCK));
    STEP(fcntl(a, 99));
    STEP(fcntl(a, F_DUPFD, -1));
    STEP(fcntl(a, F_DUPFD, 1 << 30));
    STEP(fcntl(a, F_GETPIPE_SZ));
    STEP(fcntl(a, F_GET_SEALS));

    say("-- close_range");
    MUST(dup2(a, 50));
    MUST(dup2(a, 51));
    MUST(dup2(a, 53));
    STEP(syscall(SYS_close_range, 51, 50, 0));
    STEP(syscall(SYS_close_range, 50, 52, 8));
    STEP(syscall(SYS_close_range, 50, 50, CLOSE_RANGE_CLOEXEC));
    STEP(fcntl(50, F_GETFD));
    STEP(syscall(SYS_close_range, 51, 60, 0));
    STEP(fcntl(51, F_GETFD));
    STEP(fcntl(53, F_GETFD));
    STEP(syscall(SYS_close_range, 50, ~0u, CLOSE_RANGE_UNSHARE));
    STEP(fcntl(50, F_GETFD));
    return 0;
}
