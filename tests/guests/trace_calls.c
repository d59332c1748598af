/* Makes exactly the calls that main says, no library's among them, so that a trace of it has one right answer.
 *
 * build: trace_calls -static -nostdlib -ffreestanding -fno-stack-protector
 */
#include <asm/prctl.h>
#include <asm/unistd.h>
#include <linux/fcntl.h>

static long call(long nr, long a, long b, long c, long d, long e)
{
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    __asm__ volatile("syscall" : "=a"(result) : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return result;
}

static void times(int count, long nr, long a, long b, long c)
{
    for (int i = 0; i < count; i++)
        call(nr, a, b, c, 0, 0);
}

__attribute__((noreturn)) static void run(void)
{
    int status;
    char buffer[64];
    times(7, __NR_getppid, 0, 0, 0);
    times(5, __NR_fcntl, 1, F_GETFD, 0);
    times(3, __NR_fcntl, 1, F_GETFL, 0);
    times(4, __NR_ioctl, 99, 0x5401 /* TCGETS */, (long)buffer);
    times(2, __NR_openat, AT_FDCWD, (long)"/no/such/name", O_RDONLY | O_CLOEXEC);
    long file = call(__NR_openat, AT_FDCWD, (long)"/etc/hosts", O_RDONLY, 0, 0);
    times(6, __NR_read, file, (long)buffer, sizeof buffer);
    times(1, __NR_close, file, 0, 0);
    times(1, __NR_arch_prctl, ARCH_SET_GS, (long)buffer, 0);
    times(2, 9999, 1, 2, 3);
    times(2, __NR_io_uring_setup, 1, (long)buffer, 0);
    times(1, __NR_mkdir, (long)"made", 0755, 0);
    if (call(__NR_fork, 0, 0, 0, 0, 0) == 0) {
        times(3, __NR_getpid, 0, 0, 0);
        call(__NR_exit_group, 5, 0, 0, 0, 0);
    }
    call(__NR_wait4, -1, (long)&status, 0, 0, 0);
    times(1, __NR_write, 1, (long)"done\n", 5);
    for (;;)
        call(__NR_exit_group, 7, 0, 0, 0, 0);
}

__attribute__((noreturn)) void _start(void);
void _start(void)
{
    __asm__ volatile("and $-16, %rsp");
    run();
}
