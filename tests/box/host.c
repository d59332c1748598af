/* Runs a command as on another host: behind what Docker's default profile denies, without Landlock, without tracing,
 * or where a seccomp listener exists already.
 *
 *   host [docker] [no-landlock] [no-namespaces] [no-wait-killable] [no-ptrace] [no-setuid] [no-thread-pidfd]
 *        [no-new-code] [listener] -- COMMAND ARGS...
 *
 * docker: the calls its default seccomp profile refuses to a container without CAP_SYS_ADMIN and CAP_SYS_PTRACE, as far
 * as they matter to husk (default.json of github.com/moby/profiles), with the same errno, and its default capabilities.
 * The filter is inherited through execve, as a container's is. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOST 256
static struct sock_filter code[MOST];
static int length;

static void emit(unsigned short op, unsigned char yes, unsigned char no, unsigned k)
{
    code[length++] = (struct sock_filter){op, yes, no, k};
}

static void load(unsigned offset)
{
    emit(BPF_LD | BPF_W | BPF_ABS, 0, 0, offset);
}

static void deny(int nr, int error)
{
    load(offsetof(struct seccomp_data, nr));
    emit(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, (unsigned)nr);
    emit(BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | (unsigned)error);
}

/* Refuse `nr` when argument `index` has any of `bits`. */
static void deny_bits(int nr, int index, unsigned bits, int error)
{
    load(offsetof(struct seccomp_data, nr));
    emit(BPF_JMP | BPF_JEQ | BPF_K, 0, 3, (unsigned)nr);
    load((unsigned)offsetof(struct seccomp_data, args) + 8 * (unsigned)index);
    emit(BPF_JMP | BPF_JSET | BPF_K, 0, 1, bits);
    emit(BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | (unsigned)error);
}

static void keep_capabilities(const int *kept, int count)
{
    unsigned long long mask = 0;
    for (int i = 0; i < count; i++)
        mask |= 1ULL << kept[i];
    for (int cap = 0; cap < 64; cap++)
        if (!(mask >> cap & 1))
            prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) < 0)
        return;
    for (int i = 0; i < 2; i++) {
        data[i].effective &= (unsigned)(mask >> 32 * i);
        data[i].permitted &= (unsigned)(mask >> 32 * i);
        data[i].inheritable &= (unsigned)(mask >> 32 * i);
    }
    syscall(SYS_capset, &header, data);
}

static void docker(void)
{
    static const int refused[] = {
        SYS_unshare, SYS_setns, SYS_mount, SYS_umount2, SYS_pivot_root, SYS_open_tree, SYS_move_mount, SYS_fsopen,
        SYS_fsmount, SYS_fsconfig, SYS_fspick, SYS_mount_setattr, SYS_sethostname, SYS_setdomainname, SYS_bpf,
        SYS_perf_event_open, SYS_fanotify_init, SYS_add_key, SYS_keyctl, SYS_request_key, SYS_pidfd_getfd, SYS_kcmp,
        SYS_process_madvise, SYS_userfaultfd, SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register,
    };
    static const int kept[] = {CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FSETID, CAP_FOWNER, CAP_MKNOD, CAP_NET_RAW, CAP_SETGID,
                               CAP_SETUID, CAP_SETFCAP, CAP_SETPCAP, CAP_NET_BIND_SERVICE, CAP_SYS_CHROOT, CAP_KILL,
                               CAP_AUDIT_WRITE};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        deny(refused[i], EPERM);
    deny_bits(SYS_clone, 0, 0x7e020000u, EPERM); /* CLONE_NEW*, the number its profile writes as 2114060288 */
    deny(SYS_clone3, ENOSYS);
    keep_capabilities(kept, sizeof kept / sizeof *kept);
}

static int install(unsigned long flags)
{
    struct sock_fprog program = {(unsigned short)length, code};
    emit(BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW);
    program.len = (unsigned short)length;
    int result = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
    length = 0;
    return result;
}

int main(int argc, char **argv)
{
    int listener = 0, n = 1;
    for (; n < argc && strcmp(argv[n], "--"); n++) {
        if (!strcmp(argv[n], "docker"))
            docker();
        else if (!strcmp(argv[n], "no-landlock"))
            deny(SYS_landlock_create_ruleset, ENOSYS);
        else if (!strcmp(argv[n], "no-namespaces"))
            deny(SYS_unshare, EPERM);
        else if (!strcmp(argv[n], "no-ptrace"))
            deny(SYS_ptrace, EPERM);
        else if (!strcmp(argv[n], "no-setuid"))
            deny(SYS_setresuid, EPERM);
        else if (!strcmp(argv[n], "no-thread-pidfd")) /* as before Linux 6.9 */
            deny_bits(SYS_pidfd_open, 1, O_EXCL, EINVAL);
        else if (!strcmp(argv[n], "no-wait-killable"))
            deny_bits(SYS_seccomp, 1, SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, EINVAL);
        else if (!strcmp(argv[n], "no-new-code")) { /* as with systemd's MemoryDenyWriteExecute= */
            if (prctl(65 /* PR_SET_MDWE, Linux 6.3 */, 1, 0, 0, 0) < 0)
                deny_bits(SYS_mprotect, 2, PROT_EXEC, EPERM);
        } else if (!strcmp(argv[n], "listener"))
            listener = 1;
        else {
            fprintf(stderr, "host: there is no host %s\n", argv[n]);
            return 99;
        }
    }
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (length && install(0) < 0)
        return perror("host: seccomp"), 99;
    if (listener) {
        int fd = install(SECCOMP_FILTER_FLAG_NEW_LISTENER);
        /* Open for as long as the command lives, as a container runtime's is: a listener that is gone does not count. */
        if (fd < 0 || fcntl(fd, F_SETFD, 0) < 0)
            return perror("host: listener"), 99;
    }
    if (n + 1 >= argc)
        return 99;
    execvp(argv[n + 1], argv + n + 1);
    return perror("host: execvp"), 99;
}
