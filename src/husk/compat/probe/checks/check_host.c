/* compat/probe: checks of calls that administer the machine, and of small facts about it.
 *
 * Nothing here may do harm where it is allowed, as root: the arguments are such that Linux refuses them even then (a
 * name that does not exist, a wrong magic number), or the effect ends with the check's process. What is measured is
 * whether the call is there at all. */
#include "probe.h"

#include <linux/keyctl.h>
#include <linux/landlock.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#define NOTHING "husk-probe-no-such-name"

static void in_directory(void)
{
    probe_scratch();
    NEED(mkdir("d", 0755) == 0, "mkdir");
}

/* -- mounts -- */

CHECK(mount, "on a name that does not exist")
{
    probe_scratch();
    ANSWERS(CALL(mount, "none", NOTHING, "tmpfs", 0, NULL), ENOENT, EPERM);
}

CHECK(mount, "a file system that does not exist")
{
    in_directory();
    ANSWERS(CALL(mount, "none", "d", "husk-probe-none", 0, NULL), ENODEV, EPERM);
}

CHECK(umount2, "a directory that is no mount point")
{
    in_directory();
    ANSWERS(CALL(umount2, "d", 8 /* UMOUNT_NOFOLLOW */), EINVAL, EPERM);
}

CHECK(pivot_root, "to a name that does not exist")
{
    probe_scratch();
    ANSWERS(CALL(pivot_root, NOTHING, NOTHING), ENOENT, EPERM);
}

CHECK(open_tree, "a directory as O_PATH would give it")
{
    in_directory();
    int fd = (int)MUST(CALL(open_tree, AT_FDCWD, "d", O_CLOEXEC));
    EFFECT(mkdirat(fd, "e", 0755) == 0 && probe_exists("d/e") && fcntl(fd, F_GETFD) == FD_CLOEXEC);
}

CHECK(open_tree, "flags=OPEN_TREE_CLONE: a copy of a mount, or not without privilege")
{
    in_directory();
    MUST_OR(CALL(open_tree, AT_FDCWD, "d", 1 | O_CLOEXEC), EPERM); /* a detached copy, gone with the descriptor */
}

CHECK(open_tree_attr, "a directory as O_PATH would give it")
{
    in_directory();
    int fd = (int)MUST(CALL(open_tree_attr, AT_FDCWD, "d", O_CLOEXEC, NULL, 0));
    EFFECT(mkdirat(fd, "e", 0755) == 0 && probe_exists("d/e"));
}

CHECK(move_mount, "from a name that does not exist")
{
    probe_scratch();
    ANSWERS(CALL(move_mount, AT_FDCWD, NOTHING, AT_FDCWD, NOTHING, 0), ENOENT, EPERM);
}

CHECK(move_mount, "flags=MOVE_MOUNT_SET_GROUP: of a name that does not exist")
{
    probe_scratch();
    ANSWERS(CALL(move_mount, AT_FDCWD, NOTHING, AT_FDCWD, NOTHING, 0x100), ENOENT, EPERM);
}

CHECK(move_mount, "flags=MOVE_MOUNT_BENEATH: of a name that does not exist")
{
    probe_scratch();
    ANSWERS(CALL(move_mount, AT_FDCWD, NOTHING, AT_FDCWD, NOTHING, 0x200), ENOENT, EPERM);
}

CHECK(fsopen, "a file system that does not exist")
{
    ANSWERS(CALL(fsopen, "husk-probe-none", 1), ENODEV, EPERM);
}

CHECK(fsconfig, "a descriptor of something else")
{
    ANSWERS(CALL(fsconfig, probe_memfd(0), 6 /* FSCONFIG_CMD_CREATE */, NULL, NULL, 0), EINVAL);
}

CHECK(fsconfig, "a descriptor that is not open")
{
    ANSWERS(CALL(fsconfig, 777, 6, NULL, NULL, 0), EBADF);
}

CHECK(fsmount, "a descriptor that is not open")
{
    ANSWERS(CALL(fsmount, 777, 1, 0), EBADF, EPERM);
}

CHECK(fsmount, "attr_flags=MOUNT_ATTR_NOSYMFOLLOW: a descriptor that is not open")
{
    ANSWERS(CALL(fsmount, 777, 1, 0x200000), EBADF, EPERM);
}

CHECK(fspick, "a name that does not exist")
{
    probe_scratch();
    ANSWERS(CALL(fspick, AT_FDCWD, NOTHING, 1), ENOENT, EPERM);
}

