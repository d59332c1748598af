/* build: in_flight
 *
 * in_flight pair|named MOST: sends descriptors that are never received. They lie in a socket, which is sent into the
 * next one, and so on. None of them is in any table, so only a count of descriptors in flight bounds them. `named`
 * sends to an address, which a supervisor may have to do itself. Linux answers ETOOMANYREFS to an ordinary user; root
 * can go on. Prints how far it got, and keeps all of them until its standard input ends.
 */
#include "step.h"

#include <sys/socket.h>
#include <sys/un.h>

#define AT_ONCE 100

static long send_all(int from, const struct sockaddr_un *to, const int *fds, int count) {
    char room[CMSG_SPACE(sizeof(int) * AT_ONCE)] = {0}, byte = 0;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_name = (void *)to, .msg_namelen = to ? sizeof *to : 0, .msg_iov = &part, .msg_iovlen = 1,
                             .msg_control = room, .msg_controllen = CMSG_SPACE(sizeof(int) * count)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * count);
    memcpy(CMSG_DATA(header), fds, sizeof(int) * count);
    return sendmsg(from, &message, 0);
}

int main(int argc, char **argv) {
    int named = argc > 2 && !strcmp(argv[1], "named"), pair[2] = {-1, -1}, fds[AT_ONCE];
    long most = argc > 2 ? atol(argv[2]) : 0, sent = 0, result = 0;
    for (int round = 0; result >= 0 && sent < most; round++) {
        int count = 0;
        struct sockaddr_un name = {.sun_family = AF_UNIX};
        if (round)
            fds[count++] = pair[0], fds[count++] = pair[1];
        while (count < AT_ONCE)
            fds[count++] = MUST(open("/dev/null", O_RDONLY));
        MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
        if (named) {
            snprintf(name.sun_path, sizeof name.sun_path, "in-flight-%d", round);
            for (int side = 0; side < 2; side++) { /* a socket with a peer takes messages only from that */
                MUST(close(pair[side]));
                pair[side] = MUST(socket(AF_UNIX, SOCK_DGRAM, 0));
            }
            MUST(bind(pair[1], (struct sockaddr *)&name, sizeof name));
        }
        result = send_all(pair[0], named ? &name : NULL, fds, count);
        sent += result < 0 ? 0 : count;
        for (int i = 0; result >= 0 && i < count; i++)
            MUST(close(fds[i]));
    }
    int error = errno;
    say("%s after %ld", result < 0 ? errname(error) : "stopped", sent);
    while (read(0, &error, 1) > 0)
        ;
    return 0;
}
