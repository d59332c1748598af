/*
 * Code that stays in the guest at HUSK_RESIDENT: signal thunks, and the stub
 * that ends the loader. main.c copies it there, so it is position-independent;
 * its data is on the next page.
 */
#include "protocol.h"
#include "resident.h"

#define DATA(offset) (loader_resident_code + HUSK_RESIDENT_CODE_BYTES + (offset))(%rip)

/* Offsets in struct ucontext; the kernel's signal ABI. */
#define UC_R10 56
#define UC_RDI 104
#define UC_RSI 112
#define UC_RDX 136
#define UC_RAX 144
#define UC_RCX 152
#define UC_RIP 168

#define EINTR 4
#define NR_FUTEX 202
#define FUTEX_OP_MASK 0x7f
#define FUTEX_LOCK_PI 6
#define FUTEX_LOCK_PI2 13
#define NR_MUNMAP 11
#define NR_RT_SIGACTION 13
#define SA_RESTART 0x10000000

        .section .rodata.resident, "a", @progbits
        .balign 64
        .globl  loader_resident_code, loader_resident_code_end
        .hidden loader_resident_code, loader_resident_code_end
loader_resident_code:

/*
 * Any signal interrupts a virtual call that the supervisor has not yet received.
 * With a handler without SA_RESTART the call would fail with EINTR, which Linux
 * never does for open or stat. So the supervisor installs a thunk with
 * SA_RESTART in the handler's place, and the thunk returns EINTR for those calls
 * that do end with it on Linux (read, wait4, ...).
 *
 * Entered as the kernel enters a handler: rdi = signal, rsi = siginfo,
 * rdx = ucontext, rsp at the return address. Uses rax, rcx, r8-r15, no stack:
 * the handler may expect nothing of them, and sigreturn restores them all.
 */
        .set    slot, 0
        .rept   HUSK_THUNKS
        .balign HUSK_THUNK_STRIDE
        endbr64
        mov     $slot, %eax
        jmp     thunk_tail
        .set    slot, slot + 1
        .endr

        .balign HUSK_THUNK_STRIDE
thunk_tail:
        /*
         * The kernel's signal frame is the return address followed by the
         * ucontext. If rdx is anything else, some function called us with a
         * handler's signature and rdx may be no ucontext: just pass through.
         */
        lea     8(%rsp), %rcx
        cmp     %rcx, %rdx
        jne     1f
        /*
         * `syscall` leaves its return address in rcx. To restart a call the
         * kernel steps rip back over the two-byte instruction, so exactly then
         * rcx = rip + 2. The same holds on the way into a call repeated in a
         * loop: EINTR before it began is as good as EINTR right after.
         */
        mov     UC_RIP(%rdx), %r8
        add     $2, %r8
        cmp     %r8, UC_RCX(%rdx)
        jne     1f
        mov     UC_RAX(%rdx), %r9
        cmp     $512, %r9
        jae     1f
        lea     DATA(HUSK_RES_EINTR), %r10
        bt      %r9, (%r10)
        jnc     1f
        /* futex is two calls in one: waiting ends with EINTR, locking with priority inheritance never does. */
        cmp     $NR_FUTEX, %r9
        jne     2f
        mov     UC_RSI(%rdx), %r9d
        and     $FUTEX_OP_MASK, %r9d
        cmp     $FUTEX_LOCK_PI, %r9d
        je      1f
        cmp     $FUTEX_LOCK_PI2, %r9d
        je      1f
2:
        /* Under trace read and wait4 wait for the supervisor too: only it knows whether the call had begun. */
        btq     $HUSK_ASKS_BIT % 64, HUSK_ASKS_BIT / 64 * 8(%r10)
        jnc     3f
        mov     %rdi, %r12
        mov     %rsi, %r13
        mov     %rdx, %r14
        mov     %rax, %r15
        mov     $HUSK_WAS_BEGUN, %edi
        mov     UC_RAX(%r14), %rsi
        mov     UC_RDI(%r14), %rdx
        mov     UC_RSI(%r14), %r10
        mov     UC_R10(%r14), %r9
        mov     UC_RDX(%r14), %r8
        mov     $HUSK_CALL, %eax
        syscall
        mov     %rax, %r9
        mov     %r12, %rdi
        mov     %r13, %rsi
        mov     %r14, %rdx
        mov     %r15, %rax
        mov     UC_RCX(%rdx), %r8       /* equals rip + 2, see above */
        test    %r9, %r9
        jz      1f
