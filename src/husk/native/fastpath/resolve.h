/* native: resolving a call's name to a host file beneath a taught directory. All of it with the cache's lock held. */
#ifndef HUSK_RESOLVE_H
#define HUSK_RESOLVE_H

#include "fastpath/namecache.h"

#define FAST_LONGEST_NAME 4096

/* A guest's path, resolved. */
struct fast_resolved {
    struct fast_dir *dir;         /* borrowed from the cache */
    char name[FAST_LONGEST_NAME]; /* as the guest wrote it */
    char host[2 * FAST_LONGEST_NAME]; /* relative to dir->root_fd */
    size_t size, cut;             /* of `name`: its length; where the last component begins */
    struct fast_own *own;         /* the name lies in this directory of the box's own, whose names C knows; else NULL */
    int held;                     /* a descriptor of the directory, borrowed from the cache; -1: none */
    uint32_t start;               /* the placeholder the walk began in; 0: `name` is absolute */
    bool slash;                   /* it ended in a slash, which is cut off: it must be a directory */
};

/* Who asks. */
struct fast_asker {
    pid_t tid;
    pid_t process;    /* look for the thread among those of this process; 0: it is known to be the caller */
    bool *by_number;  /* set where husk looked for the thread by its number; NULL: nobody asks */
    const char *name; /* the name, terminated, where it was copied already; NULL: it is in the thread's memory */
    size_t name_size; /* less than FAST_LONGEST_NAME */
    uint32_t start;   /* the placeholder that a name begins in; 0: it is asked for … */
    uint64_t ino;     /* … and remembered by its number, if the guest told one */
    int umask;        /* of the thread, and one; 0: it has to be asked for */
    const void *times; /* what a call that sets times gives, where it was copied already; NULL: as with `name` */
    /* Does the caller still wait? To be asked before anything is changed. */
    bool (*waits)(const struct fast_asker *asker);
    const void *call; /* of `waits` */
};

/* What the guest gets: `data` in its memory, if there is any, and a value, or -errno. */
#define FAST_LARGEST_REPLY FAST_LONGEST_NAME
struct fast_reply {
    int64_t value;
    uint64_t to;
    size_t size;
    int fd; /* of a call that opens: owned by the caller; -1: the value says why not */
    char data[FAST_LARGEST_REPLY];
};

/* FAST_PYTHON leaves the call to Python. */
enum fast_outcome { FAST_PYTHON, FAST_MISSING, FAST_FOUND };

/* fastpath.c: take the cache's lock for a question, and give it back. False: C answers nothing, and has no lock. */
bool fast_begin(struct fast_cache *cache);
void fast_end(struct fast_cache *cache);
/* questions.c, with the lock held: the reply to a call that carries no descriptor back. False: Python's. */
bool fast_ask(struct fast_cache *cache, const struct fast_asker *asker, int nr, const uint64_t args[6],
              struct fast_reply *reply);
/* fastpath.c: open or openat, for reading. Flags but these are Python's; 0100000 is O_LARGEFILE, which every 64-bit
 * program may set and none needs. */
#define FAST_OPENS (O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_DIRECTORY | 0100000)
bool fast_open(struct fast_cache *cache, const struct fast_asker *asker, int nr, const uint64_t *args,
               struct fast_reply *reply);
/* changes.c: a call that changes something. False: nothing was changed, and Python decides. */
bool fast_change(Listener *self, const struct fast_asker *asker, int nr, const uint64_t *args,
                 struct fast_reply *reply);

/* listing.c: what getdents64 gives, and the position in the directory that it has read. */
struct fast_listed {
    const char *records; /* borrowed while the lock is held */
    uint32_t size;
    int64_t before, behind;
    int fd;              /* the guest's open directory */
};
/* True: somebody has to end it, done or not. Until then no other listing begins. False: Python's. `shared`: a duplicate
 * of the guest's descriptor, which this closes. */
bool fast_list_begin(struct fast_cache *cache, int shared, uint32_t start, int room, struct fast_listed *listed);
void fast_list_end(const struct fast_listed *listed, bool done);
void fast_list_close(int shared); /* what may not be the directory that it was taken for */

#define FAST_LONGEST_LINK 80
/* starts.c: the name in /proc of what belongs to the thread: "fd" or "fdinfo" of a descriptor, AT_FDCWD's link, or with
 * -1 another file. */
void fast_task_link(char link[FAST_LONGEST_LINK], const struct fast_asker *asker, const char *kind, int fd);
/* The number of the placeholder that `dirfd` of the thread, or AT_FDCWD, is. False: it is something else. */
bool fast_start(struct fast_cache *cache, const struct fast_asker *asker, int dirfd, uint32_t *number);
/* The placeholder that a guest says it holds: whatever it says, it is one of its box. 0: none that is known. */
uint32_t fast_start_told(struct fast_cache *cache, uint64_t dev, uint64_t ino);
/* The number of the placeholder that `link`, a link of /proc, leads to. False: it leads elsewhere. */
bool fast_placeholder(struct fast_cache *cache, const char *link, uint32_t *start);
/* The host's attributes of a taught directory, asked now. */
bool fast_stat_dir(struct fast_cache *cache, struct fast_dir *dir, struct stat *s);
/* Is the directory still the one that was taught? */
bool fast_same_dir(struct fast_cache *cache, struct fast_dir *dir);
/* The entry of the directory that `path` itself names. NULL: it was not taught. */
struct fast_dir *fast_find_itself(struct fast_cache *cache, struct fast_resolved *path);
/* Read the name from the guest and find the taught directory it lies in. */
bool fast_resolve(struct fast_cache *cache, const struct fast_asker *asker, int dirfd, uint64_t address,
                  struct fast_resolved *path);
/* Ask the host. On FAST_FOUND `fd` is opened with `flags`, and the caller closes it; or it is -1. */
enum fast_outcome fast_lookup(struct fast_cache *cache, struct fast_resolved *path, uint64_t flags, int *fd,
                              struct stat *host);
/* Likewise, but follows symbolic links at the end as far as they lead to taught directories. */
enum fast_outcome fast_lookup_following(struct fast_cache *cache, struct fast_resolved *path, uint64_t flags, int *fd,
                                        struct stat *host);
/* The text of the symbolic link that `fast_lookup` just found; its size, or -1. */
ssize_t fast_read_link(const struct fast_resolved *path, int fd, char *text, size_t room);
/* May C answer from these attributes, or can only Python? */
bool fast_is_plain(struct fast_cache *cache, struct fast_resolved *path, const struct stat *host, bool follow);
/* Turn the host's attributes into the guest's. */
void fast_show(const struct fast_showing *as, struct stat *s);
/* Do the mode bits give the guest `want` (4 read, 2 write, 1 execute)? */
bool fast_permits(struct fast_cache *cache, const struct stat *shown, unsigned want);
/* What `lstat` says of an image's entry, without the device. */
void fast_image_stat(const struct manifest_entry *entry, struct stat *s);

#endif
