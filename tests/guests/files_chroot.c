/* chroot(2) by root: where names and `..` lead afterwards, what stays reachable, what /proc says, and who inherits it.
 * Natively it runs as root of a user namespace, in husk as root of an image. It is given a directory and the path of
 * itself.
 *
 * build: files_chroot -static */
#include "step.h"

#include <dirent.h>
#include <linux/capability.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { PROC = 9 }; /* a descriptor of /proc, which stays usable in any root */

static void show(const char *name) {
    char text[PATH_MAX] = "";
    ssize_t length = readlinkat(PROC, name, text, sizeof text - 1);
    say("/proc/%s: %s", name, length < 0 ? errname(errno) : text);
}

static void here(void) {
    char text[PATH_MAX];
    say("getcwd: %s", syscall(SYS_getcwd, text, sizeof text) < 0 ? errname(errno) : text);
}

static void read_file(const char *name) {
    char text[64] = "";
    int fd = open(name, O_RDONLY);
    if (fd < 0) {
        say("%s: %s", name, errname(errno));
        return;
    }
    read(fd, text, sizeof text - 1);
    say("%s: %s", name, text);
    close(fd);
}

static int list(int fd) {
    int count = 0;
    DIR *directory = fdopendir(dup(fd));
    while (directory && readdir(directory))
        count++;
    closedir(directory);
    return count;
}

static void child(const char *what, int (*act)(void)) {
    say("-- %s", what);
    int status, pid = fork();
    if (!pid)
        _exit(act());
    MUST(waitpid(pid, &status, 0));
    say("status %x", status);
}

static void copy(const char *from, const char *to) {
    int in, out;
    char bytes[1 << 16];
    ssize_t count;
    MUST(in = open(from, O_RDONLY));
    MUST(out = open(to, O_WRONLY | O_CREAT | O_EXCL, 0755));
    while ((count = MUST(read(in, bytes, sizeof bytes))) > 0)
        MUST(write(out, bytes, count) == count ? 0 : -1);
    close(in);
    close(out);
}

static int outside, top;

static int without_right(void) {
    struct __user_cap_header_struct version = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {0};
    STEP(syscall(SYS_capset, &version, none));
    STEP(chroot("jail"));
    STEP(chroot("missing"));
    return 0;
}

static int inherits(void) {
    show("self/root");
    show("self/cwd");
    read_file("/word");
    return access("/outer", F_OK) == 0;
}

static int deeper(void) {
    STEP(chroot("/in"));
    STEP(chdir("/"));
    here();
    read_file("/../../deep");
    STEP(access("/word", F_OK));
    return 0;
}

static int executes(void) {
    char *arguments[] = {"self", "inside", NULL}, *environment[] = {NULL};
    return STEP(execve("/self", arguments, environment));
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "inside")) {
        show("self/exe");
        here();
        return inherits();
    }
    if (argc < 3) {
        say("give it a directory and its own path");
        return 0;
    }
    say("uid %d", getuid());
    MUST(chdir(argv[1]));
    umask(022);
    MUST(mkdir("jail", 0755) | mkdir("jail/in", 0755) | mkdir("jail/proc", 0755) | mkdir("beside", 0755));
    put_text("outer", "outer", 0644);
    put_text("jail/word", "inside", 0644);
    put_text("jail/in/deep", "deep", 0644);
    MUST(symlink("/word", "jail/absolute"));
    MUST(symlink("../../../outer", "jail/climbs"));
    copy(argv[2], "jail/self");
    MUST(outside = open("beside", O_RDONLY | O_DIRECTORY));
    MUST(dup2(open("/proc", O_RDONLY | O_DIRECTORY), PROC));
    MUST(top = open(".", O_RDONLY | O_DIRECTORY));
    child("without the right", without_right);
    STEP(chroot("missing"));
    STEP(chroot("outer"));
    STEP(chroot((char *)8));
    STEP(chroot("jail"));
    say("-- names");
    read_file("/word");
    read_file("/outer");
    read_file("word");
    read_file("outer");
    read_file("jail/../outer");
    read_file("/../word");
    read_file("/in/../../../word");
    read_file("/absolute");
    read_file("/climbs");
    STEP(access("/etc/passwd", F_OK));
    STEP(mkdir("/made", 0755));
    STEP(rename("/made", "/in/moved"));
    STEP(rmdir("/in/../in/moved"));
    STEP(link("/word", "/twin"));
    STEP(unlink("/twin"));
    STEP(open("/word", O_RDONLY | O_DIRECTORY));
    say("-- the working directory is outside");
    char text[PATH_MAX];
    say("getcwd: %d", syscall(SYS_getcwd, text, sizeof text) > 0 && !strncmp(text, "(unreachable)/", 14));
    STEP(chdir("/in"));
    here();
    STEP(chdir("../../.."));
    here();
    say("-- descriptors");
    STEP(faccessat(top, "outer", F_OK, 0));
    STEP(faccessat(outside, "../outer", F_OK, 0));
    STEP(faccessat(outside, "../jail/climbs", F_OK, 0));
    STEP(list(top));
    char link[64];
    int inside;
    MUST(inside = open("/word", O_RDONLY));
    snprintf(link, sizeof link, "self/fd/%d", inside);
    show(link);
    STEP(fchdir(outside));
    read_file("../outer");
    STEP(chdir("/"));
    read_file("../outer");
    say("-- sockets");
    int server, client;
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "/in/socket"};
    MUST(server = socket(AF_UNIX, SOCK_STREAM, 0));
    MUST(client = socket(AF_UNIX, SOCK_STREAM, 0));
    STEP(bind(server, (struct sockaddr *)&name, sizeof name));
    STEP(listen(server, 1));
    STEP(connect(client, (struct sockaddr *)&name, sizeof name));
    STEP(faccessat(top, "jail/in/socket", F_OK, 0));
    STEP(unlink("/in/socket"));
    child("a child", inherits);
    show("self/root");
    child("a root below", deeper);
    child("a program", executes);
    read_file("/word");
    say("-- back to the old root");
    STEP(fchdir(top));
    STEP(chroot("."));
    here();
    read_file("/outer");
    return 0;
}
