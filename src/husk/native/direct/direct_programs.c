/* native: programs that guests execute without asking (loader/directories.h, docs/design/026-direct-names.md).
 *
 * A record is made of what Python taught (programs.c), and is taken back with it, before a change becomes visible. With
 * the cache's lock held for writing, where nothing else is said. */
#include "direct/direct.h"

#include "host/host.h"
#include "loader/protocol.h"
#include "loader/resident.h"
#include "notify/notify.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FAR 0x10000000000 /* 1 TiB: what guests have of husk, and what the host maps by itself, lies above */

/* Does the image leave those addresses alone? The loader maps its own pages before it. */
static bool lies_low(int fd)
{
    Elf64_Ehdr e;
    if (pread(fd, &e, sizeof e, 0) != sizeof e || e.e_phentsize != sizeof(Elf64_Phdr))
        return false;
    for (unsigned i = 0; e.e_type == ET_EXEC && i < e.e_phnum; i++) {
        Elf64_Phdr p;
        if (pread(fd, &p, sizeof p, (off_t)(e.e_phoff + i * sizeof p)) != sizeof p ||
            (p.p_type == PT_LOAD && (p.p_vaddr >= FAR || p.p_memsz >= FAR)))
            return false;
    }
    return e.e_type == ET_EXEC || e.e_type == ET_DYN;
}

static bool is_low(const struct fast_exact_file *file)
{
    int fd = host_open_beneath(file->root_fd, file->rel, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
    bool low = fd >= 0 && lies_low(fd);
    if (fd >= 0)
        close(fd);
    return low;
}

/* Behind what is there. 0: there is no room. */
static uint16_t put(struct husk_program *record, size_t *used, const char *text, size_t size)
{
    size_t at = *used;
    if (size > HUSK_PROGRAM_TEXT || at > HUSK_PROGRAM_TEXT - size)
        return 0;
    memcpy(record->text + at, text, size);
    *used = at + size;
    return (uint16_t)at;
}

/* The path by which guests find a file of the host's /usr. */
static uint16_t put_path(const struct fast_direct *direct, struct husk_program *record, size_t *used, const char *rel)
{
    char path[HUSK_PROGRAM_TEXT];
    int size = snprintf(path, sizeof path, "%s%s/%s", HUSK_SHOWN, direct->name, rel);
    return size < (int)sizeof path ? put(record, used, path, (size_t)size + 1) : 0;
}

static struct husk_exact exact(const struct fast_exact_file *file)
{
    return (struct husk_exact){file->dev, file->ino, file->size, file->changed_ns};
}

/* All but the turn. False: guests cannot have it. */
static bool describe(const struct fast_direct *direct, const struct fast_known_program *known,
                     struct husk_program *record)
{
    const struct husk_exec_info *info = (const void *)known->info;
    bool interpreted = known->interpreter.rel;
    size_t used = 0;
    if (known->program.root_fd != direct->root_fd || (interpreted && known->interpreter.root_fd != direct->root_fd) ||
        known->info_size < sizeof *info || info->prefix_count || info->flags & HUSK_HEADER_GIVEN ||
        !is_low(&known->program))
        return false;
    record->key_size = known->key_size;
    record->program = exact(&known->program);
    if (put(record, &used, known->key, known->key_size + 1u) || !used)
        return false;
    record->program_at = put_path(direct, record, &used, known->program.rel);
    if (interpreted) {
        record->interpreter = exact(&known->interpreter);
        record->interpreter_at = put_path(direct, record, &used, known->interpreter.rel);
    }
    record->links_at = (uint16_t)used;
    record->link_count = (uint16_t)known->link_count;
    for (unsigned i = 0; i < known->link_count; i++) {
        const struct fast_known_link *link = &known->links[i];
        if (link->root_fd != direct->root_fd || !put_path(direct, record, &used, link->where) ||
            !put(record, &used, link->text, strlen(link->text) + 1))
            return false;
    }
    used = (used + 7) & ~(size_t)7;
    record->info_at = put(record, &used, known->info, known->info_size);
    record->info_size = (uint16_t)known->info_size;
    if (!record->program_at || !record->info_at || (interpreted && !record->interpreter_at))
        return false;
    struct husk_exec_info *told = (void *)(record->text + record->info_at);
    told->flags |= HUSK_DIRECT_NAMES;
    return true;
}

static struct husk_program *room_for(struct husk_directories *table, uint32_t hash)
{
    for (unsigned i = 0; i < HUSK_PROGRAM_PROBES; i++) {
        struct husk_program *p = &table->programs[(hash + i) & (HUSK_PROGRAM_COUNT - 1)];
        if (!p->turn)
            return p;
    }
    return &table->programs[hash & (HUSK_PROGRAM_COUNT - 1)];
}

static void set_turn(struct husk_program *record, uint32_t turn)
{
    __atomic_store_n(&record->turn, turn, __ATOMIC_SEQ_CST);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void fast_direct_learn_program(struct fast_cache *cache, const struct fast_known_program *known)
{
    struct fast_direct *direct = &cache->direct;
    struct husk_program record = {0};
    uint64_t hash = HUSK_HASH_BEGIN;
    if (!direct->table || !describe(direct, known, &record))
        return;
    for (size_t i = 0; i < known->key_size; i++)
        hash = husk_hash_step(hash, known->key[i]);
    record.hash = husk_hash_end(hash);
    struct husk_program *place = room_for(direct->table, record.hash);
    set_turn(place, 0);
    *place = record;
    if (!++direct->turn)
        direct->turn = 1;
    set_turn(place, direct->turn);
}

bool fast_direct_identity(pid_t tid, uint64_t identity[2])
{
    ssize_t size = sizeof(uint64_t[2]);
    return guest_read(tid, HUSK_RESIDENT_DATA + HUSK_RES_IDENTITY, identity, size) == size &&
           (identity[0] || identity[1]);
}

void fast_direct_leads(struct fast_cache *cache, pid_t tid)
{
    uint64_t identity[2];
    struct husk_directories *table = cache->direct.table;
    if (!table || !fast_direct_identity(tid, identity))
        return;
    pthread_rwlock_rdlock(&cache->lock);
    for (unsigned i = 0; i < HUSK_PROGRAM_COUNT; i++) {
        struct husk_program *p = &table->programs[i];
        const struct husk_exec_info *info = (const void *)(p->text + p->info_at);
        if (p->turn && !p->leads && memcmp(info->identity, identity, sizeof identity) == 0)
            __atomic_store_n(&p->leads, 1, __ATOMIC_RELAXED);
    }
    pthread_rwlock_unlock(&cache->lock);
}

void fast_direct_forget_programs(struct fast_cache *cache)
{
    struct husk_directories *table = cache->direct.table;
    for (unsigned i = 0; table && i < HUSK_PROGRAM_COUNT; i++)
        if (table->programs[i].turn)
            set_turn(&table->programs[i], 0);
}
