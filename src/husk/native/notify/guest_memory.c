/* native: guest memory. process_vm_readv/writev respect the guest's own page protection, as the kernel's copy_from_user
 * does; /proc/PID/mem would write through read-only pages. */
#include "notify/notify.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

ssize_t guest_read(pid_t tid, uint64_t address, void *to, size_t size)
{
    struct iovec local = {to, size}, remote = {(void *)(uintptr_t)address, size};
    ssize_t n = process_vm_readv(tid, &local, 1, &remote, 1, 0);
    return n < 0 ? -errno : n;
}

ssize_t guest_write(pid_t tid, uint64_t address, const void *from, size_t size)
{
    struct iovec local = {(void *)from, size}, remote = {(void *)(uintptr_t)address, size};
    ssize_t n = process_vm_writev(tid, &local, 1, &remote, 1, 0);
    return n < 0 ? -errno : n;
}

ssize_t guest_string(pid_t tid, uint64_t address, char *to, size_t limit)
{
    /* Never read beyond the page that the string is known to reach: a name may end right before an unmapped page. Most
     * names fit into the first piece, so that one is small. */
    size_t got = 0;
    while (got < limit) {
        size_t piece = 4096 - ((address + got) & 4095);
        if (got == 0 && piece > 256)
            piece = 256;
        if (piece > limit - got)
            piece = limit - got;
        ssize_t n = guest_read(tid, address + got, to + got, piece);
        if (n <= 0)
            return n < 0 ? n : -EFAULT;
        char *end = memchr(to + got, 0, n);
        if (end)
            return end - to;
        got += n;
    }
    return -ENAMETOOLONG;
}
