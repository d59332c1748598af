/* build: calls_privileged
 *
 * What Linux says to an ordinary user who asks for mounts, roots, handles, quotas and the machine itself: which errno, and
 * which comes first when the arguments are wrong as well.
 */
#include "step.h"

#include <linux/fanotify.h>
#include <linux/mount.h>
#include <sys/mount.h>
#include <sys/quota.h>
#include <sys/timex.h>

#define BAD ((void *)16)
#define RAW(name, ...) step_print(#name "(" #__VA_ARGS__ ")", syscall(SYS_##name, __VA_ARGS__))
#define NR(name, nr, ...) step_print(name "(" #__VA_ARGS__ ")", syscall(nr, __VA_ARGS__))

static void roots(void) {
    RAW(chroot, ".");
    RAW(chroot, "file");
    RAW(chroot, "missing");
    RAW(chroot, "shut");
    RAW(chroot, "shut/x");
    RAW(chroot, "unsearched");
    RAW(chroot, "");
    RAW(chroot, BAD);
    RAW(pivot_root, ".", ".");
    RAW(pivot_root, "missing", "missing");
    RAW(pivot_root, BAD, BAD);
}

static void mounts(void) {
    RAW(mount, "none", "dir", "tmpfs", 0, NULL);
    RAW(mount, "none", "missing", "tmpfs", 0, NULL);
    RAW(mount, "none", "shut/x", "tmpfs", 0, NULL);
    RAW(mount, "none", "file/x", "tmpfs", 0, NULL);
    RAW(mount, "none", BAD, "tmpfs", 0, NULL);
    RAW(mount, BAD, "dir", "tmpfs", 0, NULL);
    RAW(mount, BAD, "missing", "tmpfs", 0, NULL);
    RAW(mount, "none", "dir", BAD, 0, NULL);
    RAW(mount, "none", "dir", "nosuchtype", 0, NULL);
    RAW(mount, "none", "dir", "tmpfs", 0, BAD);
    RAW(mount, NULL, "dir", NULL, 0, NULL);
    RAW(mount, ".", "dir", NULL, MS_BIND, NULL);
    RAW(mount, "missing", "dir", NULL, MS_BIND, NULL);
    RAW(mount, NULL, "dir", NULL, MS_REMOUNT, NULL);
    RAW(mount, NULL, "dir", NULL, MS_PRIVATE, NULL);
    RAW(umount2, "dir", 0);
    RAW(umount2, "dir", MNT_DETACH);
    RAW(umount2, "dir", 0x100);
    RAW(umount2, "missing", 0x100);
    RAW(umount2, "missing", 0);
    RAW(umount2, "missing", UMOUNT_NOFOLLOW);
    RAW(umount2, "link", 0);
    RAW(umount2, "dangling", 0);
    RAW(umount2, "dangling", UMOUNT_NOFOLLOW);
    RAW(umount2, "/proc", 0);
    RAW(umount2, BAD, 0);
    NR("open_tree", 428, AT_FDCWD, ".", OPEN_TREE_CLONE);
    NR("open_tree", 428, AT_FDCWD, "missing", OPEN_TREE_CLONE);
    NR("open_tree", 428, AT_FDCWD, ".", 0x80000000);
    NR("open_tree", 428, AT_FDCWD, ".", OPEN_TREE_CLONE | 0x10000000);
    NR("open_tree", 428, AT_FDCWD, BAD, OPEN_TREE_CLONE);
    NR("move_mount", 429, AT_FDCWD, ".", AT_FDCWD, "dir", 0);
    NR("move_mount", 429, AT_FDCWD, "missing", AT_FDCWD, BAD, 0);
    NR("move_mount", 429, AT_FDCWD, ".", AT_FDCWD, "dir", 0x10000);
    NR("fsopen", 430, "tmpfs", 0);
    NR("fsopen", 430, "nosuchtype", 0);
    NR("fsopen", 430, BAD, 0);
    NR("fsopen", 430, "tmpfs", 0x100);
    NR("fsconfig", 431, -1, 0, NULL, NULL, 0);
    NR("fsconfig", 431, 0, 6, NULL, NULL, 0);
    NR("fsconfig", 431, 0, 100, NULL, NULL, 0);
    NR("fsmount", 432, 0, 0, 0);
    NR("fsmount", 432, -1, 0, 0);
    NR("fspick", 433, AT_FDCWD, ".", 0);
    NR("fspick", 433, AT_FDCWD, "missing", 0);
    NR("fspick", 433, AT_FDCWD, ".", 0x100);
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY}, nothing = {0};
    NR("mount_setattr", 442, AT_FDCWD, ".", 0, &attr, sizeof attr);
    NR("mount_setattr", 442, AT_FDCWD, ".", 0, &nothing, sizeof nothing);
    NR("mount_setattr", 442, AT_FDCWD, "missing", 0, &attr, sizeof attr);
    NR("mount_setattr", 442, AT_FDCWD, ".", 0x40000000, &attr, sizeof attr);
    NR("mount_setattr", 442, AT_FDCWD, ".", 0, &attr, 8);
    NR("mount_setattr", 442, AT_FDCWD, ".", 0, &attr, 8192);
    NR("mount_setattr", 442, AT_FDCWD, ".", 0, BAD, sizeof attr);
}

