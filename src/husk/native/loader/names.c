/*
 * Direct names: calls with a name below the host's /usr, answered in the guest by the host kernel itself
 * (docs/design/026-direct-names.md). This runs in guests, and belongs to them: no wall depends on it.
 *
 * The table says which directories are the host's, unchanged. Their names are looked up in the copy of /usr that the
 * box's own root has, by calls that the filter knows. What the supervisor would answer otherwise is left to the call's
 * own site: anything but plain files, directories of the table, and names that do not exist.
 *
 * One section, copied by main.c: no data, no string, no call of anything outside.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "directories.h"
#include "gate/layout.h"
#include "loader.h"

#define HERE __attribute__((section("husk_names"), noinline))
#define INLINE inline __attribute__((always_inline))

#define UNANSWERED ((long)GATE_UNANSWERED)
#define LONGEST 191       /* of a name: they are copied to the stack */
#define LONGEST_PATH 223  /* likewise */
#define MOST_LINKS 4
#define MANY_MISSES 32
#define EFAULT 14
#define ENOENT 2
#define EINVAL 22
#define ENOSYS 38
#define CLONE_VM 0x100
/* HUSK_RUN, without a string. */
#define HUSK_RUN_WORD 0x75722d6b7375682ful
#define HUSK_RUN_LAST 'n'
_Static_assert(sizeof HUSK_RUN == 10, "a word, one more, and a NUL");
#define READS (O_NOCTTY | O_NONBLOCK | 0100000 /* O_LARGEFILE */ | O_NOFOLLOW | O_CLOEXEC)

/* As names_entry.S pushes them. */
struct site_call {
    uint64_t rdi, rsi, rdx, r10, r8, r9;
    const uint8_t *data; /* the stub's */
};

/* A name that lies in a directory of the table. */
struct place {
    const struct husk_directory *directory;
    uint32_t turn;           /* of the directory, when it was read */
    uint64_t hash;           /* of the whole name, with a slash behind it */
    size_t size, cut, end;   /* of the guest's name: its length, where the last component begins; the length of path */
    int is_directory;        /* the name had "/." at its end, which is left out */
    char name[LONGEST + 2];  /* as the guest wrote it, and a slash */
    char path[LONGEST_PATH + 1];
};

static INLINE long direct(long nr, long a, long b, long c, long d)
{
    return ((long (*)(long, long, long, long, long))(HUSK_RESIDENT + HUSK_RESIDENT_DIRECT))(nr, a, b, c, d);
}

static INLINE const struct husk_directories *table(void)
{
    return (const struct husk_directories *)HUSK_DIRECTORIES;
}

static INLINE int is_open(void)
{
    return __atomic_load_n(&table()->open, __ATOMIC_ACQUIRE) != 0;
}

/* Eight bytes from here on. The host reads them before it finds that -1 is no operation. */
static INLINE int readable(const char *at)
{
    return syscall6(SYS_rt_sigprocmask, -1, (long)at, 0, 8, 0, 0) == -EINVAL;
}

/* The record of a key, and its turn. NULL: the table has none. */
static HERE const struct husk_directory *find(const char *key, size_t size, uint64_t hash, uint32_t *turn)
{
    uint32_t wanted = husk_hash_end(hash);

    for (unsigned i = 0; i < HUSK_DIRECTORY_PROBES; i++) {
        const struct husk_directory *d = &table()->records[(wanted + i) & (HUSK_DIRECTORY_COUNT - 1)];
        size_t same = 0;

        *turn = __atomic_load_n(&d->turn, __ATOMIC_ACQUIRE);
        if (!*turn || d->hash != wanted || d->key_size != size || size + d->path_size > HUSK_DIRECTORY_TEXT)
            continue;
        while (same < size && d->text[same] == key[same])
            same++;
        if (same == size)
            return d;
    }
    return NULL;
}

/* Nothing was changed in the directory, or in what leads there, since the place was read. */
static INLINE int is_still(const struct husk_directory *directory, uint32_t turn)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return __atomic_load_n(&directory->turn, __ATOMIC_RELAXED) == turn;
}

