/* build: files_names
 *
 * Calls that change or read names: mkdir, rmdir, unlink, rename, link, symlink, readlink, and odd names.
 */
#include "step.h"
#include <sys/stat.h>

static void show(const char *path) {
    struct stat st;
    if (lstat(path, &st) < 0)
        say("  %s: %s", path, errname(errno));
    else
        say("  %s: mode %o nlink %lu%s", path, st.st_mode, S_ISDIR(st.st_mode) ? 0UL : (unsigned long)st.st_nlink,
            S_ISREG(st.st_mode) ? "" : S_ISDIR(st.st_mode) ? " directory" : S_ISLNK(st.st_mode) ? " link" : " special");
}

static void directories(void) {
    STEP(mkdir("a", 0777));
    show("a");
    STEP(mkdir("a", 0777));
    STEP(mkdir("a/", 0777));
    STEP(mkdir("a/b/c", 0777));
    STEP(mkdir("a/b/", 0700));
    STEP(mkdir(".", 0700));
    STEP(mkdir("..", 0700));
    STEP(mkdir("/", 0700));
    STEP(mkdir("", 0700));
    STEP(mkdir("sgid", 02755));
    show("sgid");
    STEP(chmod("sgid", 02755));
    STEP(mkdir("sgid/child", 0755));
    show("sgid/child");
    STEP(mkdir("sticky", 01777));
    show("sticky");
    STEP(rmdir("a"));
    STEP(rmdir("a/b"));
    STEP(rmdir("a/."));
    STEP(rmdir("a/.."));
    STEP(rmdir("."));
    STEP(rmdir("/"));
    STEP(rmdir("missing"));
    STEP(unlink("a"));
    STEP(unlink("a/"));
    put_text("f", "f", 0644);
    STEP(rmdir("f"));
    STEP(rmdir("f/"));
    STEP(unlink("f/"));
    STEP(unlink("f/x"));
    STEP(unlinkat(AT_FDCWD, "a", AT_REMOVEDIR));
    STEP(unlinkat(AT_FDCWD, "f", AT_REMOVEDIR));
    STEP(unlinkat(AT_FDCWD, "f", 0x8000));
    STEP(unlink("f"));
    STEP(unlink("f"));
    STEP(unlink(""));
}

static void hard_links(void) {
    put_text("one", "shared", 0644);
    STEP(link("one", "two"));
    STEP(link("one", "two"));
    STEP(link("one", "missing/two"));
    STEP(link("missing", "three"));
    STEP(link("sticky", "dirlink"));
    show("one");
    int fd = MUST(open("two", O_WRONLY | O_APPEND));
    STEP(write(fd, " text", 5));
    close(fd);
    struct stat a, b;
    MUST(stat("one", &a));
    MUST(stat("two", &b));
    say("same file %d size %ld", a.st_ino == b.st_ino && a.st_dev == b.st_dev, (long)a.st_size);
    STEP(unlink("one"));
    show("one");
    show("two");
    STEP(symlink("two", "sym"));
    STEP(linkat(AT_FDCWD, "sym", AT_FDCWD, "link_to_link", 0));
    show("link_to_link");
    STEP(linkat(AT_FDCWD, "sym", AT_FDCWD, "link_through", AT_SYMLINK_FOLLOW));
    show("link_through");
    STEP(linkat(AT_FDCWD, "sym", AT_FDCWD, "x", 0x4));
}

/* Linux says ELOOP now and then for links it follows otherwise: a walk that begins anew goes on counting. */
static int access_anew(const char *name) {
    int result = -1;
    for (int i = 0; i < 5 && (result = access(name, F_OK)) < 0 && errno == ELOOP; i++)
        ;
    return result;
}

static void symbolic_links(void) {
    char target[100];
    memset(target, '#', sizeof target);
    STEP(symlink("", "empty"));
    STEP(symlink("somewhere/else", "s"));
    STEP(symlink("again", "s"));
    STEP(symlink("x", "missing/s"));
    STEP(symlink("x", "s/"));
    STEP(readlink("s", target, sizeof target));
    say("target %.20s", target);
    STEP(readlink("s", target, 4));
    STEP(readlink("s", target, 0));
    STEP(readlink("sticky", target, sizeof target));
    STEP(readlink("two", target, sizeof target));
    STEP(readlink("missing", target, sizeof target));
    show("s");
    struct stat st;
    MUST(lstat("s", &st));
    say("size of a link %ld", (long)st.st_size);
    STEP(mkdir("deep", 0755));
    STEP(symlink("../two", "deep/up"));
    STEP(access("deep/up", R_OK));
    STEP(symlink("deep", "d_link"));
    STEP(access("d_link/up", R_OK));
    STEP(mkdir("d_link/made", 0755));
    STEP(rmdir("d_link/"));
    STEP(unlink("d_link/"));
    STEP(mkdir("s", 0755));
    STEP(mkdir("s/", 0755));
    char name[20], text[20];
    for (int i = 0; i < 45; i++) { /* Linux follows 40 links in one look-up */
        snprintf(name, sizeof name, "chain%d", i);
        snprintf(text, sizeof text, "chain%d", i - 1);
        MUST(i ? symlink(text, name) : symlink("two", name));
    }
    STEP(access_anew("chain39"));
    STEP(access_anew("chain40"));
}

