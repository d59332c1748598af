/* build: flip -pthread
 *
 * flip CALLS MINE VICTIMS SECONDS: one thread makes a call with a name, and another one changes that name without pause
 * between MINE, which the guest may use, and a name in VICTIMS, a host directory that it may not use. CALLS is
 * separated by commas. A supervisor that reads the name twice, once to judge it and once to act, acts on the victim. On
 * an unprotected host the first flip is enough. Prints "CALL: reached" as soon as something came from, or happened to,
 * the victim; "CALL: safe" after SECONDS.
 * The victim's content begins with ORIGINAL, its link target with "original", and it is 4321 bytes long.
 */
#include "step.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <utime.h>

static const char *mine, *victim;
static char own_place[600];
static struct sockaddr_un address = {.sun_family = AF_UNIX};
static char *name; /* the buffer that changes */
static atomic_bool stop;
static char other[700]; /* beside MINE: where something may be moved or linked to */

static void *flip(void *unused) {
    size_t first = strlen(mine) + 1, second = strlen(victim) + 1;
    while (!stop) {
        memcpy(name, victim, second);
        for (volatile int i = 0; i < 400; i++)
            ;
        memcpy(name, mine, first);
        for (volatile int i = 0; i < 400; i++)
            ;
    }
    return unused;
}

static bool is_victim(int fd) {
    char text[8] = "";
    bool found = fd >= 0 && pread(fd, text, 8, 0) == 8 && memcmp(text, "ORIGINAL", 8) == 0;
    if (fd >= 0)
        close(fd);
    return found;
}

static bool by_open(void) { return is_victim(open(name, O_RDONLY)); }
static bool by_openat(void) { return is_victim(openat(AT_FDCWD, name, O_RDWR)); }
static bool by_stat(void) { struct stat s; return stat(name, &s) == 0 && s.st_size == 4321; }
static bool by_lstat(void) { struct stat s; return lstat(name, &s) == 0 && s.st_size == 4321; }
static bool by_readlink(void) {
    char text[16] = "";
    return readlink(name, text, 15) > 0 && memcmp(text, "original", 8) == 0;
}
static bool moved(void) {
    bool found = is_victim(open(other, O_RDONLY));
    unlink(other);
    return found;
}
static bool by_rename(void) { return rename(name, other) == 0 && moved(); }
static bool by_link(void) { return link(name, other) == 0 && moved(); }
/* For calls that only change the victim: look at it by its name. In a box that name leads nowhere: the host must look.
 * The call's result proves nothing: a name read while it changes may be half of each name, and so be free. */
static struct stat seen;
static bool victim_is_there(void) { return lstat(victim, &seen) == 0; }
static bool by_symlink(void) { (void)!symlink("x", name); unlink(mine); return victim_is_there(); }
static bool by_unlink(void) { return unlink(name) == 0 && access(mine, F_OK) == 0; }
static bool by_truncate(void) { return truncate(name, 10) == 0 && victim_is_there() && seen.st_size == 10; }
static bool by_chmod(void) { return chmod(name, 0640) == 0 && victim_is_there() && (seen.st_mode & 07777) == 0640; }
static bool by_utime(void) { return utime(name, &(struct utimbuf){1, 1}) == 0 && victim_is_there() && seen.st_mtime == 1; }
static bool by_execve(void) {
    pid_t child = vfork();
    if (child == 0) {
        execl(name, name, NULL);
        _exit(1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 77; /* the victim's exit code */
}
static bool by_connect(void) {
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    bool found = connect(fd, (void *)&address, sizeof address) == 0;
    close(fd);
    return found; /* MINE is no server */
}
static bool by_sendto(void) {
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    bool found = sendto(fd, "x", 1, 0, (void *)&address, sizeof address) == 1;
    close(fd);
    return found;
}
static bool by_bind(void) {
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    bind(fd, (void *)&address, sizeof address);
    close(fd);
    unlink(mine);
    return victim_is_there();
}
static bool by_mkdir(void) { mkdir(name, 0700); rmdir(mine); return victim_is_there(); }
static bool by_inotify(void);

#include <sys/inotify.h>
static bool by_inotify(void) {
    static int queue = -1;
    if (queue < 0)
        queue = inotify_init();
    int first = inotify_add_watch(queue, mine, IN_ALL_EVENTS), now = inotify_add_watch(queue, name, IN_ALL_EVENTS);
    return now >= 0 && now != first;
}

static const struct {
    const char *call;
    bool (*reaches)(void);
} CALLS[] = {
    {"open", by_open}, {"openat", by_openat}, {"stat", by_stat}, {"lstat", by_lstat}, {"readlink", by_readlink},
    {"rename", by_rename}, {"link", by_link}, {"symlink", by_symlink}, {"unlink", by_unlink}, {"truncate", by_truncate},
    {"chmod", by_chmod}, {"utime", by_utime}, {"execve", by_execve}, {"connect", by_connect}, {"sendto", by_sendto},
    {"bind", by_bind}, {"mkdir", by_mkdir}, {"inotify", by_inotify},
};

static void make_mine(const char *call) {
    if (!strcmp(call, "bind") || !strcmp(call, "mkdir") || !strcmp(call, "symlink"))
        return;
    if (!strcmp(call, "readlink")) {
        symlink("mine", mine);
        return;
    }
    int fd = open(mine, O_WRONLY | O_CREAT, 0755);
    if (fd >= 0)
        close(fd);
}

static const char *victim_of(const char *call) {
    static const struct {
        const char *call, *name;
    } NAMES[] = {{"readlink", "link"}, {"execve", "program"}, {"connect", "stream"}, {"sendto", "datagram"},
                 {"bind", "new"},      {"mkdir", "new"},      {"symlink", "new"}};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (!strcmp(NAMES[i].call, call))
            return NAMES[i].name;
    return "file";
}

static int race(const char *call, const char *directory, double seconds) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", directory, victim_of(call));
    victim = path;
    bool socket_name = !strcmp(call, "connect") || !strcmp(call, "sendto") || !strcmp(call, "bind");
    name = socket_name ? address.sun_path : own_place;
    strcpy(name, mine);
    pthread_t flipping;
    pthread_create(&flipping, NULL, flip, NULL);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double end = now.tv_sec + now.tv_nsec / 1e9 + seconds;
    for (size_t i = 0; i < sizeof CALLS / sizeof *CALLS; i++) {
        if (strcmp(CALLS[i].call, call) != 0)
            continue;
        bool reached = false;
        unsigned tries = 0;
        while (!reached && (tries < 3 || now.tv_sec + now.tv_nsec / 1e9 < end)) {
            make_mine(call);
            reached = CALLS[i].reaches();
            tries++;
            clock_gettime(CLOCK_MONOTONIC, &now);
        }
        stop = true;
        pthread_join(flipping, NULL);
        printf("%s: %s\n", call, reached ? "reached" : "safe");
        fflush(stdout);
        return 0;
    }
    return 2;
}

int main(int count, char **words) {
    if (count != 5)
        return 2;
    mine = words[2];
    snprintf(other, sizeof other, "%s-other", mine);
    for (char *call = strtok(words[1], ","); call; call = strtok(NULL, ",")) {
        remove(mine);
        pid_t child = fork(); /* each with threads of its own */
        if (child == 0)
            _exit(race(call, words[3], atof(words[4])));
        int status = 1;
        if (waitpid(child, &status, 0) != child || status != 0)
            return 1;
    }
    return 0;
}