/* Put the last component behind the directory's path. What is missing is looked up without: with what lies behind it,
 * the host would follow any `..` there, once it has the directory, to names that the box may have changed. */
static INLINE int take_last(struct place *p)
{
    size_t path_size = p->directory->path_size, from = p->cut;

    if (p->directory->kind == HUSK_ABSENT_DIRECTORY)
        from = p->size;
    if (path_size + (p->size - from) >= sizeof p->path)
        return 0;
    for (size_t i = 0; i < path_size; i++)
        p->path[i] = p->directory->text[p->directory->key_size + i];
    p->end = path_size;
    for (size_t i = from; i < p->size; i++)
        p->path[p->end++] = p->name[i];
    p->path[p->end] = 0;
    return is_still(p->directory, p->turn);
}

/* Copy the guest's name, and find the directory it lies in: 0, -ENOENT where the table says that there is no such name,
 * or UNANSWERED. */
static HERE long find_place(struct place *p, const char *name)
{
    uint64_t hash = HUSK_HASH_BEGIN, cut_hash = hash, name_hash = hash, above_hash = hash;
    size_t i = 0, cut = 0, above = 0;

    p->is_directory = 0;
    for (;; i++) {
        if (i == LONGEST || ((i == 0 || PAGE_OFFSET((uint64_t)(name + i)) == 0) && !readable(name + i)))
            return UNANSWERED;
        char byte = ((volatile const char *)name)[i];
        p->name[i] = byte;
        if (byte == 0)
            break;
        if (i == 0 && byte != '/')
            return UNANSWERED;
        if (byte == '/') {
            above = cut;
            above_hash = cut_hash;
            name_hash = hash;
            cut = i + 1;
            cut_hash = husk_hash_step(hash, byte);
        }
        hash = husk_hash_step(hash, byte);
    }
    if (cut > 1 && i - cut == 1 && p->name[cut] == '.') {
        i = cut - 1;
        p->name[i] = 0;
        p->is_directory = 1;
        hash = name_hash;
        cut = above;
        cut_hash = above_hash;
    }
    p->hash = husk_hash_step(hash, '/');
    p->cut = cut;
    if (i == cut || (p->name[cut] == '.' && (i - cut == 1 || (p->name[cut + 1] == '.' && i - cut == 2))))
        return UNANSWERED;
    p->size = i;
    p->directory = find(p->name, cut, cut_hash, &p->turn);
    if (p->directory)
        return take_last(p) ? 0 : UNANSWERED;
    p->directory = find(p->name, i, hash, &p->turn);
    if (p->directory && p->directory->kind == HUSK_KNOWN_FILE)
        return take_last(p) ? 0 : UNANSWERED;
    return p->directory && p->directory->kind == HUSK_MISSING_NAME ? -ENOENT : UNANSWERED;
}

/* Is it a directory that nothing of the box has changed? */
static HERE int is_known_directory(struct place *p)
{
    uint32_t turn;
    const struct husk_directory *itself;

    p->name[p->size] = '/';
    itself = find(p->name, p->size + 1, p->hash, &turn);
    return itself && itself->kind == HUSK_DIRECTORY && is_still(itself, turn);
}

/* Follow a link to a name in the same directory. 0: it leads elsewhere. */
static HERE int follow(struct place *p)
{
    char *text = p->name + p->cut;
    uint64_t hash = HUSK_HASH_BEGIN;
    long room = (long)(LONGEST - p->cut), size = direct(SYS_readlinkat, AT_FDCWD, (long)p->path, (long)text, room);

    if (size <= 0 || size == room)
        return 0;
    for (long i = 0; i < size; i++)
        if (text[i] == '/' || text[i] == 0)
            return 0;
    p->size = p->cut + (uint64_t)size;
    p->name[p->size] = 0;
    if (text[0] == '.' && (size == 1 || (text[1] == '.' && size == 2)))
        return 0;
    for (size_t i = 0; i < p->size; i++)
        hash = husk_hash_step(hash, p->name[i]);
    p->hash = husk_hash_step(hash, '/');
    return take_last(p);
}

