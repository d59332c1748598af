/* build: landlock_rules
 *
 * A program restricts itself with Landlock, up to ABI 6: what the calls refuse, what rules allow, and who they bind.
 */
#include "step.h"

#include <arpa/inet.h>
#include <linux/landlock.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <termios.h>

#ifndef LANDLOCK_ACCESS_FS_REFER
#define LANDLOCK_ACCESS_FS_REFER (1ULL << 13)
#endif
#define TRUNCATE_RIGHT (1ULL << 14)
#define IOCTL_DEV_RIGHT (1ULL << 15)
#define NET_PORT 2
#define ALL_FS ((1ULL << 16) - 1)

struct attributes {
    uint64_t fs, net, scoped;
};
struct port {
    uint64_t rights, port;
};

static long create(const void *attributes, size_t size, unsigned flags) { return syscall(444, attributes, size, flags); }
static long add(int ruleset, int type, const void *rule, unsigned flags) { return syscall(445, ruleset, type, rule, flags); }
static long enforce(int ruleset, unsigned flags) { return syscall(446, ruleset, flags); }

static int make(uint64_t fs, uint64_t net, uint64_t scoped) {
    struct attributes a = {fs, net, scoped};
    return MUST(create(&a, sizeof a, 0));
}

static void allow(int ruleset, const char *path, uint64_t rights) {
    struct landlock_path_beneath_attr rule = {rights, MUST(open(path, O_PATH | O_CLOEXEC))};
    MUST(add(ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0));
    close(rule.parent_fd);
}

static void take(int ruleset) {
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    MUST(enforce(ruleset, 0));
    close(ruleset);
}

static void put_tree(void);

/* Runs `inside` in a child, in a tree of its own; its lines are part of the transcript. */
static void child(const char *title, void (*inside)(void)) {
    int status;
    say("-- %s", title);
    MUST(mkdir(title, 0755));
    pid_t pid = MUST(fork());
    if (!pid) {
        MUST(chdir(title));
        put_tree();
        inside();
        _exit(0);
    }
    MUST(waitpid(pid, &status, 0));
    say("ended with %d", status);
}

static void try_files(void) {
    struct stat s;
    STEP(open("in/file", O_RDONLY | O_CLOEXEC) < 0 ? -1 : 0);
    STEP(open("out/file", O_RDONLY | O_CLOEXEC) < 0 ? -1 : 0);
    STEP(open("in/file", O_RDWR | O_CLOEXEC) < 0 ? -1 : 0);
    STEP(open("out/file", O_WRONLY | O_CLOEXEC) < 0 ? -1 : 0);
    STEP(open("out", O_RDONLY | O_DIRECTORY) < 0 ? -1 : 0);
    STEP(open("in", O_RDONLY | O_DIRECTORY) < 0 ? -1 : 0);
    STEP(open("out/file", O_PATH) < 0 ? -1 : 0);
    STEP(open("in/to_out", O_RDONLY) < 0 ? -1 : 0);
    STEP(open("out/to_in", O_RDONLY) < 0 ? -1 : 0);
    STEP(open("out/also_in", O_RDONLY) < 0 ? -1 : 0);
    STEP(open("in/new", O_CREAT | O_WRONLY, 0644) < 0 ? -1 : 0);
    STEP(open("out/new", O_CREAT | O_WRONLY, 0644) < 0 ? -1 : 0);
    STEP(access("out/file", R_OK));
    STEP(stat("out/file", &s));
    STEP(chmod("out/file", 0640));
    STEP(truncate("in/file", 1));
    STEP(truncate("out/file", 1));
    STEP(mkdir("in/d", 0755));
    STEP(mkdir("out/d", 0755));
    STEP(rmdir("in/d"));
    STEP(rmdir("out/empty"));
    STEP(mkfifo("in/p", 0644));
    STEP(mkfifo("out/p", 0644));
    STEP(symlink("x", "in/s"));
    STEP(symlink("x", "out/s"));
    STEP(unlink("in/s"));
    STEP(unlink("out/other"));
    STEP(rename("in/new", "in/renamed"));
    STEP(rename("in/renamed", "in/sub/moved"));
    STEP(rename("in/sub/moved", "out/moved"));
    STEP(rename("out/file", "in/stolen"));
    STEP(rename("out/file", "out/renamed"));
    STEP(link("in/file", "in/sub/linked"));
    STEP(link("out/file", "in/linked"));
    STEP(link("in/file", "out/linked"));
}

