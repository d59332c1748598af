/* build: files_dirs -pthread
 *
 * Directories as places: getdents, telldir and seekdir, chdir, fchdir, getcwd, and who shares a working directory.
 */
#include "step.h"
#include <dirent.h>
#include <pthread.h>
#include <sched.h>

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static char kind(unsigned char type) {
    return type == DT_DIR ? 'd' : type == DT_REG ? 'f' : type == DT_LNK ? 'l' : type == DT_FIFO ? 'p' : '?';
}

static void list(const char *path) {
    DIR *dir = opendir(path);
    if (!dir) {
        say("opendir %s: %s", path, errname(errno));
        return;
    }
    char *names[1000];
    int count = 0, wrong_inode = 0;
    for (struct dirent *entry; (entry = readdir(dir)) && count < 1000;) {
        char text[300];
        struct stat st;
        snprintf(text, sizeof text, "%c:%s", kind(entry->d_type), entry->d_name);
        names[count++] = strdup(text);
        if (strcmp(entry->d_name, "..") && fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            wrong_inode += st.st_ino != entry->d_ino;
    }
    closedir(dir);
    qsort(names, count, sizeof *names, by_name);
    say("list %s: %d entries, %d inode numbers differ from stat", path, count, wrong_inode);
    if (count < 20)
        for (int i = 0; i < count; i++)
            say("  %s", names[i]);
    for (int i = 0; i < count; i++)
        free(names[i]);
}

static void listing(void) {
    MUST(mkdir("many", 0755));
    char name[64];
    for (int i = 0; i < 500; i++) {
        snprintf(name, sizeof name, "many/a_rather_long_file_name_number_%d", i);
        put_text(name, "", 0644);
    }
    MUST(mkdir("kinds", 0755));
    put_text("kinds/file", "", 0644);
    MUST(mkdir("kinds/dir", 0755));
    MUST(symlink("file", "kinds/link"));
    MUST(mkfifo("kinds/fifo", 0644));
    put_text("kinds/.hidden", "", 0644);
    list("many");
    list("kinds");
    list("kinds/dir");
    list("kinds/file");
    list("missing");
    char small[30], *buffer = edge_buffer(4096);
    int fd = MUST(open("many", O_RDONLY | O_DIRECTORY));
    STEP(syscall(SYS_getdents64, fd, small, 10));
    STEP(syscall(SYS_getdents64, fd, (void *)8, 4096));
    long total = 0, calls = 0;
    for (long n; (n = syscall(SYS_getdents64, fd, buffer, 4096)) > 0; calls++)
        for (long at = 0; at < n; at += ((struct dirent64 *)(buffer + at))->d_reclen)
            total++;
    say("%ld entries in %s calls", total, calls > 2 ? "several" : "too few");
    STEP(syscall(SYS_getdents64, fd, buffer, 4096));
    STEP(lseek(fd, 0, SEEK_SET));
    say("again after lseek: %s", syscall(SYS_getdents64, fd, buffer, 4096) > 0 ? "entries" : "nothing");
    close(fd);
    STEP(syscall(SYS_getdents64, fd, buffer, 4096));
    fd = MUST(open("kinds/file", O_RDONLY));
    STEP(syscall(SYS_getdents64, fd, buffer, 4096));
    close(fd);
    fd = MUST(open("kinds", O_PATH));
    STEP(syscall(SYS_getdents64, fd, buffer, 4096));
    close(fd);
}

/* Removing while reading, the way rm -r does it: no name may be missed or come twice. */
static void removal_while_reading(void) {
    DIR *dir = opendir("many");
    int removed = 0;
    for (struct dirent *entry; (entry = readdir(dir));)
        if (entry->d_name[0] != '.')
            removed += unlinkat(dirfd(dir), entry->d_name, 0) == 0;
    say("removed %d", removed);
    closedir(dir);
    STEP(rmdir("many"));
    dir = opendir("kinds");
    readdir(dir);
    long place = telldir(dir);
    char second[300] = "";
    struct dirent *entry = readdir(dir);
    snprintf(second, sizeof second, "%s", entry->d_name);
    readdir(dir);
    seekdir(dir, place);
    entry = readdir(dir);
    say("seekdir comes back to the same name %d", entry && !strcmp(second, entry->d_name));
    rewinddir(dir);
    int count = 0;
    while (readdir(dir))
        count++;
    say("after rewinddir %d", count);
    closedir(dir);
    /* Two descriptors of one directory read on their own, duplicates share a position. */
    char buffer[4096];
    int a = MUST(open("kinds", O_RDONLY)), b = MUST(open("kinds", O_RDONLY)), c = MUST(dup(a));
    say("first %d", syscall(SYS_getdents64, a, buffer, sizeof buffer) > 0);
    say("other description %d", syscall(SYS_getdents64, b, buffer, sizeof buffer) > 0);
    say("duplicate %d", syscall(SYS_getdents64, c, buffer, sizeof buffer) > 0);
    close(a), close(b), close(c);
}

static void where(const char *label) {
    char path[PATH_MAX];
    say("%s: %s", label, getcwd(path, sizeof path) ? path : errname(errno));
}

static void *thread_changes(void *name) {
    STEP(chdir(name));
    return NULL;
}

static void *thread_on_its_own(void *unused) {
    (void)unused;
    STEP(unshare(CLONE_FS));
    STEP(chdir("kinds"));
    where("thread after unshare(CLONE_FS)");
    return NULL;
}

static void places(void) {
    where("start");
    char small[3], *home = getcwd(NULL, 0);
    STEP(getcwd(small, sizeof small) ? 0 : -1);
    STEP(syscall(SYS_getcwd, small, 0));
    STEP(syscall(SYS_getcwd, (char *)8, 4096));
    char *edge = edge_buffer(strlen(home) + 1);
    say("exact room %ld", syscall(SYS_getcwd, edge, strlen(home) + 1) - (long)strlen(home));
    STEP(syscall(SYS_getcwd, edge, strlen(home)));
    STEP(chdir("kinds/dir"));
    where("below");
    STEP(chdir(".."));
    where("up");
    STEP(chdir("file"));
    STEP(chdir("link"));
    STEP(chdir("missing"));
    STEP(chdir(""));
    int fd = MUST(open(".", O_RDONLY)), path_fd = MUST(open("dir", O_PATH)), file_fd = MUST(open("file", O_RDONLY));
    STEP(chdir("/"));
    where("root");
    STEP(chdir("../../.."));
    where("above root");
    STEP(fchdir(fd));
    where("fchdir");
    STEP(fchdir(path_fd));
    where("fchdir by O_PATH");
    STEP(fchdir(file_fd));
    STEP(fchdir(77));
    STEP(chdir(home));
    MUST(symlink("kinds", "via"));
    STEP(chdir("via"));
    where("through a link");
    STEP(chdir(home));
    pthread_t thread;
    pthread_create(&thread, NULL, thread_changes, "kinds");
    pthread_join(thread, NULL);
    where("a thread changes it for all");
    STEP(chdir(home));
    pthread_create(&thread, NULL, thread_on_its_own, NULL);
    pthread_join(thread, NULL);
    where("unless it left");
    pid_t pid = fork();
    if (pid == 0) {
        where("child begins");
        STEP(chdir("kinds"));
        where("child");
        _exit(0);
    }
    wait_for(pid);
    where("parent stays");
    STEP(mkdir("moving", 0755));
    STEP(chdir("moving"));
    STEP(rename("../moving", "../moved"));
    where("renamed below us");
    STEP(rmdir("../moved"));
    where("removed below us");
    STEP(creat("x", 0644));
    STEP(mkdir("x", 0755));
    STEP(open(".", O_RDONLY));
    STEP(access(".", F_OK));
    STEP(access("..", F_OK));
    STEP(chdir(home));
    where("home");
    close(fd), close(path_fd), close(file_fd);
}

int main(void) {
    umask(022);
    listing();
    removal_while_reading();
    places();
    return 0;
}