static INLINE int64_t changed_ns(const struct stat *s)
{
    return s->st_ctim.tv_sec * 1000000000 + s->st_ctim.tv_nsec;
}

/* Has husk seen that this file is root's? */
static INLINE int was_roots(const struct stat *s)
{
    for (unsigned i = 0; i < HUSK_ROOTS_PROBES; i++) {
        const struct husk_roots *r = &table()->roots[(s->st_ino + i) & (HUSK_ROOTS_COUNT - 1)];
        if (__atomic_load_n(&r->ino, __ATOMIC_ACQUIRE) == s->st_ino)
            return __atomic_load_n(&r->changed_ns, __ATOMIC_ACQUIRE) == changed_ns(s) &&
                __atomic_load_n(&r->ino, __ATOMIC_ACQUIRE) == s->st_ino;
    }
    return 0;
}

/* What the host says of the name, as it is there, into `s`: 0, -ENOENT, or UNANSWERED. The box may have nothing else in
 * that place. */
static HERE long look(struct place *p, struct stat *s, int follows)
{
    for (int links = 0;; links++) {
        long result = direct(SYS_newfstatat, AT_FDCWD, (long)p->path, (long)s, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT);

        if (!is_still(p->directory, p->turn))
            return UNANSWERED;
        if (p->is_directory && !result && !S_ISDIR(s->st_mode))
            return UNANSWERED;
        if (p->directory->kind == HUSK_KNOWN_FILE) /* any other that the host has put there has other times */
            return !result && S_ISREG(s->st_mode) && s->st_nlink && s->st_dev == table()->host_dev &&
                !(s->st_ino >> 32) && was_roots(s) ? 0 : UNANSWERED;
        if (result == -ENOENT)
            return result;
        if (result || p->directory->kind != HUSK_DIRECTORY || s->st_dev != table()->host_dev || s->st_ino >> 32)
            return UNANSWERED;
        if (S_ISDIR(s->st_mode))
            return is_known_directory(p) ? 0 : UNANSWERED;
        if (!S_ISREG(s->st_mode) && !S_ISLNK(s->st_mode))
            return UNANSWERED;
        if (s->st_nlink != 1 && table()->links_changed)
            return UNANSWERED;
        if (S_ISREG(s->st_mode) || !follows)
            return 0;
        if (links == MOST_LINKS || !follow(p))
            return UNANSWERED;
    }
}

/* Files of the host's root are shown to a guest without an owner, as all are that its namespace has no ids for. Is this
 * one root's? The host may have put another directory in the place of the one that was looked at. */
static HERE int is_roots(struct place *p, const struct stat *s)
{
    int64_t before = __atomic_load_n(&p->directory->owned_before, __ATOMIC_ACQUIRE);
    struct stat above;
    char *last = p->path + p->directory->path_size, first = *last;

    if (s->st_uid != table()->unknown_uid || s->st_gid != table()->unknown_gid)
        return 0;
    if (was_roots(s))
        return 1;
    if (s->st_ctim.tv_sec >= before / 1000000000 - 1)
        return 0;
    *last = 0;
    long result = direct(SYS_newfstatat, AT_FDCWD, (long)p->path, (long)&above, AT_NO_AUTOMOUNT);
    *last = first;
    return !result && above.st_ino == p->directory->inode && above.st_dev == s->st_dev &&
        is_still(p->directory, p->turn);
}

/* Can these bytes be written? The host puts the signal mask there, at both ends if they are on two pages; nowhere, if
 * that is null. */
static INLINE int writable(void *at, size_t size)
{
    uint64_t first = (uint64_t)at, last = first + size - 8;

    return at && !syscall6(SYS_rt_sigprocmask, 0, 0, (long)first, 8, 0, 0) &&
        (PAGE_DOWN(first) == PAGE_DOWN(last) || !syscall6(SYS_rt_sigprocmask, 0, 0, (long)last, 8, 0, 0));
}

static INLINE void show(struct stat *s)
{
    s->st_dev = table()->dev;
    s->st_uid = table()->root_uid;
    s->st_gid = table()->root_gid;
}

