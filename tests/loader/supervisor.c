/*
 * The smallest supervisor that can run husk-loader: answers HUSK_CALL and
 * readlink("/proc/self/exe"), and lets all other calls pass. Test code without
 * any security: the loader is tested without husk.
 *
 * usage: supervisor [-p PREFIX]... [-x EXECFN] [-e EXE] [-c COMM] [-h EHDR_FILE]
 *                   [-i CALL_NR]... [-R] [-F] LOADER PROGRAM [ARGV...]
 *   -p  one string that replaces argv[0] (repeat)   -h  pass the ELF header out of band
 *   -i  set this call's bit in eintr_bitmap         -R  no randomness
 *   -F  answer with an error
 * ARGV starts with argv[0]; none at all gives execve an empty vector.
 * Exits as the guest did; 128 + signal if a signal ended it.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "protocol.h"

static union {
    struct husk_exec_info info;
    char bytes[HUSK_EXEC_INFO_MAX];
} answer;
static size_t answer_bytes = sizeof(struct husk_exec_info);
static int refuse, loader, program, interpreter;
static const char *exe;

static uint32_t add_string(const char *s)
{
    size_t n = strlen(s) + 1;

    if (answer_bytes + n > sizeof answer)
        errx(2, "strings too long");
    memcpy(answer.bytes + answer_bytes, s, n);
    answer_bytes += n;
    return (uint32_t)n;
}

/* Returns the descriptor of PT_INTERP's file, -1 for none. */
static int open_interpreter(int fd, const Elf64_Ehdr *e)
{
    Elf64_Phdr ph;
    char name[4096];

    for (int i = 0; i < e->e_phnum; i++) {
        if (pread(fd, &ph, sizeof ph, (off_t)(e->e_phoff + i * sizeof ph)) != sizeof ph)
            return -1;
        if (ph.p_type == PT_INTERP && pread(fd, name, ph.p_filesz, (off_t)ph.p_offset) > 0) {
            int interpreter = open(name, O_RDONLY | O_CLOEXEC);
            if (interpreter < 0)
                err(2, "%s", name);
            return interpreter;
        }
    }
    return -1;
}

static void send_fd(int to, int fd)
{
    char byte = 0, control[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec iov = {&byte, 1};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    if (sendmsg(to, &m, 0) != 1)
        err(2, "sendmsg");
}

static int receive_fd(int from)
{
    int fd;
    char byte, control[CMSG_SPACE(sizeof fd)];
    struct iovec iov = {&byte, 1};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};

    if (recvmsg(from, &m, MSG_CMSG_CLOEXEC) != 1)
        errx(2, "the child sent no listener");
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
    return fd;
}

static void become_guest(int to, char **argv)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, HUSK_CALL, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_readlink, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_readlinkat, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    int listener;

    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
    if (listener < 0)
        err(2, "seccomp");
    send_fd(to, listener);
    close(listener);
    close(to);
    syscall(SYS_execveat, loader, "", argv, environ, AT_EMPTY_PATH);
    err(2, "execveat");
}

static int inject(int listener, uint64_t id, int fd)
{
    struct seccomp_notif_addfd add = {.id = id, .srcfd = (uint32_t)fd};
    int remote = ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add);

    if (remote < 0)
        err(2, "NOTIF_ADDFD");
    return remote;
}

static void answer_exec_info(int listener, const struct seccomp_notif *request, struct seccomp_notif_resp *reply)
{
    struct iovec local = {answer.bytes, answer_bytes};
    struct iovec remote = {(void *)request->data.args[1], answer_bytes};

    if (refuse || request->data.args[0] != HUSK_EXEC_INFO || request->data.args[2] < answer_bytes) {
        reply->error = -ENOENT;
        return;
    }
    answer.info.program_fd = inject(listener, request->id, program);
    answer.info.interpreter_fd = interpreter < 0 ? -1 : inject(listener, request->id, interpreter);
    if (process_vm_writev((pid_t)request->pid, &local, 1, &remote, 1, 0) != (ssize_t)answer_bytes)
        err(2, "process_vm_writev");
}

