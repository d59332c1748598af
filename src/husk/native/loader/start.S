/*
 * The first instructions of husk-loader. The kernel's stack becomes the guest's
 * and may be rebuilt in place, so the loader switches to a stack of its own.
 */
        .text
        .globl  _start
        .hidden _start
        .type   _start, @function
_start:
        xor     %ebp, %ebp
        mov     %rsp, %rdi
        lea     own_stack_top(%rip), %rsp
        call    loader_main
        hlt
        .size   _start, . - _start

        .bss
        .balign 16
        .skip   8192
own_stack_top:

        .section .note.GNU-stack, "", @progbits
