/* PROCMAP_QUERY on /proc/self/maps: one mapping by its address, and what is wrong with a question.
 *
 * build: proc_mapping */
#include "step.h"

#include <sys/ioctl.h>

struct query {
    uint64_t size, flags, address, start, end, found, page, offset, inode;
    uint32_t major, minor, name_size, id_size;
    uint64_t name, id;
};

#define PROCMAP_QUERY_ _IOC(_IOC_READ | _IOC_WRITE, 'f', 17, sizeof(struct query))
enum { READABLE = 1, WRITABLE = 2, EXECUTABLE = 4, SHARED = 8, OR_NEXT = 16, OF_FILE = 32 };

static struct query query;
static char name[PATH_MAX];

static void ask(const char *what, int fd, const void *address, uint64_t flags) {
    query.size = sizeof query;
    query.flags = flags;
    query.address = (uintptr_t)address;
    query.name = query.name_size ? (uintptr_t)name : 0;
    name[0] = 0;
    long result = ioctl(fd, PROCMAP_QUERY_, &query);
    if (result < 0)
        say("%s = %s", what, errname(errno));
    else
        say("%s = %ld: in it %d, flags %lx, page %ld, file %d, name %u %s", what, result,
            query.start <= query.address && query.address < query.end, (long)query.found, (long)query.page,
            query.inode != 0, query.name_size ? (unsigned)(query.name_size == strlen(name) + 1) : 0,
            strrchr(name, '/') ? strrchr(name, '/') : name);
    memset(&query, 0, sizeof query);
}

int main(void) {
    int fd, file;
    char *map = mmap(NULL, 3 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    put_text("f", "text", 0644);
    MUST(file = open("f", O_RDONLY));
    char *shared = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
    MUST(munmap(map + 4096, 4096));
    MUST(fd = open("/proc/self/maps", O_RDONLY));
    ask("a page", fd, map, 0);
    ask("a hole", fd, map + 4096, 0);
    ask("a hole, or the next", fd, map + 4096, OR_NEXT);
    ask("a writable page", fd, map, WRITABLE);
    query.name_size = sizeof name;
    ask("a file", fd, shared, SHARED | OF_FILE);
    query.name_size = 3;
    ask("a file, with little room", fd, shared, 0);
    query.name_size = sizeof name;
    ask("a page has no name", fd, map, READABLE);
    ask("a page of a file", fd, map, OF_FILE);
    query.name_size = sizeof name;
    ask("the program", fd, (void *)(uintptr_t)main, EXECUTABLE);
    ask("unknown flags", fd, map, 0x40);
    ask("beyond", fd, (void *)-4096, OR_NEXT);
    query.id_size = 20;
    ask("a build id without a place", fd, map, 0);
    ask("another file", file, map, 0);
    ask("no file", 77, map, 0);
    query.size = 8;
    STEP(ioctl(fd, PROCMAP_QUERY_, &query));
    query.size = 5000;
    STEP(ioctl(fd, PROCMAP_QUERY_, &query));
    STEP(ioctl(fd, PROCMAP_QUERY_, (void *)8));
    return 0;
}
