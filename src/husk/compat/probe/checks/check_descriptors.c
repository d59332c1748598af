/* compat/probe: checks of calls on descriptors: moving bytes, copying descriptors, flushing, locking, anonymous files.
 *
 * Not here: waiting for descriptors and asynchronous I/O (check_waiting.c), fcntl and ioctl commands. */
#include "probe.h"

#include <linux/falloc.h>
#include <poll.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/uio.h>

#define PAGE 4096UL

static bool at_offset(int fd, long offset, const char *text)
{
    char got[64] = {0};
    ssize_t length = (ssize_t)strlen(text);
    return pread(fd, got, (size_t)length, offset) == length && !memcmp(got, text, (size_t)length);
}

static bool says(int fd, const char *text)
{
    char got[64] = {0};
    ssize_t length = (ssize_t)strlen(text);
    return read(fd, got, sizeof got) == length && !memcmp(got, text, (size_t)length);
}

/* -- moving bytes -- */

CHECK(read, "of a file, up to its end")
{
    int fd = probe_file("f", "0123456789");
    char text[16] = {0};
    EFFECT(MUST(CALL(read, fd, text, 4)) == 4 && !memcmp(text, "0123", 4));
    EFFECT(MUST(CALL(read, fd, text, 16)) == 6 && !memcmp(text, "456789", 6));
    EFFECT(MUST(CALL(read, fd, text, 16)) == 0);
}

CHECK(read, "of a pipe without a writer is 0")
{
    int ends[2];
    char text[8] = {0};
    probe_pipe(ends);
    NEED(write(ends[1], "abc", 3) == 3 && close(ends[1]) == 0, "write");
    EFFECT(MUST(CALL(read, ends[0], text, 8)) == 3 && !memcmp(text, "abc", 3));
    EFFECT(MUST(CALL(read, ends[0], text, 8)) == 0);
}

CHECK(read, "into memory that is not there is EFAULT")
{
    ANSWERS(CALL(read, probe_file("f", "0123456789"), 8, 4), EFAULT);
}

CHECK(write, "to a file moves its position")
{
    int fd = probe_file("f", "0123456789");
    EFFECT(MUST(CALL(write, fd, "abc", 3)) == 3);
    EFFECT(probe_holds("f", "abc3456789") && lseek(fd, 0, SEEK_CUR) == 3);
}

CHECK(write, "to a pipe without a reader is EPIPE and SIGPIPE")
{
    int ends[2];
    probe_pipe(ends);
    close(ends[0]);
    signal(SIGPIPE, SIG_IGN);
    EFFECT(CALL(write, ends[1], "x", 1) == -EPIPE);
    pid_t pid = probe_fork();
    if (pid == 0) {
        signal(SIGPIPE, SIG_DFL);
        (void)!write(ends[1], "x", 1);
        _exit(0);
    }
    EFFECT(probe_wait(pid) == SIGPIPE);
}

CHECK(pread64, "leaves the position")
{
    int fd = probe_file("f", "0123456789");
    char text[4] = {0};
    EFFECT(MUST(CALL(pread64, fd, text, 4, 5)) == 4 && !memcmp(text, "5678", 4) && lseek(fd, 0, SEEK_CUR) == 0);
}

CHECK(pwrite64, "leaves the position")
{
    int fd = probe_file("f", "0123456789");
    EFFECT(MUST(CALL(pwrite64, fd, "ab", 2, 5)) == 2 && probe_holds("f", "01234ab789") && lseek(fd, 0, SEEK_CUR) == 0);
}

static char left[4], right[4];
static const struct iovec BOTH[2] = {{left, 3}, {right, 2}};

CHECK(readv, "fills several buffers")
{
    int fd = probe_file("f", "0123456789");
    EFFECT(MUST(CALL(readv, fd, BOTH, 2)) == 5 && !memcmp(left, "012", 4) && !memcmp(right, "34", 3));
}

CHECK(writev, "takes from several buffers")
{
    int fd = probe_file("f", "0123456789");
    memcpy(left, "abc", 3);
    memcpy(right, "de", 2);
    EFFECT(MUST(CALL(writev, fd, BOTH, 2)) == 5 && probe_holds("f", "abcde56789"));
}

