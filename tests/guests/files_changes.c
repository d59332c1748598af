/* build: files_changes
 *
 * Plain files come and go in a few directories, again and again, as for untar, rm -r and git checkout; in between, what
 * is not plain: links, directories, names that are taken, modes that forbid. Every answer and every attribute is shown.
 * Run with a number it makes a random sequence of such steps, the same for the same number.
 */
#include "step.h"

#include <sys/resource.h>

static const char *const DIRS[] = {"d", "d/e", "f"};
static const char *const NAMES[] = {"a", "b", "c.txt", "link", "sub", "long-name-of-a-file"};
static uint64_t state;

static unsigned any(unsigned below) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(state >> 33) % below;
}

static void show(const char *path) {
    struct stat st;
    if (lstat(path, &st) < 0) {
        say("%s: %s", path, errname(errno));
        return;
    }
    long size = S_ISDIR(st.st_mode) ? -1 : (long)st.st_size;
    say("%s: mode %o, links %ld, size %ld, owner %d, group %d", path, st.st_mode, S_ISDIR(st.st_mode) ? 0 : (long)st.st_nlink,
        size, st.st_uid == getuid(), st.st_gid == getgid());
}

static void show_times(int fd) {
    struct stat st;
    MUST(fstat(fd, &st));
    say("atime %ld.%ld mtime %ld.%ld", (long)st.st_atime < 2000000 ? (long)st.st_atime : -1L,
        (long)st.st_atime < 2000000 ? (long)st.st_atim.tv_nsec : -1L, (long)st.st_mtime < 2000000 ? (long)st.st_mtime : -1L,
        (long)st.st_mtime < 2000000 ? (long)st.st_mtim.tv_nsec : -1L);
}

static void one_file(const char *path, int flags, mode_t mode) {
    int fd = open(path, flags, mode);
    say("open(%s, %#x, %o): %s, flags %#x", path, flags, mode, fd < 0 ? errname(errno) : "done",
        fd < 0 ? 0 : fcntl(fd, F_GETFL) & ~O_NOFOLLOW);
    if (fd < 0)
        return;
    show(path);
    if (flags & (O_WRONLY | O_RDWR))
        MUST(write(fd, "text", 4));
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {1000000, 123456789}};
    STEP(futimens(fd, times));
    times[0] = (struct timespec){1500000, 5};
    STEP(futimens(fd, times));
    show_times(fd);
    STEP(futimens(fd, NULL));
    times[1].tv_nsec = 1000000000;
    STEP(futimens(fd, times));
    STEP(fchmod(fd, 0751));
    MUST(close(fd));
    show(path);
}

