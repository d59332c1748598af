/*
 * The protocol between loader and supervisor: one private system call, one
 * answer. Shared with the C core and the tests; holds only constants,
 * fixed-width layouts, and the one function that both sides compute.
 *
 * Life of one answer:
 *   1. the host kernel starts husk-loader in place of the guest's program;
 *   2. the loader calls HUSK_CALL(HUSK_EXEC_INFO, buf, HUSK_EXEC_INFO_MAX, fd)
 *      where fd is the descriptor it was started by (from AT_EXECFN), or the key of
 *      the name it was started by: it tells which thread's execve this was, if
 *      several threads of a process were in one;
 *   3. the supervisor injects the descriptors into the loader's table, writes
 *      struct husk_exec_info and its strings into buf, and answers with the
 *      program's descriptor, or, if it has set program_fd itself, with any
 *      value >= 0 (a negative errno: the loader gives up and exits with 127);
 *   4. the loader maps, closes both descriptors and jumps.
 *
 * It asks twice only if its table had room for one descriptor: then
 * interpreter_fd is HUSK_ASK_LATER, and once the program is mapped and closed it
 * calls HUSK_CALL(HUSK_EXEC_INTERPRETER, 0, 0, fd), answered with a descriptor.
 *
 * The loader is past execve's point of no return. So the supervisor must find
 * every error that Linux reports to execve's caller (ENOEXEC, ELIBBAD, EACCES,
 * ...) before. Later errors end the process with SIGSEGV, as on Linux.
 */
#ifndef HUSK_LOADER_PROTOCOL_H
#define HUSK_LOADER_PROTOCOL_H

#include "call_table.h" /* HUSK_CALL, a system call number that Linux does not use */

#define HUSK_EXEC_INFO 1     /* op, first argument; then buf, size of buf, fd */
#define HUSK_EXEC_INTERPRETER 2
/*
 * Asked by signal thunks, under trace only: number and first four arguments of
 * the interrupted call. 1: it had begun; 0: the supervisor never received it.
 */
#define HUSK_WAS_BEGUN 3
#define HUSK_ASKS_BIT 511    /* set in eintr_bitmap where thunks are to ask; no call has this number */

#define HUSK_EXEC_MAGIC 0x6b737568u /* "husk" */
#define HUSK_EXEC_VERSION 1u

/*
 * Size of the loader's buffer. #! chains nest four deep and each level adds an
 * interpreter and one argument out of a 256-byte line, plus the script's own
 * name (4096), execfn (4096) and exe (4096): this leaves ample room.
 */
#define HUSK_EXEC_INFO_MAX 24576

#define HUSK_NONE (-1)       /* husk_exec_info.interpreter_fd: there is none */
#define HUSK_ASK_LATER (-2)  /* there is one, and no room for it yet */

/* husk_exec_info.flags */
#define HUSK_HEADER_GIVEN 1u  /* take the ELF header from ehdr, not from the file */
#define HUSK_NO_RANDOMIZE 2u  /* fixed addresses, as personality ADDR_NO_RANDOMIZE */
#define HUSK_DIRECT_NAMES 4u  /* the program may look up names of the host's /usr itself */

#define HUSK_COMM_BYTES 16
#define HUSK_EHDR_BYTES 64
#define HUSK_EINTR_BYTES 64   /* one bit for each system call 0..511 */

#ifndef __ASSEMBLER__
#include <stddef.h>
#include <stdint.h>

/* A number below 0 for a name, so that it is no descriptor. Two names may have one key: see native/remote. */
static inline int32_t husk_name_key(const char *name)
{
    uint32_t hash = 2166136261u;

    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return (int32_t)(hash | 0x80000000u);
}

/* Little-endian, no padding anywhere: "<IIiiIIIIII16s64s2Q64s" for Python. */
struct husk_exec_info {
    uint32_t magic;            /* HUSK_EXEC_MAGIC */
    uint32_t version;          /* HUSK_EXEC_VERSION */
    int32_t program_fd;        /* open for reading; the loader closes it; -1: it is the answer */
    int32_t interpreter_fd;    /* likewise, PT_INTERP's file; or HUSK_NONE, HUSK_ASK_LATER */
    uint32_t flags;            /* HUSK_HEADER_GIVEN, ... */
    uint32_t prefix_count;     /* 0: argv stays; n: these strings replace argv[0] */
    uint32_t prefix_bytes;     /* all prefix strings together, each with its NUL */
    uint32_t execfn_bytes;     /* AT_EXECFN's string with its NUL */
    uint32_t exe_bytes;        /* what /proc/self/exe reads, with a NUL */
    uint32_t reserved;         /* 0 */
    char comm[HUSK_COMM_BYTES];           /* NUL-terminated; for PR_SET_NAME */
    uint8_t ehdr[HUSK_EHDR_BYTES];        /* Elf64_Ehdr, with HUSK_HEADER_GIVEN */
    uint64_t identity[2];                 /* opaque, copied to the resident page */
    uint8_t eintr_bitmap[HUSK_EINTR_BYTES]; /* bit n: Linux may end call n with EINTR; or HUSK_ASKS_BIT */
    char strings[];            /* prefix strings, execfn, exe, in that order */
};

_Static_assert(offsetof(struct husk_exec_info, comm) == 40, "layout is fixed");
_Static_assert(offsetof(struct husk_exec_info, ehdr) == 56, "layout is fixed");
_Static_assert(offsetof(struct husk_exec_info, identity) == 120, "layout is fixed");
_Static_assert(offsetof(struct husk_exec_info, eintr_bitmap) == 136, "layout is fixed");
_Static_assert(offsetof(struct husk_exec_info, strings) == 200, "layout is fixed");
_Static_assert(sizeof(struct husk_exec_info) == 200, "no tail padding");
#endif /* __ASSEMBLER__ */

#endif
