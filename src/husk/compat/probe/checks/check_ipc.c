/* compat/probe: checks of System V shared memory, semaphores and messages, and of POSIX message queues.
 *
 * Everything is made with IPC_PRIVATE or a name with the process's own number, and removed at once where Linux keeps it
 * beyond the process: before the check can fail on what comes after. */
#include "probe.h"

#include <mqueue.h>
#include <stdio.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <time.h>

#define PAGE 4096UL
#define NO_ID 777777 /* what is used where none can be made: whether the call under test is there shows all the same */

/* -- shared memory. A segment that is marked for removal lives on while it is attached. -- */

static int segment(void)
{
    int id = shmget(IPC_PRIVATE, PAGE, IPC_CREAT | 0600);
    return id < 0 ? NO_ID : id;
}

CHECK(shmget, "a segment of one's own")
{
    int id = (int)MUST(CALL(shmget, IPC_PRIVATE, PAGE, IPC_CREAT | 0600));
    struct shmid_ds status = {0};
    bool known = shmctl(id, IPC_STAT, &status) == 0;
    shmctl(id, IPC_RMID, NULL);
    EFFECT(known && status.shm_segsz == PAGE && status.shm_nattch == 0);
}

CHECK(shmget, "shmflg=IPC_EXCL: a key that is taken is EEXIST")
{
    key_t key = (key_t)(0x68000000 + getpid());
    int id = shmget(key, PAGE, IPC_CREAT | IPC_EXCL | 0600); /* it is removed below: never another's */
    NEED(id >= 0, "shmget");
    long again = CALL(shmget, key, PAGE, IPC_CREAT | IPC_EXCL | 0600);
    shmctl(id, IPC_RMID, NULL);
    ANSWERS(again, EEXIST);
}

CHECK(shmget, "shmflg=SHM_HUGETLB: a segment of huge pages, or none to be had")
{
    long id = CALL(shmget, IPC_PRIVATE, 2 << 20, IPC_CREAT | SHM_HUGETLB | 0600);
    if (id >= 0)
        shmctl((int)id, IPC_RMID, NULL);
    MUST_OR(id, ENOMEM, EPERM, EINVAL, ENOSYS);
}

CHECK(shmat, "shared with a child")
{
    int id = segment();
    volatile char *at = (char *)CALL(shmat, id, NULL, 0);
    shmctl(id, IPC_RMID, NULL);
    MUST((long)at);
    pid_t pid = probe_fork();
    if (pid == 0) {
        at[10] = 'x';
        _exit(0);
    }
    probe_wait(pid);
    EFFECT(at[10] == 'x');
}

CHECK(shmat, "shmflg=SHM_RDONLY: a write is SIGSEGV")
{
    int id = segment();
    char *at = (char *)CALL(shmat, id, NULL, SHM_RDONLY);
    shmctl(id, IPC_RMID, NULL);
    MUST((long)at);
    EFFECT(probe_touch(at, false) == 0 && probe_touch(at, true) == SIGSEGV);
}

CHECK(shmat, "shmflg=SHM_RND: an address is rounded down")
{
    int id = segment();
    char *place = probe_pages(4);
    NEED(RAW(munmap, place, 4 * PAGE) == 0, "munmap");
    long at = CALL(shmat, id, place + PAGE + 123, SHM_RND);
    shmctl(id, IPC_RMID, NULL);
    EFFECT(MUST(at) == (long)(place + PAGE));
}

CHECK(shmdt, "a touch is SIGSEGV")
{
    int id = segment();
    char *at = shmat(id, NULL, 0);
    shmctl(id, IPC_RMID, NULL);
    NEED(at != (char *)-1, "shmat");
    MUST(CALL(shmdt, at));
    EFFECT(probe_touch(at, false) == SIGSEGV);
}

CHECK(shmctl, "cmd=IPC_STAT: counts who is attached")
{
    int id = segment();
    struct shmid_ds status = {0};
    void *at = shmat(id, NULL, 0);
    long value = CALL(shmctl, id, IPC_STAT, &status);
    shmctl(id, IPC_RMID, NULL);
    NEED(at != (void *)-1, "shmat");
    MUST(value);
    EFFECT(status.shm_nattch == 1 && status.shm_segsz == PAGE && status.shm_cpid == getpid());
}

CHECK(shmctl, "cmd=IPC_SET: a mode")
{
    int id = segment();
    struct shmid_ds status = {0};
    NEED(shmctl(id, IPC_STAT, &status) == 0, "IPC_STAT");
    status.shm_perm.mode = 0640;
    long value = CALL(shmctl, id, IPC_SET, &status);
    struct shmid_ds after = {0};
    shmctl(id, IPC_STAT, &after);
    shmctl(id, IPC_RMID, NULL);
    MUST(value);
    EFFECT((after.shm_perm.mode & 0777) == 0640);
}

CHECK(shmctl, "cmd=IPC_RMID")
{
    int id = segment();
    struct shmid_ds status;
    MUST(CALL(shmctl, id, IPC_RMID, NULL));
    EFFECT(shmctl(id, IPC_STAT, &status) == -1 && (errno == EINVAL || errno == EIDRM));
}

