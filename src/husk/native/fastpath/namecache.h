/* native: the name cache: which guest directories show a host directory unchanged, so that C may answer for them.
 *
 * It holds no attributes: for every answer C asks the host kernel at that moment. It remembers only that a directory,
 * spelled exactly as the guest wrote it, is `rel` beneath `root_fd`, that nothing of the box lies over it, and that the
 * guest may search all directories on the way. Python teaches it, and makes it forget before a change becomes visible.
 * With the cache switched off husk gives the same answers. */
#ifndef HUSK_NAMECACHE_H
#define HUSK_NAMECACHE_H

#include "fastpath/fastpath.h"
#include "store/manifest.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

/* How a guest sees a host file's attributes.
 * FAST_AS_HOST: as the host's, but for the device number and the owner. A host uid of `uid_from` is shown as `uid_to`;
 * a file that really has `uid_to` on the host is shown as `uid_else`, so that the two stay apart. Groups likewise.
 * FAST_AS_UPPER: a file of the box's upper layer; size and content times are the host's, the rest is in `given`.
 * FAST_AS_GIVEN: all is in `given`; of a directory without links only the mode's kind. */
enum fast_manner { FAST_AS_HOST, FAST_AS_UPPER, FAST_AS_GIVEN };
struct fast_showing {
    enum fast_manner manner;
    uint32_t dev, uid_from, uid_to, uid_else, gid_from, gid_to, gid_else; /* FAST_AS_HOST */
    struct stat given;       /* FAST_AS_UPPER, FAST_AS_GIVEN */
    int64_t set_up_ns;       /* FAST_AS_UPPER: the host's change time when husk last touched the file itself */
};

#define FAST_OWNER_MADE (1ULL << 63)

/* One taught directory. `text` is the key (the guest's path with its last slash) followed by `rel`, with a slash too.
 * Or one taught file in a directory that is not the host's alone: the key has no slash at its end, and `rel` is the
 * whole name. `missing`: there is no file of that name, nor, where the key has its slash, a directory. */
struct fast_dir {
    /* Owned by the cache. Lists are linked both ways, because one directory may be the owner of most entries. */
    struct fast_dir *next, **link, *next_of_owner, **link_of_owner;
    uint64_t owner;          /* the vfs directory it was taught for, so that Python can make the cache forget it: an
                              * address, or of one that C made its number and FAST_OWNER_MADE */
    uint64_t host_dev;       /* inode numbers of this device are shown as they are; other devices are left to Python */
    uint64_t host_ino;       /* of the directory itself where Python holds it by identity; 0: by its name alone */
    /* Borrowed from the tree, which outlives the cache; for an image the directory of its links. */
    int root_fd;
    const struct manifest *manifest; /* borrowed likewise; NULL: the tree is the host's */
    uint32_t start;          /* 0: the key is absolute; else the placeholder the walk began in */
    uint32_t hash;
    uint32_t place;          /* number of its placeholder; 0: it has none yet */
    struct fast_showing showing;
    struct fast_listing *listing; /* owned; NULL: none was taught */
    struct fast_own *own;    /* C knows which names are the box's own there (own_dirs.c); borrowed; or NULL */
    struct fast_later *later; /* owned: no name is so far, but C may make some; or NULL */
    char *changes;           /* owned: its guest path with a slash, where C may change names in it; else NULL */
    int held;                /* a descriptor of the host's directory, borrowed from cache->held (held.c) … */
    uint32_t held_epoch;     /* … while this is the epoch there */
    bool held_opens;         /* files may be opened there, too */
    uint32_t uses;           /* look-ups in it while it is not held; counted without care */
    uint16_t key_size, rel_size;
    bool direct;             /* guests were told of it (direct.c) … */
    uint32_t asked, enough;  /* … and asked husk all the same about files of root, so often; until it learns more */
    bool missing;
    /* The directory does not exist: `rel` is the first word of the key that is missing, without a slash. While the host
     * has nothing there, C answers "no such name". */
    bool absent;
    /* C has since changed something in the directory that this was taught of: what it says of files, or of the
     * directory itself, is Python's. Set with the read lock, as the next. */
    bool stale;
    bool gone;               /* C has removed the directory: the entry is found no more */
    bool layered;            /* hard links and changed files may be elsewhere in the layer */
    char text[];
};

/* Identity and times of a host directory: while they are the same it has the same names. */
struct fast_stamp {
    uint64_t dev, ino;
    int64_t modified_ns, changed_ns;
};

/* An open host file by its identity, so that fstat on it needs no Python. */
#define FAST_FILES 4096
struct fast_file {
    uint64_t dev, ino, generation;
    int64_t born_ns; /* of a file that C made; else 0 */
    bool ambiguous;  /* it was opened through several mounts, which show it as different files */
    pid_t only_tid;  /* the answer is right while this thread asks; 0: whoever asks */
    uint64_t name;   /* hash of the name that /proc must show for its descriptors; 0: any */
    struct fast_showing showing;
};