static INLINE long answer_stat(const char *name, struct stat *to, int follows)
{
    struct place p;
    struct stat s; /* the guest's buffer stays as it is unless the call succeeds */
    long result = find_place(&p, name);

    if (!result)
        result = look(&p, &s, follows);
    if (result)
        return result;
    if (!is_roots(&p, &s) || !writable(to, sizeof *to))
        return UNANSWERED;
    show(&s);
    *to = s;
    return 0;
}

static INLINE long answer_access(const char *name, unsigned mode)
{
    struct place p;
    struct stat s;
    long result = mode & ~(4u | 1u) ? UNANSWERED : find_place(&p, name);

    if (!result)
        result = look(&p, &s, 1);
    if (result)
        return result;
    return (s.st_mode & s.st_mode >> 3 & s.st_mode >> 6 & mode) == mode ? 0 : UNANSWERED;
}

/* Is the name, which lies in no directory of the table, one itself, by a path without links? */
static HERE int is_plain_directory(struct place *p)
{
    static const size_t shown = sizeof HUSK_SHOWN - 1;
    uint32_t turn;

    p->name[p->size] = '/';
    const struct husk_directory *itself = find(p->name, p->size + 1, p->hash, &turn);
    if (!itself || itself->kind != HUSK_DIRECTORY || itself->path_size != itself->key_size + shown)
        return 0;
    for (size_t i = 0; i < itself->key_size && i < p->size; i++)
        if (itself->text[itself->key_size + shown + i] != p->name[i])
            return 0;
    return is_still(itself, turn);
}

/* What is written here must not be the name: where the call goes on its ordinary way, it is read once more. */
static INLINE int overlap(const char *name, size_t size, const void *buffer, size_t room)
{
    return (uint64_t)name < (uint64_t)buffer + room && (uint64_t)buffer < (uint64_t)name + size + 1;
}

static INLINE long answer_readlink(const char *name, char *to, int room)
{
    struct place p;

    p.size = 0;
    long result = room <= 0 ? UNANSWERED : find_place(&p, name);
    if (p.size && p.is_directory)
        return UNANSWERED;
    if (!result && p.directory->kind == HUSK_KNOWN_FILE)
        return UNANSWERED;
    if (result == UNANSWERED && p.size && is_plain_directory(&p)) /* realpath(3) asks this of /usr each time */
        return -EINVAL;
    if (result)
        return result;
    if (overlap(name, p.size, to, (size_t)room))
        return UNANSWERED;
    result = direct(SYS_readlinkat, AT_FDCWD, (long)p.path, (long)to, room);
    if (!is_still(p.directory, p.turn) || (result != -ENOENT && p.directory->kind != HUSK_DIRECTORY))
        return UNANSWERED;
    if (result >= 0)
        return table()->links_changed ? UNANSWERED : result;
    return result == -ENOENT || result == -EINVAL ? result : UNANSWERED;
}

static INLINE struct husk_names *mine(void)
{
    return (struct husk_names *)HUSK_NAMES_DATA;
}

static INLINE struct husk_opened *opened(uint64_t ino)
{
    return &mine()->opened[ino % (sizeof mine()->opened / sizeof *mine()->opened)];
}

/* So that fstat can tell the file by what nobody can change without changing its time. Threads may write at once: what
 * two of them mixed is no file's. */
static INLINE void remember(const struct stat *s, uint64_t changes)
{
    struct husk_opened *o = opened(s->st_ino);

    __atomic_store_n(&o->ino, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&o->changed_s, (uint64_t)s->st_ctim.tv_sec, __ATOMIC_SEQ_CST);
    __atomic_store_n(&o->changed_ns, (uint64_t)s->st_ctim.tv_nsec, __ATOMIC_SEQ_CST);
    __atomic_store_n(&o->changes, changes, __ATOMIC_SEQ_CST);
    __atomic_store_n(&o->ino, s->st_ino, __ATOMIC_SEQ_CST);
}