static void plain(void) {
    char path[64], other[64];
    MUST(mkdir("d", 0777));
    MUST(mkdir("d/e", 0777));
    MUST(mkdir("f", 0777));
    for (int round = 0; round < 3; round++) {
        umask(round == 1 ? 077 : 022);
        for (int i = 0; i < 4; i++) {
            snprintf(path, sizeof path, "%s/new%d.%d", DIRS[i % 3], round, i);
            one_file(path, O_CREAT | O_WRONLY | (i & 1 ? O_EXCL : O_TRUNC), i == 2 ? 0 : i == 3 ? 0777 : 0666);
        }
        one_file("d/new0.0", O_CREAT | O_WRONLY | O_EXCL, 0644);
        one_file("d/reader", O_CREAT | O_RDONLY, 0444);
        one_file("d/reader", O_CREAT | O_RDWR | O_APPEND, 0444);
        one_file("d/e", O_CREAT | O_WRONLY, 0644);
        one_file("d/none/x", O_CREAT | O_WRONLY, 0644);
        one_file("d/x/", O_CREAT | O_WRONLY, 0644);
        STEP(unlink("d/reader"));
        STEP(unlink("d/reader"));
        STEP(unlink("d/e"));
        STEP(unlink("d/new0.0/"));
    }
    int dir = MUST(open("d", O_RDONLY | O_DIRECTORY));
    for (int i = 0; i < 3; i++) {
        int fd = MUST(openat(dir, "held", O_CREAT | O_RDWR | O_EXCL | O_CLOEXEC, 0640));
        say("cloexec %d", fcntl(fd, F_GETFD));
        STEP(renameat(dir, "held", dir, "moved"));
        STEP(fchmod(fd, 0604));
        show("d/moved");
        STEP(unlinkat(dir, "moved", AT_REMOVEDIR));
        STEP(unlinkat(dir, "moved", 0));
        STEP(unlinkat(dir, "moved", 0));
        STEP(fchmod(fd, 0600));
        STEP(futimens(fd, NULL));
        MUST(close(fd));
    }
    for (int i = 0; i < 3; i++) {
        put_text("d/from", "from", 0600);
        put_text("f/to", "to be replaced", 0644);
        STEP(rename("d/from", "f/to"));
        show("f/to");
        STEP(rename("d/from", "f/to"));
        STEP(rename("f/to", "d/e"));
        STEP(rename("f/to", "f/to"));
        MUST(link("f/to", "f/twin"));
        STEP(rename("f/to", "f/twin"));
        STEP(unlink("f/twin"));
        show("f/to");
        STEP(unlink("f/to"));
        MUST(symlink("../f/to", "d/link"));
        one_file("d/link", O_CREAT | O_WRONLY | O_EXCL, 0644);
        one_file("d/link", O_CREAT | O_WRONLY | O_NOFOLLOW, 0644);
        one_file("d/link", O_CREAT | O_WRONLY, 0644);
        show("f/to");
        STEP(rename("f/to", "d/link"));
        STEP(unlink("d/link"));
    }
    snprintf(other, sizeof other, "d/new1.0");
    STEP(chmod("d", 0555));
    one_file("d/refused", O_CREAT | O_WRONLY, 0644);
    STEP(unlink(other));
    STEP(rename(other, "f/taken"));
    STEP(chmod("d", 0777));
    one_file("d/allowed", O_CREAT | O_WRONLY, 0644);
    STEP(chmod("d", 02777));
    one_file("d/in-group", O_CREAT | O_WRONLY, 0755);
    STEP(chmod("d", 01777));
    STEP(unlink("d/in-group"));
    struct rlimit few = {(rlim_t)dir + 1, 64};
    MUST(setrlimit(RLIMIT_NOFILE, &few));
    STEP(open("d/no-room", O_CREAT | O_WRONLY | O_EXCL, 0644));
    STEP(access("d/no-room", F_OK)); /* Linux sees the full table first, and makes nothing */
    few.rlim_cur = 64;
    MUST(setrlimit(RLIMIT_NOFILE, &few));
    one_file("d/room", O_CREAT | O_WRONLY | O_EXCL, 0644);
    MUST(close(dir));
}

static void random_step(void) {
    char one[64], other[64];
    snprintf(one, sizeof one, "%s/%s", DIRS[any(3)], NAMES[any(6)]);
    snprintf(other, sizeof other, "%s/%s", DIRS[any(3)], NAMES[any(6)]);
    switch (any(12)) {
    case 0:
        one_file(one, O_CREAT | O_WRONLY | O_EXCL, 0666);
        break;
    case 1:
        one_file(one, O_CREAT | O_RDWR, 0640);
        break;
    case 2:
        one_file(one, O_CREAT | O_WRONLY | O_TRUNC | O_NOFOLLOW, 0755);
        break;
    case 3:
        say("unlink(%s): %s", one, unlink(one) ? errname(errno) : "done");
        break;
    case 4:
    case 5:
        say("rename(%s, %s): %s", one, other, rename(one, other) ? errname(errno) : "done");
        break;
    case 6:
        say("mkdir(%s): %s", one, mkdir(one, 0755) ? errname(errno) : "done");
        break;
    case 7:
        say("rmdir(%s): %s", one, rmdir(one) ? errname(errno) : "done");
        break;
    case 8:
        say("symlink(%s): %s", one, symlink(NAMES[any(3)], one) ? errname(errno) : "done");
        break;
    case 9:
        say("link(%s, %s): %s", one, other, link(one, other) ? errname(errno) : "done");
        break;
    case 10:
        say("chmod(%s): %s", one, chmod(one, any(2) ? 0700 : 0644) ? errname(errno) : "done");
        break;
    default:
        umask(any(2) ? 022 : 027);
    }
    show(one);
    show(other);
    show(DIRS[any(3)]);
}

int main(int argc, char **argv) {
    if (argc < 2) {
        plain();
        return 0;
    }
    state = strtoull(argv[1], NULL, 10);
    for (int i = 0; i < 3; i++)
        MUST(mkdir(DIRS[i], 0755));
    for (int i = 0; i < 400; i++)
        random_step();
    return 0;
}
