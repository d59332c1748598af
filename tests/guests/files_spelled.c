/* build: files_spelled -pthread
 *
 * Directories that are known by several names, where the first change fails, and then others are made by one name and
 * looked at by the other; that may not be searched; that are dated, held or removed before anything was changed in them.
 * Then one thread makes and removes a directory, and others make files in it. With "make" it only makes what is there
 * before; without, it makes that where there is none. */
#include "step.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>

#define FILES 6

static char home[2048];

static const char *whole(const char *name) {
    static char all[4][4096];
    static int next;
    char *text = all[next++ % 4];
    snprintf(text, sizeof all[0], "%s/%s", home, name);
    return text;
}

static void make(void) {
    static const char *const names[] = {"two", "hidden", "dated", "held", "into", "empty", "listed"};
    char file[64];
    MUST(mkdir("s", 0755));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(file, sizeof file, "s/%s", names[i]);
        MUST(mkdir(file, i == 5 ? 0711 : 0755));
        for (int j = 0; j < FILES && i != 5; j++) {
            snprintf(file, sizeof file, "s/%s/f%d", names[i], j);
            put_text(file, "before", 0644);
        }
    }
}

static void show(const char *name) {
    struct stat st;
    if (stat(name, &st) < 0) {
        say("%s: %s", name[0] == '/' ? name + strlen(home) : name, errname(errno));
        return;
    }
    int recent = st.st_mtim.tv_sec > 1000000000;
    say("%s: mode %o, size %ld, owner %d, dated %ld", name[0] == '/' ? name + strlen(home) : name, st.st_mode,
        S_ISREG(st.st_mode) ? (long)st.st_size : -1L, st.st_uid == getuid(), recent ? 0L : (long)st.st_mtim.tv_sec);
}

static void teach(const char *name) {
    struct stat st;
    char text[4200];
    for (int i = 0; i < 20; i++) {
        snprintf(text, sizeof text, "%s/f%d", name, i % FILES);
        stat(text, &st);
        snprintf(text, sizeof text, "%s/none%d", name, i % 3);
        access(text, F_OK);
    }
}

static void write_new(const char *name, const char *text) {
    int fd = open(name, O_CREAT | O_EXCL | O_WRONLY, 0644);
    say("make %s: %s", name[0] == '/' ? name + strlen(home) : name, fd < 0 ? errname(errno) : "done");
    if (fd >= 0) {
        MUST(write(fd, text, strlen(text)));
        MUST(close(fd));
    }
}

static void listing(const char *name) {
    int count = 0;
    DIR *dir = opendir(name);
    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    say("%s: %d entries", name, count);
}

/* So that the box has made files before. */
static void some_files(const char *name) {
    char text[64];
    MUST(mkdir(name, 0755));
    for (int i = 0; i < 8; i++) {
        snprintf(text, sizeof text, "%s/o%d", name, i);
        write_new(text, "own");
    }
}

static void two_spellings(void) {
    teach(whole("s/two"));
    STEP(unlink("s/two/none")); /* fails */
    teach(whole("s/two"));
    MUST(chdir("s/two"));
    teach(".");
    for (int i = 0; i < FILES; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%d", i);
        show(name);
    }
    write_new(whole("s/two/new"), "one");
    show("new");
    show("./new");
    write_new("new", "second");
    show(whole("s/two/new"));
    STEP(unlink(whole("s/two/f1") ));
    show("f1");
    STEP(unlink("f2"));
    show(whole("s/two/f2"));
    STEP(mkdir(whole("s/two/deep"), 0755));
    write_new("deep/in", "x");
    show(whole("s/two/deep/in"));
    STEP(unlink("deep/in"));
    STEP(rmdir(whole("s/two/deep")));
    show("deep");
    STEP(access("deep/in", F_OK));
    listing(".");
    MUST(chdir(home));
}

