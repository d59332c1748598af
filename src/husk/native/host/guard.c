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
 * may be exchanged between that check and the use. Then the kernel refuses what the owner may not reach.
 *
 * A mount may have rules (name_rules.c): names that are hidden or denied, and the identities that such names had when
 * the box was built, so that another path to the same file does not help. What is hidden does not exist; what is denied
 * can only be looked at. What is protected can be opened here; host_may_change knows of it. */
#include "host/host.h"
#include "host/made_directories.h"
#include "host/name_rules.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
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
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { BUCKETS = 64, MOST_IDENTITIES = 4096 };
struct identity {
    uint64_t dev, ino;
};
struct ruled {
    struct identity identity;
    unsigned rule;
};
/* What the guest made by a name that a rule is about. Inode numbers come back; with the time of its birth, where the
 * file system knows it, a file is told from a later one. */
struct own_file {
    struct identity identity;
    int64_t born_ns;
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
    struct host_rules *rules; /* owned; NULL: none */
    size_t ruled_count, kept_count;
    struct ruled *ruled; /* owned; behind the `ruled_count` that are closed are the `kept_count` that are protected */
    size_t own_count;
    struct own_file *own; /* owned; it changes, under the table's lock */
    struct host_made *made; /* owned, and likewise: the directories that the guest made */
};

static struct guard *guards[BUCKETS];
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER; /* of the table; never held during a call that may wait */
static PyObject *closed_error; /* husk.native._core.ClosedFileSystem */
static PyObject *hidden_error, *denied_error, *protected_error; /* HiddenByRule, DeniedByRule, ProtectedByRule */

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

static bool is(const struct identity *identity, const struct stat *s)
{
    return identity->dev == s->st_dev && identity->ino == s->st_ino;
}

static bool among(const struct identity *list, size_t count, const struct stat *s)
{
    for (size_t i = 0; i < count; i++)
        if (is(&list[i], s))
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

/* Does a rule close this file, by whatever name it was reached? `only_look`: only its attributes are asked for. */
static int closed_by_identity(const struct guard *guard, const struct stat *found, bool only_look)
{
    for (size_t i = 0; i < guard->ruled_count; i++) {
        const struct ruled *ruled = &guard->ruled[i];
        if (ruled->identity.ino == found->st_ino && ruled->identity.dev == found->st_dev &&
            !(only_look && host_rule_verb(guard->rules, ruled->rule) == HOST_DENY))
            return -(HOST_CLOSED_BY_RULE + (int)ruled->rule);
    }
    return 0;
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

static int walk(const struct guard *guard, const char *relative, uint64_t flags, uint64_t mode, bool only_look)
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
        if (!error && !top)
            error = closed_by_identity(guard, &found, last && only_look);
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
        if (guard->top >= 0)
            close(guard->top);
        host_rules_free(guard->rules);
        free(guard->ruled);
        free(guard->own);
        host_made_free(guard->made);
        free(guard);
    }
}

/* The whole name in one call where that passes nothing closed, else component by component. */
static int open_judged(const struct guard *guard, const char *relative, uint64_t flags, uint64_t mode, bool only_look)
{
    int fd = -EXDEV;
    if (!guard->holds_closed)
        fd = host_open_beneath_once(guard->top, relative, flags, mode, RESOLVE_NO_XDEV);
    if (fd == -EXDEV)
        return walk(guard, relative, flags, mode, only_look);
    struct stat found;
    if (fd < 0 || !guard->ruled_count || !*relative || strcmp(relative, ".") == 0)
        return fd;
    int error = fstat(fd, &found) < 0 ? -errno : closed_by_identity(guard, &found, only_look);
    if (!error)
        return fd;
    close(fd);
    return error;
}

static bool identify(int fd, struct own_file *file)
{
    struct statx found;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &found) < 0)
        return false;
    file->identity = (struct identity){makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino};
    file->born_ns = found.stx_mask & STATX_BTIME ? found.stx_btime.tv_sec * 1000000000LL + found.stx_btime.tv_nsec : 0;
    return true;
}

static struct own_file *find_own(const struct guard *guard, const struct own_file *file)
{
    for (size_t i = 0; i < guard->own_count; i++)
        if (memcmp(&guard->own[i], file, sizeof *file) == 0)
            return &guard->own[i];
    return NULL;
}

