/* build: sock_dgram
 *
 * Unix datagram sockets: by path, abstract, unnamed, as a pair; connected and not; several messages at once.
 */
#include "step.h"
#include "sock_unix.h"

static int made(const struct sockaddr_un *address, socklen_t size) {
    int fd = MUST(socket(AF_UNIX, SOCK_DGRAM, 0));
    if (size)
        MUST(bind(fd, (const struct sockaddr *)address, size));
    return fd;
}

static void hear(int fd) {
    char text[8] = {0};
    struct sockaddr_un from = {0};
    socklen_t size = sizeof from;
    ssize_t n = recvfrom(fd, text, 8, MSG_TRUNC | MSG_DONTWAIT, ADDRESS(from), &size);
    say("recvfrom %zd %s: %.8s", n, n < 0 ? errname(errno) : "", text);
    if (n >= 0)
        say_address("from", &from, size);
}

static void exchange(const char *label, struct sockaddr_un *to, socklen_t to_size, struct sockaddr_un *own, socklen_t own_size) {
    say("-- %s", label);
    int receiver = made(to, to_size), sender = made(own, own_size);
    say_names("sender", sender);
    STEP(sendto(sender, "one", 3, 0, (struct sockaddr *)to, to_size));
    struct iovec parts[2] = {{"tw", 2}, {"o", 1}};
    struct msghdr message = {.msg_name = to, .msg_namelen = to_size, .msg_iov = parts, .msg_iovlen = 2};
    STEP(sendmsg(sender, &message, 0));
    STEP(sendto(sender, "longer than the room", 20, 0, (struct sockaddr *)to, to_size));
    hear(receiver), hear(receiver), hear(receiver), hear(receiver);
    STEP(send(sender, "unconnected", 11, 0));
    STEP(connect(sender, (struct sockaddr *)to, to_size));
    say_names("connected", sender);
    STEP(send(sender, "three", 5, 0));
    STEP(sendto(sender, "", 0, 0, NULL, 0));
    hear(receiver), hear(receiver);
    if (own_size) {
        STEP(sendto(receiver, "back", 4, 0, (struct sockaddr *)own, own_size));
        hear(sender);
    }
    struct sockaddr nothing = {.sa_family = AF_UNSPEC};
    STEP(connect(sender, &nothing, sizeof nothing));
    STEP(send(sender, "gone", 4, 0));
    close(receiver);
    STEP(sendto(sender, "nobody", 6, 0, (struct sockaddr *)to, to_size));
    close(sender);
}

static void several(void) {
    int pair[2];
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
    char texts[3][8] = {"a", "bb", "ccc"};
    struct iovec parts[4];
    struct mmsghdr messages[4] = {0};
    for (int i = 0; i < 3; i++) {
        parts[i] = (struct iovec){texts[i], strlen(texts[i])};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
    }
    STEP(sendmmsg(pair[0], messages, 3, 0));
    say("lengths %u %u %u", messages[0].msg_len, messages[1].msg_len, messages[2].msg_len);
    char rooms[4][8] = {{0}};
    struct sockaddr_un names[4];
    for (int i = 0; i < 4; i++) {
        parts[i] = (struct iovec){rooms[i], 2};
        messages[i].msg_hdr = (struct msghdr){
            .msg_name = &names[i], .msg_namelen = sizeof names[i], .msg_iov = &parts[i], .msg_iovlen = 1};
    }
    STEP(recvmmsg(pair[1], messages, 4, MSG_DONTWAIT, NULL));
    for (int i = 0; i < 3; i++)
        say("%s: length %u, flags %x, name %u", rooms[i], messages[i].msg_len, messages[i].msg_hdr.msg_flags,
            messages[i].msg_hdr.msg_namelen);
    STEP(recvmmsg(pair[1], messages, 4, MSG_DONTWAIT, NULL));
    STEP(sendmmsg(pair[0], messages, 0, 0));
    STEP(sendmmsg(-1, messages, 1, 0));
    struct timespec soon = {0, 20000000};
    messages[0].msg_hdr.msg_name = NULL;
    MUST(sendmmsg(pair[0], messages, 1, 0));
    STEP(recvmmsg(pair[1], messages, 1, MSG_WAITFORONE, &soon));
    close(pair[0]), close(pair[1]);
}

