/* build: touch_gs -static -nostdlib -ffreestanding -fno-stack-protector
 *
 * Sets the %gs base, does not look whether that worked, and reads through it: what assimilated Cosmopolitan programs do
 * when they start. Makes three kinds of calls and no others: arch_prctl, write, exit_group. */
#include <asm/prctl.h>
#include <asm/unistd.h>

static long call3(long nr, long a, long b, long c)
{
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(nr), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}

static int block[4] = {0, 42};

void _start(void)
{
    static const char holds[] = "gs holds 42\n";
    int value;

    call3(__NR_arch_prctl, ARCH_SET_GS, (long)block, 0);
    __asm__ volatile("movl %%gs:4, %0" : "=r"(value));
    if (value == 42)
        call3(__NR_write, 1, (long)holds, sizeof holds - 1);
    call3(__NR_exit_group, value == 42 ? 0 : 1, 0, 0);
    for (;;)
        ;
}
