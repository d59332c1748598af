/* build: ape_payload -static -nostdlib -ffreestanding -fno-stack-protector -fno-pie -no-pie -Wl,--build-id=none
 *
 * The program inside the hand-made APE file (see make_ape.py): no libc, prints its arguments, ends with 7.
 */
static long call(long number, long a, long b, long c) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}

static volatile long zero_data[1000]; /* .bss, so that loading has something to clear */
static volatile long data = 42;

static void put(const char *text) {
    long length = 0;
    while (text[length])
        length++;
    call(1, 1, (long)text, length);
}

__attribute__((used)) static void begin(long *stack) {
    char **argv = (char **)(stack + 1);
    put("ape:");
    for (long i = 1; i < stack[0]; i++) {
        put(" ");
        put(argv[i]);
    }
    for (int i = 0; i < 1000; i++)
        data += zero_data[i];
    put(data == 42 ? "\n" : " BAD MEMORY\n");
    call(231, 7, 0, 0);
}

__asm__(".globl _start\n_start:\n\tmovq %rsp, %rdi\n\tandq $-16, %rsp\n\tcall begin\n");
