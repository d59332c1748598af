/* native/trace: the Python class Recorder: its tables, and reading them when the run is over. */
#include "trace/trace.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_SLOT_NS 1000000 /* a millisecond, until a run lasts longer than all slots */

static void *table(uint32_t count, size_t size)
{
    return calloc(count, size);
}

static void clear_links(uint32_t *links, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        links[i] = TRACE_NONE;
}

static bool make_tables(Recorder *self)
{
    self->tasks = table(TRACE_TASKS, sizeof *self->tasks);
    self->task_buckets = table(TRACE_TASKS / 4, sizeof *self->task_buckets);
    self->runs = table(TRACE_RUNS, sizeof *self->runs);
    self->kinds = table(TRACE_KINDS, sizeof *self->kinds);
    self->kind_buckets = table(TRACE_KINDS, sizeof *self->kind_buckets);
    self->addresses = table(TRACE_ADDRESSES, sizeof *self->addresses);
    if (!self->tasks || !self->task_buckets || !self->runs || !self->kinds || !self->kind_buckets || !self->addresses)
        return false;
    clear_links(self->task_buckets, TRACE_TASKS / 4);
    clear_links(self->kind_buckets, TRACE_KINDS);
    for (uint32_t i = 0; i < TRACE_TASKS; i++)
        self->tasks[i].next = i + 1 < TRACE_TASKS ? i + 1 : TRACE_NONE;
    return true;
}

static int Recorder_init(Recorder *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"rules", "telling", "most_lines", NULL};
    Py_buffer rules, telling;
    Py_ssize_t most_lines;
    if (self->rules) {
        PyErr_SetString(PyExc_TypeError, "a Recorder is made once");
        return -1;
    }
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "y*y*n:Recorder", names, &rules, &telling, &most_lines))
        return -1;
    size_t count = rules.len / sizeof *self->rules;
    bool sound = rules.len % sizeof *self->rules == 0 && trace_rules_are_sound(rules.buf, count) &&
        telling.len == CALL_NUMBERS && most_lines >= 0;
    bool made = false;
    if (sound && (self->rules = malloc(rules.len))) {
        memcpy(self->rules, rules.buf, rules.len);
        memcpy(self->telling, telling.buf, CALL_NUMBERS);
        self->rules_count = count;
        self->lines_most = most_lines;
        self->began_ns = core_now_ns();
        self->slot_ns = FIRST_SLOT_NS;
        made = make_tables(self);
    }
    PyBuffer_Release(&rules);
    PyBuffer_Release(&telling);
    if (!sound)
        PyErr_SetString(PyExc_ValueError, "no filter of husk's, or no table of telling arguments");
    else if (!made)
        PyErr_NoMemory();
    return made ? 0 : -1;
}

static void Recorder_dealloc(Recorder *self)
{
    for (uint32_t i = 0; self->runs && i < self->run_count; i++)
        free(self->runs[i].texts);
    void *owned[] = {self->rules, self->tasks, self->task_buckets, self->runs, self->kinds, self->kind_buckets,
                     self->addresses, self->lines};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        free(owned[i]);
    core_free((PyObject *)self);
}

/* Appends to `list` and takes over `item`; both may be NULL after an earlier failure. */
static PyObject *append(PyObject *list, PyObject *item)
{
    if (!list || !item || PyList_Append(list, item) < 0)
        Py_CLEAR(list);
    Py_XDECREF(item);
    return list;
}

static PyObject *six(const uint64_t values[6])
{
    return Py_BuildValue("(KKKKKK)", values[0], values[1], values[2], values[3], values[4], values[5]);
}

static PyObject *Recorder_kinds(Recorder *self, PyObject *Py_UNUSED(noargs))
{
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < self->kind_count; i++) {
        const struct trace_kind *kind = &self->kinds[i];
        list = append(list, Py_BuildValue("(iiiNKNi)", kind->nr, kind->way, kind->error, six(kind->values), kind->count,
                                          six(kind->args), kind->first));
    }
    return list;
}

static PyObject *Recorder_unsorted(Recorder *self, PyObject *Py_UNUSED(noargs))
{
    PyObject *list = PyList_New(0);
    for (int nr = 0; list && nr < CALL_NUMBERS; nr++)
        for (int way = 0; list && way < 3; way++)
            if (self->unsorted[nr][way])
                list = append(list, Py_BuildValue("(iiK)", nr, way, self->unsorted[nr][way]));
    return list;
}

