/* Looks names up again and again, with every kind of change in between, and prints each answer.
 *
 * usage: name_cache DIR        runs all scenes in DIR, a copy of the tree that test_name_cache.py prepares
 *        name_cache DIR KIND   one scene about hard links
 *        name_cache wait       looks, waits for a byte on stdin, looks again: a host process changes things meanwhile
 *
 * Every name is asked for twice before a change (the first answer may teach a cache, the second may come from it) and
 * twice after it.
 * build: name_cache -O1
 */
#include "name_cache.h"

static const char *watched[24];
static int watched_at = AT_FDCWD;

static void look_twice(void)
{
    for (int round = 0; round < 2; round++)
        for (int i = 0; watched[i]; i++)
            look(watched_at, watched[i], round);
}

static void watch(int dirfd, const char *const *names)
{
    int i;
    for (i = 0; names[i]; i++)
        watched[i] = names[i];
    watched[i] = NULL;
    watched_at = dirfd;
    look_twice();
}

/* The names to ask for from now on, asked for twice before anything changes. */
#define WATCH(...) watch(AT_FDCWD, (const char *const[]){__VA_ARGS__, NULL})
#define WATCH_AT(fd, ...) watch(fd, (const char *const[]){__VA_ARGS__, NULL})

static void scene(const char *title)
{
    say("== %s", title);
}

/* Change something, and ask twice again. */
#define CHANGE(expression) (STEP(expression), look_twice())

static int write_to(const char *name, int flags, const char *text)
{
    int fd = open(name, flags | O_CLOEXEC, 0644);
    if (fd < 0)
        return -1;
    int n = write(fd, text, strlen(text));
    close(fd);
    return n;
}

static int bind_at(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    strcpy(address.sun_path, name);
    int result = bind(fd, (struct sockaddr *)&address, sizeof address);
    close(fd);
    return result;
}

static int give_name(const char *folder, const char *name)
{
    char path[64];
    int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0640);
    if (fd < 0 || write(fd, "unnamed", 7) != 7)
        return -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int result = linkat(AT_FDCWD, path, AT_FDCWD, name, AT_SYMLINK_FOLLOW);
    close(fd);
    return result;
}

static int set_times(const char *name, int flags)
{
    struct timespec times[2] = {{OLD - 500, 5}, {OLD - 500, 6}};
    return utimensat(AT_FDCWD, name, times, flags);
}

