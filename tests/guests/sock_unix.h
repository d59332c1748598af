/* Shared by the programs about Unix sockets: a name as an address. */
#ifndef SOCK_UNIX_H
#define SOCK_UNIX_H

#include <sys/socket.h>
#include <sys/un.h>

static void name_of(struct sockaddr_un *address, const char *path) {
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    strncpy(address->sun_path, path, sizeof address->sun_path - 1);
}

#endif
