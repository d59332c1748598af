/* native: executing unchanged programs again without Python.
 *
 * Python resolves a program once and teaches the result: which host files program and interpreter are, and the
 * description that the loader will ask for. From then on an execve of the same name only checks that the host still has
 * the same two files (device, inode, size, change time) and that the name's directory is still in the name cache. The
 * same rule holds as there: Python makes C forget a program before a change becomes visible. */
#include "direct/direct.h"

#include "host/host.h"
#include "call_table.h"
#include "loader/protocol.h"
#include "notify/notify.h"
#include "remote/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PROGRAM_BUCKETS 512
#define MOST_PROGRAMS 1024

struct fast_programs {
    struct fast_known_program *buckets[PROGRAM_BUCKETS];
    unsigned known;
};

struct fast_programs *fast_programs_new(void)
{
    return calloc(1, sizeof(struct fast_programs));
}

static void forget(struct fast_programs *programs)
{
    for (size_t i = 0; programs->known && i < PROGRAM_BUCKETS; i++) {
        while (programs->buckets[i]) {
            struct fast_known_program *program = programs->buckets[i];
            programs->buckets[i] = program->next;
            free(program);
            programs->known--;
        }
    }
}

void fast_programs_forget(struct fast_cache *cache)
{
    fast_direct_forget_programs(cache);
    forget(cache->programs);
}

void fast_programs_free(struct fast_programs *programs)
{
    if (!programs)
        return;
    forget(programs);
    free(programs);
}

static unsigned bucket_of(const char *key, size_t size)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)key[i]) * 16777619u;
    return hash % PROGRAM_BUCKETS;
}

static struct fast_known_program *find(struct fast_programs *programs, const char *key, size_t size)
{
    struct fast_known_program *program = programs->buckets[bucket_of(key, size)];
    while (program && (program->key_size != size || memcmp(program->key, key, size) != 0))
        program = program->next;
    return program;
}

