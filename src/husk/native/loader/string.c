/*
 * The four functions of <string.h> that the loader needs, which has no C
 * library. They use `rep` instructions and touch no vector register, so the
 * guest starts with the clean state that the kernel made.
 */
#include "syscall.h"

void *memcpy(void *dst, const void *src, size_t n)
{
    void *to = dst;

    __asm__ volatile("rep movsb" : "+D"(to), "+S"(src), "+c"(n) : : "memory");
    return dst;
}

void *memmove(void *dst, const void *src, size_t n)
{
    char *to = (char *)dst + n - 1;
    const char *from = (const char *)src + n - 1;

    if ((uintptr_t)dst - (uintptr_t)src >= n) /* dst below src, or no overlap */
        return memcpy(dst, src, n);
    __asm__ volatile("std; rep movsb; cld" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
    return dst;
}

void *memset(void *dst, int c, size_t n)
{
    void *to = dst;

    __asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(c) : "memory");
    return dst;
}

size_t strlen(const char *s)
{
    size_t n = 0;

    while (s[n])
        n++;
    return n;
}
