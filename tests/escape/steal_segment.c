/* build: steal_segment -pthread
 *
 * husk injects a descriptor to let one thread map a System V segment. Another thread takes that descriptor and changes
 * the segment's size with it. A larger segment would be memory that no limit counts; a smaller one would end every
 * process that has it attached.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SIZE 8192
static volatile int over;
static int stolen, changed;

static void *thief(void *unused)
{
    (void)unused;
    while (!over) {
        int fd = dup(3); /* the lowest free number, which is where it comes */
        struct stat s;
        if (fd < 0)
            continue;
        if (fstat(fd, &s) == 0 && s.st_size == SIZE) {
            stolen++;
            changed += ftruncate(fd, 1 << 30) == 0 || ftruncate(fd, 0) == 0 || fallocate(fd, 0, 0, 1 << 20) == 0;
        }
        close(fd);
    }
    return NULL;
}

int main(void)
{
    pthread_t thread;
    time_t end = time(NULL) + 5;
    int id = shmget(IPC_PRIVATE, SIZE, IPC_CREAT | 0600);
    if (id < 0 || pthread_create(&thread, NULL, thief, NULL))
        return 1;
    for (int i = 0; i < 100000 && stolen < 20 && time(NULL) < end; i++) {
        volatile char *at = shmat(id, NULL, 0);
        if (at == (void *)-1)
            return 2;
        if (!changed)
            at[SIZE - 1] = 1;
        shmdt((void *)at);
    }
    over = 1;
    pthread_join(thread, NULL);
    shmctl(id, IPC_RMID, NULL);
    fprintf(stderr, "stolen %d\n", stolen);
    printf("changed %d\n", changed ? 1 : 0);
    return 0;
}
