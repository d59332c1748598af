/* compat/probe: checks of mappings, memory advice and locking, and of the thread's segment registers. */
#include "probe.h"

#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define PAGE 4096UL
#define RW (PROT_READ | PROT_WRITE)

/* Newer than the headers that this may be built with. */
#define MADV_COLLAPSE_ 25
#define MADV_GUARD_INSTALL_ 102
#define MADV_GUARD_REMOVE_ 103

static int mincore_byte(void *page)
{
    unsigned char resident = 0;
    NEED(mincore(page, PAGE, &resident) == 0, "mincore");
    return resident & 1;
}

/* A free stretch of addresses: what was mapped there is unmapped again. */
static char *free_place(size_t pages)
{
    char *place = probe_pages(pages);
    NEED(munmap(place, pages * PAGE) == 0, "munmap");
    return place;
}

/* Kilobytes that are locked, by /proc/self/status; -1 where it does not say. */
static long locked(void)
{
    char text[8192];
    const char *field = probe_read_text("/proc/self/status", text, sizeof text) > 0 ? strstr(text, "VmLck:") : NULL;
    return field ? atol(field + strlen("VmLck:")) : -1;
}

/* -- mmap -- */

CHECK(mmap, "flags=MAP_PRIVATE: a file's content, and writes stay private")
{
    int fd = probe_file("f", "hello");
    char *at = (char *)MUST(CALL(mmap, 0, PAGE, RW, MAP_PRIVATE, fd, 0));
    EFFECT(!memcmp(at, "hello", 5) && at[5] == 0);
    at[0] = 'J';
    char first = 0;
    EFFECT(pread(fd, &first, 1, 0) == 1 && first == 'h');
}

CHECK(mmap, "flags=MAP_SHARED: writes reach the file")
{
    int fd = probe_file("f", "hello");
    char *at = (char *)MUST(CALL(mmap, 0, PAGE, RW, MAP_SHARED, fd, 0));
    at[0] = 'J';
    char first = 0;
    EFFECT(pread(fd, &first, 1, 0) == 1 && first == 'J');
}

CHECK(mmap, "flags=MAP_SHARED: a memfd's content is shared with a child")
{
    int fd = probe_memfd(PAGE);
    char *at = (char *)MUST(CALL(mmap, 0, PAGE, RW, MAP_SHARED, fd, 0));
    pid_t pid = probe_fork();
    if (pid == 0) {
        at[7] = 'x';
        _exit(0);
    }
    probe_wait(pid);
    EFFECT(at[7] == 'x');
}

