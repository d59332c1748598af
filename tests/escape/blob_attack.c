/* build: blob_attack -static -Wno-unused-result
 *
 * Everything a program can do to change a file that it has open for reading only, or can name. In an image of the store
 * the file is a blob, which other images and boxes share. Each line: what was tried, and the result. The test looks at
 * the blobs afterwards. A change by name may succeed on the box's own copy.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/fsverity.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

static char bad[4096];

static void told(const char *what, long result)
{
    printf("%s = %s\n", what, result < 0 ? strerrorname_np(errno) : "done");
}

static void on_descriptor(int fd)
{
    loff_t at = 0;
    int pipes[2], self = open("/blob_attack", O_RDONLY), flags = 0;
    struct iovec part = {bad, sizeof bad};
    char *map;

    told("write", write(fd, bad, 10));
    told("pwrite", pwrite(fd, bad, 10, 0));
    told("ftruncate", ftruncate(fd, 0));
    told("fallocate", fallocate(fd, 0, 0, 100));
    told("punch", fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096));
    told("copy_file_range", copy_file_range(self, NULL, fd, &at, 10, 0));
    told("sendfile", sendfile(fd, self, NULL, 10));
    pipe(pipes);
    write(pipes[1], bad, 10);
    told("splice", splice(pipes[0], NULL, fd, NULL, 10, 0));
    told("splice at", splice(pipes[0], NULL, fd, &at, 10, 0));
    told("clone range", ioctl(fd, FICLONE, self));
    told("set flags", ioctl(fd, FS_IOC_SETFLAGS, &flags));
    flags = FS_IMMUTABLE_FL;
    told("set immutable", ioctl(fd, FS_IOC_SETFLAGS, &flags));
    struct fsxattr extended = {.fsx_xflags = FS_XFLAG_NODUMP};
    told("set extended flags", ioctl(fd, FS_IOC_FSSETXATTR, &extended));
    struct fsverity_enable_arg verity = {.version = 1, .hash_algorithm = 1, .block_size = 4096};
    told("enable verity", ioctl(fd, FS_IOC_ENABLE_VERITY, &verity));
    told("shared map", (map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED ? -1 : 0);
    map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    told("shared map to read", map == MAP_FAILED ? -1 : 0);
    if (map != MAP_FAILED) {
        struct iovec there = {map, 10};
        told("made writable", mprotect(map, 4096, PROT_READ | PROT_WRITE));
        told("removed", madvise(map, 4096, MADV_REMOVE));
        part.iov_len = 10;
        told("written by process_vm_writev", process_vm_writev(getpid(), &part, 1, &there, 1, 0));
        int memory = open("/proc/self/mem", O_RDWR);
        told("written by /proc/self/mem", memory < 0 ? -1 : pwrite(memory, bad, 10, (off_t)(uintptr_t)map));
        told("read from a pipe into it", read(pipes[0], map, 10));
    }
    char *private = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    told("private map", private == MAP_FAILED ? -1 : 0);
    if (private != MAP_FAILED) {
        memset(private, 'P', 4096);
        told("synchronised", msync(private, 4096, MS_SYNC));
        /* Gifted pages must be the box's own copy, not the page cache. */
        struct iovec gift = {private, 4096};
        told("vmsplice", vmsplice(pipes[1], &gift, 1, SPLICE_F_GIFT));
    }
    told("writable by F_SETFL", fcntl(fd, F_SETFL, O_RDWR | O_APPEND));
    told("write after it", write(fd, bad, 10));
    told("seals", fcntl(fd, F_ADD_SEALS, 1));
}

