/* native: answering a notification, and putting descriptors into a guest's table. No Python here. */
#include "notify/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>

/* The host waits for a lock of its own, and returns EINTR when a signal comes or when husk was stopped and continued.
 * Nothing has happened then, so we try again: a lost answer would leave the guest waiting for ever. */
static int retry_ioctl(int listener, unsigned long request, void *argument)
{
    int result;
    do
        result = ioctl(listener, request, argument);
    while (result < 0 && errno == EINTR);
    return result < 0 ? -errno : result;
}

static int send_answer(int listener, uint64_t id, int64_t value, int error, uint32_t flags)
{
    struct seccomp_notif_resp response = {.id = id, .val = value, .error = error, .flags = flags};
    return retry_ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
}

int notify_answer_value(int listener, uint64_t id, int64_t value)
{
    return send_answer(listener, id, value, 0, 0);
}

int notify_answer_error(int listener, uint64_t id, int error)
{
    return send_answer(listener, id, 0, -error, 0);
}

int notify_answer_continue(int listener, uint64_t id)
{
    return send_answer(listener, id, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE);
}

int notify_inject_fd(int listener, const struct seccomp_notif *notif, int source, bool cloexec)
{
    struct seccomp_notif_addfd add = {
        .id = notif->id, .srcfd = source, .newfd_flags = cloexec ? O_CLOEXEC : 0};
    return retry_ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add);
}

int notify_inject_fd_pinned(int listener, const struct seccomp_notif *notif, int source, bool cloexec)
{
    struct notify_pin pin;
    notify_pin_begin(&pin, notif->pid);
    int fd = notify_inject_fd(listener, notif, source, cloexec);
    notify_pin_end(&pin);
    return fd;
}

int notify_answer_fd(int listener, const struct seccomp_notif *notif, int source, bool cloexec)
{
    /* Two steps instead of SECCOMP_ADDFD_FLAG_SEND: a guest that was pinned for the injection gets its affinity back
     * before it runs on, and the answer wakes it on this processor. Only the guest's death can come in between, since a
     * received call cannot be interrupted (WAIT_KILLABLE_RECV). */
    int fd = notify_inject_fd_pinned(listener, notif, source, cloexec);
    int error = fd < 0 ? 0 : notify_answer_value(listener, notif->id, fd);
    return error ? error : fd;
}

bool notify_is_valid(int listener, uint64_t id)
{
    return retry_ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}
