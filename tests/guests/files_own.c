/* build: files_own -pthread
 *
 * New files in new directories, many in a row, with every look at them and at the directory in between: by name in
 * several spellings, by descriptor, by listing; names that are taken, links, modes, a set-group directory. Files that
 * are removed in a row, some of them open, and made again. Then threads
 * that all want the same names, and one that removes the directory again and again under those that make files in it.
 */
#include "step.h"

#include <dirent.h>
#include <pthread.h>

static int later(struct timespec a, struct timespec b) {
    return a.tv_sec > b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec >= b.tv_nsec);
}

static void show(int at, const char *name) {
    struct stat st;
    if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        say("%s: %s", name, errname(errno));
    else
        say("%s: mode %o, links %ld, size %ld, owner %d, group %d", name, st.st_mode, (long)st.st_nlink,
            S_ISREG(st.st_mode) ? (long)st.st_size : -1L, st.st_uid == getuid(), st.st_gid == getgid());
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

static int make(int at, const char *name, int flags, mode_t mode) {
    int fd = openat(at, name, O_CREAT | flags, mode);
    const char *slash = strrchr(name, '/');
    say("make %s %#x %o: %s", name[0] == '/' ? slash + 1 : name, flags, mode, fd < 0 ? errname(errno) : "done");
    return fd;
}

static void in_a_row(void) {
    char name[64], cwd[4096], whole[4300];
    MUST(mkdir("new", 0755));
    int at = MUST(open("new", O_RDONLY | O_DIRECTORY));
    struct timespec before = {0};
    for (int i = 0; i < 40; i++) {
        struct stat dir, file, again;
        snprintf(name, sizeof name, i & 1 ? "new/f%d" : "./new/f%d", i);
        show(AT_FDCWD, name);
        STEP(access(name, F_OK));
        int fd = make(AT_FDCWD, name, O_WRONLY | (i % 3 ? O_EXCL : O_TRUNC) | (i % 5 ? 0 : O_APPEND), i % 7 ? 0666 : 0600);
        MUST(fstat(fd, &file));
        MUST(lstat(name, &again));
        MUST(stat("new", &dir));
        say("same %d, directory is later %d %d, flags %#x", file.st_ino == again.st_ino && file.st_dev == dir.st_dev,
            later(dir.st_mtim, file.st_ctim), later(dir.st_mtim, before), fcntl(fd, F_GETFL) & ~O_NOFOLLOW);
        before = dir.st_mtim;
        MUST(write(fd, "some text", (size_t)(i % 9)));
        struct timespec times[2] = {{1000000, 5}, {2000000, 7}};
        if (i % 4 == 0)
            MUST(futimens(fd, times));
        if (i % 6 == 0)
            STEP(fchmod(fd, 0640));
        MUST(close(fd));
        show(AT_FDCWD, name);
        snprintf(name, sizeof name, "f%d", i);
        show(at, name);
        if (make(at, name, O_WRONLY | O_EXCL, 0644) >= 0)
            say("made twice");
        if (i % 10 == 9)
            listing("new");
    }
    /* What was asked before a file came, in another spelling too, is asked again after it. */
    for (int i = 0; i < 6; i++) {
        struct stat one, two;
        snprintf(name, sizeof name, "new//again%d", i);
        for (int asked = 0; asked < 3; asked++) {
            MUST(stat("new", &one));
            show(AT_FDCWD, name);
        }
        usleep(20000);
        snprintf(name, sizeof name, "new/again%d", i);
        MUST(close(make(AT_FDCWD, name, O_WRONLY | O_EXCL, 0644)));
        MUST(stat("new", &two));
        say("directory is newer %d", !later(one.st_mtim, two.st_mtim));
        snprintf(name, sizeof name, "new//again%d", i);
        show(AT_FDCWD, name);
    }
    if (!getcwd(cwd, sizeof cwd))
        _exit(97);
    snprintf(whole, sizeof whole, "%s/new/whole", cwd);
    int fd = make(AT_FDCWD, whole, O_RDWR | O_CLOEXEC, 0664);
    say("cloexec %d", fcntl(fd, F_GETFD));
    show(at, "whole");
    MUST(close(fd));
    STEP(unlink("new/whole"));
    show(at, "whole");
    STEP(rename("new/f1", "new/f2"));
    STEP(rename("new/f3", "moved"));
    STEP(link("moved", "new/f3"));
    STEP(symlink("f4", "new/link"));
    show(at, "f1"), show(at, "f2"), show(at, "f3"), show(at, "link");
    MUST(close(make(at, "f1", O_WRONLY, 0644)));
    MUST(close(make(at, "link", O_WRONLY, 0644)));
    make(at, "link", O_WRONLY | O_NOFOLLOW, 0644);
    make(at, "f1/x", O_WRONLY, 0644);
    make(at, "f1/", O_WRONLY, 0644);
    make(at, "none/x", O_WRONLY, 0644);
    MUST(close(make(at, "set", O_WRONLY | O_EXCL, 06755))); /* not in an rw mount, hence not shown */
    MUST(unlinkat(at, "set", 0));
    STEP(mkdir("new/f1", 0755));
    STEP(mkdir("new/sub", 0755));
    MUST(close(make(at, "sub/x", O_WRONLY, 0644)));
    MUST(close(make(at, "sub/y", O_WRONLY, 0644)));
    STEP(rename("new", "newer"));
    show(AT_FDCWD, "new/f5"), show(AT_FDCWD, "newer/sub/y"), show(at, "sub/x");
    MUST(close(make(at, "sub/z", O_WRONLY, 0644)));
    MUST(close(make(at, "after", O_WRONLY, 0644)));
    show(AT_FDCWD, "newer/after"), show(AT_FDCWD, "newer/sub/z"), show(AT_FDCWD, "new");
    STEP(chmod("newer", 0555));
    make(at, "refused", O_WRONLY, 0644);
    STEP(chmod("newer", 0311));
    show(at, "f5");
    MUST(close(make(at, "searched", O_WRONLY, 0644)));
    STEP(chmod("newer", 0777));
    STEP(chmod("newer/sub", 02777));
    MUST(close(make(at, "sub/grouped", O_WRONLY, 0755)));
    MUST(close(make(at, "sub/grouped.too", O_WRONLY, 0755)));
    show(at, "sub/grouped.too");
    umask(077);
    MUST(close(make(at, "masked", O_WRONLY, 0666)));
    umask(0);
    MUST(close(make(at, "open", O_WRONLY, 0666)));
    umask(022);
    show(at, "masked"), show(at, "open");
    STEP(rmdir("newer"));
    listing("newer");
    MUST(close(at));
}

/* ---- removing ------------------------------------------------------------------------------------------------------- */

static void in_a_row_again(void) {
    static const char *const spellings[] = {"old/f%d", "./old/f%d", "old//f%d"};
    char name[64], again[64];
    struct stat st;
    struct timespec before = {0};
    MUST(mkdir("old", 0755));
    int at = MUST(open("old", O_RDONLY | O_DIRECTORY));
    for (int i = 0; i < 48; i++) {
        snprintf(name, sizeof name, "old/f%d", i);
        int fd = make(AT_FDCWD, name, O_WRONLY | O_EXCL, 0644);
        MUST(write(fd, "some text", (size_t)(i % 9)));
        MUST(close(fd));
    }
    for (int i = 0; i < 48; i++) {
        snprintf(name, sizeof name, spellings[i % 3], i);
        snprintf(again, sizeof again, "f%d", i);
        for (int asked = 0; asked < i % 4; asked++)
            show(AT_FDCWD, name);
        int fd = i % 2 ? -1 : MUST(open(name, O_RDWR));
        if (fd >= 0)
            MUST(fstat(fd, &st));
        usleep(i % 6 ? 0 : 5000);
        if (i % 5)
            STEP(unlink(name));
        else
            STEP(unlinkat(at, again, 0));
        if (fd >= 0) {
            struct timespec was = st.st_ctim;
            MUST(fstat(fd, &st));
            say("open: links %ld, size %ld, later %d", (long)st.st_nlink, (long)st.st_size, later(st.st_ctim, was));
            STEP(fchmod(fd, 0600));
            MUST(write(fd, "more", 4));
            MUST(close(fd));
        }
        MUST(stat("old", &st));
        say("directory is later %d", later(st.st_mtim, before));
        before = st.st_mtim;
        STEP(unlinkat(at, again, 0));
        STEP(access(name, F_OK));
        show(at, again);
        if (i % 7 == 0) {
            snprintf(name, sizeof name, spellings[(i + 1) % 3], i);
            fd = make(at, again, O_WRONLY | O_EXCL, 0640);
            MUST(write(fd, "anew", 4));
            MUST(close(fd));
            show(AT_FDCWD, name), show(at, again);
            if (i % 2)
                STEP(unlink(name));
            show(AT_FDCWD, name), show(at, again);
        }
        if (i % 10 == 9)
            listing("old");
    }
    MUST(close(make(at, "one", O_WRONLY, 0644)));
    MUST(close(make(at, "other", O_WRONLY, 0444)));
    STEP(link("old/one", "old/two"));
    STEP(unlink("old/one"));
    show(at, "one"), show(at, "two");
    STEP(unlink("old/two"));
    STEP(mkdir("old/sub", 0755));
    STEP(unlink("old/sub"));
    STEP(symlink("other", "old/link"));
    STEP(unlink("old/link"));
    STEP(unlink("old/other/"));
    STEP(chmod("old", 0555));
    STEP(unlink("old/other"));
    STEP(chmod("old", 01777));
    MUST(close(make(at, "sticky", O_WRONLY, 0644)));
    MUST(close(make(at, "sticky too", O_WRONLY, 0644)));
    STEP(unlink("old/sticky"));
    STEP(unlink("old/sticky too"));
    STEP(unlink("old/other"));
    STEP(rmdir("old"));
    listing("old");
    DIR *dir = opendir("old");
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (entry->d_type == DT_REG)
            MUST(unlinkat(at, entry->d_name, 0));
    if (dir)
        closedir(dir);
    listing("old");
    STEP(rmdir("old/sub"));
    STEP(rmdir("old"));
    MUST(close(at));
}

/* ---- threads --------------------------------------------------------------------------------------------------------- */

#define THREADS 4
#define NAMES 60
static int made[THREADS], removed[THREADS], odd;

static void *want_the_same(void *number) {
    char name[32];
    int me = (int)(intptr_t)number;
    for (int i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "race/n%d", i);
        int fd = open(name, O_CREAT | O_EXCL | O_WRONLY, 0644);
        if (fd >= 0)
            made[me]++, close(fd);
        else if (errno != EEXIST)
            odd++;
        struct stat st;
        if (lstat(name, &st) < 0 || st.st_nlink != 1)
            odd++;
    }
    return NULL;
}

