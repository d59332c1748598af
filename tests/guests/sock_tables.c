/* build: sock_tables
 *
 * The program's own sockets in /proc/net: found by inode, with state, owner and the names that the calls say.
 */
#include "step.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

static unsigned long inode_of(int fd) {
    struct stat is;
    MUST(fstat(fd, &is));
    return is.st_ino;
}

/* Does the table say of this socket what getsockname and getpeername do? */
static void show(const char *label, const char *table, int fd) {
    char line[512], local[64], remote[64];
    unsigned long inode, wanted = inode_of(fd);
    unsigned state, uid;
    FILE *file = fopen(table, "r");
    int rows = 0;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, " %*d: %63s %63s %x %*s %*s %*s %u %*d %lu", local, remote, &state, &uid, &inode) == 5 &&
            inode == wanted) {
            struct sockaddr_in6 name = {0};
            socklen_t size = sizeof name;
            rows++;
            getsockname(fd, (struct sockaddr *)&name, &size);
            unsigned own = ntohs(name.sin6_port), peer = 0;
            size = sizeof name;
            if (getpeername(fd, (struct sockaddr *)&name, &size) == 0)
                peer = ntohs(name.sin6_port);
            say("%s: state %02x, own user %d, own port %d, peer's %d, addresses %.*s %.*s", label, state, uid == getuid(),
                strtoul(strchr(local, ':') + 1, NULL, 16) == own, strtoul(strchr(remote, ':') + 1, NULL, 16) == peer,
                (int)strcspn(local, ":"), local, (int)strcspn(remote, ":"), remote);
        }
    if (file)
        fclose(file);
    say("%s: rows %d", label, rows);
}

static void network(int family, const char *tcp, const char *udp) {
    union { struct sockaddr any; struct sockaddr_in four; struct sockaddr_in6 six; } at = {.any.sa_family = family};
    socklen_t size = family == AF_INET ? sizeof at.four : sizeof at.six;
    if (family == AF_INET)
        at.four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else
        at.six.sin6_addr = in6addr_loopback;
    int server = MUST(socket(family, SOCK_STREAM, 0)), client = MUST(socket(family, SOCK_STREAM, 0));
    MUST(bind(server, &at.any, size));
    MUST(getsockname(server, &at.any, &size));
    MUST(listen(server, 5));
    show("listening", tcp, server);
    MUST(connect(client, &at.any, size));
    int taken = MUST(accept(server, NULL, NULL));
    show("client", tcp, client);
    show("taken", tcp, taken);
    show("not here", udp, client);
    int one = MUST(socket(family, SOCK_DGRAM, 0)), other = MUST(socket(family, SOCK_DGRAM, 0));
    show("unbound", udp, one);
    if (family == AF_INET)
        at.four.sin_port = 0;
    else
        at.six.sin6_port = 0;
    MUST(bind(one, &at.any, size));
    MUST(getsockname(one, &at.any, &size));
    show("bound", udp, one);
    MUST(connect(other, &at.any, size));
    show("connected", udp, other);
    int any = MUST(socket(family, SOCK_DGRAM, 0));
    memset((char *)&at + 2, 0, sizeof at - 2);
    MUST(bind(any, &at.any, size));
    show("any address", udp, any);
    close(one);
}

static void local(void) {
    int fds[4];
    struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = "name"}, hidden = {.sun_family = AF_UNIX};
    memcpy(hidden.sun_path, "\0tables-of-husk", 15);
    MUST(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds));
    fds[2] = MUST(socket(AF_UNIX, SOCK_STREAM, 0)), fds[3] = MUST(socket(AF_UNIX, SOCK_DGRAM, 0));
    MUST(bind(fds[2], (struct sockaddr *)&at, sizeof at));
    MUST(listen(fds[2], 1));
    MUST(bind(fds[3], (struct sockaddr *)&hidden, sizeof(sa_family_t) + 15));
    for (int i = 0; i < 4; i++) {
        char line[512];
        FILE *file = fopen("/proc/net/unix", "r");
        int rows = 0;
        while (file && fgets(line, sizeof line, file)) {
            unsigned flags, type, state;
            unsigned long inode;
            char path[256] = "-";
            if (sscanf(line, "%*s %*x %*x %x %x %x %lu %255s", &flags, &type, &state, &inode, path) >= 4 &&
                inode == inode_of(fds[i]))
                rows++, say("unix %d: flags %x type %u state %u path %s", i, flags, type, state, path);
        }
        if (file)
            fclose(file);
        say("unix %d: rows %d", i, rows);
    }
    unlink("name");
}

int main(void) {
    network(AF_INET, "/proc/net/tcp", "/proc/net/udp");
    network(AF_INET6, "/proc/net/tcp6", "/proc/net/udp6");
    local();
    return 0;
}
