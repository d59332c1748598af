/* Built by the tests with musl and with glibc, linked in several ways: plain C and POSIX, nothing GNU. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static __thread int local = 5;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int total;

static void *work(void *n) {
    local += (int)(long)n;
    pthread_mutex_lock(&lock);
    total += local;
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void handler(int sig) { (void)sig; total = -1; }

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("argc %d %s\n", argc, argv[1]);
    pthread_t threads[8];
    for (long i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    printf("threads %d\n", total);
    FILE *file = fopen("out", "w");
    fprintf(file, "%s %d %.3f\n", "text", 42, 2.5);
    fclose(file);
    struct stat st;
    int result = stat("out", &st);
    printf("stat %d size %ld\n", result, (long)st.st_size);
    printf("missing %s\n", fopen("none", "r") ? "?" : strerror(errno));
    pid_t pid;
    char *child[] = {"sh", "-c", "echo spawned; exit 3", NULL};
    int status, error = posix_spawnp(&pid, "sh", NULL, NULL, child, environ);
    waitpid(pid, &status, 0);
    printf("spawn %d exit %d\n", error, WEXITSTATUS(status));
    FILE *pipe = popen("seq 3 | tail -n 1", "r");
    char line[100] = "";
    printf("popen %s", fgets(line, sizeof line, pipe));
    printf("pclose %d\n", pclose(pipe));
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    printf("handler %d\n", total);
    int count = 0;
    DIR *dir = opendir(".");
    while (readdir(dir))
        count++;
    closedir(dir);
    char cwd[4096];
    printf("entries %d cwd %d env %d\n", count, getcwd(cwd, sizeof cwd) != NULL, getenv("HOME") != NULL);
    char *block = malloc(50 << 20);
    memset(block, 1, 50 << 20);
    free(block);
    return 5;
}
