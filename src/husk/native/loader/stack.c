/*
 * The guest's first stack. The kernel made one for the loader, and most of it
 * is right for the guest. For scripts it is rebuilt in place.
 *
 * From high to low the kernel leaves: 8 zero bytes, execfn, environment
 * strings, argument strings, platform and random bytes; then, upward from sp:
 * argc, argv[], 0, envp[], 0, auxv[].
 */
#include <sys/mman.h>

#include "loader.h"

static uint64_t string_end(const char *s)
{
    return (uint64_t)s + strlen(s) + 1;
}

static Elf64_auxv_t *find_aux(const struct loader_stack *stack, uint64_t type)
{
    for (Elf64_auxv_t *a = stack->auxv; a->a_type != AT_NULL; a++)
        if (a->a_type == type)
            return a;
    return NULL;
}

static void set_aux(struct loader_stack *stack, uint64_t type, uint64_t value)
{
    Elf64_auxv_t *a = find_aux(stack, type);

    if (a)
        a->a_un.a_val = value;
}

void loader_stack_read(struct loader_stack *stack, uint64_t *sp)
{
    char **env;
    Elf64_auxv_t *aux, *execfn;

    stack->sp = sp;
    stack->argc = sp[0];
    stack->argv = (char **)(sp + 1);
    stack->envp = env = stack->argv + stack->argc + 1;
    while (*env)
        env++;
    stack->auxv = aux = (Elf64_auxv_t *)(env + 1);
    while (aux->a_type != AT_NULL)
        aux++;
    stack->auxv_bytes = (uint64_t)(aux + 1) - (uint64_t)stack->auxv;

    execfn = find_aux(stack, AT_EXECFN);
    if (!execfn)
        die();
    /* The name that execve was given is the highest string. One zero word is above it. */
    stack->top = PAGE_UP(string_end((char *)execfn->a_un.a_val) + 8);
    stack->env_end = env > stack->envp ? string_end(env[-1]) : execfn->a_un.a_val;
    stack->env_start = env > stack->envp ? (uint64_t)stack->envp[0] : stack->env_end;
    stack->arg_start = stack->argc > 0 ? (uint64_t)stack->argv[0] : stack->env_start;
    stack->arg_end = stack->argc > 0 ? string_end(stack->argv[stack->argc - 1]) : stack->arg_start;
}

const char *loader_stack_execfn(const struct loader_stack *stack)
{
    return (const char *)find_aux(stack, AT_EXECFN)->a_un.a_val;
}

/* After execveat(fd, "", AT_EMPTY_PATH) that name is "/dev/fd/N", and N tells; else the name itself does. */
int loader_stack_started_by(const struct loader_stack *stack)
{
    static const char folder[] = "/dev/fd/";
    const char *given = loader_stack_execfn(stack), *name = given;
    int fd = 0;

    for (size_t i = 0; i < sizeof folder - 1; i++)
        if (*name++ != folder[i])
            return husk_name_key(given);
    if (!*name)
        return husk_name_key(given);
    for (; *name; name++) {
        if (*name < '0' || *name > '9' || fd > 99999999)
            return husk_name_key(given);
        fd = fd * 10 + *name - '0';
    }
    return fd;
}

/* Bytes that an auxv entry points to, saved while their memory is overwritten. */
struct saved {
    Elf64_auxv_t *slot;
    char bytes[64];
    uint64_t len;
};

static void save(struct saved *saved, const struct loader_stack *stack, uint64_t type, uint64_t len)
{
    saved->slot = find_aux(stack, type);
    if (!saved->slot)
        return;
    saved->len = len ? len : strlen((char *)saved->slot->a_un.a_val) + 1;
    if (saved->len > sizeof saved->bytes)
        die();
    memcpy(saved->bytes, (char *)saved->slot->a_un.a_val, saved->len);
}

static uint64_t put_below(const struct saved *saved, uint64_t at)
{
    if (saved->slot)
        memcpy((char *)(at - saved->len), saved->bytes, saved->len);
    return at - saved->len;
}

/*
 * Put the prefix strings in the place of argv[0], as Linux does for #!.
 *
 * They go right below argv[1]'s string. So all arguments stay contiguous, which
 * /proc/PID/cmdline and programs that overwrite their title rely on, and the
 * other arguments, which may be megabytes, are not copied. Everything below
 * argv[1]'s string is laid out again: random bytes and platform are saved first,
 * and the tables (argv[1..], envp, auxv: contiguous) are moved as one block.
 */
void loader_stack_rebuild(struct loader_stack *stack, const char *prefix, uint64_t prefix_count, uint64_t prefix_bytes)
{
    static struct saved random, platform, base_platform; /* static: zeroed, and our stack is small */
    uint64_t kept = stack->argc > 0 ? stack->argc - 1 : 0;
    uint64_t *tables = (uint64_t *)stack->argv + (stack->argc - kept);
    uint64_t tables_bytes = (uint64_t)stack->auxv + stack->auxv_bytes - (uint64_t)tables;
    uint64_t strings, at, *sp;

    strings = (kept > 0 ? (uint64_t)stack->argv[1] : stack->arg_end) - prefix_bytes;
    save(&random, stack, AT_RANDOM, 16);
    save(&platform, stack, AT_PLATFORM, 0);
    save(&base_platform, stack, AT_BASE_PLATFORM, 0);

    at = strings - platform.len - base_platform.len - random.len;
    sp = (uint64_t *)((at - tables_bytes - (1 + prefix_count) * 8) & ~15ul);
    memmove(sp + 1 + prefix_count, tables, tables_bytes);

    memcpy((char *)strings, prefix, prefix_bytes);
    at = put_below(&platform, strings);
    at = put_below(&base_platform, at);
    put_below(&random, at);

    sp[0] = prefix_count + kept;
    at = strings;
    for (uint64_t i = 1; i <= prefix_count; i++) {
        sp[i] = at;
        at = string_end((char *)at);
    }
    loader_stack_read(stack, sp);
    at = strings - platform.len;
    if (platform.slot)
        set_aux(stack, AT_PLATFORM, at);
    at -= base_platform.len;
    if (base_platform.slot)
        set_aux(stack, AT_BASE_PLATFORM, at);
    if (random.slot)
        set_aux(stack, AT_RANDOM, at - random.len);
}

void loader_stack_patch_auxv(struct loader_stack *stack, const struct loader_image *program, uint64_t interpreter_base,
                             const char *execfn)
{
    set_aux(stack, AT_PHDR, program->phdr);
    set_aux(stack, AT_PHENT, sizeof(Elf64_Phdr));
    set_aux(stack, AT_PHNUM, program->phnum);
    set_aux(stack, AT_BASE, interpreter_base);
    set_aux(stack, AT_FLAGS, 0);
    set_aux(stack, AT_ENTRY, program->entry);
    set_aux(stack, AT_EXECFN, (uint64_t)execfn);
}

void loader_stack_make_executable(const struct loader_stack *stack)
{
    uint64_t start = PAGE_DOWN((uint64_t)stack->sp);

    /* PROT_GROWSDOWN: from the mapping's lowest page on, and also for pages it grows by later. */
    if (failed(sys_mprotect(start, stack->top - start, PROT_READ | PROT_WRITE | PROT_EXEC | PROT_GROWSDOWN)))
        die();
}
