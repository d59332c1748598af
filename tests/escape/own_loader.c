/* build: own_loader -static
 *
 * own_loader FILE PID: a program of the guest in the place of the supervisor's loader. It learns the number that marks
 * the supervisor's calls, executes a copy of itself from a memfd, past the supervisor, and there reads FILE, signals
 * PID, and asks the supervisor the loader's question: which program is this process to become? On an unprotected host
 * the file is read and the signal arrives.
 */
#include "cookie.h"

enum { QUESTION = 0x4855, MOST = 65536 };

static int without_loader(const char *file, pid_t pid) {
    char text[9] = "", *room = malloc(MOST);
    int answers = 0, fd = open(file, O_RDONLY);
    say("file: %s", fd < 0 ? errname(errno) : read(fd, text, 8) == 8 && !memcmp(text, "ORIGINAL", 8) ? "read" : "another");
    say("signal: %s", kill(pid, SIGURG) == 0 ? "sent" : errname(errno));
    for (int kind = 0; kind < 4; kind++)
        for (int loader = -1; loader < 300; loader++)
            answers += syscall(QUESTION, kind, room, MOST, loader) >= 0;
    say("answers: %d", answers);
    close(fd);
    int more = 0;
    for (fd = 3; fd < 1024; fd++)
        more += fcntl(fd, F_GETFD) >= 0;
    say("more descriptors: %d", more);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 4)
        return without_loader(argv[2], atoi(argv[3]));
    if (argc != 3)
        return 96;
    int *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t cookie = learned(shared);
    say("number: %s", cookie ? "learned" : "none");
    char *nothing[] = {NULL}, *words[] = {"own_loader", "inside", argv[1], argv[2], NULL}, piece[4096];
    int copy = MUST(memfd_create("own", MFD_CLOEXEC)), self = MUST(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    for (ssize_t got; (got = read(self, piece, sizeof piece)) > 0;)
        MUST(write(copy, piece, got));
    syscall(SYS_execveat, copy, "", words, nothing, AT_EMPTY_PATH, cookie);
    say("execveat: %s", errname(errno));
    return 0;
}