/* A descriptor of what the name leads to, if the guest made it; else -1. */
static int open_own(const struct guard *guard, const char *relative)
{
    struct own_file file;
    pthread_rwlock_rdlock(&lock);
    bool any = guard->own_count;
    pthread_rwlock_unlock(&lock);
    int fd = any ? open_judged(guard, relative, O_PATH | O_NOFOLLOW, 0, true) : -1;
    if (fd < 0)
        return -1;
    bool own = identify(fd, &file);
    pthread_rwlock_rdlock(&lock);
    own = own && find_own(guard, &file);
    pthread_rwlock_unlock(&lock);
    if (own)
        return fd;
    close(fd);
    return -1;
}

/* Does a rule close the name? Not if there is nothing to close: then the answer is the host's own. `pin`, the caller's
 * to close, becomes a descriptor of what a rule excepts, or -1: another process may exchange it in a moment. */
static int closed_by_name(const struct guard *guard, const char *relative, bool only_look, int *pin)
{
    struct host_verdict found;
    char closed[PATH_MAX];
    *pin = -1;
    for (size_t own_end = 0;; own_end = found.end) {
        host_rules_judge(guard->rules, relative, own_end, &found);
        if (found.verb < HOST_DENY || (found.verb == HOST_DENY && found.itself && only_look))
            return 0;
        if (*pin >= 0)
            close(*pin);
        *pin = -1;
        if (found.end >= sizeof closed)
            return -ENAMETOOLONG;
        memcpy(closed, relative, found.end);
        closed[found.end] = 0;
        int own = found.own && found.end > own_end ? open_own(guard, closed) : -1;
        if (own < 0)
            break;
        if (found.itself)
            *pin = own;
        else
            close(own);
    }
    int fd = open_judged(guard, closed, O_PATH | O_NOFOLLOW, 0, true);
    if (fd < 0)
        return fd;
    struct stat there;
    if (found.files && fstat(fd, &there) == 0 && S_ISDIR(there.st_mode)) {
        *pin = fd;
        return 0;
    }
    close(fd);
    return -(HOST_CLOSED_BY_RULE + found.rule);
}

/* Open what was judged, and nothing that has its name by now. Takes `pin` over. */
static int open_pinned(const struct guard *guard, int pin, uint64_t flags, bool only_look)
{
    struct stat top, found;
    int error = fstat(guard->top, &top) < 0 || fstat(pin, &found) < 0 ? -errno : 0;
    if (!error)
        error = closed_by_identity(guard, &found, only_look);
    if (!error)
        error = may_open(guard, pin, &found, top.st_dev, flags);
    if (!error)
        return reopened(pin, &found, flags);
    close(pin);
    return error;
}

bool host_guard_open(int root, const char *relative, uint64_t flags, uint64_t mode, bool only_look, int *fd)
{
    struct guard *guard = hold(root);
    if (!guard)
        return false;
    struct own_ids own;
    int pin = -1;
    *fd = guard->uid && !become_owner(guard, &own) ? -EPERM : 0;
    if (*fd == 0 && guard->rules)
        *fd = closed_by_name(guard, relative, only_look, &pin);
    if (pin >= 0 && !(flags & (O_CREAT | O_TMPFILE) & ~O_DIRECTORY)) {
        *fd = open_pinned(guard, pin, flags, only_look);
        pin = -1;
    } else if (*fd == 0) {
        *fd = open_judged(guard, relative, flags, mode, only_look);
    }
    if (pin >= 0)
        close(pin);
    if (guard->uid)
        become_husk(&own);
    release(guard);
    return true;
}

bool host_opens_as_husk(int root)
{
    struct guard *guard = hold(root);
    bool opens = !guard || !guard->uid;
    release(guard);
    return opens;
}

bool host_rules_leave(int root, const char *relative, const struct stat *found)
{
    struct guard *guard = hold(root);
    struct host_verdict verdict = {.verb = HOST_ALLOW};
    if (guard && guard->rules && !found)
        host_rules_judge(guard->rules, relative, 0, &verdict);
    bool leave = verdict.verb < HOST_DENY && (!guard || !found || !closed_by_identity(guard, found, false));
    release(guard);
    return leave;
}

