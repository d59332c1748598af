/* native: the record of what C has changed, for Python. */
#ifndef HUSK_CHANGE_NOTES_H
#define HUSK_CHANGE_NOTES_H

#include "fastpath/resolve.h"

/* Lock, and make sure that `size` bytes can be noted. */
bool fast_notes_begin(struct fast_changes *changes, size_t size);
void fast_notes_end(struct fast_changes *changes);
size_t fast_noted_size(const struct fast_resolved *path); /* of a note of one name, or of the second one */
/* A deed (see change_notes.c) and a name; 0: the second name of the last note. */
void fast_note(struct fast_changes *changes, char kind, const struct fast_resolved *path);
/* The umask of a thread; -1: it is gone. With the lock. */
int fast_notes_umask(struct fast_changes *changes, const struct fast_asker *asker);

#endif
