/* build: sealed_exec -static -lpthread
 *
 * The first thread is caught where husk wants it to send with a header in sealed pages: another thread has put a jump in
 * the place of the instruction that should send. That other thread executes a program, which gets the number of the
 * first thread, and memory of its own where the sealed pages were. There it has a header with the address of a server.
 * Argument: the port of a datagram server on the loopback.
 */
#include "step.h"
#include "sock_unix.h"
#include <arpa/inet.h>
#include <pthread.h>

enum { TRIES = 12, PAGE = 4096, LEAST_MS = 60 };
static char *const target = (char *)0x567f08000000; /* HUSK_MESSAGES in native/loader/resident.h */
volatile int caught;
static volatile int entering;
static char *self, *port, number[12];

/* Sends as it is told. The jump leads to the second part, which lets other calls of husk's pass. */
__asm__(".balign 4096\nsend_here: mov $46, %eax\n.balign 2\nplace: syscall\nret\n"
        "second: cmp $46, %eax\njne 1f\nmov %rsi, %r11\nshr $24, %r11\ncmp $0x567f08, %r11\njne 1f\n"
        "movl $1, caught(%rip)\n2: pause\njmp 2b\n1: syscall\nret\n.balign 4096\n");
extern char send_here[], place[], second[];

static long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void *exchange(void *unused) {
    (void)unused;
    volatile uint16_t *instruction = (volatile uint16_t *)place;
    while (!caught) {
        while (!entering)
            ;
        for (volatile int i = 0; i < 30000; i++)
            ;
        *instruction = 0xeb | (second - place - 2) << 8;
        while (entering && !caught)
            ;
        *instruction = 0x050f; /* syscall */
    }
    char *const args[] = {self, port, number, NULL};
    execv(self, args);
    _exit(3);
}

static void attack(int datagram) {
    int pair[2], one = 1;
    char drain[16];
    pthread_t thread;
    struct iovec part = {"message", 7};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    long (*send)(int, struct msghdr *, int) = (void *)send_here;
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
    MUST(setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &one, sizeof one));
    MUST(mprotect(send_here, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC));
    snprintf(number, sizeof number, "%d", datagram);
    pthread_create(&thread, NULL, exchange, NULL);
    for (;;) {
        entering = 1;
        send(pair[0], &message, MSG_DONTWAIT);
        entering = 0;
        (void)!recv(pair[1], drain, sizeof drain, MSG_DONTWAIT);
    }
}

static int after_exec(int datagram) {
    struct sockaddr_in *to = (void *)(target + 256);
    struct iovec *part = (void *)(target + 512);
    MUST(mmap(target, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
    *to = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(atoi(port)),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    *part = (struct iovec){"escaped", 7};
    *(struct msghdr *)target =
        (struct msghdr){.msg_name = to, .msg_namelen = sizeof *to, .msg_iov = part, .msg_iovlen = 1};
    for (long end = now_ms() + LEAST_MS; now_ms() < end;)
        sendmsg(datagram, (struct msghdr *)target, MSG_DONTWAIT);
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 2)
        return 2;
    self = argv[0], port = argv[1];
    if (argc > 2)
        return after_exec(atoi(argv[2]));
    int datagram = MUST(socket(AF_INET, SOCK_DGRAM, 0)), done = 0;
    for (int i = 0; i < TRIES; i++) {
        pid_t child = MUST(fork());
        if (!child)
            attack(datagram);
        int status;
        MUST(waitpid(child, &status, 0));
        done += status == 0;
    }
    say("caught and executed: %d", done);
    return 0;
}
