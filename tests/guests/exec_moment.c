/* build: exec_moment
 *
 * The moment of an execve, seen by the parent: once close-on-exec descriptors are closed, /proc shows the new program. Its
 * arguments come a moment later, and until then there are none.
 */
#include "step.h"

static int differs(pid_t pid, const char *name, const char *expected, int size, char *seen, size_t room) {
    char path[64], text[PATH_MAX];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    ssize_t n;
    if (!strcmp(name, "exe")) {
        n = readlink(path, text, sizeof text);
    } else {
        do {
            int fd = open(path, O_RDONLY | O_CLOEXEC);
            n = fd < 0 ? -1 : read(fd, text, sizeof text);
            close(fd);
        } while (n == 0);
    }
    if (n < 0)
        snprintf(seen, room, "%s", errname(errno));
    else if (n < size || memcmp(text, expected, size))
        snprintf(seen, room, "%.*s", (int)n, text);
    else
        return 0;
    return 1;
}

int main(void) {
    static const struct { const char *program, *name, *expected; int size; } files[] = {
        {"/bin/cat", "exe", "/usr/bin/cat", 12},
        {"/bin/cat", "comm", "cat\n", 4},
        {"/bin/cat", "cmdline", "zero", 5},
        {"/bin/cat", "status", "Name:\tcat\n", 10},
        {"./script", "exe", "/usr/bin/cat", 12},
        {"./script", "comm", "script\n", 7},
        {"./script", "cmdline", "/bin/cat\0-\0./script", 20},
        {"./script", "status", "Name:\tscript\n", 13},
    };
    put_text("script", "#!/bin/cat -\n", 0755);
    for (unsigned f = 0; f < sizeof files / sizeof *files; f++) {
        int wrong = 0;
        char last[100] = "-";
        for (int i = 0; i < 60; i++) {
            int ready[2], gate[2];
            MUST(pipe2(ready, O_CLOEXEC));
            MUST(pipe2(gate, O_CLOEXEC));
            pid_t pid = MUST(fork());
            if (pid == 0) {
                dup2(gate[0], 0);
                dup2(open("/dev/null", O_WRONLY), 1);
                execl(files[f].program, "zero", NULL);
                _exit(1);
            }
            close(ready[1]);
            close(gate[0]);
            char byte;
            MUST(read(ready[0], &byte, 1));
            wrong += differs(pid, files[f].name, files[f].expected, files[f].size, last, sizeof last);
            close(ready[0]);
            close(gate[1]);
            wait_for(pid);
        }
        say("%s %s: wrong %d, last %s", files[f].program, files[f].name, wrong, last);
    }
    return 0;
}