static int run(const char *name)
{
    pid_t pid = fork();
    if (pid == 0) {
        execl(name, name, "ran", (char *)NULL);
        _exit(100 + errno % 100);
    }
    int status = wait_for(pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void files(void)
{
    scene("missing names");
    WATCH("none", "none/x", "plain/x", "plain/", "one/none", "", ".", "..", "one/.", "one/..", "one//a", "./one/a", "one/../plain",
          "foreign", "foreign.d/a");
    scene("a file comes and goes");
    WATCH("one/new", "one/new/", "one/a", "one/a/", "one", "one/", "one//");
    CHANGE(write_to("one/new", O_WRONLY | O_CREAT | O_EXCL, "fresh"));
    CHANGE(write_to("one/new", O_WRONLY | O_APPEND, " more"));
    CHANGE(unlink("one/new"));
    CHANGE(mkdir("one/new", 0750));
    CHANGE(rmdir("one/new"));
    CHANGE(symlink("a", "one/new"));
    CHANGE(unlink("one/new"));
    CHANGE(mkfifo("one/new", 0640));
    CHANGE(unlink("one/new"));
    CHANGE(bind_at("one/new"));
    CHANGE(unlink("one/new"));
    CHANGE(give_name("one", "one/new"));
    CHANGE(rename("one/new", "one/b"));
    scene("a prepared file changes");
    WATCH("two/a", "two/b", "two");
    CHANGE(write_to("two/a", O_WRONLY, "X"));
    CHANGE(truncate("two/a", 3));
    CHANGE(truncate("two/b", 100));
    CHANGE(chmod("two/b", 0400));
    CHANGE(chmod("two/b", 0));
    CHANGE(chmod("two/b", 0755));
    CHANGE(set_times("two/b", 0));
    CHANGE(setxattr("two/b", "user.x", "y", 1, 0));
    CHANGE(chown("two/b", -1, -1));
    CHANGE(write_to("two/b", O_WRONLY | O_TRUNC, "all new"));
    scene("a prepared file goes and something else comes");
    WATCH("three/a", "three/b", "three/c", "three/d/x");
    CHANGE(unlink("three/a"));
    CHANGE(write_to("three/a", O_WRONLY | O_CREAT, "again"));
    CHANGE(unlink("three/a"));
    CHANGE(mkdir("three/a", 0755));
    CHANGE(rename("three/b", "three/c"));
    CHANGE(symlink("c", "three/b"));
    CHANGE(rename("three/c", "three/e"));
    CHANGE(rename("three/e", "three/c"));
    CHANGE(syscall(SYS_renameat2, AT_FDCWD, "three/c", AT_FDCWD, "three/d", RENAME_EXCHANGE));
    CHANGE(syscall(SYS_renameat2, AT_FDCWD, "three/c", AT_FDCWD, "three/d", RENAME_EXCHANGE));
    CHANGE(syscall(SYS_renameat2, AT_FDCWD, "three/c", AT_FDCWD, "three/d", RENAME_NOREPLACE));
}

static void folders(void)
{
    scene("a prepared folder is renamed");
    WATCH("tree/sub/a", "moved/sub/a", "tree/sub", "tree", "moved", "tree/none", "moved/none");
    CHANGE(rename("tree", "moved"));
    CHANGE(write_to("moved/sub/new", O_WRONLY | O_CREAT, "x"));
    CHANGE(mkdir("tree", 0755));
    CHANGE(mkdir("tree/sub", 0700));
    CHANGE(write_to("tree/sub/a", O_WRONLY | O_CREAT, "other"));
    CHANGE(syscall(SYS_renameat2, AT_FDCWD, "tree", AT_FDCWD, "moved", RENAME_EXCHANGE));
    CHANGE(rename("tree/sub", "moved/sub2"));
    CHANGE(rename("moved/sub2", "tree/sub"));
    scene("a folder is emptied, removed and made again");
    WATCH("four/a", "four/b", "four/deep/a", "four");
    CHANGE(unlink("four/a"));
    CHANGE(unlink("four/b"));
    CHANGE(rmdir("four"));
    CHANGE(unlink("four/deep/a"));
    CHANGE(rmdir("four/deep"));
    CHANGE(rmdir("four"));
    CHANGE(mkdir("four", 0755));
    CHANGE(mkdir("four/deep", 0755));
    CHANGE(write_to("four/deep/a", O_WRONLY | O_CREAT, "new"));
    scene("permissions of folders");
    WATCH("five/deep/a", "five/deep", "five", "five/deep/none");
    CHANGE(chmod("five/deep", 0));
    CHANGE(chmod("five/deep", 0111));
    CHANGE(chmod("five/deep", 0444));
    CHANGE(chmod("five", 0));
    CHANGE(chmod("five", 0755));
    CHANGE(chmod("five/deep", 0755));
    CHANGE(set_times("five/deep", 0));
    CHANGE(setxattr("five", "user.x", "y", 1, 0));
}

static void links(void)
{
    scene("a link to a folder leads elsewhere");
    WATCH("way/a", "way", "way/", "way/none", "chain/a", "chain");
    CHANGE(unlink("way"));
    CHANGE(symlink("seven", "way"));
    CHANGE(symlink("six", "way2"));
    CHANGE(rename("way2", "way"));
    CHANGE(rename("six", "six2"));
    CHANGE(rename("seven", "six"));
    CHANGE(unlink("six/a"));
    scene("a link to a file leads elsewhere");
    WATCH("short", "short/", "dangling", "loop");
    CHANGE(unlink("short"));
    CHANGE(symlink("six2/b", "short"));
    CHANGE(write_to("dangling", O_WRONLY | O_CREAT, "made through a link"));
    CHANGE(unlink("nowhere"));
    CHANGE(set_times("short", AT_SYMLINK_NOFOLLOW));
    scene("a link to an absolute name leads elsewhere");
    WATCH("abs", "abs.twice", "abs.folder", "abs.folder/", "abs.folder/a", "abs.none", "abs.back");
    CHANGE(unlink("abs"));
    CHANGE(symlink("/ro/two/a", "abs"));
    CHANGE(write_to("plain", O_WRONLY, "X"));
    CHANGE(unlink("abs.none"));
    CHANGE(symlink("/usr/bin/env", "abs.none"));
    scene("hard links that were prepared");
    WATCH("twins/first", "twins/second", "twins/far/third", "twins/single");
    CHANGE(write_to("twins/first", O_WRONLY, "W"));
    CHANGE(chmod("twins/second", 0600));
    CHANGE(unlink("twins/first"));
    CHANGE(rename("twins/far/third", "twins/fourth"));
    CHANGE(truncate("twins/second", 1));
    scene("removing one of two prepared links");
    WATCH("pair/first", "pair/second");
    CHANGE(unlink("pair/first"));
    CHANGE(write_to("pair/second", O_WRONLY, "W"));
    scene("hard links made here");
    WATCH("eight/a", "eight/b", "eight/c", "eight/deep/d");
    CHANGE(link("eight/a", "eight/c"));
    CHANGE(link("eight/c", "eight/deep/d"));
    CHANGE(write_to("eight/deep/d", O_WRONLY, "through d"));
    CHANGE(chmod("eight/c", 0640));
    CHANGE(unlink("eight/a"));
    CHANGE(rename("eight/b", "eight/c"));
    CHANGE(link("eight/deep/d", "eight/a"));
    CHANGE(unlink("eight/deep/d"));
    CHANGE(link("eight/a", "one/from-eight"));
    CHANGE(unlink("one/from-eight"));
    CHANGE(rename("eight/a", "one/from-eight"));
    CHANGE(rename("one/from-eight", "eight/deep/d"));
    scene("a descriptor from before a change");
    WATCH("nine/a", "nine/b");
    struct stat s;
    int fd = MUST(open("nine/a", O_RDONLY)), other = MUST(open("nine/b", O_RDONLY));
    show("fstat before", "nine/a", fstat(fd, &s), &s);
    CHANGE(chmod("nine/a", 0600));
    show("fstat after chmod", "nine/a", fstat(fd, &s), &s);
    CHANGE(rename("nine/a", "nine/c"));
    show("fstat after rename", "nine/a", fstat(fd, &s), &s);
    CHANGE(unlink("nine/c"));
    show("fstat after unlink", "nine/a", fstat(fd, &s), &s);
    CHANGE(unlink("nine/b"));
    show("fstat after unlink", "nine/b", fstat(other, &s), &s);
    close(fd), close(other);
}

/* The first change of all in this box: a prepared hard link, under one of its names. The other one's neighbour is asked
 * for before it: a cache that learns the whole folder from the neighbour must still know about the twin. */
static void twin(const char *kind)
{
    scene(kind);
    WATCH("kin/first", "kin/far/neighbour", "kin/far/twin");
    if (!strcmp(kind, "write"))
        CHANGE(write_to("kin/first", O_WRONLY, "W"));
    else if (!strcmp(kind, "chmod"))
        CHANGE(chmod("kin/first", 0600));
    else if (!strcmp(kind, "times"))
        CHANGE(set_times("kin/first", 0));
    else if (!strcmp(kind, "xattr"))
        CHANGE(setxattr("kin/first", "user.x", "y", 1, 0));
    else if (!strcmp(kind, "truncate"))
        CHANGE(truncate("kin/first", 2));
    else if (!strcmp(kind, "rename"))
        CHANGE(rename("kin/first", "kin/second"));
    else if (!strcmp(kind, "link"))
        CHANGE(link("kin/first", "kin/second"));
    else if (!strcmp(kind, "unlink"))
        CHANGE(unlink("kin/first"));
    else if (!strcmp(kind, "replace"))
        CHANGE(rename("plain", "kin/first"));
    CHANGE(write_to("kin/far/new", O_WRONLY | O_CREAT, "x"));
}

static void descriptors(void)
{
    scene("changes through a descriptor");
    int mine = MUST(open("thirteen/new", O_RDWR | O_CREAT, 0644)), prepared = MUST(open("thirteen/a", O_RDWR));
    int folder = MUST(open("thirteen", O_RDONLY | O_DIRECTORY));
    struct timespec times[2] = {{OLD - 500, 5}, {OLD - 500, 6}};
    for (int i = 0; i < 2; i++) {
        int fd = i ? prepared : mine;
        WATCH("thirteen/new", "thirteen/a", "thirteen");
        CHANGE(write(fd, "through the descriptor", 22));
        CHANGE(ftruncate(fd, 5));
        CHANGE(fchmod(fd, 0640));
        CHANGE(fchmod(fd, 04755));
        CHANGE(write(fd, "set-uid goes", 12));
        CHANGE(fchmod(fd, 06775));
        CHANGE(truncate(i ? "thirteen/a" : "thirteen/new", 1));
        CHANGE(futimens(fd, times));
        CHANGE(fsetxattr(fd, "user.x", "y", 1, 0));
        CHANGE(fchown(fd, -1, -1));
        CHANGE(posix_fallocate(fd, 0, 100));
    }
    CHANGE(fchmod(folder, 0700));
    CHANGE(fchmod(folder, 0));
    CHANGE(fchmod(folder, 0755));
    CHANGE(futimens(folder, times));
    CHANGE(unlinkat(folder, "new", 0));
    CHANGE(write(mine, "no name any more", 16));
    CHANGE(mkdirat(folder, "new", 0755));
    CHANGE(unlinkat(folder, "new", AT_REMOVEDIR));
    CHANGE(symlinkat("a", folder, "new"));
    CHANGE(renameat(folder, "a", folder, "new"));
    CHANGE(linkat(folder, "new", folder, "a", 0));
    close(mine), close(prepared), close(folder);
}

/* fstat on descriptors of one directory, each asked twice, while the directory changes under them. */
static void held(const char *name)
{
    struct stat s;
    char below[64], away[64];
    snprintf(below, sizeof below, "%s/new", name);
    snprintf(away, sizeof away, "%s-away", name);
    int fds[3] = {MUST(open(name, O_RDONLY | O_DIRECTORY)), MUST(open(name, O_RDONLY | O_NONBLOCK)),
                  MUST(open(name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW))};
#define HELD(expression)                                                                                              \
    do {                                                                                                               \
        STEP(expression);                                                                                              \
        for (int i = 0; i < 6; i++)                                                                                    \
            show("fstat", name, fstat(fds[i / 2], &s), &s);                                                            \
        say("  flags %x %x %x", fcntl(fds[0], F_GETFL), fcntl(fds[1], F_GETFL), fcntl(fds[2], F_GETFL));              \
        show_open("open(directory)", name, AT_FDCWD, O_RDONLY | O_DIRECTORY);                                          \
    } while (0)
    HELD(0);
    HELD(mkdir(below, 0755));
    HELD(chmod(name, 0700));
    HELD(fchmod(fds[1], 0311));
    HELD(chmod(name, 0755));
    HELD(rename(name, away));
    HELD(mkdir(name, 0711));
    HELD(rmdir(name));
    HELD(rename(away, name));
    HELD(rmdir(below));
#undef HELD
    for (int i = 0; i < 3; i++)
        close(fds[i]);
}

static void places(void)
{
    scene("relative to the working directory");
    MUST(chdir("ten"));
    WATCH("a", "../ten/a", "deep/a", "none", "../plain");
    CHANGE(unlink("a"));
    CHANGE(rename("../ten", "../ten2"));
    CHANGE(chdir("deep"));
    CHANGE(chdir(".."));
    CHANGE(write_to("a", O_WRONLY | O_CREAT, "back"));
    CHANGE(mkdir("../ten", 0755));
    CHANGE(chdir("../ten"));
    CHANGE(chdir(".."));
    scene("relative to a descriptor");
    int fd = MUST(open("eleven", O_RDONLY | O_DIRECTORY)), path = MUST(open("eleven", O_PATH));
    WATCH_AT(fd, "a", "deep/a", "none", "../plain", "deep");
    CHANGE(unlink("eleven/a"));
    CHANGE(rename("eleven", "twelve"));
    CHANGE(mkdir("eleven", 0755));
    CHANGE(write_to("eleven/a", O_WRONLY | O_CREAT, "not yours"));
    WATCH_AT(path, "a", "deep/a", "none");
    CHANGE(unlink("twelve/deep/a"));
    CHANGE(rmdir("twelve/deep"));
    CHANGE(unlink("twelve/b"));
    CHANGE(rmdir("twelve"));
    close(fd), close(path);
    scene("a directory that is held");
    MUST(mkdir("sixteen", 0755));
    held("sixteen");
    held("fifteen");
    held("fifteen/deep");
    scene("where other trees are mounted");
    WATCH("/proc/version", "/proc/none", "/dev/null", "/dev", "/usr", "/usr/bin/env", "/usr/none", "/usr/bin/none", "/etc/passwd", "/sys",
          "/cow", "/rw", "/ro/plain", "/ro/none");
    CHANGE(write_to("/ro/plain", O_WRONLY, "no"));
    CHANGE(unlink("/ro/plain"));
    CHANGE(write_to("/ro/none", O_WRONLY | O_CREAT, "no"));
}

static char *below(const char *top, const char *name)
{
    char *path;
    MUST(asprintf(&path, "%s%s", top, name));
    return path;
}

/* What leads to a directory, through it, and begins in it, while it goes and another one takes its name. */
static void removed(const char *top, const char *name, const char *inner)
{
    char *file = below(name, "/a"), *deep = below(name, inner), *gone = below(name, "-gone");
    char *in_deep = below(deep, "/a"), *whole = below(top, below("/", name));
    MUST(chdir(top));
    int fd = MUST(open(name, O_RDONLY | O_DIRECTORY)), path = MUST(open(name, O_PATH));
    int deep_fd = MUST(open(deep, O_RDONLY | O_DIRECTORY));
    WATCH(file, deep, in_deep, below(deep, "/none/a"), below(name, "/none"), below(name, "//a"), whole, below(whole, "/a"),
          below(whole, below(inner, "/../a")), below(whole, below(inner, "/../../plain")), below(whole, "/none/../a"),
          below(whole, "/."));
    CHANGE(write_to(file, O_WRONLY | O_CREAT, "a"));
    CHANGE(rmdir(name));
    CHANGE(write_to(in_deep, O_WRONLY | O_CREAT, "deep"));
    CHANGE(rmdir(deep));
    CHANGE(unlink(in_deep));
    WATCH_AT(deep_fd, "a", "none", "..", "../a", "../none");
    CHANGE(rmdir(deep));
    CHANGE(write_to(in_deep, O_WRONLY | O_CREAT, "not there"));
    CHANGE(mkdir(deep, 0755));
    CHANGE(write_to(in_deep, O_WRONLY | O_CREAT, "another one"));
    WATCH(file, deep, in_deep, below(whole, "/a"), below(whole, below(inner, "/../a")), below(name, "/none"));
    CHANGE(unlink(in_deep));
    CHANGE(unlinkat(fd, inner + 1, AT_REMOVEDIR));
    CHANGE(write_to(deep, O_WRONLY | O_CREAT, "a file now"));
    CHANGE(unlink(deep));
    CHANGE(mkdirat(path, inner + 1, 0));
    CHANGE(chmod(deep, 0755));
    CHANGE(rename(deep, gone));
    CHANGE(rmdir(gone));
    WATCH_AT(fd, "a", inner + 1, "none", "..");
    CHANGE(unlink(file));
    CHANGE(rmdir(name));
    CHANGE(mkdir(name, 0700));
    CHANGE(write_to(file, O_WRONLY | O_CREAT, "not yours"));
    WATCH_AT(path, "a", inner + 1, "none");
    CHANGE(mkdir(deep, 0755));
    CHANGE(mkdirat(fd, "new", 0755));
    CHANGE(unlink(file));
    MUST(chdir(deep));
    WATCH("a", "..", "../a", "none", below(top, "/plain"));
    CHANGE(rmdir(below(top, below("/", deep))));
    CHANGE(write_to("a", O_WRONLY | O_CREAT, "in none"));
    CHANGE(mkdir(below(top, below("/", deep)), 0755));
    CHANGE(write_to(below(top, below("/", in_deep)), O_WRONLY | O_CREAT, "in a new one"));
    MUST(chdir(top));
    close(fd), close(path), close(deep_fd);
}

static void removals(const char *top)
{
    scene("directories that are removed, the box's own");
    MUST(mkdir("trees", 0755)), MUST(mkdir("trees/inner", 0755));
    removed(top, "trees", "/inner");
    scene("and others");
    removed(top, "seventeen", "/deep");
    scene("and one that names lead through, and out of");
    WATCH(below(top, "/eighteen/in/deep/../../a"), below(top, "/eighteen/in/deep/../../in/"), "eighteen/a");
    CHANGE(rmdir("eighteen/in/deep"));
    CHANGE(mkdir("eighteen/in/deep", 0755));
}

/* Absolute names, because names with `..` are learnt of those alone. */
static void directories(const char *top)
{
    scene("names that can only be those of directories");
    WATCH(top, below(top, "/"), below(top, "/."), below(top, "/.."), below(top, "/two/.."), below(top, "/two/../."),
          below(top, "/plain/.."), below(top, "/none/.."), below(top, "/none/../two/."), below(top, "/dots/.."));
    CHANGE(write_to("dots", O_WRONLY | O_CREAT, "no directory"));
    CHANGE(unlink("dots"));
    CHANGE(mkdir("dots", 0755));
    CHANGE(chmod("dots", 0));
    CHANGE(rmdir("dots"));
    MUST(mkdir("/tmp/own", 0755));
    WATCH("/usr/lib/..", "/usr/bin/../.", "/lib64/.", "/lib64/", "/lib64/..", "/tmp", "/tmp/.", "/tmp/own", "/tmp/own/..");
    CHANGE(write_to("/tmp/one", O_WRONLY | O_CREAT, "a"));
    CHANGE(write_to("/tmp/own/one", O_WRONLY | O_CREAT, "a"));
    CHANGE(write_to("/tmp/own/other", O_WRONLY | O_CREAT, "b"));
    CHANGE(rename("/tmp/own/one", "/tmp/own/other"));
    CHANGE(unlink("/tmp/own/other"));
    CHANGE(chmod("/tmp/own", 0));
    CHANGE(rmdir("/tmp/own"));
    CHANGE(symlink("one", "/tmp/own"));
    CHANGE(unlink("/tmp/own"));
    CHANGE(write_to("/tmp/own", O_WRONLY | O_CREAT, "a file"));
    WATCH(below(top, "/three/d/."), below(top, "/three/d/../d"), below(top, "/three/d/.."), below(top, "/three/d"));
    CHANGE(chmod("three/d", 0711));
    CHANGE(chmod("three", 0));
    CHANGE(chmod("three", 0755));
    CHANGE(rename("three/d", "three/dots"));
    CHANGE(symlink("../two", "three/d"));
}

static void programs(void)
{
    scene("programs");
    WATCH("bin/prog", "bin/link");
    for (int i = 0; i < 3; i++)
        STEP(run("bin/prog")), STEP(run("bin/link")), STEP(run("./bin/script")), STEP(run("bin/none"));
    CHANGE(rename("bin/other", "bin/prog"));
    STEP(run("bin/prog")), STEP(run("bin/link"));
    CHANGE(chmod("bin/prog", 0644));
    STEP(run("bin/prog")), STEP(run("bin/link"));
    CHANGE(chmod("bin/prog", 0755));
    STEP(run("bin/prog"));
    CHANGE(unlink("bin/link"));
    CHANGE(symlink("script", "bin/link"));
    STEP(run("bin/link"));
    CHANGE(unlink("bin/prog"));
    STEP(run("bin/prog"));
    CHANGE(symlink("/bin/true", "bin/prog"));
    STEP(run("bin/prog")), STEP(run("bin/prog"));
    CHANGE(chmod("bin", 0));
    STEP(run("bin/prog"));
    STEP(chmod("bin", 0755));
    STEP(run("bin/prog"));
}

static void bad_addresses(void)
{
    scene("addresses that are none");
    for (int round = 0; round < 2; round++) {
        STEP(syscall(SYS_stat, "plain", (void *)8));
        STEP(syscall(SYS_stat, (void *)8, (void *)8));
        STEP(syscall(SYS_statx, AT_FDCWD, "plain", 0, 0x7ff, (void *)8));
        STEP(syscall(SYS_readlink, "short", (void *)8, 8));
        STEP(syscall(SYS_readlink, "short", edge_buffer(4), 0));
        STEP(syscall(SYS_access, "plain", 8));
        STEP(syscall(SYS_statx, AT_FDCWD, "plain", 0x8000, 0x7ff, edge_buffer(256)));
        STEP(syscall(SYS_newfstatat, -1, "plain", edge_buffer(144), 0));
        STEP(syscall(SYS_newfstatat, AT_FDCWD, edge_string("plain"), edge_buffer(144), 0));
    }
}

int main(int argc, char **argv)
{
    started = time(NULL);
    if (argc == 2 && strcmp(argv[1], "wait") == 0) {
        char byte;
        WATCH("/ro/a", "/ro/b", "/ro/new", "/ro/one/a", "/ro/one", "/ro/way/a", "/rw/a", "/rw/new", "/rw/one/a",
              "/rw/one", "/ro/abs", "/ro/four/deep/a", "/rw/four/deep/a", "/rw/four/deep/new");
        /* A directory that is asked often is held open. */
        for (int round = 0; round < 200; round++) {
            struct stat status;
            for (int i = 0; watched[i]; i++)
                lstat(watched[i], &status);
        }
        for (say("ready"); read(0, &byte, 1) == 1; say("ready"))
            look_twice();
        return 0;
    }
    if (argc < 2 || chdir(argv[1]) < 0)
        return 2;
    umask(022);
    if (argc == 3) {
        twin(argv[2]);
        return 0;
    }
    bad_addresses();
    files();
    folders();
    links();
    descriptors();
    places();
    directories(argv[1]);
    removals(argv[1]);
    programs();
    say("%d inodes", seen_count);
    return 0;
}
