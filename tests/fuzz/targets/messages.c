/* Messages and addresses as a guest's memory holds them, judged in C. Only these may continue in the host: receiving, and,
 * in a box that confines names, sending without an address, to the box's own loopback, or to netlink. */
#include "input.h"

#include "../../../src/husk/native/fastpath/messages.c"

static int continued;
static uint8_t last_read[sizeof(struct sockaddr_storage)]; /* the last thing that was looked at */
static size_t last_size;
static bool address_seen;

ssize_t guest_read(pid_t tid, uint64_t address, void *to, size_t size)
{
    (void)tid;
    if (address == 0 || eat_byte() == 255)
        return -EFAULT;
    eat(to, size);
    last_size = size < sizeof last_read ? size : sizeof last_read;
    memcpy(last_read, to, last_size);
    return (ssize_t)size;
}

int notify_answer_continue(int listener, uint64_t id)
{
    (void)listener, (void)id;
    continued++;
    return 0;
}

int guest_get_fd(pid_t tid, int fd)
{
    (void)tid;
    address_seen = true;
    return fd & 1 ? -EBADF : -EPERM;
}

static bool is_loopback(void)
{
    uint16_t family;
    memcpy(&family, last_read, 2);
    static const uint8_t one[16] = {[15] = 1};
    return (family == AF_INET && last_size >= 8 && last_read[4] == 127) ||
           (family == AF_INET6 && last_size >= 24 && memcmp(last_read + 8, one, 16) == 0);
}

static bool is_netlink_address(void)
{
    uint16_t family;
    memcpy(&family, last_read, 2);
    return last_size == 2 && family == AF_NETLINK; /* the family was read, and nothing after it */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int CALLS[] = {SYS_accept, SYS_accept4, SYS_recvfrom, SYS_recvmsg, SYS_recvmmsg,
                                SYS_sendmsg, SYS_sendmmsg, SYS_sendto, SYS_connect, SYS_bind};
    input = data, input_size = size;
    Listener listener = {.fd = -1};
    struct seccomp_notif notif = {.pid = 1};
    uint8_t flags = eat_byte();
    listener.mapped = flags & 1, listener.confined = flags & 2;
    notif.data.nr = CALLS[eat_byte() % 10];
    for (int i = 0; i < 6; i++)
        notif.data.args[i] = flags & 4 ? eat_word() : eat_byte();
    continued = 0, last_size = 0, address_seen = false;
    bool served = fast_answer_message(&listener, &notif);
    MUST(continued == served);
    bool sends = notif.data.nr == SYS_sendto || notif.data.nr == SYS_connect || notif.data.nr == SYS_sendmsg || notif.data.nr == SYS_sendmmsg;
    if (served && sends)
        MUST(listener.confined);
    if (served && (notif.data.nr == SYS_sendto || notif.data.nr == SYS_connect))
        MUST(is_loopback() || is_netlink_address());
    MUST(!served || notif.data.nr != SYS_bind);
    return 0;
}