static PyObject *slots_of(const Recorder *self, const struct trace_run *run)
{
    int64_t used = self->run_count ? TRACE_SLOTS : 0;
    PyObject *list = PyList_New(0);
    for (int64_t slot = 0; list && slot < used; slot++)
        list = append(list, PyLong_FromUnsignedLong(run->slots[slot]));
    return list;
}

static PyObject *Recorder_runs(Recorder *self, PyObject *Py_UNUSED(noargs))
{
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < self->run_count; i++) {
        const struct trace_run *run = &self->runs[i];
        const char *texts = run->texts ? run->texts : "";
        list = append(list, Py_BuildValue("(iiy#y#LLiKN)", run->pid, run->parent, texts, (Py_ssize_t)run->argv_size,
                                          texts + run->argv_size, (Py_ssize_t)run->exe_size,
                                          (long long)(run->began_ns - self->began_ns),
                                          (long long)(run->ended_ns - self->began_ns), run->status, run->count,
                                          slots_of(self, run)));
    }
    return list;
}

static PyObject *Recorder_addresses(Recorder *self, PyObject *Py_UNUSED(noargs))
{
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < self->address_count; i++) {
        const struct trace_address *seen = &self->addresses[i];
        list = append(list, Py_BuildValue("(iy#K)", seen->nr, (const char *)seen->bytes, (Py_ssize_t)seen->size,
                                          seen->count));
    }
    return list;
}

static PyObject *Recorder_lines(Recorder *self, PyObject *Py_UNUSED(noargs))
{
    return PyBytes_FromStringAndSize((const char *)self->lines, self->lines_count * sizeof *self->lines);
}

static PyObject *Recorder_lost(Recorder *self, PyObject *Py_UNUSED(noargs))
{
    return Py_BuildValue("(KKKK)", self->lost_lines, self->lost_runs, self->lost_tasks, self->lost_addresses);
}

static PyObject *Recorder_times(Recorder *self, PyObject *Py_UNUSED(noargs))
{
    return Py_BuildValue("(LL)", (long long)self->began_ns, (long long)self->slot_ns);
}

/* For tests: what the filter says of a call. */
static PyObject *Recorder_judge(Recorder *self, PyObject *args)
{
    struct seccomp_data data = {0};
    unsigned long long a[6] = {0};
    if (!PyArg_ParseTuple(args, "iI|KKKKKK:judge", &data.nr, &data.arch, &a[0], &a[1], &a[2], &a[3], &a[4], &a[5]))
        return NULL;
    for (int i = 0; i < 6; i++)
        data.args[i] = a[i];
    return PyLong_FromUnsignedLong(trace_rules_run(self->rules, self->rules_count, &data));
}

static PyMethodDef methods[] = {
    {"kinds", (PyCFunction)Recorder_kinds, METH_NOARGS, "(nr, way, errno, values, count, args, thread) of each call"},
    {"unsorted", (PyCFunction)Recorder_unsorted, METH_NOARGS, "(nr, way, count) of calls whose values had no room"},
    {"runs", (PyCFunction)Recorder_runs, METH_NOARGS,
     "(pid, parent, argv, exe, began_ns, ended_ns, status, count, slots) of each program"},
    {"addresses", (PyCFunction)Recorder_addresses, METH_NOARGS, "(nr, sockaddr, count) in calls that C answered"},
    {"lines", (PyCFunction)Recorder_lines, METH_NOARGS, "lines(): struct trace_line, one after the other"},
    {"lost", (PyCFunction)Recorder_lost, METH_NOARGS,
     "lost(): lines and programs without room, calls of threads that could not be told, addresses without room"},
    {"times", (PyCFunction)Recorder_times, METH_NOARGS, "times(): when it was made, and how long a slot is, in ns"},
    {"judge", (PyCFunction)Recorder_judge, METH_VARARGS, "judge(nr, arch, *args): what the rules say of a call"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, Recorder_dealloc},
    {Py_tp_init, Recorder_init},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_methods, methods},
    {0, NULL},
};

PyTypeObject *trace_recorder_type;
PyType_Spec trace_recorder_spec = {
    .name = "husk.native._core.Recorder",
    .basicsize = sizeof(Recorder),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};
