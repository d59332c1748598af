/* native/init: checking and reading what husk wrote: the plan, and the texts of a start. No system call, no state. */
#include "plan.h"

#include <linux/filter.h>
#include <stdlib.h>
#include <string.h>

static bool within(size_t size, uint32_t offset, uint64_t bytes)
{
    return offset <= size && bytes <= size - offset;
}

bool init_plan_is_sound(const struct init_plan *plan, size_t size)
{
    return size >= sizeof *plan && plan->magic == PLAN_MAGIC &&
           plan->limit_count <= sizeof plan->limits / sizeof *plan->limits &&
           within(size, plan->filter_offset, plan->filter_count * (uint64_t)sizeof(struct sock_filter)) &&
           plan->filter_offset % _Alignof(struct sock_filter) == 0 && plan->program_offset < size &&
           memchr((const char *)plan + plan->program_offset, 0, size - plan->program_offset) &&
           within(size, plan->argv_offset, plan->argv_count) && within(size, plan->envp_offset, plan->envp_count);
}

char **init_split_strings(const char **text, const char *end, uint32_t count)
{
    if (count > (size_t)(end - *text)) /* each takes at least one byte */
        return NULL;
    char **list = calloc(count + (size_t)1, sizeof *list);
    for (uint32_t i = 0; list && i < count; i++) {
        const char *nul = memchr(*text, 0, (size_t)(end - *text));
        if (!nul) {
            free(list);
            return NULL;
        }
        list[i] = (char *)*text;
        *text = nul + 1;
    }
    return list;
}
