/* native: what a walk beneath a mounted host directory may pass. A guard belongs to the descriptor of a mount's root.
 *
 * Directories are closed by identity (device and inode): husk's state and store, and everything that a nested mount
 * covers. A guest may rename the directories above them, and the host may have a second path to them, so a path cannot
 * decide. A closed directory can be looked at, but neither opened nor passed. File systems that speak for the kernel
 * (procfs and its kind) are closed too: there the kernel would judge husk, which reads, and not the guest.
 *
 * Where nothing closed lies beneath a root, one openat2 that crosses no mount cannot pass anything closed. Everything
 * else is walked component by component, each opened from the one before, so that what was checked is what is used.
 *
 * husk run as root walks with the file credentials of the mount's owner. It judges permissions first, but a directory
 * may be exchanged between that check and the use. Then the kernel refuses what the owner may not reach. */
#include "host/host.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { BUCKETS = 64, MOST_IDENTITIES = 4096 };
struct identity {
    uint64_t dev, ino;
};
/* Life of a guard: made by guard_root, found by the number of the root's descriptor, replaced or taken out of the
 * table by guard_root and unguard_root, freed with its last user. An open may take long (a hung file system, a FIFO):
 * it holds the guard, not the table's lock. */
struct guard {
    struct guard *next; /* in the table, which has one reference */
    atomic_int users;   /* references */
    int root;           /* the number it is found by: the tree's, which may close it while an open is under way */
    int top;            /* owned: a duplicate of `root` */
    bool holds_closed;  /* a closed directory lies beneath `top`, without crossing a mount */
    uid_t uid;          /* walk with the credentials of this user; 0: with husk's own */
    gid_t gid;
    size_t closed_count, fixed_count;
    struct identity *closed, *fixed; /* owned, in one piece with the guard */
};

static struct guard *guards[BUCKETS];
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER; /* of the table; never held during a call that may wait */
static PyObject *closed_error; /* husk.native._core.ClosedFileSystem */

/* ---- file systems that speak for the kernel ---------------------------------------------------------------------- */

static const struct {
    uint32_t magic;
    const char *name;
} KERNEL_FILE_SYSTEMS[] = { /* as linux/magic.h and the file systems' own sources have them */
    {0x9fa0, "proc"},           {0x62656572, "sysfs"},      {0x64626720, "debugfs"},  {0x74726163, "tracefs"},
    {0x73636673, "securityfs"}, {0x27e0eb, "cgroup"},       {0x63677270, "cgroup2"},  {0x62656570, "configfs"},
    {0xcafe4a11, "bpf"},        {0x42494e4d, "binfmt_misc"}, {0x65735543, "fusectl"}, {0x6e736673, "nsfs"},
    {0x6165676c, "pstore"},     {0xde5e81e4, "efivarfs"},   {0xf97cff8c, "selinuxfs"}, {0x43415d53, "smackfs"},
    {0x5a3c69f0, "apparmorfs"}, {0x19800202, "mqueue"},     {0x67596969, "rpc_pipefs"}, {0x6e667364, "nfsd"},
    {0x1cd1, "devpts"},         {0x7655821, "resctrl"},     {0xabba1974, "xenfs"},    {0x6c6f6f70, "binder"},
    {0x50494446, "pidfs"},      {0x50495045, "pipefs"},     {0x534f434b, "sockfs"},   {0x09041934, "anon_inodefs"},
};

static const char *kernel_name(int fd)
{
    struct statfs found;
    if (fstatfs(fd, &found) < 0)
        return "unknown"; /* what cannot be asked is not passed */
    for (size_t i = 0; i < sizeof KERNEL_FILE_SYSTEMS / sizeof *KERNEL_FILE_SYSTEMS; i++)
        if ((uint32_t)found.f_type == KERNEL_FILE_SYSTEMS[i].magic)
            return KERNEL_FILE_SYSTEMS[i].name;
    return NULL;
}

/* ---- the owner's credentials ------------------------------------------------------------------------------------- */

struct own_ids {
    uid_t uid;
    gid_t gid, *groups; /* groups: owned */
    int group_count;
    bool nested;
    struct host_capabilities all; /* nested: the capabilities to take back */
};

