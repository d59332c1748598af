/* build: ipc_shared -pthread
 *
 * Memory and locks that processes share: POSIX shared memory and semaphores, futexes, robust locks whose owner dies,
 * process-shared conditions, membarrier, rseq.
 */
#include "step.h"
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/rseq.h>

static char name[64];
static long futex(int *word, int operation, int value, const struct timespec *time, int *second, int third) {
    return syscall(SYS_futex, word, operation, value, time, second, third);
}

static void shared_memory(void) {
    STEP(shm_open(name, O_RDWR, 0));
    int fd = STEP(shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600));
    STEP(shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600));
    STEP(shm_open("/a/b", O_RDWR | O_CREAT, 0600));
    STEP(ftruncate(fd, 4096));
    int *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    pid_t pid = fork();
    if (pid == 0) {
        int other = MUST(shm_open(name, O_RDWR, 0));
        int *again = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, other, 0);
        again[3] = 33;
        _exit(0);
    }
    wait_for(pid);
    say("written by the child %d", map[3]);
    int read_only = MUST(shm_open(name, O_RDONLY, 0));
    STEP(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, read_only, 0) == MAP_FAILED);
    STEP(shm_unlink(name));
    STEP(shm_unlink(name));
    say("still there %d", map[3]);
    close(fd), close(read_only);
    munmap(map, 4096);
}

static void semaphores(void) {
    STEP(sem_open(name, 0) == SEM_FAILED);
    sem_t *sem = sem_open(name, O_CREAT | O_EXCL, 0600, 1);
    say("made %d", sem != SEM_FAILED);
    STEP(sem_open(name, O_CREAT | O_EXCL, 0600, 1) == SEM_FAILED);
    STEP(sem_wait(sem));
    STEP(sem_trywait(sem));
    struct timespec past = {1, 0};
    STEP(sem_timedwait(sem, &past));
    pid_t pid = fork();
    if (pid == 0) {
        sem_t *other = sem_open(name, 0);
        until_asleep(getppid());
        _exit(other == SEM_FAILED || sem_post(other));
    }
    STEP(sem_wait(sem));
    say("child %s", status_text(wait_for(pid)));
    int value = 9;
    STEP(sem_getvalue(sem, &value));
    say("value %d", value);
    STEP(sem_close(sem));
    STEP(sem_unlink(name));
    STEP(sem_unlink(name));
}

static void futexes(void) {
    int *words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct timespec short_time = {0, 1000000};
    STEP(futex(words, FUTEX_WAIT, 1, NULL, NULL, 0));
    STEP(futex(words, FUTEX_WAIT, 0, &short_time, NULL, 0));
    STEP(futex(words, FUTEX_WAKE, 1, NULL, NULL, 0));
    STEP(futex((int *)((char *)words + 1), FUTEX_WAIT, 0, NULL, NULL, 0));
    STEP(futex((int *)8, FUTEX_WAIT, 0, NULL, NULL, 0));
    STEP(futex(words, 77, 0, NULL, NULL, 0));
    STEP(futex(words, FUTEX_WAIT_BITSET, 0, NULL, NULL, 0));
    pid_t pids[3];
    for (int i = 0; i < 3; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            _exit(futex(words, FUTEX_WAIT, 0, NULL, NULL, 0) ? errno : 0);
    }
    for (int i = 0; i < 3; i++)
        until_asleep(pids[i]);
    STEP(futex(words, FUTEX_WAKE, 1, NULL, NULL, 0));
    STEP(futex(words, FUTEX_CMP_REQUEUE, 0, (void *)1, words + 1, 5)); /* another value than expected */
    STEP(futex(words, FUTEX_CMP_REQUEUE, 0, (void *)1, words + 1, 0)); /* none woken, one moved */
    STEP(futex(words + 1, FUTEX_WAKE, 9, NULL, NULL, 0));
    STEP(futex(words, FUTEX_WAKE_OP, 9, (void *)9, words + 1, FUTEX_OP(FUTEX_OP_ADD, 5, FUTEX_OP_CMP_EQ, 0)));
    say("word %d", words[1]);
    for (int i = 0; i < 3; i++)
        wait_for(pids[i]);
    STEP(futex(words + 4, FUTEX_LOCK_PI, 0, NULL, NULL, 0));
    say("mine %d", words[4] == gettid());
    STEP(futex(words + 4, FUTEX_TRYLOCK_PI, 0, NULL, NULL, 0));
    STEP(futex(words + 4, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0));
    STEP(futex(words + 4, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0));
    struct { uint64_t value, address; uint32_t flags, reserved; } several[2] = {{0, (uintptr_t)words, 2, 0}, {1, (uintptr_t)(words + 2), 2, 0}};
    STEP(syscall(SYS_futex_waitv, several, 2, 0, NULL, 0));
    munmap(words, 4096);
}

