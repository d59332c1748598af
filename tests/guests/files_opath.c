/* build: files_opath
 *
 * O_PATH: a descriptor that only names a file. What it is good for, and what gives EBADF.
 */
#include "step.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/uio.h>
#include <sys/xattr.h>

static void show_flags(const char *what, int fd) {
    int flags = fcntl(fd, F_GETFL);
    say("%s: flags%s%s%s%s, close-on-exec %d", what, flags & O_PATH ? " O_PATH" : "", flags & O_DIRECTORY ? " O_DIRECTORY" : "",
        flags & O_NOFOLLOW ? " O_NOFOLLOW" : "", flags & (O_ACCMODE | O_APPEND | O_NONBLOCK) ? " more" : "", fcntl(fd, F_GETFD));
}

static void refused(int fd) {
    char byte = 0, listing[512];
    struct iovec part = {&byte, 1};
    struct pollfd asked = {.fd = fd, .events = POLLIN | POLLOUT};
    struct epoll_event event = {.events = EPOLLIN};
    struct flock lock = {.l_type = F_RDLCK};
    int number = 0, epoll = MUST(epoll_create1(0));
    STEP(read(fd, &byte, 1));
    STEP(write(fd, &byte, 1));
    STEP(pread(fd, &byte, 1, 0));
    STEP(readv(fd, &part, 1));
    STEP(lseek(fd, 0, SEEK_SET));
    STEP(ioctl(fd, FIONREAD, &number));
    STEP(ioctl(fd, FIOCLEX));
    STEP(mmap(NULL, 1, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED ? -1 : 0);
    STEP(poll(&asked, 1, 0));
    say("revents %x", asked.revents);
    STEP(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
    STEP(accept(fd, NULL, NULL));
    STEP(listen(fd, 1));
    STEP(getsockname(fd, NULL, NULL));
    STEP(sendfile(1, fd, NULL, 1));
    STEP(fsync(fd));
    STEP(syncfs(fd));
    STEP(posix_fadvise(fd, 0, 0, POSIX_FADV_NORMAL));
    STEP(fallocate(fd, 0, 0, 1));
    STEP(ftruncate(fd, 0));
    STEP(fchmod(fd, 0600));
    STEP(fchown(fd, -1, -1));
    STEP(flock(fd, LOCK_SH));
    STEP(futimens(fd, NULL));
    STEP(fgetxattr(fd, "user.a", &byte, 1));
    STEP(flistxattr(fd, &byte, 1));
    STEP(syscall(SYS_getdents64, fd, listing, sizeof listing));
    STEP(fcntl(fd, F_SETFL, O_NONBLOCK));
    STEP(fcntl(fd, F_GETLK, &lock));
    STEP(fcntl(fd, F_GETPIPE_SZ));
    STEP(fcntl(fd, F_GETOWN));
    close(epoll);
}

static int child_status(pid_t child) {
    int status;
    MUST(waitpid(child, &status, 0));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int main(int count, char **arguments) {
    char text[64];
    if (count > 1) { /* executed by descriptor */
        say("executed: %s", arguments[1]);
        return 0;
    }
    put_usual_names();
    put_text("closed", "x", 0);
    MUST(mkfifo("fifo", 0644));
    struct stat s;
    struct statfs fs;
    static const char *const names[] = {"file", "dir", "fifo", "closed", "/dev/null", "/proc/self/status"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        say("-- %s", names[i]);
        int fd = MUST(open(names[i], O_PATH));
        STEP(fd);
        show_flags("opened", fd);
        refused(fd);
        STEP(fstat(fd, &s));
        say("kind %o", s.st_mode & S_IFMT);
        STEP(fstatfs(fd, &fs));
        close(fd);
    }
    say("-- flags");
    int link = MUST(open("to_file", O_PATH | O_NOFOLLOW | O_CLOEXEC));
    show_flags("link", link);
    MUST(fstat(link, &s));
    say("a link: %d", S_ISLNK(s.st_mode));
    STEP(readlinkat(link, "", text, sizeof text));
    STEP(open("to_file", O_PATH | O_NOFOLLOW | O_DIRECTORY));
    STEP(open("missing", O_PATH | O_CREAT, 0600));
    int dir = MUST(open("dir", O_PATH | O_DIRECTORY | O_RDWR | O_APPEND));
    show_flags("directory", dir);
    say("-- numbers");
    close(link);
    STEP(dup(dir));
    STEP(dup2(dir, 40));
    show_flags("duplicate", 40);
    STEP(fcntl(dir, F_DUPFD_CLOEXEC, 50));
    show_flags("duplicate", 50);
    close(0);
    STEP(open("file", O_PATH));
    say("-- good for");
    int inner = MUST(openat(dir, "inner", O_RDONLY));
    STEP(read(inner, text, 5));
    STEP(openat(dir, "missing", O_RDONLY));
    STEP(fstatat(0, "", &s, AT_EMPTY_PATH));
    STEP(faccessat(dir, "inner", R_OK, 0));
    STEP(fchdir(dir));
    STEP(access("inner", F_OK));
    STEP(fchdir(0));
    STEP(chdir(".."));
    snprintf(text, sizeof text, "/proc/self/fd/%d", 0);
    int again = MUST(open(text, O_RDWR));
    STEP(read(again, text, 4));
    STEP(linkat(dir, "inner", AT_FDCWD, "linked", 0));
    int program = MUST(open("/proc/self/exe", O_PATH));
    pid_t child = MUST(fork());
    if (!child) {
        char *words[] = {"files_opath", "by its O_PATH descriptor", NULL}, *none[] = {NULL};
        syscall(SYS_execveat, program, "", words, none, AT_EMPTY_PATH);
        _exit(99);
    }
    say("child: %d", child_status(child));
    say("-- passed, and inherited");
    int pair[2], got = -1;
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.head = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    struct iovec part = {text, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    memcpy(CMSG_DATA(&control.head), &dir, sizeof dir);
    STEP(sendmsg(pair[0], &message, 0));
    STEP(recvmsg(pair[1], &message, 0));
    memcpy(&got, CMSG_DATA(&control.head), sizeof got);
    show_flags("received", got);
    STEP(faccessat(got, "inner", F_OK, 0));
    child = MUST(fork());
    if (!child)
        _exit(faccessat(got, "inner", F_OK, 0) ? 1 : fcntl(got, F_GETFL) & O_PATH ? 0 : 2);
    say("child: %d", child_status(child));
    say("-- renamed and removed");
    int held = MUST(open("file", O_PATH));
    MUST(rename("file", "renamed"));
    MUST(fstat(held, &s));
    say("links %d, size %d", (int)s.st_nlink, (int)s.st_size);
    MUST(unlink("renamed"));
    MUST(fstat(held, &s));
    say("links %d, size %d", (int)s.st_nlink, (int)s.st_size);
    return 0;
}