CHECK(mount_setattr, "of a name that does not exist")
{
    uint64_t attributes[4] = {0x10 /* MOUNT_ATTR_NOATIME */, 0x70 /* MOUNT_ATTR__ATIME */, 0, 0};
    probe_scratch();
    ANSWERS(CALL(mount_setattr, AT_FDCWD, NOTHING, 0, attributes, sizeof attributes), ENOENT, EPERM);
}

struct mount_request {
    uint32_t size, spare;
    uint64_t mount, parameter;
};

CHECK(listmount, "the mounts below the root")
{
    struct mount_request request = {sizeof request, 0, ~0UL /* LSMT_ROOT */, 0};
    uint64_t ids[64] = {0};
    EFFECT(MUST(CALL(listmount, &request, ids, 64, 0)) > 0 && ids[0] != 0);
}

CHECK(statmount, "of the first mount of the list")
{
    struct mount_request request = {sizeof request, 0, ~0UL, 0};
    uint64_t ids[64] = {0}, answer[128] = {0};
    if (RAW(listmount, &request, ids, 64, 0) > 0) {
        request.mount = ids[0];
        request.parameter = 2; /* STATMOUNT_MNT_BASIC */
    }
    MUST(CALL(statmount, &request, answer, sizeof answer, 0));
    EFFECT(answer[1] & 2);
}

CHECK(listns, "the caller's namespaces")
{
    struct { uint32_t size, type; uint64_t after, user; uint32_t kind, spare; } request = {.size = sizeof request};
    uint64_t ids[16] = {0};
    MUST(CALL(listns, &request, ids, 16, 0));
}

/* -- security modules and keys -- */

CHECK(landlock_create_ruleset, "flags=1: tells a version")
{
    EFFECT(MUST(CALL(landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION)) >= 1);
}

static int ruleset(void)
{
    struct landlock_ruleset_attr attributes = {.handled_access_fs = LANDLOCK_ACCESS_FS_READ_FILE};
    return (int)RAW(landlock_create_ruleset, &attributes, 8, 0);
}

CHECK(landlock_add_rule, "a directory whose files may be read")
{
    int rules = ruleset();
    in_directory();
    struct landlock_path_beneath_attr below = {LANDLOCK_ACCESS_FS_READ_FILE, open("d", O_PATH | O_CLOEXEC)};
    MUST(CALL(landlock_add_rule, rules < 0 ? 777 : rules, LANDLOCK_RULE_PATH_BENEATH, &below, 0));
}

CHECK(landlock_restrict_self, "other files can be read no more")
{
    int rules = ruleset();
    NEED(close(probe_file("f", "hello")) == 0, "close");
    NEED(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "PR_SET_NO_NEW_PRIVS");
    MUST(CALL(landlock_restrict_self, rules < 0 ? 777 : rules, 0));
    EFFECT(open("f", O_RDONLY | O_CLOEXEC) == -1 && errno == EACCES);
}

CHECK(lsm_list_modules, "at least one")
{
    uint64_t ids[64] = {0};
    uint32_t size = sizeof ids;
    EFFECT(MUST(CALL(lsm_list_modules, ids, &size, 0)) > 0 && ids[0] >= 100);
}

CHECK(lsm_get_self_attr, "a label, or no module has one")
{
    char context[1024];
    uint32_t size = sizeof context;
    MUST_OR(CALL(lsm_get_self_attr, 100 /* LSM_ATTR_CURRENT */, context, &size, 0), EOPNOTSUPP, EINVAL);
}

CHECK(lsm_set_self_attr, "a context that is none")
{
    uint64_t context[4] = {0, 0, 0, 0};
    ANSWERS(CALL(lsm_set_self_attr, 100, context, sizeof context, 1), EINVAL, EOPNOTSUPP);
}

/* Key rings of the process end with it. */

CHECK(add_key, "keyctl reads it back")
{
    long key = MUST(CALL(add_key, "user", "husk-probe", "abc", 3, KEY_SPEC_PROCESS_KEYRING));
    char payload[8] = {0};
    EFFECT(RAW(keyctl, KEYCTL_READ, key, payload, sizeof payload) == 3 && !strcmp(payload, "abc"));
}

CHECK(request_key, "a key that does not exist is ENOKEY")
{
    ANSWERS(CALL(request_key, "user", NOTHING, NULL, 0), ENOKEY);
}

CHECK(keyctl, "option=0: the process's own ring")
{
    EFFECT(MUST(CALL(keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_PROCESS_KEYRING, 1)) > 0);
}

