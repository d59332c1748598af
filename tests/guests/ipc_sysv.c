/* build: ipc_sysv
 *
 * System V shared memory, semaphores and messages.
 */
#include "step.h"
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

union semun { int val; struct semid_ds *buf; unsigned short *array; };
struct message { long type; char text[32]; };

static void memory(key_t key) {
    int id = shmget(key, 10000, IPC_CREAT | IPC_EXCL | 0600), mine = shmget(IPC_PRIVATE, 4096, 0600);
    say("made %s %s", id < 0 ? errname(errno) : "yes", mine < 0 ? errname(errno) : "yes");
    STEP(shmget(key, 10000, IPC_CREAT | IPC_EXCL | 0600));
    STEP(shmget(key, 20000, 0600));
    STEP(shmget(key, 10, 0600) == id);
    STEP(shmget(key + 1, 10, 0600));
    STEP(shmget(IPC_PRIVATE, 0, 0600));
    int *map = shmat(id, NULL, 0);
    say("attached %d", map != (void *)-1);
    struct shmid_ds found;
    STEP(shmctl(id, SHM_LOCK, NULL));
    MUST(shmctl(id, IPC_STAT, &found));
    say("locked %d", !!(found.shm_perm.mode & SHM_LOCKED));
    STEP(shmctl(id, SHM_UNLOCK, NULL));
    STEP(shmctl(id, IPC_STAT, &found));
    say("size %ld attached %d mode %o mine %d", (long)found.shm_segsz, (int)found.shm_nattch, found.shm_perm.mode,
        found.shm_perm.uid == geteuid() && found.shm_cpid == getpid());
    pid_t pid = fork();
    if (pid == 0) {
        const int *again = shmat(id, NULL, SHM_RDONLY);
        map[5] = 55;
        say("the child sees %d, attached", again[5]);
        STEP(shmdt(again));
        STEP(shmdt(again));
        _exit(0);
    }
    wait_for(pid);
    say("written by the child %d", map[5]);
    STEP(shmat(id, (char *)map + 1, 0) == (void *)-1);
    STEP(shmctl(id, IPC_RMID, NULL));
    STEP(shmget(key, 10, 0600));
    say("still there %d", map[5]);
    STEP(shmctl(id, IPC_STAT, &found));
    say("to be destroyed %d", (found.shm_perm.mode & SHM_DEST) != 0);
    STEP(shmdt(map));
    STEP(shmctl(id, IPC_STAT, &found));
    STEP(shmctl(mine, IPC_RMID, NULL));
    STEP(shmctl(mine, 77, NULL));
    STEP(shmdt((void *)8));
}

static void semaphores(key_t key) {
    int id = semget(key, 3, IPC_CREAT | IPC_EXCL | 0600);
    say("made %s", id < 0 ? errname(errno) : "yes");
    STEP(semget(key, 4, 0));
    STEP(semget(key + 1, 1, 0));
    STEP(semctl(id, 0, SETVAL, (union semun){.val = 2}));
    unsigned short values[3] = {1, 2, 3};
    STEP(semctl(id, 0, SETALL, (union semun){.array = values}));
    STEP(semctl(id, 2, GETVAL));
    STEP(semctl(id, 3, GETVAL));
    STEP(semctl(id, 0, SETVAL, (union semun){.val = 100000}));
    struct sembuf two[2] = {{0, -1, IPC_NOWAIT}, {1, -3, IPC_NOWAIT}};
    STEP(semop(id, two, 2)); /* all or none */
    STEP(semctl(id, 0, GETVAL));
    two[1].sem_op = -2;
    STEP(semop(id, two, 2));
    two[1].sem_num = 7;
    STEP(semop(id, two, 2));
    pid_t pid = fork();
    if (pid == 0) {
        struct sembuf give = {0, 1, SEM_UNDO};
        while (semctl(id, 0, GETNCNT) < 1) /* without a waiter, our exit would undo what we gave */
            nap_ms(1);
        semop(id, &give, 1);
        struct sembuf stay = {2, 5, SEM_UNDO};
        semop(id, &stay, 1);
        _exit(0); /* takes back what it gave the third */
    }
    struct sembuf take = {0, -1, 0};
    STEP(semop(id, &take, 1));
    wait_for(pid);
    STEP(semctl(id, 2, GETVAL));
    STEP(semctl(id, 0, GETPID) == pid);
    struct timespec short_time = {0, 1000000};
    STEP(semtimedop(id, &take, 1, &short_time));
    pid = fork();
    if (pid == 0)
        _exit(semop(id, &take, 1) ? errno == EIDRM : 0);
    while (semctl(id, 0, GETNCNT) < 1)
        nap_ms(1);
    STEP(semctl(id, 0, GETNCNT));
    STEP(semctl(id, 0, IPC_RMID));
    say("one that waited was told %s", status_text(wait_for(pid)));
    STEP(semctl(id, 0, GETVAL));
}