enum { PAST_MODES = CAP_TO_MASK(CAP_DAC_OVERRIDE) | CAP_TO_MASK(CAP_DAC_READ_SEARCH) };

/* A thread that has the owner's file ids already (credentials.c) may still have these two capabilities. */
static bool drop_past_modes(struct own_ids *own)
{
    own->nested = host_drop_capabilities(PAST_MODES, &own->all) == 0;
    return own->nested;
}

/* The kernel looks at these groups, too, and root's own are not the owner's. They are per thread. */
static bool leave_groups(struct own_ids *own)
{
    int count = getgroups(0, NULL);
    if (count <= 0)
        return count == 0;
    own->groups = malloc(count * sizeof *own->groups);
    if (!own->groups || getgroups(count, own->groups) != count || syscall(SYS_setgroups, 0, NULL) < 0)
        return false;
    own->group_count = count;
    return true;
}

static void join_groups(struct own_ids *own)
{
    while (own->group_count && syscall(SYS_setgroups, own->group_count, own->groups) < 0)
        sched_yield();
    free(own->groups);
}

/* File ids are per thread. Changing the fsuid from 0 drops the capabilities over files, and changing it back restores
 * them. */
static bool become_owner(const struct guard *guard, struct own_ids *own)
{
    struct host_process_flags saved;
    host_begin_change(&saved);
    own->gid = (gid_t)syscall(SYS_setfsgid, guard->gid);
    own->uid = (uid_t)syscall(SYS_setfsuid, guard->uid);
    own->nested = false;
    own->groups = NULL;
    own->group_count = 0;
    bool done = host_file_ids_are(guard->uid, guard->gid) && (own->uid != guard->uid || drop_past_modes(own));
    host_end_change(&saved);
    return done && leave_groups(own);
}

static void become_husk(struct own_ids *own)
{
    struct host_process_flags saved;
    host_begin_change(&saved);
    do { /* the host may lack memory for a moment */
        syscall(SYS_setfsuid, own->uid);
        syscall(SYS_setfsgid, own->gid);
    } while (!host_file_ids_are(own->uid, own->gid) && sched_yield() == 0);
    if (own->nested)
        host_restore_capabilities(&own->all);
    host_end_change(&saved);
    join_groups(own);
}

/* ---- walking ----------------------------------------------------------------------------------------------------- */

static bool among(const struct identity *list, size_t count, const struct stat *s)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].dev == s->st_dev && list[i].ino == s->st_ino)
            return true;
    return false;
}

/* A descriptor with the flags that were asked for, of what `pin` holds. Takes `pin` over. */
static int reopened(int pin, const struct stat *found, uint64_t flags)
{
    if (flags & O_DIRECTORY && !S_ISDIR(found->st_mode)) {
        close(pin);
        return -ENOTDIR;
    }
    if (S_ISLNK(found->st_mode) && !(flags & O_PATH && flags & O_NOFOLLOW)) {
        close(pin);
        return -ELOOP;
    }
    if (flags & O_PATH)
        return pin;
    char path[40];
    snprintf(path, sizeof path, "/proc/self/fd/%d", pin);
    int fd = open(path, (int)(flags & ~(uint64_t)O_NOFOLLOW) | O_CLOEXEC);
    if (fd < 0)
        fd = -errno;
    close(pin);
    return fd;
}

/* May the last component be opened with these flags? `fd` is an O_PATH descriptor of it. */
static int may_open(const struct guard *guard, int fd, const struct stat *found, uint64_t root_dev, uint64_t flags)
{
    if (flags & O_PATH && !(flags & O_DIRECTORY))
        return 0; /* to look at it */
    if (S_ISDIR(found->st_mode) && among(guard->closed, guard->closed_count, found))
        return -HOST_CLOSED_DIRECTORY;
    return found->st_dev != root_dev && kernel_name(fd) ? -HOST_CLOSED_FILE_SYSTEM : 0;
}

