/* build: late_service
 *
 * Connects a datagram socket to a port of the loopback, closes the socket that had the port, tells which port it was, and
 * sends a word there when it is told to. A service of the host that took the port in between would hear it.
 */
#include "step.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

int main(void) {
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof server;
    int old = MUST(socket(AF_INET, SOCK_DGRAM, 0)), client = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    MUST(bind(old, (struct sockaddr *)&server, size));
    MUST(getsockname(old, (struct sockaddr *)&server, &size));
    MUST(connect(client, (struct sockaddr *)&server, size));
    /* Connections to many other ports, which end again, must not make husk forget this one. */
    for (int i = 1; i <= 300; i++) {
        struct sockaddr_in other = server;
        other.sin_port = htons(2000 + i);
        int fd = MUST(socket(AF_INET, SOCK_DGRAM, 0));
        MUST(connect(fd, (struct sockaddr *)&other, size));
        close(fd);
    }
    close(old);
    say("%d", ntohs(server.sin_port));
    char line[8];
    if (read(0, line, sizeof line) <= 0)
        return 0;
    (void)!send(client, "escaped", 7, 0);
    say("sent");
    return 0;
}
