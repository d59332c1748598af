/* husk, the command. `husk run` asks a resident husk if there is one; all else, and every doubt, is Python's: this
 * program becomes husk-python, which lies beside it. Nothing is decided here about walls or options. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "client.h"

/* This program's own path, links resolved. Without /proc: the path it was started by. */
static int find_self(char *path, size_t size)
{
    ssize_t length = readlink("/proc/self/exe", path, size - 1);
    if (length > 0) {
        path[length] = '\0';
        return 0;
    }
    const char *started = (const char *)getauxval(AT_EXECFN);
    if (started == NULL || strlen(started) >= size)
        return -1;
    strcpy(path, started);
    return 0;
}

int main(int argc, char **argv)
{
    char self[CLIENT_PATH_MAX], python[CLIENT_PATH_MAX + 16];
    if (find_self(self, sizeof self) < 0) {
        fprintf(stderr, "husk: cannot find out where it is installed; is /proc mounted?\n");
        return 125;
    }
    const char *slash = strrchr(self, '/');
    int folder = slash == NULL ? 0 : (int)(slash - self + 1);
    snprintf(python, sizeof python, "%.*shusk-python", folder, self);
    if (argc > 2 && strcmp(argv[1], "run") == 0) {
        int code = client_run(argc, argv, self, python);
        if (code != CLIENT_NOT_SERVED)
            return code;
    }
    execv(python, argv);
    fprintf(stderr, "husk: %s: %s; install husk again.\n", python, strerror(errno));
    return 125;
}
