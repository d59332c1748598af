/* build: files_acl
 *
 * POSIX ACLs: which values are valid, what they do to the mode, who inherits them, and who they let in.
 */
#include "step.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <sys/xattr.h>

#define ACCESS "system.posix_acl_access"
#define DEFAULT "system.posix_acl_default"
enum { R = 4, W = 2, X = 1, USER_OBJ = 1, USER = 2, GROUP_OBJ = 4, GROUP = 8, MASK = 16, OTHER = 32 };

struct entry {
    uint16_t tag, perm;
    uint32_t id;
};
struct acl {
    uint32_t version;
    struct entry entries[8];
} __attribute__((packed));

static long set(const char *path, const char *name, int count, const struct entry *entries) {
    struct acl acl = {.version = 2};
    memcpy(acl.entries, entries, count * sizeof *entries);
    return lsetxattr(path, name, &acl, 4 + count * sizeof *entries, 0);
}

static const char *called(const struct entry *entry) {
    uint32_t mine = entry->tag == GROUP ? getgid() : getuid();
    return entry->id == mine ? "mine" : entry->id == mine + 1 ? "other" : entry->id == UINT32_MAX ? "-" : "?";
}

static void show(const char *path, const char *name) {
    struct acl acl;
    char line[512] = "";
    ssize_t size = lgetxattr(path, name, &acl, sizeof acl);
    int error = errno;
    for (int i = 0; i < (size - 4) / 8; i++)
        sprintf(line + strlen(line), " %x:%o:%s", acl.entries[i].tag, acl.entries[i].perm, called(acl.entries + i));
    struct stat s;
    MUST(lstat(path, &s));
    say("%s %s: mode %o,%s", path, strrchr(name, '_') + 1, s.st_mode & 07777, size < 0 ? errname(error) : line);
}

#define SET(path, name, ...) \
    step_print("set " path " " name " " #__VA_ARGS__, \
               set(path, name, sizeof(struct entry[]){__VA_ARGS__} / sizeof(struct entry), (struct entry[]){__VA_ARGS__}))

