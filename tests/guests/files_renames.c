/* build: files_renames -pthread
 *
 * Files of new directories are renamed, by every call for that, to free names and over other files, within a directory
 * and between two; their mode and times are set by name. After each step every look at them: by both names, by a
 * descriptor that was open before, by listing. What is refused: names in no directory, RENAME_NOREPLACE, a file and
 * its own name, read-only directories. Then threads that rename files over one name, under one that looks for it.
 */
#include "step.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/syscall.h>

#define NOREPLACE 1

static int later(struct timespec a, struct timespec b) {
    return a.tv_sec > b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec >= b.tv_nsec);
}

static void show(int at, const char *name) {
    struct stat st;
    if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        say("%s: %s", name, errname(errno));
    else
        say("%s: mode %o, links %ld, size %ld, own %d, in time %d", name, st.st_mode, (long)st.st_nlink,
            S_ISREG(st.st_mode) ? (long)st.st_size : -1L, st.st_uid == getuid(), later(st.st_ctim, st.st_mtim));
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

static int make(int at, const char *name, size_t size) {
    int fd = MUST(openat(at, name, O_CREAT | O_EXCL | O_RDWR, 0644));
    MUST(write(fd, "a line of text", size));
    return fd;
}

static int move(int how, int from_at, const char *from, int to_at, const char *to) {
    switch (how) {
    case 0:
        return rename(from, to);
    case 1:
        return renameat(from_at, from, to_at, to);
    case 2:
        return (int)syscall(SYS_renameat2, from_at, from, to_at, to, 0);
    default:
        return (int)syscall(SYS_renameat2, from_at, from, to_at, to, NOREPLACE);
    }
}

static void renamed(void) {
    char from[64], to[64];
    struct stat st, moved, one, two;
    MUST(mkdir("ren", 0755));
    MUST(mkdir("other", 0755));
    MUST(close(make(AT_FDCWD, "ren/first", 0)));
    MUST(close(make(AT_FDCWD, "other/first", 0)));
    int cwd = MUST(open(".", O_RDONLY | O_DIRECTORY));
    for (int i = 0; i < 60; i++) {
        const char *into = i % 3 == 2 ? "other" : "ren";
        snprintf(from, sizeof from, "ren/f%d", i);
        snprintf(to, sizeof to, "%s/t%d", into, i);
        int fd = make(AT_FDCWD, from, (size_t)(i % 9)), old = -1;
        if (i % 4 == 1)
            old = make(AT_FDCWD, to, 3);
        for (int asked = 0; asked < i % 5; asked++)
            show(AT_FDCWD, from), show(AT_FDCWD, to);
        MUST(fstat(fd, &st));
        usleep(i % 6 ? 0 : 5000);
        int done = move(i % 4, cwd, from, cwd, to);
        say("rename %s %s: %s", from, to, done < 0 ? errname(errno) : "done");
        show(AT_FDCWD, from), show(AT_FDCWD, to);
        MUST(fstat(fd, &moved));
        MUST(stat("ren", &one));
        MUST(stat(into, &two));
        int named = lstat(to, &st) == 0;
        say("same %d, later %d, directories %d %d", named && st.st_ino == moved.st_ino, later(moved.st_ctim, st.st_ctim),
            later(one.st_mtim, moved.st_mtim), later(two.st_mtim, moved.st_mtim));
        say("dated as one %d", named && st.st_ctim.tv_sec == moved.st_ctim.tv_sec &&
                                   st.st_ctim.tv_nsec == moved.st_ctim.tv_nsec);
        MUST(write(fd, "more", 4));
        if (old >= 0) {
            MUST(fstat(old, &st));
            say("over it: links %ld, size %ld", (long)st.st_nlink, (long)st.st_size);
            MUST(write(old, "still", 5));
            MUST(close(old));
        }
        MUST(close(fd));
        show(AT_FDCWD, to);
        if (i % 7 == 0) { /* the old name is free again */
            MUST(close(make(AT_FDCWD, from, 5)));
            show(AT_FDCWD, from);
            STEP(rename(from, to));
            show(AT_FDCWD, to);
        }
        if (i % 8 == 7)
            STEP(unlink(to));
        if (i % 10 == 9)
            listing("ren"), listing("other");
    }
    STEP(rename("ren/t0", "ren/t0"));
    STEP(rename("ren/none", "ren/t0"));
    STEP(rename("ren/t0", "none/t0"));
    STEP(rename("ren/t0", "ren/t1/x"));
    STEP(rename("ren/t0/", "ren/x"));
    STEP(rename("ren/t0", "ren/x/"));
    STEP(rename("ren/t0", "other"));
    STEP(rename("ren/t0", "ren/."));
    STEP(move(3, AT_FDCWD, "ren/t0", AT_FDCWD, "ren/t1"));
    STEP(syscall(SYS_renameat2, AT_FDCWD, "ren/t0", AT_FDCWD, "ren/t1", 2));
    STEP(syscall(SYS_renameat2, AT_FDCWD, "ren/t0", AT_FDCWD, "ren/t1", 3));
    show(AT_FDCWD, "ren/t0"), show(AT_FDCWD, "ren/t1");
    MUST(link("ren/t0", "ren/linked"));
    STEP(rename("ren/t0", "ren/linked"));
    STEP(rename("ren/t1", "ren/linked"));
    show(AT_FDCWD, "ren/t0"), show(AT_FDCWD, "ren/linked");
    STEP(chmod("other", 0555));
    STEP(rename("ren/t3", "other/x"));
    STEP(rename("other/first", "ren/x"));
    STEP(chmod("other", 01777));
    STEP(rename("ren/t3", "other/x"));
    STEP(rename("other/first", "ren/x"));
    STEP(rename("ren", "other/ren"));
    STEP(rename("other/ren/t4", "other/t4"));
    STEP(rename("ren/t4", "other/t4"));
    show(AT_FDCWD, "other/t4");
    listing("other/ren");
    MUST(close(cwd));
}

static void changed(void) {
    char name[64], again[64];
    struct stat before, st, held;
    MUST(mkdir("set", 0755));
    int at = MUST(open("set", O_RDONLY | O_DIRECTORY));
    MUST(close(make(at, "first", 0)));
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, i & 1 ? "set/f%d" : "./set/f%d", i);
        snprintf(again, sizeof again, "f%d", i);
        int fd = make(at, again, (size_t)(i % 9));
        for (int asked = 0; asked < i % 3; asked++)
            show(AT_FDCWD, name);
        MUST(fstat(fd, &before));
        usleep(i % 6 ? 0 : 5000);
        if (i % 3)
            STEP(chmod(name, (mode_t)(0600 | i)));
        else
            STEP(fchmodat(at, again, 0640, 0));
        MUST(fstat(fd, &held));
        MUST(lstat(name, &st));
        say("mode %o %o, later %d, as one %d", st.st_mode, held.st_mode, later(held.st_ctim, before.st_ctim),
            st.st_ctim.tv_sec == held.st_ctim.tv_sec && st.st_ctim.tv_nsec == held.st_ctim.tv_nsec);
        struct timespec times[2] = {{1000000 + i, 5}, {2000000, 7 + i}};
        if (i % 4 == 3)
            times[i % 8 == 3].tv_nsec = UTIME_OMIT;
        if (i % 5 == 4)
            times[0].tv_nsec = UTIME_NOW;
        if (i % 2)
            STEP(utimensat(AT_FDCWD, name, times, i % 3 ? AT_SYMLINK_NOFOLLOW : 0));
        else
            STEP(utimensat(at, again, times, 0));
        MUST(fstat(fd, &held));
        MUST(lstat(name, &st));
        say("times %d %d, the same %d, changed later %d", st.st_mtim.tv_sec == 2000000, st.st_atim.tv_sec == 1000000 + i,
            st.st_mtim.tv_nsec == held.st_mtim.tv_nsec && st.st_atim.tv_nsec == held.st_atim.tv_nsec &&
                st.st_ctim.tv_nsec == held.st_ctim.tv_nsec, later(st.st_ctim, before.st_ctim));
        if (i % 10 == 0)
            STEP(utimensat(at, again, NULL, 0));
        if (i % 4 == 0)
            STEP(access(name, W_OK));
        if (i % 9 == 0) {
            STEP(chmod(name, 0400));
            STEP(open(name, O_RDWR) < 0 ? -1 : 0);
            STEP(chmod(name, 06755)); /* not in an rw mount, hence not shown */
            STEP(chmod(name, 0644));
            show(at, again);
        }
        MUST(close(fd));
        show(AT_FDCWD, name);
    }
    STEP(chmod("set/none", 0644));
    STEP(chmod("set/f1/", 0644));
    STEP(chmod("set/f1/x", 0644));
    STEP(fchmodat(at, "f1", 010644, 0));
    show(at, "f1");
    STEP(utimensat(at, "none", NULL, 0));
    STEP(utimensat(at, "f1", (struct timespec[2]){{0, 1000000000}, {0, 0}}, 0));
    STEP(utimensat(at, "f1", (struct timespec[2]){{0, UTIME_OMIT}, {0, UTIME_OMIT}}, 0));
    STEP(symlink("f2", "set/link"));
    STEP(chmod("set/link", 0604));
    show(at, "f2"), show(at, "link");
    STEP(utimensat(at, "link", (struct timespec[2]){{5, 0}, {6, 0}}, AT_SYMLINK_NOFOLLOW));
    STEP(utimensat(at, "link", (struct timespec[2]){{5, 0}, {7, 0}}, 0));
    MUST(fstatat(at, "f2", &st, 0));
    say("through the link %d", st.st_mtim.tv_sec == 7);
    MUST(link("set/f3", "set/f3.too"));
    STEP(chmod("set/f3", 0604));
    show(at, "f3.too");
    STEP(unlink("set/f3"));
    STEP(chmod("set/f3.too", 0606));
    show(at, "f3.too");
    STEP(chmod("set", 0311));
    STEP(chmod("set/f5", 0607));
    show(at, "f5");
    STEP(chmod("set", 0644));
    STEP(chmod("set/f5", 0600));
    STEP(chmod("set", 0755));
    STEP(chmod("set/f5", 0601));
    show(at, "f5");
    MUST(close(at));
}

