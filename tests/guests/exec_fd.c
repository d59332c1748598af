/* build: exec_fd
 *
 * Execution by descriptor: fexecve, execveat, memfd, /proc/self/exe. argv[1] is the directory of the guest programs.
 */
#include "step.h"

extern char **environ;
static char *argv_plain[] = {"zero", "one", NULL};
static char *envp[] = {"SHOW=nd", NULL};
static char guests[PATH_MAX];

static int begin(const char *label) {
    say("--- %s", label);
    pid_t pid = fork();
    if (pid == 0)
        return 1;
    say("%s", status_text(wait_for(pid)));
    return 0;
}

static int try_at(int dirfd, const char *name, int flags) {
    syscall(SYS_execveat, dirfd, name, argv_plain, envp, flags);
    say("execveat = -1 %s", errname(errno));
    return 0;
}

/* execveat by a descriptor of `path`, opened with `flags`. */
static void try_opened(const char *label, const char *path, int flags, const char *name, int at_flags) {
    if (begin(label)) {
        int fd = MUST(open(path, flags));
        _exit(try_at(fd, name, at_flags));
    }
}

static void by_descriptor(void) {
    try_opened("binary, AT_EMPTY_PATH", "show", O_RDONLY, "", AT_EMPTY_PATH);
    try_opened("binary, close-on-exec", "show", O_RDONLY | O_CLOEXEC, "", AT_EMPTY_PATH);
    try_opened("binary, O_PATH", "show", O_PATH, "", AT_EMPTY_PATH);
    if (begin("binary, fexecve")) {
        int fd = MUST(open("show", O_RDONLY | O_CLOEXEC));
        fexecve(fd, argv_plain, envp);
        say("fexecve = -1 %s", errname(errno));
        _exit(0);
    }
    try_opened("script, AT_EMPTY_PATH", "script", O_RDONLY, "", AT_EMPTY_PATH);
    try_opened("script, close-on-exec: the interpreter could not open it", "script", O_RDONLY | O_CLOEXEC, "",
               AT_EMPTY_PATH);
    try_opened("empty name without the flag", "show", O_RDONLY, "", 0);
    try_opened("directory by descriptor", ".", O_RDONLY | O_DIRECTORY, "", AT_EMPTY_PATH);
    try_opened("no x bit", "data", O_RDONLY, "", AT_EMPTY_PATH);
    if (begin("pipe")) {
        int pipes[2];
        MUST(pipe(pipes));
        _exit(try_at(pipes[0], "", AT_EMPTY_PATH));
    }
    try_opened("open for writing", "show", O_RDWR, "", AT_EMPTY_PATH);
    if (begin("bad descriptor"))
        _exit(try_at(77, "", AT_EMPTY_PATH));
    if (begin("unlinked file")) {
        copy_file("show", "unlinked", 0755);
        int fd = MUST(open("unlinked", O_RDONLY | O_CLOEXEC));
        MUST(unlink("unlinked"));
        _exit(try_at(fd, "", AT_EMPTY_PATH));
    }
}

static void by_directory(void) {
    try_opened("name in a directory", "sub", O_RDONLY | O_DIRECTORY, "inner", 0);
    try_opened("name in a directory, O_PATH, close-on-exec", "sub", O_PATH | O_CLOEXEC, "inner", 0);
    try_opened("script in a directory", ".", O_RDONLY | O_DIRECTORY, "script", 0);
    if (begin("name from AT_FDCWD"))
        _exit(try_at(AT_FDCWD, "./show", 0));
    if (begin("absolute name does not look at the descriptor")) {
        char path[PATH_MAX + 20];
        snprintf(path, sizeof path, "%s/exec_show", guests);
        _exit(try_at(77, path, 0));
    }
    if (begin("relative name looks at it"))
        _exit(try_at(77, "show", 0));
    if (begin("descriptor of a file"))
        _exit(try_at(MUST(open("show", O_RDONLY)), "x", 0));
    if (begin("symlink"))
        _exit(try_at(AT_FDCWD, "link", 0));
    if (begin("symlink, AT_SYMLINK_NOFOLLOW"))
        _exit(try_at(AT_FDCWD, "link", AT_SYMLINK_NOFOLLOW));
    if (begin("no symlink, AT_SYMLINK_NOFOLLOW"))
        _exit(try_at(AT_FDCWD, "show", AT_SYMLINK_NOFOLLOW));
    if (begin("unknown flag"))
        _exit(try_at(AT_FDCWD, "show", 0x40000000));
}