static int walk(const struct guard *guard, const char *relative, uint64_t flags, uint64_t mode)
{
    struct stat found;
    char part[NAME_MAX + 1];
    if (fstat(guard->top, &found) < 0)
        return -errno;
    uint64_t root_dev = found.st_dev;
    /* The file without a name is made in the directory that the last component names, so that is walked to. */
    bool nameless = flags & O_TMPFILE & ~O_DIRECTORY;
    bool makes = flags & O_CREAT && !nameless;
    uint64_t look = nameless ? O_PATH | O_DIRECTORY | O_NOFOLLOW : flags;
    int here = guard->top;
    const char *rest = relative;
    for (;;) {
        size_t size = strcspn(rest, "/");
        bool last = !rest[size];
        if (size > NAME_MAX) {
            if (here != guard->top)
                close(here);
            return -ENAMETOOLONG;
        }
        memcpy(part, rest, size);
        part[size] = 0;
        bool top = last && here == guard->top && (!size || strcmp(part, ".") == 0); /* the root itself */
        int next = last && makes ? host_open_beneath_once(here, part, flags, mode, RESOLVE_NO_XDEV)
                                 : host_open_beneath_once(here, top ? "." : part, O_PATH | O_NOFOLLOW, 0, 0);
        if (here != guard->top)
            close(here);
        if (next < 0 || (last && makes))
            return next;
        int error = fstat(next, &found) < 0 ? -errno : 0;
        if (!error && last && !top)
            error = may_open(guard, next, &found, root_dev, look);
        else if (!error && !last && !S_ISDIR(found.st_mode))
            error = S_ISLNK(found.st_mode) ? -ELOOP : -ENOTDIR;
        else if (!error && !last && among(guard->closed, guard->closed_count, &found))
            error = -ENOENT;
        else if (!error && !last && found.st_dev != root_dev && kernel_name(next))
            error = -HOST_CLOSED_FILE_SYSTEM;
        if (error) {
            close(next);
            return error;
        }
        if (last && nameless) {
            int made = S_ISDIR(found.st_mode) ? host_open_beneath_once(next, ".", flags, mode, RESOLVE_NO_XDEV)
                                              : -ENOTDIR;
            close(next);
            return made;
        }
        if (last)
            return reopened(next, &found, flags);
        here = next;
        rest += size + 1;
    }
}

static struct guard **place(int root)
{
    struct guard **at = &guards[(unsigned)root % BUCKETS];
    while (*at && (*at)->root != root)
        at = &(*at)->next;
    return at;
}

/* The guard of `root`, with a reference for the caller; NULL: it has none. */
static struct guard *hold(int root)
{
    pthread_rwlock_rdlock(&lock);
    struct guard *guard = *place(root);
    if (guard)
        atomic_fetch_add(&guard->users, 1);
    pthread_rwlock_unlock(&lock);
    return guard;
}

static void release(struct guard *guard)
{
    if (guard && atomic_fetch_sub(&guard->users, 1) == 1) {
        close(guard->top);
        free(guard);
    }
}

bool host_guard_open(int root, const char *relative, uint64_t flags, uint64_t mode, int *fd)
{
    struct guard *guard = hold(root);
    if (!guard)
        return false;
    struct own_ids own;
    *fd = guard->uid && !become_owner(guard, &own) ? -EPERM : -EXDEV;
    if (*fd == -EXDEV && !guard->holds_closed)
        *fd = host_open_beneath_once(guard->top, relative, flags, mode, RESOLVE_NO_XDEV);
    if (*fd == -EXDEV)
        *fd = walk(guard, relative, flags, mode);
    if (guard->uid)
        become_husk(&own);
    release(guard);
    return true;
}

/* ---- for Python -------------------------------------------------------------------------------------------------- */

static void in_child(void)
{
    /* The threads that held it are not in the child. What they used of a guard is never freed there. */
    lock = (pthread_rwlock_t)PTHREAD_RWLOCK_INITIALIZER;
}

static bool read_identities(PyObject *from, struct identity *to)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(from); i++) {
        unsigned long long dev, ino;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(from, i), "KK;an identity is a device and an inode number", &dev, &ino))
            return false;
        to[i] = (struct identity){dev, ino};
    }
    return true;
}

static void replace(int root, struct guard *by)
{
    Py_BEGIN_ALLOW_THREADS
    pthread_rwlock_wrlock(&lock);
    struct guard **at = place(root), *old = *at;
    if (by)
        by->next = old ? old->next : NULL;
    *at = by ? by : old ? old->next : NULL;
    pthread_rwlock_unlock(&lock);
    release(old);
    Py_END_ALLOW_THREADS
}