static void *die_with_it(void *mutex) {
    pthread_mutex_lock(mutex);
    return NULL;
}

static void robust(int process_dies, int inherit) {
    pthread_mutex_t *mutex = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    if (inherit)
        pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(mutex, &attr);
    if (process_dies) {
        pid_t pid = fork();
        if (pid == 0) {
            pthread_mutex_lock(mutex);
            raise(SIGKILL);
        }
        wait_for(pid);
    } else {
        pthread_t thread;
        pthread_create(&thread, NULL, die_with_it, mutex);
        pthread_join(thread, NULL);
    }
    int error = pthread_mutex_lock(mutex);
    say("the owner died: %s", errname(error));
    STEP(pthread_mutex_consistent(mutex));
    STEP(pthread_mutex_unlock(mutex));
    STEP(pthread_mutex_lock(mutex));
    munmap(mutex, 4096);
}

struct meeting { pthread_mutex_t mutex; pthread_cond_t cond; pthread_barrier_t barrier; int turn; };

static void conditions(void) {
    struct meeting *meeting = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t mutex;
    pthread_condattr_t cond;
    pthread_barrierattr_t barrier;
    pthread_mutexattr_init(&mutex), pthread_condattr_init(&cond), pthread_barrierattr_init(&barrier);
    pthread_mutexattr_setpshared(&mutex, 1), pthread_condattr_setpshared(&cond, 1), pthread_barrierattr_setpshared(&barrier, 1);
    pthread_mutex_init(&meeting->mutex, &mutex);
    pthread_cond_init(&meeting->cond, &cond);
    pthread_barrier_init(&meeting->barrier, &barrier, 2);
    pid_t pid = fork();
    int me = pid != 0;
    pthread_barrier_wait(&meeting->barrier);
    for (int i = 0; i < 500; i++) {
        pthread_mutex_lock(&meeting->mutex);
        while (meeting->turn % 2 != me)
            pthread_cond_wait(&meeting->cond, &meeting->mutex);
        meeting->turn++;
        pthread_cond_signal(&meeting->cond);
        pthread_mutex_unlock(&meeting->mutex);
    }
    if (pid == 0)
        _exit(0);
    wait_for(pid);
    say("turns %d", meeting->turn);
}

static void processors(void) {
    say("membarrier commands %ld", syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0));
    STEP(syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0));
    STEP(syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0));
    STEP(syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0));
    STEP(syscall(SYS_membarrier, 1 << 30, 0, 0));
    say("rseq registered by the C library %d", __rseq_size > 0);
    struct rseq *area = (void *)((char *)__builtin_thread_pointer() + __rseq_offset);
    unsigned cpu;
    int same = 0;
    for (int i = 0; i < 100 && !same; i++)
        same = getcpu(&cpu, NULL) == 0 && cpu == area->cpu_id;
    say("its processor is right %d", same);
    STEP(syscall(SYS_rseq, area, 32, 0, 1));
    STEP(syscall(SYS_rseq, NULL, 32, 0, RSEQ_SIG));
}

int main(void) {
    snprintf(name, sizeof name, "/husk-shared-%d-%ld", getpid(), (long)time(NULL));
    shared_memory();
    semaphores();
    futexes();
    for (int i = 0; i < 4; i++)
        robust(i & 1, i & 2);
    conditions();
    processors();
    return 0;
}
