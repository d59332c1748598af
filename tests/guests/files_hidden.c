/* build: files_hidden -pthread
 *
 * In directories that were there before the program began: files are removed, made again under the same names, renamed,
 * opened, linked and looked at, in an order that a seed decides, by name and by directory descriptor. Some are held open
 * meanwhile. Then threads remove the same files. With "make" it only makes the directories; without, it makes them where
 * there are none. */
#include "step.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>

#define FILES 60
#define HELD 4

static unsigned seed;

static unsigned any(unsigned below) {
    seed = seed * 1103515245 + 12345;
    return (seed >> 16) % below;
}

static const char *const DIRS[] = {"a", "b", "a/sub", "sticky"};
enum { DIRECTORIES = sizeof DIRS / sizeof *DIRS };
static int held_dirs[DIRECTORIES];

static void fill(const char *path, int files) {
    char name[64], other[64];
    MUST(mkdir(path, 0755));
    for (int i = 0; i < files; i++) {
        snprintf(name, sizeof name, "%s/f%d", path, i);
        snprintf(other, sizeof other, "%s/l%d", path, i);
        int fd = MUST(open(name, O_CREAT | O_EXCL | O_WRONLY, i % 10 ? 0644 : 0755));
        MUST(write(fd, "some text", (size_t)(i % 9)));
        MUST(close(fd));
        if (i % 12 == 5)
            MUST(link(name, other));
        if (i % 12 == 7)
            MUST(symlink("f1", other));
        if (i % 12 == 9)
            MUST(mkfifo(other, 0600));
    }
}

static void make(void) {
    for (int i = 0; i < DIRECTORIES; i++)
        fill(DIRS[i], FILES);
    fill("many", 400);
    MUST(chmod("sticky", 01777));
}

static void tell(const char *what, const struct stat *st) {
    long size = S_ISREG(st->st_mode) || S_ISLNK(st->st_mode) ? (long)st->st_size : -1L;
    say("%s: mode %o, links %ld, size %ld, owner %d", what, st->st_mode, (long)st->st_nlink, size,
        st->st_uid == getuid());
}

static void show(int at, const char *name) {
    struct stat st;
    if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        say("%s: %s", name, errname(errno));
    else
        tell(name, &st);
}

static void listing(const char *path) {
    int count = 0, sum = 0;
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        count++;
        for (const char *c = entry->d_name; *c; c++)
            sum += *c;
    }
    say("%s: %d entries, sum %d", path, count, sum);
    if (dir)
        closedir(dir);
}

static int later(struct timespec a, struct timespec b) {
    return a.tv_sec > b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec >= b.tv_nsec);
}

/* The directory's times are those of its last change. */
static void dates(int directory) {
    static struct timespec before[DIRECTORIES];
    struct stat st;
    MUST(stat(DIRS[directory], &st));
    say("%s: links %ld, later %d, changed with it %d", DIRS[directory], (long)st.st_nlink,
        later(st.st_mtim, before[directory]), later(st.st_ctim, st.st_mtim));
    before[directory] = st.st_mtim;
}

static void look(int fd, const char *name) {
    char text[16];
    struct stat st;
    MUST(fstat(fd, &st));
    tell(name, &st);
    if (S_ISREG(st.st_mode))
        say("reads %zd", pread(fd, text, sizeof text, 0));
}