static INLINE long answer_open(const char *name, unsigned flags)
{
    struct place p;
    struct stat s;
    uint64_t changes = __atomic_load_n(&table()->changes, __ATOMIC_ACQUIRE);

    long result = flags & ~(unsigned)READS ? UNANSWERED : find_place(&p, name);

    if (!result)
        result = look(&p, &s, !(flags & O_NOFOLLOW));
    if (result)
        return result;
    if (!S_ISREG(s.st_mode))
        return UNANSWERED;
    /* What was looked at a moment ago was the box's. If that changes just now, this call came first. */
    result = direct(SYS_openat, AT_FDCWD, (long)p.path, flags, 0);
    if (result < 0)
        return UNANSWERED;
    if (is_roots(&p, &s))
        remember(&s, changes);
    return result;
}

/* Was it opened by a direct name? */
static INLINE int is_opened(const struct stat *s)
{
    const struct husk_opened *o = opened(s->st_ino);

    return (s->st_nlink == 1 || !table()->links_shown) && s->st_dev == table()->host_dev &&
        __atomic_load_n(&o->ino, __ATOMIC_ACQUIRE) == s->st_ino && o->changed_s == (uint64_t)s->st_ctim.tv_sec &&
        o->changed_ns == (uint64_t)s->st_ctim.tv_nsec &&
        o->changes == __atomic_load_n(&table()->changes, __ATOMIC_ACQUIRE) && s->st_uid == table()->unknown_uid &&
        s->st_gid == table()->unknown_gid;
}

/* Did husk open it, through a mount? Then show it so. Whose it is must be sure: it has not changed since, or it is the
 * guest's own, as the host says. */
static INLINE int show_given(struct stat *s)
{
    const struct husk_given *g = &table()->given[s->st_ino & (HUSK_GIVEN_COUNT - 1)];
    int owned = s->st_uid != table()->unknown_uid && s->st_gid != table()->unknown_gid;

    if (s->st_nlink != 1 || __atomic_load_n(&g->ino, __ATOMIC_ACQUIRE) != s->st_ino || g->host_dev != s->st_dev ||
        g->changed_ns != changed_ns(s) || g->changes != __atomic_load_n(&table()->changes, __ATOMIC_ACQUIRE) ||
        !(owned || g->settled))
        return 0;
    uint32_t dev = g->dev, uid = g->uid, gid = g->gid;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (__atomic_load_n(&g->ino, __ATOMIC_RELAXED) != s->st_ino)
        return 0;
    s->st_dev = dev;
    s->st_uid = uid;
    s->st_gid = gid;
    return 1;
}

static INLINE long answer_fstat(int fd, struct stat *to)
{
    if (direct(SYS_fstat, fd, (long)to, 0, 0) || !S_ISREG(to->st_mode))
        return UNANSWERED;
    if (is_opened(to)) {
        show(to);
        return 0;
    }
    return show_given(to) ? 0 : UNANSWERED;
}

static INLINE long answer_stat_at(int dirfd, const char *name, struct stat *to, unsigned flags)
{
    if (flags & ~(unsigned)(AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH))
        return UNANSWERED;
    if (flags & AT_EMPTY_PATH) {
        if (name && !readable(name))
            return UNANSWERED;
        if (!name || !*(volatile const char *)name)
            return answer_fstat(dirfd, to);
    }
    return answer_stat(name, to, !(flags & AT_SYMLINK_NOFOLLOW));
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

/* The program that was executed by this name, and its turn; `hash` is that of the name alone. NULL: none is known. */
HERE const struct husk_program *loader_names_program(const char *name, size_t size, uint64_t hash, uint32_t *turn)
{
    uint32_t wanted = husk_hash_end(hash);

    for (unsigned i = 0; is_open() && i < HUSK_PROGRAM_PROBES; i++) {
        const struct husk_program *p = &table()->programs[(wanted + i) & (HUSK_PROGRAM_COUNT - 1)];
        size_t same = 0;

        *turn = __atomic_load_n(&p->turn, __ATOMIC_ACQUIRE);
        if (!*turn || p->hash != wanted || p->key_size != size || size >= HUSK_PROGRAM_TEXT)
            continue;
        while (same < size && p->text[same] == name[same])
            same++;
        if (same == size)
            return p;
    }
    return NULL;
}

HERE int loader_names_is_still(const struct husk_program *program, uint32_t turn)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return is_open() && __atomic_load_n(&program->turn, __ATOMIC_RELAXED) == turn;
}

