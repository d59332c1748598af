/* Asks for the attributes of open files, and for the working directory, again and again with changes in between.
 *
 * usage: held_files DIR   DIR may be written to. Standard input is a file that the host opened.
 *
 * Each question is asked three times: the first answer may teach a cache, the next may come from it. Nothing printed
 * depends on the clock, on addresses or on the host's numbers.
 * build: held_files -O1 -pthread
 */
#include "step.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static struct stat first;

/* The size of a snapshot is that of its text, whatever that is. */
static long long text_size(int fd)
{
    char text[4096];
    long long size = 0;
    ssize_t n;
    while ((n = pread(fd, text, sizeof text, size)) > 0)
        size += n;
    return size;
}

static const char *who(unsigned id, unsigned own)
{
    return id == own ? "own" : id == 0 ? "root" : "other";
}

static void look(const char *what, int fd)
{
    for (int round = 0; round < 3; round++) {
        struct stat s;
        int result = round == 1 ? fstatat(fd, "", &s, AT_EMPTY_PATH) : fstat(fd, &s);
        if (result < 0) {
            say("  %s = %s", what, errname(errno));
            continue;
        }
        say("  %s = %o links=%ld %s:%s size=%s blksize=%ld rdev=%llx dev=%s ino=%s mtime=%s ctime=%s", what, s.st_mode,
            (long)s.st_nlink, who(s.st_uid, getuid()), who(s.st_gid, getgid()), s.st_size == text_size(fd) ? "text" : s.st_size ? "other" : "0",
            (long)s.st_blksize, (unsigned long long)s.st_rdev, s.st_dev == first.st_dev ? "same" : "other",
            s.st_ino == first.st_ino ? "same" : "other", s.st_mtime == first.st_mtime ? "same" : "other",
            s.st_ctime == s.st_mtime ? "same" : "other");
    }
}

static int shown_open(const char *name, int flags)
{
    int fd = open(name, flags);
    say("open %s %x = %s", name, flags, fd < 0 ? errname(errno) : "ok");
    if (fd >= 0)
        fstat(fd, &first);
    return fd;
}

static void *look_in_thread(void *fd)
{
    look("in a thread", *(int *)fd);
    return NULL;
}

static void in_child(const char *what, int fd)
{
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        look(what, fd);
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

/* The process that the file is about ends, and its child still holds the file. */
static void outlived(const char *name)
{
    int ends[2];
    fflush(stdout);
    if (pipe(ends))
        return;
    pid_t middle = fork();
    if (!middle) {
        int fd = shown_open(name, O_RDONLY), gone[2];
        look("by itself", fd);
        fflush(stdout);
        if (pipe(gone))
            _exit(1);
        if (fork()) {
            close(gone[0]);
            _exit(0);
        }
        char byte;
        close(gone[1]);
        if (read(gone[0], &byte, 1) == 0)
            usleep(100000); /* until its parent has been waited for */
        look("outlived", fd);
        fflush(stdout);
        _exit(0);
    }
    close(ends[1]);
    waitpid(middle, NULL, 0);
    char byte;
    while (read(ends[0], &byte, 1) > 0) /* until the child, which holds the other end, has ended */
        ;
    close(ends[0]);
}

static void of_processes(void)
{
    static const char *const names[] = {"maps", "stat", "status", "cgroup", "environ", "limits", "net/dev", "mountinfo"};
    char name[64];
    pthread_t thread;
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(name, sizeof name, "/proc/self/%s", names[i]);
        int fd = shown_open(name, O_RDONLY), copy = dup(fd);
        look(name, fd);
        look("a copy", copy);
        in_child("in a child", fd);
        pthread_create(&thread, NULL, look_in_thread, &fd);
        pthread_join(thread, NULL);
        close(copy);
        close(fd);
    }
    outlived("/proc/self/maps");
    outlived("/proc/self/stat");
    look("/proc/thread-self/comm", shown_open("/proc/thread-self/comm", O_RDONLY));
    look("/proc/self/fdinfo/0", shown_open("/proc/self/fdinfo/0", O_RDONLY));
    look("/proc/self/coredump_filter", shown_open("/proc/self/coredump_filter", O_RDWR));
    look("/proc/self/comm", shown_open("/proc/self/comm", O_WRONLY));
    look("only a path", shown_open("/proc/self/maps", O_PATH));
}