/* Open the file if it is unchanged; the caller closes it. -1: it has changed. */
static int open_exact(const struct fast_exact_file *file)
{
    struct stat s;
    int fd = host_open_beneath(file->root_fd, file->rel, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
    if (fd < 0)
        return -1;
    if (fstat(fd, &s) == 0 && s.st_dev == file->dev && s.st_ino == file->ino && (uint64_t)s.st_size == file->size &&
        core_nanoseconds(s.st_ctim) == file->changed_ns)
        return fd;
    close(fd);
    return -1;
}

static bool is_unchanged(const struct fast_known_link *link)
{
    char text[256];
    int fd = host_open_beneath(link->root_fd, link->where, O_PATH | O_NOFOLLOW, 0);
    if (fd < 0)
        return false;
    ssize_t n = readlinkat(fd, "", text, sizeof text);
    close(fd);
    return n > 0 && (size_t)n == strlen(link->text) && memcmp(text, link->text, n) == 0;
}

static bool links_unchanged(const struct fast_known_program *program)
{
    for (unsigned i = 0; i < program->link_count; i++)
        if (!is_unchanged(&program->links[i]))
            return false;
    return true;
}

/* ---- execve ------------------------------------------------------------------------------------------------------ */

/* Find the program and open its files, with the cache's lock held; what follows does not need the cache. The caller
 * owns the result. NULL: leave the call to Python. `size` is the length of the guest's name. `key` is what the loader
 * will ask with if the host finds it by this name, or 0: it does not. */
static struct remote_exec *prepare(Listener *listener, const struct seccomp_notif *notif, ssize_t *size, int *key)
{
    char name[256];
    *size = guest_string(notif->pid, notif->data.args[ARG_execve_filename], name, sizeof name);
    struct fast_known_program *program = *size > 0 ? find(listener->cache->programs, name, *size) : NULL;
    const char *slash = program ? memrchr(name, '/', *size) : NULL;
    if (!slash || !fast_cache_find(listener->cache, 0, name, slash - name + 1) || !links_unchanged(program))
        return NULL;
    int program_fd = open_exact(&program->program);
    int interpreter_fd = program->interpreter.rel ? open_exact(&program->interpreter) : -1;
    if (program_fd >= 0 && (!program->interpreter.rel || interpreter_fd >= 0)) {
        struct remote_exec *exec = remote_exec_new(program_fd, interpreter_fd, program->info, program->info_size);
        *key = program->named ? husk_name_key(name) : 0;
        if (exec)
            return exec;
    }
    if (program_fd >= 0)
        close(program_fd);
    if (interpreter_fd >= 0)
        close(interpreter_fd);
    return NULL;
}

bool fast_answer_execve(Listener *listener, const struct seccomp_notif *notif)
{
    ssize_t size;
    int key;
    pthread_rwlock_rdlock(&listener->cache->lock);
    struct remote_exec *exec = prepare(listener, notif, &size, &key);
    pthread_rwlock_unlock(&listener->cache->lock);
    if (!exec)
        return false;
    /* The loader will need a descriptor, and it is too late for an error then. */
    if (key && guest_has_free_fd(notif->pid)) {
        remote_exec_continue(listener, notif, key, exec);
        return true;
    }
    const __u64 *a = notif->data.args;
    return remote_exec_loader(listener, notif, listener->loader_fd, a[ARG_execve_filename] + size, a[ARG_execve_argv],
                              a[ARG_execve_envp], exec) != REMOTE_TRACED;
}

/* ---- what Python teaches ----------------------------------------------------------------------------------------- */

static char *append(char **end, const char *text, size_t size)
{
    char *start = *end;
    memcpy(start, text, size);
    start[size] = 0;
    *end += size + 1;
    return start;
}

/* The strings stay the list's. How many bytes they take; -1: an exception is set. */
static Py_ssize_t parse_links(PyObject *list, struct fast_known_program *into)
{
    Py_ssize_t bytes = 0, count = PyList_Size(list);
    for (Py_ssize_t i = 0; i < count && i < FAST_MOST_LINKS; i++) {
        char *where, *text;
        Py_ssize_t where_size, text_size;
        int root_fd;
        if (!PyArg_ParseTuple(PyList_GetItem(list, i), "iy#y#", &root_fd, &where, &where_size, &text, &text_size))
            return -1;
        into->links[i] = (struct fast_known_link){root_fd, where, text};
        bytes += where_size + text_size + 2;
    }
    into->link_count = (unsigned)count;
    if (count <= FAST_MOST_LINKS)
        return bytes;
    PyErr_SetString(PyExc_ValueError, "too many links");
    return -1;
}

PyObject *fast_py_program_learn(Listener *self, PyObject *args)
{
    struct fast_exact_file program, interpreter;
    struct fast_known_program given = {0};
    const char *key, *rel, *interpreter_rel, *info;
    Py_ssize_t key_size, rel_size, interpreter_size, info_size, link_bytes;
    PyObject *links;
    int named, unasked;
    if (!PyArg_ParseTuple(args, "y#(iy#KKKL)(iy#KKKL)O!y#pp:program_learn", &key, &key_size, &program.root_fd, &rel,
                          &rel_size, &program.dev, &program.ino, &program.size, &program.changed_ns,
                          &interpreter.root_fd, &interpreter_rel, &interpreter_size, &interpreter.dev,
                          &interpreter.ino, &interpreter.size, &interpreter.changed_ns, &PyList_Type, &links, &info,
                          &info_size, &named, &unasked) ||
        (link_bytes = parse_links(links, &given)) < 0)
        return NULL;
    struct fast_cache *cache = self->cache;
    if (!cache || key_size >= 256 || info_size > HUSK_EXEC_INFO_MAX)
        Py_RETURN_NONE;
    struct fast_known_program *entry =
        malloc(sizeof *entry + key_size + rel_size + interpreter_size + link_bytes + info_size + 4);
    if (!entry)
        return PyErr_NoMemory();
    char *end = (char *)(entry + 1);
    *entry = (struct fast_known_program){.program = program, .interpreter = interpreter, .key_size = (uint16_t)key_size,
                                    .named = named, .info_size = (uint32_t)info_size};
    entry->key = append(&end, key, key_size);
    entry->program.rel = append(&end, rel, rel_size);
    entry->interpreter.rel = interpreter.root_fd >= 0 ? append(&end, interpreter_rel, interpreter_size) : NULL;
    entry->link_count = given.link_count;
    for (unsigned i = 0; i < given.link_count; i++) {
        const struct fast_known_link *link = &given.links[i];
        entry->links[i].root_fd = link->root_fd;
        entry->links[i].where = append(&end, link->where, strlen(link->where));
        entry->links[i].text = append(&end, link->text, strlen(link->text));
    }
    entry->info = append(&end, info, info_size);
    Py_BEGIN_ALLOW_THREADS
    pthread_rwlock_wrlock(&cache->lock);
    if (cache->programs->known >= MOST_PROGRAMS)
        fast_programs_forget(cache);
    if (find(cache->programs, key, key_size)) {
        free(entry);
    } else {
        struct fast_known_program **bucket = &cache->programs->buckets[bucket_of(key, key_size)];
        entry->next = *bucket;
        *bucket = entry;
        cache->programs->known++;
        if (unasked)
            fast_direct_learn_program(cache, entry);
    }
    pthread_rwlock_unlock(&cache->lock);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}
