/* Preloaded: ends the process by SIGKILL just before its n-th change to a file system, n from KILL_AT. With KILL_AT=0 it
 * writes how many there were to the file KILL_COUNT names when the process ends. Only calls that change something count,
 * so that every number is a state of the store worth looking at. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_long done;

static void change(void)
{
    static long limit = -1;
    if (limit < 0)
        limit = getenv("KILL_AT") ? atol(getenv("KILL_AT")) : 0;
    if (atomic_fetch_add(&done, 1) + 1 == limit)
        kill(getpid(), SIGKILL);
}

__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("KILL_COUNT");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (file) {
        fprintf(file, "%ld\n", (long)done);
        fclose(file);
    }
}

static pid_t first;

__attribute__((constructor)) static void begin(void)
{
    first = getpid();
}

/* husk's command ends so, without the interpreter's clean-up. A forked child that does has no say. */
void _exit(int status)
{
    void (*real)(int) = (void (*)(int))dlsym(RTLD_NEXT, "_exit");
    if (getpid() == first)
        report();
    real(status);
    __builtin_unreachable();
}

#define WRAP(type, name, parameters, arguments)                       \
    type name parameters                                              \
    {                                                                 \
        static type(*real) parameters;                                \
        if (!real)                                                    \
            real = (type(*) parameters)dlsym(RTLD_NEXT, #name);       \
        change();                                                     \
        return real arguments;                                        \
    }

WRAP(int, mkdir, (const char *p, mode_t m), (p, m))
WRAP(int, mkdirat, (int d, const char *p, mode_t m), (d, p, m))
WRAP(int, rename, (const char *a, const char *b), (a, b))
WRAP(int, renameat, (int d, const char *a, int e, const char *b), (d, a, e, b))
WRAP(int, renameat2, (int d, const char *a, int e, const char *b, unsigned f), (d, a, e, b, f))
WRAP(int, link, (const char *a, const char *b), (a, b))
WRAP(int, linkat, (int d, const char *a, int e, const char *b, int f), (d, a, e, b, f))
WRAP(int, unlink, (const char *p), (p))
WRAP(int, unlinkat, (int d, const char *p, int f), (d, p, f))
WRAP(int, rmdir, (const char *p), (p))
WRAP(int, fsync, (int fd), (fd))
WRAP(int, syncfs, (int fd), (fd))
WRAP(int, fchmod, (int fd, mode_t m), (fd, m))
WRAP(int, chmod, (const char *p, mode_t m), (p, m))
WRAP(int, symlinkat, (const char *a, int d, const char *b), (a, d, b))
WRAP(int, utimensat, (int d, const char *p, const struct timespec t[2], int f), (d, p, t, f))
WRAP(ssize_t, copy_file_range, (int a, off_t *i, int b, off_t *o, size_t n, unsigned f), (a, i, b, o, n, f))

ssize_t write(int fd, const void *data, size_t size)
{
    static ssize_t (*real)(int, const void *, size_t);
    if (!real)
        real = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    if (fd > 2)
        change();
    return real(fd, data, size);
}

#define OPEN(name, first, rest)                                       \
    int name first                                                    \
    {                                                                 \
        static int (*real) first;                                     \
        if (!real)                                                    \
            real = (int(*) first)dlsym(RTLD_NEXT, #name);             \
        mode_t mode = 0;                                              \
        if (flags & O_CREAT) {                                        \
            va_list list;                                             \
            va_start(list, flags);                                    \
            mode = va_arg(list, mode_t);                              \
            va_end(list);                                             \
            change();                                                 \
        }                                                             \
        return real rest;                                             \
    }

OPEN(open, (const char *path, int flags, ...), (path, flags, mode))
OPEN(open64, (const char *path, int flags, ...), (path, flags, mode))
OPEN(openat, (int d, const char *path, int flags, ...), (d, path, flags, mode))
OPEN(openat64, (int d, const char *path, int flags, ...), (d, path, flags, mode))
