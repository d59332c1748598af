/* Replaces libFuzzer where there is only gcc: runs every seed file, then random changes of them.
 * DRIVER RUNS SEED FILE… Without coverage it finds less, but it runs everywhere, with the same sanitizers. */
#include "input.h"

static uint64_t state;

static uint64_t draw(uint64_t bound)
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 2685821657736338717ULL % bound;
}

static size_t change(uint8_t *bytes, size_t size, size_t room)
{
    static const uint64_t ODD[] = {0, 1, 7, 8, 255, 4095, 4096, 65535, 0x7fffffff, 0xffffffff, 1UL << 63, -1UL, -4096UL};
    for (unsigned left = 1 + draw(8); left && size; left--) {
        uint64_t word = draw(2) ? ODD[draw(13)] : draw(-1UL), at = draw(size), width = 1UL << draw(4);
        switch (draw(4)) {
        case 0: size = 1 + draw(size); break;
        case 1:
            while (size < room && draw(40))
                bytes[size++] = (uint8_t)draw(256);
            break;
        default: memcpy(bytes + at, &word, width < size - at ? width : size - at);
        }
    }
    return size;
}

int main(int count, char **words)
{
    static uint8_t seeds[64][16384], bytes[16384];
    size_t sizes[64], known = 0;
    unsigned long runs = strtoul(words[1], NULL, 0);
    state = strtoull(words[2], NULL, 0) * 2 + 1;
    for (int i = 3; i < count && known < 64; i++) {
        FILE *file = fopen(words[i], "rb");
        MUST(file);
        sizes[known] = fread(seeds[known], 1, sizeof *seeds, file);
        fclose(file);
        LLVMFuzzerTestOneInput(seeds[known], sizes[known]);
        known++;
    }
    MUST(known);
    for (; runs; runs--) {
        size_t which = draw(known), size = sizes[which];
        memcpy(bytes, seeds[which], size);
        size = change(bytes, size, sizeof bytes);
        uint8_t *exact = malloc(size ? size : 1); /* its own block, so that reading behind it is detected */
        memcpy(exact, bytes, size);
        LLVMFuzzerTestOneInput(exact, size);
        free(exact);
    }
    return 0;
}
