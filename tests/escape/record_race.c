/* build: record_race -pthread
 *
 * record_race OWN SHARED ROUNDS: locks a range of OWN, by a descriptor that another thread exchanges for one of SHARED
 * in the same moment. If the exchange comes after a supervisor's look, SHARED is locked, and stays so for a moment.
 * Prints "held" after each round in which that can have happened.
 */
#include "step.h"
#include <pthread.h>
#include <stdatomic.h>

enum { NUMBER = 50 };
static atomic_int round_of_swapper, rounds_begun;
static int shared;

static void *swap(void *delay) {
    for (int seen = 0; seen >= 0;) {
        while (atomic_load(&rounds_begun) == seen)
            ;
        seen = atomic_load(&rounds_begun);
        for (volatile int i = rand() % *(int *)delay; i > 0; i--)
            ;
        dup2(shared, NUMBER);
        atomic_store(&round_of_swapper, seen);
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 4)
        return 96;
    int own = MUST(open(argv[1], O_RDONLY)), delay = 20000;
    shared = MUST(open(argv[2], O_RDONLY));
    pthread_t thread;
    MUST(pthread_create(&thread, NULL, swap, &delay));
    for (int i = 1; i <= atoi(argv[3]); i++) {
        struct flock whole = {.l_type = F_RDLCK};
        MUST(dup2(own, NUMBER));
        atomic_store(&rounds_begun, i);
        int locked = fcntl(NUMBER, F_SETLK, &whole);
        while (atomic_load(&round_of_swapper) != i)
            ;
        if (locked == 0) {
            say("held");
            usleep(40000);
        }
    }
    return 0;
}
