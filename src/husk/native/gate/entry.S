/*
 * The guest's side of the gate. husk copies this code into page 0 of a gate; it is position-independent and runs in
 * guests only. A stub leads here instead of a call site's `mov $nr, %eax`:
 *
 *   r11        the stub's data
 *   rax, rcx   free, like r11: `syscall` overwrites them
 *   all others as the site left them for its call. The stack is used below the red zone that the site may have, and
 *              only in processes with direct names, which use it as well.
 *
 * There are two ways out, both to the site: with eax = nr to its `syscall` instruction, which then makes the ordinary
 * call; or behind it, with the result in rax. At any instruction a signal may come, whose handler may make calls of its
 * own, jump away, or fork. A child that returns from the handler is still in here, with its parent's slot: the open
 * word is 0 there, which is looked at last before an answer is believed; and an answer to words that were written by
 * two at once has another sum.
 */
#include "gate/layout.h"
#include "loader/resident.h"

#define EINVAL 22
#define EFAULT 14
#define AT_FDCWD -100
#define O_CLOEXEC 0x80000
#define MSG_DONTWAIT 0x40
#define CLOSES_ON_EXEC 11         /* MSG_CMSG_CLOEXEC is O_CLOEXEC shifted by this */
#define O_CREAT 0x40
#define NR_CLOSE 3
#define NR_FSTAT 5
#define NR_LSEEK 8
#define NR_RT_SIGPROCMASK 14
#define NR_UMASK 95
#define NR_FUTEX 202
#define NR_UNSHARE 272
#define SIG_SETMASK 2
#define CLONE_VM 0x100
#define TRAP_FLAG 0x100
#define FUTEX_WAKE_OP_PRIVATE (5 | 128)
#define FUTEX_ADD_0 0x10000abc    /* FUTEX_OP_ADD of 0; were it 0xabc before, a waiter there would wake up */
#define NR_SCHED_YIELD 24
#define NR_RECVMSG 47
#define NR_GETTID 186
#define NR_NEWFSTATAT 262
#define STAT_BYTES 144
#define ROOM (128 + STAT_BYTES + 16) /* on the stack: the red zone, struct stat, a name */

#define AT(offset) (gate_code + (offset))(%rip)
#define SAVED_ARGS (GATE_SAVED_REQUEST + GATE_REQUEST_ARGS)

        .section .rodata.gate, "a", @progbits
        .balign 64
        .globl  gate_code, gate_code_end
        .hidden gate_code, gate_code_end
gate_code:
        cmpl    $0, AT(GATE_OPEN)
        je      plain
        cmpl    $0, AT(GATE_AWAKE)
        je      plain

        /* A slot by the stack: threads have stacks of their own. Whoever finds it locked makes the ordinary call. */
        mov     %rsp, %rax
        mov     %rsp, %rcx
        shr     $12, %rax
        shr     $21, %rcx
        xor     %ecx, %eax
        and     $(GATE_SLOT_COUNT - 1), %eax
        shl     $9, %eax
        lea     AT(GATE_SAVED), %rcx
        add     %rax, %rcx
        mov     $1, %eax
        xchg    %eax, GATE_SAVED_LOCK(%rcx)
        test    %eax, %eax
        jnz     plain

        mov     %rbx, GATE_SAVED_RBX(%rcx)
        mov     %rcx, %rbx
        mov     %r12, GATE_SAVED_R12(%rbx)
        mov     %r11, GATE_SAVED_DATA(%rbx)
        mov     %rdi, SAVED_ARGS + 0(%rbx)
        mov     %rsi, SAVED_ARGS + 8(%rbx)
        mov     %rdx, SAVED_ARGS + 16(%rbx)
        mov     %r10, SAVED_ARGS + 24(%rbx)
        mov     %r8, SAVED_ARGS + 32(%rbx)
        mov     %r9, SAVED_ARGS + 40(%rbx)
        /* rbx: what is remembered. r12: the slot, twice as large. */
        lea     AT(GATE_SAVED), %rax
        mov     %rbx, %r12
        sub     %rax, %r12
        lea     AT(GATE_SLOTS), %rax
        lea     (%rax, %r12, 2), %r12

        mov     GATE_DATA_NR(%r11), %eax
        mov     %rax, GATE_SAVED_REQUEST + GATE_REQUEST_NR(%rbx)

        /*
         * A descriptor comes through the channel. The guest may have closed that, and have something else there: look,
         * before husk is asked for one.
         */
        cmpw    $GATE_DESCRIPTOR, GATE_DATA_SIZE(%r11)
        jne     named
        movzbl  GATE_DATA_OUT(%r11), %eax
        mov     SAVED_ARGS(%rbx, %rax, 8), %eax
        testl   $~(GATE_OPENS | GATE_CREATES), %eax
        jnz     give_up
        testl   $GATE_CREATES, %eax
        jz      1f
        testl   $O_CREAT, %eax
        jz      give_up
