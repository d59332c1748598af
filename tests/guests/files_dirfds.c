/* Names that begin in a directory descriptor or in the working directory, while these come to mean something else.
 *
 * Every question is asked often: whoever remembers which directory a number stood for must notice that it changed. All
 * directories hold a file `f`, whose size says which directory answered.
 * build: files_dirfds -O1 -pthread
 */
#include "step.h"

#include <pthread.h>
#include <sched.h>

#define OFTEN 40
#define OTHER_AT 90 /* a number that nothing else has */

/* The size of `name`, asked in several ways; -errno. All answers must be the same. */
static long size_at(int dirfd, const char *name)
{
    struct stat s;
    struct statx x;
    long first = 0;
    for (int i = 0; i < OFTEN; i++) {
        memset(&s, 0xee, sizeof s);
        long by_stat = fstatat(dirfd, name, &s, i & 1 ? AT_SYMLINK_NOFOLLOW : 0) ? -errno : s.st_size;
        long by_statx = syscall(SYS_statx, dirfd, name, 0, STATX_SIZE, &x) ? -errno : (long)x.stx_size;
        long access = faccessat(dirfd, name, R_OK, 0) ? -errno : 0;
        if (!i)
            first = by_stat;
        if (by_stat != first || by_statx != first || access != (first < 0 ? first : 0))
            say("answers differ in round %d: %ld, first %ld, statx %ld, access %ld", i, by_stat, first, by_statx, access);
    }
    return first;
}

