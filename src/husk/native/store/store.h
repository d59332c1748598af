/* native/store: what the store's C part offers to the module and to the other rooms. */
#ifndef HUSK_STORE_H
#define HUSK_STORE_H

#include "core.h"

/* manifest_type.c */
extern PyTypeObject *manifest_type;
extern PyType_Spec manifest_spec;
const struct manifest *manifest_of(PyObject *object); /* borrowed: valid as long as the object lives */
PyObject *manifest_py_name_hash(PyObject *self, PyObject *args);

/* tree.c */
extern PyTypeObject *tree_type;
extern PyType_Spec tree_spec;

/* tree_build.c: the last two steps of a manifest, in the caller's buffer. */
PyObject *manifest_py_fill(PyObject *self, PyObject *args);
PyObject *manifest_py_seal(PyObject *self, PyObject *args);

/* tree_stage.c: on descriptors that stay the caller's. */
PyObject *blob_py_publish(PyObject *self, PyObject *args);
PyObject *blob_py_syncfs(PyObject *self, PyObject *args);

#endif
