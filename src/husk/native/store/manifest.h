/* native: the manifest, a tree of names in one immutable file (docs/formats/manifest.md). Structs are the file's bytes.
 *
 * Everything here only reads memory that the caller mapped. It allocates nothing, takes no lock and knows no Python, so
 * that the same code can read the file inside a guest one day. A forged file may cause wrong answers, but never a wrong
 * access: the header is checked once, when the file is opened, and an entry each time it is used. */
#ifndef HUSK_MANIFEST_H
#define HUSK_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MANIFEST_MAGIC "huskmani"
#define MANIFEST_VERSION 1
#define MANIFEST_LONGEST_PROBE 256 /* in any manifest; half-full tables of 2^32 names stay below 120 */
#define MANIFEST_BLOOM_BLOCK 64    /* bytes: one cache line answers "no such name" */
#define MANIFEST_BLOOM_BITS 6
#define MANIFEST_NAMES_PER_BLOCK 42 /* at most; 512 bits / 42 is a little more than 12 bits for each name */
#define MANIFEST_PATH_LIMIT 4095   /* PATH_MAX without its NUL: no call could name a longer one */
#define MANIFEST_NONE UINT32_MAX

#define MANIFEST_WHITEOUT 1u /* flags: hides the name in the layers below */
#define MANIFEST_OPAQUE 2u   /* flags: a directory that hides the entries of the layers below */

struct manifest_header {
    char magic[8];
    uint32_t version, header_size;
    uint64_t file_size, entry_count;
    uint64_t strings_at, strings_size;
    uint64_t xattrs_at, xattrs_size;
    uint64_t table_at, table_slots;
    uint64_t bloom_at, bloom_blocks;
    uint32_t longest_probe, reserved;
    /* Of the name hash; derived from the content, so that an attacker cannot choose colliding names. */
    uint8_t seed[16];
    uint8_t body[32]; /* BLAKE3 of everything behind the header */
    uint8_t zero[96];
    uint64_t check;   /* checksum of the bytes above */
};

struct manifest_entry {
    uint64_t path; /* offset in strings; a NUL follows */
    uint32_t path_size, name; /* name: where the last component begins within the path */
    uint32_t parent, mode, uid, gid, nlink, flags;
    uint64_t size;
    int64_t mtime_ns;
    uint32_t inode; /* the first entry of the same file: hard links share it */
    uint32_t xattrs_size;
    uint64_t xattrs;
    uint32_t rdev_major, rdev_minor;
    uint8_t blob[32];
    uint64_t first; /* directory: its first child; symlink: its target in strings, a NUL follows */
    uint32_t count; /* directory: how many children; symlink: the target's size */
    uint32_t zero;
};

struct manifest_slot {
    uint32_t entry; /* plus one; 0: free */
    uint32_t tag;   /* high half of the name's hash */
};

_Static_assert(sizeof(struct manifest_header) == 256, "as in the format's page");
_Static_assert(sizeof(struct manifest_entry) == 128, "as in the format's page");

struct manifest { /* all pointers are borrowed: they point into the caller's mapping */
    const uint8_t *bytes;
    const struct manifest_header *header;
    const struct manifest_entry *entries;
    const char *strings;
    const uint8_t *xattrs;
    const struct manifest_slot *table;
    const uint64_t *bloom;
};

static inline uint64_t manifest_align_up(uint64_t value, uint64_t to)
{
    return (value + to - 1) & ~(to - 1);
}

/* SipHash with one round per word and three at the end. */
static inline uint64_t manifest_sip_rotate(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static inline void manifest_sip_round(uint64_t v[4])
{
    v[0] += v[1], v[1] = manifest_sip_rotate(v[1], 13) ^ v[0], v[0] = manifest_sip_rotate(v[0], 32);
    v[2] += v[3], v[3] = manifest_sip_rotate(v[3], 16) ^ v[2];
    v[0] += v[3], v[3] = manifest_sip_rotate(v[3], 21) ^ v[0];
    v[2] += v[1], v[1] = manifest_sip_rotate(v[1], 17) ^ v[2], v[2] = manifest_sip_rotate(v[2], 32);
}

static inline uint64_t manifest_name_hash(const uint8_t seed[16], const void *data, size_t size)
{
    uint64_t key[2], word;
    memcpy(key, seed, 16);
    uint64_t v[4] = {key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d, key[0] ^ 0x6c7967656e657261,
                     key[1] ^ 0x7465646279746573};
    const uint8_t *at = data;
    for (size_t left = size; left >= 8; left -= 8, at += 8) {
        memcpy(&word, at, 8);
        v[3] ^= word;
        manifest_sip_round(v);
        v[0] ^= word;
    }
    word = (uint64_t)size << 56;
    for (size_t i = 0; i < (size & 7); i++)
        word |= (uint64_t)at[i] << 8 * i;
    v[3] ^= word;
    manifest_sip_round(v);
    v[0] ^= word;
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        manifest_sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* The block of the Bloom filter, and the six bits in it. The table takes its slot from the hash's low bits. The block
 * comes from a product of the hash, so that names of one block are not neighbours in the table. */
static inline uint64_t manifest_bloom_block(uint64_t hash, uint64_t blocks)
{
    return (hash * 0x9e3779b97f4a7c15 >> 32) & (blocks - 1);
}

static inline unsigned manifest_bloom_bit(uint64_t hash, int which)
{
    return hash >> 9 * which & 511;
}

/* NULL, or what is wrong. `bytes` stay the caller's, and must outlive `m`. */
const char *manifest_open(struct manifest *m, const void *bytes, uint64_t size);
uint32_t manifest_find(const struct manifest *m, const char *path, size_t size); /* MANIFEST_NONE: no such name */
const struct manifest_entry *manifest_entry(const struct manifest *m, uint32_t id); /* borrowed; NULL: out of bounds */

#endif
