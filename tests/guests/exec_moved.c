/* build: exec_moved
 *
 * /proc/PID/exe of a running program whose file is renamed, moved with its directory, linked, replaced and unlinked.
 * argv[1]: directory of the guest programs.
 */
#include "step.h"

static pid_t begin(const char *path, int *gate) {
    int ends[2], ready[2];
    MUST(pipe2(ends, O_CLOEXEC));
    MUST(pipe2(ready, O_CLOEXEC));
    pid_t pid = MUST(fork());
    if (pid == 0) {
        MUST(dup2(ends[0], 0));
        MUST(dup2(ready[1], 1));
        char *argv[] = {"running", NULL}, *envp[] = {"SHOW=r", NULL};
        execve(path, argv, envp);
        _exit(1);
    }
    close(ends[0]);
    close(ready[1]);
    char byte;
    if (read(ready[0], &byte, 1) != 1) /* the first byte it prints says: executed, and running */
        say("it says nothing");
    close(ready[0]);
    *gate = ends[1];
    return pid;
}

static void show(const char *label, pid_t pid) {
    char link[64], target[PATH_MAX];
    snprintf(link, sizeof link, "/proc/%d/exe", pid);
    ssize_t n = readlink(link, target, sizeof target);
    say("%s: exe=%.*s", label, (int)(n < 0 ? 0 : n), target);
}

static void end(pid_t pid, int gate) {
    close(gate);
    say("program: %s", status_text(wait_for(pid)));
}

int main(int argc, char **argv) {
    if (argc < 2)
        return 2;
    char source[PATH_MAX];
    int gate;
    snprintf(source, sizeof source, "%s/exec_show", argv[1]);
    MUST(mkdir("dir", 0755));
    copy_file(source, "dir/program", 0755);
    pid_t pid = begin("./dir/program", &gate);
    show("as started", pid);
    MUST(rename("dir/program", "dir/moved"));
    show("renamed", pid);
    MUST(rename("dir", "folder"));
    show("moved with its directory", pid);
    copy_file(source, "other", 0755);
    MUST(rename("other", "folder/moved"));
    show("replaced", pid);
    end(pid, gate);
    copy_file(source, "linked", 0755);
    pid = begin("./linked", &gate);
    MUST(link("linked", "second"));
    show("with a second name", pid);
    MUST(unlink("linked"));
    show("first name unlinked", pid);
    MUST(unlink("second"));
    show("both unlinked", pid);
    end(pid, gate);
    return 0;
}
