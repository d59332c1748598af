/* inotify: what each call answers, errors in their order; flags of a watch; the queue as a descriptor.
 *
 * build: inotify_calls */
#include "inotify.h"

#include <sys/epoll.h>
#include <sys/socket.h>

static int queue;
static volatile sig_atomic_t signals;

static void count(int number) {
    (void)number;
    signals++;
}

static void errors(void) {
    say("-- errors");
    put_text("f", "text\n", 0644);
    put_text("secret", "text\n", 0000);
    STEP(mkdir("closed", 0000));
    STEP(mkdir("no-read", 0311));
    STEP(symlink("nowhere", "dangling"));
    STEP(symlink("f", "link"));
    int other = MUST(open("f", O_RDONLY)), path_only = MUST(open("secret", O_PATH)), ends[2];
    MUST(pipe(ends));
    STEP(inotify_init1(1));
    STEP(inotify_init1(~0));
    STEP(inotify_add_watch(-1, "f", 0));
    STEP(inotify_add_watch(-1, "f", IN_MODIFY));
    STEP(inotify_add_watch(-1, "f", IN_MODIFY | IN_MASK_ADD | IN_MASK_CREATE));
    STEP(inotify_add_watch(other, "f", IN_MODIFY));
    STEP(inotify_add_watch(ends[0], (char *)1, IN_MODIFY));
    STEP(inotify_add_watch(path_only, "f", IN_MODIFY));
    STEP(inotify_add_watch(queue, "f", 0));
    STEP(inotify_add_watch(queue, "f", 0x00100000));
    STEP(inotify_add_watch(queue, "f", IN_MODIFY | IN_MASK_ADD | IN_MASK_CREATE));
    STEP(inotify_add_watch(queue, NULL, IN_MODIFY));
    STEP(inotify_add_watch(queue, (char *)1, IN_MODIFY));
    STEP(inotify_add_watch(queue, "", IN_MODIFY));
    STEP(inotify_add_watch(queue, "missing", IN_MODIFY));
    STEP(inotify_add_watch(queue, "missing/f", IN_MODIFY));
    STEP(inotify_add_watch(queue, "f/f", IN_MODIFY));
    STEP(inotify_add_watch(queue, "f/", IN_MODIFY));
    STEP(inotify_add_watch(queue, "f", IN_MODIFY | IN_ONLYDIR));
    STEP(inotify_add_watch(queue, "secret", IN_MODIFY | IN_ONLYDIR));
    STEP(inotify_add_watch(queue, "dangling", IN_MODIFY));
    STEP(inotify_add_watch(queue, "link", IN_MODIFY | IN_ONLYDIR | IN_DONT_FOLLOW));
    STEP(inotify_add_watch(queue, "secret", IN_MODIFY));
    STEP(inotify_add_watch(queue, "closed", IN_MODIFY));
    STEP(inotify_add_watch(queue, "closed/f", IN_MODIFY));
    STEP(inotify_add_watch(queue, "no-read", IN_MODIFY));
    STEP(inotify_add_watch(queue, "no-read/f", IN_MODIFY));
    STEP(inotify_rm_watch(queue, 1));
    STEP(inotify_rm_watch(-1, 1));
    STEP(inotify_rm_watch(other, 1));
    DO(close(other) | close(path_only) | close(ends[0]) | close(ends[1]));
}

static void flags(void) {
    say("-- flags of a watch");
    int fd, wd;
    STEP(mkdir("d", 0755));
    put_text("d/a", "a", 0644);
    STEP(wd = inotify_add_watch(queue, "d/a", IN_OPEN));
    STEP(inotify_add_watch(queue, "./d/../d/a", IN_OPEN) - wd);
    STEP(link("d/a", "d/b"));
    STEP(inotify_add_watch(queue, "d/b", IN_OPEN) - wd);
    STEP(symlink("d/b", "to-b"));
    STEP(inotify_add_watch(queue, "to-b", IN_OPEN) - wd);
    STEP(inotify_add_watch(queue, "to-b", IN_OPEN | IN_DONT_FOLLOW) - wd);
    STEP(inotify_add_watch(queue, "d/a", IN_OPEN | IN_MASK_CREATE));
    DO(fd = open("d/b", O_WRONLY));
    DO(write(fd, "x", 1));
    STEP(inotify_add_watch(queue, "d/a", IN_MODIFY | IN_MASK_ADD) - wd);
    DO(write(fd, "x", 1));
    STEP(inotify_add_watch(queue, "d/a", IN_CLOSE) - wd);
    DO(write(fd, "x", 1));
    DO(close(fd));
    DO(inotify_rm_watch(queue, wd));
    DO(inotify_rm_watch(queue, wd));
    DO(chmod("d/a", 0600));
    STEP(inotify_add_watch(queue, "d/a", IN_ATTRIB | IN_ONESHOT) - wd);
    DO(chmod("d/a", 0644));
    DO(chmod("d/a", 0600));
    STEP(wd = inotify_add_watch(queue, "d", IN_MODIFY | IN_EXCL_UNLINK));
    MUST(fd = open("d/a", O_WRONLY));
    DO(write(fd, "x", 1));
    DO(unlink("d/a"));
    DO(write(fd, "x", 1));
    MUST(close(fd));
    STEP(inotify_add_watch(queue, "d", IN_CREATE | IN_DELETE | IN_ONLYDIR) - wd);
    DO(mkdir("d/sub", 0755));
    DO(rename("d/sub", "d/sub2"));
    DO(rmdir("d/sub2"));
    DO(inotify_rm_watch(queue, wd));
}

