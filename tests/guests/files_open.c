/* build: files_open
 *
 * open(2) and its flags, one line per call. Runs in an empty current directory.
 */
#include "step.h"

#include <sys/resource.h>

static void flags_of(const char *label, int fd) {
    /* O_LARGEFILE is forced on by 64-bit kernels and says nothing. */
    say("%s: fd %d status %x descriptor %d", label, fd, fcntl(fd, F_GETFL) & ~0100000, fcntl(fd, F_GETFD));
}

static void creation(void) {
    umask(022);
    STEP(open("missing", O_RDONLY));
    STEP(open("", O_RDONLY));
    STEP(open("", O_WRONLY | O_CREAT, 0644));
    STEP(open("new", O_WRONLY | O_CREAT, 0644));
    STEP(write(3, "hello world", 11));
    STEP(close(3));
    STEP(close(3));
    STEP(open("new", O_WRONLY | O_CREAT | O_EXCL, 0644));
    STEP(open("new", O_RDONLY | O_CREAT, 0600));
    STEP(close(3));
    STEP(open("new/below", O_RDONLY));
    STEP(open("new/", O_RDONLY));
    STEP(open("new/.", O_RDONLY));
    STEP(open("none/below", O_RDONLY | O_CREAT, 0600));
    STEP(open("slash/", O_RDONLY | O_CREAT, 0600));
    STEP(open("excl", O_RDONLY | O_CREAT | O_EXCL, 0400));
    STEP(write(3, "x", 1));
    STEP(close(3));
    STEP(open("excl", O_WRONLY));
    STEP(open("excl", O_RDWR));
    STEP(open("excl", O_RDONLY | O_TRUNC));
    STEP(open("write_only_create", O_RDWR | O_CREAT, 0)); /* the mode counts from the next open on */
    STEP(write(3, "abc", 3));
    STEP(close(3));
    STEP(open("write_only_create", O_RDONLY));
    STEP(creat("made", 0666));
    STEP(close(3));
    umask(077);
    STEP(close(creat("masked", 0666)));
    umask(022);
    STEP(close(open("sticky_bits", O_CREAT | O_WRONLY, 07777)));
    struct stat st;
    STEP(stat("sticky_bits", &st));
    say("mode %o", st.st_mode);
}

static void truncation(void) {
    struct stat st;
    put_text("t", "0123456789", 0644);
    STEP(open("t", O_WRONLY));
    STEP(close(3));
    MUST(stat("t", &st));
    say("size %ld", (long)st.st_size);
    STEP(open("t", O_WRONLY | O_TRUNC));
    MUST(fstat(3, &st));
    say("size %ld", (long)st.st_size);
    STEP(close(3));
    put_text("t", "0123456789", 0644);
    STEP(open("t", O_RDONLY | O_TRUNC));
    MUST(fstat(3, &st));
    say("size %ld", (long)st.st_size);
    STEP(close(3));
    STEP(open(".", O_RDONLY | O_TRUNC));
    STEP(open(".", O_WRONLY));
    STEP(open(".", O_RDONLY | O_CREAT, 0600));
    STEP(open("/dev/null", O_WRONLY | O_TRUNC));
    STEP(write(3, "lost", 4));
    STEP(close(3));
}

static void directories_and_links(void) {
    char byte;
    STEP(mkdir("d", 0755));
    STEP(open("d", O_RDONLY));
    STEP(read(3, &byte, 1));
    STEP(write(3, "x", 1));
    STEP(close(3));
    STEP(open("d", O_RDONLY | O_DIRECTORY));
    STEP(close(3));
    STEP(open("d", O_RDWR));
    STEP(open("d/", O_WRONLY | O_CREAT, 0600));
    STEP(open("new", O_RDONLY | O_DIRECTORY));
    STEP(open("missing", O_RDONLY | O_DIRECTORY));
    STEP(open("d2", O_RDONLY | O_DIRECTORY | O_CREAT, 0700));
    STEP(symlink("new", "link"));
    STEP(symlink("absent", "dangling"));
    STEP(symlink("self", "self"));
    STEP(symlink("d", "link_to_d"));
    STEP(open("link", O_RDONLY));
    STEP(close(3));
    STEP(open("link", O_RDONLY | O_NOFOLLOW));
    STEP(open("link_to_d", O_RDONLY | O_NOFOLLOW | O_DIRECTORY));
    STEP(close(open("link_to_d/", O_RDONLY | O_NOFOLLOW)));
    STEP(open("link", O_WRONLY | O_CREAT | O_EXCL, 0600));
    STEP(open("dangling", O_RDONLY));
    STEP(open("dangling", O_WRONLY | O_CREAT | O_EXCL, 0600));
    STEP(close(open("dangling", O_WRONLY | O_CREAT, 0600)));
    STEP(access("absent", F_OK));
    STEP(open("self", O_RDONLY));
    STEP(open("self", O_RDONLY | O_NOFOLLOW));
    STEP(open("self", O_WRONLY | O_CREAT, 0600));
    STEP(open("link", O_PATH | O_NOFOLLOW));
    flags_of("path of a link", 3);
    struct stat st;
    STEP(fstat(3, &st));
    say("is a link %d", S_ISLNK(st.st_mode));
    STEP(read(3, &byte, 1));
    char target[20] = {0};
    STEP(readlinkat(3, "", target, sizeof target));
    say("target %s", target);
    STEP(close(3));
}