1:      cmpq    $0, AT(GATE_CHANNEL_INO)
        je      give_up
        lea     -ROOM(%rsp), %rsp
        mov     $NR_FSTAT, %edi
        mov     $GATE_CHANNEL, %esi
        mov     %rsp, %rdx
        movabs  $(HUSK_RESIDENT + HUSK_RESIDENT_DIRECT), %rax
        call    *%rax
        mov     (%rsp), %rcx
        mov     8(%rsp), %rdx
        lea     ROOM(%rsp), %rsp
        test    %eax, %eax
        jnz     give_up
        cmp     %rcx, AT(GATE_CHANNEL_DEV)
        jne     give_up
        cmp     %rdx, AT(GATE_CHANNEL_INO)
        jne     give_up
        mov     GATE_SAVED_DATA(%rbx), %r11

named:  xor     %eax, %eax
        mov     %rax, GATE_SAVED_GUESS(%rbx) /* and GATE_SAVED_TRIED */
        mov     %rax, GATE_SAVED_REQUEST + GATE_REQUEST_DEV(%rbx)
        mov     %rax, GATE_SAVED_REQUEST + GATE_REQUEST_INO(%rbx)
        mov     %rax, GATE_SAVED_REQUEST + GATE_REQUEST_SIZE(%rbx)
        mov     %rax, GATE_SAVED_REQUEST + GATE_REQUEST_NAME(%rbx)
        cmpb    $GATE_NO_NAME, GATE_DATA_NAME(%r11)
        je      nameless
        movzbl  GATE_DATA_NAME(%r11), %eax
        mov     SAVED_ARGS(%rbx, %rax, 8), %rsi
        test    %rsi, %rsi              /* utimensat: of the descriptor itself. Else it cannot be read */
        jnz     1f
        cmpw    $GATE_TIMES, GATE_DATA_SIZE(%r11)
        je      thread
1:
        /*
         * A name that cannot be read must give EFAULT, not a fault. The host reads eight bytes of it before it finds
         * that -1 is no operation. The page of the stack that the caller runs on needs no try.
         */
        mov     %rsi, %rax
        xor     %rsp, %rax
        shr     $12, %rax
        jz      copy
        mov     $NR_RT_SIGPROCMASK, %eax
        mov     $-1, %edi
        xor     %edx, %edx
        mov     $8, %r10d
        syscall
        cmp     $-EINVAL, %rax
        jne     give_up

        /* To the end of its page at most. */
copy:   lea     GATE_SAVED_REQUEST + GATE_REQUEST_NAME(%rbx), %rdi
        mov     %esi, %ecx
        neg     %ecx
        and     $(GATE_PAGE - 1), %ecx
        jz      1f
        cmp     $GATE_LONGEST_NAME + 1, %ecx
        jbe     2f
1:      mov     $GATE_LONGEST_NAME + 1, %ecx
2:      xor     %edx, %edx
3:      movzbl  (%rsi, %rdx), %eax
        mov     %al, (%rdi, %rdx)
        test    %eax, %eax
        jz      4f
        inc     %edx
        cmp     %ecx, %edx
        jb      3b
        jmp     give_up