static void descriptor(void) {
    say("-- the queue as a descriptor");
    char small[16], room[256];
    int waiting, fd, again, both[2], status;
    struct pollfd ready = {.fd = queue, .events = POLLIN};
    STEP(read(queue, room, sizeof room));
    STEP(poll(&ready, 1, 0));
    STEP(ioctl(queue, FIONREAD, &waiting));
    say("waiting %d", waiting);
    STEP(inotify_add_watch(queue, "d", IN_CREATE | IN_DELETE) > 0);
    int set = MUST(epoll_create1(0));
    struct epoll_event want = {.events = EPOLLIN, .data.fd = queue}, got;
    STEP(epoll_ctl(set, EPOLL_CTL_ADD, queue, &want));
    STEP(epoll_wait(set, &got, 1, 0));
    signal(SIGIO, count);
    STEP(fcntl(queue, F_SETOWN, getpid()));
    STEP(fcntl(queue, F_SETFL, O_NONBLOCK | O_ASYNC));
    STEP(mkdir("d/one", 0755));
    say("signals %d", signals);
    STEP(fcntl(queue, F_SETFL, O_NONBLOCK));
    STEP(poll(&ready, 1, 0));
    STEP(epoll_wait(set, &got, 1, 0));
    STEP(ioctl(queue, FIONREAD, &waiting));
    say("waiting %d", waiting);
    STEP(mkdir("d/two", 0755));
    STEP(mkdir("d/a-name-of-more-than-sixteen-bytes", 0755));
    STEP(read(queue, small, sizeof small));
    STEP(read(queue, room, 32));
    STEP(read(queue, room, 60));
    char *nowhere = edge_buffer(0);
    STEP(read(queue, nowhere, 256));
    STEP(read(queue, room, sizeof room));
    STEP(write(queue, room, 1));
    STEP(lseek(queue, 0, SEEK_SET));
    DO(rmdir("d/one") | rmdir("d/two") | rmdir("d/a-name-of-more-than-sixteen-bytes"));
    say("-- shared");
    STEP(again = dup(queue));
    STEP(close(queue));
    queue = again;
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, both));
    pid_t child = MUST(fork());
    if (!child) {
        say("in the child:");
        DO(mkdir("d/child", 0755));
        STEP(inotify_add_watch(queue, "f", IN_ATTRIB) > 0);
        _exit(0);
    }
    MUST(waitpid(child, &status, 0));
    DO(chmod("f", 0600));
    DO(rmdir("d/child"));
    char data = 'q', control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {&data, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &queue, sizeof(int));
    STEP(sendmsg(both[0], &message, 0));
    STEP(close(queue));
    STEP(recvmsg(both[1], &message, 0));
    memcpy(&queue, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
    DO(chmod("f", 0644));
    STEP(inotify_add_watch(queue, "f", IN_MODIFY) > 0);
    MUST(fd = open("f", O_WRONLY));
    DO(write(fd, "x", 1));
    DO(unlink("f"));
    DO(close(fd));
}

int main(int argc, char **argv) {
    if (argc > 1)
        MUST(chdir(argv[1]));
    queue = STEP(inotify_init());
    STEP(fcntl(queue, F_GETFL));
    STEP(fcntl(queue, F_GETFD));
    STEP(close(queue));
    queue = STEP(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
    STEP(fcntl(queue, F_GETFL));
    STEP(fcntl(queue, F_GETFD));
    errors();
    flags();
    descriptor();
    return 0;
}
