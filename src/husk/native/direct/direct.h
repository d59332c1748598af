/* native: direct names: what the cache knows that guests may look up themselves (docs/design/026-direct-names.md). */
#ifndef HUSK_DIRECT_H
#define HUSK_DIRECT_H

#include "fastpath/resolve.h"

/* With the cache's lock held for writing, where nothing else is said. */
void fast_direct_learn(struct fast_cache *cache, struct fast_dir *dir);  /* if it is one for guests */
void fast_direct_forget(struct fast_cache *cache, const struct fast_dir *dir); /* reading is enough */
void fast_direct_changed(struct fast_cache *cache); /* something in a layer is about to change */
/* husk answered for a file with these attributes. Where that goes on, guests learn whose the directory's files are.
 * Reading is enough. */
void fast_direct_asked(struct fast_cache *cache, struct fast_dir *dir, const struct stat *host);
/* As fast_cache_find_file, for files that a guest may have opened itself; `link` leads to the descriptor. Reading is
 * enough, too. */
const struct fast_file *fast_direct_opened(struct fast_cache *cache, const char *link, const struct stat *host);
/* The guest is about to get a descriptor of this file; by another name guests may open it themselves. */
void fast_direct_opening(struct fast_cache *cache, const struct fast_showing *showing, const struct stat *host);
/* direct_files.c: a guest has it open, and it is shown so to all of them: `fstat` of it needs no husk. Or that is over.
 * Reading is enough. */
void fast_direct_give(struct fast_cache *cache, const struct fast_showing *showing, const struct stat *host);
void fast_direct_take_back(struct fast_cache *cache, uint64_t ino);
/* direct_programs.c: if guests can have it. */
void fast_direct_learn_program(struct fast_cache *cache, const struct fast_known_program *known);
void fast_direct_forget_programs(struct fast_cache *cache);
void fast_direct_free(struct fast_direct *direct);

#endif