CHECK(shmctl, "cmd=IPC_INFO: the limits")
{
    struct shminfo info = {0};
    MUST(CALL(shmctl, 0, IPC_INFO, &info));
    EFFECT(info.shmmax > 0 && info.shmmni > 0);
}

CHECK(shmctl, "cmd=SHM_LOCK: locked, or more than the limit allows")
{
    int id = segment();
    struct shmid_ds status = {0};
    long value = CALL(shmctl, id, SHM_LOCK, NULL);
    shmctl(id, IPC_STAT, &status);
    shmctl(id, IPC_RMID, NULL);
    MUST_OR(value, EPERM, ENOMEM);
    EFFECT(status.shm_perm.mode & SHM_LOCKED);
}

CHECK(shmctl, "cmd=SHM_UNLOCK")
{
    int id = segment();
    long value = CALL(shmctl, id, SHM_UNLOCK, NULL);
    shmctl(id, IPC_RMID, NULL);
    MUST(value);
}

/* -- semaphores -- */

static int semaphores(void)
{
    int id = semget(IPC_PRIVATE, 2, IPC_CREAT | 0600);
    return id < 0 ? NO_ID : id;
}

CHECK(semget, "a set of one's own")
{
    long id = CALL(semget, IPC_PRIVATE, 2, IPC_CREAT | 0600);
    MUST(id);
    struct semid_ds status = {0};
    bool known = semctl((int)id, 0, IPC_STAT, &status) == 0;
    semctl((int)id, 0, IPC_RMID);
    EFFECT(known && status.sem_nsems == 2);
}

CHECK(semget, "nsems=256: a large set")
{
    long id = CALL(semget, IPC_PRIVATE, 256, IPC_CREAT | 0600);
    if (id >= 0)
        semctl((int)id, 0, IPC_RMID);
    MUST(id);
}

CHECK(semop, "adds, and with IPC_NOWAIT does not wait")
{
    int id = semaphores();
    struct sembuf up = {0, 3, 0}, down = {0, -5, IPC_NOWAIT};
    long added = CALL(semop, id, &up, 1), taken = CALL(semop, id, &down, 1);
    int value = semctl(id, 0, GETVAL);
    semctl(id, 0, IPC_RMID);
    MUST(added);
    EFFECT(value == 3 && taken == -EAGAIN);
}

CHECK(semop, "SEM_UNDO takes it back at the end of a process")
{
    int id = semaphores();
    pid_t pid = probe_fork();
    if (pid == 0) {
        struct sembuf up = {0, 3, SEM_UNDO};
        MUST(CALL(semop, id, &up, 1));
        _exit(semctl(id, 0, GETVAL) == 3 ? 0 : 1);
    }
    int status = probe_wait(pid), value = semctl(id, 0, GETVAL);
    semctl(id, 0, IPC_RMID);
    EFFECT(status == 0 && value == 0);
}

CHECK(semtimedop, "a time-out is EAGAIN")
{
    int id = semaphores();
    struct sembuf down = {0, -1, 0};
    struct timespec brief = {0, 2000000};
    long value = CALL(semtimedop, id, &down, 1, &brief);
    semctl(id, 0, IPC_RMID);
    ANSWERS(value, EAGAIN);
}

CHECK(semctl, "cmd=SETVAL")
{
    int id = semaphores();
    long value = CALL(semctl, id, 1, SETVAL, 7);
    int seen = semctl(id, 1, GETVAL);
    semctl(id, 0, IPC_RMID);
    MUST(value);
    EFFECT(seen == 7);
}

CHECK(semctl, "cmd=SETALL")
{
    int id = semaphores();
    unsigned short both[2] = {4, 5};
    long value = CALL(semctl, id, 0, SETALL, both);
    int seen = semctl(id, 1, GETVAL);
    semctl(id, 0, IPC_RMID);
    MUST(value);
    EFFECT(seen == 5);
}

CHECK(semctl, "cmd=IPC_RMID")
{
    int id = semaphores();
    MUST(CALL(semctl, id, 0, IPC_RMID, 0));
    EFFECT(semctl(id, 0, GETVAL) == -1 && (errno == EINVAL || errno == EIDRM));
}

/* -- messages -- */

struct message {
    long type;
    char text[8];
};

static int queue(void)
{
    int id = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
    return id < 0 ? NO_ID : id;
}

CHECK(msgget, "a queue of one's own")
{
    long id = CALL(msgget, IPC_PRIVATE, IPC_CREAT | 0600);
    MUST(id);
    struct msqid_ds status = {0};
    bool known = msgctl((int)id, IPC_STAT, &status) == 0;
    msgctl((int)id, IPC_RMID, NULL);
    EFFECT(known && status.msg_qnum == 0);
}

CHECK(msgsnd, "a message waits")
{
    int id = queue();
    struct message out = {3, "hello"}, in = {0, ""};
    long value = CALL(msgsnd, id, &out, 6, 0);
    long got = msgrcv(id, &in, 8, 0, IPC_NOWAIT);
    msgctl(id, IPC_RMID, NULL);
    MUST(value);
    EFFECT(got == 6 && in.type == 3 && !strcmp(in.text, "hello"));
}

