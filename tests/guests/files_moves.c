/* build: files_moves
 *
 * Bytes that move between descriptors without the program touching them, hints about caches, and clones.
 */
#include "step.h"

#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

static void content(const char *path) {
    size_t size;
    char *data = get_file(path, &size);
    struct stat st;
    MUST(stat(path, &st));
    unsigned sum = 0;
    for (size_t i = 0; i < size; i++)
        sum = sum * 31 + (unsigned char)data[i];
    say("%s: %ld bytes, sum %08x", path, (long)st.st_size, sum);
    free(data);
}

int main(void) {
    char text[10000];
    for (unsigned i = 0; i < sizeof text; i++)
        text[i] = 'a' + i % 26;
    put_file("source", text, sizeof text, 0644);
    put_text("target", "", 0644);
    put_text("empty", "", 0644);
    int in = MUST(open("source", O_RDONLY)), out = MUST(open("target", O_RDWR)), append = MUST(open("target", O_WRONLY | O_APPEND));
    int path = MUST(open("source", O_PATH)), dir = MUST(open(".", O_RDONLY | O_DIRECTORY));
    int ends[2], more[2];
    MUST(pipe(ends));
    MUST(pipe(more));
    loff_t from, to;

    say("-- copy_file_range");
    STEP(copy_file_range(in, NULL, out, NULL, 3000, 0));
    from = 9000, to = 100;
    STEP(copy_file_range(in, &from, out, &to, 3000, 0));
    say("offsets %ld %ld, positions %ld %ld", (long)from, (long)to, (long)lseek(in, 0, SEEK_CUR), (long)lseek(out, 0, SEEK_CUR));
    STEP(copy_file_range(in, &from, out, &to, 10, 0));
    STEP(copy_file_range(in, NULL, out, NULL, 10, 1));
    STEP(copy_file_range(out, NULL, in, NULL, 10, 0));
    STEP(copy_file_range(in, NULL, append, NULL, 10, 0));
    STEP(copy_file_range(ends[0], NULL, out, NULL, 10, 0));
    STEP(copy_file_range(dir, NULL, out, NULL, 10, 0));
    STEP(copy_file_range(path, NULL, out, NULL, 10, 0));
    STEP(copy_file_range(-1, NULL, out, NULL, 10, 0));
    from = 0, to = 10;
    STEP(copy_file_range(out, &from, out, &to, 100, 0));
    from = -1;
    STEP(copy_file_range(in, &from, out, NULL, 10, 0));
    content("target");

    say("-- sendfile");
    MUST(lseek(out, 0, SEEK_SET));
    MUST(lseek(in, 0, SEEK_SET));
    STEP(sendfile(out, in, NULL, 5000));
    off_t at = 9990;
    STEP(sendfile(out, in, &at, 5000));
    say("offset %ld position %ld", (long)at, (long)lseek(in, 0, SEEK_CUR));
    STEP(sendfile(out, ends[0], NULL, 10));
    STEP(sendfile(in, out, NULL, 10));
    STEP(sendfile(append, in, NULL, 10));
    STEP(sendfile(ends[1], in, &(off_t){0}, 100));
    STEP(read(ends[0], text, sizeof text));
    STEP(sendfile(out, dir, NULL, 10));
    STEP(sendfile(out, -1, NULL, 10));
    at = -5;
    STEP(sendfile(out, in, &at, 10));
    content("target");

    say("-- splice, tee, vmsplice");
    from = 100;
    STEP(splice(in, &from, ends[1], NULL, 400, 0));
    STEP(tee(ends[0], more[1], 200, 0));
    STEP(tee(ends[0], more[1], 200, 8));
    STEP(tee(in, more[1], 200, 0));
    STEP(tee(ends[0], ends[1], 200, 0));
    to = 50;
    STEP(splice(ends[0], NULL, out, &to, 300, 0));
    STEP(splice(ends[0], NULL, out, NULL, 300, SPLICE_F_NONBLOCK));
    STEP(splice(ends[0], NULL, out, NULL, 300, SPLICE_F_NONBLOCK));
    STEP(splice(ends[0], NULL, append, NULL, 300, SPLICE_F_NONBLOCK));
    STEP(splice(in, NULL, out, NULL, 10, 0));
    STEP(splice(ends[0], &from, out, NULL, 10, 0));
    STEP(splice(in, NULL, ends[1], NULL, 10, 0x100));
    STEP(splice(dir, NULL, ends[1], NULL, 10, 0));
    struct iovec iov = {text, 64};
    STEP(vmsplice(more[1], &iov, 1, 0));
    STEP(vmsplice(in, &iov, 1, 0));
    STEP(vmsplice(more[1], &iov, 1, 0x100));
    STEP(read(more[0], text, sizeof text));
    content("target");

    say("-- clones and ranges");
    int clone = MUST(open("clone", O_RDWR | O_CREAT, 0644));
    struct file_clone_range range = {.src_fd = in, .src_length = 10, .dest_offset = 1};
    STEP(ioctl(clone, FICLONE, -1));
    STEP(ioctl(in, FICLONE, out));
    STEP(ioctl(clone, FICLONE, ends[0]));
    STEP(ioctl(clone, FICLONE, dir));
    STEP(ioctl(-1, FICLONE, in));
    range.src_fd = -1;
    STEP(ioctl(clone, FICLONERANGE, &range));
    int version = 0;
    STEP(ioctl(ends[0], FS_IOC_GETVERSION, &version));
    STEP(ioctl(dir, FIONREAD, &version));
    MUST(lseek(in, 100, SEEK_SET));
    STEP(ioctl(in, FIONREAD, &version));
    say("left %d", version);
    STEP(ioctl(in, FIGETBSZ, &version));
    say("block size sensible %d", version >= 512 && version % 512 == 0);
    STEP(ioctl(in, 0x8004f50c, &version)); /* F2FS_IOC_GET_FEATURES: SQLite asks every database file */

    say("-- hints");
    STEP(posix_fadvise(in, 0, 100, POSIX_FADV_WILLNEED));
    STEP(posix_fadvise(in, 0, 0, 99));
    STEP(posix_fadvise(in, 0, -1, POSIX_FADV_NORMAL));
    STEP(posix_fadvise(ends[0], 0, 0, POSIX_FADV_NORMAL));
    STEP(posix_fadvise(-1, 0, 0, POSIX_FADV_NORMAL));
    STEP(readahead(in, 0, 100));
    STEP(readahead(out, 0, 100));
    STEP(readahead(append, 0, 100));
    STEP(readahead(dir, 0, 100));
    STEP(readahead(ends[0], 0, 100));
    STEP(sync_file_range(out, 0, 0, SYNC_FILE_RANGE_WRITE));
    STEP(sync_file_range(out, -1, 0, SYNC_FILE_RANGE_WRITE));
    STEP(sync_file_range(out, 0, 0, 0x100));
    STEP(sync_file_range(ends[0], 0, 0, 0));
    STEP(fsync(out));
    STEP(fdatasync(in));
    STEP(fsync(dir));
    STEP(fsync(ends[0]));
    STEP(fsync(path));
    STEP(syncfs(dir));
    STEP(syncfs(-1));
    STEP(fallocate(out, 0, 0, 20000));
    STEP(fallocate(out, FALLOC_FL_KEEP_SIZE, 0, 40000));
    STEP(fallocate(in, 0, 0, 100));
    STEP(fallocate(out, 0, -1, 100));
    STEP(fallocate(out, 0, 0, 0));
    STEP(fallocate(ends[1], 0, 0, 10));
    STEP(ftruncate(out, 7));
    STEP(ftruncate(in, 7));
    STEP(ftruncate(out, -1));
    STEP(ftruncate(path, 7));
    content("target");
    return 0;
}