static void wrong(struct sockaddr_un *address, socklen_t size) {
    int fd = MUST(socket(AF_UNIX, SOCK_DGRAM, 0));
    struct msghdr message = {.msg_name = address, .msg_namelen = size};
    STEP(sendto(fd, "x", 1, 0, (struct sockaddr *)address, 1));
    STEP(sendto(fd, "x", 1, 0, (struct sockaddr *)address, 200));
    STEP(sendto(fd, "x", 1, 0, (struct sockaddr *)address, -1));
    STEP(sendto(fd, "x", 1, 0, (struct sockaddr *)8, size));
    STEP(sendto(-1, "x", 1, 0, (struct sockaddr *)address, size));
    STEP(sendto(0, "x", 1, 0, (struct sockaddr *)address, size));
    STEP(sendto(fd, (char *)8, 1, 0, (struct sockaddr *)address, size));
    STEP(sendmsg(fd, NULL, 0));
    STEP(sendmsg(fd, (struct msghdr *)8, 0));
    STEP(sendmsg(-1, NULL, 0));
    message.msg_iovlen = 2000;
    STEP(sendmsg(fd, &message, 0));
    message.msg_iovlen = 1;
    STEP(sendmsg(fd, &message, 0));
    struct iovec part = {"x", -1};
    message.msg_iov = &part;
    STEP(sendmsg(fd, &message, 0));
    part.iov_len = 1, message.msg_namelen = -1;
    STEP(sendmsg(fd, &message, 0));
    name_of(address, ".");
    STEP(sendto(fd, "x", 1, 0, (struct sockaddr *)address, sizeof *address));
    name_of(address, "missing");
    STEP(sendto(fd, "x", 1, 0, (struct sockaddr *)address, sizeof *address));
    STEP(recv(fd, NULL, 0, MSG_DONTWAIT));
    close(fd);
}

static void interrupted(int signal) { (void)signal; }

/* The alarm comes again and again: the first may come before the call has begun, and nothing else would end it. */
static ssize_t until_alarm(int fd, char *text, struct sockaddr_un *from, socklen_t *size) {
    struct sigaction action = {.sa_handler = interrupted};
    sigaction(SIGALRM, &action, NULL);
    ualarm(30000, 30000);
    ssize_t n = recvfrom(fd, text, 8, 0, (struct sockaddr *)from, size);
    int number = errno;
    ualarm(0, 0);
    errno = number;
    return n;
}

static void waits(void) {
    /* Waiting in recvfrom with a name: a message ends it, a signal does, a time-out does. */
    struct sockaddr_un address, from;
    name_of(&address, "waits");
    int fd = made(&address, sizeof address);
    if (fork() == 0) {
        int sender = made(NULL, 0);
        usleep(30000);
        _exit(sendto(sender, "late", 4, 0, ADDRESS(address), sizeof address) != 4);
    }
    char text[8];
    socklen_t size = sizeof from;
    STEP(recvfrom(fd, text, 8, 0, ADDRESS(from), &size));
    int status;
    wait(&status);
    say("sender %s", status_text(status));
    STEP(until_alarm(fd, text, &from, &size));
    struct timeval soon = {0, 20000};
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon));
    STEP(recvfrom(fd, text, 8, 0, ADDRESS(from), &size));
    close(fd);
}

int main(void) {
    struct sockaddr_un one, other;
    name_of(&one, "receiver"), name_of(&other, "sender");
    exchange("by path, from an unnamed one", &one, sizeof one, &other, 0);
    unlink("receiver");
    exchange("by path", &one, sizeof one, &other, sizeof other);
    unlink("receiver"), unlink("sender");
    socklen_t one_size = abstract_of(&one, "receiver"), other_size = abstract_of(&other, "sender");
    exchange("abstract", &one, one_size, &other, other_size);
    exchange("abstract, from one the kernel names", &one, one_size, &other, 2);
    name_of(&one, "again");
    several();
    wrong(&one, sizeof one);
    waits();
    return 0;
}
