/* build: files_trees -pthread
 *
 * Directories are made, removed, dated, renamed and looked at in an order that a seed decides, with files in them, by
 * name from above and by the descriptors of directories that may be gone by now; some are worked in. Then threads make
 * and remove the same directories, and files in them. With "make" it only makes what is there before; without, it makes
 * that where there is none. */
#include "step.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>

static unsigned seed;

static unsigned any(unsigned below) {
    seed = seed * 1103515245 + 12345;
    return (seed >> 16) % below;
}

static const char *const NAMES[] = {"a", "b", "c"};

static void make(void) {
    char name[64];
    MUST(mkdir("t", 0755));
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 2; j++) {
            snprintf(name, sizeof name, "t/%s", NAMES[i]);
            if (!j)
                MUST(mkdir(name, 0755));
            snprintf(name, sizeof name, "t/%s/%s", NAMES[i], NAMES[j]);
            MUST(mkdir(name, j ? 0700 : 0755));
            snprintf(name, sizeof name, "t/%s/%s/f", NAMES[i], NAMES[j]);
            if (i)
                put_text(name, "before", 0644);
        }
}

/* A name of one to three words below `t`. */
static void choose(char *name, size_t size) {
    int deep = 1 + (int)any(3), at = snprintf(name, size, "t");
    for (int i = 0; i < deep; i++)
        at += snprintf(name + at, size - (size_t)at, "/%s", NAMES[any(3)]);
}

static int later(struct timespec a, struct timespec b) {
    return a.tv_sec > b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec >= b.tv_nsec);
}

static void tell(const char *what, const struct stat *st) {
    int recent = st->st_mtim.tv_sec > 1000000000;
    say("%s: mode %o, links %ld, owner %d, dated %ld, changed with it %d", what, st->st_mode,
        S_ISDIR(st->st_mode) ? (long)st->st_nlink : 0L, st->st_uid == getuid(),
        recent ? 0L : (long)st->st_mtim.tv_sec, later(st->st_ctim, st->st_mtim));
}

static void show(int at, const char *name) {
    struct stat st;
    if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        say("%s: %s", name, errname(errno));
    else
        tell(name, &st);
}

static void listing(int fd) {
    int count = 0, sum = 0, copy = dup(fd);
    MUST(lseek(copy, 0, SEEK_SET));
    DIR *dir = fdopendir(copy);
    errno = 0;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        count++;
        for (const char *c = entry->d_name; *c; c++)
            sum += *c;
    }
    say("listed: %d entries, sum %d, %s", count, sum, errno ? errname(errno) : "done");
    if (dir)
        closedir(dir);
}

static char home[4096];

static void where(void) {
    char path[4096];
    if (!getcwd(path, sizeof path))
        say("works nowhere: %s", errname(errno));
    else
        say("works in .%s", path + strlen(home));
}

