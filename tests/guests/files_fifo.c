/* build: files_fifo
 *
 * FIFOs between processes and Unix sockets by path: opens that block, what ends them, and what they carry.
 */
#include "step.h"
#include "sock_unix.h"
#include <poll.h>

static void nothing(int sig) { (void)sig; }

/* An open with a handler that runs every `ms` meanwhile: the first time may be before the open has begun, and without
 * SA_RESTART nothing else would end it. */
static int open_with_alarms(int mode, int ms, int flags) {
    struct sigaction action = {.sa_handler = nothing, .sa_flags = flags};
    sigaction(SIGALRM, &action, NULL);
    timer_t timer;
    MUST(timer_create(CLOCK_MONOTONIC, NULL, &timer));
    struct timespec often = {ms / 1000, ms % 1000 * 1000000L};
    MUST(timer_settime(timer, 0, &(struct itimerspec){often, often}, NULL));
    int fd = open("p", mode), number = errno;
    MUST(timer_delete(timer));
    errno = number;
    return fd;
}

static void opening(void) {
    STEP(mkfifo("p", 0644));
    STEP(mkfifo("p", 0644));
    STEP(open("p", O_WRONLY | O_NONBLOCK));
    STEP(open("p", O_RDONLY | O_NONBLOCK));
    STEP(open("p", O_WRONLY | O_NONBLOCK));
    STEP(write(4, "ping", 4));
    char text[10] = {0};
    STEP(read(3, text, 10));
    STEP(read(3, text, 10));
    STEP(close(4));
    STEP(read(3, text, 10));
    STEP(close(3));
    STEP(open("p", O_RDWR));
    STEP(write(3, "self", 4));
    STEP(read(3, text, 10));
    STEP(close(3));
    STEP(open("p", O_PATH));
    STEP(close(3));
    STEP(open_with_alarms(O_RDONLY, 100, 0)); /* blocks, then the handler ends it */
    STEP(open_with_alarms(O_WRONLY, 100, 0));
    /* With SA_RESTART the open goes on after the handler, until another process opens the FIFO. */
    pid_t pid = fork();
    if (pid == 0) {
        nap_ms(300);
        int fd = open("p", O_WRONLY);
        if (write(fd, "late", 4) != 4)
            _exit(1);
        _exit(0);
    }
    STEP(open_with_alarms(O_RDONLY, 100, SA_RESTART));
    STEP(read(3, text, 4));
    STEP(read(3, text, 4));
    STEP(close(3));
    say("writer %s", status_text(wait_for(pid)));
}

static void between_processes(void) {
    pid_t reader = fork();
    if (reader == 0) {
        int fd = MUST(open("p", O_RDONLY));
        char text[100];
        long total = 0, sum = 0;
        for (ssize_t n; (n = read(fd, text, sizeof text)) > 0; total += n)
            for (ssize_t i = 0; i < n; i++)
                sum += text[i];
        say("reader got %ld, sum %ld", total, sum);
        _exit(0);
    }
    pid_t writer = fork();
    if (writer == 0) {
        int fd = MUST(open("p", O_WRONLY));
        for (int i = 0; i < 1000; i++)
            if (write(fd, "0123456789", 10) != 10)
                _exit(1);
        _exit(0);
    }
    say("reader %s", status_text(wait_for(reader))); /* first, so that its own line stands before ours */
    say("writer %s", status_text(wait_for(writer)));
    /* A blocked open does not hold up other processes, and a killed one lets go. */
    pid_t blocked = fork();
    if (blocked == 0) {
        open("p", O_RDONLY);
        _exit(1);
    }
    until_asleep(blocked);
    struct stat st;
    STEP(stat("p", &st));
    STEP(open("/dev/null", O_RDONLY));
    close(3);
    kill(blocked, SIGKILL);
    say("blocked %s", status_text(wait_for(blocked)));
    STEP(unlink("p"));
    STEP(mknod("p2", S_IFIFO | 0600, 0));
    STEP(mknod("f", S_IFREG | 0600, 0));
    STEP(mknod("dev", S_IFCHR | 0600, 0x103));
    STEP(mknod("s", S_IFSOCK | 0600, 0));
}

static void sockets(void) {
    struct sockaddr_un address;
    char text[20] = {0};
    name_of(&address, "sock");
    int server = MUST(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    int client = MUST(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    STEP(connect(client, (struct sockaddr *)&address, sizeof address));
    STEP(bind(server, (struct sockaddr *)&address, sizeof address));
    struct stat st;
    STEP(stat("sock", &st));
    say("socket %d mode %o", S_ISSOCK(st.st_mode), st.st_mode);
    STEP(open("sock", O_RDWR));
    STEP(connect(client, (struct sockaddr *)&address, sizeof address));
    STEP(listen(server, 5));
    STEP(connect(client, (struct sockaddr *)&address, sizeof address));
    int peer = STEP(accept4(server, NULL, NULL, SOCK_CLOEXEC));
    STEP(write(client, "hello", 5));
    STEP(read(peer, text, 20));
    say("text %s", text);
    struct sockaddr_un got;
    socklen_t size = sizeof got;
    memset(&got, 0, sizeof got);
    STEP(getsockname(server, (struct sockaddr *)&got, &size));
    say("name %s size %u", got.sun_path, size);
    size = sizeof got;
    memset(&got, 0, sizeof got);
    STEP(getpeername(client, (struct sockaddr *)&got, &size));
    say("peer %s size %u", got.sun_path, size);
    int second = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    STEP(bind(second, (struct sockaddr *)&address, sizeof address));
    STEP(bind(server, (struct sockaddr *)&address, sizeof address));
    name_of(&address, "missing/sock");
    STEP(bind(second, (struct sockaddr *)&address, sizeof address));
    name_of(&address, "f");
    STEP(connect(second, (struct sockaddr *)&address, sizeof address));
    STEP(rename("sock", "sock2"));
    name_of(&address, "sock2");
    STEP(connect(second, (struct sockaddr *)&address, sizeof address));
    STEP(unlink("sock2"));
    STEP(connect(second, (struct sockaddr *)&address, sizeof address));
    for (int fd = 3; fd < 12; fd++)
        close(fd);
}

static void passing(void) {
    int pair[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    put_text("passed", "by descriptor", 0644);
    MUST(mkdir("passed_dir", 0755));
    int give[2] = {MUST(open("passed", O_RDONLY)), MUST(open("passed_dir", O_RDONLY | O_DIRECTORY))};
    union { struct cmsghdr header; char room[CMSG_SPACE(sizeof give)]; } control = {0};
    struct iovec data = {"x", 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof give);
    memcpy(CMSG_DATA(&control.header), give, sizeof give);
    STEP(sendmsg(pair[0], &message, 0));
    close(give[0]), close(give[1]);
    char byte;
    data.iov_base = &byte;
    STEP(recvmsg(pair[1], &message, 0));
    memcpy(give, CMSG_DATA(&control.header), sizeof give);
    char text[20] = {0};
    STEP(read(give[0], text, sizeof text));
    say("text %s", text);
    STEP(close(openat(give[1], "made_through_it", O_CREAT | O_WRONLY, 0644)));
    STEP(access("passed_dir/made_through_it", F_OK));
}

int main(void) {
    umask(022);
    opening();
    between_processes();
    passing();
    sockets();
    return 0;
}
