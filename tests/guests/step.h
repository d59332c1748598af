/* Shared by the guest programs: every step prints one line, "call = result ERRNO".
 *
 * Only what a C program needs to describe itself lives here; nothing in it knows whether it runs inside husk.
 * Lines go out with one write each, so that output of parent and children never sits in a buffer across fork or exec.
 */
#ifndef STEP_H
#define STEP_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define UNUSED __attribute__((unused))

static UNUSED const char *errname(int number) {
    const char *name = strerrorname_np(number);
    return name ? name : "E?";
}

static UNUSED __attribute__((format(printf, 1, 2))) void say(const char *format, ...) {
    char line[8192];
    va_list values;
    va_start(values, format);
    int length = vsnprintf(line, sizeof line - 1, format, values);
    va_end(values);
    if (length > (int)sizeof line - 2)
        length = sizeof line - 2;
    line[length] = '\n';
    if (write(1, line, length + 1) != length + 1)
        _exit(98);
}

static UNUSED long step_print(const char *text, long result) {
    int number = errno;
    if (result == -1)
        say("%s = -1 %s", text, errname(number));
    else
        say("%s = %ld", text, result);
    errno = number;
    return result;
}

/* For results that differ from run to run (pids, addresses): only success or the error is shown. */
static UNUSED long step_ok(const char *text, long result) {
    int number = errno;
    say("%s = %s", text, result == -1 ? errname(number) : "ok");
    errno = number;
    return result;
}

#define STEP(expression) (errno = 0, step_print(#expression, (long)(expression)))
#define OK(expression) (errno = 0, step_ok(#expression, (long)(expression)))
/* A set-up step that the transcript does not show; it must not fail. */
#define MUST(expression) must_(#expression, (long)(expression))

static UNUSED long must_(const char *text, long result) {
    if (result == -1) {
        say("set-up failed: %s: %s", text, errname(errno));
        _exit(97);
    }
    return result;
}

/* n bytes that end at an inaccessible page: a kernel that reads or writes too far faults at once.
 * Not unmapped, because the next mapping could fill the hole. */
static UNUSED char *edge_buffer(size_t n) {
    size_t page = 4096, room = (n + page - 1) / page * page;
    if (!room)
        room = page;
    char *area = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED || mprotect(area + room, page, PROT_NONE) != 0) {
        say("set-up failed: edge_buffer");
        _exit(97);
    }
    return area + room - n;
}

/* A string whose NUL is the last mapped byte. */
static UNUSED char *edge_string(const char *text) {
    size_t size = strlen(text) + 1;
    return memcpy(edge_buffer(size), text, size);
}

static UNUSED void put_file(const char *path, const void *data, size_t size, mode_t mode) {
    int fd = MUST(open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    for (size_t done = 0; done < size;) {
        ssize_t n = MUST(write(fd, (const char *)data + done, size - done));
        done += n;
    }
    MUST(fchmod(fd, mode));
    MUST(close(fd));
}

static UNUSED void put_text(const char *path, const char *text, mode_t mode) { put_file(path, text, strlen(text), mode); }

/* In the working directory: a file, a directory with one, and a link of every kind. */
static UNUSED void put_usual_names(void) {
    put_text("file", "some text\n", 0644);
    MUST(mkdir("dir", 0755));
    put_text("dir/inner", "inner\n", 0644);
    MUST(symlink("file", "to_file"));
    MUST(symlink("dir", "to_dir"));
    MUST(symlink("nowhere", "dangling"));
    MUST(symlink("loop", "loop"));
}

static UNUSED char *get_file(const char *path, size_t *size) {
    int fd = MUST(open(path, O_RDONLY | O_CLOEXEC));
    struct stat st;
    MUST(fstat(fd, &st));
    size_t room = st.st_size ? (size_t)st.st_size : 65536;
    char *data = calloc(1, room + 1);
    size_t done = 0;
    for (ssize_t n; done < room && (n = MUST(read(fd, data + done, room - done))) > 0;)
        done += n;
    MUST(close(fd));
    if (size)
        *size = done;
    return data;
}

static UNUSED void copy_file(const char *from, const char *to, mode_t mode) {
    size_t size;
    char *data = get_file(from, &size);
    put_file(to, data, size, mode);
    free(data);
}

/* "exit 3", "signal SIGSEGV", ... */
static UNUSED const char *status_text(int status) {
    static char text[64];
    if (WIFEXITED(status))
        snprintf(text, sizeof text, "exit %d", WEXITSTATUS(status));
    else if (WIFSIGNALED(status))
        snprintf(text, sizeof text, "signal SIG%s", sigabbrev_np(WTERMSIG(status)));
    else if (WIFSTOPPED(status))
        snprintf(text, sizeof text, "stopped SIG%s", sigabbrev_np(WSTOPSIG(status)));
    else
        snprintf(text, sizeof text, "continued");
    return text;
}

static UNUSED int wait_for(pid_t pid) {
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) {
            say("waitpid: %s", errname(errno));
            return -1;
        }
    return status;
}

/* A function that is run in a child of its own, under its name. */
struct named_case {
    const char *name;
    void (*run)(void);
};
#define CASE(name) {#name, name}

static UNUSED void run_cases(const struct named_case *cases, size_t count) {
    for (size_t i = 0; i < count; i++) {
        say("--- %s", cases[i].name);
        pid_t pid = fork();
        if (pid == 0) {
            cases[i].run();
            _exit(0);
        }
        say("%s", status_text(wait_for(pid)));
    }
}

static UNUSED void nap_ms(long ms) {
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        ;
}

/* Waits until `pid` sleeps in the host kernel: twice in a row, as a page fault may be short sleep, too. */
static UNUSED void until_asleep(pid_t pid) {
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    for (int seen = 0; seen < 2;) {
        nap_ms(2);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
        close(fd);
        if (n <= 0) {
            say("cannot read %s", path);
            return;
        }
        text[n] = 0;
        char *end = strrchr(text, ')');
        seen = end && (end[2] == 'S' || end[2] == 'D') ? seen + 1 : 0;
    }
}

#endif
