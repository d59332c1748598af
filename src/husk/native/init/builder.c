/* native/init: the builder: makes namespaces and sets them up before any guest exists. Still as privileged as husk;
 * nothing here reads what a guest could have written. */
#define _GNU_SOURCE
#include "init.h"
#include "loader/directories.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

static bool write_text(const char *name, const char *text)
{
    int fd = open(name, O_WRONLY | O_CLOEXEC);
    ssize_t size = (ssize_t)strlen(text), written = fd < 0 ? -1 : write(fd, text, (size_t)size);
    if (fd >= 0)
        close(fd);
    return written == size;
}

/* Where the guest is the same user outside, the kernel lets us map that one user ourselves: no need to wait for husk,
 * which may be busy. `uid` and `gid` are ours outside. */
static bool map_own_ids(uid_t uid, gid_t gid)
{
    char users[32], groups[32];
    snprintf(users, sizeof users, "%u %u 1", init_plan->uid, uid);
    snprintf(groups, sizeof groups, "%u %u 1", init_plan->gid, gid);
    return !(init_plan->flags & PLAN_SWITCH_USER) && write_text("/proc/self/setgroups", "deny") &&
           write_text("/proc/self/uid_map", users) && write_text("/proc/self/gid_map", groups);
}

static void wait_for_go(void)
{
    char said;
    if (recv(CONTROL_FD, &said, 1, 0) != 1 || said != SAID_GO)
        _exit(125);
}

/* Makes the directories of the absolute `path` below the working directory. */
static int make_directories(const char *path)
{
    char name[4096];
    for (size_t size = 1; path[size - 1]; size++) {
        if (path[size] != '/' && path[size] != 0)
            continue;
        memcpy(name, path + 1, size - 1);
        name[size - 1] = 0;
        if (mkdir(name, 0755) < 0 && errno != EEXIST)
            return -1;
    }
    return 0;
}

/* The root holds a copy of the loader, which husk later gives the names of programs that run again
 * (docs/design/001-execution.md). Each name is a link of this one file, so that one Landlock rule covers all of them.
 * husk gets the root in a mount that no guest sees, and that is not read-only. No wall depends on it: where something
 * here fails, husk makes guests execute the loader by descriptor only. */
int init_root_loader = -1;

#define ROOT_LOADER "husk-loader" /* as in kernel/exec/program_names.py */

static int copy_loader(void)
{
    struct stat s;
    int fd = fstat(LOADER_FD, &s) < 0 ? -1 : open(ROOT_LOADER, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0555);
    off_t from = 0;
    while (fd >= 0 && from < s.st_size && sendfile(fd, LOADER_FD, &from, s.st_size - from) > 0)
        ;
    if (fd < 0 || fchmod(fd, 0555) < 0 || close(fd) < 0 || from != s.st_size)
        return -1;
    return open(ROOT_LOADER, O_PATH | O_NOFOLLOW | O_CLOEXEC);
}

static void offer_names(int root)
{
    int loader = copy_loader();
    int names = loader < 0 ? -1 : (int)syscall(SYS_open_tree, root, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC |
                                                                    AT_EMPTY_PATH);
    if (loader >= 0)
        close(loader);
    if (names >= 0) {
        init_send_fd(REPORT_NAMES, names, STEP_MOUNT);
        close(names);
    }
}

/* The host's /usr, read-only, and the table of its directories that husk writes and guests read
 * (docs/design/026-direct-names.md). The mount is of /usr alone: where the host has mounts below it, the kernel refuses
 * to show what they cover. No wall depends on either: without them guests ask husk. */
int init_shown_usr = -1, init_shown_cache = -1, init_directories = -1;

