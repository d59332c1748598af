/*
 * Direct names: the table of directories in which guests look names up themselves, in the box's own mount namespace
 * (docs/design/026-direct-names.md). Layout only; shared by husk-init, the loader, the guest's code and the C core.
 *
 * A file in the box's root. husk writes it, guests map it for reading. A record says: the bytes of `key`, as a guest
 * writes them, up to the last slash, lead to the host directory that guests see as `path`, and nothing of the box lies
 * over it. Names, not attributes: those the host is asked for, each time. Some records are of a single name, which the
 * box does not have.
 */
#ifndef HUSK_LOADER_DIRECTORIES_H
#define HUSK_LOADER_DIRECTORIES_H

#include <stdint.h>

#define HUSK_SHOWN "/husk-host" /* guests see the host's /usr below this; as in vfs/handles.py */
#define HUSK_ONE_FILE "/etc/ld.so.cache" /* and this file; as in walls/gates.py */
#define HUSK_DIRECTORIES_FILE "/husk-directories" /* as in sandbox/direct_names.py */

#define HUSK_DIRECTORY_COUNT 1024 /* a power of two */
#define HUSK_DIRECTORY_PROBES 8
#define HUSK_DIRECTORY_TEXT 216

enum husk_directory_kind {
    HUSK_DIRECTORY,
    HUSK_ABSENT_DIRECTORY,                 /* the path is what is missing, without a slash: while the host has nothing
                                              there, there are no names behind it */
    HUSK_MISSING_NAME,                     /* the key is a name that does not exist, without a slash; no path */
    HUSK_KNOWN_FILE,                       /* the key is the name of a file, to be believed if its owner is known; the
                                              path is that of its directory */
};

struct husk_directory {
    uint32_t turn;         /* of its teaching; 0: free, or being changed. Read before and after what follows */
    uint32_t hash;         /* of the key */
    int64_t owned_before;  /* ns: whatever here changed last before that and shows no owner is root's; 0: unknown */
    uint16_t key_size, path_size;
    uint32_t kind;         /* enum husk_directory_kind */
    uint64_t inode;        /* that of the directory of which this was found out */
    uint64_t reserved;
    char text[HUSK_DIRECTORY_TEXT]; /* key, then path, of directories with their last slash */
};

/*
 * A call site of a C library: its `syscall` instruction, by file. Guests lead it to direct names when they map the
 * file. Before it stands `mov $nr, %eax`; in some, `mov %rdi, %rsi; mov $AT_FDCWD, %edi` in between.
 */
struct husk_site {
    uint64_t dev, ino;
    uint32_t offset; /* in the file */
    uint16_t nr;
    uint16_t between; /* bytes: 0 or HUSK_BETWEEN_BYTES */
};
#define HUSK_BETWEEN 0xffffff9cbffe8948ul /* those instructions */
#define HUSK_BETWEEN_BYTES 8
#define HUSK_MOST_SITES 128

/*
 * A program that was executed before, and that guests may execute without asking: in the box's root the loader has its
 * name below HUSK_RUN. Program and interpreter are what they were while these four are the same; then `info` is what
 * the loader would be told.
 */
#define HUSK_RUN "/husk-run"
#define HUSK_PROGRAM_COUNT 128 /* a power of two */
#define HUSK_PROGRAM_PROBES 4
#define HUSK_PROGRAM_TEXT 912

struct husk_exact {
    uint64_t dev, ino, size;
    int64_t changed_ns;
};

struct husk_program {
    uint32_t turn;         /* as above */
    uint32_t hash;         /* of the key */
    uint16_t key_size;     /* the name without its NUL */
    /* Where each string begins in `text`; 0: there is none. As guests see them. */
    uint16_t program_at, interpreter_at;
    uint16_t links_at, link_count; /* symbolic links on the way: of each its name, and its text */
    uint16_t info_at, info_size; /* struct husk_exec_info and its strings, at a multiple of 8 */
    uint16_t leads;        /* it makes calls for which it is worth leading the sites of its libraries away */
    uint16_t reserved[12];
    struct husk_exact program, interpreter;
    char text[HUSK_PROGRAM_TEXT] __attribute__((aligned(8))); /* the key, with its NUL, then the others */
};

/* A file of root, however guests see its owner: of this number, and not changed since. */
#define HUSK_ROOTS_COUNT 256 /* a power of two */
#define HUSK_ROOTS_PROBES 4
struct husk_roots {
    uint64_t ino; /* 0: free, or being changed */
    int64_t changed_ns;
};

/*
 * A file that husk opened for a guest through a mount, with its owner, so that `fstat` of it needs no husk. It is that
 * file while these are the same: numbers, time of change, and `changes` below.
 */
#define HUSK_GIVEN_COUNT 1024 /* a power of two */
struct husk_given {
    uint64_t ino;          /* 0: free, or being changed */
    uint64_t host_dev, changes;
    int64_t changed_ns;
    uint32_t dev, uid, gid; /* as it is shown */
    uint32_t settled;      /* it had not changed for a while: whoever changes its owner from now on changes its time */
};

struct husk_directories {
    uint32_t open;          /* 0: guests ask husk */
    uint32_t links_changed; /* the box has changed a file through one of several names */
    uint64_t changes;       /* grows with each change in the box's layers */
    uint64_t host_dev;      /* all files are of this device … */
    uint32_t dev;           /* … and are shown with this number */
    uint32_t unknown_uid, unknown_gid; /* as the host shows owners that the box has no ids for */
    uint32_t root_uid, root_gid;       /* as the box shows the host's root */
    uint32_t site_count;    /* grows when a site is there */
    struct husk_site sites[HUSK_MOST_SITES];
    uint32_t links_shown;   /* a file with several names was opened through a mount, which shows it as another file */
    uint32_t reserved[243];
    struct husk_roots roots[HUSK_ROOTS_COUNT];
    struct husk_directory records[HUSK_DIRECTORY_COUNT];
    struct husk_program programs[HUSK_PROGRAM_COUNT];
    struct husk_given given[HUSK_GIVEN_COUNT];
};

#define HUSK_DIRECTORIES_BYTES                                                                                         \
    (0x2000 + HUSK_DIRECTORY_COUNT * 256 + HUSK_PROGRAM_COUNT * 1024 + HUSK_GIVEN_COUNT * 48)
_Static_assert(sizeof(struct husk_directory) == 256, "layout");
_Static_assert(sizeof(struct husk_program) == 1024, "layout");
_Static_assert(sizeof(struct husk_given) == 48, "layout");
_Static_assert(sizeof(struct husk_directories) == HUSK_DIRECTORIES_BYTES, "layout");

/* FNV-1a of a key's bytes; `hash` begins with HUSK_HASH_BEGIN. */
#define HUSK_HASH_BEGIN 14695981039346656037ul
static inline uint64_t husk_hash_step(uint64_t hash, char byte)
{
    return (hash ^ (unsigned char)byte) * 1099511628211ul;
}

static inline uint32_t husk_hash_end(uint64_t hash)
{
    return (uint32_t)(hash ^ hash >> 32);
}

#endif
