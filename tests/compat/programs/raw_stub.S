/* Stubs like Go's: the number comes in a register, or on the stack, through two functions. No library. */
    .globl _start
    .text
Syscall6:                       /* number in rax, arguments in rbx, rcx, rdi: Go since 1.17 */
    mov %rdi, %rdx
    mov %rcx, %rsi
    mov %rbx, %rdi
    syscall
    ret
    .balign 16
Syscall:                        /* saves its arguments across a call of something else */
    sub $40, %rsp
    mov %rax, 16(%rsp)
    mov %rbx, 24(%rsp)
    call nothing
    mov 16(%rsp), %rax
    mov 24(%rsp), %rbx
    xor %ecx, %ecx
    xor %edi, %edi
    call Syscall6
    add $40, %rsp
    ret
    .balign 16
old_stub:                       /* everything on the stack: Go before 1.17 */
    mov 8(%rsp), %rax
    mov 16(%rsp), %rdi
    syscall
    ret
    .balign 16
nothing:
    xor %eax, %eax
    ret
    .balign 16
_start:
    and $-16, %rsp
    mov $110, %eax              /* getppid */
    call Syscall
    sub $16, %rsp
    movq $95, (%rsp)            /* umask */
    movq $022, 8(%rsp)
    call old_stub
    mov $157, %eax              /* prctl(PR_GET_DUMPABLE) */
    mov $3, %ebx
    call Syscall6
    mov $231, %eax
    xor %ebx, %ebx
    call Syscall
    hlt
    .type Syscall6, @function
    .type Syscall, @function
    .type old_stub, @function
    .type nothing, @function
    .type _start, @function
    .section .note.GNU-stack, "", @progbits
