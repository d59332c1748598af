/*
 * One program for both sides of every comparison: it repeats one operation and prints what it cost.
 *
 *     calls WHAT REPETITIONS COUNT[@WHEN] [ARGUMENT...]
 *
 * Each of REPETITIONS lines on standard output is the mean cost of one operation in nanoseconds over COUNT of them. One
 * repetition more is run first and not printed: caches outside and inside husk should be warm, as they are in real use.
 * ("once" leaves it out, for commands that cannot be repeated.) The last line is "cpu" and the processor time that this
 * program and its children took, in nanoseconds: whoever waits for all of it can tell the sandbox's own share.
 *
 * With WHEN, a time of the monotonic clock in nanoseconds, it waits for that time after the first repetition, and goes
 * on for REPETITIONS tenths of a second: so that several of them are busy in the same time.
 */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LATE = 3 }; /* an exit code */

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

/* ARGUMENTS: a directory and a name in it. */
static void do_fstatat(char **arguments)
{
    static int directory = -1;
    struct stat status;

    if (directory < 0 && (directory = open(arguments[0], O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
        fail(arguments[0]);
    if (fstatat(directory, arguments[1], &status, AT_SYMLINK_NOFOLLOW) < 0)
        fail(arguments[1]);
}

/* A child that sends back whatever byte comes through `connection`, until its end. */
static void echo(int connection, int other)
{
    char byte;

    if (fork() == 0) {
        if (other >= 0)
            close(other);
        while (read(connection, &byte, 1) == 1)
            if (write(connection, &byte, 1) != 1)
                break;
        _exit(0);
    }
    close(connection);
}

static int talking = -1; /* to a child that echoes, and ends when this is closed */

static void round_trip(int connection)
{
    char byte = 'x';

    talking = connection;
    if (write(connection, &byte, 1) != 1 || read(connection, &byte, 1) != 1)
        fail("round trip");
}

static void do_unix(char **arguments)
{
    static int pair[2] = {-1, -1};

    (void)arguments;
    if (pair[0] < 0) {
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
            fail("socketpair");
        echo(pair[1], pair[0]);
    }
    round_trip(pair[0]);
}

static void do_tcp(char **arguments)
{
    static int client = -1;

    (void)arguments;
    if (client < 0) {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t length = sizeof address;
        int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), accepted;

        if (server < 0 || bind(server, (struct sockaddr *)&address, length) < 0 || listen(server, 1) < 0 ||
            getsockname(server, (struct sockaddr *)&address, &length) < 0)
            fail("listen");
        client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(client, (struct sockaddr *)&address, length) < 0 || (accepted = accept(server, NULL, NULL)) < 0)
            fail("connect");
        close(server);
        echo(accepted, client);
    }
    round_trip(client);
}

static char buffer[1 << 20];

/* The whole of a file. */
static void do_read_file(char **arguments)
{
    int fd = open(arguments[0], O_RDONLY | O_CLOEXEC);
    ssize_t got;

    if (fd < 0)
        fail(arguments[0]);
    while ((got = read(fd, buffer, sizeof buffer)) > 0)
        ;
    if (got < 0)
        fail(arguments[0]);
    close(fd);
}

/* As many megabytes as the argument says, from a child. */
static void do_pipe(char **arguments)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        fail("pipe2");
    pid_t child = fork();
    if (child == 0) {
        for (long n = atol(arguments[0]); n > 0; n--)
            for (size_t sent = 0; sent < sizeof buffer;) {
                ssize_t more = write(ends[1], buffer + sent, sizeof buffer - sent);

                if (more < 0)
                    fail("write");
                sent += more;
            }
        _exit(0);
    }
    close(ends[1]);
    while (read(ends[0], buffer, sizeof buffer) > 0)
        ;
    close(ends[0]);
    waitpid(child, NULL, 0);
}

enum { CREATES = 1, STARTS = 2, COLD = 4 };

static const struct {
    const char *name;
    void (*run)(char **arguments);
    /* CREATES: the first argument names a file to be made before the clock starts. STARTS: what it prints is not ours.
     * COLD: the first repetition counts. */
    int how;
} operations[] = {
    {"getppid", do_getppid, 0},
    {"read", do_read, 0},
    {"stat", do_stat, 0},
    {"stat-missing", do_stat_missing, 0},
    {"stat-new", do_stat, CREATES},
    {"fstatat", do_fstatat, 0},
    {"open", do_open, 0},
    {"open-missing", do_open_missing, 0},
    {"open-new", do_open, CREATES},
    {"spawn", do_spawn, STARTS},
    {"once", do_spawn, STARTS | COLD},
    {"unix", do_unix, 0},
    {"tcp", do_tcp, 0},
    {"read-file", do_read_file, 0},
    {"pipe", do_pipe, 0},
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

/* Others begin at the same moment: who comes too late would be measured alone. */
static void wait_until(double when)
{
    double left = when - now();
    struct timespec rest = {.tv_sec = (time_t)(left / 1e9), .tv_nsec = (long)left % 1000000000};

    if (left < 0) {
        fprintf(stderr, "calls: late\n");
        exit(LATE);
    }
    nanosleep(&rest, NULL);
}

static double spent(int who)
{
    struct rusage usage;

    getrusage(who, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e9 + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e3;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: calls WHAT REPETITIONS COUNT[@WHEN] [ARGUMENT...]\n");
        return 2;
    }
    char *at;
    long repetitions = atol(argv[2]), count = strtol(argv[3], &at, 10);
    double begin = *at == '@' ? atof(at + 1) : 0, end = begin + repetitions * 1e8;

    zero_fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    if (zero_fd < 0)
        fail("/dev/zero");
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        if (strcmp(operations[i].name, argv[1]))
            continue;
        int how = operations[i].how;
        FILE *figures = fdopen(fcntl(1, F_DUPFD_CLOEXEC, 3), "w");
        if (!figures)
            fail("standard output");
        /* Opened once, out here: an open in each child would be part of what is measured. */
        int quiet = how & STARTS ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;
        if (quiet >= 0)
            dup2(quiet, 1);
        if (how & CREATES)
            create(argv[4]);
        for (long repetition = how & COLD ? 1 : 0; begin ? now() < end : repetition <= repetitions; repetition++) {
            if (begin && repetition == 1)
                wait_until(begin);
            double start = now();
            for (long n = 0; n < count; n++)
                operations[i].run(argv + 4);
            double cost = (now() - start) / count;
            if (repetition)
                fprintf(figures, "%.1f\n", cost);
        }
        if (talking >= 0) {
            close(talking);
            wait(NULL); /* or its processor time would not be among ours */
        }
        fprintf(figures, "cpu %.0f\n", spent(RUSAGE_SELF) + spent(RUSAGE_CHILDREN));
        fclose(figures);
        return 0;
    }
    fprintf(stderr, "calls: no operation '%s'\n", argv[1]);
    return 2;
}