4:      movq    $0, (%rdi, %rdx)
        mov     %rdx, GATE_SAVED_REQUEST + GATE_REQUEST_SIZE(%rbx)

        /*
         * Only a name that begins in a directory of the thread's needs to say which thread, or which directory: the
         * host says that quicker to us than to husk, where the filter allows it (direct names). Then the thread is said
         * only if husk asks for it, or if the call makes a file: that has its maker's umask.
         */
        mov     GATE_SAVED_DATA(%rbx), %r11
        cmpb    $'/', (%rdi)
        je      whose
        test    %edx, %edx              /* an empty name: the descriptor itself is meant, mostly a file */
        jz      thread
        cmpq    $0, GATE_DATA_NAMES(%r11)
        je      thread
        mov     $AT_FDCWD, %rcx
        cmpb    $0, GATE_DATA_NAME(%r11)
        je      1f
        movslq  SAVED_ARGS(%rbx), %rcx

        /*
         * A question with a buffer may take the descriptor for what it was the last time: whether that is right we ask
         * the host while husk looks for the name.
         */
1:      movzwl  GATE_DATA_SIZE(%r11), %eax
        dec     %eax
        cmp     $GATE_LEAST_KIND - 2, %eax
        ja      sure
        cmp     %rcx, GATE_SAVED_FD(%rbx)
        jne     sure
        mov     GATE_SAVED_DEV(%rbx), %rcx
        mov     GATE_SAVED_INO(%rbx), %rdx
        test    %rdx, %rdx
        jz      sure
        movl    $1, GATE_SAVED_GUESS(%rbx)
        jmp     told
sure:   movslq  %ecx, %rcx
        mov     %rcx, GATE_SAVED_FD(%rbx)
        movq    $0, GATE_SAVED_INO(%rbx)
        lea     -ROOM(%rsp), %rsp
        call    where
        lea     ROOM(%rsp), %rsp
        test    %eax, %eax
        jnz     thread
        mov     %rcx, GATE_SAVED_DEV(%rbx)
        mov     %rdx, GATE_SAVED_INO(%rbx)
told:   mov     %rcx, GATE_SAVED_REQUEST + GATE_REQUEST_DEV(%rbx)
        mov     %rdx, GATE_SAVED_REQUEST + GATE_REQUEST_INO(%rbx)
        mov     GATE_SAVED_DATA(%rbx), %r11
whose:  movzwl  GATE_DATA_SIZE(%r11), %ecx
        cmp     $GATE_LISTING, %ecx
        je      thread
        cmp     $GATE_MAKES, %ecx
        je      thread
        xor     %eax, %eax
        cmp     $GATE_DESCRIPTOR, %ecx
        jne     5f
        movzbl  GATE_DATA_OUT(%r11), %ecx
        testl   $O_CREAT, SAVED_ARGS(%rbx, %rcx, 8)
        jz      5f
thread: mov     $NR_GETTID, %eax
        syscall
5:      mov     %rax, GATE_SAVED_REQUEST + GATE_REQUEST_TID(%rbx)
        mov     GATE_SAVED_DATA(%rbx), %r11
        cmpw    $GATE_MAKES, GATE_DATA_SIZE(%r11)
        je      mask
        cmpw    $GATE_DESCRIPTOR, GATE_DATA_SIZE(%r11)
        jne     words
        movzbl  GATE_DATA_OUT(%r11), %ecx
        testl   $O_CREAT, SAVED_ARGS(%rbx, %rcx, 8)
        jnz     mask

words:  /* rcx: how many words there are. Times come behind the name, if they can be read. */
        mov     GATE_SAVED_REQUEST + GATE_REQUEST_SIZE(%rbx), %ecx
        shr     $3, %ecx
        add     $GATE_REQUEST_WORDS + 1, %ecx
        mov     GATE_SAVED_DATA(%rbx), %r11
        cmpw    $GATE_TIMES, GATE_DATA_SIZE(%r11)
        jne     sum
        mov     SAVED_ARGS + 16(%rbx), %rsi
        test    %rsi, %rsi
        jz      sum
        mov     %rsi, %r8
        mov     %ecx, %r9d
4:      mov     $NR_RT_SIGPROCMASK, %eax
        mov     $-1, %edi
        xor     %edx, %edx
        mov     $8, %r10d
        syscall
        cmp     $-EINVAL, %rax
        jne     give_up
        lea     GATE_TIMES_BYTES - 8(%r8), %rax
        cmp     %rax, %rsi
        mov     %rax, %rsi
        jne     4b
        xor     %edx, %edx
        lea     GATE_SAVED_REQUEST(%rbx, %r9, 8), %rdi
