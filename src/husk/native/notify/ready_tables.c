/* What a run needs of the registry, in the form in which it needs it: made when husk is built, so that a start does not
 * import the registry's rows. The tables are constants of this module: whoever could change them could change husk. */
#include "core.h"
#include "notify/notify.h"

#include <linux/filter.h>
#include <string.h>

/* The lists end with READY_NO_MORE. */
struct ready_filter {
    const struct sock_filter *code;
    size_t count;
    const uint16_t *upper, *lower, *closing;
};

#include "ready_tables.h"

static PyObject *list_of(const uint16_t *numbers)
{
    PyObject *list = PyList_New(0);
    for (; list != NULL && *numbers != READY_NO_MORE; numbers++) {
        PyObject *number = PyLong_FromLong(*numbers);
        if (number == NULL || PyList_Append(list, number) < 0)
            Py_CLEAR(list);
        Py_XDECREF(number);
    }
    return list;
}

static void put_half(char *code, const uint16_t *places, uint32_t half)
{
    for (; *places != READY_NO_MORE; places++)
        memcpy(code + *places * sizeof(struct sock_filter) + offsetof(struct sock_filter, k), &half, sizeof half);
}

/* ready_filter(number, cookie) -> (filter, calls that end the use of gates) */
PyObject *notify_py_ready_filter(PyObject *self, PyObject *args)
{
    Py_ssize_t number;
    unsigned long long cookie;
    (void)self;
    if (!PyArg_ParseTuple(args, "nK:ready_filter", &number, &cookie))
        return NULL;
    if (number < 0 || number >= (Py_ssize_t)(sizeof ready_filters / sizeof ready_filters[0])) {
        PyErr_SetString(PyExc_ValueError, "there is no ready filter of this number");
        return NULL;
    }
    const struct ready_filter *ready = &ready_filters[number];
    Py_ssize_t size = (Py_ssize_t)(ready->count * sizeof *ready->code);
    PyObject *code = PyBytes_FromStringAndSize((const char *)ready->code, size);
    if (code == NULL)
        return NULL;
    /* Nobody else knows the object yet. */
    char *bytes = PyBytes_AsString(code);
    put_half(bytes, ready->upper, (uint32_t)(cookie >> 32));
    put_half(bytes, ready->lower, (uint32_t)cookie);
    return Py_BuildValue("NN", code, list_of(ready->closing));
}

/* ready_calls() -> (lines of "number family name way", numbers of mixed calls, bitmap of calls that end with EINTR) */
PyObject *notify_py_ready_calls(PyObject *self, PyObject *noargs)
{
    (void)self, (void)noargs;
    uint16_t mixed[sizeof ready_mixed / sizeof ready_mixed[0] + 1];
    memcpy(mixed, ready_mixed, sizeof ready_mixed);
    mixed[sizeof ready_mixed / sizeof ready_mixed[0]] = READY_NO_MORE;
    return Py_BuildValue("sNy#", ready_handlers, list_of(mixed), (const char *)ready_eintr,
                         (Py_ssize_t)sizeof ready_eintr);
}