static void on_metadata(int fd)
{
    const struct timespec times[2] = {{1, 1}, {1, 1}};
    char path[64];

    sprintf(path, "/proc/self/fd/%d", fd);
    told("futimens", futimens(fd, times));
    told("utimensat of the descriptor", syscall(SYS_utimensat, fd, NULL, times, 0));
    told("fchmod", fchmod(fd, 0777));
    told("chmod of /proc/self/fd", chmod(path, 0777));
    told("fchown", fchown(fd, getuid(), getgid()));
    told("fchownat empty", fchownat(fd, "", getuid(), getgid(), AT_EMPTY_PATH));
    told("fsetxattr", fsetxattr(fd, "user.bad", "x", 1, 0));
    told("setxattr of /proc/self/fd", setxattr(path, "user.bad", "x", 1, 0));
    told("fremovexattr", fremovexattr(fd, "user.bad"));
    told("link of /proc/self/fd", linkat(AT_FDCWD, path, AT_FDCWD, "/linked", AT_SYMLINK_FOLLOW));
    told("link of the descriptor", linkat(fd, "", AT_FDCWD, "/linked2", AT_EMPTY_PATH));
    int again = open(path, O_RDWR);
    told("opened again to write", again);
    if (again >= 0)
        told("and written", write(again, bad, sizeof bad));
    again = open(path, O_WRONLY | O_TRUNC);
    told("opened again to cut", again);
    told("truncate of /proc/self/fd", truncate(path, 3));
}

static void on_name(const char *name)
{
    char other[64];

    sprintf(other, "%s.renamed", name);
    int fd = open(name, O_RDWR);
    told("opened to write", fd);
    char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map != MAP_FAILED)
        memset(map, 'M', 4096);
    told("truncate", truncate(name, 1));
    told("opened to cut", open(name, O_WRONLY | O_TRUNC));
    told("link", link(name, "/linked3"));
    told("written by the link", write(open("/linked3", O_WRONLY), bad, 100));
    told("rename", rename(name, other));
    told("unlink", unlink(other));
}

static void shown(const char *name)
{
    struct stat by_name, by_fd;
    int fd = open(name, O_RDONLY);

    stat(name, &by_name);
    fstat(fd, &by_fd);
    printf("%s ino=%lu/%lu dev=%d nlink=%lu/%lu mode=%o/%o uid=%u/%u mtime=%ld/%ld size=%ld/%ld\n", name,
           by_name.st_ino, by_fd.st_ino, by_name.st_dev == by_fd.st_dev, by_name.st_nlink, by_fd.st_nlink,
           by_name.st_mode, by_fd.st_mode, by_name.st_uid, by_fd.st_uid, by_name.st_mtime, by_fd.st_mtime,
           by_name.st_size, by_fd.st_size);
    close(fd);
}

int main(int argc, char **argv)
{
    memset(bad, 'B', sizeof bad);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 1 && !strcmp(argv[1], "wait")) { /* to be looked at from the host */
        char one;
        if (write(1, "here\n", 5) == 5)
            return (int)read(0, &one, 1);
    }
    if (argc > 1 && !strcmp(argv[1], "show")) {
        for (int i = 2; i < argc; i++)
            shown(argv[i]);
        int one = open("/same1", O_RDONLY), two = open("/same2", O_RDONLY), third = open("/other", O_RDONLY);
        told("lock of one", flock(one, LOCK_EX | LOCK_NB));
        told("lock of another", flock(third, LOCK_EX | LOCK_NB));
        told("lock of one with equal content", flock(two, LOCK_EX | LOCK_NB));
        told("lock of one again", flock(open("/same1", O_RDONLY), LOCK_EX | LOCK_NB));
        told("lock by its other name", flock(open("/same3", O_RDONLY), LOCK_EX | LOCK_NB));
        struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
        struct __user_cap_data_struct held[2] = {{~0u, ~0u, ~0u}, {~0u, ~0u, ~0u}};
        syscall(SYS_capget, &head, held);
        printf("uid=%u caps=%x%x%x%x\n", getuid(), held[0].effective, held[1].effective, held[0].permitted,
               held[1].permitted);
        return 0;
    }
    int fd = open("/first", O_RDONLY), other = open("/second", O_RDONLY);
    on_descriptor(fd);
    on_metadata(other);
    on_descriptor(other); /* once more, when its name has a copy of its own */
    on_name("/third");
    return 0;
}
