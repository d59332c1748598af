/*
 * The resident region: what stays of husk in a guest process after the loader.
 * Layout only; shared by the loader (C and assembly), the C core and the tests.
 *
 *   HUSK_RESIDENT - 0x3000  r-x  direct names: code, 3 pages
 *   HUSK_RESIDENT + 0x0000  r-x  128 signal thunks, 16 bytes each; thunk tail;
 *                                the stub that leaves the loader; rt_sigaction
 *   HUSK_RESIDENT + 0x1000  rw-  struct husk_resident, 4 pages
 *   HUSK_RESIDENT + 0x5000  rw-  direct names: struct husk_names, 2 pages
 *
 * It belongs to the guest: a guest may unmap it, or write anything to it.
 * The supervisor reads it as a hint, and must cope with any content.
 * fork copies it, vfork and threads share it, execve replaces it.
 */
#ifndef HUSK_LOADER_RESIDENT_H
#define HUSK_LOADER_RESIDENT_H

#define HUSK_RESIDENT 0x567f00000000
#define HUSK_RESIDENT_CODE_BYTES 0x1000
#define HUSK_RESIDENT_DATA_BYTES 0x4000
#define HUSK_RESIDENT_BYTES (HUSK_RESIDENT_CODE_BYTES + HUSK_RESIDENT_DATA_BYTES)
#define HUSK_NAMES_BYTES 0x3000
#define HUSK_NAMES (HUSK_RESIDENT - HUSK_NAMES_BYTES)
#define HUSK_NAMES_DATA (HUSK_RESIDENT + HUSK_RESIDENT_BYTES)
#define HUSK_NAMES_DATA_BYTES 0x2000
#define HUSK_RESIDENT_DATA (HUSK_RESIDENT + HUSK_RESIDENT_CODE_BYTES)

/* Headers of messages: pages that only husk writes to (native/remote/sealed_send.c). The loader has no part in it. */
#define HUSK_MESSAGES (HUSK_RESIDENT + 0x8000000)

/* The table of directories (directories.h), in programs that look names up themselves. */
#define HUSK_DIRECTORIES (HUSK_RESIDENT + 0x4000000)

#define HUSK_RESIDENT_MAGIC 0x7365726bu /* "kres" */
#define HUSK_RESIDENT_VERSION 1u

/*
 * Signal thunks. To install guest handler H without SA_RESTART, the supervisor
 * stores H in slot_handler[i], then installs HUSK_THUNK(i) with SA_RESTART.
 * Every slot works for every signal. There are 128 slots for 64 signals, so that
 * a new handler can have a new slot while the old one may still be entered.
 */
#define HUSK_THUNKS 128
#define HUSK_THUNK_STRIDE 16
#define HUSK_THUNK(i) (HUSK_RESIDENT + (i) * HUSK_THUNK_STRIDE)

/* The code of the loader's last jump, after the thunks and their tail. */
#define HUSK_RESIDENT_LEAVE 0x900

/*
 * rt_sigaction of the C library, where a gate leads its call here (docs/design/002-signals.md): the code, and its
 * `syscall` instruction, by whose address the filter knows a call that husk need not see.
 */
#define HUSK_RESIDENT_SIGACTION 0xa00
#define HUSK_RESIDENT_SIGACTION_CALL 0xa80

/*
 * Direct names (docs/design/026-direct-names.md): a call with up to four arguments, as a C function; and behind its
 * `syscall` instruction, by whose address the filter knows it.
 */
#define HUSK_RESIDENT_DIRECT 0xb00
#define HUSK_RESIDENT_DIRECT_CALL 0xb80

/* Supervisor's scratch memory, for pointer arguments of remote calls. */
#define HUSK_SCRATCH_SLOTS 64
#define HUSK_SCRATCH_BYTES 64