CHECK(preadv, "fills several buffers from an offset")
{
    int fd = probe_file("f", "0123456789");
    EFFECT(MUST(CALL(preadv, fd, BOTH, 2, 4, 0)) == 5 && !memcmp(left, "456", 3) && !memcmp(right, "78", 2));
    EFFECT(lseek(fd, 0, SEEK_CUR) == 0);
}

CHECK(pwritev, "takes from several buffers, to an offset")
{
    int fd = probe_file("f", "0123456789");
    memcpy(left, "abc", 3);
    memcpy(right, "de", 2);
    EFFECT(MUST(CALL(pwritev, fd, BOTH, 2, 4, 0)) == 5 && probe_holds("f", "0123abcde9"));
}

CHECK(preadv2, "offset -1 means the position")
{
    int fd = probe_file("f", "0123456789");
    EFFECT(MUST(CALL(preadv2, fd, BOTH, 2, -1, -1, 0)) == 5 && !memcmp(left, "012", 3));
    EFFECT(lseek(fd, 0, SEEK_CUR) == 5);
}

CHECK(preadv2, "flags=RWF_NOWAIT: an empty pipe is EAGAIN")
{
    int ends[2];
    probe_pipe(ends);
    ANSWERS(CALL(preadv2, ends[0], BOTH, 2, -1, -1, RWF_NOWAIT), EAGAIN);
}

CHECK(pwritev2, "flags=RWF_APPEND: the offset does not count")
{
    int fd = probe_file("f", "0123456789");
    memcpy(left, "abc", 3);
    memcpy(right, "de", 2);
    EFFECT(MUST(CALL(pwritev2, fd, BOTH, 2, 0, 0, RWF_APPEND)) == 5 && probe_holds("f", "0123456789abcde"));
}

CHECK(pwritev2, "flags=RWF_DSYNC")
{
    int fd = probe_file("f", "0123456789");
    memcpy(left, "abc", 3);
    memcpy(right, "de", 2);
    EFFECT(MUST(CALL(pwritev2, fd, BOTH, 2, 0, 0, RWF_DSYNC)) == 5 && probe_holds("f", "abcde56789"));
}

CHECK(preadv2, "flags=RWF_HIPRI: read, or the file cannot be polled")
{
    int fd = probe_file("f", "0123456789");
    EFFECT(MUST_OR(CALL(preadv2, fd, BOTH, 2, 0, 0, RWF_HIPRI), EOPNOTSUPP) == 5 && !memcmp(left, "012", 3));
}

CHECK(preadv2, "flags=RWF_DONTCACHE: read, or the file system cannot")
{
    int fd = probe_file("f", "0123456789");
    EFFECT(MUST_OR(CALL(preadv2, fd, BOTH, 2, 0, 0, 0x80), EOPNOTSUPP) == 5 && !memcmp(left, "012", 3));
}

static int five_bytes(void)
{
    memcpy(left, "abc", 3);
    memcpy(right, "de", 2);
    return probe_file("f", "0123456789");
}

CHECK(pwritev2, "flags=RWF_HIPRI: written, or the file cannot be polled")
{
    int fd = five_bytes();
    EFFECT(MUST_OR(CALL(pwritev2, fd, BOTH, 2, 0, 0, RWF_HIPRI), EOPNOTSUPP) == 5 && probe_holds("f", "abcde56789"));
}

CHECK(pwritev2, "flags=RWF_NOAPPEND: the offset counts")
{
    int fd = five_bytes();
    NEED(fcntl(fd, F_SETFL, O_APPEND) == 0, "F_SETFL");
    EFFECT(MUST(CALL(pwritev2, fd, BOTH, 2, 0, 0, 0x20)) == 5 && probe_holds("f", "abcde56789"));
}

CHECK(pwritev2, "flags=RWF_ATOMIC: refused for a file that is not opened for it")
{
    int fd = five_bytes();
    ANSWERS(CALL(pwritev2, fd, BOTH, 2, 0, 0, 0x40), EOPNOTSUPP, EINVAL);
}

CHECK(pwritev2, "flags=RWF_DONTCACHE: written, or the file system cannot")
{
    int fd = five_bytes();
    EFFECT(MUST_OR(CALL(pwritev2, fd, BOTH, 2, 0, 0, 0x80), EOPNOTSUPP) == 5 && probe_holds("f", "abcde56789"));
}