4:      mov     (%r8, %rdx), %rax
        mov     %rax, (%rdi, %rdx)
        add     $8, %edx
        cmp     $GATE_TIMES_BYTES, %edx
        jb      4b
        lea     GATE_TIMES_BYTES / 8(%r9), %ecx

        /* Into the slot, word by word, with their sum. */
sum:    movabs  $GATE_SUM_FACTOR, %rdi
        xor     %r8d, %r8d
        xor     %edx, %edx
6:      mov     GATE_SAVED_REQUEST(%rbx, %rdx, 8), %rax
        mov     %rax, GATE_SLOT_REQUEST(%r12, %rdx, 8)
        xor     %rax, %r8
        imul    %rdi, %r8
        mov     %r8, %rax
        shr     $GATE_SUM_SHIFT, %rax
        xor     %rax, %r8
        inc     %edx
        cmp     %ecx, %edx
        jb      6b
        mov     %r8, GATE_SAVED_SUM(%rbx)

        mov     GATE_SAVED_TURN(%rbx), %edi
        add     $GATE_STATES + 1, %edi
        mov     %edi, GATE_SAVED_TURN(%rbx)
        lea     GATE_POSTED(%rdi), %eax
        cmpl    $0, AT(GATE_OPEN)       /* a child that a handler forked leaves asking to its parent */
        je      give_up
        mov     %eax, GATE_SLOT_STATE(%r12)

        /* Meanwhile: was the guess right? */
        cmpl    $0, GATE_SAVED_GUESS(%rbx)
        je      2f
        lea     -ROOM(%rsp), %rsp
        call    where
        lea     ROOM(%rsp), %rsp
        cmp     %rcx, GATE_SAVED_DEV(%rbx)
        jne     wrong
        cmp     %rdx, GATE_SAVED_INO(%rbx)
        jne     wrong
        test    %eax, %eax
        jnz     wrong

        /*
         * And can a buffer of known size be written? Its first and last word are given to an atomic addition of 0,
         * which leaves them as they are: the answer may be that there is nothing to write. Nobody waits for the word of
         * ours that this wakes. On the page of the caller's stack there is nothing to try, as with the name above.
         */
2:      mov     GATE_SAVED_DATA(%rbx), %r11
        movzwl  GATE_DATA_SIZE(%r11), %ecx
        lea     -1(%rcx), %eax
        cmp     $GATE_LEAST_KIND - 2, %eax
        ja      posted
        movzbl  GATE_DATA_OUT(%r11), %eax
        mov     SAVED_ARGS(%rbx, %rax, 8), %r8
        lea     -1(%r8, %rcx), %r10     /* its last byte; to the host the number of waiters to wake */
        mov     %r8, %rax
        xor     %rsp, %rax
        mov     %r10, %rcx
        xor     %rsp, %rcx
        or      %rcx, %rax
        shr     $12, %rax
        jz      4f
        and     $-4, %r8
        and     $-4, %r10
        lea     GATE_SAVED_TRIED(%rbx), %rdi
        mov     $FUTEX_WAKE_OP_PRIVATE, %esi
        xor     %edx, %edx
        mov     $FUTEX_ADD_0, %r9d
3:      mov     $NR_FUTEX, %eax
        syscall
        test    %rax, %rax
        js      posted
        mov     %r8, %rax
        xor     %r10, %rax
        mov     %r10, %r8
        shr     $12, %rax
        jnz     3b
4:      movl    $1, GATE_SAVED_TRIED(%rbx)

posted: mov     GATE_SAVED_TURN(%rbx), %edi
        mov     $GATE_SPINS, %ecx
