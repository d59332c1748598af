/* build: files_fault
 *
 * Bad pointers in every path call, and which error wins when two things are wrong. Good pointers end at an unmapped page.
 */
#include "step.h"
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

#define BAD ((char *)8)
#define RAW(name, ...) STEP(syscall(SYS_##name, __VA_ARGS__))

int main(void) {
    umask(022);
    put_text("file", "content", 0644);
    MUST(symlink("file", "link"));
    char *read_only = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *kernel = (char *)0xffff800000000000UL;
    char *runs_out = memset(edge_buffer(64), 'a', 64);
    say("--- bad path");
    RAW(open, BAD, O_RDONLY);
    RAW(open, kernel, O_RDONLY);
    RAW(open, runs_out, O_RDONLY);
    RAW(open, NULL, O_RDONLY);
    RAW(openat, 77, BAD, O_RDONLY); /* the name is read first */
    RAW(stat, BAD, runs_out);
    RAW(lstat, BAD, runs_out);
    RAW(newfstatat, 77, BAD, runs_out, 0);
    RAW(statx, 77, BAD, 0, 0x7ff, runs_out);
    RAW(access, BAD, 0);
    RAW(faccessat2, 77, BAD, 0, 0);
    RAW(mkdir, BAD, 0755);
    RAW(rmdir, BAD);
    RAW(unlink, BAD);
    RAW(unlinkat, 77, BAD, 0);
    RAW(rename, BAD, "x");
    RAW(rename, "file", BAD);
    RAW(rename, "missing", BAD);
    RAW(rename, "missing/file", BAD);
    RAW(rename, BAD, BAD);
    RAW(renameat2, AT_FDCWD, "missing", AT_FDCWD, BAD, 8);
    RAW(renameat2, AT_FDCWD, "missing", 77, "x", 0);
    RAW(link, "file", BAD);
    RAW(link, "missing", BAD);
    RAW(linkat, AT_FDCWD, "missing", AT_FDCWD, BAD, 8);
    RAW(linkat, AT_FDCWD, "missing", 77, "x", 0);
    RAW(link, BAD, "x");
    RAW(symlink, BAD, "x");
    RAW(symlink, "x", BAD);
    RAW(readlink, BAD, runs_out, 64);
    RAW(chdir, BAD);
    RAW(chmod, BAD, 0644);
    RAW(chown, BAD, -1, -1);
    RAW(truncate, BAD, 0);
    RAW(utimensat, AT_FDCWD, BAD, NULL, 0);
    RAW(mknod, BAD, S_IFIFO | 0644, 0);
    RAW(statfs, BAD, runs_out);
    RAW(getxattr, BAD, "user.x", runs_out, 64);
    RAW(getxattr, "file", BAD, runs_out, 64);
    RAW(execve, BAD, NULL, NULL);
    say("--- bad result buffer");
    RAW(stat, "file", BAD);
    RAW(stat, "file", read_only);
    RAW(stat, "missing", BAD);
    RAW(lstat, "link", BAD);
    RAW(fstat, 0, BAD);
    RAW(fstat, 77, BAD);
    RAW(newfstatat, AT_FDCWD, "file", BAD, 0);
    RAW(statx, AT_FDCWD, "file", 0, 0x7ff, BAD);
    RAW(statx, AT_FDCWD, "file", 0, 0x7ff, read_only);
    RAW(readlink, "link", BAD, 64);
    RAW(readlink, "link", read_only, 64);
    RAW(readlink, "missing", BAD, 64);
    RAW(getcwd, read_only, 4096);
    RAW(statfs, "file", BAD);
    RAW(uname, BAD);
    RAW(utimensat, AT_FDCWD, "file", BAD, 0);
    RAW(utimensat, AT_FDCWD, "missing", BAD, 0);
    RAW(getrandom, BAD, 16, 0);
    int fd = MUST(open("file", O_RDONLY));
    RAW(read, fd, BAD, 4);
    RAW(getdents64, fd, BAD, 100);
    close(fd);
    say("--- descriptor or command");
    RAW(ioctl, 77, 0x12345678, 0);
    RAW(ioctl, -1, 0, 0);
    RAW(ioctl, 77, 0x5412, "x"); /* TIOCSTI, which husk refuses */
    RAW(fcntl, 77, 9999, 0);
    fd = MUST(open("file", O_RDONLY));
    RAW(ioctl, fd, 0x12345678, 0);
    RAW(fcntl, fd, 9999, 0);
    close(fd);
    fd = MUST(open("file", O_PATH));
    RAW(ioctl, fd, 0x12345678, 0);
    close(fd);
    say("--- exact room");
    struct stat *st = (struct stat *)edge_buffer(sizeof *st);
    RAW(stat, edge_string("file"), st);
    RAW(lstat, edge_string("link"), st);
    RAW(stat, edge_string("file"), (char *)st + 1); /* one byte short */
    struct statx *stx = (struct statx *)edge_buffer(sizeof *stx);
    RAW(statx, AT_FDCWD, edge_string("file"), 0, 0x7ff, stx);
    struct statfs *fs = (struct statfs *)edge_buffer(sizeof *fs);
    RAW(statfs, edge_string("file"), fs);
    char *target = edge_buffer(4);
    RAW(readlink, edge_string("link"), target, 4);
    say("target %.4s", target);
    RAW(readlink, edge_string("link"), target, 4096); /* only what is written must be writable */
    RAW(open, edge_string("file"), O_RDONLY);
    close(3);
    RAW(mkdir, edge_string("made"), 0755);
    RAW(rename, edge_string("made"), edge_string("moved"));
    RAW(symlink, edge_string("target"), edge_string("sym"));
    RAW(execve, edge_string("missing"), edge_buffer(0), NULL);
    say("--- sockets");
    struct sockaddr_un *address = (struct sockaddr_un *)edge_buffer(2 + 5);
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path, "./sock", 5);
    int sock = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    STEP(bind(sock, (struct sockaddr *)BAD, 10));
    STEP(connect(sock, (struct sockaddr *)BAD, 10));
    STEP(bind(sock, (struct sockaddr *)address, 7)); /* no NUL within the length: Linux takes it as it is */
    STEP(access("./soc", F_OK));
    STEP(bind(sock, (struct sockaddr *)address, 1));
    STEP(bind(77, (struct sockaddr *)address, 7));
    STEP(bind(sock, (struct sockaddr *)address, 200));
    close(sock);
    return 0;
}
