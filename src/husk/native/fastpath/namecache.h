/* native: the name cache — which guest directories show a host directory unchanged, so that C may answer for them.
 *
 * It holds no attribute: every answer asks the host kernel at that moment. What it remembers is only that
 * a directory, by the very bytes a guest wrote, leads to `rel` beneath `root_fd`, that nothing of the box lies over it,
 * and that the guest may search its way there. Python teaches it and takes back what it taught before a change becomes
 * visible. Switched off, husk gives the same answers. */
#ifndef HUSK_NAMECACHE_H
#define HUSK_NAMECACHE_H

#include "core.h"

#include <pthread.h>

#include "store/manifest.h"

/* How a host file is shown. AS_HOST: what the host says, with a device number and at most one owner of ours, whose
 * number then is not a stranger's: such a one is shown as `else`. AS_UPPER: a
 * file of the box's own, whose size and content times are the host's and the rest ours. AS_GIVEN: all ours. */
enum manner { AS_HOST, AS_UPPER, AS_GIVEN };
struct showing {
    enum manner manner;
    uint32_t dev, uid_from, uid_to, uid_else, gid_from, gid_to, gid_else; /* AS_HOST */
    struct stat given;       /* AS_UPPER, AS_GIVEN */
    int64_t set_up_ns;       /* AS_UPPER: the host's change time when husk last touched the file itself */
};

/* One taught directory: `text` is the key (as in the guest's path, with its last slash) and behind it `rel`, with a slash.
 * Or one taught file in a directory that is not the host's alone: a key without a slash at its end, and its whole `rel`;
 * `missing` says that there is none of that name. */
struct known_dir {
    struct known_dir *next, *next_of_owner;
    uint64_t owner;          /* the vfs's directory, so that its teachings can be taken back */
    uint64_t host_dev;       /* inode numbers of this device are shown as they are; others are Python's affair */
    uint64_t host_ino;       /* of the directory itself where Python holds it by identity; 0: by its name alone */
    int root_fd;             /* borrowed from the tree, which outlives the cache; of an image, where its links are */
    const struct manifest *manifest; /* likewise; NULL: the tree is the host's */
    uint32_t start;          /* 0: key is absolute; else the placeholder the walk began in */
    uint32_t hash;
    uint32_t place;          /* number of its placeholder; 0: it has none yet */
    struct showing showing;
    struct listing *listing; /* owned; NULL: none was taught */
    uint16_t key_size, rel_size;
    bool missing;
    bool absent;             /* the directory is not there: only "no such name" may be answered, and is asked for each time */
    bool layered;            /* hard links and changed files may live elsewhere in the layer */
    char text[];
};

/* What tells whether a host directory has the names it had. */
struct stamp {
    uint64_t dev, ino;
    int64_t modified_ns, changed_ns;
};

/* Files C itself opened, by host identity, so that fstat on them needs no Python either. */
#define HANDLES 4096
struct handle {
    uint64_t dev, ino, generation;
    struct showing showing;
};

#define BUCKETS 4096
#define OWNER_BUCKETS 1024
#define MOST_KNOWN 32768
#define MOST_GROUPS 64

struct programs;

struct name_cache {
    unsigned users;        /* listeners: the runs of one box share what they learned */
    pthread_rwlock_t lock; /* read while answering, write while learning or forgetting */
    struct known_dir *buckets[BUCKETS];
    struct known_dir *owners[OWNER_BUCKETS]; /* the same entries, by owner */
    unsigned known;
    size_t listed;         /* bytes of listings */
    struct programs *programs; /* owned */
    uint64_t generation;   /* of handles; layered trees change it with every change */
    struct handle handles[HANDLES];
    /* who the guest is */
    uint32_t uid, gid, host_uid, group_count, groups[MOST_GROUPS];
    uint64_t pipe_dev;
    bool watched;          /* somebody watches files: our own copy of a descriptor goes before the guest runs on */
    bool links_changed;    /* a hard-linked file has a changed twin somewhere: leave all hard links to Python */
    char images[512];      /* host path of the links to an image's blobs, with a slash; no box has more than one */
    size_t images_size;
    char blobs[512];       /* host path of their contents, with a slash; empty: links are Python's to make */
    const struct manifest *image; /* borrowed */
    uint64_t image_dev;    /* what its files have for a device in our own tables */
    char places[512];      /* host path of the placeholders, with a slash */
    size_t places_size;
};

struct known_dir *cache_find(name_cache *cache, uint32_t start, const char *key, size_t size);
void cache_remember_handle(name_cache *cache, const struct showing *showing, const struct stat *host);
/* listing.c */
void listing_free(name_cache *cache, struct known_dir *dir);
bool list_directory(name_cache *cache, int listener, const struct seccomp_notif *notif, int fd, uint64_t to, int room);

struct programs *programs_new(void);
void programs_forget(struct programs *programs);
void programs_free(struct programs *programs);
bool programs_execve(Listener *listener, const struct seccomp_notif *notif); /* false leaves the call to Python */
/* What `lstat` says of an entry; the device is left out. */
void image_stat(const struct manifest_entry *entry, struct stat *s);
const struct handle *cache_handle(name_cache *cache, const struct stat *host);

#endif