/* ld.so's $ORIGIN and Java ask for their own file; the host kernel would name the loader. */
static void answer_readlink(const struct seccomp_notif *request, struct seccomp_notif_resp *reply)
{
    static const char self[] = "/proc/self/exe";
    const __u64 *args = request->data.args + (request->data.nr == SYS_readlinkat);
    size_t len = strlen(exe) < args[2] ? strlen(exe) : args[2];
    char name[sizeof self] = "", host[64];
    struct iovec local = {name, sizeof name}, remote = {(void *)args[0], sizeof name};
    struct stat its, ours;

    reply->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    snprintf(host, sizeof host, "/proc/%u/exe", request->pid);
    if (stat(host, &its) < 0 || fstat(loader, &ours) < 0 || its.st_ino != ours.st_ino || its.st_dev != ours.st_dev)
        return; /* a child that executed something natively */
    if (process_vm_readv((pid_t)request->pid, &local, 1, &remote, 1, 0) < 0 || memcmp(name, self, sizeof self) != 0)
        return;
    local = (struct iovec){(void *)exe, len};
    remote = (struct iovec){(void *)args[1], len};
    reply->flags = 0;
    reply->val = process_vm_writev((pid_t)request->pid, &local, 1, &remote, 1, 0);
}

static void answer_one(int listener)
{
    struct seccomp_notif request = {0};
    struct seccomp_notif_resp reply = {0};

    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &request) < 0)
        return; /* the caller is gone */
    reply.id = request.id;
    if (request.data.nr == HUSK_CALL)
        answer_exec_info(listener, &request, &reply);
    else
        answer_readlink(&request, &reply);
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &reply);
}

/* Serves until the child has ended; returns its wait status. */
static int serve(int listener, pid_t child)
{
    struct pollfd wait_for = {.fd = listener, .events = POLLIN};
    int status;

    while (waitpid(child, &status, WNOHANG) == 0)
        if (poll(&wait_for, 1, 20) == 1) {
            if (wait_for.revents & POLLIN)
                answer_one(listener);
            else
                wait_for.fd = -1; /* hang-up: the filter's last user is gone */
        }
    return status;
}

int main(int argc, char **argv)
{
    struct husk_exec_info *info = &answer.info;
    const char *execfn = NULL, *comm = NULL, *ehdr_file = NULL;
    int option, pair[2], status;
    Elf64_Ehdr header;
    pid_t child;

    while ((option = getopt(argc, argv, "+p:x:e:c:h:i:RF")) != -1) {
        switch (option) {
        case 'p': info->prefix_count++; info->prefix_bytes += add_string(optarg); break;
        case 'x': execfn = optarg; break;
        case 'e': exe = optarg; break;
        case 'c': comm = optarg; break;
        case 'h': ehdr_file = optarg; break;
        case 'i': info->eintr_bitmap[atoi(optarg) / 8] |= (uint8_t)(1 << atoi(optarg) % 8); break;
        case 'R': info->flags |= HUSK_NO_RANDOMIZE; break;
        case 'F': refuse = 1; break;
        default: return 2;
        }
    }
    if (argc - optind < 2)
        errx(2, "usage: supervisor [options] LOADER PROGRAM [ARGV...]");
    loader = open(argv[optind], O_RDONLY | O_CLOEXEC);
    program = open(argv[optind + 1], O_RDONLY | O_CLOEXEC);
    if (loader < 0 || program < 0)
        err(2, "open");
    execfn = execfn ? execfn : argv[optind + 1];
    comm = comm ? comm : (strrchr(execfn, '/') ? strrchr(execfn, '/') + 1 : execfn);

    info->magic = HUSK_EXEC_MAGIC;
    info->version = HUSK_EXEC_VERSION;
    info->identity[0] = 0x1122334455667788;
    info->identity[1] = (uint64_t)getpid();
    info->execfn_bytes = add_string(execfn);
    exe = exe ? exe : argv[optind + 1];
    info->exe_bytes = add_string(exe);
    memcpy(info->comm, comm, strnlen(comm, sizeof info->comm - 1));
    if (ehdr_file) {
        int fd = open(ehdr_file, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || read(fd, info->ehdr, sizeof info->ehdr) != sizeof info->ehdr)
            err(2, "%s", ehdr_file);
        info->flags |= HUSK_HEADER_GIVEN;
        memcpy(&header, info->ehdr, sizeof header);
    } else if (pread(program, &header, sizeof header, 0) != sizeof header) {
        errx(2, "%s: no ELF header", argv[optind + 1]);
    }
    interpreter = open_interpreter(program, &header);

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        err(2, "socketpair");
    child = fork();
    if (child == 0)
        become_guest(pair[1], argv + optind + 2);
    close(pair[1]);
    status = serve(receive_fd(pair[0]), child);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