CHECK(sendfile, "from a file to a pipe")
{
    int fd = probe_file("f", "0123456789"), ends[2];
    long offset = 3;
    probe_pipe(ends);
    EFFECT(MUST(CALL(sendfile, ends[1], fd, &offset, 4)) == 4 && offset == 7 && says(ends[0], "3456"));
}

CHECK(sendfile, "from a file to a file")
{
    int fd = probe_file("f", "0123456789"), other = probe_file("g", "");
    EFFECT(MUST(CALL(sendfile, other, fd, NULL, 100)) == 10 && probe_holds("g", "0123456789"));
}

CHECK(splice, "from a file to a pipe, and to another file")
{
    int fd = probe_file("f", "0123456789"), other = probe_file("g", ""), ends[2];
    long offset = 2;
    probe_pipe(ends);
    EFFECT(MUST(CALL(splice, fd, &offset, ends[1], NULL, 5, 0)) == 5 && offset == 7);
    EFFECT(MUST(CALL(splice, ends[0], NULL, other, NULL, 100, 0)) == 5 && probe_holds("g", "23456"));
}

CHECK(splice, "flags=SPLICE_F_NONBLOCK: between two pipes, one empty")
{
    int from[2], to[2];
    probe_pipe(from);
    probe_pipe(to);
    ANSWERS(CALL(splice, from[0], NULL, to[1], NULL, 10, SPLICE_F_NONBLOCK), EAGAIN);
}

CHECK(tee, "both pipes have the bytes")
{
    int from[2], to[2];
    probe_pipe(from);
    probe_pipe(to);
    NEED(write(from[1], "abc", 3) == 3, "write");
    EFFECT(MUST(CALL(tee, from[0], to[1], 10, 0)) == 3 && says(from[0], "abc") && says(to[0], "abc"));
}

CHECK(vmsplice, "memory goes into a pipe")
{
    int ends[2];
    probe_pipe(ends);
    struct iovec part = {"abcdef", 6};
    EFFECT(MUST(CALL(vmsplice, ends[1], &part, 1, 0)) == 6 && says(ends[0], "abcdef"));
}

CHECK(copy_file_range, "between two files")
{
    int fd = probe_file("f", "0123456789"), other = probe_file("g", "");
    long from = 3, to = 2;
    EFFECT(MUST(CALL(copy_file_range, fd, &from, other, &to, 4, 0)) == 4);
    EFFECT(from == 7 && to == 6 && at_offset(other, 2, "3456"));
}

/* -- descriptors -- */

CHECK(close, "the number is free")
{
    int fd = probe_memfd(0);
    MUST(CALL(close, fd));
    EFFECT(fcntl(fd, F_GETFD) == -1 && errno == EBADF);
}

CHECK(close, "a number that is not open is EBADF")
{
    ANSWERS(CALL(close, 777), EBADF);
}

CHECK(close_range, "closes a range")
{
    int fd = probe_memfd(0);
    NEED(dup2(fd, 101) == 101 && dup2(fd, 103) == 103 && dup2(fd, 105) == 105, "dup2");
    MUST(CALL(close_range, 101, 104, 0));
    EFFECT(fcntl(101, F_GETFD) == -1 && fcntl(103, F_GETFD) == -1 && fcntl(105, F_GETFD) == 0);
}

CHECK(close_range, "flags=CLOSE_RANGE_CLOEXEC")
{
    int fd = probe_memfd(0);
    NEED(dup2(fd, 101) == 101, "dup2");
    MUST(CALL(close_range, 101, 104, 4));
    EFFECT(fcntl(101, F_GETFD) == FD_CLOEXEC);
}

CHECK(close_range, "flags=CLOSE_RANGE_UNSHARE")
{
    int fd = probe_memfd(0);
    NEED(dup2(fd, 101) == 101, "dup2");
    MUST(CALL(close_range, 101, 104, 2));
    EFFECT(fcntl(101, F_GETFD) == -1);
}

CHECK(lseek, "whence=SEEK_SET")
{
    int fd = probe_file("f", "0123456789");
    EFFECT(MUST(CALL(lseek, fd, 7, SEEK_SET)) == 7 && says(fd, "789"));
}

CHECK(lseek, "whence=SEEK_CUR")
{
    int fd = probe_file("f", "0123456789");
    NEED(lseek(fd, 4, SEEK_SET) == 4, "lseek");
    EFFECT(MUST(CALL(lseek, fd, -2, SEEK_CUR)) == 2);
}