/* -- watching the machine -- */

CHECK(perf_event_open, "counts the caller's own time, or not without privilege")
{
    struct perf_event_attr wish = {.type = PERF_TYPE_SOFTWARE, .size = sizeof wish,
                                   .config = PERF_COUNT_SW_TASK_CLOCK, .exclude_kernel = 1, .exclude_hv = 1};
    int fd = (int)MUST_OR(CALL(perf_event_open, &wish, 0, -1, -1, 8 /* PERF_FLAG_FD_CLOEXEC */), EACCES, EPERM);
    uint64_t count = 0;
    for (volatile int n = 0; n < 1000000; n++)
        ;
    EFFECT(read(fd, &count, 8) == 8 && count > 0);
}

CHECK(bpf, "cmd=9999: a command that does not exist")
{
    uint64_t attributes[16] = {0};
    ANSWERS(CALL(bpf, 9999, attributes, sizeof attributes), EINVAL, EPERM);
}

CHECK(syslog, "type=10: the size of the kernel's buffer, or not without privilege")
{
    EFFECT(MUST_OR(CALL(syslog, 10, NULL, 0), EPERM) > 0);
}

CHECK(lookup_dcookie, "a cookie that does not exist; gone since Linux 6.7")
{
    char path[64];
    ANSWERS(CALL(lookup_dcookie, 1, path, sizeof path), ENOSYS, EPERM, EINVAL);
}

/* Only the kernel's own trampoline may make the next two. */

static void from_elsewhere(long number)
{
    long *value = (long *)probe_shared(1);
    *value = -1;
    pid_t pid = probe_fork();
    if (pid == 0) {
        *value = probe_call(number, (const long[6]){0});
        _exit(0);
    }
    int status = probe_wait(pid);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGILL)
        probe_finish(PROBE_WORKS, "SIGILL");
    ANSWERS(*value, ENXIO, EPROTO, EPERM);
}

CHECK(uretprobe, "from elsewhere than the trampoline is SIGILL")
{
    from_elsewhere(NR_uretprobe);
}

CHECK(uprobe, "from elsewhere than the trampoline is an error")
{
    from_elsewhere(NR_uprobe);
}

/* -- running the machine -- */

CHECK(acct, "a name that does not exist")
{
    probe_scratch();
    ANSWERS(CALL(acct, NOTHING), ENOENT, EPERM);
}

CHECK(swapon, "a name that does not exist")
{
    probe_scratch();
    ANSWERS(CALL(swapon, NOTHING, 0), ENOENT, EPERM);
}

CHECK(swapoff, "a name that does not exist")
{
    probe_scratch();
    ANSWERS(CALL(swapoff, NOTHING), ENOENT, EPERM);
}

CHECK(reboot, "wrong magic numbers")
{
    ANSWERS(CALL(reboot, 1, 2, 0, NULL), EINVAL, EPERM);
}

CHECK(kexec_load, "far too many segments, unknown flags")
{
    ANSWERS(CALL(kexec_load, 0, 9999, NULL, 0xffff), EINVAL, EPERM);
}

CHECK(kexec_file_load, "no files, unknown flags")
{
    ANSWERS(CALL(kexec_file_load, -1, -1, 0, NULL, 0xffff), EINVAL, EPERM);
}

CHECK(init_module, "an empty module")
{
    ANSWERS(CALL(init_module, NULL, 0, ""), ENOEXEC, EPERM);
}

CHECK(finit_module, "a descriptor that is not open")
{
    ANSWERS(CALL(finit_module, 777, "", 0), EBADF, EPERM);
}

CHECK(delete_module, "a module that does not exist")
{
    ANSWERS(CALL(delete_module, NOTHING, O_NONBLOCK), ENOENT, EPERM);
}

CHECK(sethostname, "a length that is none")
{
    ANSWERS(CALL(sethostname, "probe", -1), EINVAL, EPERM);
}

CHECK(setdomainname, "a length that is none")
{
    ANSWERS(CALL(setdomainname, "probe", -1), EINVAL, EPERM);
}

CHECK(iopl, "a level that does not exist")
{
    ANSWERS(CALL(iopl, 4), EINVAL, EPERM);
}

CHECK(ioperm, "ports that do not exist")
{
    ANSWERS(CALL(ioperm, 0xffff, 16, 1), EINVAL, EPERM);
}

