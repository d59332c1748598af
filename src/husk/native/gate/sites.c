/* native: the call sites of C libraries: where `mov $nr, %eax; syscall` stands in the file.
 *
 * A library is searched once in husk's life, and once more when it has changed. Processes that are forked ahead for
 * later runs know what was found before. That the bytes are something else is not to be expected: a C library is much
 * too short for them to come by chance. Who leads a site away looks at its bytes again. */
#define _GNU_SOURCE
#include "gate/gate.h"

#include "core.h"
#include "fastpath/fastpath.h"
#include "loader/directories.h"
#include "notify/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define LARGEST (8 << 20)
#define MOST_LIBRARIES 16
#define MOST_SITES 48 /* of one library */
#define MOV_BYTES 5
#define CALL_WITHIN 40 /* bytes before a site of open */

struct library {
    uint64_t dev, ino;
    int64_t changed_ns, size;
    unsigned count;
    struct husk_site sites[MOST_SITES];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the two below */
static struct library libraries[MOST_LIBRARIES];
static unsigned next_library;

/* An application may fork while another of its threads searches a library. A fork waits for that: so the child has
 * whole records, and a lock that nobody holds. */
static void lock_for_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void unlock_after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

static __attribute__((constructor)) void install_fork_handlers(void)
{
    pthread_atfork(lock_for_fork, unlock_after_fork, unlock_after_fork);
}

/* open(2) is a point where a thread can be cancelled. In a process with threads the C library makes that call between
 * two functions that switch this on and off, and unwinds from its instruction: there it must stay. Other sites of open
 * have no call close before them. */
static bool can_be_cancelled(const uint8_t *code, const uint8_t *mov, size_t size)
{
    for (const uint8_t *at = mov - 5; at >= code && at >= mov - CALL_WITHIN; at--) {
        int32_t distance;
        memcpy(&distance, at + 1, sizeof distance);
        int64_t target = at + 5 - code + distance;
        if (*at == 0xe8 && target >= 0 && target < (int64_t)size)
            return true;
    }
    return false;
}

/* Is it a site whose `syscall` is at `at`? Stores which call it makes. */
static bool is_site(const uint8_t *at, uint16_t between, struct husk_site *site)
{
    const uint8_t *mov = at - between - MOV_BYTES;
    const uint64_t wanted = HUSK_BETWEEN;
    int32_t nr;
    memcpy(&nr, mov + 1, sizeof nr);
    if (mov[0] != 0xb8 || (mov[-1] & 0xf0) == 0x40 /* a REX prefix */ || !gate_may_lead(nr) ||
        (between && memcmp(mov + MOV_BYTES, &wanted, sizeof wanted) != 0))
        return false;
    site->nr = (uint16_t)nr;
    site->between = between;
    return true;
}

static void search(struct library *library, const uint8_t *code, size_t size)
{
    static const uint8_t call[] = {0x0f, 0x05};
    const uint8_t *at = code + HUSK_BETWEEN_BYTES + MOV_BYTES + 1, *end = code + size;
    library->count = 0;
    while (at < end && library->count < MOST_SITES && (at = memmem(at, (size_t)(end - at), call, sizeof call))) {
        struct husk_site *site = &library->sites[library->count];
        *site = (struct husk_site){.dev = library->dev, .ino = library->ino, .offset = (uint32_t)(at - code)};
        bool found = is_site(at, 0, site) || is_site(at, HUSK_BETWEEN_BYTES, site);
        bool opens = site->nr == SYS_open || site->nr == SYS_openat;
        library->count += found && !(opens && can_be_cancelled(code, at - site->between - MOV_BYTES, size));
        at += sizeof call;
    }
}

/* The library `fd`, with its sites; the caller has the lock. NULL: it is none. */
static const struct library *library_of(int fd)
{
    struct stat s;
    if (fstat(fd, &s) < 0 || !S_ISREG(s.st_mode) || s.st_size < 4096 || s.st_size > LARGEST)
        return NULL;
    struct library found = {.dev = s.st_dev, .ino = s.st_ino, .changed_ns = core_nanoseconds(s.st_ctim),
                            .size = s.st_size};
    for (int i = 0; i < MOST_LIBRARIES; i++)
        if (memcmp(&libraries[i], &found, offsetof(struct library, count)) == 0)
            return &libraries[i];
    uint8_t *code = malloc((size_t)s.st_size);
    struct library *place = NULL;
    if (code && pread(fd, code, (size_t)s.st_size, 0) == s.st_size) {
        place = &libraries[next_library++ % MOST_LIBRARIES];
        *place = found;
        search(place, code, (size_t)s.st_size);
    }
    free(code);
    return place;
}

static bool is_known(struct gate_keeper *keeper, uint64_t dev, uint64_t ino)
{
    for (unsigned i = 0; i < keeper->library_count; i++)
        if (keeper->libraries[i].dev == dev && keeper->libraries[i].ino == ino)
            return true;
    return keeper->library_count == sizeof keeper->libraries / sizeof *keeper->libraries;
}

/* To this box's processes. One site of rt_sigaction can be led away: of the library that programs use. */
static void tell(struct gate_keeper *keeper, int fd, bool sigaction)
{
    pthread_mutex_lock(&lock);
    const struct library *library = library_of(fd);
    for (unsigned i = 0; library && i < library->count; i++) {
        const struct husk_site *site = &library->sites[i];
        if (site->nr == SYS_rt_sigaction && !sigaction)
            continue;
        if (!gate_is_alone(site->nr)) /* each page of the library that is changed costs every program */
            fast_direct_site(keeper->listener->cache, site);
        const struct gate_site found = {(uint64_t)major(site->dev) << 32 | minor(site->dev), site->ino, site->offset,
                                        site->nr, site->between};
        gate_remember_site(keeper, &found);
    }
    pthread_mutex_unlock(&lock);
}

static void mark_known(struct gate_keeper *keeper, uint64_t dev, uint64_t ino)
{
    keeper->libraries[keeper->library_count].dev = dev;
    keeper->libraries[keeper->library_count++].ino = ino;
}

/* libc.so.6 lies beside the dynamic loader, as far as is known. -1: it does not. */
static int open_beside(int fd)
{
    char link[40], path[4200];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - sizeof "libc.so.6");
    char *end = size > 0 ? memrchr(path, '/', (size_t)size) : NULL;
    if (!end)
        return -1;
    strcpy(end + 1, "libc.so.6");
    return open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

void gate_learn_interpreter(struct gate_keeper *keeper, int fd)
{
    struct stat s;
    if (fd < 0 || fstat(fd, &s) < 0 || is_known(keeper, s.st_dev, s.st_ino))
        return;
    mark_known(keeper, s.st_dev, s.st_ino);
    int library = open_beside(fd);
    tell(keeper, fd, library < 0);
    if (library >= 0) {
        tell(keeper, library, true);
        close(library);
    }
}

void gate_learn_library(struct gate_keeper *keeper, pid_t tid, const struct host_mapping *mapping)
{
    char path[80];
    uint64_t dev = makedev(mapping->major, mapping->minor);
    if (is_known(keeper, dev, mapping->ino))
        return;
    mark_known(keeper, dev, mapping->ino);
    snprintf(path, sizeof path, "/proc/%d/map_files/%lx-%lx", tid, (unsigned long)mapping->start,
             (unsigned long)mapping->end);
    /* A guest may have mapped a device: look before it is opened. */
    struct stat s;
    int fd = stat(path, &s) == 0 && S_ISREG(s.st_mode) ? open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    tell(keeper, fd, true);
    close(fd);
}

/* search_library(path): before processes are forked that will want to know. */
PyObject *gate_py_search_library(PyObject *self, PyObject *args)
{
    const char *path;
    (void)self;
    if (!PyArg_ParseTuple(args, "y:search_library", &path))
        return NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        Py_RETURN_NONE;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&lock);
    library_of(fd);
    int beside = open_beside(fd);
    if (beside >= 0)
        library_of(beside);
    pthread_mutex_unlock(&lock);
    close(fd);
    if (beside >= 0)
        close(beside);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}
