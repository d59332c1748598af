/* native: files that husk opened for guests, in the table of direct names (loader/directories.h). A guest that asks for
 * the attributes of an open file asks the host, and learns here as which file that is shown.
 *
 * Only files that are shown as the host has them: with other numbers for device and owners, that is. */
#include "direct/direct.h"

#include <stdatomic.h>
#include <time.h>

#define COARSE_NS 3000000000 /* of file systems that keep times in seconds, and a little more */
#define NEVER INT64_MIN      /* no file has changed at that time */

static atomic_flag writing = ATOMIC_FLAG_INIT;

static void begin(struct husk_given *g)
{
    while (atomic_flag_test_and_set(&writing))
        ;
    __atomic_store_n(&g->ino, 0, __ATOMIC_SEQ_CST);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static void end(struct husk_given *g, uint64_t ino)
{
    __atomic_store_n(&g->ino, ino, __ATOMIC_SEQ_CST);
    atomic_flag_clear(&writing);
}

static struct husk_given *place_of(const struct fast_cache *cache, uint64_t ino)
{
    struct husk_directories *table = cache->direct.table;
    return table ? &table->given[ino & (HUSK_GIVEN_COUNT - 1)] : NULL;
}

void fast_direct_give(struct fast_cache *cache, const struct fast_showing *showing, const struct stat *host)
{
    struct husk_given *g = place_of(cache, host->st_ino);
    struct timespec now;
    if (!g || showing->manner != FAST_AS_HOST || !S_ISREG(host->st_mode) || host->st_nlink != 1 || host->st_ino >> 32)
        return;
    struct stat shown = *host;
    fast_show(showing, &shown);
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    struct husk_given new = {
        .host_dev = host->st_dev, .changes = cache->direct.table->changes,
        .changed_ns = core_nanoseconds(host->st_ctim), .dev = (uint32_t)shown.st_dev, .uid = shown.st_uid,
        .gid = shown.st_gid, .settled = core_nanoseconds(host->st_ctim) < core_nanoseconds(now) - COARSE_NS,
    };
    bool same = g->ino == host->st_ino && g->host_dev == new.host_dev && g->changes == new.changes;
    if (same && (g->changed_ns == NEVER || (g->changed_ns == new.changed_ns && g->dev == new.dev && g->settled)))
        return;
    begin(g);
    if (same && g->dev != new.dev)
        new.changed_ns = NEVER; /* two mounts show it, as two files */
    g->host_dev = new.host_dev, g->changes = new.changes, g->changed_ns = new.changed_ns;
    g->dev = new.dev, g->uid = new.uid, g->gid = new.gid, g->settled = new.settled;
    end(g, host->st_ino);
}

void fast_direct_take_back(struct fast_cache *cache, uint64_t ino)
{
    struct husk_given *g = place_of(cache, ino);
    if (g && g->ino == ino) {
        begin(g);
        end(g, 0);
    }
}
