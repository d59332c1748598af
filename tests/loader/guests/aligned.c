/* A segment aligned to 1 MiB: the image's base must respect it. */
#include <stdint.h>
#include <stdio.h>

static struct {
    char bytes[64];
} big __attribute__((aligned(1 << 20))) = {"big"};
static char zeroed[3 << 20] __attribute__((aligned(1 << 20)));

int main(void)
{
    long sum = 0;

    for (unsigned i = 0; i < sizeof zeroed; i += 512)
        sum += zeroed[i];
    printf("%s %lu %lu %ld\n", big.bytes, (unsigned long)((uintptr_t)&big % (1 << 20)),
           (unsigned long)((uintptr_t)zeroed % (1 << 20)), sum);
    return 0;
}
