/* Shared by the programs about Unix sockets: names as addresses, and addresses as text. */
#ifndef SOCK_UNIX_H
#define SOCK_UNIX_H

#include <sys/socket.h>
#include <sys/un.h>

#define ADDRESS(a) ((struct sockaddr *)&(a))

static UNUSED void name_of(struct sockaddr_un *address, const char *path) {
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    strncpy(address->sun_path, path, sizeof address->sun_path - 1);
}

/* An abstract name no other run of this program has. Returns its length as an address. */
static UNUSED socklen_t abstract_of(struct sockaddr_un *address, const char *name) {
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    int length = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "%s-%d", name, getpid());
    return offsetof(struct sockaddr_un, sun_path) + 1 + length;
}

/* Digits are the pid, or what the kernel chose. */
static UNUSED void say_address(const char *label, const struct sockaddr_un *address, socklen_t size) {
    socklen_t start = offsetof(struct sockaddr_un, sun_path);
    if (size <= start)
        say("%s: unnamed, size %u, family %d", label, size, size >= 2 ? address->sun_family : -1);
    else if (address->sun_path[0])
        say("%s: path %.*s, size %u", label, (int)(size - start), address->sun_path, size);
    else if (size - start == 6)
        say("%s: abstract, chosen by the kernel", label);
    else
        say("%s: abstract %.*s", label, (int)strcspn(address->sun_path + 1, "-"), address->sun_path + 1);
}

static UNUSED void say_names(const char *label, int fd) {
    struct sockaddr_un address = {0};
    char text[100];
    socklen_t size = sizeof address;
    snprintf(text, sizeof text, "%s own", label);
    if (getsockname(fd, ADDRESS(address), &size) == 0)
        say_address(text, &address, size);
    else
        say("%s %s", text, errname(errno));
    memset(&address, 0, sizeof address);
    size = sizeof address;
    snprintf(text, sizeof text, "%s peer", label);
    if (getpeername(fd, ADDRESS(address), &size) == 0)
        say_address(text, &address, size);
    else
        say("%s %s", text, errname(errno));
}

#endif
