/* build: exec_text
 *
 * ETXTBSY both ways, and what may be done to the file of a running program. argv[1]: directory of the guest programs.
 */
#include "step.h"

static void execute(const char *path) {
    pid_t pid = fork();
    if (pid == 0) {
        char *argv[] = {"zero", NULL}, *envp[] = {NULL};
        execve(path, argv, envp);
        say("execve %s = -1 %s", path, errname(errno));
        _exit(0);
    }
    say("execve %s: %s", path, status_text(wait_for(pid)));
}

static void being_written(void) {
    int fd = MUST(open("program", O_WRONLY | O_CLOEXEC));
    execute("./program");
    int read_only = MUST(open("program", O_RDONLY | O_CLOEXEC));
    MUST(close(fd));
    execute("./program");
    MUST(close(read_only));
    fd = MUST(open("script", O_RDWR | O_CLOEXEC));
    execute("./script");
    MUST(close(fd));
    execute("./script");
    fd = MUST(open("program", O_RDWR | O_CLOEXEC));
    execute("./script"); /* the interpreter is what is being written now */
    MUST(close(fd));
    /* Once the descriptor is closed, a shared mapping does not prevent execution. */
    fd = MUST(open("program", O_RDWR | O_CLOEXEC));
    void *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    MUST(close(fd));
    execute("./program");
    munmap(map, 4096);
    execute("./program");
}

static void running(const char *show) {
    int gate[2], ready[2];
    MUST(pipe(gate));
    MUST(pipe2(ready, O_CLOEXEC));
    pid_t pid = MUST(fork());
    if (pid == 0) {
        MUST(dup2(gate[0], 0));
        MUST(dup2(ready[1], 1));
        MUST(close(gate[0]));
        MUST(close(gate[1]));
        char *argv[] = {"running", NULL}, *envp[] = {"SHOW=r", NULL};
        execve("./program", argv, envp);
        _exit(1);
    }
    close(gate[0]);
    close(ready[1]);
    char line[100];
    ssize_t n = MUST(read(ready[0], line, sizeof line)); /* what it prints says: executed, and running */
    say("it says %.*s", n > 0 ? (int)n - 1 : 0, line);
    close(ready[0]);
    STEP(open("program", O_WRONLY | O_CLOEXEC));
    STEP(open("program", O_RDWR | O_CLOEXEC));
    STEP(open("program", O_WRONLY | O_TRUNC | O_CLOEXEC));
    STEP(open("program", O_RDONLY | O_TRUNC | O_CLOEXEC));
    STEP(truncate("program", 10));
    STEP(truncate("program", 1 << 24));
    STEP(creat("program", 0755));
    STEP(close(open("program", O_RDONLY | O_CLOEXEC)));
    STEP(chmod("program", 0700));
    STEP(link("program", "second_name"));
    STEP(open("second_name", O_WRONLY | O_CLOEXEC));
    STEP(rename("program", "moved"));
    STEP(open("moved", O_WRONLY | O_CLOEXEC));
    copy_file(show, "program", 0755);
    STEP(close(open("program", O_WRONLY | O_CLOEXEC)));
    STEP(rename("program", "moved"));
    STEP(unlink("second_name"));
    close(gate[1]);
    say("running program: %s", status_text(wait_for(pid)));
    STEP(close(open("moved", O_WRONLY | O_CLOEXEC)));
}

static void forked_text(const char *show) {
    (void)show;
    /* A child that never executed anything holds its parent's text as well. */
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[n < 0 ? 0 : n] = 0;
    int fd = open(exe, O_WRONLY);
    say("open of our own program for writing: %s", fd < 0 ? errname(errno) : "opened");
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "again")) {
        forked_text(NULL);
        return 0;
    }
    if (argc < 2)
        return 2;
    char show[PATH_MAX], self[PATH_MAX];
    snprintf(show, sizeof show, "%s/exec_show", argv[1]);
    copy_file(show, "program", 0755);
    put_text("script", "#!./program arg\n", 0755);
    being_written();
    running(show);
    snprintf(self, sizeof self, "%s/exec_text", argv[1]);
    copy_file(self, "self", 0755);
    pid_t pid = MUST(fork());
    if (pid == 0) {
        execl("./self", "self", "again", NULL);
        _exit(1);
    }
    say("own text: %s", status_text(wait_for(pid)));
    return 0;
}