static INLINE int is_exact(const struct stat *s, const struct husk_exact *exact)
{
    return s->st_dev == exact->dev && s->st_ino == exact->ino && (uint64_t)s->st_size == exact->size &&
        changed_ns(s) == exact->changed_ns;
}

/* Open the file if it is what it was. The caller closes it. -1: it is not. */
HERE int loader_names_open(const char *path, const struct husk_exact *exact)
{
    struct stat s;
    int fd = (int)direct(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);

    if (fd < 0)
        return -1;
    if (direct(SYS_fstat, fd, (long)&s, 0, 0) || !is_exact(&s, exact)) {
        syscall3(SYS_close, fd, 0, 0);
        return -1;
    }
    return fd;
}

/* Do the links on the way lead where they led? */
static INLINE int links_are(const struct husk_program *program)
{
    const char *at = program->text + program->links_at, *end = program->text + HUSK_PROGRAM_TEXT;
    char text[64];

    for (unsigned i = 0; i < program->link_count; i++) {
        const char *name = at;
        while (at < end && *at)
            at++;
        if (end - at < 2)
            return 0;
        at++;
        long size = direct(SYS_readlinkat, AT_FDCWD, (long)name, (long)text, sizeof text);
        if (size <= 0 || size == (long)sizeof text || end - at <= size)
            return 0;
        for (long j = 0; j < size; j++)
            if (text[j] != at[j])
                return 0;
        if (at[size])
            return 0;
        at += size + 1;
    }
    return 1;
}

/* Are program and interpreter what they were? That a descriptor is free is tried as well: the loader needs one, when it
 * is too late for an error. */
static INLINE int is_unchanged(const struct husk_program *program)
{
    struct stat s;
    const char *text = program->text;
    int fd = loader_names_open(text + program->program_at, &program->program);

    if (fd < 0)
        return 0;
    syscall3(SYS_close, fd, 0, 0);
    if (program->interpreter_at &&
        (direct(SYS_newfstatat, AT_FDCWD, (long)(text + program->interpreter_at), (long)&s, AT_SYMLINK_NOFOLLOW) ||
         !is_exact(&s, &program->interpreter)))
        return 0;
    return links_are(program);
}

/* Comes back only if the program does not start: then the call is made in the ordinary way, which says why. */
static INLINE long answer_execve(const char *name, long argv, long envp)
{
    struct place p;
    struct stat s;
    uint32_t turn;
    uint64_t hash = HUSK_HASH_BEGIN;
    long result = find_place(&p, name);

    if (result)
        return result;
    if (p.is_directory)
        return UNANSWERED;
    for (size_t i = 0; i < p.size; i++)
        hash = husk_hash_step(hash, p.name[i]);
    const struct husk_program *program = loader_names_program(p.name, p.size, hash, &turn);
    if (!program)
        return look(&p, &s, 1) == -ENOENT ? -ENOENT : UNANSWERED;
    if (p.directory->kind != HUSK_DIRECTORY || !is_unchanged(program) || !is_still(p.directory, p.turn) ||
        !loader_names_is_still(program, turn))
        return UNANSWERED;
    const uint64_t run = HUSK_RUN_WORD;
    __builtin_memcpy(p.path, &run, sizeof run);
    p.path[sizeof run] = HUSK_RUN_LAST;
    for (size_t i = 0; i <= p.size; i++)
        p.path[sizeof HUSK_RUN - 1 + i] = p.name[i];
    direct(SYS_execve, (long)p.path, argv, envp, 0);
    return UNANSWERED;
}

/* Whoever would make a thread, or a child in its own memory, shall use clone: husk has no other answer. */
static INLINE long answer_clone3(const volatile uint64_t *at)
{
    if (!readable((const char *)at))
        return UNANSWERED;
    uint64_t flags = *at;
    return flags & CLONE_VM && !(flags >> 32) ? -ENOSYS : UNANSWERED;
}

/* ---- leading call sites here ------------------------------------------------------------------------------------- */

