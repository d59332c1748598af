/* build: files_clock
 *
 * One clock dates everything: what happens later is never dated earlier. Since Linux 6.13 a file that was looked at gets
 * a finer time at its next change, and nothing that follows is dated before it.
 */
#include "step.h"

#define ROUNDS 60

static long long last;
static int earlier, in_order;

static void reset(void) { last = 0, earlier = 0, in_order = 0; }

static void dated(struct timespec when) {
    long long moment = when.tv_sec * 1000000000LL + when.tv_nsec;
    if (moment < last)
        earlier++;
    else
        in_order++;
    last = moment;
}

static void changed(const char *path, int attributes_only) {
    struct stat st;
    MUST(fstatat(AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW));
    dated(attributes_only ? st.st_ctim : st.st_mtim);
}

static void now_after_creation(void) {
    struct timespec now[2] = {{0, UTIME_NOW}, {0, UTIME_NOW}}, mtime_now[2] = {{0, UTIME_OMIT}, {0, UTIME_NOW}};
    reset();
    for (int i = 0; i < ROUNDS; i++) {
        MUST(close(MUST(open("file", O_CREAT | O_EXCL | O_WRONLY, 0600))));
        changed("file", 0);
        MUST(utimensat(AT_FDCWD, "file", NULL, 0));
        changed("file", 0);
        MUST(utimensat(AT_FDCWD, "file", mtime_now, 0));
        changed("file", 0);
        MUST(chmod("file", 0640));
        changed("file", 1);
        MUST(utimensat(AT_FDCWD, "file", now, 0));
        changed("file", 0);
        MUST(unlink("file"));
    }
    say("a file: %d later, %d earlier", in_order, earlier);
}

static void directories_and_links(void) {
    reset();
    for (int i = 0; i < ROUNDS; i++) {
        MUST(mkdir("dir", 0700));
        changed("dir", 0);
        MUST(utimensat(AT_FDCWD, "dir", NULL, 0));
        changed("dir", 0);
        MUST(close(MUST(open("dir/file", O_CREAT | O_EXCL | O_WRONLY, 0600))));
        changed("dir/file", 0);
        MUST(utimensat(AT_FDCWD, "dir/file", NULL, 0));
        changed("dir/file", 0);
        MUST(symlink("file", "dir/link"));
        changed("dir/link", 0);
        changed("dir", 0);
        MUST(chmod("dir/file", 0640));
        changed("dir/file", 1);
        MUST(utimensat(AT_FDCWD, "dir/link", NULL, AT_SYMLINK_NOFOLLOW));
        changed("dir/link", 0);
        MUST(rename("dir/file", "dir/other"));
        changed("dir", 0);
        MUST(unlink("dir/other"));
        MUST(unlink("dir/link"));
        changed("dir", 0);
        MUST(rmdir("dir"));
    }
    say("directories and links: %d later, %d earlier", in_order, earlier);
}

int main(void) {
    now_after_creation();
    directories_and_links();
    return 0;
}
