/* native: from the name in a call to one host file beneath a taught directory (target.c). */
#ifndef HUSK_TARGET_H
#define HUSK_TARGET_H

#include "fastpath/namecache.h"

#define AT_CWD (-100)
#define LONGEST_NAME 4096

/* A name a guest asked about, resolved to one host file beneath a taught directory. */
struct target {
    struct known_dir *dir;
    char name[LONGEST_NAME]; /* as the guest wrote it */
    char host[2 * LONGEST_NAME];
    size_t size, cut;        /* length; where the last component begins */
    uint32_t start;
    bool slash;              /* it ended in one, which is cut off: only a directory is meant */
};

enum look { PYTHON, MISSING, FOUND };

/* The number of the placeholder that `link`, a link of /proc, leads to. */
bool placeholder(name_cache *cache, const char *link, uint32_t *start);
/* What the host says of a taught directory just now. */
bool stat_directory(const struct known_dir *dir, struct stat *s);
/* Is the directory still the one that was taught? */
bool same_directory(const struct known_dir *dir);
/* The entry of the directory that `t` itself names; NULL: it was not taught. */
struct known_dir *itself(name_cache *cache, struct target *t);
/* Read the name and find the taught directory it lies in. */
bool locate(name_cache *cache, const struct seccomp_notif *notif, int dirfd, uint64_t address, struct target *t);
/* Ask the host. On FOUND, `fd` is an O_PATH descriptor (or a real one, with other flags) that the caller closes; or -1. */
enum look look(struct target *t, uint64_t flags, int *fd, struct stat *host);
/* The same, but symbolic links at the end are followed, as far as they lead to what was taught. */
enum look look_through(name_cache *cache, struct target *t, uint64_t flags, int *fd, struct stat *host);
/* Where the symbolic link leads that `look` just found; -1: it does not say. */
ssize_t link_text(const struct target *t, int fd, char *text, size_t room);
/* May the answer be told as it is? */
bool plain(name_cache *cache, struct target *t, const struct stat *host, bool follow);
/* Turn what the host said into what the guest is shown. */
void show(const struct showing *as, struct stat *s);
bool permitted(name_cache *cache, const struct stat *shown, unsigned want);

#endif