static void hidden(void)
{
    int fd = shown_open("/proc/self/maps", O_RDONLY);
    look("dumpable", fd);
    say("hide %d", prctl(PR_SET_DUMPABLE, 0, 0, 0, 0));
    look("hidden", fd);
    look("opened hidden", shown_open("/proc/self/stat", O_RDONLY));
    say("show %d", prctl(PR_SET_DUMPABLE, 1, 0, 0, 0));
    look("dumpable again", fd);
}

static void of_the_machine(void)
{
    static const char *const names[] = {"/proc/meminfo", "/proc/stat", "/proc/version", "/proc/sys/kernel/osrelease",
                                        "/sys/class/net/lo/mtu", "/dev/null", "/etc/passwd"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        int fd = shown_open(names[i], O_RDONLY);
        if (i < 5)
            look(names[i], fd);
        look("again", fd);
        close(fd);
        fd = shown_open(names[i], O_PATH);
        look("only a path", fd);
        close(fd);
    }
}

static void working_directory(void)
{
    char path[512];
    for (int round = 0; round < 3; round++) {
        say("  getcwd = %s", getcwd(path, sizeof path) ? path : errname(errno));
        say("  getcwd of 5 = %s", getcwd(path, 5) ? path : errname(errno));
    }
    say("  getcwd to nowhere = %ld %s", syscall(SYS_getcwd, 8, 512), errname(errno));
}

static void directories(const char *top)
{
    STEP(chdir(top));
    working_directory();
    STEP(mkdir("one", 0755));
    STEP(mkdir("one/two", 0755));
    STEP(chdir("one/two"));
    working_directory();
    STEP(rename("../../one", "../../moved"));
    working_directory();
    fstat(0, &first);
    in_child("a file", 0);
    STEP(mkdir("../../one", 0755));
    STEP(rename("../two", "../../one/again"));
    working_directory();
    STEP(rmdir("../../one/again"));
    working_directory();
    STEP(chdir(".."));
    STEP(chdir("/usr/lib"));
    working_directory();
    STEP(chdir("/proc/self"));
    STEP(chdir("/sys/class"));
    working_directory();
    STEP(chdir("/"));
    working_directory();
}

static void missing(void)
{
    static const char *const names[] = {"/sys/fs/cgroup//memory.max", "/sys/fs/cgroup/none", "/sys/none/none", "/sys/class/none",
                                        "/proc/none", "/proc/self/none", "/proc/0/maps", "/dev/none", "/proc/meminfo/none"};
    static const char *const there[] = {"/dev/null", "/dev/null/", "/dev/urandom", "/dev/fd", "/dev", "/proc/meminfo", "/proc/version",
                                        "/proc/self", "/proc/self/maps", "/sys/class/net/lo/mtu", "/sys/class", "/dev/shm"};
    for (int round = 0; round < 3; round++)
        for (unsigned i = 0; i < sizeof there / sizeof *there; i++) {
            struct stat s;
            char text[64];
            for (int follow = 0; follow < 2; follow++)
                if (fstatat(AT_FDCWD, there[i], &s, follow ? 0 : AT_SYMLINK_NOFOLLOW))
                    say("  %s = %s", there[i], errname(errno));
                else
                    say("  %s = %o links=%ld %s:%s %lld blksize=%ld rdev=%llx ino=%s", there[i], s.st_mode,
                        (long)s.st_nlink, who(s.st_uid, getuid()), who(s.st_gid, getgid()), (long long)s.st_size,
                        (long)s.st_blksize, (unsigned long long)s.st_rdev, s.st_ino ? "some" : "0");
            OK(readlink(there[i], text, sizeof text));
            for (int mode = 0; mode < 8; mode++)
                STEP(access(there[i], mode));
            OK(chmod(there[i], 0777));
            OK(truncate(there[i], 0));
            OK(utimensat(AT_FDCWD, there[i], NULL, 0));
        }
    for (int round = 0; round < 3; round++)
        for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
            struct stat s;
            int fd = open(names[i], O_RDONLY);
            say("  open %s = %s", names[i], fd < 0 ? errname(errno) : "ok");
            say("  stat %s = %s", names[i], stat(names[i], &s) ? errname(errno) : "ok");
            fd = open(names[i], O_RDWR | O_CREAT, 0600);
            say("  make %s = %s", names[i], fd < 0 ? errname(errno) : "ok");
        }
}

int main(int argc, char **argv)
{
    fstat(0, &first);
    look("standard input", 0);
    look("a copy of it", dup(0));
    in_child("in a child", 0);
    of_processes();
    of_the_machine();
    missing();
    directories(argc > 1 ? argv[1] : "/tmp");
    hidden();
    return 0;
}