static void put_tree(void) {
    umask(022);
    for (int i = 0; i < 2; i++) {
        const char *top = i ? "out" : "in";
        char name[40];
        MUST(mkdir(top, 0755));
        snprintf(name, sizeof name, "%s/file", top);
        put_text(name, "text", 0644);
        snprintf(name, sizeof name, "%s/sub", top);
        MUST(mkdir(name, 0755));
        snprintf(name, sizeof name, "%s/other", top);
        put_text(name, "text", 0644);
        snprintf(name, sizeof name, "%s/empty", top);
        MUST(mkdir(name, 0755));
    }
    MUST(symlink("../out/file", "in/to_out"));
    MUST(symlink("../in/file", "out/to_in"));
}

static void arguments(void) {
    struct attributes a = {1ULL << 63, 0, 0}, none = {0, 0, 0};
    struct {
        struct attributes known;
        uint64_t more;
    } longer = {{LANDLOCK_ACCESS_FS_READ_FILE, 0, 0}, 1};
    STEP(create(NULL, 0, 1) >= 1);
    STEP(create(&a, sizeof a, 1));
    STEP(create(&a, sizeof a, 0));
    STEP(create(&none, sizeof none, 0));
    STEP(create(&a, 4, 0));
    STEP(create(&a, 5000, 0));
    STEP(create(NULL, sizeof a, 0));
    STEP(create(&longer, sizeof longer, 0));
    a = (struct attributes){LANDLOCK_ACCESS_FS_READ_FILE, 4, 0};
    a.net = 0, a.scoped = 64;
    STEP(create(&a, sizeof a, 0));
    int ruleset = make(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR, 0, 0);
    say("close-on-exec %d", fcntl(ruleset, F_GETFD));
    struct landlock_path_beneath_attr rule = {LANDLOCK_ACCESS_FS_READ_FILE, open("in", O_PATH)};
    struct landlock_path_beneath_attr file = {LANDLOCK_ACCESS_FS_READ_DIR, open("in/file", O_PATH)};
    struct port port = {1, 80};
    int ends[2];
    MUST(pipe(ends));
    STEP(add(ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 1));
    STEP(add(-1, LANDLOCK_RULE_PATH_BENEATH, &rule, 0));
    STEP(add(rule.parent_fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0));
    STEP(add(ends[0], LANDLOCK_RULE_PATH_BENEATH, &rule, 0));
    STEP(add(ruleset, 77, &rule, 0));
    STEP(add(ruleset, NET_PORT, &port, 0));
    STEP(add(ruleset, LANDLOCK_RULE_PATH_BENEATH, NULL, 0));
    STEP(add(ruleset, LANDLOCK_RULE_PATH_BENEATH, &file, 0));
    STEP(add(ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0));
    rule.allowed_access = 0;
    STEP(add(ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0));
    rule.allowed_access = LANDLOCK_ACCESS_FS_WRITE_FILE;
    STEP(add(ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0));
    rule = (struct landlock_path_beneath_attr){LANDLOCK_ACCESS_FS_READ_FILE, ends[0]};
    STEP(add(ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0));
    rule.parent_fd = ruleset;
    STEP(add(ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0));
    rule.parent_fd = -1;
    STEP(add(ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0));
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    STEP(enforce(-1, 0));
    STEP(enforce(ends[0], 0));
    STEP(enforce(ruleset, 1 << 30));
    ruleset = make(0, 3, 0);
    port.rights = 4;
    STEP(add(ruleset, NET_PORT, &port, 0));
    port = (struct port){1, 65536};
    STEP(add(ruleset, NET_PORT, &port, 0));
    port = (struct port){0, 1};
    STEP(add(ruleset, NET_PORT, &port, 0));
}

static void all_below_in(void) {
    int ruleset = make(ALL_FS, 0, 0);
    allow(ruleset, "in", ALL_FS);
    take(ruleset);
    try_files();
}

static void only_reading(void) {
    int ruleset = make(LANDLOCK_ACCESS_FS_READ_FILE, 0, 0);
    allow(ruleset, "out/file", LANDLOCK_ACCESS_FS_READ_FILE);
    take(ruleset);
    try_files();
}

