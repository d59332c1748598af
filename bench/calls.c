/*
 * One program for both sides of every comparison: it repeats one operation and prints what it cost.
 *
 *     calls WHAT REPETITIONS COUNT [ARGUMENT...]
 *
 * Each of REPETITIONS lines on standard output is the mean cost of one operation in nanoseconds over COUNT of them. One
 * repetition more is run first and not printed: caches outside and inside husk should be warm, as they are in real use.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void do_getppid(char **arguments)
{
    (void)arguments;
    syscall(SYS_getppid);
}

static int zero_fd;

static void do_read(char **arguments)
{
    char byte;

    (void)arguments;
    if (read(zero_fd, &byte, 1) != 1)
        fail("read");
}

static void do_stat(char **arguments)
{
    struct stat status;

    if (stat(arguments[0], &status) < 0)
        fail(arguments[0]);
}

static void do_stat_missing(char **arguments)
{
    struct stat status;

    if (stat(arguments[0], &status) == 0 || errno != ENOENT)
        fail("a name that should not exist");
}

static void do_open(char **arguments)
{
    int fd = open(arguments[0], O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        fail(arguments[0]);
    close(fd);
}

static void do_open_missing(char **arguments)
{
    if (open(arguments[0], O_RDONLY | O_CLOEXEC) >= 0 || errno != ENOENT)
        fail("a name that should not exist");
}

static void do_spawn(char **arguments)
{
    pid_t child;
    int status;

    errno = posix_spawn(&child, arguments[0], NULL, NULL, arguments, environ);
    if (errno)
        fail(arguments[0]);
    if (waitpid(child, &status, 0) < 0)
        fail("waitpid");
    if (status) {
        fprintf(stderr, "%s: status %#x\n", arguments[0], status);
        exit(1);
    }
}

static const struct {
    const char *name;
    void (*run)(char **arguments);
    int creates; /* the first argument names a file to be made before the clock starts */
} operations[] = {
    {"getppid", do_getppid, 0},
    {"read", do_read, 0},
    {"stat", do_stat, 0},
    {"stat-missing", do_stat_missing, 0},
    {"stat-new", do_stat, 1},
    {"open", do_open, 0},
    {"open-missing", do_open_missing, 0},
    {"open-new", do_open, 1},
    {"spawn", do_spawn, 0},
};

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static void create(const char *name)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

    if (fd < 0 || write(fd, "x", 1) != 1)
        fail(name);
    close(fd);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: calls WHAT REPETITIONS COUNT [ARGUMENT...]\n");
        return 2;
    }
    long repetitions = atol(argv[2]), count = atol(argv[3]);

    zero_fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    if (zero_fd < 0)
        fail("/dev/zero");
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        if (strcmp(operations[i].name, argv[1]))
            continue;
        if (operations[i].creates)
            create(argv[4]);
        for (long repetition = 0; repetition <= repetitions; repetition++) {
            double start = now();
            for (long n = 0; n < count; n++)
                operations[i].run(argv + 4);
            double cost = (now() - start) / count;
            if (repetition)
                printf("%.1f\n", cost);
        }
        return 0;
    }
    fprintf(stderr, "calls: no operation '%s'\n", argv[1]);
    return 2;
}