static int copy_of(const char *name)
{
    struct { uint64_t set, clear, propagation, user_namespace; } attributes = {
        .set = 1 | 2 | 4 /* MOUNT_ATTR_RDONLY, NOSUID, NODEV */};
    int copy = (int)syscall(SYS_open_tree, AT_FDCWD, name,
                            OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
    if (copy >= 0 && syscall(SYS_mount_setattr, copy, "", AT_EMPTY_PATH, &attributes, sizeof attributes) < 0) {
        close(copy);
        return -1;
    }
    return copy;
}

/* The one file outside /usr that each start of a program opens. Guests believe it while its change time is what it was:
 * an ordinary file system sets that when another file takes the name. overlayfs does not. */
static int copy_of_cache(void)
{
    struct statfs s;
    int copy = copy_of(HUSK_ONE_FILE);
    if (copy >= 0 && (fstatfs(copy, &s) < 0 || s.f_type == OVERLAYFS_SUPER_MAGIC)) {
        close(copy);
        return -1;
    }
    return copy;
}

/* Where this fails guests find no such file, and ask husk. */
static void show_cache(int cache)
{
    int target = make_directories(HUSK_SHOWN "/etc") < 0 ? -1
                 : open(HUSK_SHOWN HUSK_ONE_FILE + 1, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
    if (target < 0)
        return;
    close(target);
    syscall(SYS_move_mount, cache, "", AT_FDCWD, HUSK_SHOWN HUSK_ONE_FILE + 1, 4 /* MOVE_MOUNT_F_EMPTY_PATH */);
}

/* Below the working directory, which is the new root. */
static void show_usr(int usr)
{
    int table = open(HUSK_DIRECTORIES_FILE + 1, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (table < 0 || ftruncate(table, HUSK_DIRECTORIES_BYTES) < 0 || make_directories(HUSK_SHOWN "/usr") < 0 ||
        syscall(SYS_move_mount, usr, "", AT_FDCWD, HUSK_SHOWN "/usr" + 1, 4 /* MOVE_MOUNT_F_EMPTY_PATH */) < 0)
        unlink(HUSK_DIRECTORIES_FILE + 1); /* without it husk and guests know that there is nothing to be seen */
    if (table >= 0)
        close(table);
}

/* Paths of the new root, since the mount they were made in is not the one that guests see. */
static void find_in_root(void)
{
    init_root_loader = open("/" ROOT_LOADER, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (init_plan->flags & PLAN_DIRECT) {
        init_directories = open(HUSK_DIRECTORIES_FILE, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        init_shown_usr = init_directories < 0 ? -1 : open(HUSK_SHOWN "/usr", O_PATH | O_NOFOLLOW | O_CLOEXEC);
        init_shown_cache = init_directories < 0 ? -1 : open(HUSK_SHOWN HUSK_ONE_FILE, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    }
}

/* The far end of eth0 lasts as long as its network, and that as long as it is mounted somewhere. `proc` is the old
 * /proc/self/fd. Guests may not open it. Without it eth0 is gone. */
static void hold_network(int root, int proc)
{
    char source[16], target[16];
    int held = init_far_network < 0 ? -1 : openat(root, "husk-network", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0);
    if (held < 0)
        return;
    snprintf(source, sizeof source, "%d", init_far_network);
    snprintf(target, sizeof target, "%d", held);
    if (fchdir(proc) < 0 || mount(source, target, NULL, MS_BIND, NULL) < 0 || fchdir(root) < 0)
        init_give_up(STEP_MOUNT);
    close(held);
    close(init_far_network);
    init_far_network = -1;
}

/* Mounts an empty root. In it are only the loader, the box's state directory with the placeholders, under the path it
 * has outside, and perhaps the host's /usr, under another. A guest has open directories of this mount only, so that
 * `..` from its working directory leads to the empty root and no further. */
static void empty_root(void)
{
    char workdir[4096], state[4096], source[16], target[16];
    ssize_t size = readlink("/proc/self/fd/6" /* WORKDIR_FD */, workdir, sizeof workdir - 1);
    if (size <= 0)
        init_give_up(STEP_MOUNT);
    workdir[size] = 0;
    strcpy(state, workdir);
    for (int i = 0; i < 2; i++) { /* cut off /places/1 */
        char *last = strrchr(state, '/');
        if (!last || last == state)
            init_give_up(STEP_MOUNT);
        *last = 0;
    }
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        init_give_up(STEP_MOUNT);
    int outside = open(state, O_PATH | O_DIRECTORY | O_CLOEXEC), proc = open("/proc/self/fd", O_PATH | O_CLOEXEC);
    int usr = init_plan->flags & PLAN_DIRECT ? copy_of("/usr") : -1, cache = usr >= 0 ? copy_of_cache() : -1;
    /* Any existing directory will do as the mount point of the new root. Every Linux has /proc. */
    if (outside < 0 || proc < 0 ||
        mount("husk", "/proc", "tmpfs", MS_NOSUID | MS_NODEV, "size=2m,nr_inodes=4096,mode=777") < 0 ||
        chdir("/proc") < 0)
        init_give_up(STEP_MOUNT);
    /* Root's uid is not mapped in the namespace, so root cannot make files on a file system that belongs to the
     * namespace. */
    if (init_plan->flags & PLAN_SWITCH_USER)
        setfsgid(init_plan->gid), setfsuid(init_plan->uid);
    int root = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int inside = make_directories(state) < 0 ? -1 : open(state + 1, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0 || inside < 0)
        init_give_up(STEP_MOUNT);
    offer_names(root);
    if (usr >= 0) {
        show_usr(usr);
        close(usr);
    }
    if (cache >= 0) {
        show_cache(cache);
        close(cache);
    }
    hold_network(root, proc);
    /* Both by descriptor, through the old /proc/self/fd: the paths lead elsewhere now. */
    snprintf(source, sizeof source, "%d", outside);
    snprintf(target, sizeof target, "%d", inside);
    if (fchdir(proc) < 0 || mount(source, target, NULL, MS_BIND, NULL) < 0 || fchdir(root) < 0 ||
        syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0 ||
        mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) < 0)
        init_give_up(STEP_MOUNT);
    close(inside), close(root), close(outside), close(proc);
    find_in_root();
    /* husk opens it again, with its own rights. */
    int ours = open(state, O_PATH | O_DIRECTORY | O_CLOEXEC), start = open(workdir, O_RDONLY | O_DIRECTORY);
    if (ours < 0 || start < 0 || dup2(start, WORKDIR_FD) < 0)
        init_give_up(STEP_MOUNT);
    init_send_fd(REPORT_STATE, ours, STEP_MOUNT);
    close(ours), close(start);
}

/* Sends husk a socket by which it learns which sockets are connected. It can only be made in the network namespace. */
static void send_diagnosis_socket(void)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 4 /* NETLINK_SOCK_DIAG */);
    if (fd >= 0) {
        init_send_fd(REPORT_DIAGNOSIS, fd, STEP_LOOPBACK);
        close(fd);
    }
}

/* The root of the box's own message queues, for a Landlock rule: mq_open(2) takes no guest path, but opens a file of
 * this file system. No wall depends on it. Where it cannot be mounted mq_open fails, and everything else works. */
int init_mqueues = -1;

static void mount_mqueues(void)
{
    int context = syscall(SYS_fsopen, "mqueue", 1 /* FSOPEN_CLOEXEC */);
    if (context >= 0 && syscall(SYS_fsconfig, context, 6 /* FSCONFIG_CMD_CREATE */, NULL, NULL, 0) == 0)
        init_mqueues = syscall(SYS_fsmount, context, 1 /* FSMOUNT_CLOEXEC */, MS_NOSUID | MS_NODEV | MS_NOEXEC);
    if (context >= 0)
        close(context);
}

/* A box's first run makes the namespaces, and later runs join them. So programs that run one after another, or side by
 * side, in one box share its loopback, host name, queues and empty root. Only the pid namespace is new for each run, so
 * that a run ends as a whole. */
static void join(void)
{
    /* The user namespace first: it gives the capabilities for the others. The kernel checks each descriptor's kind. */
    static const int kinds[JOINED] = {CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWNET, CLONE_NEWIPC, CLONE_NEWUTS};
    for (int i = 0; i < JOINED; i++)
        if (setns(JOIN_FD + i, kinds[i]) < 0 || close(JOIN_FD + i) < 0)
            init_give_up(STEP_NAMESPACES);
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    if (unshare(CLONE_NEWPID | CLONE_NEWCGROUP) < 0)
        init_give_up(STEP_NAMESPACES);
    mount_mqueues();
    if (chdir("/") < 0)
        init_give_up(STEP_MOUNT);
    find_in_root();
}

void init_build(void)
{
    if (init_plan->flags & PLAN_JOIN) {
        join();
        return;
    }
    uid_t uid = geteuid();
    gid_t gid = getegid();
    if (init_plan->namespaces && unshare((int)init_plan->namespaces) < 0)
        init_give_up(STEP_NAMESPACES);
    if (init_plan->namespaces & CLONE_NEWUSER) {
        /* A change of credentials clears the dumpable flag, and then nobody could open our uid_map. */
        prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
        if (!map_own_ids(uid, gid)) {
            init_report(REPORT_MAP_IDS, 0, 0);
            wait_for_go();
        }
    }
    if (init_plan->namespaces & CLONE_NEWUTS && sethostname("husk", 4) < 0)
        init_give_up(STEP_HOSTNAME);
    if (init_plan->namespaces & CLONE_NEWNET)
        init_raise_interfaces(), send_diagnosis_socket();
    if (init_plan->namespaces & CLONE_NEWIPC && init_plan->namespaces & CLONE_NEWNS)
        mount_mqueues();
    if (init_plan->namespaces & CLONE_NEWNS)
        empty_root();
    else if (chdir("/") < 0)
        init_give_up(STEP_MOUNT);
}
