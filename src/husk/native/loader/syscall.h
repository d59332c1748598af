/*
 * The loader's lowest layer: raw system calls, memory functions and die().
 * Nothing here knows about ELF or about husk.
 */
#ifndef HUSK_LOADER_SYSCALL_H
#define HUSK_LOADER_SYSCALL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#define PAGE 4096ul
#define PAGE_DOWN(x) ((x) & ~(PAGE - 1))
#define PAGE_UP(x) PAGE_DOWN((x) + PAGE - 1)
#define PAGE_OFFSET(x) ((x) & (PAGE - 1))

static inline long syscall6(long nr, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;

    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

static inline long syscall3(long nr, long a, long b, long c)
{
    long result;

    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(nr), "D"(a), "S"(b), "d"(c)
                     : "rcx", "r11", "memory");
    return result;
}

static inline int failed(long result)
{
    return (unsigned long)result > -4096ul;
}

/*
 * Linux ends an execve that fails past its point of no return with SIGSEGV. A
 * privileged instruction does the same, and unlike kill(2) it cannot be ignored,
 * blocked, or stopped by a filter.
 */
static inline _Noreturn void die(void)
{
    for (;;)
        __asm__ volatile("hlt");
}

static inline uint64_t sys_mmap(uint64_t addr, uint64_t len, int prot, int flags, int fd, uint64_t off)
{
    return (uint64_t)syscall6(SYS_mmap, (long)addr, (long)len, prot, flags, fd, (long)off);
}

static inline long sys_munmap(uint64_t addr, uint64_t len)
{
    return syscall3(SYS_munmap, (long)addr, (long)len, 0);
}

static inline long sys_mprotect(uint64_t addr, uint64_t len, int prot)
{
    return syscall3(SYS_mprotect, (long)addr, (long)len, prot);
}

static inline long sys_pread(int fd, void *buf, size_t len, uint64_t off)
{
    return syscall6(SYS_pread64, fd, (long)buf, (long)len, (long)off, 0, 0);
}

/* gcc may call these three by name even in freestanding code. */
void *memcpy(void *dst, const void *src, size_t n);
void *memmove(void *dst, const void *src, size_t n);
void *memset(void *dst, int c, size_t n);
size_t strlen(const char *s);

#endif