static void renames(void) {
    put_text("r1", "1", 0644);
    put_text("r2", "2", 0600);
    STEP(rename("r1", "r2"));
    show("r1");
    show("r2");
    STEP(rename("missing", "r2"));
    STEP(rename("r2", "missing/r2"));
    STEP(rename("r2", "deep"));
    STEP(rename("deep", "r2"));
    STEP(rename("r2", "r2"));
    STEP(rename("r2", "r3/"));
    STEP(mkdir("e1", 0755));
    STEP(mkdir("e2", 0755));
    STEP(rename("e1", "e2"));
    STEP(rename("e2", "deep"));
    STEP(rename("deep", "e2"));
    show("e2/up");
    STEP(rename("e2", "e2/inside"));
    STEP(rename("e2", "e2/made/inside"));
    STEP(rename("e2/made", "e2"));
    STEP(rename("e2/", "e3/"));
    STEP(rename(".", "elsewhere"));
    STEP(rename("e3/.", "elsewhere"));
    STEP(rename("e3", ".."));
    STEP(link("r2", "r2b"));
    STEP(rename("r2", "r2b")); /* two names of one file: nothing happens, both stay */
    show("r2");
    show("r2b");
    STEP(symlink("e3", "e_link"));
    STEP(rename("e_link", "e_link2"));
    show("e_link2");
    STEP(rename("e_link2/", "x"));
    put_text("n1", "1", 0644);
    put_text("n2", "2", 0644);
    STEP(renameat2(AT_FDCWD, "n1", AT_FDCWD, "n2", RENAME_NOREPLACE));
    STEP(renameat2(AT_FDCWD, "n1", AT_FDCWD, "n3", RENAME_NOREPLACE));
    STEP(renameat2(AT_FDCWD, "n3", AT_FDCWD, "n2", RENAME_EXCHANGE));
    STEP(renameat2(AT_FDCWD, "n3", AT_FDCWD, "none", RENAME_EXCHANGE));
    STEP(renameat2(AT_FDCWD, "n3", AT_FDCWD, "e3", RENAME_EXCHANGE));
    show("n3");
    show("e3");
    STEP(renameat2(AT_FDCWD, "n3", AT_FDCWD, "n2", RENAME_EXCHANGE | RENAME_NOREPLACE));
}

static void odd_names(void) {
    static char name[6000];
    memset(name, 'n', 255);
    STEP(close(creat(name, 0644)));
    STEP(access(name, F_OK));
    STEP(unlink(name));
    memset(name, 'n', 256);
    STEP(creat(name, 0644));
    STEP(access(name, F_OK));
    STEP(mkdir(name, 0755));
    memset(name, 'x', 4095);
    for (int i = 100; i < 4095; i += 100)
        name[i] = '/';
    STEP(access(name, F_OK));
    name[4095] = 'y';
    STEP(access(name, F_OK));
    memset(name, 0, sizeof name);
    for (int i = 0; i < 4094; i += 2)
        memcpy(name + i, "./", 2);
    STEP(access(name, F_OK));
    STEP(access(edge_string(name), F_OK));
    STEP(close(creat("with\nnewline", 0644)));
    STEP(close(creat("bytes \377\376\200", 0644)));
    STEP(close(creat(" ", 0644)));
    STEP(close(creat("...", 0644)));
    STEP(close(creat("-rf", 0644)));
    STEP(access("/../../../../dev/null", F_OK));
    STEP(access("//dev//./null", F_OK));
    STEP(access("/..", X_OK));
    STEP(access("two/..", F_OK));
    STEP(access("missing/..", F_OK));
}

int main(void) {
    umask(022);
    directories();
    hard_links();
    symbolic_links();
    renames();
    odd_names();
    return 0;
}
