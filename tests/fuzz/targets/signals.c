/* rt_sigaction(2) with a forged resident page: whatever its content, the call is answered once and only the guest's own
 * memory is written, which is a model here. */
#include "input.h"

#include "../../../src/husk/native/remote/signals.c"

static int answered, attached;
static bool gone; /* the caller has gone */

ssize_t guest_read(pid_t tid, uint64_t address, void *to, size_t size)
{
    (void)tid;
    if (address == 0 || eat_byte() == 255)
        return -EFAULT;
    eat(to, size);
    return (ssize_t)size;
}

ssize_t guest_write(pid_t tid, uint64_t address, const void *from, size_t size)
{
    (void)tid;
    volatile uint8_t sum = 0;
    for (size_t i = 0; i < size; i++)
        sum += ((const uint8_t *)from)[i];
    return address == 0 || eat_byte() == 255 ? -EFAULT : (ssize_t)size;
}

int notify_answer_continue(int listener, uint64_t id)
{
    (void)listener, (void)id;
    answered++;
    return 0;
}

bool notify_is_valid(int listener, uint64_t id)
{
    (void)listener, (void)id;
    gone = eat_byte() == 255;
    return !gone;
}

int notify_answer_value(int listener, uint64_t id, int64_t value)
{
    (void)listener, (void)id, (void)value;
    answered++;
    return eat_byte() == 255 ? -ENOENT : 0;
}

int remote_attach(pid_t tid)
{
    (void)tid;
    if (eat_byte() == 255)
        return -EPERM;
    attached++;
    return 0;
}

int remote_wait_stop(struct remote_thread *remote, pid_t tid)
{
    remote->tid = tid;
    return eat_byte() == 255 ? -ESRCH : 0;
}

int remote_block_signals(struct remote_thread *remote)
{
    (void)remote;
    return eat_byte() == 255 ? -ESRCH : 0;
}

int remote_call(struct remote_thread *remote, long nr, const uint64_t args[6], long *result)
{
    MUST(remote->tid == 1 && nr == SYS_rt_sigaction && args[4] == 77);
    *result = (int8_t)eat_byte();
    return eat_byte() == 255 ? -ESRCH : 0;
}

int remote_finish(struct remote_thread *remote, int64_t value)
{
    (void)remote, (void)value;
    attached--;
    return 0;
}

void remote_abandon(pid_t tid)
{
    (void)tid;
    attached--;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input = data, input_size = size;
    Listener listener = {.fd = -1, .cookie = 77};
    struct seccomp_notif notif = {.pid = 1};
    notif.data.nr = SYS_rt_sigaction;
    uint8_t flags = eat_byte();
    notif.data.args[0] = flags & 1 ? eat_word() : eat_byte() % 66;
    notif.data.args[1] = flags & 2 ? eat_word() : 4096;
    notif.data.args[2] = flags & 4 ? eat_word() : 8192;
    notif.data.args[3] = flags & 8 ? eat_word() : 8;
    answered = attached = 0;
    gone = false;
    MUST(remote_answer_sigaction(&listener, &notif) == 0);
    MUST(answered == 1 || (answered == 0 && gone));
    return 0;
}
