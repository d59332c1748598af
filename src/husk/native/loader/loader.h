/*
 * The loader's parts, from top to bottom: main.c asks husk and runs the steps,
 * resident.S stays behind, stack.c makes the guest's first stack, elf.c maps
 * files. Calls go only downward in that list; syscall.h and string.c are below
 * all of them. No pointer is owned: everything is static or on the stack.
 */
#ifndef HUSK_LOADER_LOADER_H
#define HUSK_LOADER_LOADER_H

#include <elf.h>

#include "protocol.h"
#include "resident.h"
#include "syscall.h"

#define TASK_SIZE 0x7ffffffff000ul
#define ELF_ET_DYN_BASE 0x555555554000ul /* two thirds of TASK_SIZE, as Linux has it */

/* Where an ET_DYN image is mapped. ET_EXEC names its own address. */
enum loader_placement {
    PLACE_PROGRAM,   /* ELF_ET_DYN_BASE plus randomness */
    PLACE_ANYWHERE,  /* where mmap puts it: interpreters, static PIE */
};

/* One mapped ELF file. Addresses are final (bias added). */
struct loader_image {
    uint64_t bias;
    uint64_t entry;
    uint64_t phdr;       /* 0: the headers are in no segment */
    uint64_t phnum;
    uint64_t start_code, end_code, start_data, end_data;
    uint64_t end;        /* end of the highest bss */
    uint64_t code, code_size, code_offset; /* the last segment of unwritable code; its place in the file */
    int type;            /* ET_EXEC or ET_DYN */
    int exec_stack;
};

/* The initial stack, as the kernel or stack_rebuild() left it. */
struct loader_stack {
    uint64_t *sp;        /* argc; what the guest's rsp will be */
    uint64_t argc;
    char **argv;
    char **envp;
    Elf64_auxv_t *auxv;
    uint64_t auxv_bytes; /* AT_NULL included */
    uint64_t arg_start, arg_end, env_start, env_end;
    uint64_t top;        /* end of the stack's mapping */
};

/* main.c: called by start.S with the stack pointer the kernel gave us. */
_Noreturn void loader_main(uint64_t *sp);

/* elf.c: map fd, which stays the caller's. header overrides the file's own if not null. Dies on failure. */
void loader_image_load(struct loader_image *image, int fd, const Elf64_Ehdr *header, enum loader_placement placement,
                       int randomize);
/* A random multiple of the page size, below pages * PAGE. pages: a power of two. */
uint64_t loader_random_pages(uint64_t pages);

/* stack.c */
void loader_stack_read(struct loader_stack *stack, uint64_t *sp);
/* The name that execve was given. */
const char *loader_stack_execfn(const struct loader_stack *stack);
/* What the host started us by: the descriptor, or the key of the name (below 0). */
int loader_stack_started_by(const struct loader_stack *stack);
void loader_stack_rebuild(struct loader_stack *stack, const char *prefix, uint64_t prefix_count, uint64_t prefix_bytes);
void loader_stack_patch_auxv(struct loader_stack *stack, const struct loader_image *program, uint64_t interpreter_base,
                             const char *execfn);
void loader_stack_make_executable(const struct loader_stack *stack);

/* resident.S: position-independent code to be copied to HUSK_RESIDENT. */
extern const char loader_resident_code[], loader_resident_code_end[];

/* names_entry.S, names.c: to be copied to HUSK_NAMES. The linker knows where a section begins and ends. */
extern const char loader_names_begin[] __asm__("__start_husk_names") __attribute__((visibility("hidden")));
extern const char loader_names_end[] __asm__("__stop_husk_names") __attribute__((visibility("hidden")));
extern const char loader_names_entry[];
/* Called by the loader where it lies, and by its copy in the guest. */
struct husk_program;
struct husk_exact;
const struct husk_program *loader_names_program(const char *name, size_t size, uint64_t hash, uint32_t *turn);
int loader_names_is_still(const struct husk_program *program, uint32_t turn);
int loader_names_open(const char *path, const struct husk_exact *exact);
void loader_names_make_stubs(uint64_t entry);
void loader_names_lead(uint64_t start, uint64_t size, int fd, uint64_t offset);

#endif