/* held.c: the directories that are held, and those above them. */
#define FAST_MOST_HELD 1024 /* or a fifth of the descriptors that husk may have */
struct fast_watched {
    int wd, fd;              /* fd: owned */
    uint32_t mode, uid, gid; /* when it was first watched */
    uint64_t dev, ino;
};
struct fast_held {
    int watch;               /* owned: inotify; -1: none yet */
    uint32_t epoch;          /* counts how often everything was given back */
    uint32_t after;          /* look-ups in a directory before it is held */
    atomic_bool stale;       /* the host has changed something: nothing held is used until all was given back */
    atomic_bool full;        /* all is to be given back, to make room */
    atomic_bool reading;     /* a thread reads what the host reported */
    pthread_mutex_t making;  /* of what follows, for those who have the cache's lock for reading only */
    unsigned count, most;
    struct fast_watched dirs[FAST_MOST_HELD];
};

/* starts.c: which placeholders guests' descriptors and working directories are. */
#define FAST_STARTS 64
#define FAST_PLACES 1024
struct fast_start {
    pid_t tid, process;      /* as in struct fast_asker */
    int fd;                  /* the guest's, or AT_FDCWD */
    int file;                /* owned: what /proc has of it; -1: none, it was not asked often */
    unsigned uses;
};
struct fast_place {
    uint64_t mount, ino;
    uint32_t number, epoch;
};
struct fast_starts {
    pthread_mutex_t lock;    /* for those who have the cache's lock for reading only */
    bool numbered;           /* an inode's number and mount tell placeholders apart */
    uint32_t epoch;          /* counts how often all was forgotten; with the write lock */
    struct fast_start kept[FAST_STARTS];
    struct fast_place places[FAST_PLACES];
    struct fast_place told[FAST_PLACES]; /* the same by device, in the place of the mount, as guests tell them */
};

/* The path of a directory that has a placeholder, for getcwd. */
#define FAST_PATHS 256
struct fast_path {
    uint32_t number;         /* of the placeholder */
    uint32_t size;           /* with the NUL */
    uint64_t owner;          /* as in fast_dir */
    bool on_host;            /* C may remove it, and the host has to be asked whether it is there */
    char *text;              /* owned; NULL: none was taught */
};

/* direct.c: what guests look up themselves. */
struct fast_direct {
    struct husk_directories *table; /* owned: husk's mapping; NULL: there is none */
    int root_fd;                    /* borrowed: the host directory that guests see … */
    char name[64];                  /* … under this name */
    uint32_t turn;                  /* of the last teaching */
    uint32_t known;                 /* atomic: questions about open files */
};

#define FAST_BUCKETS 4096
#define FAST_OWNER_BUCKETS 1024
#define FAST_MOST_DIRS 32768
#define FAST_MOST_GROUPS 64

struct fast_cache {
    unsigned users;        /* counts the listeners: the runs of one box share the cache */
    pthread_rwlock_t lock; /* read while answering, write while learning or forgetting */
    struct fast_dir *buckets[FAST_BUCKETS];       /* owned */
    struct fast_dir *owners[FAST_OWNER_BUCKETS];  /* the same entries, by owner */
    pthread_mutex_t publishing; /* an entry, by a thread that has the lock for reading only */
    unsigned known;
    size_t listed;         /* bytes of all listings */
    struct fast_programs *programs; /* owned */
    struct fast_held held;
    struct fast_starts starts;
    struct fast_path paths[FAST_PATHS];
    struct fast_direct direct;
    struct fast_layer *layer; /* owned; NULL: no memory */
    atomic_uint losses;    /* how often C itself forgot everything */
    uint64_t generation;   /* of `files`; every change in a layered tree increments it */
    struct fast_file files[FAST_FILES];
    /* the guest's credentials */
    uint32_t uid, gid, host_uid, group_count, groups[FAST_MOST_GROUPS];
    bool over_files;       /* the guest is root over the box's own files: only Python knows which refusals hold */
    uint64_t pipe_dev;
    atomic_bool off;       /* the guests are no longer one user: nothing is answered here any more */
    bool watched;          /* a guest watches files: husk closes its copy of a descriptor before the guest runs on */
    bool links_changed;    /* one name of a hard-linked file was changed: leave all hard links to Python */
    char images[512];      /* host path of the links to an image's blobs, with a slash; a box has one image at most */
    size_t images_size;
    char blobs[512];       /* host path of the blobs, with a slash; empty: only Python makes links */
    const struct manifest *image; /* borrowed */
    uint64_t image_dev;    /* the device number of its files in `files` */
    char places[512];      /* host path of the placeholders, with a slash */
    size_t places_size;
};

