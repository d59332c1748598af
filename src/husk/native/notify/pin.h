/* native: see pin.c. */
#ifndef HUSK_PIN_H
#define HUSK_PIN_H

#include <sched.h>
#include <stdint.h>
#include <sys/types.h>

struct pin {
    pid_t tid; /* the guest thread that is bound; 0: none is */
    int64_t began_ns;
    cpu_set_t guest;
};

void pin_if_it_helps(struct pin *pin, pid_t tid); /* guest and receiver may be bound until released */
void pin_release(struct pin *pin);
void pin_let_go(pid_t caller); /* of the receiver itself, unless it is bound for this caller; 0: in any case */

#endif