CHECK(lseek, "whence=SEEK_END")
{
    int fd = probe_file("f", "0123456789");
    EFFECT(MUST(CALL(lseek, fd, -3, SEEK_END)) == 7);
}

CHECK(lseek, "whence=SEEK_DATA")
{
    int fd = probe_memfd(1 << 20);
    NEED(pwrite(fd, "x", 1, 1 << 19) == 1, "pwrite");
    EFFECT(MUST(CALL(lseek, fd, 0, SEEK_DATA)) == 1 << 19);
}

CHECK(lseek, "whence=SEEK_HOLE")
{
    int fd = probe_memfd(1 << 20);
    NEED(pwrite(fd, "x", 1, 0) == 1, "pwrite");
    EFFECT(MUST(CALL(lseek, fd, 0, SEEK_HOLE)) == (long)PAGE);
}

CHECK(lseek, "a pipe is ESPIPE")
{
    int ends[2];
    probe_pipe(ends);
    ANSWERS(CALL(lseek, ends[0], 0, SEEK_CUR), ESPIPE);
}

CHECK(dup, "shares the position, takes the lowest number")
{
    int fd = probe_file("f", "0123456789");
    int copy = (int)MUST(CALL(dup, fd));
    NEED(lseek(fd, 6, SEEK_SET) == 6, "lseek");
    EFFECT(lseek(copy, 0, SEEK_CUR) == 6 && copy == fd + 1 && fcntl(copy, F_GETFD) == 0);
}

CHECK(dup2, "replaces what was there")
{
    int fd = probe_file("f", "0123456789"), ends[2];
    probe_pipe(ends);
    EFFECT(MUST(CALL(dup2, fd, ends[0])) == ends[0] && says(ends[0], "0123456789"));
}

CHECK(dup3, "flags=O_CLOEXEC")
{
    int fd = probe_memfd(0);
    EFFECT(MUST(CALL(dup3, fd, 99, O_CLOEXEC)) == 99 && fcntl(99, F_GETFD) == FD_CLOEXEC);
}

CHECK(dup3, "twice the same number is EINVAL")
{
    int fd = probe_memfd(0);
    ANSWERS(CALL(dup3, fd, fd, 0), EINVAL);
}

CHECK(pipe, "bytes go through")
{
    int ends[2];
    MUST(CALL(pipe, ends));
    NEED(write(ends[1], "abc", 3) == 3, "write");
    EFFECT(says(ends[0], "abc") && fcntl(ends[0], F_GETFD) == 0);
}

CHECK(pipe2, "flags=O_CLOEXEC")
{
    int ends[2];
    MUST(CALL(pipe2, ends, O_CLOEXEC));
    EFFECT(fcntl(ends[0], F_GETFD) == FD_CLOEXEC && fcntl(ends[1], F_GETFD) == FD_CLOEXEC);
}

CHECK(pipe2, "flags=O_NONBLOCK")
{
    int ends[2];
    char one;
    MUST(CALL(pipe2, ends, O_NONBLOCK));
    EFFECT(read(ends[0], &one, 1) == -1 && errno == EAGAIN);
}

CHECK(pipe2, "flags=O_DIRECT: a read ends with a write's bytes")
{
    int ends[2];
    MUST(CALL(pipe2, ends, O_DIRECT));
    NEED(write(ends[1], "ab", 2) == 2 && write(ends[1], "cd", 2) == 2, "write");
    EFFECT(says(ends[0], "ab") && says(ends[0], "cd"));
}

/* -- the file behind a descriptor -- */

CHECK(ftruncate, "shrinks a file")
{
    int fd = probe_file("f", "0123456789");
    MUST(CALL(ftruncate, fd, 4));
    EFFECT(probe_size(fd) == 4 && probe_holds("f", "0123"));
}

CHECK(ftruncate, "grows a file with zeros")
{
    int fd = probe_file("f", "0123");
    char rest[4] = "xxxx";
    MUST(CALL(ftruncate, fd, 8));
    EFFECT(probe_size(fd) == 8 && pread(fd, rest, 4, 4) == 4 && !memcmp(rest, "\0\0\0\0", 4));
}

