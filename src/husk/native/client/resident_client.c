/* Asking a resident husk to do this run: the request, signals while it runs, and the exit code.
 *
 * Until the resident has said that it serves, and this program has said go, nothing has happened, and every failure
 * means: start the ordinary way. Who may be served is judged by the resident, from what the kernel says about this
 * process; what is checked here only saves a question. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/ioprio.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "client.h"

#define MOST_BYTES (4u << 20) /* of words and environment; the kernel's own limit is about there */
#ifndef PR_GET_MDWE /* Linux 6.3: no memory that is both writable and executable */
#define PR_GET_MDWE 66
#endif
#define DEFAULT_TIMER_SLACK 50000 /* nanoseconds */
#define PASSED 4              /* descriptors: the working directory, and the three streams */

/* Read by husk/cli/resident/request.py. The strings follow, each with its NUL. */
struct request {
    char magic[8];
    uint32_t bytes, words, variables, mask;
};

static volatile int worker = -1; /* a pidfd, for the signal handler */

static int begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Does it change what Python or the C library does from its start on? Two that are common change nothing here. */
static int read_at_start(const char *variable)
{
    static const char *const some[] = {"PYTHON", "LD_", "MALLOC_", "GLIBC_", "GCONV_", "LOCPATH="};
    if (begins(variable, "PYTHONDONTWRITEBYTECODE=") || begins(variable, "PYTHONUNBUFFERED="))
        return 0;
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++)
        if (begins(variable, some[i]))
            return 1;
    return 0;
}

/* Does it name what the process has that opens it? /dev/stdin and its like are links to /proc/self/fd. */
static int names_own(const char *word)
{
    return strstr(word, "/proc") != NULL || strstr(word, "/dev/fd") != NULL || strstr(word, "/dev/std") != NULL;
}

/* What a resident could not do as this process would. */
static int may_ask(int argc, char **argv)
{
    const char *wish = getenv("HUSK_RESIDENT"), *ci = getenv("CI");
    int wanted = wish != NULL && strcmp(wish, "1") == 0;
    if (wish != NULL && !wanted && wish[0] != '\0')
        return 0;
    if (!wanted && ci != NULL && ci[0] != '\0')
        return 0;
    if (getauxval(AT_SECURE) || getuid() != geteuid() || getgid() != getegid())
        return 0;
    if (getsid(0) == getpid() || sched_getscheduler(0) != SCHED_OTHER)
        return 0;
    if (syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0) != 0) /* one was set */
        return 0;
    if (prctl(PR_GET_TIMERSLACK) != DEFAULT_TIMER_SLACK || personality(0xffffffff) != 0 ||
        prctl(PR_GET_MDWE, 0, 0, 0, 0) > 0)
        return 0; /* the resident may not read these of another process */
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 || isatty(fd))
            return 0;
    for (int i = 2; i < argc; i++)
        if (names_own(argv[i]))
            return 0;
    for (char **variable = environ; *variable != NULL; variable++)
        if (read_at_start(*variable))
            return 0;
    return 1;
}

static char *put(char *to, char **strings, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        to = stpcpy(to, strings[i]) + 1;
    return to;
}

static size_t measure(char **strings, uint32_t *count)
{
    size_t bytes = 0;
    for (*count = 0; strings[*count] != NULL; ++*count)
        bytes += strlen(strings[*count]) + 1;
    return bytes;
}

