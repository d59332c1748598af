/* The loader's ELF part with any file: it dies, or every page that it maps, unmaps or clears lies in the address space it
 * has reserved. The host's memory calls are replaced by a model. */
#include "input.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define HUSK_LOADER_SYSCALL_H /* instead of the real ones: */
#define PAGE 4096ul
#define PAGE_DOWN(x) ((x) & ~(PAGE - 1))
#define PAGE_UP(x) PAGE_DOWN((x) + PAGE - 1)
#define PAGE_OFFSET(x) ((x) & (PAGE - 1))
#define SPACE 0x7ffffffff000ul

static jmp_buf dead;
static uint64_t low, high; /* what was reserved */
static const uint8_t *file;
static size_t file_size;

static _Noreturn void die(void)
{
    longjmp(dead, 1);
}

static int failed(long result)
{
    return (unsigned long)result > -4096ul;
}

static long syscall3(long nr, long a, long b, long c)
{
    MUST(nr == SYS_getrandom && b == 16 && c == 0);
    uint64_t random[2] = {eat_word(), eat_word()};
    memcpy((void *)a, random, 16);
    return eat_byte() == 1 ? -38 : 16;
}

static void must_be_ours(uint64_t address, uint64_t size)
{
    MUST(address >= low && address <= high && size <= high - address);
}

static uint64_t sys_mmap(uint64_t address, uint64_t size, int prot, int flags, int fd, uint64_t offset)
{
    (void)prot;
    if (size == 0 || size > SPACE || PAGE_OFFSET(offset) || (fd >= 0 && offset + PAGE_UP(size) < offset))
        return (uint64_t)-22;
    size = PAGE_UP(size);
    if (flags & MAP_FIXED) {
        MUST(PAGE_OFFSET(address) == 0);
        must_be_ours(address, size);
        return address;
    }
    MUST(low == high); /* there is one reservation: of nothing, or of the file beyond its first segment */
    if (flags & MAP_FIXED_NOREPLACE) {
        if (PAGE_OFFSET(address) || address < 65536 || address > SPACE - size || eat_byte() == 1)
            return (uint64_t)-17;
    } else {
        MUST(address == 0);
        if (size > SPACE - 65536)
            return (uint64_t)-12;
        address = PAGE_DOWN(SPACE - size);
    }
    low = address, high = address + size;
    return address;
}

static long sys_munmap(uint64_t address, uint64_t size)
{
    MUST(PAGE_OFFSET(address) == 0 && size > 0);
    must_be_ours(address, size);
    return 0;
}

static long sys_pread(int fd, void *to, size_t size, uint64_t offset)
{
    MUST(fd == 3);
    if (offset >> 63)
        return -22;
    if (offset >= file_size)
        return 0;
    if (size > file_size - offset)
        size = file_size - offset;
    memcpy(to, file + offset, size);
    return (long)size;
}

static void clear(void *at, int value, uint64_t size)
{
    MUST(value == 0 && size < PAGE);
    must_be_ours((uint64_t)at, size);
}

#define memset clear /* the file's only use of it is on what it has mapped */
#include "../../../src/husk/native/loader/elf.c"
#undef memset

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* First how to load it, then a header husk might have made, then the file. What the model eats comes from its end. */
    if (size < 2 + sizeof(Elf64_Ehdr))
        return 0;
    Elf64_Ehdr header;
    memcpy(&header, data + 2, sizeof header);
    file = data + 2 + sizeof header, file_size = size - 2 - sizeof header;
    input = file, input_size = file_size;
    low = high = 0;
    struct loader_image image = {0};
    if (setjmp(dead) == 0)
        loader_image_load(&image, 3, data[0] & 1 ? &header : NULL, data[0] & 2 ? PLACE_PROGRAM : PLACE_ANYWHERE, data[0] >> 2 & 1);
    return 0;
}
