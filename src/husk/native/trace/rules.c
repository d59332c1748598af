/* native/trace: runs a seccomp filter in husk, on the notification's own copy of the call.
 *
 * Under trace the host's filter notifies every call, so what the box's ordinary filter would have said has to be worked
 * out here. It is the same program, byte for byte: a trace allows nothing that a run without one would refuse. Only the
 * instructions that walls/bpf.py writes are known; a filter with others is not accepted. */
#include "trace/trace.h"

#include <errno.h>
#include <string.h>

#define REFUSE (SECCOMP_RET_ERRNO | ENOSYS)

bool trace_rules_are_sound(const struct sock_filter *rules, size_t count)
{
    if (count == 0 || count > BPF_MAXINSNS)
        return false;
    for (size_t i = 0; i < count; i++) {
        size_t rest = count - i - 1; /* instructions behind this one: classic BPF only jumps forward */
        switch (rules[i].code) {
        case BPF_LD | BPF_W | BPF_ABS:
            if (rules[i].k % 4 || rules[i].k > sizeof(struct seccomp_data) - 4 || !rest)
                return false;
            break;
        case BPF_ALU | BPF_AND | BPF_K:
            if (!rest)
                return false;
            break;
        case BPF_JMP | BPF_JA:
            if (rules[i].k >= rest)
                return false;
            break;
        case BPF_JMP | BPF_JEQ | BPF_K:
        case BPF_JMP | BPF_JGT | BPF_K:
        case BPF_JMP | BPF_JGE | BPF_K:
        case BPF_JMP | BPF_JSET | BPF_K:
            if (rules[i].jt >= rest || rules[i].jf >= rest)
                return false;
            break;
        case BPF_RET | BPF_K:
            break;
        default:
            return false;
        }
    }
    return true;
}

uint32_t trace_rules_run(const struct sock_filter *rules, size_t count, const struct seccomp_data *data)
{
    uint32_t word = 0;
    for (size_t i = 0; i < count; i++) {
        const struct sock_filter *rule = &rules[i];
        switch (rule->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            memcpy(&word, (const char *)data + rule->k, sizeof word);
            break;
        case BPF_ALU | BPF_AND | BPF_K:
            word &= rule->k;
            break;
        case BPF_JMP | BPF_JA:
            i += rule->k;
            break;
        case BPF_JMP | BPF_JEQ | BPF_K:
            i += word == rule->k ? rule->jt : rule->jf;
            break;
        case BPF_JMP | BPF_JGT | BPF_K:
            i += word > rule->k ? rule->jt : rule->jf;
            break;
        case BPF_JMP | BPF_JGE | BPF_K:
            i += word >= rule->k ? rule->jt : rule->jf;
            break;
        case BPF_JMP | BPF_JSET | BPF_K:
            i += word & rule->k ? rule->jt : rule->jf;
            break;
        case BPF_RET | BPF_K:
            return rule->k;
        default:
            return REFUSE;
        }
    }
    return REFUSE; /* a sound program does not come here */
}
