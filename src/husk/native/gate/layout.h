/*
 * The gate: pages that husk maps into a guest process, so that its C library can ask husk without a system call.
 * Layout only; shared by the guest's code (entry.S), the C core and the tests. docs/design/025-gate.md says why.
 *
 *   page 0      r-x  the code
 *   page 1      r-x  a stub for each call site that leads here
 *   page 2      rw-  the gate is open, and which channel it has. Wiped by fork, so that a child does not use its
 *                    parent's gate
 *   page 3, 4   rw-  what the code has to remember, a part for each slot. Private: fork copies it
 *   page 5      rw-  one word: husk polls. Shared with husk
 *   page 6-9    rw-  the slots. Shared with husk
 *   page 10-17  rw-  a listing. Shared with husk
 *
 * All of it belongs to the guest, which may write anything anywhere at any time.
 */
#ifndef HUSK_GATE_LAYOUT_H
#define HUSK_GATE_LAYOUT_H

#define GATE_PAGE 0x1000
#define GATE_STUBS 0x1000
#define GATE_STUB_BYTES 64
#define GATE_MOST_STUBS 64
#define GATE_OPEN 0x2000       /* u32 */
#define GATE_CHANNEL_DEV 0x2008 /* u64: of the socket through which descriptors come … */
#define GATE_CHANNEL_INO 0x2010 /* … which the guest has at GATE_CHANNEL; 0: there is none */
#define GATE_SAVED 0x3000
#define GATE_SHARED 0x5000
#define GATE_AWAKE 0x5000
#define GATE_SLOTS 0x6000
#define GATE_LISTING_AT 0xa000 /* what getdents64 gives; one at a time */
#define GATE_LISTING_BYTES 0x8000
#define GATE_BYTES 0x12000

/* A number that programs do not come to by themselves. As in abi/numbers.py. */
#define GATE_CHANNEL 1024

#define GATE_SLOT_COUNT 16
#define GATE_SAVED_BYTES 512
#define GATE_SLOT_BYTES 1024
#define GATE_LONGEST_NAME 255
#define GATE_LARGEST_DATA 256

/* A stub: `lea data(%rip), %r11; jmp entry`, and its data from here on. */
#define GATE_DATA 16
#define GATE_DATA_BACK 0       /* u64: the address of the site's `syscall` instruction */
#define GATE_DATA_NR 8         /* u32 */
#define GATE_DATA_NAME 12      /* u8: which argument is the name; GATE_NO_NAME: it is about a descriptor */
#define GATE_DATA_OUT 13       /* u8: which argument is the buffer; or the flags, of a call that opens */
#define GATE_DATA_SIZE 14      /* u16: how many bytes the buffer gets; 0: there is none; or one of those below */

#define GATE_DATA_NEXT 16      /* u64: of a call with a direct name that is not answered there; 0: the site itself */
#define GATE_DATA_NAMES 24     /* u64: where direct names are answered */

#define GATE_DATA_MISSES 32    /* u32: in a stub of the loader's: calls in a row that were not answered there */

/* A result that no call has: a direct name was not answered. */
#define GATE_UNANSWERED 0x8000000000000000

#define GATE_ANY_SIZE 0xfffe   /* eight bytes or more: a symbolic link */
#define GATE_DESCRIPTOR 0xfffd /* the call opens: a descriptor comes through the channel */
#define GATE_LISTING 0xfffb    /* the records of a directory */
#define GATE_TIMES 0xfffa      /* none; the third argument has times */
#define GATE_MAKES 0xfff9      /* none; the call makes a directory, with its maker's umask */
#define GATE_LEAST_KIND GATE_MAKES /* of these; sizes are less */
#define GATE_NO_NAME 0xff
#define GATE_OPENS 02704400    /* flags of a call that opens for reading, as FAST_OPENS; … */
#define GATE_CREATES 03303     /* … and what calls with O_CREAT may have besides */

