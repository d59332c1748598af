/*
 * Maps one ELF file as Linux's binfmt_elf does, wherever a program could tell
 * the difference. Knows ELF and mmap, but neither husk's protocol nor stacks.
 * We are past execve's point of no return: what Linux would refuse here ends in
 * die().
 */
#include <sys/mman.h>

#include "loader.h"

#define PHDRS_MAX 65536 /* Linux's limit on the whole table */

/*
 * First page of the file: it nearly always holds header and table, so that one
 * read is enough. A table elsewhere is read into phdr_space.
 */
static union {
    Elf64_Ehdr ehdr;
    char bytes[PAGE];
} head;
static Elf64_Phdr phdr_space[PHDRS_MAX / sizeof(Elf64_Phdr)];

struct range {
    uint64_t low, high, align; /* as the file says, before any bias */
    const Elf64_Phdr *first;   /* the segment at `low`; NULL: it holds nothing of the file, or others come before it */
};

uint64_t loader_random_pages(uint64_t pages)
{
    static uint64_t pool[2]; /* place and heap: one call is enough for both */
    static unsigned left;
    uint64_t r;

    if (left == 0 && syscall3(SYS_getrandom, (long)pool, sizeof pool, 0) == sizeof pool)
        left = sizeof pool / sizeof *pool;
    if (left > 0) {
        r = pool[--left];
    } else {
        uint32_t lo, hi; /* weak, but better than a constant */
        __asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
        r = ((uint64_t)hi << 32 | lo) * 0x9e3779b97f4a7c15ul >> 20;
    }
    return (r & (pages - 1)) * PAGE;
}

static void read_exactly(int fd, void *buf, uint64_t len, uint64_t off)
{
    char *to = buf;

    while (len > 0) {
        long n = sys_pread(fd, to, len, off);
        if (n <= 0)
            die();
        to += n;
        off += (uint64_t)n;
        len -= (uint64_t)n;
    }
}

/* Stores the header in head.ehdr, returns the program header table (phdr_space). */
static const Elf64_Phdr *read_headers(int fd, const Elf64_Ehdr *given)
{
    long got = sys_pread(fd, head.bytes, sizeof head.bytes, 0);
    const Elf64_Ehdr *e = given ? given : &head.ehdr;
    uint64_t len = (uint64_t)e->e_phnum * sizeof(Elf64_Phdr);

    if (failed(got) || (!given && got < (long)sizeof *e))
        die();
    if (e->e_ident[0] != 0x7f || e->e_ident[1] != 'E' || e->e_ident[2] != 'L' || e->e_ident[3] != 'F')
        die();
    if ((e->e_type != ET_EXEC && e->e_type != ET_DYN) || e->e_machine != EM_X86_64)
        die();
    if (e->e_phentsize != sizeof(Elf64_Phdr) || len == 0 || len > PHDRS_MAX)
        die();

    if (e->e_phoff <= (uint64_t)got && len <= (uint64_t)got - e->e_phoff)
        memcpy(phdr_space, head.bytes + e->e_phoff, len);
    else
        read_exactly(fd, phdr_space, len, e->e_phoff);
    if (given)
        memcpy(&head.ehdr, given, sizeof *given);
    return phdr_space;
}

/* The address range of all PT_LOADs together; checks each as Linux does. */
static struct range measure(const Elf64_Phdr *ph, unsigned count)
{
    struct range r = {.low = ~0ul, .high = 0, .align = PAGE, .first = NULL};

    for (; count > 0; count--, ph++) {
        if (ph->p_type != PT_LOAD)
            continue;
        if (ph->p_filesz > ph->p_memsz || ph->p_memsz > TASK_SIZE || ph->p_vaddr > TASK_SIZE - ph->p_memsz)
            die();
        if (PAGE_DOWN(ph->p_vaddr) < r.low) {
            r.first = r.low == ~0ul && ph->p_filesz > 0 ? ph : NULL;
            r.low = PAGE_DOWN(ph->p_vaddr);
        }
        if (PAGE_UP(ph->p_vaddr + ph->p_memsz) > r.high)
            r.high = PAGE_UP(ph->p_vaddr + ph->p_memsz);
        if (ph->p_align > r.align && (ph->p_align & (ph->p_align - 1)) == 0)
            r.align = ph->p_align;
    }
    if (r.high <= r.low)
        die();
    return r;
}

