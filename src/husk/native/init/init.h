/* native/init: what the parts of husk-init share. */
#ifndef HUSK_INIT_H
#define HUSK_INIT_H
#include "plan.h"

extern const struct plan *plan;
extern size_t plan_size;

void report(uint32_t kind, int32_t a, int32_t b);
_Noreturn void give_up(int step);
void send_descriptor(uint32_t kind, int fd, int step);

/* builder.c: namespaces, their loopback, host name and root, as the plan wants them. */
void build(void);
extern int queues; /* the box's message queues, or -1 */

/* guest.c */
_Noreturn void become_guest(void);
#endif
