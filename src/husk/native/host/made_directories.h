/* native/host: the directories that a guest has made below one root. The caller sees to it that one thread changes
 * them, and nobody reads meanwhile. NULL: none was made. */
#ifndef HUSK_MADE_DIRECTORIES_H
#define HUSK_MADE_DIRECTORIES_H

#include <stdbool.h>
#include <stdint.h>

struct host_made;
bool host_made_has(const struct host_made *made, uint64_t dev, uint64_t ino);
void host_made_add(struct host_made **made, uint64_t dev, uint64_t ino); /* *made: owned by the caller */
void host_made_forget(struct host_made *made, uint64_t dev, uint64_t ino);
void host_made_free(struct host_made *made);

#endif
