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

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5; before, nobody is served */
#endif
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

/* A file of the process's folder in /proc; its size. -1: it cannot be read, or does not fit. */
static ssize_t read_fact(pid_t pid, const char *fact, char *text, size_t room)
{
    char name[64];
    snprintf(name, sizeof name, "/proc/%d/%s", pid, fact);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t size = read(fd, text, room - 1);
    close(fd);
    if (size < 0 || size == (ssize_t)room - 1)
        return -1;
    text[size] = 0;
    return size;
}

/* Is the listener the resident of this name? A guest that may write to the runtime directory can listen there as well:
 * by itself, behind a filter that it cannot leave; or through a husk, which then has another command line. */
static int is_resident(int fd, const struct client_place *place)
{
    char text[8192];
    struct ucred peer;
    int pidfd;
    socklen_t size = sizeof peer, pidfd_size = sizeof pidfd;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.uid != geteuid() || peer.pid <= 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &pidfd_size) < 0)
        return 0;
    int good = read_fact(peer.pid, "status", text, sizeof text) > 0 && strstr(text, "\nNoNewPrivs:\t0\n") &&
               strstr(text, "\nSeccomp:\t0\n");
    ssize_t words = good ? read_fact(peer.pid, "cmdline", text, sizeof text) : -1;
    /* interpreter, its options if husk-python names any, husk-python, "resident", "serve", the name */
    const char *wanted[] = {NULL, NULL, "resident", "serve", place->name}, *word = text;
    for (size_t i = 0; good && i < sizeof wanted / sizeof *wanted; i++) {
        good = word < text + words && (!wanted[i] || strcmp(word, wanted[i]) == 0);
        word += strlen(word) + 1;
        if (i == 0 && good && word < text + words && word[0] == '-')
            word += strlen(word) + 1;
    }
    /* Still there: so all this was said of it, not of another with its number. */
    good = good && word == text + words && syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) == 0;
    close(pidfd);
    return good;
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
    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) < 0 ||
        connect(fd, (struct sockaddr *)&address, sizeof address) < 0 || !is_resident(fd, place)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* The environment of a resident: what is compared, where its place is, and where husk keeps boxes: one is kept ready
 * there. The caller's own may hold secrets. */
static char **clean_environment(void)
{
    static const char *const kept[] = {"LANG", "LC_ALL", "LC_CTYPE", "TZ", "XDG_RUNTIME_DIR",
                                       "HUSK_STATE", "XDG_STATE_HOME", "HOME", "TMPDIR"};
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