static void after_a_failure(void) {
    struct timespec times[2] = {{1000, 1}, {2000, 2}};
    struct stat st;
    static const char *const names[] = {"s/dated", "s/held", "s/into", "s/empty"};
    for (int i = 0; i < 4; i++) {
        teach(whole(names[i]));
        teach(names[i]);
        char none[64];
        snprintf(none, sizeof none, "%s/none", names[i]);
        STEP(unlink(whole(none)));
        STEP(unlink(none));
    }
    STEP(utimensat(AT_FDCWD, "s/dated", times, 0));
    show("s/dated");
    show(whole("s/dated"));
    STEP(unlink("s/dated/f0"));
    show("s/dated/f0");
    STEP(rename("own/o7", "s/into/moved"));
    MUST(stat("s/into", &st));
    say("into: dated now %d", st.st_mtim.tv_sec > 1000000000);
    show("s/into/moved");
    int fd = MUST(open("s/empty", O_RDONLY | O_DIRECTORY));
    STEP(rmdir(whole("s/empty")));
    MUST(fstat(fd, &st));
    say("removed: mode %o, links %ld, owner %d", st.st_mode, (long)st.st_nlink, st.st_uid == getuid());
    show("s/empty");
    STEP(mkdir("s/empty", 0700));
    show(whole("s/empty"));
    MUST(close(fd));
}

static void not_searched(void) {
    static const mode_t modes[] = {0600, 0, 0200, 0311};
    char name[64], text[8];
    for (int i = 0; i < 8; i++) {
        snprintf(name, sizeof name, "own/d%d", i);
        STEP(mkdir(name, modes[i % 4]));
        show(name);
        snprintf(name, sizeof name, "own/d%d/x", i);
        show(name);
        STEP(open(name, O_RDONLY));
        STEP(readlink(name, text, sizeof text));
        write_new(name, "y");
        STEP(unlink(name));
        name[strlen(name) - 2] = 0;
        STEP(rmdir(name));
        STEP(readlink(name, text, sizeof text));
    }
}

/* By one name it is looked at, and by the other removed. */
static void removed_beside(void) {
    char text[8];
    STEP(mkdir("own/d", 0755));
    for (int i = 0; i < 6; i++) {
        readlink("own/d", text, sizeof text);
        show("own/d");
    }
    write_new(whole("own/d/a"), "x");
    write_new(whole("own/d/b"), "x");
    STEP(unlink(whole("own/d/a")));
    STEP(unlink(whole("own/d/b")));
    for (int i = 0; i < 6; i++)
        STEP(readlink("own/d", text, sizeof text));
    STEP(rmdir(whole("own/d")));
    STEP(readlink("own/d", text, sizeof text));
    show("own/d");
    show("own/d/a");
}

static atomic_int over, wrong;

static void *maker(void *argument) {
    char name[4200], other[4200];
    snprintf(name, sizeof name, "%s/own/busy/x%ld", home, (long)argument);
    snprintf(other, sizeof other, "%s/own/busy/y%ld", home, (long)argument);
    while (!atomic_load(&over)) {
        int fd = open(name, O_CREAT | O_EXCL | O_WRONLY, 0644);
        if (fd < 0) {
            if (errno != ENOENT && !atomic_fetch_add(&wrong, 1))
                say("open: %s", errname(errno));
            continue;
        }
        MUST(close(fd));
        int moved = (long)argument ? rename(name, other) : -1;
        if (unlink(moved ? name : other) != 0 && !atomic_fetch_add(&wrong, 1))
            say("unlink: %s", errname(errno));
    }
    return NULL;
}

static void vanishing(int seconds) {
    pthread_t thread[2];
    time_t end = time(NULL) + seconds;
    for (long i = 0; i < 2; i++)
        MUST(pthread_create(&thread[i], NULL, maker, (void *)i));
    while (time(NULL) < end) {
        if (mkdir(whole("own/busy"), 0755) != 0 && errno != EEXIST)
            atomic_fetch_add(&wrong, 1);
        for (volatile int i = 0; i < 2000; i++)
            ;
        if (rmdir(whole("own/busy")) != 0 && errno != ENOTEMPTY && errno != ENOENT)
            atomic_fetch_add(&wrong, 1);
    }
    atomic_store(&over, 1);
    for (int i = 0; i < 2; i++)
        MUST(pthread_join(thread[i], NULL));
    say("vanishing: wrong %d", atomic_load(&wrong));
    if (rmdir("own/busy") != 0 && errno != ENOENT)
        say("it is left: %s", errname(errno));
}

int main(int argc, char **argv) {
    umask(022);
    if (!getcwd(home, sizeof home))
        return 96;
    if (access("s", F_OK) < 0)
        make();
    if (argc > 1 && strcmp(argv[1], "make") == 0)
        return 0;
    some_files("own");
    two_spellings();
    after_a_failure();
    not_searched();
    removed_beside();
    vanishing(argc > 1 ? atoi(argv[1]) : 1);
    return 0;
}
