/*
 * Exits 0 if the machine looks at entry as execve leaves it: every register
 * zero, no status flag, a 16-byte aligned stack, x87 and SSE controls pristine.
 */
        .globl  _start
_start:
        pushfq                          /* before anything changes them */
        or      %rbx, %rax
        or      %rcx, %rax
        or      %rdx, %rax
        or      %rsi, %rax
        or      %rdi, %rax
        or      %rbp, %rax
        or      %r8, %rax
        or      %r9, %rax
        or      %r10, %rax
        or      %r11, %rax
        or      %r12, %rax
        or      %r13, %rax
        or      %r14, %rax
        or      %r15, %rax
        mov     $1, %edi
        jnz     done
        pop     %rax
        mov     $2, %edi
        cmp     $0x202, %rax
        jne     done
        mov     $3, %edi
        test    $15, %rsp
        jnz     done
        mov     $4, %edi
        sub     $16, %rsp
        stmxcsr (%rsp)
        cmpl    $0x1f80, (%rsp)
        jne     done
        mov     $5, %edi
        fnstcw  (%rsp)
        cmpw    $0x37f, (%rsp)
        jne     done
        mov     $6, %edi
        movq    %xmm0, %rax
        test    %rax, %rax
        jnz     done
        xor     %edi, %edi
done:
        mov     $231, %eax
        syscall
        .section .note.GNU-stack, "", @progbits