/* The same file by a new descriptor; `fd` is closed. */
static int reopened(int fd, int flags) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int again = MUST(open(path, flags));
    MUST(close(fd));
    return again;
}

static void by_memory(void) {
    size_t size;
    char *data = get_file("show", &size);
    if (begin("memfd")) {
        int fd = MUST(syscall(SYS_memfd_create, "program", 1 /* MFD_CLOEXEC */));
        MUST(write(fd, data, size));
        int again = reopened(fd, O_RDONLY | O_CLOEXEC);
        _exit(try_at(again, "", AT_EMPTY_PATH));
    }
    if (begin("memfd, still writable")) {
        int fd = MUST(syscall(SYS_memfd_create, "program", 1));
        MUST(write(fd, data, size));
        _exit(try_at(fd, "", AT_EMPTY_PATH));
    }
    if (begin("memfd through /proc/self/fd")) {
        int fd = MUST(syscall(SYS_memfd_create, "program", 1));
        MUST(write(fd, data, size));
        int again = reopened(fd, O_RDONLY | O_CLOEXEC);
        char path[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", again);
        _exit(try_at(AT_FDCWD, path, 0));
    }
    if (begin("memfd with a script")) {
        int fd = MUST(syscall(SYS_memfd_create, "text", 0));
        MUST(write(fd, "#!./show arg\n", 13));
        int again = reopened(fd, O_RDONLY);
        _exit(try_at(again, "", AT_EMPTY_PATH));
    }
    free(data);
}

static void by_proc(char *self) {
    if (begin("/proc/self/exe")) {
        execve("/proc/self/exe", (char *[]){"again", "child", self, NULL}, environ);
        say("execve = -1 %s", errname(errno));
        _exit(0);
    }
    if (begin("/proc/self/fd of a program")) {
        char path[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", (int)MUST(open("show", O_RDONLY | O_CLOEXEC)));
        _exit(try_at(AT_FDCWD, path, 0));
    }
    if (begin("/proc/self/cwd")) {
        _exit(try_at(AT_FDCWD, "/proc/self/cwd/show", 0));
    }
    if (begin("/dev/fd of a script")) {
        char path[64];
        snprintf(path, sizeof path, "/dev/fd/%d", (int)MUST(open("script", O_RDONLY)));
        _exit(try_at(AT_FDCWD, path, 0));
    }
}

int main(int argc, char **argv) {
    char exe[PATH_MAX] = "";
    if (argc < 2)
        return 2;
    if (!strcmp(argv[1], "child")) {
        ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
        say("second life: exe=%.*s, same program %s", (int)n, exe, strstr(exe, "exec_fd") ? "yes" : "no");
        return 0;
    }
    snprintf(guests, sizeof guests, "%s", argv[1]);
    char path[PATH_MAX + 20];
    snprintf(path, sizeof path, "%s/exec_show", guests);
    copy_file(path, "show", 0755);
    put_text("script", "#!./show arg\n", 0755);
    put_text("data", "data\n", 0644);
    MUST(mkdir("sub", 0755));
    copy_file(path, "sub/inner", 0755);
    MUST(symlink("show", "link"));
    by_descriptor();
    by_directory();
    by_memory();
    by_proc(argv[0]);
    return 0;
}