CHECK(fallocate, "grows a file")
{
    int fd = probe_memfd(0);
    MUST(CALL(fallocate, fd, 0, 0, 2 * PAGE));
    EFFECT(probe_size(fd) == 2 * (long)PAGE);
}

CHECK(fallocate, "grows a file of a directory")
{
    int fd = probe_file("f", "0123456789");
    MUST_OR(CALL(fallocate, fd, 0, 0, 2 * PAGE), EOPNOTSUPP);
    EFFECT(probe_size(fd) == 2 * (long)PAGE && at_offset(fd, 0, "0123456789"));
}

CHECK(fallocate, "mode=FALLOC_FL_KEEP_SIZE")
{
    int fd = probe_memfd(10);
    MUST(CALL(fallocate, fd, FALLOC_FL_KEEP_SIZE, 0, 4 * PAGE));
    struct stat status;
    EFFECT(probe_size(fd) == 10 && fstat(fd, &status) == 0 && status.st_blocks >= 32);
}

CHECK(fallocate, "mode=FALLOC_FL_PUNCH_HOLE")
{
    int fd = probe_memfd(2 * PAGE);
    char byte = 1;
    NEED(pwrite(fd, "x", 1, 0) == 1 && pwrite(fd, "y", 1, PAGE) == 1, "pwrite");
    MUST(CALL(fallocate, fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE));
    EFFECT(pread(fd, &byte, 1, 0) == 1 && byte == 0 && at_offset(fd, PAGE, "y"));
}

CHECK(fallocate, "mode=FALLOC_FL_ZERO_RANGE: zeros, or the file system cannot")
{
    int fd = probe_file("f", "0123456789");
    char byte = 1;
    MUST_OR(CALL(fallocate, fd, FALLOC_FL_ZERO_RANGE, 0, 4), EOPNOTSUPP);
    EFFECT(pread(fd, &byte, 1, 0) == 1 && byte == 0 && at_offset(fd, 4, "456789"));
}

CHECK(fallocate, "mode=FALLOC_FL_COLLAPSE_RANGE: cut out, or the file system cannot")
{
    int fd = probe_file("f", "");
    NEED(ftruncate(fd, 1 << 20) == 0 && pwrite(fd, "y", 1, 1 << 19) == 1, "pwrite");
    MUST_OR(CALL(fallocate, fd, FALLOC_FL_COLLAPSE_RANGE, 0, 1 << 19), EOPNOTSUPP);
    EFFECT(probe_size(fd) == 1 << 19 && at_offset(fd, 0, "y"));
}

CHECK(fallocate, "mode=FALLOC_FL_INSERT_RANGE: put in between, or the file system cannot")
{
    int fd = probe_file("f", "");
    NEED(ftruncate(fd, 1 << 20) == 0 && pwrite(fd, "y", 1, 0) == 1, "pwrite");
    MUST_OR(CALL(fallocate, fd, FALLOC_FL_INSERT_RANGE, 0, 1 << 19), EOPNOTSUPP);
    EFFECT(probe_size(fd) == 3 << 19 && at_offset(fd, 1 << 19, "y"));
}

CHECK(fallocate, "mode=FALLOC_FL_WRITE_ZEROES: zeros, or the file system cannot")
{
    int fd = probe_file("f", "0123456789");
    char byte = 1;
    MUST_OR(CALL(fallocate, fd, 0x80, 0, 4), EOPNOTSUPP);
    EFFECT(pread(fd, &byte, 1, 0) == 1 && byte == 0);
}

static void flushes(long value, int fd)
{
    MUST(value);
    EFFECT(at_offset(fd, 0, "0123456789"));
}

CHECK(fsync, "the file stays readable")
{
    int fd = probe_file("f", "0123456789");
    flushes(CALL(fsync, fd), fd);
}

CHECK(fsync, "a pipe is EINVAL")
{
    int ends[2];
    probe_pipe(ends);
    ANSWERS(CALL(fsync, ends[1]), EINVAL);
}

CHECK(fdatasync, "the file stays readable")
{
    int fd = probe_file("f", "0123456789");
    flushes(CALL(fdatasync, fd), fd);
}

CHECK(sync_file_range, "flags=SYNC_FILE_RANGE_WRITE")
{
    int fd = probe_file("f", "0123456789");
    flushes(CALL(sync_file_range, fd, 0, 0, 2), fd);
}