static void *remove_the_same(void *number) {
    char name[32];
    int me = (int)(intptr_t)number;
    for (int i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "race/n%d", i);
        if (unlink(name) == 0)
            removed[me]++;
        else if (errno != ENOENT)
            odd++;
        snprintf(name, sizeof name, "race/m%d.%d", me, i);
        int fd = open(name, O_CREAT | O_EXCL | O_WRONLY, 0644);
        if (fd < 0 || close(fd))
            odd++;
    }
    return NULL;
}

static int stop;

static void *make_and_remove(void *number UNUSED) {
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
        int fd = open("gone/x", O_CREAT | O_EXCL | O_WRONLY, 0644);
        if (fd < 0) {
            if (errno != ENOENT && errno != EEXIST)
                odd++;
            continue;
        }
        close(fd);
        /* rmdir must not have taken the directory with the file in it */
        if (unlink("gone/x") < 0)
            odd++;
    }
    return NULL;
}

static void all(void *(*work)(void *)) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

int main(void) {
    umask(022);
    in_a_row();
    in_a_row_again();
    MUST(mkdir("race", 0755));
    MUST(close(make(AT_FDCWD, "race/first", O_WRONLY, 0644)));
    all(want_the_same);
    listing("race");
    all(remove_the_same);
    listing("race");
    int makes = 0, removes = 0;
    for (int i = 0; i < THREADS; i++)
        makes += made[i], removes += removed[i];
    say("%d made, %d removed, %d odd", makes, removes, odd);
    pthread_t maker;
    pthread_create(&maker, NULL, make_and_remove, NULL);
    for (int i = 0; i < 60; i++) {
        if (mkdir("gone", 0755) < 0)
            odd++;
        usleep(300);
        while (rmdir("gone") < 0)
            if (errno != ENOTEMPTY)
                odd++;
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    pthread_join(maker, NULL);
    say("%d odd", odd);
    return 0;
}
