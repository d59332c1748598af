/* build: proc_threads -pthread
 *
 * Threads: creation, thread-local data, locks, races on names, and processes that end with threads still running.
 */
#include "step.h"
#include <dirent.h>
#include <pthread.h>
#include <semaphore.h>

static __thread int local;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long counter;
static pthread_barrier_t barrier;
static int wins[8][50], failures;

static void *count(void *number) {
    local = (int)(intptr_t)number;
    for (int i = 0; i < 2000; i++) {
        pthread_mutex_lock(&lock);
        counter++;
        pthread_mutex_unlock(&lock);
    }
    return (void *)(intptr_t)local;
}

static void basics(void) {
    pthread_t threads[32];
    long sum = 0;
    for (int i = 0; i < 32; i++)
        if (pthread_create(&threads[i], NULL, count, (void *)(intptr_t)i))
            say("pthread_create failed");
    for (int i = 0; i < 32; i++) {
        void *result;
        pthread_join(threads[i], &result);
        sum += (intptr_t)result;
    }
    say("counter %ld, thread-local sum %ld, mine %d", counter, sum, local);
}

/* A thread asks for another one's list of held locks, by number. */
static void *ask(void *wanted) {
    long tid = (long)(intptr_t)wanted;
    void *head = NULL, *own = NULL;
    size_t size = 0;
    STEP(syscall(SYS_get_robust_list, tid, &head, &size));
    MUST(syscall(SYS_get_robust_list, 0, &own, &size));
    say("a list %d of its own %d", head != NULL, head != own);
    STEP(syscall(SYS_get_robust_list, 0x3fffffff, &head, &size));
    return NULL;
}

static void robust_lists(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, ask, (void *)syscall(SYS_gettid));
    pthread_join(thread, NULL);
}

/* Eight threads want the same fifty names: each name has one winner, the others see EEXIST. */
static void *race(void *number) {
    int me = (int)(intptr_t)number;
    char name[32];
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof name, i % 2 ? "race/f%d" : "race/d%d", i);
        int done = i % 2 ? open(name, O_CREAT | O_EXCL | O_WRONLY, 0644) : mkdir(name, 0755);
        if (done >= 0)
            wins[me][i] = 1;
        else if (errno != EEXIST)
            __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
        if (i % 2 && done >= 0)
            close(done);
    }
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof name, i % 2 ? "race/f%d" : "race/d%d", i);
        int done = i % 2 ? unlink(name) : rmdir(name);
        if (done == 0)
            wins[me][i] += 100;
        else if (errno != ENOENT)
            __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void races(void) {
    pthread_t threads[8];
    MUST(mkdir("race", 0755));
    pthread_barrier_init(&barrier, NULL, 8);
    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, race, (void *)(intptr_t)i);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    int wrong = 0;
    for (int i = 0; i < 50; i++) {
        int total = 0;
        for (int j = 0; j < 8; j++)
            total += wins[j][i];
        wrong += total != 101;
    }
    say("names with other than one maker and one remover %d, other errors %d", wrong, failures);
    STEP(rmdir("race"));
}

/* Append from many threads and processes: no line is lost or torn. */
static void *append(void *path) {
    char line[64];
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT, 0644);
    for (int i = 0; i < 100; i++) {
        int n = snprintf(line, sizeof line, "a line of text, always the same length\n");
        if (write(fd, line, n) != n)
            __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
    }
    close(fd);
    return NULL;
}

static void appends(void) {
    pthread_t threads[4];
    pid_t pid = fork();
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, append, "appended");
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    if (pid == 0)
        _exit(failures != 0);
    say("child %s", status_text(wait_for(pid)));
    struct stat st;
    MUST(stat("appended", &st));
    say("lines %ld, failures %d", (long)st.st_size / 39, failures);
}

static void *sleep_on(void *unused) {
    for (;;)
        pause();
    return unused;
}

static void *leave(void *code) {
    exit((int)(intptr_t)code);
    return NULL;
}

static void *outlive(void *unused) {
    nap_ms(100);
    say("the leader is gone, a thread goes on");
    return unused;
}

static void endings(void) {
    pthread_t thread;
    pid_t pid = fork();
    if (pid == 0) {
        pthread_create(&thread, NULL, sleep_on, NULL);
        pthread_create(&thread, NULL, leave, (void *)21);
        pause();
    }
    say("exit from a thread: %s", status_text(wait_for(pid)));
    pid = fork();
    if (pid == 0) {
        pthread_create(&thread, NULL, outlive, NULL);
        pthread_exit(NULL);
    }
    say("leader leaves first: %s", status_text(wait_for(pid)));
    pid = fork();
    if (pid == 0) {
        pthread_create(&thread, NULL, sleep_on, NULL);
        raise(SIGKILL);
    }
    say("killed: %s", status_text(wait_for(pid)));
    pthread_create(&thread, NULL, sleep_on, NULL);
    nap_ms(20);
    pthread_cancel(thread);
    void *result;
    pthread_join(thread, &result);
    say("cancelled %d", result == PTHREAD_CANCELED);
}

static sem_t go;
static int listed;

static void *wait_for_go(void *unused) {
    pthread_setname_np(pthread_self(), "a-thread");
    sem_post(&go);
    sleep_on(NULL);
    return unused;
}

/* A thread that was joined is still listed until the kernel is done with it. */
static int tasks_listed(void) {
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *entry; tasks && (entry = readdir(tasks));)
        count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

static void visible(void) {
    pthread_t threads[3];
    while (tasks_listed() > 1)
        nap_ms(1);
    sem_init(&go, 0, 0);
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, wait_for_go, NULL);
    for (int i = 0; i < 3; i++)
        while (sem_wait(&go))
            ;
    DIR *tasks = opendir("/proc/self/task");
    int named = 0;
    for (struct dirent *entry; tasks && (entry = readdir(tasks));) {
        if (entry->d_name[0] == '.')
            continue;
        listed++;
        char path[400], text[32] = {0};
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        int fd = open(path, O_RDONLY);
        if (read(fd, text, sizeof text - 1) > 0)
            named += !strcmp(text, "a-thread\n");
        close(fd);
    }
    say("threads listed %d, by their name %d", listed, named);
    char own[PATH_MAX];
    ssize_t n = readlink("/proc/thread-self", own, sizeof own - 1);
    own[n > 0 ? n : 0] = 0;
    char expected[64];
    snprintf(expected, sizeof expected, "%d/task/%d", getpid(), gettid());
    say("/proc/thread-self %s", strcmp(own, expected) ? own : "ok");
    snprintf(expected, sizeof expected, "%d", getpid());
    n = readlink("/proc/self", own, sizeof own - 1);
    own[n > 0 ? n : 0] = 0;
    say("/proc/self %s", strcmp(own, expected) ? own : "ok");
}

int main(void) {
    basics();
    robust_lists();
    races();
    appends();
    endings();
    visible();
    return 0; /* with three threads still asleep */
}
