/* native: reading a manifest: checking its header, finding a name, checking an entry. No Python, no allocation. */
#include "store/manifest.h"

#include <sys/stat.h>

static bool power_of_two(uint64_t x)
{
    return x && !(x & (x - 1));
}

const char *manifest_open(struct manifest *m, const void *bytes, uint64_t size)
{
    const struct manifest_header *h = bytes;
    static const uint8_t no_seed[16];
    if (size < sizeof *h || memcmp(h->magic, MANIFEST_MAGIC, 8))
        return "it is not a manifest";
    if (h->version != MANIFEST_VERSION || h->header_size != sizeof *h)
        return "it is a manifest of a version this husk does not know";
    if (h->check != manifest_name_hash(no_seed, h, offsetof(struct manifest_header, check)))
        return "its header is damaged";
    if (h->file_size != size)
        return "it is cut short or has grown";
    /* Each part has one possible place, so the header only states sizes. No sum here can overflow: each term is at most
     * the file's size, which is a signed 64-bit number. */
    if (!h->entry_count || h->entry_count >= MANIFEST_NONE || h->entry_count > size / sizeof(struct manifest_entry) ||
        h->strings_size > size || h->xattrs_size > size || h->table_slots > size / sizeof(struct manifest_slot) ||
        h->bloom_blocks > size / MANIFEST_BLOOM_BLOCK)
        return "a part of it is larger than itself";
    if (h->strings_at != sizeof *h + h->entry_count * sizeof(struct manifest_entry) ||
        h->xattrs_at != manifest_align_up(h->strings_at + h->strings_size, 8) ||
        h->table_at != manifest_align_up(h->xattrs_at + h->xattrs_size, 64) ||
        h->bloom_at != h->table_at + manifest_align_up(h->table_slots * sizeof(struct manifest_slot), 64) ||
        size != h->bloom_at + h->bloom_blocks * MANIFEST_BLOOM_BLOCK)
        return "its parts are not where they belong";
    if (!power_of_two(h->table_slots) || !power_of_two(h->bloom_blocks) || h->table_slots < h->entry_count ||
        h->longest_probe > MANIFEST_LONGEST_PROBE || h->longest_probe > h->table_slots)
        return "its tables have impossible sizes";
    m->bytes = bytes;
    m->header = h;
    m->entries = (const void *)(m->bytes + sizeof *h);
    m->strings = (const char *)m->bytes + h->strings_at;
    m->xattrs = m->bytes + h->xattrs_at;
    m->table = (const void *)(m->bytes + h->table_at);
    m->bloom = (const void *)(m->bytes + h->bloom_at);
    return NULL;
}

static bool within(uint64_t at, uint64_t size, uint64_t limit)
{
    return at <= limit && size <= limit - at;
}

const struct manifest_entry *manifest_entry(const struct manifest *m, uint32_t id)
{
    const struct manifest_header *h = m->header;
    if (id >= h->entry_count)
        return NULL;
    const struct manifest_entry *e = &m->entries[id];
    /* One more than the path: its NUL. */
    if (!within(e->path, (uint64_t)e->path_size + 1, h->strings_size) || e->path_size > MANIFEST_PATH_LIMIT ||
        e->name > e->path_size || !within(e->xattrs, e->xattrs_size, h->xattrs_size))
        return NULL;
    if (S_ISDIR(e->mode) && !within(e->first, e->count, h->entry_count))
        return NULL;
    if (S_ISLNK(e->mode) && !within(e->first, (uint64_t)e->count + 1, h->strings_size))
        return NULL;
    return e;
}

uint32_t manifest_find(const struct manifest *m, const char *path, size_t size)
{
    const struct manifest_header *h = m->header;
    if (size > MANIFEST_PATH_LIMIT)
        return MANIFEST_NONE;
    uint64_t hash = manifest_name_hash(h->seed, path, size);
    const uint64_t *block = m->bloom + manifest_bloom_block(hash, h->bloom_blocks) * (MANIFEST_BLOOM_BLOCK / 8);
    for (int i = 0; i < MANIFEST_BLOOM_BITS; i++) {
        unsigned bit = manifest_bloom_bit(hash, i);
        if (!(block[bit / 64] >> bit % 64 & 1))
            return MANIFEST_NONE;
    }
    for (uint64_t probe = 0; probe < h->longest_probe; probe++) {
        struct manifest_slot slot = m->table[(hash + probe) & (h->table_slots - 1)];
        if (!slot.entry)
            return MANIFEST_NONE;
        if (slot.tag != hash >> 32)
            continue;
        const struct manifest_entry *e = manifest_entry(m, slot.entry - 1);
        if (e && e->path_size == size && !memcmp(m->strings + e->path, path, size))
            return slot.entry - 1;
    }
    return MANIFEST_NONE;
}