/* Offsets from HUSK_RESIDENT_DATA, for assembly and for Python. */
#define HUSK_RES_IDENTITY 0x008
#define HUSK_RES_THUNKED 0x018
#define HUSK_RES_ENTRY 0x020
#define HUSK_RES_EXE_LEN 0x028
#define HUSK_RES_SIGACTION 0x030
#define HUSK_RES_EINTR 0x040
#define HUSK_RES_SLOTS 0x100
#define HUSK_RES_EXE 0x500
#define HUSK_RES_STRINGS_BYTES 0x2300
#define HUSK_RES_SCRATCH 0x2800

#ifndef __ASSEMBLER__
#include <stddef.h>
#include <stdint.h>

struct husk_resident {
    uint32_t magic;              /* HUSK_RESIDENT_MAGIC; written last by the loader */
    uint32_t version;            /* HUSK_RESIDENT_VERSION */
    uint64_t identity[2];        /* husk_exec_info.identity, as given */
    uint64_t thunked_mask;       /* bit sig-1: handler of sig is a thunk; supervisor writes */
    uint64_t entry;              /* where the loader jumped to */
    uint32_t exe_len;            /* bytes of exe, without its NUL */
    uint32_t execfn_offset;      /* of AT_EXECFN's string, from the start of exe */
    uint64_t sigaction_back;     /* behind the one call site that leads to HUSK_RESIDENT_SIGACTION; 0: none does */
    uint64_t names_entry;        /* where call sites may be led for direct names; 0: the program has none */
    uint8_t eintr_bitmap[64];    /* bit n of byte n/8: call n may end with EINTR */
    uint64_t padding[16];
    uint64_t slot_handler[HUSK_THUNKS];
    /* exe, and execfn right behind it: packed, so that one page usually holds both. */
    char exe[HUSK_RES_STRINGS_BYTES];
    uint8_t scratch[HUSK_SCRATCH_SLOTS][HUSK_SCRATCH_BYTES];
};

/*
 * What direct names remember. The stubs are code near the C library, and behind that page their data: a call site that
 * leads here jumps to one. The last ones begin with HUSK_BETWEEN. The supervisor may write to the data, too.
 */
#define HUSK_STUB_COUNT 64
#define HUSK_STUB_PLAIN 48
#define HUSK_STUB_CODE_BYTES 32
#define HUSK_STUB_DATA_BYTES 64
struct husk_names {
    uint64_t stubs;              /* their address; 0: there are none */
    uint32_t stubs_used[2];      /* plain ones, and the others */
    uint32_t leads;              /* the sites of libraries lead here, too, not only the dynamic loader's */
    uint32_t reserved[3];
    /* Files that the program opened by a direct name, so that fstat on them needs no supervisor. */
    struct husk_opened {
        uint64_t ino, changed_s, changed_ns, changes;
    } opened[255];
};
_Static_assert(sizeof(struct husk_names) <= HUSK_NAMES_DATA_BYTES, "layout");

_Static_assert(offsetof(struct husk_resident, identity) == HUSK_RES_IDENTITY, "layout");
_Static_assert(offsetof(struct husk_resident, thunked_mask) == HUSK_RES_THUNKED, "layout");
_Static_assert(offsetof(struct husk_resident, entry) == HUSK_RES_ENTRY, "layout");
_Static_assert(offsetof(struct husk_resident, exe_len) == HUSK_RES_EXE_LEN, "layout");
_Static_assert(offsetof(struct husk_resident, sigaction_back) == HUSK_RES_SIGACTION, "layout");
_Static_assert(offsetof(struct husk_resident, eintr_bitmap) == HUSK_RES_EINTR, "layout");
_Static_assert(offsetof(struct husk_resident, slot_handler) == HUSK_RES_SLOTS, "layout");
_Static_assert(offsetof(struct husk_resident, exe) == HUSK_RES_EXE, "layout");
_Static_assert(offsetof(struct husk_resident, scratch) == HUSK_RES_SCRATCH, "layout");
_Static_assert(sizeof(struct husk_resident) <= HUSK_RESIDENT_DATA_BYTES, "layout");
#endif /* __ASSEMBLER__ */

#endif
