/* build: files_atime
 *
 * Access times of what is read without being opened: links that are followed, directories that are listed. Two calls,
 * both virtual in husk, so the rule is husk's to keep.
 */
#include "step.h"

static long since(const char *name, struct stat *before) {
    struct stat st;
    MUST(lstat(name, &st));
    long moved = st.st_atim.tv_sec != before->st_atim.tv_sec || st.st_atim.tv_nsec != before->st_atim.tv_nsec;
    *before = st;
    return moved;
}

/* relatime: the first access after a change shows, the next one does not. */
int main(void) {
    umask(022);
    struct stat of_directory, of_link;
    struct timespec old[2] = {{1000, 0}, {2000, 0}}, pause = {0, 30000000};
    MUST(mkdir("listed", 0755));
    put_text("listed/one", "1", 0644);
    MUST(symlink("listed/one", "to_one"));
    MUST(utimensat(AT_FDCWD, "listed", old, 0));
    MUST(utimensat(AT_FDCWD, "to_one", old, AT_SYMLINK_NOFOLLOW));
    MUST(lstat("listed", &of_directory));
    MUST(lstat("to_one", &of_link));
    struct stat st;
    char buffer[4096];
    nanosleep(&pause, NULL); /* the clock behind file times ticks in milliseconds */
    say("only looked at: link %ld", since("to_one", &of_link));
    MUST(stat("to_one", &st));
    MUST(lstat("listed/one", &st));
    say("looked up: directory %ld, followed: link %ld", since("listed", &of_directory), since("to_one", &of_link));
    int fd = MUST(open("listed", O_RDONLY | O_DIRECTORY));
    say("opened: directory %ld", since("listed", &of_directory));
    MUST(syscall(SYS_getdents64, fd, buffer, sizeof buffer));
    say("listed: directory %ld", since("listed", &of_directory));
    nanosleep(&pause, NULL);
    MUST(lseek(fd, 0, SEEK_SET));
    MUST(syscall(SYS_getdents64, fd, buffer, sizeof buffer));
    MUST(readlink("to_one", buffer, sizeof buffer));
    say("again: directory %ld, link %ld", since("listed", &of_directory), since("to_one", &of_link));
    MUST(utimensat(AT_FDCWD, "to_one", old, AT_SYMLINK_NOFOLLOW));
    MUST(lstat("to_one", &of_link));
    nanosleep(&pause, NULL);
    MUST(readlink("to_one", buffer, sizeof buffer));
    say("read: link %ld", since("to_one", &of_link));
    put_text("listed/two", "2", 0644);
    nanosleep(&pause, NULL);
    MUST(lseek(fd, 0, SEEK_SET));
    MUST(syscall(SYS_getdents64, fd, buffer, sizeof buffer));
    say("listed after a change: directory %ld", since("listed", &of_directory));
    close(fd);
    return 0;
}