wait:   cmp     %edi, GATE_SLOT_ANSWERED(%r12)
        je      done
        pause
        dec     %ecx
        jnz     wait
        lea     GATE_POSTED(%rdi), %eax
        mov     %edi, %edx
        lock cmpxchg %edx, GATE_SLOT_STATE(%r12)
        je      give_up
        lea     GATE_TAKEN(%rdi), %edx
        cmp     %edx, %eax
        jne     give_up                 /* another turn, or withdrawn: a child of a handler's fork was here */
        /* husk has taken it, and lost its processor meanwhile. */
        cmpl    $0, AT(GATE_OPEN)
        je      give_up
        mov     $NR_SCHED_YIELD, %eax
        syscall
        mov     $GATE_SPINS, %ecx
        jmp     wait

done:   mov     GATE_SLOT_SUM(%r12), %rax
        cmp     GATE_SAVED_SUM(%rbx), %rax
        jne     give_up
        mov     GATE_SLOT_VALUE(%r12), %rax
        mov     %rax, GATE_SAVED_VALUE(%rbx)
        mov     GATE_SLOT_SIZE(%r12), %r8
        test    %r8, %r8
        jz      believe
        mov     GATE_SAVED_DATA(%rbx), %r11
        movzwl  GATE_DATA_SIZE(%r11), %eax
        cmp     %rax, %r8
        jne     6f
        cmp     $GATE_DESCRIPTOR, %eax
        je      receive
        cmp     $GATE_LISTING, %eax
        je      list
        jmp     7f
6:      cmp     $GATE_WHO, %r8
        je      who
        cmp     $GATE_ANY_SIZE, %eax
        jne     give_up                 /* as when it was declined */
        lea     -8(%r8), %rax
        cmp     $(GATE_LARGEST_DATA - 8), %rax
        ja      give_up
7:
        movzbl  GATE_DATA_OUT(%r11), %eax
        mov     SAVED_ARGS(%rbx, %rax, 8), %r9
        cmpl    $0, GATE_SAVED_TRIED(%rbx)
        jne     write

        /* Can the buffer be written? The host puts the signal mask there, at both ends if they are on two pages. */
        lea     -8(%r9, %r8), %rdx
8:      mov     $NR_RT_SIGPROCMASK, %eax
        xor     %edi, %edi
        xor     %esi, %esi
        mov     $8, %r10d
        syscall
        test    %rax, %rax
        jnz     fault
        mov     %rdx, %rax
        xor     %r9, %rax
        mov     %r9, %rdx
        shr     $12, %rax
        jnz     8b

write:
        /* Words, and what is left as the last eight bytes. */
        mov     $8, %edx
9:      mov     GATE_SLOT_DATA - 8(%r12, %rdx), %rax
        mov     %rax, -8(%r9, %rdx)
        add     $8, %rdx
        cmp     %r8, %rdx
        jb      9b
        mov     GATE_SLOT_DATA - 8(%r12, %r8), %rax
        mov     %rax, -8(%r9, %r8)

believe:
        cmpl    $0, AT(GATE_OPEN)
        je      child
opened: mov     GATE_SAVED_VALUE(%rbx), %rax
        mov     GATE_SAVED_DATA(%rbx), %r11
        mov     GATE_DATA_BACK(%r11), %r11
        add     $2, %r11
        jmp     leave

        /*
         * husk has moved the directory's position behind the records. Each page of the buffer is tried, and the end,
         * before they are copied; no record is smaller than 24 bytes. If the buffer cannot be written, the position
         * goes back, and the ordinary call says so.
         */
list:   mov     GATE_SAVED_VALUE(%rbx), %r8
        test    %r8, %r8
        jz      listed
        cmp     $GATE_LISTING_BYTES, %r8
        ja      give_up
        movzbl  GATE_DATA_OUT(%r11), %eax
        mov     SAVED_ARGS(%rbx, %rax, 8), %r9
        mov     %r9, %rdx
        xor     %edi, %edi
        xor     %esi, %esi
        mov     $8, %r10d
1:      mov     $NR_RT_SIGPROCMASK, %eax
        syscall
        test    %rax, %rax
        jnz     unread
        lea     -8(%r9, %r8), %rax
        cmp     %rax, %rdx
        je      2f
        and     $-GATE_PAGE, %rdx
        add     $GATE_PAGE, %rdx
        cmp     %rax, %rdx
        cmova   %rax, %rdx
        jmp     1b
2:      lea     AT(GATE_LISTING_AT), %rsi
        mov     %r9, %rdi
        mov     %r8, %rcx
        rep movsb
