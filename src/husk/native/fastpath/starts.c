/* native: the directory that a name begins in: which placeholder a guest's descriptor, or its working directory, is.
 *
 * The host keeps both, and a guest changes them natively (dup2, close, fchdir), so husk asks each time. To walk to the
 * link in /proc takes longer than the look-up that follows. So for descriptors that are asked often husk keeps what the
 * walk leads to: the `fdinfo` file of that number, whose text names mount and inode of the file that the number stands
 * for at the moment of reading; and for a working directory the link itself. Both belong to one thread for good: when
 * it has ended they can no longer be read, whoever has its number then.
 *
 * Rejected: a duplicate of the guest's descriptor, compared by kcmp. It costs as much, and keeps the guest's open file
 * open: a lock on it (flock) would outlive its last descriptor.
 *
 * Guests with direct names ask the host themselves which directory it is, and tell husk (gate/entry.S). They may lie: a
 * number leads to a placeholder of the box, and whoever is in the box may look at the same files.
 *
 * Which placeholder an inode is was read from the link before. A placeholder is never renamed. Before one is removed
 * all that was taught is forgotten, this included, and its number is never taught again. */
#include "fastpath/resolve.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

#define KEEP_AFTER 4 /* questions for one descriptor before its file in /proc is kept */

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

void fast_starts_init(struct fast_starts *starts)
{
    pthread_mutex_init(&starts->lock, NULL);
    starts->epoch = 1;
    for (unsigned i = 0; i < FAST_STARTS; i++)
        starts->kept[i].file = -1;
}

static void drop(struct fast_start *kept)
{
    if (kept->file >= 0)
        close(kept->file);
    *kept = (struct fast_start){.file = -1};
}

void fast_starts_release(struct fast_starts *starts)
{
    pthread_mutex_lock(&starts->lock);
    for (unsigned i = 0; i < FAST_STARTS; i++)
        drop(&starts->kept[i]);
    pthread_mutex_unlock(&starts->lock);
}

void fast_starts_at(struct fast_starts *starts, const char *places)
{
    /* In one mount of these an inode has a number of its own. Subvolumes and layers may use one twice. */
    struct statfs s;
    starts->numbered = statfs(places, &s) == 0 && (s.f_type == EXT4_SUPER_MAGIC || s.f_type == TMPFS_MAGIC ||
                                                   s.f_type == (__fsword_t)XFS_SUPER_MAGIC);
}

/* The number in the name of a placeholder. False: it is another name. */
static bool parse(const struct fast_cache *cache, char *text, ssize_t size, uint32_t *number)
{
    char *end;
    if (size <= (ssize_t)cache->places_size || memcmp(text, cache->places, cache->places_size) != 0)
        return false;
    text[size] = 0;
    unsigned long value = strtoul(text + cache->places_size, &end, 10);
    if (*end || !value || value > UINT32_MAX)
        return false;
    *number = (uint32_t)value;
    return true;
}

bool fast_placeholder(struct fast_cache *cache, const char *link, uint32_t *start)
{
    char text[600];
    return parse(cache, text, readlink(link, text, sizeof text - 1), start);
}

void fast_task_link(char link[FAST_LONGEST_LINK], const struct fast_asker *asker, const char *kind, int fd)
{
    char *end = link;
    if (asker->by_number)
        *asker->by_number = true;
    if (asker->process)
        end += snprintf(link, FAST_LONGEST_LINK, "/proc/%d/task/%d/", asker->process, asker->tid);
    else
        end += snprintf(link, FAST_LONGEST_LINK, "/proc/%d/", asker->tid);
    size_t room = (size_t)(link + FAST_LONGEST_LINK - end);
    if (fd == AT_FDCWD)
        snprintf(end, room, "cwd");
    else if (fd < 0)
        snprintf(end, room, "%s", kind);
    else
        snprintf(end, room, "%s/%d", kind, fd);
}

static bool walk_to(struct fast_cache *cache, const struct fast_asker *asker, int dirfd, uint32_t *number)
{
    char link[FAST_LONGEST_LINK];
    fast_task_link(link, asker, "fd", dirfd);
    return fast_placeholder(cache, link, number);
}

/* The number behind `label`, and the place behind it. NULL: there is none. */
static const char *read_number(const char *text, const char *label, int base, uint64_t *value)
{
    char *end;
    size_t size = strlen(label);
    if (!text || strncmp(text, label, size) != 0)
        return NULL;
    *value = strtoull(text + size, &end, base);
    return *end == '\n' ? end + 1 : NULL;
}

/* Mount and inode of the directory that the descriptor stands for now. False: it is none that was opened as such (a
 * file never is), or the thread is gone. */
