/* native/init: what the parts of husk-init share. */
#ifndef HUSK_INIT_H
#define HUSK_INIT_H
#include "plan.h"

extern const struct init_plan *init_plan;
extern size_t init_plan_size;

void init_report(uint32_t kind, int32_t a, int32_t b);
_Noreturn void init_give_up(int step);
void init_send_fd(uint32_t kind, int fd, int step);

/* builder.c: namespaces, their loopback, host name and root, as the plan wants them. */
void init_build(void);
extern int init_mqueues; /* the box's message queues, or -1 */

/* guest.c */
_Noreturn void init_become_guest(void);
#endif