#define MOV_BYTES 5 /* mov $nr, %eax */
#define NEAR 0x7fff0000l
#define PR_GET_MDWE 66

/* Two pages close to what was mapped last, with room for all stubs: their code here, their data later. */
HERE void loader_names_make_stubs(uint64_t entry)
{
    uint64_t at = sys_mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (failed((long)at))
        return;
    for (unsigned i = 0; i < HUSK_STUB_COUNT; i++) {
        uint64_t *code = (uint64_t *)(at + i * HUSK_STUB_CODE_BYTES);
        uint64_t data = at + PAGE + i * HUSK_STUB_DATA_BYTES;
        if (i >= HUSK_STUB_PLAIN)
            *code++ = HUSK_BETWEEN;
        /* lea data(%rip), %r11; jmp *entry(%rip) */
        code[0] = 0xff000000001d8d4c | (uint64_t)(uint32_t)(data - ((uint64_t)code + 7)) << 24;
        code[1] = 0x25 | (uint64_t)(uint32_t)(data + GATE_DATA_NAMES - ((uint64_t)code + 13)) << 8;
        *(uint64_t *)(data + GATE_DATA_NAMES) = entry;
    }
    if (!failed(sys_mprotect(at, PAGE, PROT_READ | PROT_EXEC)))
        mine()->stubs = at;
}

/* Where rt_sigaction's stub leads: to code of its own, which knows one site. 0: it has one. */
static INLINE uint64_t sigaction_entry(uint64_t at)
{
    struct husk_resident *resident = (struct husk_resident *)HUSK_RESIDENT_DATA;

    if (resident->sigaction_back)
        return 0;
    resident->sigaction_back = at + 2;
    return HUSK_RESIDENT + HUSK_RESIDENT_SIGACTION;
}

/* The site at `at` leads to a new stub. */
static INLINE void lead(uint8_t *at, const struct husk_site *known)
{
    uint8_t *mov = at - known->between - MOV_BYTES;
    uint32_t kind = known->between != 0, first = kind ? HUSK_STUB_PLAIN : 0;
    uint32_t room = kind ? HUSK_STUB_COUNT - HUSK_STUB_PLAIN : HUSK_STUB_PLAIN, nr;

    __builtin_memcpy(&nr, mov + 1, 4);
    if (mov[0] != 0xb8 || nr != known->nr || at[0] != 0x0f || at[1] != 0x05 ||
        (kind && *(const uint64_t *)(mov + MOV_BYTES) != HUSK_BETWEEN))
        return;
    uint32_t number = __atomic_fetch_add(&mine()->stubs_used[kind], 1, __ATOMIC_SEQ_CST);
    uint64_t stub = mine()->stubs + (first + number) * HUSK_STUB_CODE_BYTES;
    int64_t distance = (int64_t)(stub - (uint64_t)(mov + MOV_BYTES));
    if (number >= room || distance > NEAR || distance < -NEAR)
        return;
    uint8_t *data = (uint8_t *)mine()->stubs + PAGE + (first + number) * HUSK_STUB_DATA_BYTES;
    int32_t jump = (int32_t)distance;
    if (nr == SYS_rt_sigaction) {
        uint64_t entry = sigaction_entry((uint64_t)at);
        if (!entry)
            return;
        *(uint64_t *)(data + GATE_DATA_NAMES) = entry;
    }
    *(uint64_t *)(data + GATE_DATA_BACK) = (uint64_t)at;
    *(uint32_t *)(data + GATE_DATA_NR) = nr;
    mov[0] = 0xe9;
    __builtin_memcpy(mov + 1, &jump, 4);
}

