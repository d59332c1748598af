/* A request that a guest left in a slot of its gate: whatever is in the slot, the name that is judged is terminated and as
 * long as it says, and the reply stays inside the slot. */
#include "input.h"

#include <dirent.h>
#include <sys/syscall.h>

#define opendir(name) NULL /* the process has the thread that is known, and no other */
#include "../../../src/husk/native/gate/poller.c"

static struct fast_cache nothing;

ssize_t host_read_proc(char *text, size_t size, const char *format, ...)
{
    MUST(!text && !size && !format); /* no thread is looked for */
    return -1;
}

bool fast_begin(struct fast_cache *cache)
{
    MUST(cache == &nothing);
    return eat_byte() != 255;
}

void fast_starts_release(struct fast_starts *starts)
{
    MUST(starts == &nothing.starts);
}

uint32_t fast_start_told(struct fast_cache *cache, uint64_t dev, uint64_t ino)
{
    MUST(cache == &nothing);
    return ino > dev && eat_byte() & 1 ? 5 : 0;
}

void fast_end(struct fast_cache *cache)
{
    MUST(cache == &nothing);
}

const struct gate_call *gate_call(int nr)
{
    static const struct gate_call CALLS[] = {{SYS_newfstatat, 1, 2, 144}, {SYS_statx, 1, 4, 256}, {SYS_access, 0, 0, 0},
                                             {SYS_readlink, 0, 1, GATE_ANY_SIZE}, {SYS_openat, 1, 2, GATE_DESCRIPTOR},
                                             {SYS_getdents64, GATE_NO_NAME, 1, GATE_LISTING}, {SYS_unlink, 0, 0, 0},
                                             {SYS_utimensat, 1, 0, GATE_TIMES}, {SYS_fchmod, GATE_NO_NAME, 0, 0},
                                             {SYS_mkdirat, 1, 0, GATE_MAKES}, {SYS_rmdir, 0, 0, 0}};
    for (int i = 0; i < 11; i++)
        if (CALLS[i].nr == nr)
            return &CALLS[i];
    return NULL;
}

bool gate_is_open_call(const struct gate_call *call)
{
    return call && call->size == GATE_DESCRIPTOR;
}

bool gate_is_listing(const struct gate_call *call)
{
    return call && call->size == GATE_LISTING;
}

bool gate_is_change(const struct gate_call *call, const uint64_t args[6])
{
    return gate_is_open_call(call) ? args[call->out] & O_CREAT
                                   : call->nr == SYS_unlink || call->nr == SYS_utimensat || call->nr == SYS_fchmod ||
                                         call->nr == SYS_mkdirat || call->nr == SYS_rmdir;
}

static int sent, changed, listings;

bool gate_send(struct gate_process *gate, int fd, uint64_t sum)
{
    MUST(gate->channel == 5 && fcntl(fd, F_GETFD) >= 0 && sum);
    return sent = eat_byte() & 1;
}

/* What a request must be that is judged. */
static void look_at(const struct fast_asker *asker)
{
    MUST(asker->name && strlen(asker->name) == asker->name_size && asker->name_size <= GATE_LONGEST_NAME);
    bool told = asker->start == 5; /* it begins in a directory that the guest told */
    MUST(told || asker->tid); /* nobody is asked about who did not say who it is */
    bool own = *asker->name != '/' && (!told || !*asker->name); /* it begins in a directory of the thread's */
    MUST(asker->process ? asker->tid == 70 && asker->process == 7 : asker->tid == 7);
    MUST(asker->process || !own);
    MUST(asker->umask >= 0 && asker->umask <= 01777);
    *asker->by_number = own && eat_byte() & 1;
}

bool fast_start(struct fast_cache *cache, const struct fast_asker *asker, int dirfd, uint32_t *number)
{
    MUST(cache == &nothing && asker->ino && dirfd >= 0);
    *number = 5;
    return eat_byte() & 1;
}

int guest_get_fd(pid_t tid, int fd)
{
    MUST(tid == 70 && fd >= 0);
    return eat_byte() & 1 ? open(eat_byte() & 1 ? "/" : "/dev/null", O_RDONLY | O_CLOEXEC) : -EBADF;
}

void fast_list_close(int shared)
{
    MUST(close(shared) == 0);
}

bool fast_list_begin(struct fast_cache *cache, int shared, uint32_t start, int room, struct fast_listed *listed)
{
    static const char records[GATE_LISTING_BYTES] = "records";
    MUST(cache == &nothing && start == 5 && room >= 0 && room <= GATE_LISTING_BYTES);
    *listed = (struct fast_listed){records, (uint32_t)room, 1, 2, shared};
    if (eat_byte() & 1)
        return true;
    close(shared);
    return false;
}

