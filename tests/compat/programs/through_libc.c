/* Asks through the C library: by name, through wrappers of its own, and by syscall(2). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((noinline)) static int ask_terminal(int fd, unsigned long command, void *where) {
    return ioctl(fd, command, where);
}

__attribute__((noinline)) static int make_socket(int family) { return socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0); }

int main(int count, char **words) {
    struct winsize size;
    char name[16];
    ask_terminal(count, TIOCGWINSZ, &size);
    prctl(PR_GET_NAME, name);
    if (count > 5)
        make_socket(AF_UNIX);
    if (count > 7)
        make_socket(AF_INET6);
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    fcntl(fd, F_GETFD);
    syscall(SYS_getrandom, name, sizeof name, 1);
    printf("%s\n", words[0]);
    return 0;
}