static void status_flags(void) {
    flags_of("rdonly", open("new", O_RDONLY));
    flags_of("wronly", open("new", O_WRONLY | O_APPEND));
    flags_of("rdwr", open("new", O_RDWR | O_NONBLOCK | O_CLOEXEC));
    flags_of("sync", open("new", O_RDWR | O_DSYNC));
    flags_of("path", open("new", O_PATH | O_CLOEXEC));
    flags_of("noatime", open("new", O_RDONLY | O_NOATIME));
    flags_of("creat is gone", open("new", O_RDWR | O_CREAT | O_NOCTTY, 0600));
    flags_of("directory", open("d", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    STEP(close(5));
    STEP(open("new", O_RDONLY)); /* the lowest free number */
    for (int fd = 3; fd < 12; fd++)
        close(fd);
    STEP(open("new", 3)); /* neither read nor write: Linux wants both permissions and gives neither */
    char byte;
    STEP(read(3, &byte, 1));
    STEP(write(3, "x", 1));
    STEP(close(3));
    STEP(open("new", O_RDONLY | 0x40000000)); /* unknown flags are ignored by open */
    STEP(close(3));
    flags_of("nofollow", open("new", O_RDONLY | O_NOFOLLOW));
    flags_of("nofollow, again", open("new", O_RDWR | O_NOFOLLOW | O_CREAT, 0644));
    put_text("truncated", "text", 0644);
    flags_of("nofollow, truncated", open("truncated", O_WRONLY | O_NOFOLLOW | O_TRUNC));
    flags_of("nofollow, truncated for reading", open("truncated", O_RDONLY | O_NOFOLLOW | O_TRUNC));
    struct stat st;
    MUST(stat("truncated", &st));
    say("size %ld", (long)st.st_size);
    flags_of("nofollow, directory", open("d", O_RDONLY | O_NOFOLLOW));
    flags_of("nofollow, directory again", open("d", O_RDONLY | O_NOFOLLOW | O_DIRECTORY));
    flags_of("device", open("/dev/null", O_WRONLY));
    flags_of("nofollow, device", open("/dev/null", O_WRONLY | O_NOFOLLOW));
    for (int fd = 3; fd < 12; fd++)
        close(fd);
    put_text("kept", "text", 0644);
    struct rlimit few = {3, 64};
    MUST(setrlimit(RLIMIT_NOFILE, &few)); /* Linux looks for a free descriptor before it makes or truncates anything */
    STEP(open("kept", O_WRONLY | O_TRUNC));
    STEP(open("no-room", O_WRONLY | O_CREAT, 0644));
    STEP(open("no-room", O_WRONLY | O_CREAT | O_EXCL, 0644));
    STEP(open("none/no-room", O_WRONLY | O_CREAT, 0644));
    STEP(open("", O_WRONLY | O_CREAT, 0644));
    few.rlim_cur = 64;
    MUST(setrlimit(RLIMIT_NOFILE, &few));
    STEP(access("no-room", F_OK));
    MUST(stat("kept", &st));
    say("size %ld", (long)st.st_size);
    int high = fcntl(0, F_DUPFD, 10);
    few.rlim_cur = 4;
    MUST(setrlimit(RLIMIT_NOFILE, &few)); /* four are open, and one below the limit is free */
    STEP(close(open("room", O_WRONLY | O_CREAT | O_EXCL, 0644)));
    few.rlim_cur = 64;
    MUST(setrlimit(RLIMIT_NOFILE, &few));
    MUST(close(high));
}

static void temporary_files(void) {
    STEP(open(".", O_TMPFILE | O_RDONLY, 0600));
    STEP(open("new", O_TMPFILE | O_RDWR, 0600));
    STEP(open("missing", O_TMPFILE | O_RDWR, 0600));
    STEP(open("d", O_TMPFILE | O_RDWR, 0640));
    STEP(write(3, "unnamed", 7));
    struct stat st;
    STEP(fstat(3, &st));
    say("nlink %lu size %ld mode %o", (unsigned long)st.st_nlink, (long)st.st_size, st.st_mode);
    STEP(linkat(AT_FDCWD, "/proc/self/fd/3", AT_FDCWD, "d/named", AT_SYMLINK_FOLLOW));
    STEP(fstat(3, &st));
    say("nlink %lu", (unsigned long)st.st_nlink);
    STEP(close(3));
    STEP(open("d", O_TMPFILE | O_RDWR | O_EXCL, 0640));
    STEP(linkat(AT_FDCWD, "/proc/self/fd/3", AT_FDCWD, "d/never", AT_SYMLINK_FOLLOW));
    STEP(close(3));
}

static void relative_to_descriptors(void) {
    put_text("d/inside", "inside", 0644);
    STEP(open("d", O_PATH));
    STEP(openat(3, "inside", O_RDONLY));
    STEP(close(4));
    STEP(openat(3, "../new", O_RDONLY));
    STEP(close(4));
    STEP(openat(3, "", O_RDONLY));
    STEP(openat(3, ".", O_RDONLY));
    STEP(close(4));
    STEP(openat(3, "made_here", O_CREAT | O_RDWR, 0600));
    STEP(close(4));
    STEP(close(3));
    STEP(openat(3, "inside", O_RDONLY));
    STEP(openat(3, "/dev/null", O_RDONLY)); /* an absolute name never looks at the descriptor */
    STEP(close(3));
    STEP(open("new", O_RDONLY));
    STEP(openat(3, "inside", O_RDONLY));
    STEP(close(3));
    STEP(openat(-5, "inside", O_RDONLY));
    STEP(openat(-5, "", O_RDONLY));
}

static void many_descriptors(void) {
    int last = -1, count = 0;
    for (int fd; count < 300 && (fd = open("new", O_RDONLY)) >= 0; count++)
        last = fd;
    say("%d opened, last %d", count, last);
    for (int fd = 3; fd <= last; fd++)
        close(fd);
}

int main(void) {
    creation();
    truncation();
    directories_and_links();
    status_flags();
    temporary_files();
    relative_to_descriptors();
    many_descriptors();
    return 0;
}