CHECK(msgrcv, "chooses by type")
{
    int id = queue();
    struct message one = {1, "one"}, two = {2, "two"}, in = {0, ""};
    msgsnd(id, &one, 4, 0);
    msgsnd(id, &two, 4, 0);
    long value = CALL(msgrcv, id, &in, 8, 2, 0);
    msgctl(id, IPC_RMID, NULL);
    EFFECT(MUST(value) == 4 && in.type == 2 && !strcmp(in.text, "two"));
}

CHECK(msgrcv, "msgflg=IPC_NOWAIT: an empty queue is ENOMSG")
{
    int id = queue();
    struct message in;
    long value = CALL(msgrcv, id, &in, 8, 0, IPC_NOWAIT);
    msgctl(id, IPC_RMID, NULL);
    ANSWERS(value, ENOMSG);
}

CHECK(msgctl, "cmd=IPC_RMID")
{
    int id = queue();
    struct msqid_ds status;
    MUST(CALL(msgctl, id, IPC_RMID, NULL));
    EFFECT(msgctl(id, IPC_STAT, &status) == -1 && (errno == EINVAL || errno == EIDRM));
}

/* -- POSIX message queues: the kernel's names have no slash. A queue that is unlinked lives on while it is open. -- */

static char *queue_name(void)
{
    static char name[64];
    snprintf(name, sizeof name, "husk-probe-%d", (int)getpid());
    return name;
}

static struct mq_attr SMALL = {.mq_maxmsg = 2, .mq_msgsize = 16};

static int posix_queue(void)
{
    char *name = queue_name();
    int fd = (int)RAW(mq_open, name, O_CREAT | O_EXCL | O_RDWR, 0600, &SMALL);
    if (fd >= 0)
        (void)RAW(mq_unlink, name);
    return fd < 0 ? NO_ID : fd;
}

CHECK(mq_open, "a message goes through")
{
    char *name = queue_name(), text[16] = {0};
    long fd = CALL(mq_open, name, O_CREAT | O_EXCL | O_RDWR, 0600, &SMALL);
    if (fd >= 0)
        (void)RAW(mq_unlink, name);
    MUST(fd);
    NEED(RAW(mq_timedsend, fd, "hello", 5, 7, NULL) == 0, "mq_timedsend");
    unsigned priority = 0;
    EFFECT(RAW(mq_timedreceive, fd, text, 16, &priority, NULL) == 5 && !strcmp(text, "hello") && priority == 7);
}

CHECK(mq_unlink, "the name is gone")
{
    char *name = queue_name();
    (void)RAW(mq_open, name, O_CREAT | O_EXCL | O_RDWR, 0600, &SMALL);
    MUST(CALL(mq_unlink, name));
    EFFECT(RAW(mq_open, name, O_RDWR, 0, NULL) == -ENOENT);
}

CHECK(mq_timedsend, "a full queue is ETIMEDOUT")
{
    int fd = posix_queue();
    struct timespec past = {1, 0};
    MUST(CALL(mq_timedsend, fd, "one", 3, 0, NULL));
    MUST(CALL(mq_timedsend, fd, "two", 3, 0, NULL));
    ANSWERS(CALL(mq_timedsend, fd, "three", 5, 0, &past), ETIMEDOUT);
}

CHECK(mq_timedreceive, "the highest priority comes first")
{
    int fd = posix_queue();
    char text[16] = {0};
    unsigned priority = 0;
    (void)RAW(mq_timedsend, fd, "low", 3, 1, NULL);
    (void)RAW(mq_timedsend, fd, "high", 4, 2, NULL);
    EFFECT(MUST(CALL(mq_timedreceive, fd, text, 16, &priority, NULL)) == 4 && !strcmp(text, "high") && priority == 2);
}

static volatile sig_atomic_t notified;

static void note(int number)
{
    notified = number;
}

CHECK(mq_notify, "a signal when a message comes")
{
    int fd = posix_queue();
    struct sigaction action = {.sa_handler = note};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    NEED(sigaction(SIGUSR1, &action, NULL) == 0, "sigaction");
    MUST(CALL(mq_notify, fd, &event));
    NEED(RAW(mq_timedsend, fd, "x", 1, 0, NULL) == 0, "mq_timedsend");
    for (int n = 0; n < 2000 && !notified; n++)
        probe_sleep(1);
    EFFECT(notified == SIGUSR1);
}

CHECK(mq_getsetattr, "tells the size, sets O_NONBLOCK")
{
    int fd = posix_queue();
    struct mq_attr now = {0}, wish = {.mq_flags = O_NONBLOCK};
    char text[16];
    MUST(CALL(mq_getsetattr, fd, &wish, &now));
    EFFECT(now.mq_maxmsg == 2 && now.mq_msgsize == 16 && now.mq_flags == 0);
    EFFECT(RAW(mq_timedreceive, fd, text, 16, NULL, NULL) == -EAGAIN);
}