int main(void) {
    char buffer[512];
    uint32_t me = getuid(), mine = getgid(), other = me + 1;
    umask(022);
    put_text("file", "x", 0644);
    MUST(mkdir("dir", 0755));
    MUST(symlink("file", "link"));
    MUST(mkfifo("fifo", 0644));
    say("-- values");
    STEP(getxattr("file", ACCESS, buffer, sizeof buffer));
    STEP(setxattr("file", ACCESS, "x", 1, 0));
    STEP(setxattr("file", ACCESS, "\3\0\0\0\1\0\6\0\0\0\0\0", 12, 0));
    STEP(setxattr("file", ACCESS, "\2\0\0\0\1\0\6\0\0\0\0", 11, 0));
    STEP(setxattr("file", ACCESS, "\2\0\0\0", 4, 0));
    STEP(setxattr("file", ACCESS, "", 0, 0));
    STEP(removexattr("file", ACCESS));
    STEP(removexattr("file", DEFAULT));
    SET("file", ACCESS, {USER_OBJ, R, 0}, {GROUP_OBJ, R, 0});
    SET("file", ACCESS, {GROUP_OBJ, R, 0}, {USER_OBJ, R, 0}, {OTHER, R, 0});
    SET("file", ACCESS, {USER_OBJ, R, 0}, {USER, R, other}, {GROUP_OBJ, R, 0}, {OTHER, R, 0});
    SET("file", ACCESS, {USER_OBJ, R, 0}, {USER, 9, other}, {GROUP_OBJ, R, 0}, {MASK, R, 0}, {OTHER, R, 0});
    SET("file", ACCESS, {USER_OBJ, R, 0}, {USER, R, -1}, {GROUP_OBJ, R, 0}, {MASK, R, 0}, {OTHER, R, 0});
    SET("file", ACCESS, {USER_OBJ, R, 0}, {GROUP_OBJ, R, 0}, {MASK, R, 0}, {MASK, R, 0}, {OTHER, R, 0});
    SET("file", ACCESS, {USER_OBJ, R, 0}, {GROUP_OBJ, R, 0}, {OTHER, R, 0}, {64, R, 0});
    SET("file", ACCESS, {USER_OBJ, R, 0}, {GROUP_OBJ, R, 0}, {OTHER, R, 0}, {OTHER, R, 0});
    SET("file", DEFAULT, {USER_OBJ, R, 0}, {GROUP_OBJ, R, 0}, {OTHER, R, 0});
    SET("link", ACCESS, {USER_OBJ, R, 0}, {GROUP_OBJ, R, 0}, {OTHER, R, 0});
    STEP(lgetxattr("link", ACCESS, buffer, sizeof buffer));
    show("file", ACCESS);
    say("-- the mode");
    SET("file", ACCESS, {USER_OBJ, R | W, 7}, {GROUP_OBJ, R | X, 0}, {OTHER, 0, 0});
    show("file", ACCESS);
    SET("file", ACCESS, {USER_OBJ, R | W, 7}, {USER, R, other}, {GROUP_OBJ, R, 0}, {GROUP, R | W, mine}, {MASK, 7, 0}, {OTHER, 0, 0});
    show("file", ACCESS);
    STEP(getxattr("file", ACCESS, buffer, 3));
    STEP(getxattr("file", ACCESS, NULL, 0));
    STEP(setxattr("file", "user.a", "v", 1, 0));
    MUST(llistxattr("file", buffer, sizeof buffer));
    say("listed first: %s", buffer);
    STEP(chmod("file", 0600));
    show("file", ACCESS);
    STEP(chmod("file", 0751));
    show("file", ACCESS);
    int fd = MUST(open("file", O_RDONLY));
    STEP(fchmod(fd, 04640));
    show("file", ACCESS);
    STEP(fremovexattr(fd, ACCESS));
    show("file", ACCESS);
    SET("fifo", ACCESS, {USER_OBJ, R | W, 0}, {USER, R, other}, {GROUP_OBJ, R, 0}, {MASK, R, 0}, {OTHER, 0, 0});
    show("fifo", ACCESS);
    say("-- inheriting");
    SET("dir", DEFAULT, {USER_OBJ, 7, 0}, {USER, R | W | X, other}, {GROUP_OBJ, R | X, 0}, {MASK, 7, 0}, {OTHER, R, 0});
    show("dir", DEFAULT);
    show("dir", ACCESS);
    MUST(umask(077));
    MUST(close(MUST(open("dir/made", O_CREAT | O_WRONLY, 0666))));
    show("dir/made", ACCESS);
    MUST(mkdir("dir/sub", 0777));
    show("dir/sub", ACCESS);
    show("dir/sub", DEFAULT);
    MUST(mkdir("dir/sub/deep", 0700));
    show("dir/sub/deep", ACCESS);
    MUST(mknod("dir/node", S_IFREG | 0640, 0));
    show("dir/node", ACCESS);
    MUST(mkfifo("dir/fifo", 0666));
    show("dir/fifo", ACCESS);
    MUST(symlink("made", "dir/link"));
    show("dir/link", ACCESS);
    int sock = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "dir/socket"};
    STEP(bind(sock, (struct sockaddr *)&name, sizeof name));
    show("dir/socket", ACCESS);
    MUST(rename("dir/made", "moved"));
    show("moved", ACCESS);
    MUST(link("moved", "again"));
    show("again", ACCESS);
    SET("dir", DEFAULT, {USER_OBJ, R | W, 0}, {GROUP_OBJ, R | W, 0}, {OTHER, R, 0});
    MUST(close(MUST(open("dir/plain", O_CREAT | O_WRONLY, 0777))));
    show("dir/plain", ACCESS);
    STEP(removexattr("dir", DEFAULT));
    STEP(getxattr("dir", DEFAULT, buffer, sizeof buffer));
    MUST(close(MUST(open("dir/last", O_CREAT | O_WRONLY, 0666))));
    show("dir/last", ACCESS);
    say("-- the owner is judged by the owner's entry alone");
    SET("file", ACCESS, {USER_OBJ, 0, 0}, {USER, R | W, me}, {GROUP_OBJ, R | W, 0}, {MASK, R | W, 0}, {OTHER, R | W, 0});
    STEP(access("file", R_OK));
    STEP(open("file", O_RDONLY));
    SET("dir", ACCESS, {USER_OBJ, R, 0}, {USER, 7, me}, {GROUP_OBJ, 7, 0}, {MASK, 7, 0}, {OTHER, 7, 0});
    STEP(access("dir/plain", F_OK));
    SET("dir", ACCESS, {USER_OBJ, R | W | X, 0}, {USER, 7, me}, {GROUP_OBJ, 7, 0}, {MASK, 7, 0}, {OTHER, 7, 0});
    STEP(access("dir/plain", F_OK));
    return 0;
}