CHECK(mmap, "flags=MAP_ANONYMOUS")
{
    char *at = (char *)MUST(CALL(mmap, 0, 4 * PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (size_t n = 0; n < 4 * PAGE; n++)
        EFFECT(at[n] == 0);
    at[4 * PAGE - 1] = 1;
    EFFECT(at[4 * PAGE - 1] == 1);
}

CHECK(mmap, "flags=MAP_FIXED")
{
    char *place = probe_pages(2);
    place[0] = 'x';
    EFFECT(CALL(mmap, place, PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == (long)place);
    EFFECT(place[0] == 0);
}

CHECK(mmap, "flags=MAP_FIXED_NOREPLACE")
{
    char *place = probe_pages(2);
    place[0] = 'x';
    long taken = CALL(mmap, place, PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    EFFECT(taken == -EEXIST && place[0] == 'x');
    NEED(munmap(place, 2 * PAGE) == 0, "munmap");
    EFFECT(MUST(CALL(mmap, place, PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0)) == (long)place);
}

CHECK(mmap, "flags=MAP_32BIT")
{
    long at = MUST(CALL(mmap, 0, PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0));
    EFFECT((unsigned long)at < 1UL << 32);
    *(char *)at = 1;
}

CHECK(mmap, "flags=MAP_ABOVE4G")
{
    long at = MUST(CALL(mmap, 0, PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS | 0x80, -1, 0));
    EFFECT((unsigned long)at >= 1UL << 32);
}

CHECK(mmap, "flags=MAP_POPULATE")
{
    char *at = (char *)MUST(CALL(mmap, 0, PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
    EFFECT(mincore_byte(at));
}

CHECK(mmap, "flags=MAP_NORESERVE: far more than there is memory")
{
    char *at = (char *)MUST(CALL(mmap, 0, 1UL << 40, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    at[(1UL << 40) - 1] = 1;
    EFFECT(at[(1UL << 40) - 1] == 1);
}

CHECK(mmap, "flags=MAP_STACK")
{
    char *at = (char *)MUST(CALL(mmap, 0, 16 * PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0));
    at[0] = 1;
}

CHECK(mmap, "flags=MAP_GROWSDOWN: grows on a touch below")
{
    char *place = free_place(64);
    char *at = (char *)MUST(CALL(mmap, place + 60 * PAGE, 2 * PAGE, RW,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED, -1, 0));
    at[0] = 1;
    EFFECT(probe_touch(at - 8, true) == 0);
}

CHECK(mmap, "flags=MAP_LOCKED")
{
    char *at = (char *)MUST_OR(CALL(mmap, 0, PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1, 0), EAGAIN, EPERM);
    EFFECT(mincore_byte(at));
}

CHECK(mmap, "flags=MAP_HUGETLB: memory, or none left of that kind")
{
    char *at = (char *)MUST_OR(CALL(mmap, 0, 2 << 20, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0), ENOMEM);
    EFFECT(((unsigned long)at & ((2 << 20) - 1)) == 0);
}

CHECK(mmap, "flags=MAP_SHARED_VALIDATE")
{
    int fd = probe_memfd(PAGE);
    char *at = (char *)MUST(CALL(mmap, 0, PAGE, RW, MAP_SHARED_VALIDATE, fd, 0));
    at[0] = 'x';
    char first = 0;
    EFFECT(pread(fd, &first, 1, 0) == 1 && first == 'x');
}

CHECK(mmap, "flags=MAP_SYNC: only of files on persistent memory")
{
    int fd = probe_memfd(PAGE);
    ANSWERS(CALL(mmap, 0, PAGE, RW, MAP_SHARED_VALIDATE | MAP_SYNC, fd, 0), EOPNOTSUPP);
}

CHECK(mmap, "prot=PROT_EXEC: code runs there")
{
    unsigned char *at =
        (unsigned char *)MUST(CALL(mmap, 0, PAGE, RW | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    static const unsigned char code[] = {0xb8, 0x2a, 0, 0, 0, 0xc3}; /* mov $42, %eax; ret */
    memcpy(at, code, sizeof code);
    int (*function)(void);
    memcpy(&function, &at, sizeof function);
    EFFECT(function() == 42);
}

CHECK(mmap, "prot=PROT_NONE: a touch is SIGSEGV")
{
    char *at = (char *)MUST(CALL(mmap, 0, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EFFECT(probe_touch(at, false) == SIGSEGV);
}

CHECK(mmap, "an offset within a file")
{
    int fd = probe_memfd(3 * PAGE);
    NEED(pwrite(fd, "far", 3, 2 * PAGE) == 3, "pwrite");
    char *at = (char *)MUST(CALL(mmap, 0, PAGE, PROT_READ, MAP_SHARED, fd, 2 * PAGE));
    EFFECT(!memcmp(at, "far", 3));
}

CHECK(mmap, "a page behind the file's end is SIGBUS")
{
    int fd = probe_memfd(PAGE);
    char *at = (char *)MUST(CALL(mmap, 0, 2 * PAGE, PROT_READ, MAP_SHARED, fd, 0));
    EFFECT(probe_touch(at, false) == 0 && probe_touch(at + PAGE, false) == SIGBUS);
}

CHECK(mmap, "prot=PROT_WRITE: not of a file that is open for reading")
{
    NEED(close(probe_file("f", "hello")) == 0, "close");
    int fd = open("f", O_RDONLY | O_CLOEXEC);
    NEED(fd >= 0, "open");
    ANSWERS(CALL(mmap, 0, PAGE, PROT_WRITE, MAP_SHARED, fd, 0), EACCES);
}

CHECK(munmap, "a touch is SIGSEGV")
{
    char *at = probe_pages(3);
    MUST(CALL(munmap, at + PAGE, PAGE));
    EFFECT(probe_touch(at + PAGE, false) == SIGSEGV);
    EFFECT(probe_touch(at, true) == 0 && probe_touch(at + 2 * PAGE, true) == 0);
}

/* -- changing mappings -- */

CHECK(mremap, "flags=MREMAP_MAYMOVE: the content moves along")
{
    char *at = probe_pages(2);
    memcpy(at, "kept", 4);
    char *moved = (char *)MUST(CALL(mremap, at, PAGE, 64 * PAGE, MREMAP_MAYMOVE));
    EFFECT(!memcmp(moved, "kept", 4) && probe_touch(moved + 63 * PAGE, true) == 0);
}

CHECK(mremap, "shrinks in place")
{
    char *at = probe_pages(4);
    EFFECT(MUST(CALL(mremap, at, 4 * PAGE, PAGE, 0)) == (long)at);
    EFFECT(probe_touch(at, true) == 0 && probe_touch(at + PAGE, false) == SIGSEGV);
}

CHECK(mremap, "flags=MREMAP_FIXED")
{
    char *at = probe_pages(1), *place = free_place(1);
    at[0] = 'x';
    EFFECT(MUST(CALL(mremap, at, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place)) == (long)place);
    EFFECT(place[0] == 'x' && probe_touch(at, false) == SIGSEGV);
}

CHECK(mremap, "flags=MREMAP_DONTUNMAP: the old place stays, empty")
{
    char *at = probe_pages(1);
    at[0] = 'x';
    char *moved = (char *)MUST(CALL(mremap, at, PAGE, PAGE, MREMAP_MAYMOVE | 4, 0));
    EFFECT(moved != at && moved[0] == 'x' && at[0] == 0);
}

CHECK(mprotect, "prot=PROT_READ: a write is SIGSEGV")
{
    char *at = probe_pages(1);
    MUST(CALL(mprotect, at, PAGE, PROT_READ));
    EFFECT(probe_touch(at, false) == 0 && probe_touch(at, true) == SIGSEGV);
}

CHECK(mprotect, "prot=PROT_EXEC: code runs there")
{
    unsigned char *at = (unsigned char *)probe_pages(1);
    static const unsigned char code[] = {0xb8, 0x2b, 0, 0, 0, 0xc3};
    memcpy(at, code, sizeof code);
    MUST(CALL(mprotect, at, PAGE, PROT_READ | PROT_EXEC));
    int (*function)(void);
    memcpy(&function, &at, sizeof function);
    EFFECT(function() == 43);
}

CHECK(mprotect, "a stretch that is not mapped is ENOMEM")
{
    ANSWERS(CALL(mprotect, free_place(1), PAGE, PROT_READ), ENOMEM);
}

CHECK(brk, "grows and shrinks the heap")
{
    long end = MUST(CALL(brk, 0));
    long wish = (end + 4 * (long)PAGE) & ~(long)(PAGE - 1);
    EFFECT(CALL(brk, wish) == wish);
    *(char *)(wish - 1) = 1;
    EFFECT(*(char *)(wish - 1) == 1);
    EFFECT(CALL(brk, end) == end && probe_touch((char *)wish - 1, false) == SIGSEGV);
}

CHECK(remap_file_pages, "shows another page of the file")
{
    int fd = probe_memfd(2 * PAGE);
    NEED(pwrite(fd, "A", 1, 0) == 1 && pwrite(fd, "B", 1, PAGE) == 1, "pwrite");
    char *at = mmap(NULL, 2 * PAGE, RW, MAP_SHARED, fd, 0);
    NEED(at != MAP_FAILED, "mmap");
    MUST(CALL(remap_file_pages, at, PAGE, 0, 1, 0));
    EFFECT(at[0] == 'B');
}

static char *shared_file_page(const char *name)
{
    int fd = probe_file(name, "hello");
    char *at = mmap(NULL, PAGE, RW, MAP_SHARED, fd, 0);
    NEED(at != MAP_FAILED, "mmap");
    return at;
}

CHECK(msync, "flags=MS_SYNC")
{
    char *at = shared_file_page("f");
    at[0] = 'J';
    MUST(CALL(msync, at, PAGE, MS_SYNC));
    EFFECT(probe_holds("f", "Jello"));
}

CHECK(msync, "flags=MS_ASYNC")
{
    char *at = shared_file_page("f");
    at[0] = 'J';
    MUST(CALL(msync, at, PAGE, MS_ASYNC));
    EFFECT(probe_holds("f", "Jello"));
}

CHECK(msync, "a stretch that is not mapped is ENOMEM")
{
    ANSWERS(CALL(msync, free_place(1), PAGE, MS_SYNC), ENOMEM);
}

CHECK(mincore, "tells touched pages from others")
{
    char *at = probe_pages(8);
    NEED(madvise(at, 8 * PAGE, MADV_NOHUGEPAGE) == 0 || errno == EINVAL, "madvise");
    at[0] = at[3 * PAGE] = 1;
    unsigned char resident[8];
    memset(resident, 0xff, sizeof resident);
    MUST(CALL(mincore, at, 8 * PAGE, resident));
    EFFECT((resident[0] & 1) == 1 && (resident[3] & 1) == 1 && (resident[1] & 1) == 0 && (resident[7] & 1) == 0);
}

/* -- advice -- */

static void advice_accepted(int advice)
{
    char *at = probe_pages(2);
    at[0] = 'x';
    MUST(CALL(madvise, at, 2 * PAGE, advice));
    EFFECT(at[0] == 'x');
}

CHECK(madvise, "behavior=MADV_NORMAL")
{
    advice_accepted(MADV_NORMAL);
}
CHECK(madvise, "behavior=MADV_RANDOM")
{
    advice_accepted(MADV_RANDOM);
}
CHECK(madvise, "behavior=MADV_SEQUENTIAL")
{
    advice_accepted(MADV_SEQUENTIAL);
}
CHECK(madvise, "behavior=MADV_WILLNEED")
{
    advice_accepted(MADV_WILLNEED);
}
CHECK(madvise, "behavior=MADV_COLD")
{
    advice_accepted(MADV_COLD);
}
CHECK(madvise, "behavior=MADV_PAGEOUT")
{
    advice_accepted(MADV_PAGEOUT);
}
CHECK(madvise, "behavior=MADV_DODUMP")
{
    advice_accepted(MADV_DODUMP);
}
CHECK(madvise, "behavior=MADV_DONTDUMP")
{
    advice_accepted(MADV_DONTDUMP);
}
CHECK(madvise, "behavior=MADV_MERGEABLE: accepted, or the kernel has no KSM")
{
    char *at = probe_pages(2);
    at[0] = 'x';
    MUST_OR(CALL(madvise, at, 2 * PAGE, MADV_MERGEABLE), EINVAL);
    EFFECT(at[0] == 'x');
}
CHECK(madvise, "behavior=MADV_HUGEPAGE: accepted, or the kernel has no huge pages")
{
    char *at = probe_pages(2);
    at[0] = 'x';
    MUST_OR(CALL(madvise, at, 2 * PAGE, MADV_HUGEPAGE), EINVAL);
    EFFECT(at[0] == 'x');
}
CHECK(madvise, "behavior=MADV_NOHUGEPAGE: accepted, or the kernel has no huge pages")
{
    char *at = probe_pages(2);
    at[0] = 'x';
    MUST_OR(CALL(madvise, at, 2 * PAGE, MADV_NOHUGEPAGE), EINVAL);
    EFFECT(at[0] == 'x');
}

CHECK(madvise, "behavior=MADV_DONTNEED")
{
    char *at = probe_pages(2);
    memset(at, 'x', 2 * PAGE);
    MUST(CALL(madvise, at, PAGE, MADV_DONTNEED));
    EFFECT(at[0] == 0 && at[PAGE - 1] == 0 && at[PAGE] == 'x');
}

CHECK(madvise, "behavior=MADV_FREE")
{
    char *at = probe_pages(1);
    at[0] = 'x';
    MUST(CALL(madvise, at, PAGE, MADV_FREE));
    EFFECT(at[0] == 'x' || at[0] == 0); /* when the pages go is the kernel's choice */
    at[0] = 'y';
    EFFECT(at[0] == 'y');
}

CHECK(madvise, "behavior=MADV_REMOVE")
{
    char *at = probe_shared(2);
    memset(at, 'x', 2 * PAGE);
    MUST(CALL(madvise, at, PAGE, MADV_REMOVE));
    EFFECT(at[0] == 0 && at[PAGE] == 'x');
}

CHECK(madvise, "behavior=MADV_DONTFORK")
{
    char *at = probe_pages(1);
    at[0] = 'x';
    MUST(CALL(madvise, at, PAGE, MADV_DONTFORK));
    EFFECT(at[0] == 'x' && probe_touch(at, false) == SIGSEGV);
}

CHECK(madvise, "behavior=MADV_DOFORK")
{
    char *at = probe_pages(1);
    at[0] = 'x';
    NEED(madvise(at, PAGE, MADV_DONTFORK) == 0, "MADV_DONTFORK");
    MUST(CALL(madvise, at, PAGE, MADV_DOFORK));
    EFFECT(probe_touch(at, false) == 0);
}

static int first_byte(void *at)
{
    return *(char *)at;
}

CHECK(madvise, "behavior=MADV_WIPEONFORK")
{
    char *at = probe_pages(1);
    at[0] = 'x';
    MUST(CALL(madvise, at, PAGE, MADV_WIPEONFORK));
    EFFECT(probe_child_exit(first_byte, at) == 0 && at[0] == 'x');
}

CHECK(madvise, "behavior=MADV_KEEPONFORK")
{
    char *at = probe_pages(1);
    at[0] = 'x';
    NEED(madvise(at, PAGE, MADV_WIPEONFORK) == 0, "MADV_WIPEONFORK");
    MUST(CALL(madvise, at, PAGE, MADV_KEEPONFORK));
    EFFECT(probe_child_exit(first_byte, at) == 'x');
}

CHECK(madvise, "behavior=MADV_POPULATE_READ")
{
    char *at = probe_pages(1);
    MUST(CALL(madvise, at, PAGE, 22));
    EFFECT(mincore_byte(at) && at[0] == 0);
}

CHECK(madvise, "behavior=MADV_POPULATE_WRITE")
{
    char *at = probe_pages(1);
    MUST(CALL(madvise, at, PAGE, 23));
    EFFECT(mincore_byte(at) && at[0] == 0);
}

CHECK(madvise, "behavior=MADV_DONTNEED_LOCKED")
{
    char *at = probe_pages(1);
    NEED(mlock(at, PAGE) == 0, "mlock");
    at[0] = 'x';
    MUST(CALL(madvise, at, PAGE, 24));
    EFFECT(at[0] == 0);
}

CHECK(madvise, "behavior=MADV_COLLAPSE: collapsed, or no huge page to be had")
{
    char *at = probe_pages(1024);
    char *aligned = (char *)(((unsigned long)at + (2UL << 20) - 1) & ~((2UL << 20) - 1));
    aligned[0] = 'x';
    MUST_OR(CALL(madvise, aligned, 2UL << 20, MADV_COLLAPSE_), EINVAL, ENOMEM, EAGAIN, EBUSY);
    EFFECT(aligned[0] == 'x');
}

CHECK(madvise, "behavior=MADV_GUARD_INSTALL")
{
    char *at = probe_pages(3);
    MUST(CALL(madvise, at + PAGE, PAGE, MADV_GUARD_INSTALL_));
    EFFECT(probe_touch(at, true) == 0 && probe_touch(at + PAGE, false) == SIGSEGV);
}

CHECK(madvise, "behavior=MADV_GUARD_REMOVE")
{
    char *at = probe_pages(3);
    NEED(madvise(at + PAGE, PAGE, MADV_GUARD_INSTALL_) == 0, "MADV_GUARD_INSTALL");
    MUST(CALL(madvise, at + PAGE, PAGE, MADV_GUARD_REMOVE_));
    EFFECT(probe_touch(at + PAGE, true) == 0);
}

CHECK(madvise, "behavior=MADV_HWPOISON: of a stretch that is not mapped")
{
    ANSWERS(CALL(madvise, free_place(1), PAGE, 100), EPERM, EFAULT, EINVAL); /* root could poison a page */
}

CHECK(madvise, "behavior=MADV_SOFT_OFFLINE: of a stretch that is not mapped")
{
    ANSWERS(CALL(madvise, free_place(1), PAGE, 101), EPERM, EFAULT, EINVAL);
}

CHECK(madvise, "behavior=MADV_UNMERGEABLE: accepted, or the kernel has no KSM")
{
    char *at = probe_pages(2);
    at[0] = 'x';
    MUST_OR(CALL(madvise, at, 2 * PAGE, MADV_UNMERGEABLE), EINVAL);
    EFFECT(at[0] == 'x');
}

CHECK(madvise, "an unknown advice is EINVAL")
{
    ANSWERS(CALL(madvise, probe_pages(1), PAGE, 9999), EINVAL);
}

CHECK(process_madvise, "behavior=MADV_COLD: of the caller's own memory")
{
    int self = (int)RAW(pidfd_open, getpid(), 0);
    NEED(self >= 0, "pidfd_open");
    char *at = probe_pages(2);
    at[0] = 'x';
    struct { void *base; size_t length; } part = {at, PAGE};
    EFFECT(MUST(CALL(process_madvise, self, &part, 1, MADV_COLD, 0)) == (long)PAGE);
    EFFECT(at[0] == 'x');
}

/* -- locking -- */

CHECK(mlock, "counts as locked")
{
    char *at = probe_pages(2);
    long before = locked();
    MUST(CALL(mlock, at, 2 * PAGE));
    EFFECT((before < 0 || locked() == before + 8) && mincore_byte(at));
}

CHECK(mlock2, "flags=MLOCK_ONFAULT: locked, not yet there")
{
    char *at = probe_pages(2);
    NEED(madvise(at, 2 * PAGE, MADV_NOHUGEPAGE) == 0 || errno == EINVAL, "madvise");
    long before = locked();
    MUST(CALL(mlock2, at, 2 * PAGE, MLOCK_ONFAULT));
    EFFECT((before < 0 || locked() == before + 8) && !mincore_byte(at + PAGE));
}

CHECK(munlock, "counts no more as locked")
{
    char *at = probe_pages(2);
    long before = locked();
    NEED(mlock(at, 2 * PAGE) == 0, "mlock");
    MUST(CALL(munlock, at, 2 * PAGE));
    EFFECT(locked() == before);
}

CHECK(mlockall, "flags=MCL_CURRENT: all of it, or more than the limit allows")
{
    MUST_OR(CALL(mlockall, MCL_CURRENT), ENOMEM, EPERM);
    EFFECT(locked() != 0);
}

CHECK(munlockall, "nothing is locked")
{
    char *at = probe_pages(1);
    NEED(mlock(at, PAGE) == 0, "mlock");
    MUST(CALL(munlockall));
    EFFECT(locked() <= 0);
}

/* -- sealing, shadow stacks, protection keys -- */

CHECK(mseal, "a sealed mapping stays")
{
    char *at = probe_pages(1);
    at[0] = 'x';
    MUST(CALL(mseal, at, PAGE, 0));
    EFFECT(mprotect(at, PAGE, PROT_NONE) == -1 && errno == EPERM);
    EFFECT(munmap(at, PAGE) == -1 && errno == EPERM && at[0] == 'x');
}

CHECK(map_shadow_stack, "maps one, or the processor has none")
{
    char *at = (char *)MUST_OR(CALL(map_shadow_stack, 0, PAGE, 0), EOPNOTSUPP);
    EFFECT(probe_touch(at, true) == SIGSEGV);
}

CHECK(pkey_alloc, "a key, or the processor has none")
{
    EFFECT(MUST_OR(CALL(pkey_alloc, 0, 0), ENOSPC, EINVAL) > 0);
}

CHECK(pkey_free, "a key that was not allocated is EINVAL")
{
    ANSWERS(CALL(pkey_free, 13), EINVAL);
}

CHECK(pkey_mprotect, "without a key it is mprotect")
{
    char *at = probe_pages(1);
    MUST(CALL(pkey_mprotect, at, PAGE, PROT_READ, -1));
    EFFECT(probe_touch(at, false) == 0 && probe_touch(at, true) == SIGSEGV);
}

/* -- memory nodes; node 0 is always there -- */

CHECK(set_mempolicy, "mode=MPOL_PREFERRED: get_mempolicy tells it")
{
    unsigned long node = 1;
    MUST(CALL(set_mempolicy, 1, &node, 64));
    int policy = -1;
    NEED(RAW(get_mempolicy, &policy, 0, 0, 0, 0) == 0, "get_mempolicy");
    EFFECT(policy == 1);
}

static void sets_policy(int mode)
{
    unsigned long node = 1;
    int policy = -1;
    MUST(CALL(set_mempolicy, mode, &node, 64));
    NEED(RAW(get_mempolicy, &policy, 0, 0, 0, 0) == 0, "get_mempolicy");
    EFFECT(policy == mode);
}

CHECK(set_mempolicy, "mode=MPOL_PREFERRED_MANY")
{
    sets_policy(5);
}
CHECK(set_mempolicy, "mode=MPOL_WEIGHTED_INTERLEAVE")
{
    sets_policy(6);
}
CHECK(set_mempolicy, "mode=MPOL_INTERLEAVE")
{
    sets_policy(3);
}
CHECK(set_mempolicy, "mode=MPOL_BIND")
{
    sets_policy(2);
}

CHECK(get_mempolicy, "the policy at the start is the default")
{
    int policy = -1;
    MUST(CALL(get_mempolicy, &policy, 0, 0, 0, 0));
    EFFECT(policy == 0 || policy == 4);
}

CHECK(get_mempolicy, "flags=MPOL_F_ADDR: tells what mbind set")
{
    char *at = probe_pages(1);
    unsigned long node = 1;
    long set = RAW(mbind, at, PAGE, 2, &node, 64, 0);
    NEED(set == 0, "mbind");
    int policy = -1;
    MUST(CALL(get_mempolicy, &policy, 0, 0, at, 2));
    EFFECT(policy == 2);
}

CHECK(mbind, "mode=MPOL_BIND")
{
    char *at = probe_pages(1);
    unsigned long node = 1;
    MUST(CALL(mbind, at, PAGE, 2, &node, 64, 0));
    int policy = -1;
    NEED(RAW(get_mempolicy, &policy, 0, 0, at, 2) == 0, "get_mempolicy");
    EFFECT(policy == 2);
}

CHECK(set_mempolicy_home_node, "of a stretch that mbind bound")
{
    char *at = probe_pages(1);
    unsigned long node = 1;
    long set = RAW(mbind, at, PAGE, 2, &node, 64, 0);
    if (set == -ENOSYS)
        MUST(CALL(set_mempolicy_home_node, at, PAGE, 0, 0));
    NEED(set == 0, "mbind");
    MUST(CALL(set_mempolicy_home_node, at, PAGE, 0, 0));
}

CHECK(migrate_pages, "pid=0: from node 0 to node 0")
{
    unsigned long node = 1;
    EFFECT(MUST(CALL(migrate_pages, 0, 64, &node, &node)) == 0);
}

CHECK(migrate_pages, "pages of a child")
{
    pid_t pid = probe_fork();
    if (pid == 0) {
        probe_sleep(2000);
        _exit(0);
    }
    unsigned long node = 1;
    EFFECT(MUST(CALL(migrate_pages, pid, 64, &node, &node)) == 0);
}

CHECK(move_pages, "pid=0: tells the node of a page")
{
    char *at = probe_pages(1);
    at[0] = 1;
    void *pages[1] = {at};
    int status = -1;
    MUST(CALL(move_pages, 0, 1, pages, NULL, &status, 0));
    EFFECT(status >= 0 && status < 1024);
}

CHECK(move_pages, "tells the node of a child's page")
{
    char *at = probe_shared(1);
    at[0] = 1;
    pid_t pid = probe_fork();
    if (pid == 0) {
        probe_sleep(2000);
        _exit(0);
    }
    void *pages[1] = {at};
    int status = -1;
    MUST(CALL(move_pages, pid, 1, pages, NULL, &status, 0));
    EFFECT(status != -1);
}

/* -- memory with strings attached -- */

CHECK(userfaultfd, "a descriptor for faults of the program's own")
{
    int fd = (int)MUST(CALL(userfaultfd, O_CLOEXEC | 1)); /* UFFD_USER_MODE_ONLY: no privilege needed */
    EFFECT(fcntl(fd, F_GETFD) == FD_CLOEXEC);
}

CHECK(memfd_secret, "memory that is mapped and written, or switched off")
{
    int fd = (int)MUST(CALL(memfd_secret, O_CLOEXEC));
    NEED(ftruncate(fd, PAGE) == 0, "ftruncate");
    char *at = mmap(NULL, PAGE, RW, MAP_SHARED, fd, 0);
    NEED(at != MAP_FAILED, "mmap");
    at[0] = 'x';
    EFFECT(at[0] == 'x');
}

CHECK(modify_ldt, "func=0: reads the table")
{
    char table[64];
    EFFECT(MUST(CALL(modify_ldt, 0, table, sizeof table)) >= 0);
}

CHECK(set_thread_area, "32-bit processes have it; here ENOSYS")
{
    char description[16] = {0};
    ANSWERS(CALL(set_thread_area, description), ENOSYS);
}

CHECK(get_thread_area, "32-bit processes have it; here ENOSYS")
{
    char description[16] = {0};
    ANSWERS(CALL(get_thread_area, description), ENOSYS);
}

/* -- segment registers -- */

#define ARCH_SET_GS_ 0x1001
#define ARCH_SET_FS_ 0x1002
#define ARCH_GET_FS_ 0x1003
#define ARCH_GET_GS_ 0x1004

static unsigned long gs_word(void)
{
    unsigned long word;
    __asm__ volatile("mov %%gs:0, %0" : "=r"(word));
    return word;
}

static unsigned long fs_word(void)
{
    unsigned long word;
    __asm__ volatile("mov %%fs:0, %0" : "=r"(word));
    return word;
}

CHECK(arch_prctl, "option=ARCH_SET_GS")
{
    static unsigned long block[2] = {0x6b7375685f736721, 0};
    MUST(CALL(arch_prctl, ARCH_SET_GS_, block));
    EFFECT(gs_word() == block[0]);
}

CHECK(arch_prctl, "option=ARCH_GET_GS")
{
    static unsigned long block[2];
    unsigned long base = 1;
    bool set = RAW(arch_prctl, ARCH_SET_GS_, block) == 0;
    MUST(CALL(arch_prctl, ARCH_GET_GS_, &base));
    EFFECT(base == (set ? (unsigned long)block : 0));
}

CHECK(arch_prctl, "option=ARCH_SET_FS")
{
    /* Nothing between the two calls may use thread-local storage, errno included. */
    static unsigned long block[2] = {0x6b7375685f667321, 0};
    unsigned long own = 0;
    NEED(RAW(arch_prctl, ARCH_GET_FS_, &own) == 0, "ARCH_GET_FS");
    long value = CALL(arch_prctl, ARCH_SET_FS_, block);
    unsigned long seen = value == 0 ? fs_word() : 0;
    (void)RAW(arch_prctl, ARCH_SET_FS_, own);
    MUST(value);
    EFFECT(seen == block[0]);
}

CHECK(arch_prctl, "option=ARCH_GET_FS")
{
    unsigned long base = 1;
    MUST(CALL(arch_prctl, ARCH_GET_FS_, &base));
    EFFECT(base == fs_word()); /* the C library's thread block begins with its own address */
}

CHECK(arch_prctl, "option=ARCH_GET_CPUID")
{
    EFFECT(MUST(CALL(arch_prctl, 0x1011, 0)) == 1);
}

CHECK(arch_prctl, "option=ARCH_SET_CPUID: cpuid faults, or the processor cannot")
{
    MUST_OR(CALL(arch_prctl, 0x1012, 0), ENODEV);
    pid_t pid = probe_fork();
    if (pid == 0) {
        unsigned a = 0, b, c = 0, d;
        __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
        _exit(0);
    }
    EFFECT((probe_wait(pid) & 0x7f) == SIGSEGV);
}

CHECK(arch_prctl, "option=ARCH_GET_XCOMP_SUPP")
{
    unsigned long features = 0;
    MUST(CALL(arch_prctl, 0x1021, &features));
    EFFECT((features & 3) == 3); /* x87 and SSE are everywhere */
}

CHECK(arch_prctl, "option=ARCH_GET_XCOMP_PERM")
{
    unsigned long features = 0;
    MUST(CALL(arch_prctl, 0x1022, &features));
    EFFECT((features & 3) == 3);
}

CHECK(arch_prctl, "option=ARCH_SHSTK_STATUS: none is on, or the processor cannot")
{
    unsigned long features = ~0UL;
    MUST_OR(CALL(arch_prctl, 0x5005, &features), EOPNOTSUPP, EINVAL);
    EFFECT(features == 0);
}

CHECK(arch_prctl, "option=ARCH_REQ_XCOMP_PERM: the tiles of AMX, or the processor has none")
{
    MUST_OR(CALL(arch_prctl, 0x1023, 18), EOPNOTSUPP, EINVAL);
    unsigned long features = 0;
    NEED(RAW(arch_prctl, 0x1022, &features) == 0, "ARCH_GET_XCOMP_PERM");
    EFFECT(features & 1UL << 18);
}

/* The first two would make every return from here fault, where the processor has shadow stacks. */
CHECK(arch_prctl, "option=ARCH_SHSTK_ENABLE: two features at once are EINVAL")
{
    ANSWERS(CALL(arch_prctl, 0x5001, 3), EINVAL, EOPNOTSUPP);
}

CHECK(arch_prctl, "option=ARCH_SHSTK_DISABLE: two features at once are EINVAL")
{
    ANSWERS(CALL(arch_prctl, 0x5002, 3), EINVAL, EOPNOTSUPP);
}

CHECK(arch_prctl, "option=ARCH_SHSTK_LOCK: no feature, or the processor has none")
{
    MUST_OR(CALL(arch_prctl, 0x5003, 0), EINVAL, EOPNOTSUPP);
}

CHECK(arch_prctl, "option=ARCH_SHSTK_UNLOCK: only for a tracer")
{
    ANSWERS(CALL(arch_prctl, 0x5004, 0), EINVAL, EOPNOTSUPP);
}

CHECK(arch_prctl, "an unknown option is EINVAL")
{
    ANSWERS(CALL(arch_prctl, 0x7777, 0), EINVAL);
}