/* A request: 64-bit words, so that both sides can sum them up. */
#define GATE_REQUEST_NR 0
#define GATE_REQUEST_ARGS 8
#define GATE_REQUEST_TID 56    /* u32; 0: the directory is enough */
#define GATE_REQUEST_UMASK 60  /* u32: the umask and one; 0: it is not said */
#define GATE_REQUEST_DEV 64    /* of the directory that the name begins in, as the host says it to the guest … */
#define GATE_REQUEST_INO 72    /* … or 0 */
#define GATE_REQUEST_SIZE 80   /* of the name, without its NUL */
#define GATE_REQUEST_NAME 88   /* padded with NULs to whole words */
#define GATE_REQUEST_WORDS 11  /* before the name */
#define GATE_TIMES_BYTES 32    /* behind the name, if the call has times */
#define GATE_REQUEST_BYTES (GATE_REQUEST_NAME + GATE_LONGEST_NAME + 9 + GATE_TIMES_BYTES)

/* What the code remembers of a slot. */
#define GATE_SAVED_LOCK 0      /* u32 */
#define GATE_SAVED_TURN 4      /* u32: of the last request; a multiple of 4 */
#define GATE_SAVED_RBX 8
#define GATE_SAVED_R12 16
#define GATE_SAVED_DATA 24     /* the stub's */
#define GATE_SAVED_SUM 32
#define GATE_SAVED_VALUE 40
#define GATE_SAVED_REQUEST 48
#define GATE_SAVED_FD 440      /* u64: the descriptor, or AT_FDCWD, that was looked at last, … */
#define GATE_SAVED_DEV 448     /* … and which directory it was … */
#define GATE_SAVED_INO 456     /* … then. 0: none */
#define GATE_SAVED_GUESS 464   /* u32: the request takes it for that one */
#define GATE_SAVED_TRIED 468   /* u32: the buffer can be written */
#define GATE_SAVED_MASK 472    /* u64: of signals */

/*
 * A slot. Its state is the turn of the request and one of the three below. The guest writes it, and husk only where it
 * takes a request: what changes nothing is answered without, because each write of a word that the other side looks at
 * costs as much as a bare system call. The answer lies in cache lines of its own, behind a word that only husk writes.
 */
#define GATE_SLOT_STATE 0      /* u32, atomic */
#define GATE_SLOT_REQUEST 8
#define GATE_SLOT_ANSWERED 512 /* u32, atomic: the turn of the request that was answered last */
#define GATE_SLOT_VALUE 520
#define GATE_SLOT_SIZE 528     /* u64: of the data; GATE_DESCRIPTOR; GATE_LISTING; or one of the two below */
#define GATE_SLOT_SUM 536      /* of the request that husk answered */
#define GATE_SLOT_DATA 544     /* of a listing: where the directory was read from */

#define GATE_WITHDRAWN 0
#define GATE_POSTED 1
#define GATE_TAKEN 2           /* husk will answer, however long that takes */
#define GATE_STATES 3
#define GATE_DECLINED 0xffff   /* make the ordinary call */
#define GATE_WHO 0xfffc        /* ask again, and say which thread this is */

#define GATE_SUM_FACTOR 0x9e3779b97f4a7c15
#define GATE_SUM_SHIFT 29

/* The message that brings a descriptor: struct msghdr, where the name was. Its eight bytes are the request's sum. */
#define GATE_MESSAGE (GATE_SAVED_REQUEST + GATE_REQUEST_NAME)
#define GATE_MESSAGE_PARTS 16
#define GATE_MESSAGE_PART_COUNT 24
#define GATE_MESSAGE_CONTROL 32
#define GATE_MESSAGE_CONTROL_SIZE 40
#define GATE_MESSAGE_FLAGS 48
#define GATE_MESSAGE_PART 56     /* struct iovec */
#define GATE_MESSAGE_RIGHTS 72   /* struct cmsghdr: its length, level and type, and … */
#define GATE_MESSAGE_FD 88       /* … an int */
#define GATE_RIGHTS_BYTES 20     /* of both */
#define GATE_RIGHTS_ROOM 24
#define GATE_MESSAGE_SUM 96

/* How long the guest waits for husk to take a request: some ten microseconds of `pause`. */
#define GATE_SPINS 300

#endif
