/* compat/probe: what checks share: files, memory, children, threads, and the names of errnos and signals.
 *
 * Here: preparations, made through the C library. Not here: anything that decides a result. */
#include "probe.h"

#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

void probe_scratch(void)
{
    static bool made;
    if (made)
        return;
    const char *root = probe_scratch_root();
    if (!root)
        probe_skip("needs a directory that can be written");
    char path[600];
    snprintf(path, sizeof path, "%s/%d", root, probe_index);
    probe_tell_scratch();
    NEED(mkdir(path, 0700) == 0, "mkdir in the scratch directory");
    NEED(chdir(path) == 0, "chdir to the scratch directory");
    made = true;
}

int probe_file(const char *name, const char *content)
{
    probe_scratch();
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    NEED(fd >= 0, "open in the scratch directory");
    NEED(write(fd, content, strlen(content)) == (ssize_t)strlen(content), "write to a file");
    NEED(lseek(fd, 0, SEEK_SET) == 0, "lseek");
    return fd;
}

bool probe_holds(const char *name, const char *content)
{
    char text[4096];
    long length = probe_read_text(name, text, sizeof text);
    return length == (long)strlen(content) && !memcmp(text, content, (size_t)length);
}

bool probe_exists(const char *name)
{
    struct stat status;
    return lstat(name, &status) == 0;
}

int probe_memfd(size_t size)
{
    int fd = memfd_create("probe", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        fd = probe_file("memory", "");
    NEED(ftruncate(fd, (off_t)size) == 0, "ftruncate");
    return fd;
}

long probe_size(int fd)
{
    struct stat status;
    NEED(fstat(fd, &status) == 0, "fstat");
    return (long)status.st_size;
}

void probe_pipe(int ends[2])
{
    NEED(pipe2(ends, O_CLOEXEC) == 0, "pipe2");
}

static char *map(size_t count, int flags)
{
    char *pages = mmap(NULL, count * 4096, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    NEED(pages != MAP_FAILED, "mmap");
    return pages;
}

char *probe_pages(size_t count)
{
    return map(count, MAP_PRIVATE);
}

char *probe_shared(size_t count)
{
    return map(count, MAP_SHARED);
}

pid_t probe_fork(void)
{
    pid_t pid = fork();
    NEED(pid >= 0, "fork");
    return pid;
}

int probe_wait(pid_t pid)
{
    int status;
    for (;;) {
        pid_t ended = waitpid(pid, &status, 0);
        if (ended == pid)
            return status;
        NEED(errno == EINTR, "waitpid");
    }
}

int probe_touch(volatile char *address, bool write)
{
    pid_t pid = probe_fork();
    if (pid == 0) {
        char value = *address;
        if (write)
            *address = value;
        _exit(0);
    }
    int status = probe_wait(pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

int probe_child_exit(int (*run)(void *), void *argument)
{
    pid_t pid = probe_fork();
    if (pid == 0)
        _exit(run(argument));
    int status = probe_wait(pid);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

void probe_in_session(void (*run)(void))
{
    /* A check's process leads a group, and such a one cannot begin a session. */
    pid_t pid = probe_fork();
    if (pid == 0) {
        NEED(setsid() >= 0, "setsid");
        run();
        probe_finish(PROBE_WORKS, "");
    }
    int status = probe_wait(pid);
    if (WIFSIGNALED(status))
        probe_finish(PROBE_CRASH, probe_signal_name(WTERMSIG(status)));
    probe_finish(PROBE_WORKS, ""); /* the child has told the result already */
}

void probe_terminal(int *master, int *slave)
{
    int number = -1, unlock = 0;
    char path[32];
    *master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    NEED(*master >= 0, "/dev/ptmx");
    NEED(ioctl(*master, TIOCSPTLCK, &unlock) == 0 && ioctl(*master, TIOCGPTN, &number) == 0, "TIOCGPTN");
    snprintf(path, sizeof path, "/dev/pts/%d", number);
    *slave = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
    NEED(*slave >= 0, "/dev/pts");
}

long probe_read_text(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    size_t length = 0;
    ssize_t got = 0;
    while (length < size - 1 && (got = read(fd, text + length, size - 1 - length)) > 0)
        length += (size_t)got;
    int reason = errno;
    close(fd);
    text[length] = 0;
    return length == 0 && got < 0 ? -reason : (long)length;
}

pid_t probe_sleeper(void)
{
    pid_t pid = probe_fork();
    if (pid == 0) {
        probe_sleep(8000);
        _exit(0);
    }
    return pid;
}

void probe_sleep(int milliseconds)
{
    struct timespec rest = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
    while (nanosleep(&rest, &rest) < 0 && errno == EINTR)
        ;
}

int64_t probe_now(void)
{
    struct timespec now;
    NEED(clock_gettime(CLOCK_MONOTONIC, &now) == 0, "clock_gettime");
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

void probe_thread_start(struct probe_thread *thread, int (*run)(void *), void *argument)
{
    const size_t size = 16;
    char *stack = probe_pages(size);
    thread->tid = -1;
    /* CLONE_SETTLS is left out: the thread shares errno with its maker, who waits for it or uses CALL alone. */
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_PARENT_SETTID |
                CLONE_CHILD_CLEARTID;
    int tid = clone(run, stack + size * 4096, flags, argument, &thread->tid, NULL, &thread->tid);
    NEED(tid >= 0, "clone, for a thread");
}

void probe_thread_join(struct probe_thread *thread)
{
    while (thread->tid)
        probe_sleep(1);
}

/* -- names -- */

static const char *name_of(const char *const names[], int count, int number)
{
    static char other[32];
    if (number >= 0 && number < count && names[number])
        return names[number];
    snprintf(other, sizeof other, "%d", number);
    return other;
}

const char *probe_errno_name(int number)
{
    static const char *const names[] = {PROBE_ERRNO_NAMES};
    return name_of(names, sizeof names / sizeof *names, number);
}

const char *probe_signal_name(int number)
{
    static const char *const names[] = {PROBE_SIGNAL_NAMES};
    return name_of(names, sizeof names / sizeof *names, number);
}
