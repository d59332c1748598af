/* Makes exactly these calls: getpid, write, exit_group. No library. */
static long call3(long number, long a, long b, long c) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}

void _start(void) {
    static const char text[] = "exactly these\n";
    if (call3(39, 0, 0, 0) > 0)
        call3(1, 1, (long)text, sizeof text - 1);
    call3(231, 0, 0, 0);
    __builtin_unreachable();
}
