/* build: three_needs -static -nostdlib -ffreestanding -fno-stack-protector
 *
 * A program with known needs. It requires pipe2 (a fake gives it no pipe), read and write; it falls back without
 * getrandom but not when that gives nothing; it insists that sched_yield succeeds; it does not care about getuid. Of
 * prctl's two options it requires PR_GET_NAME alone. */
#include <asm/unistd.h>
#include <linux/prctl.h>

static long call(long nr, long a, long b, long c)
{
    register long r10 __asm__("r10") = 0;
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
    return result;
}

static void end(int status)
{
    for (;;)
        call(__NR_exit_group, status, 0, 0);
}

void _start(void)
{
    int ends[2] = {-1, -1};
    char seed[8], byte = 'x', name[16] = "";

    if (call(__NR_pipe2, (long)ends, 0, 0) < 0 || call(__NR_write, ends[1], (long)&byte, 1) != 1)
        end(1);
    byte = 0;
    if (call(__NR_read, ends[0], (long)&byte, 1) != 1 || byte != 'x')
        end(2);
    long got = call(__NR_getrandom, (long)seed, sizeof seed, 0);
    if (got >= 0 && got != sizeof seed)
        end(3);
    if (call(__NR_sched_yield, 0, 0, 0) < 0)
        end(4);
    call(__NR_getuid, 0, 0, 0);
    call(__NR_prctl, PR_SET_TIMERSLACK, 0, 0);
    if (call(__NR_prctl, PR_GET_NAME, (long)name, 0) < 0 || !name[0])
        end(5);
    call(__NR_write, 1, (long)"done\n", 5);
    end(0);
}