/* guard_root(root_fd, closed, fixed, holds_closed, owner): `owner` is (uid, gid), or None for husk's own
 * credentials. */
PyObject *host_py_guard_root(PyObject *self, PyObject *args)
{
    (void)self;
    int root, holds_closed;
    unsigned uid = 0, gid = 0;
    PyObject *closed, *fixed, *owner;
    if (!PyArg_ParseTuple(args, "iO!O!pO:guard_root", &root, &PyList_Type, &closed, &PyList_Type, &fixed, &holds_closed,
                          &owner))
        return NULL;
    if (owner != Py_None && !PyArg_ParseTuple(owner, "II;the owner is (uid, gid)", &uid, &gid))
        return NULL;
    size_t closed_count = PyList_GET_SIZE(closed), fixed_count = PyList_GET_SIZE(fixed);
    if (closed_count > MOST_IDENTITIES || fixed_count > MOST_IDENTITIES)
        return core_raise_errno(E2BIG);
    struct guard *made = calloc(1, sizeof *made + (closed_count + fixed_count) * sizeof(struct identity));
    if (!made)
        return PyErr_NoMemory();
    struct identity *room = (struct identity *)(made + 1);
    *made = (struct guard){.users = 1, .root = root, .top = -1, .holds_closed = holds_closed, .uid = uid, .gid = gid,
                           .closed_count = closed_count, .fixed_count = fixed_count, .closed = room,
                           .fixed = room + closed_count};
    if (!read_identities(closed, made->closed) || !read_identities(fixed, made->fixed)) {
        free(made);
        return NULL;
    }
    made->top = fcntl(root, F_DUPFD_CLOEXEC, 0);
    if (made->top < 0) {
        int error = errno;
        free(made);
        return core_raise_errno(error);
    }
    replace(root, made);
    Py_RETURN_NONE;
}

PyObject *host_py_unguard_root(PyObject *self, PyObject *args)
{
    (void)self;
    int root;
    if (!PyArg_ParseTuple(args, "i:unguard_root", &root))
        return NULL;
    replace(root, NULL);
    Py_RETURN_NONE;
}

/* is_fixed(root_fd, dev, ino): this directory must stay where it is. */
PyObject *host_py_is_fixed(PyObject *self, PyObject *args)
{
    (void)self;
    int root;
    unsigned long long dev, ino;
    if (!PyArg_ParseTuple(args, "iKK:is_fixed", &root, &dev, &ino))
        return NULL;
    struct stat found = {.st_dev = dev, .st_ino = ino};
    struct guard *guard = hold(root);
    bool fixed = guard && (among(guard->fixed, guard->fixed_count, &found) ||
                           among(guard->closed, guard->closed_count, &found));
    release(guard);
    return PyBool_FromLong(fixed);
}

PyObject *host_py_kernel_file_system(PyObject *self, PyObject *args)
{
    (void)self;
    int fd;
    if (!PyArg_ParseTuple(args, "i:kernel_file_system", &fd))
        return NULL;
    const char *name = kernel_name(fd);
    return PyUnicode_FromString(name ? name : "");
}

PyObject *host_raise(int result)
{
    if (result != -HOST_CLOSED_FILE_SYSTEM)
        return core_raise_errno(result == -HOST_CLOSED_DIRECTORY ? ENOENT : -result);
    PyObject *what = Py_BuildValue("(is)", EACCES, "a file system that speaks for the kernel is closed below a mount");
    if (what) {
        PyErr_SetObject(closed_error, what);
        Py_DECREF(what);
    }
    return NULL;
}

int host_add_guard_types(PyObject *module)
{
    /* Not only with the first guard: every open takes the lock, and a child may be the first to set one. */
    if (!closed_error && pthread_atfork(NULL, NULL, in_child) != 0) {
        PyErr_NoMemory();
        return -1;
    }
    closed_error = PyErr_NewException("husk.native._core.ClosedFileSystem", PyExc_OSError, NULL);
    return closed_error ? PyModule_AddObjectRef(module, "ClosedFileSystem", closed_error) : -1;
}
