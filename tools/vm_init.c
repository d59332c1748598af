/* The first process of try_kernel.py's machine: loads modules, builds a root from what the host shares, runs a command.
 *
 * The host's root is shared read-only (tag "root"), the directory with the command and its result read-write ("work").
 * Everything a test writes to lies on tmpfs. Statically linked: it stands alone in the initramfs. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const SHARE = "trans=virtio,version=9p2000.L,msize=512000,cache=loose";

static void must(int result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "vm_init: %s: %s\n", what, strerror(errno));
        reboot(RB_POWER_OFF);
        for (;;)
            pause();
    }
}

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static void load_modules(void)
{
    struct dirent **found;
    int count = scandir("/modules", &found, NULL, by_name); /* numbered: dependencies come first */
    for (int i = 0; i < count; i++) {
        char path[512];
        snprintf(path, sizeof path, "/modules/%s", found[i]->d_name);
        int fd = found[i]->d_name[0] == '.' ? -1 : open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EEXIST)
            fprintf(stderr, "vm_init: %s: %s\n", path, strerror(errno));
    }
}

static void on(const char *type, const char *where, unsigned long flags, const char *data)
{
    must(mount(type, where, type, flags, data), where);
}

int main(void)
{
    mkdir("/dev", 0755);
    mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
    int console = open("/dev/console", O_RDWR);
    for (int fd = 0; fd < 3 && console >= 0; fd++)
        dup2(console, fd);
    load_modules();
    mkdir("/new", 0755);
    must(mount("root", "/new", "9p", MS_RDONLY, SHARE), "the host's root");
    must(chdir("/new"), "chdir");
    on("proc", "proc", 0, NULL);
    on("sysfs", "sys", 0, NULL);
    mount("securityfs", "sys/kernel/security", "securityfs", 0, NULL);
    on("devtmpfs", "dev", 0, NULL);
    mkdir("dev/pts", 0755);
    mkdir("dev/shm", 01777);
    on("devpts", "dev/pts", 0, "mode=620,ptmxmode=666");
    on("tmpfs", "dev/shm", 0, "mode=1777");
    static const char *const PRIVATE[] = {"tmp", "run", "var/tmp", "mnt"};
    for (size_t i = 0; i < sizeof PRIVATE / sizeof *PRIVATE; i++)
        on("tmpfs", PRIVATE[i], 0, "mode=1777");
    mount("cgroup2", "sys/fs/cgroup", "cgroup2", 0, NULL);
    mkdir("mnt/work", 0755);
    must(mount("work", "mnt/work", "9p", 0, SHARE), "the directory with the command");
    /* Not chroot alone: Linux makes no user namespace for a process whose root is not its mount namespace's. */
    must(mount(".", "/", NULL, MS_MOVE, NULL), "moving the root");
    must(chroot("."), "chroot");
    pid_t child = fork();
    if (child == 0) {
        setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
        setenv("HOME", "/tmp", 1);
        execl("/bin/sh", "sh", "/mnt/work/command", NULL);
        _exit(127);
    }
    int status = 0;
    for (pid_t ended; (ended = wait(&status)) != child;) /* orphans are ours, too */
        if (ended < 0 && errno != EINTR)
            break;
    FILE *result = fopen("/mnt/work/status", "w");
    if (result) {
        fprintf(result, "%d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
        fclose(result);
    }
    sync();
    reboot(RB_POWER_OFF);
}
