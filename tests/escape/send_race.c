/* build: send_race -lpthread
 *
 * One thread sends messages without an address on a stream. Another thread replaces the stream by a datagram socket,
 * and puts the host's address into the message header: then husk has checked something else than the kernel would send.
 * The address is a path of the host, absolute and relative to the working directory. Argument: the path of a datagram
 * server.
 */
#include "step.h"
#include "sock_unix.h"
#include <pthread.h>

static struct msghdr message;
static struct iovec part = {"escaped", 7};
static struct sockaddr_un names[5];
static volatile int stop;
static int stream, datagram, number = 50;

static void *swap(void *unused) {
    (void)unused;
    for (unsigned i = 0; !stop; i++) {
        message.msg_name = &names[i % 5], message.msg_namelen = sizeof names[0];
        dup2(datagram, number);
        message.msg_name = NULL, message.msg_namelen = 0;
        dup2(stream, number);
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 2)
        return 2;
    int pair[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    stream = pair[0], datagram = MUST(socket(AF_UNIX, SOCK_DGRAM, 0));
    for (int i = 0; i < 5; i++) {
        char path[200] = "";
        for (int up = 0; up < 3 * i; up++)
            strcat(path, "../");
        strcat(path, i ? argv[1] + 1 : argv[1]);
        name_of(&names[i], path);
    }
    message = (struct msghdr){.msg_iov = &part, .msg_iovlen = 1};
    MUST(dup2(stream, number));
    pthread_t other;
    pthread_create(&other, NULL, swap, NULL);
    char drain[65536];
    for (int i = 0; i < 3000; i++) {
        sendmsg(number, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (i % 100 == 0)
            (void)!recv(pair[1], drain, sizeof drain, MSG_DONTWAIT);
    }
    stop = 1;
    pthread_join(other, NULL);
    say("done");
    return 0;
}