CHECK(vhangup, "without a terminal, or not without privilege")
{
    /* Only a process without a terminal may try, lest root loses the one it sits at. */
    pid_t pid = probe_fork();
    if (pid == 0) {
        if (setsid() < 0)
            _exit(0); /* no result: the parent says so */
        MUST_OR(CALL(vhangup), EPERM);
        probe_finish(PROBE_WORKS, "");
    }
    probe_wait(pid);
    probe_skip("needs setsid");
}

CHECK(quotactl, "of a device that does not exist")
{
    probe_scratch();
    ANSWERS(CALL(quotactl, 0x80000400U /* Q_GETFMT */, NOTHING, 0, NULL), ENOENT, ENOTBLK, ENODEV, ESRCH, EPERM);
}

CHECK(quotactl_fd, "of a file system without quotas")
{
    char answer[64];
    ANSWERS(CALL(quotactl_fd, probe_memfd(0), 0x80000400U, 0, answer), ENOSYS, ESRCH, EPERM, ENOTBLK);
}

/* -- numbers that Linux keeps for calls it does not have -- */

CHECK(uselib, "Linux has it no more")
{
    ANSWERS(CALL(uselib, NOTHING), ENOSYS);
}
CHECK(_sysctl, "Linux has it no more")
{
    ANSWERS(CALL(_sysctl, NULL), ENOSYS);
}
CHECK(create_module, "Linux has it no more")
{
    ANSWERS(CALL(create_module, NOTHING, 0), ENOSYS);
}
CHECK(get_kernel_syms, "Linux has it no more")
{
    ANSWERS(CALL(get_kernel_syms, NULL), ENOSYS);
}
CHECK(query_module, "Linux has it no more")
{
    ANSWERS(CALL(query_module, NULL, 0, NULL, 0, NULL), ENOSYS);
}
CHECK(nfsservctl, "Linux has it no more")
{
    ANSWERS(CALL(nfsservctl, 0, NULL, NULL), ENOSYS);
}
CHECK(getpmsg, "Linux never had it")
{
    ANSWERS(CALL(getpmsg), ENOSYS);
}
CHECK(putpmsg, "Linux never had it")
{
    ANSWERS(CALL(putpmsg), ENOSYS);
}
CHECK(afs_syscall, "Linux never had it")
{
    ANSWERS(CALL(afs_syscall), ENOSYS);
}
CHECK(tuxcall, "Linux never had it")
{
    ANSWERS(CALL(tuxcall), ENOSYS);
}
CHECK(security, "Linux never had it")
{
    ANSWERS(CALL(security), ENOSYS);
}
CHECK(epoll_ctl_old, "Linux never had it")
{
    ANSWERS(CALL(epoll_ctl_old), ENOSYS);
}
CHECK(epoll_wait_old, "Linux never had it")
{
    ANSWERS(CALL(epoll_wait_old), ENOSYS);
}
CHECK(vserver, "Linux never had it")
{
    ANSWERS(CALL(vserver), ENOSYS);
}

/* -- small facts -- */

CHECK(getcpu, "a processor's number")
{
    unsigned cpu = ~0u, node = ~0u;
    MUST(CALL(getcpu, &cpu, &node, NULL));
    EFFECT(cpu < 65536 && node < 65536);
}

CHECK(getrandom, "bytes that differ from call to call")
{
    char one[32] = {0}, two[32] = {0};
    EFFECT(MUST(CALL(getrandom, one, 32, 0)) == 32 && MUST(CALL(getrandom, two, 32, 0)) == 32);
    EFFECT(memcmp(one, two, 32) != 0);
}

CHECK(getrandom, "flags=GRND_NONBLOCK")
{
    char one[32];
    EFFECT(MUST(CALL(getrandom, one, 32, 1)) == 32);
}

CHECK(getrandom, "flags=GRND_RANDOM")
{
    char one[32];
    EFFECT(MUST(CALL(getrandom, one, 32, 2)) == 32);
}

CHECK(getrandom, "flags=GRND_INSECURE")
{
    char one[32];
    EFFECT(MUST(CALL(getrandom, one, 32, 4)) == 32);
}

CHECK(uname, "Linux on x86_64, with a version")
{
    struct utsname name = {0};
    MUST(CALL(uname, &name));
    EFFECT(!strcmp(name.sysname, "Linux") && !strcmp(name.machine, "x86_64") && atoi(name.release) >= 2);
}

CHECK(sysinfo, "memory and time since the start")
{
    struct sysinfo info = {0};
    MUST(CALL(sysinfo, &info));
    EFFECT(info.uptime >= 0 && info.totalram > 0 && info.mem_unit > 0 && info.procs > 0);
}