3:
        movq    $-EINTR, UC_RAX(%rdx)
        mov     %r8, UC_RIP(%rdx)
1:
        lea     DATA(HUSK_RES_SLOTS), %r10
        mov     (%r10, %rax, 8), %r10
        xor     %eax, %eax              /* as the kernel has it on entry */
        jmp     *%r10

/*
 * leave(rdi = loader's image, rsi = its length, rdx = guest's stack pointer):
 * unmap the loader, stack and caller included, and start the guest as execve
 * would: every register zero, no flag set.
 */
        .org    loader_resident_code + HUSK_RESIDENT_LEAVE
        mov     %rdx, %rsp
        mov     $NR_MUNMAP, %eax
        syscall
        mov     $1, %eax
        add     $0, %eax                /* one bit set: clears every status flag */
        mov     $0, %eax                /* mov, since xor would set ZF and PF */
        mov     $0, %ebx
        mov     $0, %ecx
        mov     $0, %edx
        mov     $0, %esi
        mov     $0, %edi
        mov     $0, %ebp
        mov     $0, %r8d
        mov     $0, %r9d
        mov     $0, %r10d
        mov     $0, %r11d
        mov     $0, %r12d
        mov     $0, %r13d
        mov     $0, %r14d
        mov     $0, %r15d
        /* Through memory: all registers are spent and the stack is the guest's. */
        jmp     *DATA(HUSK_RES_ENTRY)

/*
 * rt_sigaction from a call site that a gate leads here in the place of its `mov $13, %eax`. Where the supervisor would
 * only let the host answer, the call is made here: the filter knows this `syscall` instruction by its address. That is
 * so when no handler is installed, or one that needs no thunk. Where the old action is a thunk, the handler behind it
 * is shown, as the supervisor would show it. Any other call is made at its own site.
 *
 * Free are rax, rcx and r11, which `syscall` overwrites. No stack is used, and nothing is written but what the host has
 * just written: a signal may come at any instruction. The action is looked at only where that cannot fault: in the page
 * of the stack pointer, where C libraries have it.
 */
        .org    loader_resident_code + HUSK_RESIDENT_SIGACTION
        lea     -1(%rdi), %ecx
        cmp     $63, %ecx
        ja      ordinary
        test    %rsi, %rsi
        jz      call
        mov     %rsi, %rax
        xor     %rsp, %rax
        shr     $12, %rax
        jnz     ordinary
        test    $7, %sil
        jnz     ordinary
        cmpq    $1, (%rsi)              /* SIG_DFL, SIG_IGN */
        jbe     call
        testl   $SA_RESTART, 8(%rsi)    /* such a handler needs no thunk */
        jz      ordinary
        mov     DATA(HUSK_RES_THUNKED), %rax
        bt      %rcx, %rax
        jnc     call                    /* else the supervisor notes that the signal has a thunk no more */
ordinary:
        mov     $NR_RT_SIGACTION, %eax
        mov     DATA(HUSK_RES_SIGACTION), %r11
        sub     $2, %r11
        jmp     *%r11
call:
        mov     $NR_RT_SIGACTION, %eax
        jmp     native
        .org    loader_resident_code + HUSK_RESIDENT_SIGACTION_CALL
native:
        syscall
        test    %rax, %rax
        jnz     back
        test    %rdx, %rdx
        jz      back
        movabs  $HUSK_RESIDENT, %r11
        mov     (%rdx), %rcx
        sub     %r11, %rcx
        cmp     $(HUSK_THUNKS * HUSK_THUNK_STRIDE), %rcx
        jae     back
        shr     $4, %ecx                /* by HUSK_THUNK_STRIDE */
        lea     DATA(HUSK_RES_SLOTS), %r11
        mov     (%r11, %rcx, 8), %rcx
        mov     %rcx, (%rdx)
        andl    $~SA_RESTART, 8(%rdx)
back:
        mov     DATA(HUSK_RES_SIGACTION), %rcx  /* as after a `syscall` there */
        jmp     *%rcx

/* direct(nr, a, b, c, d): a call that the filter knows by the address of its `syscall` instruction. */
        .org    loader_resident_code + HUSK_RESIDENT_DIRECT
        mov     %rdi, %rax
        mov     %rsi, %rdi
        mov     %rdx, %rsi
        mov     %rcx, %rdx
        mov     %r8, %r10
        jmp     direct
        .org    loader_resident_code + HUSK_RESIDENT_DIRECT_CALL
direct:
        syscall
        ret
loader_resident_code_end:

        .section .note.GNU-stack, "", @progbits
