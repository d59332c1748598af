/* native: changes of an `rw` mount that are made without Python, and the record of them that Python reads. */
#ifndef HUSK_CHANGES_H
#define HUSK_CHANGES_H

#include "core.h"

struct fast_changes *fast_changes_new(void); /* the caller owns it; NULL: no memory, and Python makes all changes */
void fast_changes_free(struct fast_changes *changes);

PyObject *fast_py_cache_changes(Listener *self, PyObject *args);
PyObject *fast_py_cache_made(Listener *self, PyObject *args);
PyObject *fast_py_take_changes(Listener *self, PyObject *noargs);

#endif