listed: mov     GATE_SAVED_TURN(%rbx), %eax
        mov     %eax, GATE_SLOT_STATE(%r12) /* the next listing may come */
        jmp     believe
unread: mov     GATE_SLOT_DATA(%r12), %rsi
        mov     GATE_SAVED_TURN(%rbx), %eax
        mov     %eax, GATE_SLOT_STATE(%r12)
        mov     SAVED_ARGS(%rbx), %rdi
        xor     %edx, %edx
        mov     $NR_LSEEK, %eax
        syscall
        jmp     give_up

        /*
         * The umask of what is made. husk would read it from /proc, which takes six times as long as to set it twice
         * here. Nobody may make a file in between: so signals are blocked, and the process has one thread (only then
         * can it stop sharing its memory). One that steps through its own instructions has to be left alone.
         */
mask:   lea     -128(%rsp), %rsp
        pushfq
        pop     %rax
        lea     128(%rsp), %rsp
        test    $TRAP_FLAG, %eax
        jnz     words
        mov     $NR_RT_SIGPROCMASK, %eax
        mov     $SIG_SETMASK, %edi
        lea     all_signals(%rip), %rsi
        lea     GATE_SAVED_MASK(%rbx), %rdx
        mov     $8, %r10d
        syscall
        test    %rax, %rax
        jnz     words
        mov     $NR_UNSHARE, %eax
        mov     $CLONE_VM, %edi
        syscall
        test    %rax, %rax
        jnz     1f
        mov     $NR_UMASK, %eax
        mov     $077, %edi
        syscall
        mov     %eax, %edi
        inc     %eax
        mov     %eax, GATE_SAVED_REQUEST + GATE_REQUEST_UMASK(%rbx)
        mov     $NR_UMASK, %eax
        syscall
1:      mov     $NR_RT_SIGPROCMASK, %eax
        mov     $SIG_SETMASK, %edi
        lea     GATE_SAVED_MASK(%rbx), %rsi
        xor     %edx, %edx
        mov     $8, %r10d
        syscall
        jmp     words

        /* An open directory, and who has it. */
nameless:
        cmpw    $GATE_LISTING, GATE_DATA_SIZE(%r11)
        jne     thread
        cmpq    $0, GATE_DATA_NAMES(%r11)
        je      give_up
        movslq  SAVED_ARGS(%rbx), %rcx
        jmp     sure

        /*
         * Which directory the first argument is, or the working directory: its device in rcx, its inode in rdx, 0 in
         * eax. Called with ROOM on the stack.
         */
where:  mov     GATE_SAVED_DATA(%rbx), %r11
        cmpb    $0, GATE_DATA_NAME(%r11)
        je      1f
        movslq  SAVED_ARGS(%rbx), %rsi
        cmp     $AT_FDCWD, %esi
        je      1f
        mov     $NR_FSTAT, %edi
        lea     8(%rsp), %rdx
        jmp     2f
1:      movl    $'.', 8 + STAT_BYTES(%rsp)
        mov     $NR_NEWFSTATAT, %edi
        mov     $AT_FDCWD, %rsi
        lea     8 + STAT_BYTES(%rsp), %rdx
        lea     8(%rsp), %rcx
        xor     %r8d, %r8d
2:      movabs  $(HUSK_RESIDENT + HUSK_RESIDENT_DIRECT), %rax
        call    *%rax
        mov     8(%rsp), %rcx           /* st_dev and st_ino */
        mov     16(%rsp), %rdx
        ret

wrong:  movq    $0, GATE_SAVED_INO(%rbx)
        mov     GATE_SAVED_TURN(%rbx), %eax
        mov     %eax, GATE_SLOT_STATE(%r12)
        jmp     give_up

who:    cmpq    $0, GATE_SAVED_REQUEST + GATE_REQUEST_TID(%rbx)
        je      thread
        jmp     give_up

        /* Forked after its parent had asked. A question may be asked again; a change was made for both. */
child:  mov     GATE_SAVED_DATA(%rbx), %r11
        movzwl  GATE_DATA_SIZE(%r11), %ecx
        test    %ecx, %ecx
        jz      1f
        cmp     $GATE_TIMES, %ecx
        jne     give_up