static int send_all(int fd, const char *data, size_t size, struct msghdr *head)
{
    while (size > 0) {
        struct iovec piece = {.iov_base = (char *)data, .iov_len = size};
        struct msghdr plain = {0}, *message = head != NULL ? head : &plain;
        message->msg_iov = &piece;
        message->msg_iovlen = 1;
        ssize_t sent = sendmsg(fd, message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return -1;
        head = NULL; /* the descriptors went with the first byte */
        data += sent;
        size -= (size_t)sent;
    }
    return 0;
}

static int ask(int fd, char **words)
{
    struct request request = {.magic = "HUSKRES1"};
    size_t bytes = measure(words, &request.words) + measure(environ, &request.variables);
    int passed[PASSED] = {open(".", O_PATH | O_DIRECTORY | O_CLOEXEC), 0, 1, 2};
    char *whole = bytes > MOST_BYTES ? NULL : malloc(sizeof request + bytes);
    int done = -1;
    if (passed[0] >= 0 && whole != NULL) {
        request.bytes = (uint32_t)bytes;
        request.mask = umask(0);
        umask(request.mask);
        memcpy(whole, &request, sizeof request);
        put(put(whole + sizeof request, words, request.words), environ, request.variables);
        union {
            struct cmsghdr head;
            char room[CMSG_SPACE(sizeof passed)];
        } control = {.head = {.cmsg_len = CMSG_LEN(sizeof passed), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
        memcpy(CMSG_DATA(&control.head), passed, sizeof passed);
        struct msghdr message = {.msg_control = &control, .msg_controllen = sizeof control};
        done = send_all(fd, whole, sizeof request + bytes, &message);
    }
    free(whole);
    if (passed[0] >= 0)
        close(passed[0]);
    return done;
}

/* 'Y' comes with a pidfd of the process that will do the run. */
static int promised(int fd)
{
    char answer = 0;
    struct iovec piece = {.iov_base = &answer, .iov_len = 1};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    if (recvmsg(fd, &message, MSG_CMSG_CLOEXEC) != 1 || answer != 'Y')
        return -1;
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (head == NULL || head->cmsg_type != SCM_RIGHTS || head->cmsg_len != CMSG_LEN(sizeof(int)))
        return -1;
    int found;
    memcpy(&found, CMSG_DATA(head), sizeof found);
    return found;
}

static void pass_on(int number)
{
    int kept = errno;
    if (number == SIGTSTP) { /* without a terminal ^Z stops husk itself */
        syscall(SYS_pidfd_send_signal, worker, SIGSTOP, NULL, 0);
        raise(SIGSTOP);
    } else {
        syscall(SYS_pidfd_send_signal, worker, number, NULL, 0);
    }
    errno = kept;
}

static void catch_signals(void)
{
    static const int caught[] = {SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGCONT, SIGTSTP};
    struct sigaction action = {.sa_handler = pass_on, .sa_flags = SA_RESTART};
    struct sigaction before;
    for (size_t i = 0; i < sizeof caught / sizeof caught[0]; i++) {
        /* An ignored ^Z stays ignored, as it does for a husk that was started the ordinary way. */
        if (caught[i] == SIGTSTP && sigaction(SIGTSTP, NULL, &before) == 0 && before.sa_handler == SIG_IGN)
            continue;
        sigaction(caught[i], &action, NULL);
    }
}

int client_run(int argc, char **argv, const char *self, const char *python)
{
    if (!may_ask(argc, argv))
        return CLIENT_NOT_SERVED;
    struct client_place place = client_find_place(self, python);
    if (place.directory < 0)
        return CLIENT_NOT_SERVED;
    int fd = client_connect(&place);
    if (fd < 0) {
        client_start_resident(&place, python);
        close(place.directory);
        return CLIENT_NOT_SERVED;
    }
    close(place.directory);
    if (ask(fd, argv + 2) < 0 || (worker = promised(fd)) < 0) {
        close(fd);
        return CLIENT_NOT_SERVED;
    }
    catch_signals();
    struct timeval for_ever = {0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &for_ever, sizeof for_ever);
    char ended[2];
    if (send_all(fd, "G", 1, NULL) == 0) {
        ssize_t got;
        while ((got = recv(fd, ended, sizeof ended, MSG_WAITALL)) < 0 && errno == EINTR)
            ;
        if (got == sizeof ended && ended[0] == 'E')
            return (unsigned char)ended[1];
    }
    fprintf(stderr, "husk: the process that ran the box was killed; the box is gone.\n");
    return 125;
}
