/* What husk-init reads: the plan, and the message that starts a box kept ready. Both come from husk, which is trusted.
 * Still nothing in them may make husk-init read outside of them. */
#include "input.h"

#include <errno.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static uint8_t *text;
static size_t text_size;

static ssize_t give_message(int fd, struct msghdr *header, int flags)
{
    (void)fd, (void)flags;
    size_t size = eat_byte() & 1 ? header->msg_iov->iov_len : eat_byte() % (header->msg_iov->iov_len + 1);
    eat(header->msg_iov->iov_base, size);
    size_t control = eat_byte() & 1 ? header->msg_controllen : eat_byte() % (header->msg_controllen + 1);
    eat(header->msg_control, control);
    header->msg_controllen = control;
    return (ssize_t)size;
}

static void *give_text(void *at, size_t size, int prot, int flags, int fd, off_t offset)
{
    (void)at, (void)prot, (void)flags, (void)fd, (void)offset;
    free(text);
    text = NULL;
    if (size == 0 || size > 65536)
        return MAP_FAILED;
    text = malloc(size); /* so that reading behind it is detected */
    eat(text, size);
    return text;
}

static jmp_buf over;

static _Noreturn void leave(int status)
{
    (void)status;
    longjmp(over, 1);
}

#define recvmsg give_message
#define mmap give_text
#define fchdir(fd) (0)
#define dup2(from, to) (0)
#define _exit leave
#include "../../../src/husk/native/init/plan.c"
#include "../../../src/husk/native/init/guest.c"
#undef mmap

const struct init_plan *init_plan;
size_t init_plan_size;
int init_root_loader = -1, init_shown_usr = -1, init_shown_cache = -1, init_directories = -1;
int init_mqueues = -1;

_Noreturn void init_give_up(int step)
{
    MUST(step == STEP_PLAN || step == STEP_START);
    longjmp(over, 1);
}

void init_report(uint32_t kind, int32_t a, int32_t b)
{
    (void)kind, (void)a, (void)b;
}

void init_send_fd(uint32_t kind, int fd, int step)
{
    (void)kind, (void)fd, (void)step;
}

static volatile size_t seen;

static void look_at(const char *program, char **argv, char **envp)
{
    seen = strlen(program);
    for (; *argv; argv++)
        seen += strlen(*argv);
    for (; *envp; envp++)
        seen += strlen(*envp);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char **argv, **envp; /* memory allocated before give_up is not freed, as in husk-init */
    input = data, input_size = size;
    uint8_t how = eat_byte();
    argv = envp = NULL;
    if (how & 1) {
        if (setjmp(over) == 0) {
            wait_for_start();
            const char *program = told(&argv, &envp);
            look_at(program, argv, envp);
        }
    } else {
        init_plan_size = input_size;
        struct init_plan *copy = malloc(init_plan_size ? init_plan_size : 1);
        eat(copy, init_plan_size);
        if (how & 2 && init_plan_size >= sizeof *copy) {
            copy->magic = PLAN_MAGIC, copy->limit_count %= 18;
            copy->argv_offset = copy->program_offset = sizeof *copy, copy->envp_offset %= init_plan_size;
            copy->filter_offset = sizeof *copy, copy->filter_count %= 64, copy->argv_count %= 64, copy->envp_count %= 64;
        }
        init_plan = copy;
        if (setjmp(over) == 0 && init_plan_is_sound(init_plan, init_plan_size)) {
            const struct sock_filter *filter = (const void *)((const char *)init_plan + init_plan->filter_offset);
            for (uint32_t i = 0; i < init_plan->filter_count; i++)
                seen += filter[i].k;
            for (uint32_t i = 0; i < init_plan->limit_count; i++)
                seen += init_plan->limits[i].hard;
            const char *program = planned(&argv, &envp);
            look_at(program, argv, envp);
        }
        free(copy);
    }
    free(argv), free(envp);
    return 0;
}