bool host_may_change(int root, const char *relative, const struct stat *found)
{
    struct guard *guard = hold(root);
    struct host_verdict verdict = {.verb = HOST_ALLOW, .rule = -1};
    bool free = guard && !guard->uid;
    if (free && guard->rules && !found) {
        host_rules_judge(guard->rules, relative, 0, &verdict);
        free = verdict.rule < 0 && !verdict.way;
    }
    if (free && found) {
        free = !among(guard->fixed, guard->fixed_count, found) && !among(guard->closed, guard->closed_count, found);
        for (size_t i = 0; free && i < guard->ruled_count + guard->kept_count; i++)
            free = !is(&guard->ruled[i].identity, found);
        pthread_rwlock_rdlock(&lock);
        for (size_t i = 0; free && i < guard->own_count; i++)
            free = !is(&guard->own[i].identity, found);
        pthread_rwlock_unlock(&lock);
    }
    release(guard);
    return free;
}

void host_made_directory(int root, const struct stat *made)
{
    pthread_rwlock_wrlock(&lock);
    struct guard *guard = *place(root);
    if (guard && guard->rules) /* nobody else asks */
        host_made_add(&guard->made, made->st_dev, made->st_ino);
    pthread_rwlock_unlock(&lock);
}

void host_removed_directory(int root, const struct stat *gone)
{
    pthread_rwlock_wrlock(&lock);
    struct guard *guard = *place(root);
    if (guard)
        host_made_forget(guard->made, gone->st_dev, gone->st_ino);
    pthread_rwlock_unlock(&lock);
}

/* ---- for Python -------------------------------------------------------------------------------------------------- */

static void in_child(void)
{
    /* The threads that held it are not in the child. What they used of a guard is never freed there. */
    lock = (pthread_rwlock_t)PTHREAD_RWLOCK_INITIALIZER;
}

static bool read_identities(PyObject *from, struct identity *to)
{
    for (Py_ssize_t i = 0; i < PyList_Size(from); i++) {
        unsigned long long dev, ino;
        if (!PyArg_ParseTuple(PyList_GetItem(from, i), "KK;an identity is a device and an inode number", &dev, &ino))
            return false;
        to[i] = (struct identity){dev, ino};
    }
    return true;
}

static bool read_ruled(PyObject *from, struct ruled *to, unsigned rules)
{
    for (Py_ssize_t i = 0; i < PyList_Size(from); i++) {
        unsigned long long dev, ino;
        unsigned rule;
        if (!PyArg_ParseTuple(PyList_GetItem(from, i), "KKI;device, inode number and rule", &dev, &ino, &rule))
            return false;
        if (rule >= rules) {
            PyErr_SetString(PyExc_ValueError, "there is no such rule");
            return false;
        }
        to[i] = (struct ruled){{dev, ino}, rule};
    }
    return true;
}

/* Closed ones first. */
static void sort_ruled(struct guard *guard, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct ruled here = guard->ruled[i];
        if (host_rule_verb(guard->rules, here.rule) < HOST_DENY)
            continue;
        guard->ruled[i] = guard->ruled[guard->ruled_count];
        guard->ruled[guard->ruled_count++] = here;
    }
    guard->kept_count = count - guard->ruled_count;
}

static void replace(int root, struct guard *by)
{
    Py_BEGIN_ALLOW_THREADS
    pthread_rwlock_wrlock(&lock);
    struct guard **at = place(root), *old = *at;
    if (by) {
        by->next = old ? old->next : NULL;
        by->made = old ? old->made : NULL;
        if (old)
            old->made = NULL;
    }
    *at = by ? by : old ? old->next : NULL;
    pthread_rwlock_unlock(&lock);
    release(old);
    Py_END_ALLOW_THREADS
}

/* guard_root(root_fd, closed, fixed, holds_closed, owner[, rules, ruled]): `owner` is (uid, gid), or None for husk's
 * own credentials. `rules`: as name_rules.c reads them; `ruled`: (device, inode, number of the rule that named it). */
