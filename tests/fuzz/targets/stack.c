/* The loader's stack part: a first stack as the kernel makes it, with any strings, and a script's prefix to insert. Checks
 * room and order: afterwards the arguments are the prefix and then all old arguments but the first. */
#include "input.h"

#include <elf.h>
#include <setjmp.h>
#include <sys/syscall.h>

#define HUSK_LOADER_SYSCALL_H
#define PAGE 4096ul
#define PAGE_DOWN(x) ((x) & ~(PAGE - 1))
#define PAGE_UP(x) PAGE_DOWN((x) + PAGE - 1)
#define PAGE_OFFSET(x) ((x) & (PAGE - 1))

static jmp_buf dead;

static _Noreturn void die(void)
{
    longjmp(dead, 1);
}

static int failed(long result)
{
    return result < 0;
}

static long sys_mprotect(uint64_t address, uint64_t size, int prot)
{
    (void)prot;
    MUST(PAGE_OFFSET(address) == 0 && PAGE_OFFSET(size) == 0);
    return 0;
}

#include "../../../src/husk/native/loader/stack.c"

enum { MOST = 12, ROOM = 16384 };
static char *at; /* the lowest string so far */

static char *push(const char *text, size_t size)
{
    at -= size + 1;
    memcpy(at, text, size);
    at[size] = 0;
    return at;
}

/* One string of the input: up to a NUL, or to its end. */
static size_t eat_string(char *to, size_t room)
{
    size_t size = 0;
    while (input_size && size < room) {
        char c = (char)eat_byte();
        if (!c)
            break;
        to[size++] = c;
    }
    return size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input = data, input_size = size;
    unsigned argc = eat_byte() % MOST, envc = eat_byte() % MOST, prefix_count = 1 + eat_byte() % 8, aux = eat_byte();
    char text[600], prefix[8 * 601], *base = malloc(2 * ROOM), *argv[MOST], *envp[MOST];
    size_t prefix_bytes = 0;
    at = base + 2 * ROOM - 8;
    memset(base, 0, 2 * ROOM);
    char *execfn = aux & 8 ? push(text, eat_string(text, 500)) : push("/dev/fd/7", 9);
    for (unsigned i = envc; i-- > 0;)
        envp[i] = push(text, eat_string(text, 300));
    for (unsigned i = argc; i-- > 0;)
        argv[i] = push(text, eat_string(text, 300));
    for (unsigned i = 0; i < prefix_count; i++) {
        size_t length = eat_string(prefix + prefix_bytes, 600);
        prefix[prefix_bytes + length] = 0;
        prefix_bytes += length + 1;
    }
    char *platform = push("x86_64", 6), *random = push("0123456789abcdef", 16);
    uint64_t *sp = (uint64_t *)((uint64_t)at & ~15ul) - 40, *to = sp;
    *to++ = argc;
    for (unsigned i = 0; i < argc; i++)
        *to++ = (uint64_t)argv[i];
    *to++ = 0;
    for (unsigned i = 0; i < envc; i++)
        *to++ = (uint64_t)envp[i];
    *to++ = 0;
    Elf64_auxv_t auxv[] = {{AT_EXECFN, {(uint64_t)execfn}}, {AT_RANDOM, {(uint64_t)random}}, {AT_PLATFORM, {(uint64_t)platform}},
                           {AT_PHDR, {1}}, {AT_NULL, {0}}};
    for (unsigned i = 0; i < 5; i++)
        if (i == 0 || i == 4 || !(aux >> i & 1))
            *to++ = auxv[i].a_type, *to++ = auxv[i].a_un.a_val;
    char *kept[MOST]; /* copies: the strings themselves must not have moved or changed */
    for (unsigned i = 0; i < argc; i++)
        kept[i] = strdup(argv[i]);
    struct loader_stack stack;
    if (setjmp(dead) == 0) {
        loader_stack_read(&stack, sp);
        int by = loader_stack_started_by(&stack);
        MUST(by < 0 ? by == husk_name_key(execfn) : by <= 999999999);
        loader_stack_rebuild(&stack, prefix, prefix_count, prefix_bytes);
        unsigned rest = argc ? argc - 1 : 0;
        MUST(stack.argc == prefix_count + rest && ((uint64_t)stack.sp & 15) == 0);
        const char *word = prefix;
        for (unsigned i = 0; i < prefix_count; word += strlen(word) + 1, i++)
            MUST(strcmp(stack.argv[i], word) == 0);
        for (unsigned i = 0; i < rest; i++)
            MUST(strcmp(stack.argv[prefix_count + i], kept[1 + i]) == 0);
        for (unsigned i = 0; i < envc; i++)
            MUST(stack.envp[i] == envp[i]);
        Elf64_auxv_t *found = find_aux(&stack, AT_RANDOM);
        MUST(!found || memcmp((void *)found->a_un.a_val, "0123456789abcdef", 16) == 0);
        found = find_aux(&stack, AT_PLATFORM);
        MUST(!found || strcmp((char *)found->a_un.a_val, "x86_64") == 0);
        struct loader_image program = {.phdr = 2, .phnum = 3, .entry = 4};
        loader_stack_patch_auxv(&stack, &program, 5, execfn);
        loader_stack_make_executable(&stack);
    }
    for (unsigned i = 0; i < argc; i++)
        free(kept[i]);
    free(base);
    return 0;
}