/* A file's code was mapped, and nobody runs it yet. Its known call sites lead here from now on. */
HERE void loader_names_lead(uint64_t start, uint64_t size, int fd, uint64_t offset)
{
    struct stat s;
    uint32_t count = __atomic_load_n(&table()->site_count, __ATOMIC_ACQUIRE), open = 0;

    if (!is_open() || !mine()->stubs || count > HUSK_MOST_SITES || direct(SYS_fstat, fd, (long)&s, 0, 0) ||
        syscall6(SYS_prctl, PR_GET_MDWE, 0, 0, 0, 0, 0) > 0)
        return;
    for (uint32_t i = 0; i < count; i++) {
        const struct husk_site *site = &table()->sites[i];
        if (site->dev != s.st_dev || site->ino != s.st_ino ||
            site->offset < offset + HUSK_BETWEEN_BYTES + MOV_BYTES || size < 2 ||
            site->offset - offset > size - 2)
            continue;
        if (!open && failed(sys_mprotect(start, size, PROT_READ | PROT_WRITE)))
            return;
        open = 1;
        lead((uint8_t *)start + (site->offset - offset), site);
    }
    /* Where changed code is forbidden, the file's own is mapped again. */
    if (open && failed(sys_mprotect(start, size, PROT_READ | PROT_EXEC)))
        sys_mmap(start, size, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, offset);
}

static INLINE long answer_mmap(const struct site_call *c)
{
    uint64_t at = sys_mmap(c->rdi, c->rsi, (int)c->rdx, (int)c->r10, (int)c->r8, c->r9);

    if (!failed((long)at) && mine()->leads && c->rdx == (PROT_READ | PROT_EXEC) && (c->r10 & MAP_TYPE) == MAP_PRIVATE &&
        !(c->r10 & MAP_ANONYMOUS))
        loader_names_lead(at, c->rsi, (int)c->r8, c->r9);
    return (long)at;
}

static INLINE long answer(const struct site_call *c)
{
    switch (*(const uint32_t *)(c->data + GATE_DATA_NR)) {
    case SYS_mmap:
        return answer_mmap(c);
    case SYS_execve:
        return answer_execve((const char *)c->rdi, (long)c->rsi, (long)c->rdx);
    case SYS_clone3:
        return answer_clone3((const volatile uint64_t *)c->rdi);
    case SYS_stat:
        return answer_stat((const char *)c->rdi, (struct stat *)c->rsi, 1);
    case SYS_lstat:
        return answer_stat((const char *)c->rdi, (struct stat *)c->rsi, 0);
    case SYS_fstat:
        return answer_fstat((int)c->rdi, (struct stat *)c->rsi);
    case SYS_newfstatat:
        return answer_stat_at((int)c->rdi, (const char *)c->rsi, (struct stat *)c->rdx, (unsigned)c->r10);
    case SYS_access:
        return answer_access((const char *)c->rdi, (unsigned)c->rsi);
    case SYS_faccessat:
        return answer_access((const char *)c->rsi, (unsigned)c->rdx);
    case SYS_faccessat2:
        return c->r10 ? UNANSWERED : answer_access((const char *)c->rsi, (unsigned)c->rdx);
    case SYS_readlink:
        return answer_readlink((const char *)c->rdi, (char *)c->rsi, (int)c->rdx);
    case SYS_readlinkat:
        return answer_readlink((const char *)c->rsi, (char *)c->rdx, (int)c->r10);
    case SYS_open:
        return answer_open((const char *)c->rdi, (unsigned)c->rsi);
    case SYS_openat:
        return answer_open((const char *)c->rsi, (unsigned)c->rdx);
    default:
        return UNANSWERED;
    }
}

/* How often in a row the call at this site was not answered here. NULL: its stub is the supervisor's, which is
 * read-only. */
static INLINE uint32_t *misses_of(const uint8_t *data)
{
    return (uint64_t)data - (mine()->stubs + PAGE) < PAGE ? (uint32_t *)(data + GATE_DATA_MISSES) : NULL;
}

HERE long loader_names_answer(const struct site_call *c);
HERE long loader_names_answer(const struct site_call *c)
{
    uint32_t *misses = misses_of(c->data);

    if (!is_open())
        return UNANSWERED;
    /* It asks about other directories just now, and a gate is there to answer: most calls go straight on to that. */
    if (misses && *misses > MANY_MISSES && *misses % 8 && *(const uint64_t *)(c->data + GATE_DATA_NEXT)) {
        ++*misses;
        return UNANSWERED;
    }
    long result = answer(c);
    if (misses)
        *misses = result == UNANSWERED ? *misses + 1 : 0;
    return result;
}
