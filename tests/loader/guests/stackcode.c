/* Runs code on the stack; built with and without -z execstack. Also makes the stack grow far. */
#include <stdio.h>
#include <string.h>

static int deep(int n)
{
    volatile char page[4096];

    page[0] = (char)n;
    return n == 0 ? 0 : deep(n - 1) + (page[0] == (char)n);
}

int main(void)
{
    /* mov $7, %eax; ret */
    static const unsigned char code[] = {0xb8, 7, 0, 0, 0, 0xc3};
    unsigned char here[64 + 8192];
    int (*volatile call)(void) = (int (*)(void))(void *)here;

    memcpy(here, code, sizeof code);
    printf("deep %d\n", deep(1000));
    fflush(stdout);
    printf("code %d\n", call());
    return 0;
}