static int protection(const Elf64_Phdr *ph)
{
    return (ph->p_flags & PF_R ? PROT_READ : 0) | (ph->p_flags & PF_W ? PROT_WRITE : 0) |
           (ph->p_flags & PF_X ? PROT_EXEC : 0);
}

/*
 * By mapping the first segment far beyond its end, as Linux does. That saves a
 * call; the other segments, bss and holes then cover or cut away the rest.
 */
static uint64_t reserve(const struct range *r, int fd, uint64_t addr, uint64_t len, int flags)
{
    if (r->first)
        return sys_mmap(addr, len, protection(r->first), MAP_PRIVATE | flags, fd,
                        r->first->p_offset - PAGE_OFFSET(r->first->p_vaddr));
    return sys_mmap(addr, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
}

/*
 * Reserve address space for the whole image and return the bias. Segments are
 * then mapped over it with MAP_FIXED, and cannot hit any other mapping.
 */
static uint64_t place(struct range *r, int fd, int type, enum loader_placement placement, int randomize)
{
    uint64_t len = r->high - r->low, bias, got, slack;

    if (type == ET_EXEC) {
        if (reserve(r, fd, r->low, len, MAP_FIXED_NOREPLACE) != r->low)
            die();
        return 0;
    }
    /* A few tries, since a random address may be in use. Linux would give up at once. */
    for (int tries = 0; placement == PLACE_PROGRAM && tries < 8; tries++) {
        bias = ELF_ET_DYN_BASE + (randomize ? loader_random_pages(1ul << 28) : 0);
        bias = (bias & ~(r->align - 1)) - r->low;
        if (reserve(r, fd, bias + r->low, len, MAP_FIXED_NOREPLACE) == bias + r->low)
            return bias;
    }
    slack = r->align > PAGE ? r->align : 0;
    if (slack)
        r->first = NULL; /* its place is known only afterwards */
    got = reserve(r, fd, 0, len + slack, 0);
    if (failed((long)got))
        die();
    bias = (got - r->low + r->align - 1) & ~(r->align - 1);
    if (bias + r->low > got)
        sys_munmap(got, bias + r->low - got);
    if (bias + r->high < got + len + slack)
        sys_munmap(bias + r->high, got + len + slack - (bias + r->high));
    return bias;
}

/*
 * Bytes of the last file-backed page past the segment's file part must read as
 * zero, up to the end of the page and not just of the bss: ld.so allocates there.
 */
static void zero_tail(const Elf64_Phdr *ph, int fd, uint64_t bias)
{
    uint64_t start = bias + ph->p_vaddr + ph->p_filesz;
    char probe;

    if (!(ph->p_flags & PF_W) || PAGE_OFFSET(start) == 0)
        return; /* Linux tries it on read-only pages too, and ignores the fault */
    /* Touching a page wholly behind the end of file raises SIGBUS. Linux ends such a program with SIGSEGV. */
    if (sys_pread(fd, &probe, 1, PAGE_DOWN(ph->p_offset + ph->p_filesz)) != 1)
        die();
    memset((void *)start, 0, PAGE_UP(start) - start);
}

/* `there`: its file part is mapped already. */
static void map_segment(const Elf64_Phdr *ph, int fd, uint64_t bias, int there)
{
    uint64_t start = PAGE_DOWN(bias + ph->p_vaddr);
    uint64_t skew = PAGE_OFFSET(ph->p_vaddr);
    uint64_t file_end = start; /* first page not backed by the file */
    uint64_t end = PAGE_UP(bias + ph->p_vaddr + ph->p_memsz);
    int prot = protection(ph);

    if (ph->p_filesz > 0) {
        /* An offset not congruent to the address makes mmap fail, as it does for Linux. */
        if (!there &&
            sys_mmap(start, ph->p_filesz + skew, prot, MAP_PRIVATE | MAP_FIXED, fd, ph->p_offset - skew) != start)
            die();
        file_end = PAGE_UP(bias + ph->p_vaddr + ph->p_filesz);
        if (ph->p_memsz > ph->p_filesz)
            zero_tail(ph, fd, bias);
    }
    if (end > file_end) {
        /* Linux makes these pages writable, whatever the segment says. */
        prot = PROT_READ | PROT_WRITE | (prot & PROT_EXEC);
        if (sys_mmap(file_end, end - file_end, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != file_end)
            die();
    }
}

/* The header table's address for AT_PHDR. Linux only looks for the segment that holds it. */
static uint64_t find_phdr(const Elf64_Phdr *ph, unsigned count, uint64_t phoff)
{
    uint64_t named = 0;

    for (; count > 0; count--, ph++) {
        if (ph->p_type == PT_LOAD && ph->p_offset <= phoff && phoff - ph->p_offset < ph->p_filesz)
            return phoff - ph->p_offset + ph->p_vaddr;
        if (ph->p_type == PT_PHDR)
            named = ph->p_vaddr;
    }
    return named;
}

/* The figures Linux keeps in mm_struct and shows in /proc/PID/stat. */
static void account(struct loader_image *image, const Elf64_Phdr *ph)
{
    uint64_t start = image->bias + ph->p_vaddr;

    if ((ph->p_flags & (PF_X | PF_W)) == PF_X) {
        image->code = PAGE_DOWN(start);
        image->code_size = PAGE_UP(start + ph->p_filesz) - image->code;
        image->code_offset = PAGE_DOWN(ph->p_offset);
    }
    if ((ph->p_flags & PF_X) && start < image->start_code)
        image->start_code = start;
    if ((ph->p_flags & PF_X) && start + ph->p_filesz > image->end_code)
        image->end_code = start + ph->p_filesz;
    if (start > image->start_data)
        image->start_data = start;
    if (start + ph->p_filesz > image->end_data)
        image->end_data = start + ph->p_filesz;
    if (start + ph->p_memsz > image->end)
        image->end = start + ph->p_memsz;
}

void loader_image_load(struct loader_image *image, int fd, const Elf64_Ehdr *header, enum loader_placement placement,
                       int randomize)
{
    const Elf64_Phdr *ph = read_headers(fd, header);
    unsigned count = head.ehdr.e_phnum;
    struct range range = measure(ph, count);
    uint64_t phdr, mapped_to;

    image->type = head.ehdr.e_type;
    image->bias = place(&range, fd, image->type, placement, randomize);
    image->entry = head.ehdr.e_entry + image->bias;
    image->phnum = count;
    phdr = find_phdr(ph, count, head.ehdr.e_phoff);
    image->phdr = phdr ? phdr + image->bias : 0;
    image->start_code = ~0ul;

    mapped_to = image->bias + range.low;
    for (; count > 0; count--, ph++) {
        if (ph->p_type == PT_GNU_STACK)
            image->exec_stack = (ph->p_flags & PF_X) != 0;
        if (ph->p_type != PT_LOAD)
            continue;
        map_segment(ph, fd, image->bias, ph == range.first);
        account(image, ph);
        /* Unmap what the reservation holds between segments: on Linux nothing is mapped there. */
        if (PAGE_DOWN(image->bias + ph->p_vaddr) > mapped_to)
            sys_munmap(mapped_to, PAGE_DOWN(image->bias + ph->p_vaddr) - mapped_to);
        if (PAGE_UP(image->bias + ph->p_vaddr + ph->p_memsz) > mapped_to)
            mapped_to = PAGE_UP(image->bias + ph->p_vaddr + ph->p_memsz);
    }
    if (image->entry >= TASK_SIZE)
        die();
}
