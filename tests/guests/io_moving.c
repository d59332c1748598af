/* build: io_moving -pthread
 *
 * Moving bytes without a name: pipes and their sizes, splice and its kin, asynchronous requests, memory files and seals.
 */
#include "step.h"
#include <linux/aio_abi.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

static char text[65536];

static void pipes(void) {
    int ends[2];
    STEP(pipe2(ends, O_NONBLOCK | O_CLOEXEC));
    STEP(fcntl(ends[0], F_SETPIPE_SZ, 8192));
    STEP(fcntl(ends[0], F_SETPIPE_SZ, 5000));
    STEP(write(ends[1], text, 65536));
    STEP(write(ends[1], text, 1));
    STEP(fcntl(ends[0], F_SETPIPE_SZ, 4096));
    int waiting;
    STEP(ioctl(ends[0], FIONREAD, &waiting));
    say("waiting %d", waiting);
    STEP(fcntl(ends[1], F_SETPIPE_SZ, 1 << 30));
    STEP(read(ends[0], text, 65536));
    STEP(read(ends[0], text, 1));
    STEP(write(ends[0], text, 1));
    STEP(read(ends[1], text, 1));
    STEP(lseek(ends[0], 0, SEEK_CUR));
    STEP(pread(ends[0], text, 1, 0));
    STEP(fsync(ends[0]));
    close(ends[0]), close(ends[1]);
    STEP(pipe2(ends, O_DIRECT | O_NONBLOCK)); /* packets */
    STEP(write(ends[1], "first", 5));
    STEP(write(ends[1], "second", 6));
    STEP(read(ends[0], text, 3)); /* the rest of a packet is lost */
    STEP(read(ends[0], text, 100));
    close(ends[0]), close(ends[1]);
    STEP(pipe2(ends, O_APPEND));
    struct iovec parts[2] = {{"ab", 2}, {"cde", 3}};
    MUST(pipe(ends));
    STEP(writev(ends[1], parts, 2));
    STEP(preadv2(ends[0], parts, 0, -1, RWF_NOWAIT));
    close(ends[0]), close(ends[1]);
}

static void splices(void) {
    int a[2], b[2], file = MUST(open("data", O_RDWR | O_CREAT, 0600)), to = MUST(open("copy", O_RDWR | O_CREAT, 0600));
    MUST(pipe2(a, O_NONBLOCK));
    MUST(pipe2(b, O_NONBLOCK));
    MUST(write(file, "0123456789", 10));
    off_t at = 2, out = 1;
    STEP(splice(file, &at, a[1], NULL, 4, 0));
    say("offset %ld", (long)at);
    STEP(tee(a[0], b[1], 100, 0));
    STEP(splice(a[0], NULL, to, &out, 100, 0));
    STEP(splice(b[0], NULL, a[1], NULL, 100, SPLICE_F_MOVE));
    STEP(read(a[0], text, 100));
    say("%.4s", text);
    STEP(splice(a[0], NULL, to, NULL, 1, SPLICE_F_NONBLOCK));
    STEP(splice(file, NULL, to, NULL, 1, 0));
    STEP(splice(a[0], &at, to, NULL, 1, 0));
    STEP(splice(a[0], NULL, a[1], NULL, 1, 0));
    STEP(tee(file, a[1], 1, 0));
    STEP(tee(a[0], a[1], 1, 0));
    struct iovec part = {"gift", 4};
    STEP(vmsplice(a[1], &part, 1, 0));
    part.iov_base = text;
    STEP(vmsplice(a[0], &part, 1, 0));
    say("%.4s", text);
    at = 0;
    STEP(sendfile(to, file, &at, 6));
    STEP(sendfile(a[1], file, NULL, 6));
    STEP(lseek(file, 0, SEEK_SET));
    STEP(sendfile(a[1], file, NULL, 100));
    STEP(sendfile(a[1], b[0], NULL, 1));
    STEP(copy_file_range(file, &(off_t){0}, to, &(off_t){20}, 5, 0));
    STEP(copy_file_range(file, NULL, a[1], NULL, 5, 0));
    STEP(lseek(to, 0, SEEK_END));
    close(a[0]), close(a[1]), close(b[0]), close(b[1]), close(file), close(to);
}

static long submit(aio_context_t queue, struct iocb *one) { return syscall(SYS_io_submit, queue, 1, &one); }

