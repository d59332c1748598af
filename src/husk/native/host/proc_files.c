/* native: small files of the host's /proc, and where a process has mapped what. */
#include "host/host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

ssize_t host_read_proc(char *text, size_t size, const char *format, ...)
{
    char path[96];
    va_list values;
    va_start(values, format);
    vsnprintf(path, sizeof path, format, values);
    va_end(values);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
    int error = errno;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    return n < 0 ? -error : n;
}

/* Linux 6.11: <linux/fs.h> of Debian 12 does not have it. */
struct procmap_query {
    uint64_t size, query_flags, query_addr, vma_start, vma_end, vma_flags, vma_page_size, vma_offset, inode;
    uint32_t dev_major, dev_minor, vma_name_size, build_id_size;
    uint64_t vma_name_addr, build_id_addr;
};
#define PROCMAP_QUERY_IOCTL _IOWR('f', 17, struct procmap_query)

int host_find_mapping(pid_t tid, uint64_t address, struct host_mapping *found)
{
    char path[40];
    snprintf(path, sizeof path, "/proc/%d/maps", tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    struct procmap_query q = {.size = sizeof q, .query_addr = address};
    int error = ioctl(fd, PROCMAP_QUERY_IOCTL, &q) < 0 ? -errno : 0;
    close(fd);
    if (!error)
        *found = (struct host_mapping){q.vma_start, q.vma_end, q.vma_offset, q.inode, q.dev_major, q.dev_minor,
                                       (unsigned)q.vma_flags};
    return error;
}