static void handles(void) {
    union {
        struct file_handle handle;
        char room[256];
    } h = {.handle = {.handle_bytes = 0}};
    int mount_id;
    RAW(name_to_handle_at, AT_FDCWD, "missing", &h, &mount_id, 0);
    RAW(name_to_handle_at, AT_FDCWD, "file/x", &h, &mount_id, 0);
    RAW(name_to_handle_at, AT_FDCWD, "shut/x", &h, &mount_id, 0);
    RAW(name_to_handle_at, AT_FDCWD, BAD, &h, &mount_id, 0);
    RAW(name_to_handle_at, -1, "file", &h, &mount_id, 0);
    RAW(name_to_handle_at, AT_FDCWD, "file", BAD, &mount_id, 0);
    RAW(name_to_handle_at, AT_FDCWD, "file", &h, &mount_id, 0x40000000);
    RAW(name_to_handle_at, AT_FDCWD, "missing", &h, &mount_id, 0x40000000);
    h.handle.handle_bytes = 1000;
    RAW(name_to_handle_at, AT_FDCWD, "file", &h, &mount_id, 0);
    h.handle = (struct file_handle){.handle_bytes = 8, .handle_type = 1};
    RAW(open_by_handle_at, AT_FDCWD, &h, O_RDONLY);
    RAW(open_by_handle_at, -1, &h, O_RDONLY);
    RAW(open_by_handle_at, AT_FDCWD, BAD, O_RDONLY);
    h.handle.handle_bytes = 0;
    RAW(open_by_handle_at, AT_FDCWD, &h, O_RDONLY);
    RAW(fanotify_init, FAN_CLASS_CONTENT, O_RDONLY);
    RAW(fanotify_init, FAN_CLASS_NOTIF, O_RDONLY);
    RAW(fanotify_init, FAN_CLASS_NOTIF | FAN_UNLIMITED_QUEUE, O_RDONLY);
    RAW(fanotify_init, 0x80000000, O_RDONLY);
    RAW(fanotify_mark, -1, FAN_MARK_ADD, FAN_OPEN, AT_FDCWD, "file");
    RAW(fanotify_mark, 0, FAN_MARK_ADD, FAN_OPEN, AT_FDCWD, "file");
}

static void machine(void) {
    struct timex tx = {.modes = 0};
    struct timespec ts = {1, 0};
    struct timeval tv = {1, 0};
    RAW(swapon, "file", 0);
    RAW(swapon, "missing", 0);
    RAW(swapoff, "file");
    RAW(acct, "file");
    RAW(acct, NULL);
    RAW(quotactl, QCMD(Q_GETQUOTA, USRQUOTA), "/dev/nosuchdevice", 0, NULL);
    RAW(quotactl, QCMD(Q_QUOTAON, USRQUOTA), "/dev/nosuchdevice", 0, NULL);
    RAW(quotactl, QCMD(Q_SYNC, USRQUOTA), NULL, 0, NULL);
    RAW(quotactl, QCMD(Q_GETQUOTA, USRQUOTA), NULL, 0, NULL);
    RAW(quotactl, QCMD(Q_GETQUOTA, 77), "file", 0, NULL);
    RAW(quotactl, QCMD(Q_GETQUOTA, USRQUOTA), "file", 0, NULL);
    RAW(quotactl, QCMD(Q_GETQUOTA, USRQUOTA), BAD, 0, NULL);
    NR("quotactl_fd", 443, -1, QCMD(Q_GETQUOTA, USRQUOTA), 0, NULL);
    NR("quotactl_fd", 443, 1, QCMD(Q_GETQUOTA, 77), 0, NULL);
    RAW(sethostname, "x", 1);
    RAW(sethostname, "x", -1);
    RAW(sethostname, BAD, 1);
    RAW(setdomainname, "x", 1);
    RAW(reboot, 0, 0, 0, NULL);
    RAW(reboot, 0xfee1dead, 672274793, 0, NULL);
    RAW(syslog, 3, NULL, 0);
    RAW(syslog, 2, BAD, 10);
    RAW(syslog, 10, NULL, 0);
    RAW(vhangup, 0);
    RAW(settimeofday, &tv, NULL);
    RAW(clock_settime, CLOCK_REALTIME, &ts);
    OK(syscall(SYS_adjtimex, &tx));
    tx.modes = ADJ_FREQUENCY;
    RAW(adjtimex, &tx);
    OK(syscall(SYS_clock_adjtime, CLOCK_MONOTONIC, &tx));
    RAW(uselib, "x");
    NR("create_module", 174, 0);
    NR("no such call", 1023, 0);
}

int main(void) {
    MUST(mkdir("dir", 0755));
    MUST(mkdir("shut", 0));
    MUST(mkdir("unsearched", 0644));
    put_text("file", "text", 0644);
    MUST(symlink("dir", "link"));
    MUST(symlink("nowhere", "dangling"));
    roots();
    mounts();
    handles();
    machine();
    return 0;
}