static void requests(void) {
    aio_context_t queue = 0;
    struct io_event done[4];
    char buffer[16] = "";
    int file = MUST(open("data", O_RDWR)), counter = MUST(eventfd(0, EFD_NONBLOCK));
    STEP(syscall(SYS_io_setup, 8, &queue));
    STEP(syscall(SYS_io_setup, 8, &queue));
    struct iocb read_it = {.aio_data = 1, .aio_lio_opcode = IOCB_CMD_PREAD, .aio_fildes = file, .aio_buf = (uintptr_t)buffer,
                           .aio_nbytes = 4, .aio_offset = 3, .aio_flags = IOCB_FLAG_RESFD, .aio_resfd = counter};
    STEP(submit(queue, &read_it));
    STEP(syscall(SYS_io_getevents, queue, 1, 4, done, NULL));
    say("data %d result %d: %s", (int)done[0].data, (int)done[0].res, buffer);
    uint64_t value = 0;
    STEP(read(counter, &value, 8));
    struct iocb write_it = {.aio_data = 2, .aio_lio_opcode = IOCB_CMD_PWRITE, .aio_fildes = file, .aio_buf = (uintptr_t)"AIO",
                            .aio_nbytes = 3, .aio_offset = 10};
    STEP(submit(queue, &write_it));
    sigset_t none;
    sigemptyset(&none);
    struct { sigset_t *set; size_t size; } mask = {&none, 8};
    STEP(syscall(SYS_io_pgetevents, queue, 1, 4, done, NULL, &mask));
    say("data %d result %d", (int)done[0].data, (int)done[0].res);
    int ends[2];
    MUST(pipe(ends));
    struct iocb poll_it = {.aio_data = 3, .aio_lio_opcode = IOCB_CMD_POLL, .aio_fildes = ends[0], .aio_buf = POLLIN};
    STEP(submit(queue, &poll_it));
    STEP(syscall(SYS_io_getevents, queue, 0, 4, done, NULL));
    MUST(write(ends[1], "x", 1));
    STEP(syscall(SYS_io_getevents, queue, 1, 4, done, NULL));
    say("data %d result %x", (int)done[0].data, (int)done[0].res);
    struct iocb sync_it = {.aio_data = 4, .aio_lio_opcode = IOCB_CMD_FSYNC, .aio_fildes = file};
    STEP(submit(queue, &sync_it));
    STEP(syscall(SYS_io_getevents, queue, 1, 4, done, NULL));
    say("data %d result %d", (int)done[0].data, (int)done[0].res);
    struct iocb bad = {.aio_lio_opcode = 77, .aio_fildes = file};
    STEP(submit(queue, &bad));
    bad = read_it, bad.aio_fildes = 999;
    STEP(submit(queue, &bad));
    STEP(syscall(SYS_io_submit, queue, 1, (void *)8));
    STEP(syscall(SYS_io_submit, queue, -1, &(void *){NULL}));
    STEP(syscall(SYS_io_cancel, queue, &read_it, done));
    STEP(syscall(SYS_io_getevents, queue, 2, 1, done, NULL));
    STEP(syscall(SYS_io_destroy, queue));
    STEP(syscall(SYS_io_destroy, queue));
    STEP(syscall(SYS_io_setup, 0, &(aio_context_t){0}));
    close(file), close(counter), close(ends[0]), close(ends[1]);
}

static void memory_files(void) {
    int fd = STEP(memfd_create("a label", MFD_ALLOW_SEALING | MFD_CLOEXEC));
    STEP(ftruncate(fd, 8192));
    STEP(write(fd, "content", 7));
    struct stat st;
    STEP(fstat(fd, &st));
    say("mode %o links %d size %ld", st.st_mode, (int)st.st_nlink, (long)st.st_size);
    STEP(fcntl(fd, F_GET_SEALS));
    STEP(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
    STEP(ftruncate(fd, 100));
    STEP(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW));
    STEP(ftruncate(fd, 100000));
    STEP(pwrite(fd, "x", 1, 8192));
    char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    say("%.7s", map);
    STEP(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
    STEP(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE));
    map[0] = 'C';
    STEP(pwrite(fd, "x", 1, 0));
    STEP(munmap(map, 4096));
    STEP(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
    STEP(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
    STEP(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096));
    STEP(fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL));
    STEP(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
    say("seals %x", fcntl(fd, F_GET_SEALS));
    char link[64], name[64] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    STEP(readlink(link, name, sizeof name - 1));
    say("%s", name);
    int again = STEP(open(link, O_RDONLY) >= 0);
    again = MUST(open(link, O_RDONLY));
    STEP(pread(again, text, 7, 0));
    say("%.7s", text);
    int plain = MUST(memfd_create("", 0));
    STEP(fcntl(plain, F_ADD_SEALS, F_SEAL_WRITE));
    STEP(memfd_create("x", 0x7700));
    close(fd), close(again), close(plain);
    int listing = MUST(open("data", O_RDONLY));
    STEP(fcntl(listing, F_GET_SEALS));
    close(listing);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    pipes();
    splices();
    requests();
    memory_files();
    return 0;
}
