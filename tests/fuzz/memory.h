/* The fuzzer's random numbers and its memory: every kind of address a system call can be given.
 * A case is replayed by its seed, so nothing here may depend on time or on an address the host chose: all places fixed.
 */
#ifndef FUZZ_MEMORY_H
#define FUZZ_MEMORY_H

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096UL
#define HEAP 0x10000000UL   /* readable and writable, one for each thread */
#define HEAP_PAGES 16UL
#define THREADS 2
#define EDGE 0x18000000UL   /* two pages, then nothing: an over-read by one byte faults */
#define FLIP 0x1a000000UL   /* shared; the flipping thread changes it all the while */
#define FIXED 0x1c000000UL  /* read-only */
#define VICTIM 0x20000000UL /* the memory calls may unmap and protect it */
#define VICTIM_PAGES 64UL
#define RESIDENT 0x567f00000000UL /* what husk's loader leaves behind in every program */

typedef struct {
    uint64_t state;
    int thread;
    int polite; /* this call gets sensible arguments, as far as possible */
    unsigned tree; /* where its names lie */
} Random;

/* xorshift64*: small, and the same everywhere. */
static uint64_t next(Random *r) {
    r->state ^= r->state >> 12;
    r->state ^= r->state << 25;
    r->state ^= r->state >> 27;
    return r->state * 2685821657736338717ULL;
}

static uint64_t below(Random *r, uint64_t bound) {
    return next(r) % bound;
}

static int one_in(Random *r, unsigned n) {
    return below(r, n) == 0;
}

/* Something that no sane program does: only in every second call, or no call would succeed and reach deep code. */
static int absurd(Random *r, unsigned n) {
    return !r->polite && one_in(r, n);
}

static uint64_t odd_number(Random *r) {
    static const uint64_t ODD[] = {
        0, 1, 2, 3, 7, 8, 16, 63, 64, 127, 128, 255, 256, 511, 4095, 4096, 4097, 65535, 65536, 1 << 20, 0x7fffffff,
        0x80000000, 0xffffffff, 0x100000000, 0x7fffffffffffffff, 0x8000000000000000, -1UL, -2UL, -100UL, -4096UL,
    };
    switch (below(r, 4)) {
    case 0: return below(r, 16);
    case 1: return 1UL << below(r, 64);
    case 2: return next(r) >> below(r, 64);
    default: return ODD[below(r, sizeof ODD / sizeof *ODD)];
    }
}

static char *heap_of(Random *r) {
    return (char *)(HEAP + r->thread * HEAP_PAGES * PAGE);
}

/* Room for `size` bytes that the thread may write: in its heap, or right before an unmapped page. */
static char *room(Random *r, size_t size) {
    if (size > 2 * PAGE)
        size = 2 * PAGE;
    if (one_in(r, 4))
        return (char *)(EDGE + 2 * PAGE - size);
    return heap_of(r) + below(r, HEAP_PAGES * PAGE - size);
}

/* An address that is wrong in some way, or right by chance. */
static uint64_t bad_address(Random *r) {
    switch (one_in(r, 40) ? 7 : below(r, 7)) { /* rarely: without its thunks a worker dies of the next signal */
    case 0: return 0;
    case 1: return 1 + below(r, PAGE);
    case 2: return EDGE + 2 * PAGE;                   /* unmapped */
    case 3: return EDGE + 2 * PAGE - below(r, 16);    /* runs out */
    case 4: return FIXED + below(r, PAGE);            /* read-only */
    case 5: return 0xffff800000000000 + below(r, 1 << 20);
    case 6: return -1UL - below(r, PAGE);
    default: return RESIDENT + below(r, 6 * PAGE);
    }
}

static void map_memory(void) {
    const int fixed = MAP_ANONYMOUS | MAP_FIXED, both = PROT_READ | PROT_WRITE;
    mmap((void *)HEAP, THREADS * HEAP_PAGES * PAGE, both, MAP_PRIVATE | fixed, -1, 0);
    mmap((void *)EDGE, 2 * PAGE, both, MAP_PRIVATE | fixed, -1, 0);
    munmap((void *)(EDGE + 2 * PAGE), PAGE);
    mmap((void *)FLIP, 2 * PAGE, both, MAP_SHARED | fixed, -1, 0);
    mmap((void *)FIXED, 2 * PAGE, both, MAP_PRIVATE | fixed, -1, 0);
    strcpy((char *)FIXED, "/tmp/fixed");
    mprotect((void *)FIXED, 2 * PAGE, PROT_READ);
    mmap((void *)VICTIM, VICTIM_PAGES * PAGE, both, MAP_PRIVATE | fixed, -1, 0);
}

#endif
