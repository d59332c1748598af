/* build: files_resolve
 *
 * openat2(2): every RESOLVE_ flag, alone and in company, on names that go up, down, through links, magic links and mounts.
 */
#include "step.h"

#include <linux/openat2.h>

static int try(int dir, const char *name, uint64_t flags, uint64_t mode, uint64_t resolve) {
    struct open_how how = {.flags = flags, .mode = mode, .resolve = resolve};
    long fd;
    do /* for names that must stay beneath, EAGAIN means: a rename happened somewhere on this machine; try again */
        fd = syscall(SYS_openat2, dir, name, &how, sizeof how);
    while (fd < 0 && errno == EAGAIN);
    if (fd < 0)
        return -1;
    close(fd);
    return 0;
}

int main(void) {
    static const struct { const char *text; uint64_t bits; } resolves[] = {
        {"0", 0},
        {"NO_XDEV", RESOLVE_NO_XDEV},
        {"NO_MAGICLINKS", RESOLVE_NO_MAGICLINKS},
        {"NO_SYMLINKS", RESOLVE_NO_SYMLINKS},
        {"BENEATH", RESOLVE_BENEATH},
        {"IN_ROOT", RESOLVE_IN_ROOT},
        {"BENEATH|IN_ROOT", RESOLVE_BENEATH | RESOLVE_IN_ROOT},
        {"BENEATH|NO_SYMLINKS", RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS},
        {"BENEATH|NO_XDEV", RESOLVE_BENEATH | RESOLVE_NO_XDEV},
        {"IN_ROOT|NO_XDEV", RESOLVE_IN_ROOT | RESOLVE_NO_XDEV},
        {"IN_ROOT|NO_MAGICLINKS", RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS},
        {"unknown", 0x40},
        {"high", 1ull << 40},
    };
    static const struct { const char *text; uint64_t flags; } opens[] = {
        {"RDONLY", O_RDONLY | O_NONBLOCK},
        {"PATH", O_PATH},
        {"PATH|NOFOLLOW", O_PATH | O_NOFOLLOW},
        {"RDONLY|NOFOLLOW", O_RDONLY | O_NOFOLLOW | O_NONBLOCK},
        {"DIRECTORY", O_RDONLY | O_DIRECTORY},
    };
    static const char *const names[] = {
        "file", "dir/inner", "dir/../file", "..", "../outside", "dir/../../outside", ".", "", "/", "/file", "/proc/self/stat",
        "to_file", "to_dir/inner", "up", "absolute", "absolute_file", "out", "dir/back", "dir/over", "loop", "missing", "dangling",
        "magic", "magic/inner", "/proc/self/fd/100", "/proc/self/fd/100/inner", "/proc/self/cwd", "/proc/self/exe", "/dev/null",
        "/dev/shm", "to_proc", "chain",
    };
    MUST(mkdir("root", 0755));
    put_text("outside", "out\n", 0644);
    MUST(chdir("root"));
    put_usual_names();
    MUST(symlink("..", "up"));
    MUST(symlink("/dev", "absolute"));
    MUST(symlink("/file", "absolute_file"));
    MUST(symlink("../outside", "out"));
    MUST(symlink("../file", "dir/back"));
    MUST(symlink("../../outside", "dir/over"));
    MUST(symlink("/proc/self/fd/100", "magic"));
    MUST(symlink("/proc/self", "to_proc"));
    MUST(symlink("to_dir/../to_file", "chain"));
    int root = MUST(open(".", O_PATH | O_DIRECTORY | O_CLOEXEC));
    int dir = MUST(open("dir", O_RDONLY | O_DIRECTORY));
    MUST(dup2(dir, 100));
    for (unsigned n = 0; n < sizeof names / sizeof *names; n++)
        for (unsigned r = 0; r < sizeof resolves / sizeof *resolves; r++)
            for (unsigned o = 0; o < sizeof opens / sizeof *opens; o++) {
                errno = 0;
                int result = try(root, names[n], opens[o].flags | O_CLOEXEC, 0, resolves[r].bits);
                say("%s %s %s = %d %s", names[n], resolves[r].text, opens[o].text, result, result ? errname(errno) : "ok");
            }
    /* creating, and what the structure itself may say */
    STEP(try(root, "made", O_CREAT | O_WRONLY, 0600, RESOLVE_BENEATH));
    STEP(try(root, "made", O_CREAT | O_EXCL | O_WRONLY, 0600, RESOLVE_BENEATH));
    STEP(try(root, "../made", O_CREAT | O_WRONLY, 0600, RESOLVE_BENEATH));
    STEP(try(root, "../made_in_root", O_CREAT | O_WRONLY, 0600, RESOLVE_IN_ROOT));
    STEP(access("made_in_root", F_OK));
    STEP(try(root, "/top_in_root", O_CREAT | O_WRONLY, 0600, RESOLVE_IN_ROOT));
    STEP(access("top_in_root", F_OK));
    STEP(try(root, "dangling", O_CREAT | O_WRONLY, 0600, RESOLVE_BENEATH));
    STEP(access("nowhere", F_OK));
    STEP(try(root, "out", O_CREAT | O_WRONLY | O_TRUNC, 0600, RESOLVE_BENEATH));
    STEP(try(root, ".", O_TMPFILE | O_WRONLY, 0600, RESOLVE_BENEATH));
    STEP(try(root, "..", O_TMPFILE | O_WRONLY, 0600, RESOLVE_BENEATH));
    STEP(try(root, "file", O_RDONLY, 0600, 0));
    STEP(try(root, "file", O_CREAT, 010000, 0));
    STEP(try(root, "file", 1u << 31, 0, 0));
    STEP(try(root, "file", 1ull << 40, 0, 0));
    STEP(try(root, "file", O_PATH | O_CREAT, 0, 0));
    STEP(try(root, "file", O_PATH | O_RDWR, 0, 0));
    STEP(try(-1, "file", O_RDONLY, 0, RESOLVE_BENEATH));
    STEP(try(-1, "/proc", O_RDONLY, 0, RESOLVE_BENEATH));
    STEP(try(-1, "/proc", O_RDONLY, 0, RESOLVE_IN_ROOT));
    STEP(try(AT_FDCWD, "/file", O_RDONLY, 0, RESOLVE_IN_ROOT));
    STEP(try(AT_FDCWD, "../outside", O_RDONLY, 0, RESOLVE_BENEATH));
    struct { struct open_how how; uint64_t more; } large = {.how = {.flags = O_RDONLY}};
    STEP(syscall(SYS_openat2, root, "missing", &large, sizeof large.how - 1));
    STEP(syscall(SYS_openat2, root, "missing", &large, sizeof large));
    large.more = 1;
    STEP(syscall(SYS_openat2, root, "missing", &large, sizeof large));
    STEP(syscall(SYS_openat2, root, "missing", &large, 4097));
    STEP(syscall(SYS_openat2, root, "missing", NULL, sizeof large.how));
    STEP(syscall(SYS_openat2, root, "missing", &large, 0));
    return 0;
}
