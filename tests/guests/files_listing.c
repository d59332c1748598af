/* build: files_listing
 *
 * Reading directories in pieces: both forms of getdents, positions that stay while names come and go, rewinding, seeking.
 */
#include "step.h"

#include <dirent.h>

struct old_dirent {
    unsigned long d_ino, d_off;
    unsigned short d_reclen;
    char d_name[];
};

static int compare(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* All names from here on, sorted: the order depends on the file system. */
static void rest(const char *what, int fd, size_t room, int old) {
    char *names[2000];
    int count = 0, calls = 0, wrong = 0;
    char *buffer = malloc(room);
    for (;;) {
        long n = old ? syscall(SYS_getdents, fd, buffer, room) : syscall(SYS_getdents64, fd, buffer, room);
        if (n <= 0) {
            if (n < 0)
                say("%s: %s", what, errname(errno));
            break;
        }
        calls++;
        for (long at = 0; at < n;) {
            const char *name;
            int type, length;
            if (old) {
                struct old_dirent *entry = (void *)(buffer + at);
                name = entry->d_name, length = entry->d_reclen, type = buffer[at + length - 1];
            } else {
                struct dirent64 *entry = (void *)(buffer + at);
                name = entry->d_name, length = entry->d_reclen, type = entry->d_type;
            }
            struct stat st;
            if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && (int)(st.st_mode >> 12 & 15) != type)
                wrong++;
            wrong += length % 8 != 0;
            names[count++] = strdup(name);
            at += length;
        }
    }
    qsort(names, count, sizeof *names, compare);
    char line[4000] = "";
    for (int i = 0; i < count && strlen(line) < 3000; i++) {
        strcat(line, " ");
        strcat(line, names[i]);
    }
    int twice = 0;
    for (int i = 1; i < count; i++)
        twice += !strcmp(names[i], names[i - 1]);
    say("%s: %d names, %d twice, several calls %d, wrong %d:%s", what, count, twice, calls > 1, wrong, count < 40 ? line : " ...");
}

int main(void) {
    char name[300], buffer[4096];
    MUST(mkdir("d", 0755));
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "d/name%03d", i);
        put_text(name, "", 0644);
    }
    int fd = MUST(open("d", O_RDONLY | O_DIRECTORY));
    rest("all", fd, 4096, 0);
    rest("at the end", fd, 4096, 0);
    STEP(lseek(fd, 0, SEEK_SET));
    rest("again, old form", fd, 4096, 1);
    STEP(lseek(fd, 0, SEEK_SET));
    rest("again, small pieces", fd, 300, 0);
    STEP(lseek(fd, 0, SEEK_SET));
    STEP(syscall(SYS_getdents64, fd, buffer, 10));
    STEP(syscall(SYS_getdents64, fd, buffer, 0));
    STEP(syscall(SYS_getdents, fd, buffer, 10));
    STEP(syscall(SYS_getdents64, fd, (void *)16, 4096));
    STEP(syscall(SYS_getdents64, -1, buffer, 4096));
    int file = MUST(open("d/name000", O_RDONLY)), path = MUST(open("d", O_PATH));
    STEP(syscall(SYS_getdents64, file, buffer, 4096));
    STEP(syscall(SYS_getdents64, path, buffer, 4096));
    STEP(lseek(fd, -1, SEEK_SET));
    STEP(lseek(fd, 5, 99));
    STEP(read(fd, buffer, 10));
    STEP(write(fd, buffer, 10));

    say("-- names that go while one reads");
    DIR *dir = fdopendir(MUST(dup(fd)));
    rewinddir(dir);
    int seen = 0, removed = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] == '.')
            continue;
        seen++;
        snprintf(name, sizeof name, "d/%s", entry->d_name);
        removed += unlink(name) == 0;
    }
    say("seen %d removed %d", seen, removed);
    rewinddir(dir);
    rest("after it", fd, 4096, 0);
    closedir(dir);

    say("-- names that come and stay");
    for (int i = 0; i < 30; i++) {
        snprintf(name, sizeof name, "d/stay%02d", i);
        put_text(name, "", 0644);
    }
    dir = opendir("d");
    long places[100];
    char *first[100];
    int count = 0;
    for (struct dirent *entry; (places[count] = telldir(dir), entry = readdir(dir));)
        first[count++] = strdup(entry->d_name);
    int same = 0;
    for (int i = count - 1; i >= 0; i--) {
        seekdir(dir, places[i]);
        struct dirent *entry = readdir(dir);
        same += entry && !strcmp(entry->d_name, first[i]);
    }
    say("names %d, found again at their places %d", count, same);
    for (int i = 0; i < 30; i += 3) {
        snprintf(name, sizeof name, "d/stay%02d", i);
        MUST(unlink(name));
    }
    put_text("d/late", "", 0644);
    int wrong = 0;
    for (int i = 0; i < count; i++) {
        if (access((snprintf(name, sizeof name, "d/%s", first[i]), name), F_OK) < 0)
            continue;
        seekdir(dir, places[i]);
        struct dirent *entry = readdir(dir);
        wrong += !entry || strcmp(entry->d_name, first[i]) != 0;
    }
    say("after changes: not at their places %d", wrong);
    rewinddir(dir);
    int late = 0;
    for (struct dirent *entry; (entry = readdir(dir));)
        late += !strcmp(entry->d_name, "late");
    say("the late one, after rewinding %d", late);
    closedir(dir);

    say("-- shared and separate positions");
    int a = MUST(open("d", O_RDONLY | O_DIRECTORY)), b = MUST(dup(a)), c = MUST(open("d", O_RDONLY | O_DIRECTORY));
    long n = syscall(SYS_getdents64, a, buffer, 200);
    say("some read %d", n > 0);
    say("dup is there too %d", lseek(b, 0, SEEK_CUR) == lseek(a, 0, SEEK_CUR));
    say("the other is not %d", lseek(c, 0, SEEK_CUR) == 0);
    pid_t pid = MUST(fork());
    if (pid == 0) {
        while (syscall(SYS_getdents64, a, buffer, sizeof buffer) > 0)
            ;
        _exit(0);
    }
    wait_for(pid);
    STEP(syscall(SYS_getdents64, a, buffer, sizeof buffer));
    rest("the other", c, 4096, 0);

    say("-- a directory that is gone");
    MUST(mkdir("gone", 0755));
    int g = MUST(open("gone", O_RDONLY | O_DIRECTORY));
    MUST(rmdir("gone"));
    STEP(syscall(SYS_getdents64, g, buffer, sizeof buffer));
    STEP(openat(g, "x", O_CREAT | O_WRONLY, 0600));
    STEP(openat(g, ".", O_RDONLY) >= 0 ? 0 : -1);
    STEP(openat(g, "..", O_RDONLY) >= 0 ? 0 : -1);
    STEP(mkdirat(g, "x", 0700));
    STEP(fchdir(g));
    STEP(getcwd(buffer, sizeof buffer) ? 0 : -1);
    STEP(open("x", O_CREAT | O_WRONLY, 0600));
    STEP(access(".", F_OK));
    return 0;
}
