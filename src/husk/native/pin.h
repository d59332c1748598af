/* native: see pin.c. */
#ifndef HUSK_PIN_H
#define HUSK_PIN_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct pin {
    pid_t tid; /* 0: nothing is bound */
    int64_t began_ns;
    cpu_set_t guest, own;
};

bool pin_if_it_helps(struct pin *pin, pid_t tid); /* true: guest and receiver are bound until released */
void pin_release(struct pin *pin);                /* to be called in either case */

#endif