/* ---- threads --------------------------------------------------------------------------------------------------------- */

#define THREADS 4
#define TIMES 150
static int odd, stop;

static void *over_one_name(void *number) {
    char name[32];
    for (int i = 0; i < TIMES; i++) {
        snprintf(name, sizeof name, "race/n%d.%d", (int)(intptr_t)number, i);
        int fd = open(name, O_CREAT | O_EXCL | O_WRONLY, 0600);
        if (fd < 0 || write(fd, "whole", 5) != 5 || close(fd) || chmod(name, 0644) || rename(name, "race/one"))
            odd++;
        struct stat st;
        if (lstat(name, &st) == 0 || errno != ENOENT)
            odd++;
    }
    return NULL;
}

static void *look(void *number UNUSED) {
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
        struct stat st, held;
        int fd = open("race/one", O_RDONLY);
        /* Some file always has the name, and each that had it is whole. */
        if (fd < 0 || fstat(fd, &held) < 0 || held.st_size != 5 || (held.st_mode & 0777) != 0644)
            odd++;
        if (lstat("race/one", &st) < 0 || st.st_size != 5 || (st.st_mode & 0777) != 0644)
            odd++;
        if (fd >= 0)
            close(fd);
    }
    return NULL;
}

int main(void) {
    umask(022);
    renamed();
    changed();
    MUST(mkdir("race", 0755));
    int fd = make(AT_FDCWD, "race/one", 5);
    MUST(close(fd));
    pthread_t looking, threads[THREADS];
    pthread_create(&looking, NULL, look, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, over_one_name, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    pthread_join(looking, NULL);
    listing("race");
    say("%d odd", odd);
    return 0;
}
