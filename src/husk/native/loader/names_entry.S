/*
 * Where call sites of the C library lead for direct names, in the place of their `mov $nr, %eax`. main.c copies it to
 * HUSK_NAMES, with names.c behind it: both are position-independent.
 *
 *   r11        the stub's data (gate/layout.h)
 *   rax, rcx   free, like r11: `syscall` overwrites them
 *   all others as the site left them for its call
 *
 * It runs on the guest's stack, below the red zone, so that signals, threads, fork and vfork need no care: there is no
 * state but this. The way out is behind the site's `syscall`, with the result; or on to what the stub has for calls
 * that are not answered here.
 */
#include "gate/layout.h"

        .section husk_names, "ax", @progbits
        .globl  loader_names_entry
        .hidden loader_names_entry
loader_names_entry:
        lea     -128(%rsp), %rsp
        push    %r11
        push    %r9
        push    %r8
        push    %r10
        push    %rdx
        push    %rsi
        push    %rdi
        mov     %rsp, %rdi
        call    loader_names_answer
        pop     %rdi
        pop     %rsi
        pop     %rdx
        pop     %r10
        pop     %r8
        pop     %r9
        pop     %r11
        lea     128(%rsp), %rsp
        movabs  $GATE_UNANSWERED, %rcx
        cmp     %rcx, %rax
        je      1f
        mov     GATE_DATA_BACK(%r11), %rcx
        add     $2, %rcx                /* as after a `syscall` there */
        mov     %rcx, %r11
        jmp     *%rcx
1:      mov     GATE_DATA_NR(%r11), %eax
        mov     GATE_DATA_BACK(%r11), %rcx
        cmpq    $0, GATE_DATA_NEXT(%r11)
        jne     2f
        mov     %rcx, %r11
        jmp     *%rcx
2:      jmp     *GATE_DATA_NEXT(%r11)

        .section .note.GNU-stack, "", @progbits