CHECK(sync, "returns")
{
    MUST(CALL(sync));
}

CHECK(syncfs, "the file stays readable")
{
    int fd = probe_file("f", "0123456789");
    flushes(CALL(syncfs, fd), fd);
}

CHECK(readahead, "the file stays readable")
{
    int fd = probe_file("f", "0123456789");
    flushes(CALL(readahead, fd, 0, 10), fd);
}

CHECK(readahead, "a pipe is EINVAL")
{
    int ends[2];
    probe_pipe(ends);
    ANSWERS(CALL(readahead, ends[0], 0, 10), EINVAL, ESPIPE, EBADF);
}

static void advice(int which)
{
    int fd = probe_file("f", "0123456789");
    flushes(CALL(fadvise64, fd, 0, 0, which), fd);
}

CHECK(fadvise64, "advice=POSIX_FADV_NORMAL")
{
    advice(POSIX_FADV_NORMAL);
}
CHECK(fadvise64, "advice=POSIX_FADV_RANDOM")
{
    advice(POSIX_FADV_RANDOM);
}
CHECK(fadvise64, "advice=POSIX_FADV_SEQUENTIAL")
{
    advice(POSIX_FADV_SEQUENTIAL);
}
CHECK(fadvise64, "advice=POSIX_FADV_WILLNEED")
{
    advice(POSIX_FADV_WILLNEED);
}
CHECK(fadvise64, "advice=POSIX_FADV_DONTNEED")
{
    advice(POSIX_FADV_DONTNEED);
}
CHECK(fadvise64, "advice=POSIX_FADV_NOREUSE")
{
    advice(POSIX_FADV_NOREUSE);
}

CHECK(fadvise64, "a pipe is ESPIPE")
{
    int ends[2];
    probe_pipe(ends);
    ANSWERS(CALL(fadvise64, ends[0], 0, 0, POSIX_FADV_NORMAL), ESPIPE);
}

CHECK(cachestat, "counts the page that was just written")
{
    int fd = probe_file("f", "0123456789");
    uint64_t range[2] = {0, 0}, counts[5] = {0};
    MUST(CALL(cachestat, fd, range, counts, 0));
    EFFECT(counts[0] >= 1);
}

/* -- locks of open files -- */

static void flock_against(int mine, int other, int expected)
{
    NEED(close(probe_file("f", "")) == 0, "close");
    int first = open("f", O_RDWR | O_CLOEXEC), second = open("f", O_RDWR | O_CLOEXEC);
    NEED(first >= 0 && second >= 0, "open");
    MUST(CALL(flock, first, mine));
    EFFECT(flock(second, other | LOCK_NB) == (expected ? -1 : 0) && (!expected || errno == expected));
}

CHECK(flock, "cmd=LOCK_EX: another open file has to wait")
{
    flock_against(LOCK_EX, LOCK_EX, EAGAIN);
}

CHECK(flock, "cmd=LOCK_SH: shared with another open file")
{
    flock_against(LOCK_SH, LOCK_SH, 0);
}

CHECK(flock, "cmd=LOCK_UN")
{
    NEED(close(probe_file("f", "")) == 0, "close");
    int first = open("f", O_RDWR | O_CLOEXEC), second = open("f", O_RDWR | O_CLOEXEC);
    NEED(first >= 0 && second >= 0 && flock(first, LOCK_EX) == 0, "flock");
    MUST(CALL(flock, first, LOCK_UN));
    EFFECT(flock(second, LOCK_EX | LOCK_NB) == 0);
}

CHECK(flock, "cmd=LOCK_NB: EAGAIN instead of waiting")
{
    NEED(close(probe_file("f", "")) == 0, "close");
    int first = open("f", O_RDWR | O_CLOEXEC), second = open("f", O_RDWR | O_CLOEXEC);
    NEED(first >= 0 && second >= 0 && flock(first, LOCK_EX) == 0, "flock");
    ANSWERS(CALL(flock, second, LOCK_EX | LOCK_NB), EAGAIN);
}

/* -- descriptors without a name -- */

CHECK(eventfd, "adds up")
{
    int fd = (int)MUST(CALL(eventfd, 5));
    uint64_t more = 3, sum = 0;
    NEED(write(fd, &more, 8) == 8, "write");
    EFFECT(read(fd, &sum, 8) == 8 && sum == 8);
}

