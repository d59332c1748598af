/* build: exchanged_dir
 *
 * exchanged_dir DIRECTORY SECONDS: a user who may rename above it exchanges two directories without pause, so that
 * DIRECTORY is either the guest's own or one that only root may enter. Uses every operation that names something in it.
 * A supervisor run as root that judges one directory and then uses the other discloses or changes what is in root's.
 * Prints the name of each operation that reached root's directory; then "rounds" and how many. The host sees what it
 * changed.
 */
#include "reached.h"
#include <dirent.h>
#include <sys/statfs.h>
#include <sys/xattr.h>

enum { MOST = 40 };
static const char *told[MOST];
static char at[1024];

static const char *in(const char *name) {
    static char room[8][2048];
    static int turn;
    char *made = room[turn++ % 8];
    snprintf(made, sizeof room[0], "%s/%s", at, name);
    return made;
}

static void reached(const char *what, int yes) {
    for (int i = 0; yes && i < MOST; i++) {
        if (!told[i]) {
            told[i] = what;
            say("reached by %s", what);
            return;
        }
        if (strcmp(told[i], what) == 0)
            return;
    }
}

static int lists(DIR *dir) {
    int yes = 0;
    if (!dir)
        return 0;
    for (struct dirent *one; (one = readdir(dir));)
        yes |= strcmp(one->d_name, "secret-name") == 0;
    return yes;
}

/* Files of root are 4321 bytes long. */
static int sees(const char *name) {
    struct stat s;
    return (stat(name, &s) == 0 || lstat(name, &s) == 0) && s.st_size == 4321;
}

static void use(int held) {
    char text[64] = "";
    struct stat s;
    reached("open", reads(open(in("file"), O_RDONLY)));
    reached("open for writing", reads(open(in("file"), O_RDWR)));
    reached("openat of a held directory", reads(openat(held, "file", O_RDONLY)));
    int pin = open(in("file"), O_PATH);
    snprintf(text, sizeof text, "/proc/self/fd/%d", pin);
    reached("open through /proc", reads(open(text, O_RDONLY)));
    if (pin >= 0)
        close(pin);
    reached("stat", sees(in("file")));
    reached("fstatat of a held directory", fstatat(held, "file", &s, 0) == 0 && s.st_size == 4321);
    reached("access", access(in("secret-name"), F_OK) == 0);
    reached("a deeper name", reads(open(in("below/file"), O_RDONLY)));
    ssize_t n = readlink(in("link"), text, sizeof text - 1);
    reached("readlink", n == 6 && memcmp(text, "secret", 6) == 0);
    reached("getxattr", getxattr(in("file"), "user.secret", text, sizeof text) > 0);
    DIR *dir = opendir(at);
    reached("readdir", lists(dir));
    if (dir)
        closedir(dir);
    int again = dup(held);
    dir = again >= 0 ? fdopendir(again) : NULL;
    if (dir) {
        rewinddir(dir);
        reached("readdir of a held directory", lists(dir));
        closedir(dir);
    }
    close(open(in("file"), O_WRONLY | O_TRUNC));
    close(open(in("new"), O_WRONLY | O_CREAT, 0666));
    truncate(in("file"), 1);
    chmod(in("file"), 0777);
    utimensat(AT_FDCWD, in("file"), NULL, 0);
    utimensat(AT_FDCWD, in("link"), NULL, AT_SYMLINK_NOFOLLOW);
    lchown(in("link"), getuid(), getgid());
    setxattr(in("file"), "user.husk", "x", 1, 0);
    mkdir(in("made"), 0777);
    symlink("x", in("made-link"));
    link(in("file"), in("linked"));
    rename(in("victim"), in("taken"));
    rename(in("taken"), in("victim"));
    unlink(in("victim"));
    rmdir(in("made"));
    unlink(in("made-link"));
    unlink(in("linked"));
    unlink(in("new"));
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 96;
    snprintf(at, sizeof at, "%s", argv[1]);
    int held = open(at, O_RDONLY | O_DIRECTORY), rounds = 0;
    for (time_t end = time(NULL) + atoi(argv[2]); time(NULL) <= end || rounds < 50; rounds++)
        use(held);
    say("rounds %d", rounds);
    return 0;
}
