/* build: proc_details
 *
 * /proc in the corners: the parent and the session of the caller, the memory of a child, a directory whose process is gone,
 * namespaces, and what removing a name says. What is asked of the parent is what a guest learns by getppid anyway.
 */
#include "step.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static char text[1 << 16];

static void slurp(const char *path) {
    int fd = MUST(open(path, O_RDONLY | O_CLOEXEC));
    long size = MUST(read(fd, text, sizeof text - 1));
    text[size] = 0;
    close(fd);
}

static void parents(void) {
    int parent = 0, group = 0, session = 0;
    slurp("/proc/self/stat");
    MUST(sscanf(strrchr(text, ')') + 3, "%d %d %d", &parent, &group, &session) == 3 ? 0 : -1);
    say("stat: parent %d group %d session %d", parent == getppid(), group == getpgrp(), session == getsid(0));
    slurp("/proc/self/status");
    sscanf(strstr(text, "\nPPid:") + 6, "%d", &parent);
    say("status: parent %d", parent == getppid());
    /* Either is 0 where it began outside the parent's pid namespace, as in a container that was entered. */
    STEP(getpgid(getppid()) >= 0);
    STEP(getsid(getppid()) >= 0);
    STEP(sched_getscheduler(getppid()));
    int nice = getpriority(PRIO_PROCESS, 0), lower = nice < 19 ? nice + 1 : nice;
    MUST(setpgid(0, 0) && errno != EPERM ? -1 : 0);
    pid_t child = fork();
    if (child == 0) {
        MUST(setpriority(PRIO_PROCESS, 0, lower));
        say("the parent's group %d, session %d", getpgid(getppid()) == getpgrp(), getsid(getppid()) == getsid(0));
        say("the child's: %d", getpriority(PRIO_PROCESS, 0) == lower);
        say("the group's: %d %d", getpriority(PRIO_PGRP, 0) == nice, getpriority(PRIO_PGRP, getpgrp()) == nice);
        _exit(0);
    }
    wait_for(child);
    STEP(getpriority(PRIO_PGRP, 0x3fffffff));
    STEP(getpriority(PRIO_PGRP, -1));
    STEP(getpriority(PRIO_USER, 0x3fffffff));
    STEP(getpriority(3, 0));
}

static void memory_of_a_child(void) {
    char secret[] = "of the child", name[50], got[sizeof secret] = "";
    int ready[2], end[2];
    MUST(pipe(ready));
    MUST(pipe(end));
    pid_t child = fork();
    if (child == 0) {
        strcpy(secret, "of the CHILD");
        MUST(write(ready[1], "x", 1));
        MUST(read(end[0], name, 1));
        _exit(0);
    }
    MUST(read(ready[0], got, 1));
    snprintf(name, sizeof name, "/proc/%d/mem", child);
    int memory = MUST(open(name, O_RDWR | O_CLOEXEC));
    STEP(pread(memory, got, sizeof got, (long)secret));
    say("%s", got);
    snprintf(name, sizeof name, "/proc/%d/task", child);
    int tasks = MUST(open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    MUST(write(end[1], "x", 1));
    wait_for(child);
    STEP(pread(memory, got, sizeof got, (long)secret));
    STEP(syscall(SYS_getdents64, tasks, text, sizeof text));
    close(memory);
    close(tasks);
}

static void namespaces(void) {
    static const char *const names[] = {"cgroup", "ipc", "mnt", "net", "pid", "pid_for_children", "user", "uts"};
    char path[50], link[100];
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        struct stat st, again;
        snprintf(path, sizeof path, "/proc/self/ns/%s", names[i]);
        int found = access(path, F_OK) == 0 && stat(path, &st) == 0 && stat(path, &again) == 0;
        long length = readlink(path, link, sizeof link - 1);
        link[length > 0 ? length : 0] = 0;
        say("%s: %d mode %o owner %d, the same again %d, as the link says %d", names[i], found, st.st_mode, st.st_uid,
            st.st_ino == again.st_ino && st.st_dev == again.st_dev,
            strchr(link, '[') && strtoul(strchr(link, '[') + 1, NULL, 10) == st.st_ino);
    }
}

int main(void) {
    parents();
    memory_of_a_child();
    namespaces();
    char path[50];
    snprintf(path, sizeof path, "/proc/self/task/%d", getpid());
    say("rmdir of a task: %s", rmdir(path) ? errname(errno) : "ok");
    STEP(rmdir("/proc/self/task"));
    STEP(unlink("/proc/self/status"));
    STEP(unlink("/proc/self/fd/0"));
    STEP(unlink("/proc/self/fdinfo/0"));
    STEP(unlink("/proc/self/net/dev"));
    STEP(unlink("/proc/self/ns/pid"));
    STEP(unlink("/proc/meminfo"));
    STEP(unlink("/proc/sys/kernel/ostype"));
    slurp("/proc/stat");
    int fields = 0;
    for (char *at = strstr(text, "\nsoftirq"); at && *at && !(fields && *at == '\n'); at++)
        fields += *at == ' ';
    say("softirq: %d numbers", fields);
    return 0;
}
