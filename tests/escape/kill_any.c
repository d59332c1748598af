/* build: kill_any
 *
 * kill_any ROUNDS: children make one virtual call over and over, each kind of call in turn, and are killed after a
 * moment. So they die at any point of husk's work: before the arguments are read, between reading and acting, while a
 * descriptor is injected, in a remote call. The next child may get the dead one's process id or notification. Prints
 * how many were reaped.
 */
#include "step.h"

#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/un.h>

static struct sockaddr_un nowhere = {.sun_family = AF_UNIX, .sun_path = "kill-any-socket"};

static _Noreturn void calls_of(int kind, const char *self) {
    char text[4096];
    int pair[2] = {-1, -1};
    socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, pair);
    struct iovec part = {text, 16};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_name = &nowhere, .msg_namelen = sizeof nowhere};
    struct sigaction plain = {.sa_handler = SIG_DFL}, old;
    for (;;) {
        int fd = -1;
        switch (kind % 12) {
        case 0: fd = open("kill-any-file", O_RDWR | O_CREAT, 0600); break;
        case 1: chdir("/tmp"); chdir("/"); break;
        case 2: execl(self, self, "spin", NULL); break;
        case 3: fd = open("kill-any-fifo", O_RDONLY); break; /* waits for a writer that never comes */
        case 4: fd = socket(AF_UNIX, SOCK_STREAM, 0); connect(fd, (void *)&nowhere, sizeof nowhere); break;
        case 5: fd = socket(AF_UNIX, SOCK_STREAM, 0); bind(fd, (void *)&nowhere, sizeof nowhere); unlink(nowhere.sun_path); break;
        case 6: sendmsg(pair[0], &message, 0); break;
        case 7: recvmsg(pair[1], &message, 0); message.msg_namelen = sizeof nowhere; break;
        case 8: fd = inotify_init(); inotify_add_watch(fd, "/tmp", IN_ALL_EVENTS); break;
        case 9: plain.sa_handler = plain.sa_handler == SIG_DFL ? (void *)1000 : SIG_DFL;
                syscall(SYS_rt_sigaction, SIGUSR2, &plain, &old, 8); break;
        case 10: fd = open("/usr", O_RDONLY | O_DIRECTORY); syscall(SYS_getdents64, fd, text, sizeof text); break;
        case 11: rename("kill-any-file", "kill-any-other"); rename("kill-any-other", "kill-any-file"); break;
        }
        if (fd >= 0)
            close(fd);
    }
}

int main(int count, char **words) {
    if (count < 2)
        return 2;
    if (strcmp(words[1], "spin") == 0)
        calls_of(2, words[0]);
    int rounds = atoi(words[1]), reaped = 0;
    chdir("/tmp");
    mkfifo("kill-any-fifo", 0600);
    for (int i = 0; i < rounds; i++) {
        pid_t child = fork();
        if (child == 0)
            calls_of(i, words[0]);
        usleep(200 + i * 37 % 3000);
        kill(child, SIGKILL);
        reaped += waitpid(child, NULL, 0) == child;
    }
    struct stat found;
    printf("%d of %d reaped, and the box %s\n", reaped, rounds, stat("/tmp", &found) == 0 ? "answers" : "is dead");
    return 0;
}
