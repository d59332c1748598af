/* A forged manifest: any bytes, with a header made consistent so that the rest is reached. Wrong answers are allowed, wrong
 * accesses are not. */
#include "input.h"

#include "../../../src/husk/native/store/manifest.c"

static void visit(const struct manifest *m, uint32_t id)
{
    const struct manifest_entry *e = manifest_entry(m, id);
    if (!e)
        return;
    /* Everything an entry points to may be read to its end. */
    volatile uint64_t sum = 0;
    for (uint32_t i = 0; i <= e->path_size; i++)
        sum += (uint8_t)m->strings[e->path + i];
    for (uint32_t i = 0; i < e->xattrs_size; i++)
        sum += m->xattrs[e->xattrs + i];
    if (S_ISLNK(e->mode))
        for (uint64_t i = 0; i <= e->count; i++)
            sum += (uint8_t)m->strings[e->first + i];
    if (S_ISDIR(e->mode))
        MUST(e->first + e->count <= m->header->entry_count);
    MUST(e->name <= e->path_size);
    uint32_t found = manifest_find(m, m->strings + e->path, e->path_size);
    MUST(found == MANIFEST_NONE || found < m->header->entry_count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t no_seed[16];
    if (size < 1)
        return 0;
    uint8_t how = data[0];
    size -= 1;
    uint8_t *bytes = malloc(size ? size : 1); /* a copy: to be changed, with nothing behind its end */
    memcpy(bytes, data + 1, size);
    struct manifest_header *h = (void *)bytes;
    if (size >= sizeof *h && how & 1) {
        memcpy(h->magic, MANIFEST_MAGIC, 8);
        h->version = MANIFEST_VERSION, h->header_size = sizeof *h, h->file_size = size;
        if (how & 2) {
            h->entry_count %= 64, h->strings_size %= 4096, h->xattrs_size %= 1024;
            h->strings_at = sizeof *h + h->entry_count * sizeof(struct manifest_entry);
            h->xattrs_at = manifest_align_up(h->strings_at + h->strings_size, 8);
            h->table_at = manifest_align_up(h->xattrs_at + h->xattrs_size, 64);
            h->table_slots = 1 << (how >> 5);
            h->bloom_at = h->table_at + manifest_align_up(h->table_slots * sizeof(struct manifest_slot), 64);
            h->bloom_blocks = h->bloom_at < size ? (size - h->bloom_at) / MANIFEST_BLOOM_BLOCK : 0;
        }
        h->check = manifest_name_hash(no_seed, h, offsetof(struct manifest_header, check));
    }
    struct manifest m;
    if (manifest_open(&m, bytes, size) == NULL) {
        for (uint32_t id = 0; id < h->entry_count; id++)
            visit(&m, id);
        visit(&m, (uint32_t)h->entry_count);
        manifest_find(&m, (const char *)data, size < 5000 ? size : 5000);
        manifest_find(&m, "", 0);
    }
    free(bytes);
    return 0;
}
