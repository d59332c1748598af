/* build: given
 *
 * What a program can do with the descriptors it was started with.
 * given list: prints what 0, 1 and 2 are, how many more there are, and whether one of the three holds a lock.
 * given turn PORT: reads its input to the end, answers on it, and then connects the same socket to the host's port
 * PORT: by dissolving the connection to its peer, and by connecting again. On an unprotected host it arrives there.
 * given name NAME: binds its input, a Unix socket, to the abstract name NAME, says so, and waits for the end of its
 * input.
 * given directory NAME: its input is a directory; tries to reach NAME in it in every way.
 */
#include "step.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>

static const char *kind(int fd) {
    struct stat is;
    if (fstat(fd, &is) != 0)
        return "closed";
    if (S_ISCHR(is.st_mode))
        return is.st_rdev == 0x103 ? "null" : "device";
    return S_ISDIR(is.st_mode) ? "directory" : S_ISSOCK(is.st_mode) ? "socket" : S_ISFIFO(is.st_mode) ? "pipe" : "file";
}

static int list(void) {
    int more = 0;
    for (int fd = 0; fd < 3; fd++)
        say("%d: %s", fd, kind(fd));
    for (int fd = 3; fd < 4096; fd++)
        more += fcntl(fd, F_GETFD) >= 0;
    say("more: %d", more);
    return 0;
}

static int turn(int port) {
    char text[100];
    long got, sum = 0;
    while ((got = read(0, text, sizeof text)) > 0)
        sum += got;
    dprintf(0, "%ld read\n", sum);
    struct sockaddr nothing = {.sa_family = AF_UNSPEC};
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(0x7f000001)};
    OK(connect(0, &nothing, sizeof nothing));
    OK(connect(0, (struct sockaddr *)&there, sizeof there));
    say("sent: %s", send(0, "turned", 6, MSG_NOSIGNAL) == 6 ? "6" : errname(errno));
    return 0;
}

static int name(const char *wanted) {
    struct sockaddr_un own = {.sun_family = AF_UNIX};
    strcpy(own.sun_path + 1, wanted);
    say("named: %s", bind(0, (struct sockaddr *)&own, offsetof(struct sockaddr_un, sun_path) + 1 + strlen(wanted)) == 0 ? "yes" : errname(errno));
    char byte;
    return read(0, &byte, 1) != 0;
}

static int directory(const char *wanted) {
    char text[300], path[300];
    say("openat: %s", openat(0, wanted, O_RDONLY) < 0 ? errname(errno) : "done");
    snprintf(path, sizeof path, "/proc/self/fd/0/%s", wanted);
    say("by /proc: %s", open(path, O_RDONLY) < 0 ? errname(errno) : "done");
    say("listed: %s", syscall(SYS_getdents64, 0, text, sizeof text) <= 0 ? errname(errno) : "done");
    say("made: %s", mkdirat(0, "made", 0700) < 0 ? errname(errno) : "done");
    (void)!fchdir(0); /* holds no name of the host's, so it may succeed */
    say("from inside: %s", open(wanted, O_RDONLY) < 0 ? errname(errno) : "done");
    say("stat: %s", access(wanted, F_OK) < 0 ? errname(errno) : "done");
    say("upwards: %s", access("../", F_OK) < 0 ? errname(errno) : "done");
    say("unlinked: %s", unlink(wanted) < 0 ? errname(errno) : "done");
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 2)
        return list();
    if (argc != 3)
        return 96;
    return argv[1][0] == 't' ? turn(atoi(argv[2])) : argv[1][0] == 'n' ? name(argv[2]) : directory(argv[2]);
}
