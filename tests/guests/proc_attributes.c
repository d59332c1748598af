/* build: proc_attributes
 *
 * Attributes that a process can lower or hide, that a child inherits, and what execve makes of them: whether it can be
 * dumped, and the limit on core files. Limits begin where the parent left them, so only what follows a change is shown.
 */
#include "step.h"

#include <sys/prctl.h>
#include <sys/resource.h>

static void core_limit(const char *whose) {
    struct rlimit got = {77, 77}, also = {77, 77};
    MUST(getrlimit(RLIMIT_CORE, &got));
    MUST(prlimit(0, RLIMIT_CORE, NULL, &also));
    static char text[4096];
    int fd = MUST(open("/proc/self/limits", O_RDONLY));
    text[MUST(read(fd, text, sizeof text - 1))] = 0;
    close(fd);
    char soft[30] = "", hard[30] = "", *line = strstr(text, "Max core file size");
    sscanf(line, "Max core file size %29s %29s", soft, hard);
    say("%s: core %ld %ld, again %ld %ld, in /proc %s %s", whose, (long)got.rlim_cur, (long)got.rlim_max, (long)also.rlim_cur,
        (long)also.rlim_max, soft, hard);
}

static void shown(const char *whose) {
    struct stat dir, file;
    MUST(stat("/proc/self", &dir));
    MUST(stat("/proc/self/stat", &file));
    say("%s: dumpable %d, directory mine %d, file mine %d", whose, prctl(PR_GET_DUMPABLE), dir.st_uid == getuid(),
        file.st_uid == getuid());
}

int main(int argc, char **argv) {
    if (argc == 2) {
        shown(argv[1]);
        core_limit(argv[1]);
        return 0;
    }
    shown("at first");
    STEP(prctl(PR_SET_DUMPABLE, 2));
    STEP(prctl(PR_SET_DUMPABLE, 0));
    struct rlimit none = {0, 0}, some = {0, 1}, wrong = {1, 0}, old = {77, 77};
    STEP(setrlimit(RLIMIT_CORE, &wrong));
    STEP(setrlimit(RLIMIT_CORE, &none));
    STEP(setrlimit(RLIMIT_CORE, &some));
    STEP(prlimit(0, RLIMIT_CORE, &some, &old));
    STEP(prlimit(0, RLIMIT_CORE, &none, &old));
    say("old %ld %ld", (long)old.rlim_cur, (long)old.rlim_max);
    STEP(prlimit(0, RLIMIT_CORE, (struct rlimit *)8, &old));
    STEP(getrlimit(RLIMIT_CORE, (struct rlimit *)8));
    STEP(prlimit(0x3fffffff, RLIMIT_CORE, NULL, &old));
    shown("hidden");
    core_limit("lowered");
    int status;
    pid_t child = fork();
    if (child == 0) {
        shown("a child");
        core_limit("a child");
        STEP(prctl(PR_SET_DUMPABLE, 1));
        shown("a child");
        prctl(PR_SET_DUMPABLE, 0);
        execl(argv[0], argv[0], "a program", NULL);
        _exit(1);
    }
    MUST(waitpid(child, &status, 0));
    shown("the parent");
    STEP(prctl(PR_SET_DUMPABLE, 1));
    shown("the parent");
    return 0;
}