static void one_step(int number, int top) {
    static int held[3] = {-1, -1, -1};
    char name[128], other[128], whole[200];
    int slot = (int)any(3), at = top;
    choose(name, sizeof name);
    choose(other, sizeof other);
    unsigned deed = any(20);
    if ((deed == 13 || deed == 14) && any(12)) /* rarely: husk forgets much then */
        deed = any(13);
    if (held[slot] >= 0 && any(3) == 0) { /* in a directory that is held, and may be gone */
        at = held[slot];
        memmove(name, strrchr(name, '/') + 1, strlen(strrchr(name, '/')));
    }
    snprintf(whole, sizeof whole, "%d %s %s", number, at == top ? "top" : "held", name);
    switch (deed) {
    case 0: case 1: case 2: case 3: {
        static const mode_t masks[] = {022, 0, 077, 027};
        mode_t before = umask(masks[any(4)]);
        int done = mkdirat(at, name, any(8) ? 0755 : any(2) ? 01777 : 0700);
        say("%s: mkdir %s", whole, done < 0 ? errname(errno) : "done");
        umask(before);
        break;
    }
    case 4: case 5: case 6:
        say("%s: rmdir %s", whole, unlinkat(at, name, AT_REMOVEDIR) < 0 ? errname(errno) : "done");
        break;
    case 7: case 8: case 9: {
        char file[160];
        snprintf(file, sizeof file, "%s/f%u", name, any(3));
        int fd = openat(at, file, O_CREAT | O_WRONLY | (any(2) ? O_EXCL : 0), 0644);
        say("%s: file %s", whole, fd < 0 ? errname(errno) : "done");
        if (fd >= 0)
            MUST(close(fd));
        break;
    }
    case 10: case 11: {
        char file[160];
        snprintf(file, sizeof file, any(4) ? "%s/f%u" : "%s/f", name, any(3));
        say("%s: unlink %s", whole, unlinkat(at, file, 0) < 0 ? errname(errno) : "done");
        break;
    }
    case 12: {
        struct timespec times[2] = {{1000000, 5}, {2000000 + number, 7}};
        if (any(3) == 0)
            times[any(2)].tv_nsec = any(2) ? UTIME_NOW : UTIME_OMIT;
        say("%s: times %s", whole, utimensat(at, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? errname(errno) : "done");
        break;
    }
    case 13:
        say("%s: mode %s", whole, fchmodat(at, name, any(4) ? 0755 : 0700, 0) < 0 ? errname(errno) : "done");
        break;
    case 14: {
        int done = renameat(at, name, top, other);
        say("%s: rename to %s: %s", whole, other, done < 0 ? errname(errno) : "done");
        break;
    }
    case 15: case 16: {
        int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        say("%s: hold %s", whole, fd < 0 ? errname(errno) : "done");
        if (fd >= 0) {
            if (held[slot] >= 0)
                MUST(close(held[slot]));
            held[slot] = fd;
        }
        break;
    }
    case 17:
        if (any(2)) {
            MUST(fchdir(top));
        } else if (held[slot] >= 0) {
            say("%s: fchdir %s", whole, fchdir(held[slot]) < 0 ? errname(errno) : "done");
            say("mkdir here: %s", mkdir(NAMES[any(3)], 0755) < 0 ? errname(errno) : "done");
            say("rmdir here: %s", rmdir(NAMES[any(3)]) < 0 ? errname(errno) : "done");
        }
        break;
    case 18: {
        char slashed[160];
        snprintf(slashed, sizeof slashed, "%s/", name);
        int done = any(2) ? mkdirat(at, slashed, 0755) : unlinkat(at, slashed, AT_REMOVEDIR);
        say("%s: with a slash %s", whole, done < 0 ? errname(errno) : "done");
        break;
    }
    default:
        say("%s: access %s", whole, faccessat(at, name, F_OK, 0) < 0 ? errname(errno) : "done");
    }
    show(at, name);
    show(top, "t");
    if (any(3) == 0)
        show(top, other);
    if (any(3) == 0)
        where();
    if (held[slot] >= 0) {
        struct stat st;
        MUST(fstat(held[slot], &st));
        tell("held", &st);
        if (any(3) == 0)
            listing(held[slot]);
    }
}

static atomic_int made, removed, files;

static void *busy(void *argument) {
    char name[64], file[80];
    long which = (long)argument;
    for (int i = 0; i < 400; i++) {
        snprintf(name, sizeof name, "busy/d%d", i % 7);
        snprintf(file, sizeof file, "%s/f%ld", name, which);
        if (mkdir(name, 0755) == 0)
            atomic_fetch_add(&made, 1);
        else if (errno != EEXIST)
            say("mkdir: %s", errname(errno));
        int fd = open(file, O_CREAT | O_WRONLY | O_EXCL, 0600);
        if (fd >= 0) {
            atomic_fetch_add(&files, 1);
            MUST(close(fd));
            if (unlink(file) == 0)
                atomic_fetch_sub(&files, 1);
            else
                say("unlink: %s", errname(errno));
        } else if (errno != ENOENT) {
            say("open: %s", errname(errno));
        }
        if (rmdir(name) == 0)
            atomic_fetch_add(&removed, 1);
        else if (errno != ENOENT && errno != ENOTEMPTY)
            say("rmdir: %s", errname(errno));
    }
    return NULL;
}

static void threads(void) {
    pthread_t thread[3];
    struct stat st;
    MUST(mkdir("busy", 0755));
    for (long i = 0; i < 3; i++)
        MUST(pthread_create(&thread[i], NULL, busy, (void *)i));
    for (int i = 0; i < 3; i++)
        MUST(pthread_join(thread[i], NULL));
    MUST(stat("busy", &st));
    say("files left %d, directories left %d, links %ld", atomic_load(&files),
        atomic_load(&made) - atomic_load(&removed), (long)st.st_nlink - 2 - (atomic_load(&made) - atomic_load(&removed)));
}

int main(int argc, char **argv) {
    umask(022);
    if (access("t", F_OK) < 0)
        make();
    if (argc > 1 && strcmp(argv[1], "make") == 0)
        return 0;
    seed = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
    int top = MUST(open(".", O_RDONLY | O_DIRECTORY));
    if (!getcwd(home, sizeof home))
        return 96;
    for (int i = 0; i < 1500; i++)
        one_step(i, top);
    MUST(fchdir(top));
    threads();
    return 0;
}