static long read_at(int dirfd, const char *name, int flags)
{
    char text[64];
    long n = -1;
    for (int i = 0; i < 4; i++) {
        int fd = openat(dirfd, name, flags | O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            return -errno;
        n = read(fd, text, sizeof text);
        if (n < 0)
            n = -errno;
        if (fcntl(fd, F_GETFL) & O_NONBLOCK && !(flags & O_NONBLOCK))
            say("the descriptor does not block");
        close(fd);
    }
    return n;
}

/* ERRNO for -errno. */
static const char *shown(long value, char *room)
{
    snprintf(room, 32, "%ld", value);
    return value < 0 ? errname((int)-value) : room;
}

static void ask(const char *when, int dirfd)
{
    char a[32], b[32], c[32], d[32];
    say("%s: f %s, none %s, opened %s, opened as no link %s", when, shown(size_at(dirfd, "f"), a),
        shown(size_at(dirfd, "none"), b), shown(read_at(dirfd, "f", 0), c), shown(read_at(dirfd, "f", O_NOFOLLOW), d));
}

static void make(const char *name, int size)
{
    char file[64];
    MUST(mkdir(name, 0755));
    snprintf(file, sizeof file, "%s/f", name);
    int fd = MUST(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
    MUST(write(fd, "0123456789", size));
    close(fd);
}

static void numbers(int flags)
{
    say("== descriptors opened with %s", flags & O_PATH ? "O_PATH" : "O_RDONLY");
    int one = MUST(open("one", flags | O_DIRECTORY)), two = MUST(open("two", flags | O_DIRECTORY));
    int at = MUST(dup2(one, OTHER_AT));
    ask("one", at);
    MUST(dup2(two, at));
    ask("two after dup2", at);
    MUST(dup3(one, at, O_CLOEXEC));
    ask("one after dup3", at);
    close(at);
    ask("closed", at);
    int file = MUST(open("one/f", O_RDONLY));
    MUST(dup2(file, at));
    ask("a file", at);
    close(file);
    close(at);
    MUST(dup2(two, at));
    ask("two after close", at);
    STEP(rename("two", "moved"));
    ask("renamed", at);
    make("two", 7);
    ask("renamed, another of its name", at);
    STEP(rename("moved", "deep/moved"));
    ask("moved elsewhere", at);
    STEP(unlink("deep/moved/f"));
    ask("without its file", at);
    STEP(rmdir("deep/moved"));
    ask("removed", at);
    for (int i = 0; i < 3; i++) { /* the lowest number is used again at once */
        char name[16];
        snprintf(name, sizeof name, "more%d", i);
        make(name, i + 1);
        close(at);
        int fd = MUST(open(name, flags | O_DIRECTORY));
        MUST(dup2(fd, at));
        close(fd);
        ask(name, at);
        STEP(renameat(at, "f", at, "g"));
        ask("without f", at);
        MUST(unlinkat(at, "g", 0));
        MUST(rmdir(name));
        ask("and gone", at);
    }
    close(one);
    close(two);
    close(at);
}

static void kinds(void)
{
    say("== kinds of files by descriptor");
    int at = MUST(open("kinds", O_RDONLY | O_DIRECTORY));
    static const char *const names[] = {"f", "d", "link", "to.d", "dangling", "fifo", "none", "f/", "d/", "link/"};
    char a[32], b[32], c[32];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int round = 0; round < 14; round += 13) {
            long plain = !strcmp(names[i], "fifo") ? 0 : read_at(at, names[i], 0);
            long no_link = read_at(at, names[i], O_NOFOLLOW | O_NONBLOCK);
            say("%s: %s, no link %s, directory %s", names[i], shown(plain, a), shown(no_link, b),
                shown(read_at(at, names[i], O_NOFOLLOW | O_DIRECTORY), c));
        }
    close(at);
}

static void working_directories(void)
{
    say("== working directories");
    int back = MUST(open(".", O_RDONLY | O_DIRECTORY)), one = MUST(open("one", O_RDONLY | O_DIRECTORY));
    MUST(chdir("one"));
    ask("one", AT_FDCWD);
    MUST(chdir("../two"));
    ask("two", AT_FDCWD);
    MUST(fchdir(one));
    ask("one by descriptor", AT_FDCWD);
    pid_t child = fork();
    if (!child) {
        ask("the child, in one", AT_FDCWD);
        MUST(chdir("../two"));
        ask("the child, in two", AT_FDCWD);
        _exit(0);
    }
    STEP(wait_for(child));
    ask("the parent, still in one", AT_FDCWD);
    child = vfork();
    if (!child) {
        if (chdir("../two") || size_at(AT_FDCWD, "f") != 7)
            _exit(1);
        _exit(0);
    }
    STEP(wait_for(child));
    ask("the parent of a vfork child that went to two", AT_FDCWD);
    STEP(rename("../one", "../renamed"));
    ask("renamed", AT_FDCWD);
    MUST(fchdir(back));
    STEP(rename("renamed", "one"));
    ask("back", AT_FDCWD);
    close(one);
    close(back);
}

static pthread_barrier_t turn;

/* A thread with a table and a working directory of its own. Its turns alternate with the main thread's. */
static void *other(void *argument)
{
    int at = *(int *)argument;
    MUST(unshare(CLONE_FILES | CLONE_FS));
    ask("the thread, as the others", at);
    int two = MUST(open("two", O_RDONLY | O_DIRECTORY));
    MUST(dup2(two, at));
    MUST(chdir("two"));
    for (int i = 0; i < 3; i++) {
        ask("the thread, by its own number", at);
        ask("the thread, in its own directory", AT_FDCWD);
        pthread_barrier_wait(&turn);
        pthread_barrier_wait(&turn);
    }
    close(at);
    ask("the thread closed its own", at);
    close(two);
    return NULL;
}

static void threads(void)
{
    say("== a thread with a table of its own");
    pthread_t thread;
    int one = MUST(open("one", O_RDONLY | O_DIRECTORY)), at = MUST(dup2(one, OTHER_AT)), back = MUST(open(".", O_RDONLY));
    MUST(chdir("one"));
    ask("before there is one", at);
    MUST(fchdir(back));
    pthread_barrier_init(&turn, NULL, 2);
    pthread_create(&thread, NULL, other, &at);
    for (int i = 0; i < 3; i++) {
        pthread_barrier_wait(&turn);
        ask("the main thread", at);
        ask("the main thread, in its directory", AT_FDCWD);
        pthread_barrier_wait(&turn);
    }
    pthread_join(thread, NULL);
    ask("the main thread alone", at);
    close(one);
    close(at);
    close(back);
}

/* While one thread asks, another changes what the number stands for: each answer is one of the two. */
static int racing, stop;

static void *exchange(void *argument)
{
    const int *both = argument;
    while (!__atomic_load_n(&stop, __ATOMIC_SEQ_CST))
        for (int i = 0; i < 2; i++)
            MUST(dup2(both[i], racing));
    return NULL;
}

static void race(void)
{
    say("== a number that is exchanged all the time");
    pthread_t thread;
    struct stat s;
    int both[2] = {MUST(open("one", O_RDONLY | O_DIRECTORY)), MUST(open("two", O_PATH | O_DIRECTORY))}, odd = 0;
    racing = MUST(dup2(both[0], OTHER_AT));
    pthread_create(&thread, NULL, exchange, both);
    for (int i = 0; i < 3000; i++)
        if (fstatat(racing, "f", &s, 0) || (s.st_size != 5 && s.st_size != 7))
            odd++;
    __atomic_store_n(&stop, 1, __ATOMIC_SEQ_CST);
    pthread_join(thread, NULL);
    say("answers that are neither: %d", odd);
    MUST(dup2(both[0], racing));
    ask("one in the end", racing);
    close(both[0]);
    close(both[1]);
    close(racing);
}

int main(void)
{
    make("one", 5);
    make("two", 6);
    MUST(mkdir("deep", 0755));
    make("kinds", 3);
    MUST(mkdir("kinds/d", 0755));
    MUST(symlink("f", "kinds/link"));
    MUST(symlink("d", "kinds/to.d"));
    MUST(symlink("nowhere", "kinds/dangling"));
    MUST(mkfifo("kinds/fifo", 0644));
    numbers(O_RDONLY);
    MUST(rename("two", "two.old"));
    make("two", 6);
    numbers(O_PATH);
    kinds();
    working_directories();
    threads();
    race();
    return 0;
}