static bool read_identity(int file, struct fast_place *place)
{
    char text[160];
    uint64_t position, flags;
    ssize_t size = pread(file, text, sizeof text - 1, 0);
    if (size <= 0)
        return false;
    text[size] = 0;
    const char *at = read_number(read_number(text, "pos:\t", 10, &position), "flags:\t", 8, &flags);
    at = read_number(read_number(at, "mnt_id:\t", 10, &place->mount), "ino:\t", 10, &place->ino);
    return at && flags & O_DIRECTORY;
}

static struct fast_place *place_at(struct fast_starts *starts, const struct fast_place *place)
{
    return &starts->places[(place->ino * 2654435761u ^ place->mount) % FAST_PLACES];
}

static struct fast_place *told_at(struct fast_starts *starts, uint64_t ino)
{
    return &starts->told[ino * 2654435761u % FAST_PLACES];
}

/* Learn which placeholder the descriptor is: the guest may exchange what the number stands for at any moment, back and
 * forth, and link and inode must be of one directory. So it is opened once. A duplicate would do that, too; but where
 * the guest closes its own meanwhile, husk would be the last to close a socket, and might have to wait for its peer. */
static bool learn(struct fast_cache *cache, const struct fast_asker *asker, int fd, uint32_t *number)
{
    struct fast_place place;
    char link[FAST_LONGEST_LINK], info[40];
    fast_task_link(link, asker, "fd", fd);
    int opened = open(link, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (opened < 0)
        return false;
    snprintf(link, sizeof link, "/proc/self/fd/%d", opened);
    snprintf(info, sizeof info, "/proc/self/fdinfo/%d", opened);
    int file = open(info, O_RDONLY | O_CLOEXEC);
    struct stat s;
    bool known = file >= 0 && read_identity(file, &place) && fast_placeholder(cache, link, number);
    if (known)
        *place_at(&cache->starts, &place) =
            (struct fast_place){place.mount, place.ino, *number, cache->starts.epoch};
    if (known && fstat(opened, &s) == 0)
        *told_at(&cache->starts, s.st_ino) =
            (struct fast_place){s.st_dev, s.st_ino, *number, cache->starts.epoch};
    if (file >= 0)
        close(file);
    close(opened);
    return known;
}

/* With a kept file. */
static bool ask(struct fast_cache *cache, const struct fast_start *kept, const struct fast_asker *asker,
                uint32_t *number)
{
    struct fast_starts *starts = &cache->starts;
    struct fast_place now;
    char text[600];
    if (kept->fd == AT_FDCWD)
        return parse(cache, text, readlinkat(kept->file, "", text, sizeof text - 1), number);
    if (!read_identity(kept->file, &now))
        return false;
    const struct fast_place *known = place_at(starts, &now);
    if (known->epoch != starts->epoch || known->mount != now.mount || known->ino != now.ino)
        return learn(cache, asker, kept->fd, number);
    *number = known->number;
    return true;
}

uint32_t fast_start_told(struct fast_cache *cache, uint64_t dev, uint64_t ino)
{
    struct fast_starts *starts = &cache->starts;
    if (!ino || !starts->numbered || pthread_mutex_trylock(&starts->lock))
        return 0;
    const struct fast_place *known = told_at(starts, ino);
    uint32_t number = known->epoch == starts->epoch && known->mount == dev && known->ino == ino ? known->number : 0;
    pthread_mutex_unlock(&starts->lock);
    return number;
}

bool fast_start(struct fast_cache *cache, const struct fast_asker *asker, int dirfd, uint32_t *number)
{
    struct fast_starts *starts = &cache->starts;
    char file[FAST_LONGEST_LINK];
    if (dirfd < 0 && dirfd != AT_FDCWD)
        return false;
    *number = asker->start;
    if (*number)
        return true;
    if (!starts->numbered || pthread_mutex_trylock(&starts->lock))
        return walk_to(cache, asker, dirfd, number);
    if (asker->ino) {
        bool learnt = learn(cache, asker, dirfd, number);
        pthread_mutex_unlock(&starts->lock);
        return learnt || walk_to(cache, asker, dirfd, number);
    }
    struct fast_start *kept = &starts->kept[((unsigned)asker->tid * 7 + (unsigned)dirfd) % FAST_STARTS];
    if (kept->tid != asker->tid || kept->process != asker->process || kept->fd != dirfd) {
        drop(kept);
        kept->tid = asker->tid;
        kept->process = asker->process;
        kept->fd = dirfd;
    }
    if (kept->file < 0 && ++kept->uses >= KEEP_AFTER) {
        fast_task_link(file, asker, "fdinfo", dirfd);
        kept->file = open(file, dirfd == AT_FDCWD ? O_PATH | O_NOFOLLOW | O_CLOEXEC : O_RDONLY | O_CLOEXEC);
        kept->uses = 0;
    }
    bool found = kept->file >= 0 && ask(cache, kept, asker, number);
    if (kept->file >= 0 && !found)
        drop(kept);
    pthread_mutex_unlock(&starts->lock);
    return found || walk_to(cache, asker, dirfd, number);
}