CHECK(eventfd2, "flags=EFD_SEMAPHORE")
{
    int fd = (int)MUST(CALL(eventfd2, 2, 1));
    uint64_t one = 0;
    EFFECT(read(fd, &one, 8) == 8 && one == 1 && read(fd, &one, 8) == 8 && one == 1);
}

CHECK(eventfd2, "flags=EFD_NONBLOCK")
{
    int fd = (int)MUST(CALL(eventfd2, 0, O_NONBLOCK));
    uint64_t sum;
    EFFECT(read(fd, &sum, 8) == -1 && errno == EAGAIN);
}

CHECK(eventfd2, "flags=EFD_CLOEXEC")
{
    EFFECT(fcntl((int)MUST(CALL(eventfd2, 0, O_CLOEXEC)), F_GETFD) == FD_CLOEXEC);
}

static uint64_t block_usr1(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    NEED(sigprocmask(SIG_BLOCK, &set, NULL) == 0, "sigprocmask");
    return 1UL << (SIGUSR1 - 1);
}

static bool reads_own_signal(int fd)
{
    struct signalfd_siginfo info = {0};
    NEED(raise(SIGUSR1) == 0, "raise");
    NEED(read(fd, &info, sizeof info) == sizeof info, "read");
    return info.ssi_signo == SIGUSR1 && info.ssi_pid == (unsigned)getpid();
}

CHECK(signalfd, "a blocked signal is read")
{
    uint64_t mask = block_usr1();
    EFFECT(reads_own_signal((int)MUST(CALL(signalfd, -1, &mask, 8))));
}

CHECK(signalfd4, "flags=SFD_CLOEXEC: a blocked signal is read")
{
    uint64_t mask = block_usr1();
    int fd = (int)MUST(CALL(signalfd4, -1, &mask, 8, SFD_CLOEXEC));
    EFFECT(reads_own_signal(fd) && fcntl(fd, F_GETFD) == FD_CLOEXEC);
}

CHECK(signalfd4, "flags=SFD_NONBLOCK")
{
    uint64_t mask = block_usr1();
    int fd = (int)MUST(CALL(signalfd4, -1, &mask, 8, SFD_NONBLOCK));
    char info[128];
    EFFECT(read(fd, info, sizeof info) == -1 && errno == EAGAIN);
}

CHECK(memfd_create, "a file without a name")
{
    int fd = (int)MUST(CALL(memfd_create, "probe", 0));
    NEED(write(fd, "abc", 3) == 3, "write");
    EFFECT(probe_size(fd) == 3 && at_offset(fd, 0, "abc") && fcntl(fd, F_GETFD) == 0);
}

CHECK(memfd_create, "flags=MFD_CLOEXEC")
{
    EFFECT(fcntl((int)MUST(CALL(memfd_create, "probe", MFD_CLOEXEC)), F_GETFD) == FD_CLOEXEC);
}

CHECK(memfd_create, "flags=MFD_ALLOW_SEALING: a sealed file does not shrink")
{
    int fd = (int)MUST(CALL(memfd_create, "probe", MFD_ALLOW_SEALING));
    NEED(ftruncate(fd, 10) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0, "F_ADD_SEALS");
    EFFECT(ftruncate(fd, 5) == -1 && errno == EPERM && ftruncate(fd, 20) == 0);
}

CHECK(memfd_create, "flags=MFD_NOEXEC_SEAL: not executable, for good")
{
    int fd = (int)MUST(CALL(memfd_create, "probe", 8));
    struct stat status;
    NEED(fstat(fd, &status) == 0, "fstat");
    EFFECT((status.st_mode & 0111) == 0 && fchmod(fd, 0777) == -1 && errno == EPERM);
}

CHECK(memfd_create, "flags=MFD_EXEC")
{
    int fd = (int)MUST(CALL(memfd_create, "probe", 16));
    struct stat status;
    NEED(fstat(fd, &status) == 0, "fstat");
    EFFECT((status.st_mode & 0111) == 0111);
}

CHECK(memfd_create, "flags=MFD_HUGETLB: a file of huge pages, or none")
{
    MUST_OR(CALL(memfd_create, "probe", MFD_HUGETLB), ENOMEM, EINVAL, ENODEV);
}
