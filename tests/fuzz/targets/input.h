/* Shared by all targets: the fuzzer's bytes, consumed from the front. A target includes the C file that it tests, after it
 * has replaced the host calls of that file by functions of its own. */
#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* as Python.h has it, which may come later */
#endif
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t *input;
static size_t input_size;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void eat(void *to, size_t size)
{
    size_t have = size < input_size ? size : input_size;
    memset(to, 0, size);
    if (have) { /* an empty input may have no address at all */
        memcpy(to, input, have);
        input += have, input_size -= have;
    }
}

static inline uint8_t eat_byte(void)
{
    uint8_t byte;
    eat(&byte, 1);
    return byte;
}

static inline uint64_t eat_word(void)
{
    uint64_t word;
    eat(&word, 8);
    return word;
}

/* Not assert(): it must hold whatever the flags say. */
#define MUST(condition)                                                                                                    \
    do                                                                                                                     \
        if (!(condition)) {                                                                                                \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);                                   \
            abort();                                                                                                       \
        }                                                                                                                  \
    while (0)

#endif
