/* Where the resident of this user and this installation listens, and how one is started.
 *
 * The place is below the user's runtime directory, which only this user can enter. Its owner and mode are checked all
 * the same, by descriptor: a directory that another user could have made is no place. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client.h"

#define LOCK_FD 3
#define PLACE_FD 4

static const uint64_t fnv_start = 14695981039346656037u, fnv_prime = 1099511628211u;

static uint64_t mix(uint64_t hash, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * fnv_prime;
    return hash;
}

static uint64_t mix_file(uint64_t hash, const char *path)
{
    struct stat found;
    if (stat(path, &found) < 0)
        return hash;
    uint64_t facts[] = {found.st_dev, found.st_ino, (uint64_t)found.st_mtim.tv_sec, (uint64_t)found.st_mtim.tv_nsec};
    return mix(mix(hash, path, strlen(path)), facts, sizeof facts);
}

/* A directory of this user's that nobody else can enter, or -1. */
static int open_private(int at, const char *name)
{
    struct stat found;
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (fstat(fd, &found) < 0 || found.st_uid != geteuid() || (found.st_mode & 0777) != 0700) {
        close(fd);
        return -1;
    }
    return fd;
}

struct client_place client_find_place(const char *self, const char *python)
{
    struct client_place place = {.directory = -1};
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    int above = runtime == NULL || runtime[0] != '/' ? -1 : open_private(AT_FDCWD, runtime);
    if (above < 0)
        return place;
    mkdirat(above, "husk", 0700); /* mostly it is there */
    place.directory = open_private(above, "husk");
    close(above);
    /* An installation that was replaced gets another name: the resident of the old one is never asked again. */
    uint64_t key = mix_file(mix_file(fnv_start, self), python);
    snprintf(place.name, sizeof place.name, "resident-%016llx", (unsigned long long)key);
    return place;
}

int client_connect(const struct client_place *place)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", place->directory, place->name);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    /* Bounds every wait before the resident has promised to serve. */
    struct timeval patience = {.tv_sec = 2};
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) < 0 ||
        connect(fd, (struct sockaddr *)&address, sizeof address) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.uid != geteuid()) {
        close(fd);
        return -1;
    }
    return fd;
}

/* The environment of a resident: what is compared, and where its place is. The caller's own may hold secrets. */
static char **clean_environment(void)
{
    static const char *const kept[] = {"LANG", "LC_ALL", "LC_CTYPE", "TZ", "XDG_RUNTIME_DIR"};
    static char *environment[sizeof kept / sizeof kept[0] + 1];
    size_t count = 0;
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        const char *value = getenv(kept[i]);
        if (value != NULL && asprintf(&environment[count], "%s=%s", kept[i], value) > 0)
            count++;
    }
    environment[count] = NULL;
    return environment;
}

/* In a process of its own, with no parent that waits for it. */
static void become_resident(const struct client_place *place, const char *python)
{
    char name[80];
    snprintf(name, sizeof name, "%s.lock", place->name);
    int lock = openat(place->directory, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) < 0)
        _exit(0); /* another one is there, or starts just now */
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    int high_lock = fcntl(lock, F_DUPFD_CLOEXEC, 10), high_place = fcntl(place->directory, F_DUPFD_CLOEXEC, 10);
    if (nothing < 0 || high_lock < 0 || high_place < 0 || chdir("/") < 0)
        _exit(1);
    for (int fd = 0; fd < 3; fd++)
        dup2(nothing, fd);
    dup2(high_lock, LOCK_FD);
    dup2(high_place, PLACE_FD);
    if (syscall(SYS_close_range, PLACE_FD + 1, ~0u, 0) < 0)
        _exit(1);
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    umask(077);
    /* The run that found no resident goes first: two Python starts at once would slow it down. */
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    char *words[] = {"husk-python", "resident", "serve", (char *)place->name, NULL};
    execve(python, words, clean_environment());
    _exit(1);
}

void client_start_resident(const struct client_place *place, const char *python)
{
    pid_t between = fork();
    if (between == 0) {
        setsid();
        if (fork() == 0)
            become_resident(place, python);
        _exit(0);
    }
    if (between > 0)
        while (waitpid(between, NULL, 0) < 0 && errno == EINTR) /* ECHILD: the caller ignores SIGCHLD */
            ;
}
