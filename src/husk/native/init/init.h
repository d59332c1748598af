/* native/init: what the parts of husk-init share. Pointers live as long as the process. */
#ifndef HUSK_INIT_H
#define HUSK_INIT_H
#include "plan.h"

extern const struct init_plan *init_plan; /* mapped */
extern size_t init_plan_size;

void init_report(uint32_t kind, int32_t a, int32_t b);
_Noreturn void init_give_up(int step);              /* reports the step and errno */
void init_send_fd(uint32_t kind, int fd, int step); /* `fd` stays the caller's; gives up at `step` */

/* builder.c: makes or joins the namespaces of the plan, with their loopback, host name and root. */
void init_build(void);
extern int init_mqueues; /* owned: a mount of the box's message queues, or -1 */
extern int init_root_loader; /* owned: the loader in the empty root, or -1 */
extern int init_shown_usr, init_shown_cache, init_directories; /* owned: for direct names, in the empty root, or -1 */

/* interfaces.c: brings up lo, and adds eth0 to a private network. */
void init_raise_interfaces(void);
extern int init_far_network; /* owned: the network namespace of eth0's other end, or -1 */

/* guest.c */
_Noreturn void init_become_guest(void);
#endif
