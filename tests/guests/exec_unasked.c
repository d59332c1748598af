/* build: exec_unasked -pthread
 *
 * Programs of /usr, executed again and again by every call that a C library has for it, so that a runtime may let the
 * host execute them without being asked: what each sees of itself, calls that fail, and programs that execute others in
 * their own process.
 */
#include "step.h"
#include <spawn.h>
#include <sys/personality.h>
#include <sys/resource.h>

#define ROUNDS 4

extern char **environ;

static int ended(pid_t pid) {
    int status;
    MUST(waitpid(pid, &status, 0));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static int by_fork(const char *name, char **words) {
    pid_t pid = MUST(fork());
    if (pid == 0) {
        execve(name, words, environ);
        _exit(errno);
    }
    return ended(pid);
}

static int by_vfork(const char *name, char **words) {
    pid_t pid = MUST(vfork());
    if (pid == 0) {
        execve(name, words, environ);
        _exit(errno);
    }
    return ended(pid);
}

static int by_spawn(const char *name, char **words) {
    pid_t pid;
    int error = posix_spawn(&pid, name, NULL, NULL, words, environ);
    return error ? error : ended(pid);
}

static int by_path(const char *name, char **words) {
    pid_t pid = MUST(fork());
    if (pid == 0) {
        execvp(strrchr(name, '/') + 1, words);
        _exit(errno);
    }
    return ended(pid);
}

static const struct {
    const char *text;
    int (*start)(const char *name, char **words);
} ways[] = {{"fork", by_fork}, {"vfork", by_vfork}, {"spawn", by_spawn}, {"path", by_path}};

static void each_way(const char *name, char **words) {
    for (unsigned way = 0; way < sizeof ways / sizeof *ways; way++)
        for (int round = 0; round < ROUNDS; round++)
            say("%s %s: %d", ways[way].text, name, ways[way].start(name, words));
}

/* What a program sees of itself. It was executed as `shown`, and by its process's own number. */
static const char *const SELF =
    "import ctypes, os, sys; get = ctypes.CDLL(None).getauxval; get.restype = ctypes.c_void_p; "
    "print(os.readlink('/proc/self/exe'), open('/proc/self/comm').read().strip(), "
    "ctypes.string_at(get(31)).decode(), open('/proc/self/cmdline').read().split('\\0')[0], "
    "os.environ.get('SHOW'), len(os.listdir('/proc/self/fd')), get(7) != 0, flush=True)";

static char *const PROGRAM = "/usr/bin/python3";

static void selves(void) {
    char *words[] = {"shown", "-c", (char *)SELF, NULL};
    setenv("SHOW", "me", 1);
    for (int round = 0; round < ROUNDS; round++) {
        by_fork(PROGRAM, words);
        by_spawn(PROGRAM, words);
    }
    unsetenv("SHOW");
}

static void failures(void) {
    static char huge[1 << 18];
    static char **const nowhere = (char **)8;
    char *plain[] = {"x", NULL}, *long_words[] = {"x", huge, NULL}, *bad[] = {"x", (char *)8, NULL};
    memset(huge, 'x', sizeof huge - 1);
    static const char *const names[] = {
        "/usr/bin/none", "/usr/none/true", "/usr/bin", "/usr/bin/", "/usr/bin/true/", "/usr/bin/true/x", "/usr/bin/.",
        "/usr/share/common-licenses/BSD", "/none/true", "", "true", "/usr//bin/true", "/usr/bin/../bin/true",
        "/usr/bin/./true", "/bin/true",
    };
    for (unsigned n = 0; n < sizeof names / sizeof *names; n++)
        for (int round = 0; round < 2; round++)
            say("execve \"%s\": %s", names[n], errname(by_fork(names[n], plain)));
    for (int round = 0; round < ROUNDS; round++) {
        say("too long: %s", errname(by_fork("/bin/true", long_words)));
        say("nowhere: %s", errname(by_fork("/bin/true", nowhere)));
        say("one nowhere: %s", errname(by_fork("/bin/true", bad)));
        say("no name: %s", errname(by_vfork((const char *)8, plain)));
        say("spawn: %s", errname(by_spawn("/usr/bin/none", plain)));
    }
}

/* A process that executes others without a child: the last one looks names up as often as the first. */
static void chain(int plain_addresses) {
    static const char *const FIRST =
        "import os, sys\n"
        "for _ in range(200): os.stat('.'), os.path.exists('/usr/bin/none'), os.access('here', 4)\n"
        "n = int(sys.argv[1]) - 1\n"
        "if n: os.execv('/usr/bin/python3', ['python3', '-c', sys.argv[2], str(n), sys.argv[2]])\n"
        "print('end of the chain', os.path.exists('here'), os.path.exists('there'), flush=True)";
    char *words[] = {"python3", "-c", (char *)FIRST, "4", (char *)FIRST, NULL};
    pid_t pid = MUST(fork());
    if (pid == 0) {
        if (plain_addresses)
            personality(ADDR_NO_RANDOMIZE);
        execve(PROGRAM, words, environ);
        _exit(errno);
    }
    say("chain: %d", ended(pid));
}

/* With `spare` descriptors left. */
static void few_descriptors(int spare) {
    char *words[] = {"true", NULL};
    pid_t pid = MUST(fork());
    if (pid == 0) {
        struct rlimit limit;
        MUST(getrlimit(RLIMIT_NOFILE, &limit));
        limit.rlim_cur = 16;
        MUST(setrlimit(RLIMIT_NOFILE, &limit));
        while (fcntl(0, F_DUPFD_CLOEXEC, 0) >= 0)
            ;
        for (int fd = 15; fd > 15 - spare; fd--)
            close(fd);
        execve("/bin/true", words, environ);
        _exit(errno);
    }
    say("%d descriptors left: %d", spare, ended(pid));
}

int main(void) {
    char *words[] = {"echo", "said", NULL}, *script[] = {"sh", "-c", "exit 7", NULL};
    put_text("here", "x", 0644);
    each_way("/bin/echo", words);
    each_way("/usr/bin/echo", words);
    each_way("/bin/sh", script); /* a link */
    selves();
    failures();
    for (int round = 0; round < 2; round++) {
        chain(0);
        chain(1);
        for (int spare = 1; spare < 4; spare++)
            few_descriptors(spare);
    }
    return 0;
}
