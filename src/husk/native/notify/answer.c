/* native: answering a notification, and putting descriptors into a guest's table. No Python here. */
#include "core.h"
#include "notify/pin.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>

/* Waiting for its own lock the host gives up with EINTR when a signal comes, and when husk was stopped and continued.
 * Nothing has happened then. But an answer that is lost leaves a guest waiting for ever. */
static int persist(int listener, unsigned long request, void *argument)
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
    return persist(listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
}

int answer_value(int listener, uint64_t id, int64_t value)
{
    return send_answer(listener, id, value, 0, 0);
}

int answer_error(int listener, uint64_t id, int error)
{
    return send_answer(listener, id, 0, -error, 0);
}

int answer_continue(int listener, uint64_t id)
{
    return send_answer(listener, id, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE);
}

int inject_descriptor(int listener, const struct seccomp_notif *notif, int source, bool cloexec)
{
    struct seccomp_notif_addfd add = {
        .id = notif->id, .srcfd = source, .newfd_flags = cloexec ? O_CLOEXEC : 0};
    return persist(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add);
}

int add_descriptor(int listener, const struct seccomp_notif *notif, int source, bool cloexec)
{
    struct pin pin;
    pin_if_it_helps(&pin, notif->pid);
    int fd = inject_descriptor(listener, notif, source, cloexec);
    pin_release(&pin);
    return fd;
}

int answer_descriptor(int listener, const struct seccomp_notif *notif, int source, bool cloexec)
{
    /* Two steps instead of SECCOMP_ADDFD_FLAG_SEND: so a guest that was bound for the hand-over has its mask back before it
     * runs on, and the answer is a wake-up on this processor. Nothing can come in between but the guest's death, since a
     * received call cannot be interrupted (WAIT_KILLABLE_RECV). */
    int fd = add_descriptor(listener, notif, source, cloexec);
    int error = fd < 0 ? 0 : answer_value(listener, notif->id, fd);
    return error ? error : fd;
}

bool still_valid(int listener, uint64_t id)
{
    return persist(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}