static void held(void) {
    char text[8];
    int before = MUST(open("out/file", O_RDWR)), ruleset = make(ALL_FS & ~LANDLOCK_ACCESS_FS_MAKE_REG, 0, 0);
    allow(ruleset, "in", ALL_FS & ~LANDLOCK_ACCESS_FS_MAKE_REG & ~TRUNCATE_RIGHT);
    allow(ruleset, "/dev", LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE);
    take(ruleset);
    STEP(read(before, text, 4));
    STEP(ftruncate(before, 2));
    snprintf(text, sizeof text, "%d", before);
    char path[40];
    snprintf(path, sizeof path, "/proc/self/fd/%d", before);
    STEP(open(path, O_RDONLY));
    int file = MUST(open("in/file", O_RDWR));
    STEP(write(file, "abc", 3));
    STEP(ftruncate(file, 1));
    STEP(open("in/file", O_RDWR | O_TRUNC));
    struct termios t;
    int number = 0, device = MUST(open("/dev/null", O_RDWR));
    STEP(ioctl(device, TCGETS, &t));
    STEP(ioctl(device, FIOCLEX));
    STEP(ioctl(device, FIONREAD, &number));
    STEP(write(device, "x", 1));
}

static void layers(void) {
    int first = make(LANDLOCK_ACCESS_FS_READ_FILE, 0, 0), second = make(LANDLOCK_ACCESS_FS_READ_FILE, 0, 0);
    allow(first, ".", LANDLOCK_ACCESS_FS_READ_FILE);
    allow(second, "in", LANDLOCK_ACCESS_FS_READ_FILE);
    take(first);
    STEP(open("out/file", O_RDONLY) < 0 ? -1 : 0);
    take(second);
    STEP(open("in/file", O_RDONLY) < 0 ? -1 : 0);
    STEP(open("out/file", O_RDONLY) < 0 ? -1 : 0);
    MUST(rename("in", "elsewhere"));
    STEP(open("elsewhere/file", O_RDONLY) < 0 ? -1 : 0);
    MUST(rename("elsewhere", "in"));
    int more = 0, result = 0;
    while (result == 0 && more < 40) {
        int ruleset = make(LANDLOCK_ACCESS_FS_MAKE_BLOCK, 0, 0);
        result = enforce(ruleset, 0);
        close(ruleset);
        more += result == 0;
    }
    say("more layers: some %d, then %s", more > 5, errname(errno));
}

static void *in_thread(void *unused) {
    (void)unused;
    STEP(open("out/file", O_RDONLY) < 0 ? -1 : 0);
    return NULL;
}

static pthread_barrier_t barrier;

static void *apart(void *unused) {
    (void)unused;
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return in_thread(NULL);
}

static void heirs(void) {
    pthread_t thread;
    int status;
    pthread_barrier_init(&barrier, NULL, 2);
    MUST(pthread_create(&thread, NULL, apart, NULL));
    pthread_barrier_wait(&barrier);
    int ruleset = make(LANDLOCK_ACCESS_FS_READ_FILE, 0, 0);
    allow(ruleset, "in", LANDLOCK_ACCESS_FS_READ_FILE);
    static const char *const libraries[] = {"/usr", "/lib", "/lib64", "/bin", "/etc", "/proc", "/dev"};
    for (unsigned i = 0; i < sizeof libraries / sizeof *libraries; i++)
        if (access(libraries[i], F_OK) == 0)
            allow(ruleset, libraries[i], LANDLOCK_ACCESS_FS_READ_FILE);
    take(ruleset);
    say("a thread that was there before:");
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    say("a new thread:");
    MUST(pthread_create(&thread, NULL, in_thread, NULL));
    pthread_join(thread, NULL);
    personality(0);
    personality(ADDR_NO_RANDOMIZE);
    say("after personality(2):");
    in_thread(NULL);
    int ends[2];
    char byte;
    MUST(pipe(ends));
    pid_t pid = MUST(fork());
    if (!pid) {
        pid = MUST(fork());
        if (pid)
            _exit(0); /* the grandchild has no parent that is restricted */
        usleep(20000);
        execl("/bin/sh", "sh", "-c", "exec 2>/dev/null; cat in/file >/dev/null && echo in; cat out/file >/dev/null || echo not out", NULL);
        _exit(9);
    }
    close(ends[1]);
    MUST(waitpid(pid, &status, 0));
    STEP(read(ends[0], &byte, 1)); /* when the grandchild has ended */
}