static void one_step(int number) {
    static int held[HELD] = {-1, -1, -1, -1};
    char name[64], other[64], whole[128];
    int directory = (int)any(DIRECTORIES), away = (int)any(DIRECTORIES), at = AT_FDCWD, slot = (int)any(HELD);
    int which = (int)any(FILES);
    snprintf(name, sizeof name, "%s%s%s%d", DIRS[directory], "/", any(6) ? "f" : "l", which);
    snprintf(other, sizeof other, "%s/%s%d", DIRS[away], any(6) ? "f" : "n", (int)any(FILES));
    if (any(2)) {
        at = held_dirs[directory];
        memmove(name, name + strlen(DIRS[directory]) + 1, strlen(name) - strlen(DIRS[directory]));
    }
    snprintf(whole, sizeof whole, "%d %s %s", number, DIRS[directory], name);
    switch (any(16)) {
    case 0: case 1: case 2: case 3:
        say("%s: unlink %s", whole, unlinkat(at, name, 0) < 0 ? errname(errno) : "done");
        break;
    case 4: case 5: {
        int fd = openat(at, name, O_CREAT | O_WRONLY | (any(2) ? O_EXCL : O_TRUNC) | O_NONBLOCK, 0640);
        say("%s: make %s", whole, fd < 0 ? errname(errno) : "done");
        if (fd >= 0) {
            look(fd, whole);
            MUST(close(fd));
        }
        break;
    }
    case 6: {
        int done = renameat(at, name, AT_FDCWD, other);
        say("%s: rename to %s: %s", whole, other, done < 0 ? errname(errno) : "done");
        break;
    }
    case 7: {
        int fd = openat(at, name, O_RDONLY | O_NONBLOCK);
        say("%s: hold %s", whole, fd < 0 ? errname(errno) : "done");
        if (held[slot] >= 0)
            MUST(close(held[slot]));
        held[slot] = fd;
        break;
    }
    case 8:
        say("%s: mode %s", whole, fchmodat(at, name, any(2) ? 0600 : 0644, 0) < 0 ? errname(errno) : "done");
        break;
    case 9: {
        struct timespec times[2] = {{1000000, 5}, {2000000, 7}};
        say("%s: times %s", whole, utimensat(at, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? errname(errno) : "done");
        break;
    }
    case 10:
        say("%s: link to %s: %s", whole, other, linkat(at, name, AT_FDCWD, other, 0) < 0 ? errname(errno) : "done");
        break;
    case 11:
        say("%s: mkdir %s", whole, mkdirat(at, name, 0755) < 0 ? errname(errno) : "done");
        break;
    case 12:
        say("%s: rmdir %s", whole, unlinkat(at, name, AT_REMOVEDIR) < 0 ? errname(errno) : "done");
        break;
    case 13:
        listing(DIRS[directory]);
        break;
    default:
        say("%s: access %s", whole, faccessat(at, name, any(2) ? R_OK : F_OK, 0) < 0 ? errname(errno) : "done");
    }
    show(at, name);
    if (any(3) == 0)
        show(AT_FDCWD, other);
    if (any(3) == 0)
        dates(directory);
    /* On a copy, what was opened for reading only stays what it was. But it is known whether it still has a name. */
    if (held[slot] >= 0) {
        struct stat st;
        MUST(fstat(held[slot], &st));
        say("held: has a name %d", st.st_nlink > 0);
    }
}

static atomic_int removed, made;

static void *remover(void *argument) {
    char name[64];
    long step = (long)argument;
    for (int i = 0; i < 400; i++) {
        snprintf(name, sizeof name, "many/f%ld", step > 0 ? (long)i : 399L - i);
        if (unlink(name) == 0)
            atomic_fetch_add(&removed, 1);
        else if (errno != ENOENT)
            say("unlink: %s", errname(errno));
    }
    return NULL;
}

static void *maker(void *unused) {
    (void)unused;
    char name[64];
    for (int i = 0; i < 400; i++) {
        snprintf(name, sizeof name, "many/n%d", i);
        int fd = open(name, O_CREAT | O_EXCL | O_WRONLY, 0600);
        if (fd < 0) {
            say("make: %s", errname(errno));
            continue;
        }
        atomic_fetch_add(&made, 1);
        close(fd);
        if (i & 1)
            MUST(unlink(name));
    }
    return NULL;
}

static void threads(void) {
    pthread_t thread[3];
    MUST(pthread_create(&thread[0], NULL, remover, (void *)1L));
    MUST(pthread_create(&thread[1], NULL, remover, (void *)-1L));
    MUST(pthread_create(&thread[2], NULL, maker, NULL));
    for (int i = 0; i < 3; i++)
        MUST(pthread_join(thread[i], NULL));
    say("removed %d, made %d", atomic_load(&removed), atomic_load(&made));
    listing("many");
}

int main(int argc, char **argv) {
    umask(022);
    if (access("many", F_OK) < 0)
        make();
    if (argc > 1 && strcmp(argv[1], "make") == 0)
        return 0;
    seed = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
    for (int i = 0; i < DIRECTORIES; i++)
        held_dirs[i] = MUST(open(DIRS[i], O_RDONLY | O_DIRECTORY));
    for (int i = 0; i < 1500; i++)
        one_step(i);
    threads();
    for (int i = 0; i < DIRECTORIES; i++)
        listing(DIRS[i]);
    return 0;
}