1:      mov     GATE_SAVED_TURN(%rbx), %eax
        add     $GATE_TAKEN, %eax
        cmp     %eax, GATE_SLOT_STATE(%r12)
        jne     give_up
        jmp     opened

fault:  movq    $-EFAULT, GATE_SAVED_VALUE(%rbx)
        jmp     believe

        /*
         * A child that a handler forked just now may be here as well. One of the two gets the message, and the other
         * makes the ordinary call.
         */
receive:
        lea     GATE_MESSAGE(%rbx), %rdx
        xor     %eax, %eax
        mov     %rax, (%rdx)            /* no address */
        mov     %rax, 8(%rdx)
        mov     %rax, GATE_MESSAGE_FLAGS(%rdx)
        mov     %rax, GATE_MESSAGE_RIGHTS(%rdx)
        lea     GATE_MESSAGE_PART(%rdx), %rax
        mov     %rax, GATE_MESSAGE_PARTS(%rdx)
        movq    $1, GATE_MESSAGE_PART_COUNT(%rdx)
        lea     GATE_MESSAGE_RIGHTS(%rdx), %rax
        mov     %rax, GATE_MESSAGE_CONTROL(%rdx)
        movq    $GATE_RIGHTS_ROOM, GATE_MESSAGE_CONTROL_SIZE(%rdx)
        lea     GATE_MESSAGE_SUM(%rdx), %rax
        mov     %rax, GATE_MESSAGE_PART(%rdx)
        movq    $8, GATE_MESSAGE_PART + 8(%rdx)
        movzbl  GATE_DATA_OUT(%r11), %eax
        mov     SAVED_ARGS(%rbx, %rax, 8), %ecx
        and     $O_CLOEXEC, %ecx
        shl     $CLOSES_ON_EXEC, %ecx
        or      $MSG_DONTWAIT, %ecx
        mov     $NR_RECVMSG, %edi
        mov     $GATE_CHANNEL, %esi
        lea     -128(%rsp), %rsp
        movabs  $(HUSK_RESIDENT + HUSK_RESIDENT_DIRECT), %rax
        call    *%rax
        lea     128(%rsp), %rsp
        cmp     $8, %rax
        jne     give_up
        cmpq    $GATE_RIGHTS_BYTES, GATE_MESSAGE + GATE_MESSAGE_RIGHTS(%rbx)
        jne     give_up                 /* there was no room for it in the guest's table */
        movslq  GATE_MESSAGE + GATE_MESSAGE_FD(%rbx), %rdi
        mov     %rdi, GATE_SAVED_VALUE(%rbx)
        mov     GATE_MESSAGE + GATE_MESSAGE_SUM(%rbx), %rax
        cmp     GATE_SAVED_SUM(%rbx), %rax
        je      opened
        mov     $NR_CLOSE, %eax
        syscall
        jmp     give_up

give_up:
        mov     GATE_SAVED_DATA(%rbx), %r11
        mov     GATE_DATA_NR(%r11), %eax
        mov     GATE_DATA_BACK(%r11), %r11

leave:  mov     SAVED_ARGS + 0(%rbx), %rdi
        mov     SAVED_ARGS + 8(%rbx), %rsi
        mov     SAVED_ARGS + 16(%rbx), %rdx
        mov     SAVED_ARGS + 24(%rbx), %r10
        mov     SAVED_ARGS + 32(%rbx), %r8
        mov     SAVED_ARGS + 40(%rbx), %r9
        mov     GATE_SAVED_R12(%rbx), %r12
        mov     %rbx, %rcx
        mov     GATE_SAVED_RBX(%rbx), %rbx
        movl    $0, GATE_SAVED_LOCK(%rcx) /* nothing is read from it any more */
        mov     %r11, %rcx              /* as after a `syscall`, where it is behind one */
        jmp     *%r11

plain:  mov     GATE_DATA_NR(%r11), %eax
        mov     GATE_DATA_BACK(%r11), %r11
        jmp     *%r11

        .balign 8
all_signals:
        .quad   -1
gate_code_end:

        .section .note.GNU-stack, "", @progbits
