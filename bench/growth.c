/*
 * Many of one thing, and what an operation costs beside them.
 *
 *     growth AXIS N DIRECTORY
 *
 * AXIS is one of: descriptors, processes (held while operations are timed), entries (the directory has N files e0, e1, …
 * and is only read), changed (N files are made in it, and removed). A line for each operation: its name, and what one
 * cost in nanoseconds. Operations on single names are timed on at most SAMPLE of them, spread over all.
 */

#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SAMPLE = 1000, SPAWNS = 10 };

extern char **environ;

static const char *place;
static long many;

static void fail(const char *what)
{
    fprintf(stderr, "growth: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static const char *entry(long number)
{
    static char name[4096];

    snprintf(name, sizeof name, "%s/e%ld", place, number);
    return name;
}

static void stat_one(long number)
{
    struct stat status;

    if (stat(entry(number), &status) < 0)
        fail(entry(number));
}

static void open_one(long number)
{
    int fd = open(entry(number), O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        fail(entry(number));
    close(fd);
}

static void create_one(long number)
{
    int fd = open(entry(number), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

    if (fd < 0)
        fail(entry(number));
    close(fd);
}

static void unlink_one(long number)
{
    if (unlink(entry(number)) < 0)
        fail(entry(number));
}

static void stat_first(long number)
{
    (void)number;
    stat_one(0);
}

static void open_first(long number)
{
    (void)number;
    open_one(0);
}

static void spawn_one(long number)
{
    static char *command[] = {"/bin/true", NULL};
    pid_t child;

    (void)number;
    errno = posix_spawn(&child, command[0], NULL, NULL, command, environ);
    if (errno || waitpid(child, NULL, 0) < 0)
        fail(command[0]);
}

/* `count` of them, spread over all that there are. */
static void spread(const char *name, void (*operation)(long), long count)
{
    double start = now();

    for (long n = 0; n < count; n++)
        operation(n * many / count);
    printf("%s %.1f\n", name, (now() - start) / count);
}

static void list_all(void)
{
    double start = now();
    long found = 0;
    DIR *directory = opendir(place);

    if (!directory)
        fail(place);
    while (readdir(directory))
        found++;
    closedir(directory);
    if (found < many)
        fail("entries are missing");
    printf("list %.1f\n", (now() - start) / found);
}

static void descriptors(void)
{
    struct rlimit limit;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    for (long n = 0; n < many; n++)
        if (fcntl(fd, F_DUPFD_CLOEXEC, 0) < 0)
            fail("as many descriptors");
}

static void processes(void)
{
    for (long n = 0; n < many; n++) {
        pid_t child = fork();

        if (child < 0)
            fail("as many processes"); /* those that are there end with us */
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            signal(SIGTERM, SIG_DFL);
            pause();
            _exit(0);
        }
    }
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: growth AXIS N DIRECTORY\n");
        return 2;
    }
    many = atol(argv[2]);
    place = argv[3];
    long sample = many < SAMPLE ? many : SAMPLE;

    if (!strcmp(argv[1], "entries")) {
        list_all();
        spread("stat", stat_one, sample);
        spread("open", open_one, sample);
    } else if (!strcmp(argv[1], "changed")) {
        spread("create", create_one, many);
        spread("stat", stat_one, sample);
        list_all();
        spread("unlink", unlink_one, sample);
    } else if (!strcmp(argv[1], "descriptors") || !strcmp(argv[1], "processes")) {
        create_one(0);
        setpgid(0, 0); /* the children end with a signal to the group, which we ignore */
        signal(SIGTERM, SIG_IGN);
        if (argv[1][0] == 'd')
            descriptors();
        else
            processes();
        spread("stat", stat_first, SAMPLE);
        spread("open", open_first, SAMPLE);
        spread("spawn", spawn_one, SPAWNS);
        unlink_one(0);
        kill(0, SIGTERM);
        while (wait(NULL) > 0)
            ;
    } else {
        fprintf(stderr, "growth: no axis '%s'\n", argv[1]);
        return 2;
    }
    return 0;
}