void fast_list_end(const struct fast_listed *listed, bool done)
{
    MUST(done && close(listed->fd) == 0);
    listings++;
}

bool fast_change(Listener *listener, const struct fast_asker *asker, int nr, const uint64_t *args,
                 struct fast_reply *reply)
{
    MUST(listener->cache == &nothing && args);
    look_at(asker);
    /* A descriptor and what is made are a thread's. */
    MUST(asker->process || (nr == SYS_unlink || nr == SYS_rmdir || (nr == SYS_utimensat && args[1])));
    if (asker->times) { /* all of them lie in the copy */
        char times[GATE_TIMES_BYTES];
        memcpy(times, asker->times, sizeof times);
        MUST(times[0] == times[0] && nr == SYS_utimensat && args[2]);
    }
    reply->value = 0;
    reply->size = 0;
    reply->fd = nr == SYS_openat ? fcntl(0, F_DUPFD_CLOEXEC, 0) : -1;
    changed++;
    return true;
}

bool fast_open(struct fast_cache *cache, const struct fast_asker *asker, int nr, const uint64_t args[6],
               struct fast_reply *reply)
{
    MUST(cache == &nothing && nr == SYS_openat && args);
    look_at(asker);
    bool found = eat_byte() & 1;
    reply->fd = found ? fcntl(0, F_DUPFD_CLOEXEC, 0) : -1;
    reply->value = -ENOENT;
    reply->size = 0;
    return found || eat_byte() & 1;
}

bool fast_ask(struct fast_cache *cache, const struct fast_asker *asker, int nr, const uint64_t args[6],
              struct fast_reply *reply)
{
    MUST(cache == &nothing && gate_call(nr) && !gate_is_open_call(gate_call(nr)) && args);
    look_at(asker);
    reply->value = (int64_t)eat_word();
    reply->size = eat_byte() * (eat_byte() & 1 ? 16 : 1);
    reply->to = 0;
    if (reply->size > sizeof reply->data)
        reply->size = sizeof reply->data;
    memset(reply->data, 'x', reply->size);
    return eat_byte() & 3;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static Listener listener;
    static struct gate_keeper keeper;
    keeper.listener = &listener;
    listener.cache = &nothing;
    input = data, input_size = size;
    uint8_t *pages = malloc(GATE_BYTES), *slot = pages + GATE_SLOTS + 3 * GATE_SLOT_BYTES;
    uint8_t *before = malloc(GATE_SLOT_BYTES);
    memset(pages, 0, GATE_BYTES);
    struct gate_process gate = {.tgid = 7, .pidfd = -1, .channel = 5, .threads = {{77, 70}}, .pages = pages};
    eat(slot, GATE_SLOT_BYTES);
    /* Often a request that makes sense. */
    static const uint64_t NUMBERS[] = {SYS_newfstatat, SYS_statx, SYS_access, SYS_readlink, SYS_openat,
                                       SYS_getdents64, SYS_unlink, SYS_utimensat, SYS_fchmod};
    if (size && data[0] & 1)
        memcpy(slot + GATE_SLOT_REQUEST, &NUMBERS[(data[0] >> 4) % 9], 8);
    if (size && data[0] & 8) {
        uint64_t length = strnlen((char *)slot + GATE_SLOT_REQUEST + GATE_REQUEST_NAME, GATE_LONGEST_NAME);
        memcpy(slot + GATE_SLOT_REQUEST + GATE_REQUEST_SIZE, &length, 8);
    }
    memcpy(before, slot, GATE_SLOT_BYTES);
    sent = changed = listings = 0;
    uint32_t posted, taken, turn;
    memcpy(&posted, before, 4);
    gate_serve(&keeper, &gate, slot, posted);
    /* husk writes nothing into a request but that it was taken. */
    memcpy(&taken, slot, 4);
    MUST(taken == posted || taken == ((posted & ~(uint32_t)GATE_STATES) | GATE_TAKEN));
    MUST(memcmp(before + 4, slot + 4, GATE_SLOT_ANSWERED - 4) == 0);
    uint64_t given;
    memcpy(&given, slot + GATE_SLOT_SIZE, 8);
    memcpy(&turn, slot + GATE_SLOT_ANSWERED, 4);
    MUST(turn == (posted & ~(uint32_t)GATE_STATES));
    MUST(!(changed || listings || sent) || taken == (turn | GATE_TAKEN)); /* before anything was changed */
    MUST((given == GATE_LISTING) == listings);
    MUST(given <= GATE_LARGEST_DATA || given == GATE_DECLINED || given == GATE_DESCRIPTOR || given == GATE_LISTING ||
         given == GATE_WHO);
    MUST((given == GATE_DESCRIPTOR) == sent); /* a guest that is told so finds one, and none comes unasked */
    free(pages), free(before);
    return 0;
}