static void execution(void) {
    char *words[] = {"true", NULL};
    int ruleset = make(LANDLOCK_ACCESS_FS_EXECUTE, 0, 0);
    allow(ruleset, "in", LANDLOCK_ACCESS_FS_EXECUTE);
    take(ruleset);
    STEP(execv("/bin/true", words));
    int program = MUST(open("/bin/true", O_PATH));
    STEP(syscall(SYS_execveat, program, "", words, words + 1, AT_EMPTY_PATH));
}

static int tcp(void) { return MUST(socket(AF_INET, SOCK_STREAM, 0)); }

static struct sockaddr *at(int port) {
    static struct sockaddr_in address;
    address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    return (struct sockaddr *)&address;
}

static void ports(void) {
    struct port bind_rule = {1, 18461}, connect_rule = {2, 18462};
    struct sockaddr nothing = {.sa_family = AF_UNSPEC};
    int ruleset = make(0, 3, 0), udp = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    MUST(add(ruleset, NET_PORT, &bind_rule, 0));
    MUST(add(ruleset, NET_PORT, &connect_rule, 0));
    take(ruleset);
    STEP(bind(tcp(), at(18461), sizeof(struct sockaddr_in)));
    STEP(bind(tcp(), at(18462), sizeof(struct sockaddr_in)));
    STEP(bind(tcp(), at(0), sizeof(struct sockaddr_in)));
    STEP(connect(tcp(), at(18462), sizeof(struct sockaddr_in)));
    STEP(connect(tcp(), at(18461), sizeof(struct sockaddr_in)));
    STEP(connect(tcp(), &nothing, sizeof nothing));
    STEP(bind(udp, at(18463), sizeof(struct sockaddr_in)));
    STEP(open("out/file", O_RDONLY) < 0 ? -1 : 0);
    STEP(rename("in/file", "out/again"));
    STEP(rename("out/again", "in/file"));
}

static struct sockaddr_un abstract;
static socklen_t abstract_size;

static void scopes(void) {
    int ruleset = make(0, 0, 3), status, before = MUST(socket(AF_UNIX, SOCK_DGRAM, 0));
    char path[64], text[16];
    pid_t outside = getppid();
    take(ruleset);
    STEP(kill(outside, 0));
    STEP(connect(MUST(socket(AF_UNIX, SOCK_DGRAM, 0)), (struct sockaddr *)&abstract, abstract_size));
    STEP(sendto(before, "x", 1, 0, (struct sockaddr *)&abstract, abstract_size));
    struct sockaddr_un own = abstract;
    own.sun_path[1] = 'O';
    int server = MUST(socket(AF_UNIX, SOCK_DGRAM, 0));
    STEP(bind(server, (struct sockaddr *)&own, abstract_size));
    pid_t pid = MUST(fork());
    if (!pid) {
        STEP(connect(MUST(socket(AF_UNIX, SOCK_DGRAM, 0)), (struct sockaddr *)&own, abstract_size));
        STEP(kill(getppid(), 0));
        for (;;)
            pause();
    }
    usleep(100000);
    STEP(kill(pid, SIGKILL));
    MUST(waitpid(pid, &status, 0));
    static const char *const parts[] = {"environ", "fd/0", "cwd", "maps"};
    for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(path, sizeof path, "/proc/%d/%s", outside, parts[i]);
        int link = i == 1 || i == 2;
        say("%s of a process outside: %s", parts[i],
            (link ? readlink(path, text, sizeof text) : open(path, O_RDONLY)) < 0 ? errname(errno) : "open");
        snprintf(path, sizeof path, "/proc/self/%s", parts[i]);
        say("%s of its own: %s", parts[i], (link ? readlink(path, text, sizeof text) : open(path, O_RDONLY)) < 0 ? errname(errno) : "open");
    }
}

int main(void) {
    child("arguments", arguments);
    child("everything below one directory", all_below_in);
    child("reading, and one file", only_reading);
    child("what was open, and what is opened", held);
    child("layers", layers);
    child("who is bound", heirs);
    child("execution", execution);
    child("ports", ports);
    abstract.sun_family = AF_UNIX;
    snprintf(abstract.sun_path + 1, sizeof abstract.sun_path - 1, "L-landlock-%d", getpid());
    abstract_size = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(abstract.sun_path + 1);
    MUST(bind(MUST(socket(AF_UNIX, SOCK_DGRAM, 0)), (struct sockaddr *)&abstract, abstract_size));
    child("scopes", scopes);
    say("-- outside nothing is restricted");
    STEP(open("scopes/out/file", O_RDWR) < 0 ? -1 : 0);
    return 0;
}
