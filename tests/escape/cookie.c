/* build: cookie
 *
 * cookie NAME…: a supervisor marks the calls it makes in the guest's place with a secret number, which the guest can
 * learn. With it the guest makes the call itself, past the supervisor: it asks the host to execute each NAME, also
 * relative to its directory's descriptor. An unprotected host ignores the number, and executes every program: they end
 * with 0.
 */
#include "cookie.h"

static void attempt(const char *from, int dirfd, const char *name, uint64_t cookie, int *shared) {
    char *arguments[] = {(char *)name, NULL}, *nothing[] = {NULL};
    *shared = 0;
    pid_t child = MUST(fork());
    if (child == 0) {
        syscall(SYS_execveat, dirfd, name, arguments, nothing, 0, cookie);
        *shared = errno;
        _exit(95);
    }
    int status;
    MUST(waitpid(child, &status, 0));
    if (*shared)
        say("%s %s: %s", from, name, errname(*shared));
    else
        say("%s %s: ended with %d", from, name, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

int main(int argc, char **argv) {
    int *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t cookie = learned(shared);
    say("number: %s", cookie ? "learned" : "none");
    int directory = MUST(open(".", O_RDONLY | O_DIRECTORY));
    for (int i = 1; i < argc; i++) {
        attempt("cwd", AT_FDCWD, argv[i], cookie, shared);
        attempt("descriptor", directory, argv[i], cookie, shared);
    }
    return 0;
}
