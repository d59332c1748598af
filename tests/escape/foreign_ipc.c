/* build: foreign_ipc
 *
 * Tries to reach semaphores and message queues of the host by id, key, index and name. Takes the key and the ids of a
 * set and of a queue, and the name of a POSIX queue, all of them open to every user. Prints one line for each attempt.
 * Then makes a set and a queue of its own and leaves them: `stay` waits to be killed with them.
 */
#include "step.h"
#include <fcntl.h>
#include <mqueue.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>

struct message { long type; char text[32]; };

static int indices(int command, int semaphores) {
    char told[256];
    int reached = 0;
    for (int index = 0; index < 32768; index++)
        reached += (semaphores ? semctl(index, 0, command, told) : msgctl(index, command, (void *)told)) >= 0;
    return reached;
}

int main(int argc, char **argv) {
    int key = atoi(argv[1]), set = atoi(argv[2]), queue = atoi(argv[3]);
    struct sembuf up = {0, 1, IPC_NOWAIT};
    struct message message = {1, "from a guest"};
    STEP(semget(key, 0, 0) == set);
    STEP(semop(set, &up, 1));
    STEP(semtimedop(set, &up, 1, NULL));
    STEP(semctl(set, 0, GETVAL));
    STEP(semctl(set, 0, SETVAL, 7));
    STEP(semctl(set, 0, IPC_RMID));
    STEP(msgget(key, 0) == queue);
    STEP(msgsnd(queue, &message, 12, IPC_NOWAIT));
    STEP(msgrcv(queue, &message, 32, 0, IPC_NOWAIT));
    STEP(msgctl(queue, IPC_RMID, NULL));
    STEP(mq_open(argv[4], O_RDWR) == -1);
    STEP(mq_unlink(argv[4]));
    say("by index %d %d", indices(SEM_STAT, 1) + indices(20, 1), indices(MSG_STAT, 0) + indices(13, 0));
    say("own %d %d", semget(key, 2, IPC_CREAT | IPC_EXCL | 0600) >= 0, msgget(key, IPC_CREAT | IPC_EXCL | 0600) >= 0);
    say("own by index %d %d", indices(SEM_STAT, 1), indices(MSG_STAT, 0));
    fflush(stdout);
    if (argc > 5)
        pause();
    return 0;
}