static void messages(key_t key) {
    int id = msgget(key, IPC_CREAT | IPC_EXCL | 0600);
    say("made %s", id < 0 ? errname(errno) : "yes");
    STEP(msgget(key, IPC_CREAT | IPC_EXCL | 0600));
    struct message one = {1, "first"}, two = {2, "second"}, got;
    STEP(msgsnd(id, &one, 6, 0));
    STEP(msgsnd(id, &two, 7, 0));
    STEP(msgsnd(id, &(struct message){0, ""}, 1, 0));
    STEP(msgsnd(id, &one, 1 << 30, 0));
    STEP(msgrcv(id, &got, 32, 2, 0));
    say("%s", got.text);
    STEP(msgrcv(id, &got, 2, 0, 0));
    STEP(msgrcv(id, &got, 2, 0, MSG_NOERROR));
    STEP(msgrcv(id, &got, 32, 0, IPC_NOWAIT));
    pid_t pid = fork();
    if (pid == 0) {
        until_asleep(getppid());
        _exit(msgsnd(id, &two, 7, 0) != 0);
    }
    STEP(msgrcv(id, &got, 32, -5, 0));
    say("%s, child %s", got.text, status_text(wait_for(pid)));
    struct msqid_ds found;
    STEP(msgctl(id, IPC_STAT, &found));
    say("messages %d, last from the child %d", (int)found.msg_qnum, found.msg_lspid == pid);
    STEP(msgctl(id, IPC_RMID, NULL));
    STEP(msgctl(id, IPC_STAT, &found));
}

static void attaching(void) {
    int id = MUST(shmget(IPC_PRIVATE, 3 * 4096, 0600)), closed = MUST(shmget(IPC_PRIVATE, 4096, 0400));
    char *room = mmap(NULL, 8 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    STEP(shmat(id, room, 0) == (void *)-1); /* something is there */
    STEP(shmat(id, room, SHM_REMAP) == room);
    STEP(shmat(id, NULL, SHM_REMAP) == (void *)-1);
    munmap(room + 4 * 4096, 4 * 4096);
    STEP(shmat(id, room + 4 * 4096 + 5, SHM_RND) == room + 4 * 4096);
    room[0] = 'x';
    say("the same memory %c", room[4 * 4096]);
    char *reading = shmat(id, NULL, SHM_RDONLY);
    STEP(mprotect(reading, 4096, PROT_READ | PROT_WRITE));
    STEP(shmdt(reading + 4096));
    STEP(mprotect(room, 4096, PROT_READ));
    struct shmid_ds found;
    MUST(shmctl(id, IPC_STAT, &found));
    say("attached %d, last by me %d", (int)found.shm_nattch, found.shm_lpid == getpid());
    STEP(shmdt(room));
    STEP(msync(room, 3 * 4096, MS_ASYNC));
    STEP(shmdt(room + 4 * 4096));
    STEP(shmdt(reading));
    STEP(shmat(closed, NULL, 0) == (void *)-1);
    STEP(shmat(-1, NULL, 0) == (void *)-1);
    STEP(shmctl(id, IPC_STAT, (void *)8));
    STEP(shmctl(id, IPC_SET, (void *)8));
    found.shm_perm.mode = 0640;
    STEP(shmctl(id, IPC_SET, &found));
    pid_t pid = fork();
    if (pid == 0)
        _exit(shmat(id, NULL, 0) == (void *)-1); /* never detached: its end does it */
    wait_for(pid);
    MUST(shmctl(id, IPC_STAT, &found));
    say("attached %d, mode %o, times %d %d", (int)found.shm_nattch, found.shm_perm.mode, found.shm_atime > 0,
        found.shm_ctime > 0);
    STEP(shmctl(closed, IPC_RMID, NULL));
    STEP(shmctl(id, IPC_RMID, NULL));
    STEP(shmat(id, NULL, 0) == (void *)-1);
}

/* argv[1], if there, leaves all but memory out. */
int main(int argc, char **argv) {
    (void)argv;
    key_t key = 0x4855 << 16 | (getpid() & 0xffff);
    memory(key);
    attaching();
    if (argc > 1)
        return 0;
    semaphores(key);
    messages(key);
    return 0;
}
