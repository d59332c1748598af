/* build: sock_peers
 *
 * SO_PEERCRED of connections by path and by abstract name: the peer's credentials, also after the peer has ended.
 */
#include "step.h"
#include "sock_unix.h"

static void ask(const char *label, int fd, pid_t pid) {
    struct ucred who = {0};
    socklen_t size = sizeof who;
    MUST(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size));
    say("%s: %s, uid %d, gid %d", label, who.pid == pid ? "right" : "wrong", who.uid == getuid(), who.gid == getgid());
}

static void talk(struct sockaddr_un *address, socklen_t size) {
    int listener = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    MUST(bind(listener, (struct sockaddr *)address, size));
    MUST(listen(listener, 5));
    pid_t child = MUST(fork());
    if (child == 0) {
        int client = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
        MUST(connect(client, (struct sockaddr *)address, size));
        ask("the client sees its server", client, getppid());
        _exit(0);
    }
    waitpid(child, NULL, 0);
    int server = MUST(accept(listener, NULL, NULL));
    ask("the server sees a client that is gone", server, child);
    close(server);
    child = MUST(fork());
    if (child == 0) {
        char wait;
        int client = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
        MUST(connect(client, (struct sockaddr *)address, size));
        _exit(read(client, &wait, 1) != 1);
    }
    server = MUST(accept(listener, NULL, NULL));
    ask("the server sees its client", server, child);
    MUST(write(server, "x", 1));
    waitpid(child, NULL, 0);
    ask("and still when it has ended", server, child);
    close(server), close(listener);
}

int main(void) {
    struct sockaddr_un address;
    name_of(&address, "peers");
    talk(&address, sizeof address);
    socklen_t size = abstract_of(&address, "peers");
    talk(&address, size);
    return 0;
}
