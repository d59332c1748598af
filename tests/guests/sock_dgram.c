/* build: sock_dgram
 *
 * Unix datagram sockets: by name and as a pair. The first step says whether there are any.
 */
#include "step.h"
#include "sock_unix.h"

int main(void) {
    struct sockaddr_un address;
    char text[20] = {0};
    int receiver = STEP(socket(AF_UNIX, SOCK_DGRAM, 0));
    if (receiver < 0)
        return 0;
    int sender = STEP(socket(AF_UNIX, SOCK_DGRAM, 0));
    name_of(&address, "dgram");
    STEP(connect(sender, (struct sockaddr *)&address, sizeof address));
    STEP(bind(receiver, (struct sockaddr *)&address, sizeof address));
    STEP(sendto(sender, "datagram", 8, 0, (struct sockaddr *)&address, sizeof address));
    STEP(recv(receiver, text, 20, 0));
    int stream = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    STEP(connect(stream, (struct sockaddr *)&address, sizeof address));
    return 0;
}
