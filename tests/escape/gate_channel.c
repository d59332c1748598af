/* build: gate_channel
 *
 * gate_channel FILE: what a guest gains by the socket through which its gate brings it descriptors. It makes requests
 * by hand, for FILE, which the box does not have, and for files that it has; takes from the socket what comes, and then
 * leaves it there; and sends descriptors and bytes to husk. Its own C library goes on opening files meanwhile. Without
 * a gate there is nothing to try, and it says so on standard error.
 */
#include "step.h"
#include "../../src/husk/native/gate/layout.h"
#include "../../src/husk/native/loader/resident.h"
#include <sched.h>
#include <sys/socket.h>

static uint8_t *base;
static long received, wrong;

/* The gate behind the stubs of direct names. */
static uint8_t *find_gate(void) {
    const struct husk_names *names = (const struct husk_names *)HUSK_NAMES_DATA;
    const struct husk_resident *resident = (const struct husk_resident *)HUSK_RESIDENT_DATA;
    for (int i = 0; resident->names_entry && names->stubs && i < HUSK_STUB_COUNT; i++) {
        const uint8_t *data = (const uint8_t *)names->stubs + GATE_PAGE + i * HUSK_STUB_DATA_BYTES;
        if (*(const uint64_t *)(data + GATE_DATA_NEXT))
            return (uint8_t *)*(const uint64_t *)(data + GATE_DATA_NEXT);
    }
    return NULL;
}

static int ask(int rounds) {
    int failed = 0;
    for (int i = 0; i < rounds; i++) {
        char text[8] = "";
        int fd = open("own", O_RDONLY);
        failed += fd < 0 || read(fd, text, 8) != 4 || strcmp(text, "mine") != 0;
        close(fd);
    }
    return failed;
}

/* Post a request to open, and wait for a moment: what husk said; -1000: nothing; -2000: make the ordinary call. */
static long post(const char *name, unsigned long size) {
    static uint32_t turn = 4000;
    uint8_t *slot = base + GATE_SLOTS + 5 * GATE_SLOT_BYTES, *request = slot + GATE_SLOT_REQUEST;
    uint32_t *state = (uint32_t *)(void *)slot, *answered = (uint32_t *)(void *)(slot + GATE_SLOT_ANSWERED);
    long value, nr = SYS_openat, args[6] = {AT_FDCWD, 0, O_RDONLY, 0, 0, 0}, tid = gettid();
    uint64_t given;
    turn += 4;
    memset(request, 0, GATE_REQUEST_BYTES);
    memcpy(request + GATE_REQUEST_NR, &nr, 8);
    memcpy(request + GATE_REQUEST_ARGS, args, 48);
    memcpy(request + GATE_REQUEST_TID, &tid, 8);
    memcpy(request + GATE_REQUEST_SIZE, &size, 8);
    strncpy((char *)request + GATE_REQUEST_NAME, name, GATE_LONGEST_NAME);
    __atomic_store_n(state, turn | GATE_POSTED, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 20000; i++) {
        if (__atomic_load_n(answered, __ATOMIC_SEQ_CST) == turn) {
            memcpy(&given, slot + GATE_SLOT_SIZE, 8);
            memcpy(&value, slot + GATE_SLOT_VALUE, 8);
            return given == GATE_DECLINED || given == GATE_WHO ? -2000 : given == GATE_DESCRIPTOR ? 0 : value;
        }
        if (i % 1000 == 999)
            sched_yield();
        __builtin_ia32_pause();
    }
    return -1000;
}

/* Take all that has come. Each must be the guest's own file. */
static void take(void) {
    long (*direct)(long, long, long, long, long) = (void *)(uintptr_t)(HUSK_RESIDENT + HUSK_RESIDENT_DIRECT);
    for (;;) {
        char bytes[64], text[8] = "";
        union {
            struct cmsghdr header;
            char room[256];
        } rights = {0};
        struct iovec part = {bytes, sizeof bytes};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &rights,
                                 .msg_controllen = sizeof rights};
        if (direct(SYS_recvmsg, GATE_CHANNEL, (long)&message, MSG_DONTWAIT, 0) <= 0)
            return;
        int fd = *(int *)(void *)CMSG_DATA(&rights.header);
        wrong += message.msg_controllen != CMSG_SPACE(sizeof fd) || read(fd, text, 8) != 4 || strcmp(text, "mine") != 0;
        received++;
        close(fd);
    }
}

int main(int argc, char **argv) {
    const char *file = argc > 1 ? argv[1] : "/etc/shadow";
    char up[400], own[400], here[300];
    long answered = 0, seen = 0;
    setvbuf(stdout, NULL, _IONBF, 0);
    MUST(chdir("/tmp"));
    int fd = MUST(open("own", O_WRONLY | O_CREAT, 0644));
    MUST(write(fd, "mine", 4) == 4 ? 0 : -1);
    close(fd);
    MUST(getcwd(here, sizeof here) ? 0 : -1);
    snprintf(own, sizeof own, "%s/own", here);
    snprintf(up, sizeof up, "%s/../../../..%s", here, file);
    say("at first wrong: %d", ask(2000));
    base = find_gate();
    if (!base) {
        fprintf(stderr, "no gate\n");
        return 0;
    }
    const char *names[] = {file, up, "/proc/1/root/etc/shadow", "/dev/mem"};
    for (int i = 0; i < 400; i++) {
        if (i % 8 == 0)
            ask(5); /* so that husk listens */
        long got = post(names[i % 4], i % 16 < 8 ? strlen(names[i % 4]) : 100000);
        answered += got != -1000;
        seen += got >= 0;
        long mine = post(own, strlen(own));
        seen += mine > 0;
        take();
    }
    say("seen of what is not there: %ld", seen);
    say("what came was wrong: %ld", wrong);
    /* To husk: it reads nothing there. */
    char byte = 'x';
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } rights = {.header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    memcpy(CMSG_DATA(&rights.header), &(int){0}, sizeof(int));
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1,
                             .msg_control = &rights, .msg_controllen = sizeof rights};
    int sent = 0;
    for (int i = 0; i < 100; i++)
        sent += sendmsg(GATE_CHANNEL, &message, MSG_DONTWAIT | MSG_NOSIGNAL) > 0 ||
                write(GATE_CHANNEL, &byte, 1) > 0;
    say("sent to husk: %d", sent);
    /* Nobody takes what comes: of 3000 files at most one waits. */
    for (int i = 0; i < 3000; i++) {
        if (i % 64 == 0)
            ask(5);
        post(own, strlen(own));
    }
    received = 0;
    take();
    say("kept for the guest: %d", received > 1);
    say("afterwards wrong: %d", ask(2000));
    fprintf(stderr, "answered %ld\n", answered);
    return 0;
}