PyObject *host_py_guard_root(PyObject *self, PyObject *args)
{
    (void)self;
    int root, holds_closed;
    unsigned uid = 0, gid = 0;
    PyObject *closed, *fixed, *owner, *rules = NULL, *ruled = NULL;
    if (!PyArg_ParseTuple(args, "iO!O!pO|O!O!:guard_root", &root, &PyList_Type, &closed, &PyList_Type, &fixed,
                          &holds_closed, &owner, &PyList_Type, &rules, &PyList_Type, &ruled))
        return NULL;
    if (owner != Py_None && !PyArg_ParseTuple(owner, "II;the owner is (uid, gid)", &uid, &gid))
        return NULL;
    size_t closed_count = PyList_Size(closed), fixed_count = PyList_Size(fixed);
    size_t ruled_count = rules && PyList_Size(rules) && ruled ? PyList_Size(ruled) : 0;
    if (closed_count > MOST_IDENTITIES || fixed_count > MOST_IDENTITIES || ruled_count > MOST_IDENTITIES)
        return core_raise_errno(E2BIG);
    struct guard *made = calloc(1, sizeof *made + (closed_count + fixed_count) * sizeof(struct identity));
    if (!made)
        return PyErr_NoMemory();
    struct identity *room = (struct identity *)(made + 1);
    *made = (struct guard){.users = 1, .root = root, .top = -1, .holds_closed = holds_closed, .uid = uid, .gid = gid,
                           .closed_count = closed_count, .fixed_count = fixed_count, .closed = room,
                           .fixed = room + closed_count};
    bool complete = read_identities(closed, made->closed) && read_identities(fixed, made->fixed);
    if (complete && rules && PyList_Size(rules))
        complete = (made->rules = host_rules_read(rules)) != NULL;
    if (complete && ruled_count) {
        made->ruled = calloc(ruled_count, sizeof *made->ruled);
        complete = made->ruled ? read_ruled(ruled, made->ruled, host_rules_count(made->rules))
                               : (PyErr_NoMemory(), false);
        if (complete)
            sort_ruled(made, ruled_count);
    }
    if (complete && (made->top = fcntl(root, F_DUPFD_CLOEXEC, 0)) < 0) {
        core_raise_errno(errno);
        complete = false;
    }
    if (!complete) {
        release(made);
        return NULL;
    }
    replace(root, made);
    Py_RETURN_NONE;
}

/* own_file(root_fd, relative, dev, ino): the guest made it. False: it is another file by now, or there are too many. */
PyObject *host_py_own_file(PyObject *self, PyObject *args)
{
    (void)self;
    int root;
    const char *relative;
    unsigned long long dev, ino;
    if (!PyArg_ParseTuple(args, "iyKK:own_file", &root, &relative, &dev, &ino))
        return NULL;
    bool done = false;
    struct own_file file;
    struct guard *guard = hold(root);
    int fd = guard ? open_judged(guard, relative, O_PATH | O_NOFOLLOW, 0, true) : -1;
    if (fd >= 0) {
        done = identify(fd, &file) && file.identity.dev == dev && file.identity.ino == ino;
        close(fd);
    }
    if (done) {
        Py_BEGIN_ALLOW_THREADS
        pthread_rwlock_wrlock(&lock);
        struct own_file *more = NULL;
        if (!find_own(guard, &file) && guard->own_count < MOST_IDENTITIES)
            more = realloc(guard->own, (guard->own_count + 1) * sizeof *more);
        if (more) {
            guard->own = more;
            guard->own[guard->own_count++] = file;
        }
        done = find_own(guard, &file);
        pthread_rwlock_unlock(&lock);
        Py_END_ALLOW_THREADS
    }
    release(guard);
    return PyBool_FromLong(done);
}

/* made_directory(root_fd, dev, ino[, made]): did the guest make it? `made`: from now on it did, or did not. */
PyObject *host_py_made_directory(PyObject *self, PyObject *args)
{
    (void)self;
    int root, change = -1;
    unsigned long long dev, ino;
    bool known = false;
    if (!PyArg_ParseTuple(args, "iKK|p:made_directory", &root, &dev, &ino, &change))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    pthread_rwlock_wrlock(&lock);
    struct guard *guard = *place(root);
    if (guard && change == 1)
        host_made_add(&guard->made, dev, ino);
    else if (guard && change == 0)
        host_made_forget(guard->made, dev, ino);
    known = guard && host_made_has(guard->made, dev, ino);
    pthread_rwlock_unlock(&lock);
    Py_END_ALLOW_THREADS
    return PyBool_FromLong(known);
}

