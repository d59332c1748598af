/* native/host: the directories that a guest has made below one root, by identity: rules for projects except what it
 * makes in them. Inode numbers come back, so a removed directory is forgotten, and only the latest are remembered. */
#include "host/made_directories.h"

#include <stdlib.h>

#define MOST 4096

struct host_made {
    size_t count, next; /* of `seen`; where the next one goes */
    struct {
        uint64_t dev, ino; /* 0 and 0: forgotten */
    } seen[MOST];
};

static size_t find(const struct host_made *made, uint64_t dev, uint64_t ino)
{
    for (size_t i = 0; i < made->count; i++)
        if (made->seen[i].ino == ino && made->seen[i].dev == dev)
            return i;
    return MOST;
}

bool host_made_has(const struct host_made *made, uint64_t dev, uint64_t ino)
{
    return made && find(made, dev, ino) < MOST;
}

void host_made_forget(struct host_made *made, uint64_t dev, uint64_t ino)
{
    size_t at = made ? find(made, dev, ino) : MOST;
    if (at < MOST)
        made->seen[at].dev = made->seen[at].ino = 0;
}

void host_made_add(struct host_made **made, uint64_t dev, uint64_t ino)
{
    if (!*made)
        *made = calloc(1, sizeof **made);
    if (!*made)
        return; /* then it passes for one of the host's, where more is protected */
    host_made_forget(*made, dev, ino);
    (*made)->seen[(*made)->next].dev = dev;
    (*made)->seen[(*made)->next].ino = ino;
    (*made)->next = ((*made)->next + 1) % MOST;
    if ((*made)->count < MOST)
        (*made)->count++;
}

void host_made_free(struct host_made *made)
{
    free(made);
}
