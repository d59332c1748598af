/* Sets the base of %gs, ignores the answer, and reads through it: fine on Linux, a fault where the call is missing.
 * Programs that Cosmopolitan built did this at their start. No library; the test places `block` at 0x66ae00. */
__attribute__((section(".gsblock"), used)) static int block[64] = {0, 7};

void _start(void) {
    long result;
    int found;
    __asm__ volatile("syscall" : "=a"(result) : "a"(158), "D"(0x1001), "S"(block) : "rcx", "r11", "memory");
    __asm__ volatile("movl %%gs:4, %0" : "=a"(found));
    __asm__ volatile("syscall" : : "a"(231), "D"(found != 7) : "rcx", "r11");
    __builtin_unreachable();
}