/* judge_name(root_fd, relative, own_end): (number of the rule or -1, its verb, whether it matched the last component,
 * way, one of the rules on whose way it lies or -1, where the component that it matched ends). */
PyObject *host_py_judge_name(PyObject *self, PyObject *args)
{
    (void)self;
    int root;
    Py_ssize_t own_end;
    const char *relative;
    if (!PyArg_ParseTuple(args, "iyn:judge_name", &root, &relative, &own_end))
        return NULL;
    struct host_verdict found = {.rule = -1, .way_rule = -1};
    struct guard *guard = hold(root);
    if (guard && guard->rules)
        host_rules_judge(guard->rules, relative, (size_t)own_end, &found);
    release(guard);
    return Py_BuildValue("iiOIin", found.rule, (int)found.verb, found.itself ? Py_True : Py_False, found.way,
                         found.way_rule, (Py_ssize_t)found.end);
}

/* hidden_names(root_fd, directory, names): those of `names`, a list of bytes, that a rule hides there. */
PyObject *host_py_hidden_names(PyObject *self, PyObject *args)
{
    (void)self;
    int root;
    const char *directory;
    PyObject *names;
    if (!PyArg_ParseTuple(args, "iyO!:hidden_names", &root, &directory, &PyList_Type, &names))
        return NULL;
    struct guard *guard = hold(root);
    PyObject *hidden = guard && guard->rules ? host_rules_hidden(guard->rules, directory, names) : PyList_New(0);
    release(guard);
    return hidden;
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

static PyObject *raise_rule(int root, unsigned rule)
{
    const char *allow = "", *reason = "a rule that is gone by now";
    enum host_verb verb = HOST_DENY;
    struct guard *guard = hold(root);
    if (guard && guard->rules && rule < host_rules_count(guard->rules)) {
        reason = host_rule_reason(guard->rules, rule, &allow);
        verb = host_rule_verb(guard->rules, rule);
    }
    /* The third and fourth are what OSError has in between; the fifth is what would allow it. */
    PyObject *what = Py_BuildValue("(issOs)", verb == HOST_HIDE ? ENOENT : EACCES, reason, "", Py_None, allow);
    release(guard);
    if (what) {
        PyErr_SetObject(verb == HOST_HIDE ? hidden_error : denied_error, what);
        Py_DECREF(what);
    }
    return NULL;
}

PyObject *host_raise(int root, int result)
{
    if (result <= -HOST_CLOSED_BY_RULE)
        return raise_rule(root, (unsigned)(-result - HOST_CLOSED_BY_RULE));
    if (result != -HOST_CLOSED_FILE_SYSTEM)
        return core_raise_errno(result == -HOST_CLOSED_DIRECTORY ? ENOENT : -result);
    PyObject *what = Py_BuildValue("(is)", EACCES, "a file system that speaks for the kernel is closed below a mount");
    if (what) {
        PyErr_SetObject(closed_error, what);
        Py_DECREF(what);
    }
    return NULL;
}

static int add_error(PyObject *module, PyObject **error, const char *name, const char *full, PyObject *base)
{
    *error = PyErr_NewException(full, base, NULL);
    return *error ? PyModule_AddObjectRef(module, name, *error) : -1;
}

int host_add_guard_types(PyObject *module)
{
    /* Not only with the first guard: every open takes the lock, and a child may be the first to set one. */
    if (!closed_error && pthread_atfork(NULL, NULL, in_child) != 0) {
        PyErr_NoMemory();
        return -1;
    }
    return add_error(module, &closed_error, "ClosedFileSystem", "husk.native._core.ClosedFileSystem", PyExc_OSError) ||
                   add_error(module, &hidden_error, "HiddenByRule", "husk.native._core.HiddenByRule",
                             PyExc_FileNotFoundError) ||
                   add_error(module, &denied_error, "DeniedByRule", "husk.native._core.DeniedByRule",
                             PyExc_PermissionError) ||
                   add_error(module, &protected_error, "ProtectedByRule", "husk.native._core.ProtectedByRule",
                             PyExc_OSError)
               ? -1
               : 0;
}