/* namecache.c, with the lock held. What they return is borrowed, and valid while the lock is held. NULL: unknown. */
void fast_cache_forget_all(struct fast_cache *cache); /* with the write lock */
struct fast_dir *fast_cache_find(struct fast_cache *cache, uint32_t start, const char *key, size_t size);
const struct fast_file *fast_cache_find_file(struct fast_cache *cache, const struct stat *host);
void fast_cache_remember_file(struct fast_cache *cache, const struct fast_showing *showing, const struct stat *host);
void fast_cache_remember_made(struct fast_cache *cache, const struct fast_showing *showing, const struct stat *host,
                              int64_t born_ns);
/* Is what is known of an open file the answer for this descriptor? `link` is its link in /proc. */
bool fast_file_is_meant(const struct fast_file *file, pid_t tid, const char *link);
/* C has removed it: the host may give its inode number to another file. Who remembers a file that C may remove looks
 * afterwards whether it still has a name. */
void fast_cache_forget_file(struct fast_cache *cache, const struct stat *host);

/* C has begun to change names in the directory of `owner`: with the read lock. */
void fast_cache_begin_own(struct fast_cache *cache, uint64_t owner, struct fast_own *own);
/* What C knows of a directory of the box's own; NULL: it was not taught. */
struct fast_own *fast_cache_own(const struct fast_cache *cache, uint64_t owner);
/* Mark what was taught of the directory itself, of names that it lacks, and of its `files`, as stale: with the read
 * lock. */
void fast_cache_spoil(struct fast_cache *cache, uint64_t owner, bool files);
/* All that was taught of the directory holds no longer, because it is gone: with the read lock. */
void fast_cache_retire(struct fast_cache *cache, uint64_t owner);
/* A directory that C has just made, in one of the box's own or of the host: with the read lock. What its key led to
 * before is found no more. */
bool fast_cache_publish_own(struct fast_cache *cache, uint32_t start, const char *key, size_t size,
                            struct fast_own *own, uint64_t owner); /* false: no room */
struct fast_resolved;
void fast_cache_publish_below(struct fast_cache *cache, const struct fast_resolved *path, uint64_t ino);
/* Let a key lead to a directory of the box's own: with the write lock. */
void fast_cache_put_own(struct fast_cache *cache, uint32_t start, const char *key, size_t size, struct fast_own *own,
                        uint64_t owner);

bool fast_parse_showing(PyObject *tuple, struct fast_showing *showing); /* false: an exception is set */

/* held.c */
void fast_held_init(struct fast_held *held);
void fast_held_free(struct fast_held *held);
void fast_held_tidy(struct fast_cache *cache); /* with the write lock */
/* A descriptor of the taught directory, borrowed while the lock is held; -1: it is not held. */
int fast_held_fd(struct fast_cache *cache, struct fast_dir *dir);

/* starts.c */
void fast_starts_init(struct fast_starts *starts);
void fast_starts_at(struct fast_starts *starts, const char *places); /* with the write lock; `places` is their path */
void fast_starts_release(struct fast_starts *starts); /* give back all descriptors */

/* listing.c */
void fast_listing_free(struct fast_cache *cache, struct fast_dir *dir);
bool fast_answer_getdents(struct fast_cache *cache, int listener, const struct seccomp_notif *notif, int fd,
                          uint64_t to, int room);

/* programs.c */
/* One host file, as it was when Python resolved it. */
struct fast_exact_file {
    int root_fd; /* borrowed from the tree, which outlives the cache */
    uint64_t dev, ino, size;
    int64_t changed_ns;
    char *rel; /* points into the strings behind the program's struct */
};

/* A symbolic link on the way from the name to the program. */
#define FAST_MOST_LINKS 4
struct fast_known_link {
    int root_fd; /* borrowed likewise */
    char *where, *text;
};

struct fast_known_program {
    struct fast_known_program *next; /* owned by the table */
    struct fast_exact_file program, interpreter; /* interpreter.rel NULL: none */
    uint16_t key_size;
    bool named; /* in the root of the guests its name is the loader */
    uint32_t info_size;
    /* All strings lie behind the struct, in the same allocation. */
    unsigned link_count;
    struct fast_known_link links[FAST_MOST_LINKS];
    char *info;             /* struct husk_exec_info and its strings */
    char *key;              /* absolute guest path */
};

struct fast_programs *fast_programs_new(void); /* the caller owns it; NULL: no memory */
void fast_programs_forget(struct fast_cache *cache); /* with the write lock */
void fast_programs_free(struct fast_programs *programs);
bool fast_answer_execve(Listener *listener, const struct seccomp_notif *notif); /* takes the cache's lock itself */

#endif
