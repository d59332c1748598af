/* build: sock_peercred
 *
 * SO_PEERCRED: who is at the other end of a pair, and of a connection made by name.
 */
#include "step.h"
#include "sock_unix.h"

static void ask(const char *label, int fd) {
    struct ucred who = {0};
    socklen_t size = sizeof who;
    MUST(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size));
    say("%s: pid is mine %d, uid is mine %d", label, who.pid == getpid(), who.uid == getuid());
}

int main(void) {
    int pair[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    ask("pair", pair[0]);
    struct sockaddr_un address;
    name_of(&address, "sock");
    int server = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    int client = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    MUST(bind(server, (struct sockaddr *)&address, sizeof address));
    MUST(listen(server, 5));
    MUST(connect(client, (struct sockaddr *)&address, sizeof address));
    int peer = MUST(accept(server, NULL, NULL));
    ask("accepted", peer);
    ask("connected", client);
    return 0;
}
