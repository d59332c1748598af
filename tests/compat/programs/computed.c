/* Computes the number of a call from what it is given: nobody can see which one without running it. No library. */
__asm__(".globl _start\n_start:\n  mov %rsp, %rdi\n  and $-16, %rsp\n  call begin\n  hlt\n");

__attribute__((used)) void begin(long *stack) {
    long result, number = 38 + stack[0]; /* the number of words: 1 gives getpid */
    __asm__ volatile("syscall" : "=a"(result) : "a"(number) : "rcx", "r11", "memory");
    __asm__ volatile("syscall" : : "a"(231), "D"(result <= 0) : "rcx", "r11");
}
