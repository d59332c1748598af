/* native: putting a gate into a guest process, and leading call sites to it.
 *
 * A site is `mov $nr, %eax; syscall`, seven bytes. The first five become a jump to a stub of the gate. The `syscall`
 * stays: that is where the gate goes back to for the ordinary call. This is done only while the process has one thread,
 * which is stopped: no other can be between two bytes. */
#include "gate/gate.h"

#include "fastpath/fastpath.h"
#include "host/host.h"
#include "loader/resident.h"
#include "notify/notify.h"
#include "remote/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SITE_BYTES 7
#define CALL_BYTES 2
#define MOV_BYTES 5
#define NEAR 0x7fff0000LL /* how far a jump reaches, and a little less */

#define CODE (HOST_READABLE | HOST_EXECUTABLE)
#define RESIDENT(field) (HUSK_RESIDENT_DATA + offsetof(struct husk_resident, field))

/* Before Linux 6.11. */
static int find_in_text(pid_t tid, uint64_t address, struct host_mapping *found)
{
    char name[40], line[4400];
    snprintf(name, sizeof name, "/proc/%d/maps", tid);
    FILE *maps = fopen(name, "re");
    int error = -ENOENT;
    while (maps && error && fgets(line, sizeof line, maps)) {
        unsigned long start, end, offset, ino;
        unsigned major, minor;
        char rights[5];
        if (sscanf(line, "%lx-%lx %4s %lx %x:%x %lu", &start, &end, rights, &offset, &major, &minor, &ino) != 7 ||
            address < start || address >= end)
            continue;
        *found = (struct host_mapping){start, end, offset, ino, major, minor, strcmp(rights, "r-xp") ? 0 : CODE};
        error = 0;
    }
    if (maps)
        fclose(maps);
    return error;
}

/* The mapping of a file that `address` lies in, if its pages are the process's own, executable, and not writable. */
static bool find_mapping(pid_t tid, uint64_t address, struct host_mapping *found)
{
    int error = host_find_mapping(tid, address, found);
    if (error == -ENOTTY)
        error = find_in_text(tid, address, found);
    return !error && found->flags == CODE && found->ino;
}

static bool shares_memory(pid_t one, pid_t other)
{
    return syscall(SYS_kcmp, one, other, KCMP_VM, 0, 0) == 0;
}

/* Has it a child that runs in its memory (CLONE_VM)? */
static bool has_twin(pid_t tid)
{
    char text[512];
    ssize_t n = host_read_proc(text, sizeof text, "/proc/%d/task/%d/children", tid, tid);
    if (n == sizeof text - 1 || (n < 0 && n != -ENOENT))
        return true; /* too many to ask */
    char *at = text, *end;
    for (long child; (child = strtol(at, &end, 10)) > 0 && end != at; at = end)
        if (shares_memory(tid, (pid_t)child))
            return true;
    return false;
}

/* Has the process one thread, and memory of its own? A vfork child has its parent's. */
static bool is_alone(pid_t tid)
{
    char name[40], text[512];
    struct stat s;
    int parent = 0;
    snprintf(name, sizeof name, "/proc/%d/task", tid);
    if (guest_thread_group(tid) != tid || stat(name, &s) < 0 || s.st_nlink != 3 ||
        host_read_proc(text, sizeof text, "/proc/%d/stat", tid) <= 0)
        return false;
    char *end = strrchr(text, ')');
    return end && sscanf(end + 1, " %*c %d", &parent) == 1 && !shares_memory(tid, parent) && !has_twin(tid);
}

/* The gate that the bytes before a `syscall` jump to. 0: they are no jump to a stub. */
static uint64_t gate_behind(const uint8_t bytes[SITE_BYTES], uint64_t site)
{
    int32_t distance;
    memcpy(&distance, bytes + 1, sizeof distance);
    uint64_t stub = site + (int64_t)distance;
    return bytes[0] == 0xe9 && stub % GATE_STUB_BYTES == 0 ? (stub & ~(GATE_PAGE - 1ULL)) - GATE_STUBS : 0;
}

/* The stub of the loader's that the bytes jump to: where its data lies. 0: they are no such jump. */
static uint64_t stub_behind(pid_t tid, const uint8_t bytes[SITE_BYTES], uint64_t site)
{
    uint64_t stubs = 0;
    int32_t distance;
    memcpy(&distance, bytes + 1, sizeof distance);
    uint64_t stub = site + (int64_t)distance;
    if (bytes[0] != 0xe9 ||
        guest_read(tid, HUSK_NAMES_DATA + offsetof(struct husk_names, stubs), &stubs, sizeof stubs) != sizeof stubs ||
        !stubs || stub < stubs || stub >= stubs + HUSK_STUB_COUNT * HUSK_STUB_CODE_BYTES)
        return 0;
    return stubs + GATE_PAGE + (stub - stubs) / HUSK_STUB_CODE_BYTES * HUSK_STUB_DATA_BYTES;
}

static bool is_site(const uint8_t bytes[SITE_BYTES], int nr)
{
    return bytes[0] == 0xb8 && memcmp(bytes + 1, &nr, sizeof nr) == 0 && bytes[5] == 0x0f && bytes[6] == 0x05;
}

static uint64_t device_of(const struct host_mapping *mapping)
{
    return (uint64_t)mapping->major << 32 | mapping->minor;
}

/* Is it in the mapping, and where? */
static uint64_t site_of(const struct gate_site *known, const struct host_mapping *mapping)
{
    uint64_t from = known->offset - mapping->offset;
    bool here = known->dev == device_of(mapping) && known->ino == mapping->ino && known->offset >= mapping->offset &&
        from < mapping->end - mapping->start - 8;
    return here ? mapping->start + from : 0;
}

/* Which instructions stand between the `mov` and the `syscall` at `site`? None, or those of open. */
static int between_of(pid_t tid, uint64_t site)
{
    uint64_t bytes;
    bool others = guest_read(tid, site - HUSK_BETWEEN_BYTES, &bytes, sizeof bytes) == sizeof bytes &&
        bytes == HUSK_BETWEEN;
    return others ? HUSK_BETWEEN_BYTES : 0;
}

bool gate_look(const struct gate_keeper *keeper, const struct seccomp_notif *notif, struct gate_view *view)
{
    uint8_t bytes[SITE_BYTES + 1]; /* and the one before */
    uint64_t behind = notif->data.instruction_pointer, site = behind - CALL_BYTES, led;
    if (guest_read(notif->pid, behind - sizeof bytes, bytes, sizeof bytes) != sizeof bytes ||
        bytes[6] != 0x0f || bytes[7] != 0x05 || !is_alone(notif->pid) ||
        !find_mapping(notif->pid, site, &view->mapping) ||
        view->mapping.start + HUSK_BETWEEN_BYTES > behind - SITE_BYTES)
        return false;
    view->between = between_of(notif->pid, site);
    led = site - (uint64_t)view->between;
    if (view->between && guest_read(notif->pid, led - MOV_BYTES, bytes + 1, SITE_BYTES) != SITE_BYTES)
        return false;
    uint64_t data = stub_behind(notif->pid, bytes + 1, led);
    view->led = data != 0;
    if (view->led) /* a parent may have left a gate behind direct names */
        return guest_read(notif->pid, data + GATE_DATA_NEXT, &view->inherited, sizeof view->inherited) ==
            sizeof view->inherited;
    if (view->between)
        return false; /* only direct names lead such a site */
    view->inherited = gate_behind(bytes + 1, site);
    if (view->inherited)
        return true;
    if (!is_site(bytes + 1, notif->data.nr) || (bytes[0] & 0xf0) == 0x40 /* a REX prefix */)
        return false;
    /* The parent may have left one. The site that was found first leads to each gate that this file has. */
    for (unsigned i = 0; i < keeper->known_sites; i++) {
        uint64_t first = keeper->known[i].between ? 0 : site_of(&keeper->known[i], &view->mapping);
        if (!first)
            continue;
        if (guest_read(notif->pid, first - MOV_BYTES, bytes, SITE_BYTES) == SITE_BYTES)
            view->inherited = gate_behind(bytes, first);
        break;
    }
    return true;
}

/* ---- stubs ------------------------------------------------------------------------------------------------------- */

/* Write a stub for the site whose `syscall` is at `site`; where it is in the guest. 0: there is no room. */
static uint64_t make_stub(struct gate_process *gate, int nr, uint64_t site)
{
    if (gate->stubs == GATE_MOST_STUBS)
        return 0;
    unsigned at = GATE_STUBS + gate->stubs * GATE_STUB_BYTES;
    /* The code of the stub: to the gate, to direct names, or away to rt_sigaction. */
    uint8_t to_gate[GATE_DATA] = {0x4c, 0x8d, 0x1d, GATE_DATA - 7, 0, 0, 0, 0xe9};       /* lea; jmp */
    uint8_t to_names[GATE_DATA] = {0x4c, 0x8d, 0x1d, GATE_DATA - 7, 0, 0, 0,             /* lea; jmp *names */
                                   0xff, 0x25, GATE_DATA + GATE_DATA_NAMES - 13, 0, 0, 0};
    uint8_t away[GATE_DATA] = {0x49, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, 0x41, 0xff, 0xe3};    /* movabs to r11; jmp *r11 */
    uint8_t stub[GATE_STUB_BYTES] = {0};
    const uint8_t *code = nr == SYS_rt_sigaction ? away : gate->names_entry ? to_names : to_gate;
    const struct gate_call *call = gate_call(nr);
    if (code == to_gate && (!call || gate_needs_direct(call)))
        return 0; /* nothing answers it */
    if (call) {
        int32_t to_entry = -(int32_t)(at + 12);
        uint64_t next = gate->base;
        memcpy(to_gate + 8, &to_entry, sizeof to_entry);
        memcpy(stub + GATE_DATA + GATE_DATA_NEXT, &next, sizeof next);
        stub[GATE_DATA + GATE_DATA_NAME] = call->name;
        stub[GATE_DATA + GATE_DATA_OUT] = call->out;
        memcpy(stub + GATE_DATA + GATE_DATA_SIZE, &call->size, sizeof call->size);
    }
    const uint64_t target = HUSK_RESIDENT + HUSK_RESIDENT_SIGACTION;
    memcpy(away + 2, &target, sizeof target);
    memcpy(stub, code, GATE_DATA);
    memcpy(stub + GATE_DATA + GATE_DATA_NAMES, &gate->names_entry, sizeof gate->names_entry);
    memcpy(stub + GATE_DATA + GATE_DATA_BACK, &site, sizeof site);
    memcpy(stub + GATE_DATA + GATE_DATA_NR, &nr, sizeof nr);
    memcpy(gate->pages + at, stub, sizeof stub);
    gate->sites[gate->stubs++] = site;
    return gate->base + at;
}

/* The resident region learns where rt_sigaction is called. It knows one site, and may be gone. */
static bool tell_resident(pid_t tid, uint64_t site)
{
    uint64_t back = site + 2;
    return !gate_leads_sigaction(tid) &&
        guest_write(tid, RESIDENT(sigaction_back), &back, sizeof back) == sizeof back;
}

/* The site leads to direct names already: behind those comes this gate. */
static void lead_from_names(struct gate_process *gate, pid_t tid, int nr, uint64_t site, uint64_t data)
{
    const struct gate_call *call = gate_call(nr);
    struct { uint8_t name, out; uint16_t size; } which;
    uint64_t next = gate->base;
    if (!call || gate->stubs == GATE_MOST_STUBS)
        return;
    which.name = call->name, which.out = call->out, which.size = call->size;
    if (guest_write(tid, data + GATE_DATA_NAME, &which, sizeof which) == sizeof which &&
        guest_write(tid, data + GATE_DATA_NEXT, &next, sizeof next) == sizeof next)
        gate->sites[gate->stubs++] = site;
}

/* The stopped process's site leads to a new stub. What is not as expected stays as it is. */
static void lead(struct gate_process *gate, struct remote_thread *thread, int nr, uint64_t site, int between)
{
    uint8_t before[8];
    int64_t distance = (int64_t)(gate->base - site);
    errno = 0;
    long word = ptrace(PTRACE_PEEKDATA, thread->tid, site - (uint64_t)between - MOV_BYTES, 0);
    memcpy(before, &word, sizeof before);
    if (errno)
        return;
    uint64_t data = stub_behind(thread->tid, before, site - (uint64_t)between);
    if (data) {
        lead_from_names(gate, thread->tid, nr, site, data);
        return;
    }
    if (between || distance > NEAR || distance < -NEAR || !is_site(before, nr))
        return;
    if (nr == SYS_rt_sigaction && !tell_resident(thread->tid, site))
        return;
    uint64_t stub = make_stub(gate, nr, site);
    if (!stub)
        return;
    int32_t jump = (int32_t)(int64_t)(stub - site);
    before[0] = 0xe9;
    memcpy(before + 1, &jump, sizeof jump);
    memcpy(&word, before, sizeof word);
    if (ptrace(PTRACE_POKEDATA, thread->tid, site - MOV_BYTES, word) < 0)
        gate->stubs--;
}

/* Where the guest's loader has put the code for direct names. */
static uint64_t names_entry_of(const struct gate_keeper *keeper, pid_t tid)
{
    uint64_t entry = 0;
    if (!fast_direct_is_open(keeper->listener->cache) ||
        guest_read(tid, RESIDENT(names_entry), &entry, sizeof entry) != sizeof entry)
        return 0;
    return entry >= HUSK_NAMES && entry < HUSK_NAMES + HUSK_NAMES_BYTES ? entry : 0;
}

void gate_remember_site(struct gate_keeper *keeper, const struct gate_site *found)
{
    for (unsigned i = 0; i < keeper->known_sites; i++) {
        const struct gate_site *known = &keeper->known[i];
        if (known->dev == found->dev && known->ino == found->ino && known->offset == found->offset)
            return;
    }
    if (keeper->known_sites < sizeof keeper->known / sizeof *keeper->known) {
        keeper->known[keeper->known_sites++] = *found;
        keeper->knows_sigaction = keeper->knows_sigaction || found->nr == SYS_rt_sigaction;
    }
}

/* As gate_remember_site, of a mapped file. */
static void remember_mapped(struct gate_keeper *keeper, const struct host_mapping *mapping, int nr, uint64_t site,
                            int between)
{
    const struct gate_site found = {device_of(mapping), mapping->ino, site - mapping->start + mapping->offset, nr,
                                    between};
    gate_remember_site(keeper, &found);
}

void gate_remember_caller(struct gate_keeper *keeper, const struct seccomp_notif *notif)
{
    uint64_t site = notif->data.instruction_pointer - 2;
    uint8_t bytes[SITE_BYTES];
    struct host_mapping mapping;
    if (guest_read(notif->pid, site - MOV_BYTES, bytes, sizeof bytes) == sizeof bytes &&
        is_site(bytes, notif->data.nr) && find_mapping(notif->pid, site, &mapping))
        remember_mapped(keeper, &mapping, notif->data.nr, site, 0);
}

bool gate_leads_sigaction(pid_t tid)
{
    struct husk_resident resident;
    return guest_read(tid, HUSK_RESIDENT_DATA, &resident, HUSK_RES_EINTR) != HUSK_RES_EINTR ||
        resident.magic != HUSK_RESIDENT_MAGIC || resident.sigaction_back;
}

/* The site of this call, that of rt_sigaction, and all of the same file that were found in other processes. */
static void lead_known_sites(struct gate_keeper *keeper, struct gate_process *gate, struct remote_thread *thread,
                             const struct seccomp_notif *notif, const struct gate_view *view)
{
    uint64_t site = notif->data.instruction_pointer - 2;
    if (gate->names_entry)
        gate_learn_library(keeper, thread->tid, &view->mapping);
    if (gate_call(notif->data.nr)) {
        lead(gate, thread, notif->data.nr, site, view->between);
        remember_mapped(keeper, &view->mapping, notif->data.nr, site, view->between);
    }
    if (view->sigaction > view->mapping.start && view->sigaction < view->mapping.end - 8) {
        lead(gate, thread, SYS_rt_sigaction, view->sigaction, 0);
        remember_mapped(keeper, &view->mapping, SYS_rt_sigaction, view->sigaction, 0);
    }
    for (unsigned i = 0; i < keeper->known_sites; i++) {
        uint64_t other = site_of(&keeper->known[i], &view->mapping);
        if (other && other != site && other != view->sigaction)
            lead(gate, thread, keeper->known[i].nr, other, keeper->known[i].between);
    }
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

void gate_drop(struct gate_process *gate)
{
    __atomic_store_n((uint32_t *)(void *)(gate->pages + GATE_AWAKE), 0, __ATOMIC_SEQ_CST);
    munmap(gate->pages, GATE_BYTES);
    close(gate->pidfd);
    if (gate->channel >= 0)
        close(gate->channel);
    *gate = (struct gate_process){0};
}

bool gate_is_there(const struct gate_process *gate)
{
    uint8_t code[GATE_STUBS];
    size_t size = (size_t)(gate_code_end - gate_code);
    return guest_read(gate->tgid, gate->base, code, size) == (ssize_t)size && memcmp(code, gate_code, size) == 0;
}

/* One remote call that must succeed. */
static int make(struct remote_thread *thread, long nr, const uint64_t args[6], long *result)
{
    int error = remote_call(thread, nr, args, result);
    return error ? error : *result < 0 && *result > -4096 ? 1 : 0;
}

static int map(struct remote_thread *thread, uint64_t *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    long result = 0;
    uint64_t args[6] = {*at, size, (uint64_t)protection, (uint64_t)flags, (uint64_t)fd, (uint64_t)offset};
    int error = make(thread, SYS_mmap, args, &result);
    *at = (uint64_t)result;
    return error;
}

/* The pages, in a process that has none. 1: it has none afterwards, or some that stay unused. */
static int map_new(struct remote_thread *thread, struct gate_process *gate, int fd, uint64_t site)
{
    uint64_t base = 0, own;
    long result = 0;
    int error = map(thread, &base, GATE_BYTES, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
    if (error)
        return error;
    int64_t distance = (int64_t)(base - site);
    if (distance > NEAR || distance < -NEAR) {
        uint64_t all[6] = {base, GATE_BYTES};
        error = make(thread, SYS_munmap, all, &result);
        return error ? error : 1;
    }
    own = base + GATE_OPEN;
    error = map(thread, &own, GATE_SHARED - GATE_OPEN, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    uint64_t wiped[6] = {base + GATE_OPEN, GATE_PAGE, MADV_WIPEONFORK};
    uint64_t writable[6] = {base + GATE_SHARED, GATE_BYTES - GATE_SHARED, PROT_READ | PROT_WRITE};
    if (!error)
        error = make(thread, SYS_madvise, wiped, &result);
    if (!error)
        error = make(thread, SYS_mprotect, writable, &result);
    gate->base = base;
    return error;
}

/* In a child that has its parent's: what it remembers in private pages may be in use. */
static int map_inherited(struct remote_thread *thread, struct gate_process *gate, int fd, uint64_t base)
{
    uint64_t code = base, shared = base + GATE_SHARED;
    int error = map(thread, &code, GATE_OPEN, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED, fd, 0);
    if (!error)
        error = map(thread, &shared, GATE_BYTES - GATE_SHARED, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                    GATE_SHARED);
    gate->base = base;
    return error;
}

/* The parent's stubs, which the child's sites lead to. */
static bool take_stubs(struct gate_process *gate, pid_t tid, uint64_t base)
{
    uint8_t pages[GATE_OPEN];
    if (guest_read(tid, base, pages, sizeof pages) != sizeof pages ||
        memcmp(pages, gate_code, gate_code_end - gate_code) != 0)
        return false;
    memcpy(gate->pages, pages, sizeof pages);
    for (unsigned i = 0; i < GATE_MOST_STUBS; i++) {
        uint64_t site;
        memcpy(&site, pages + GATE_STUBS + i * GATE_STUB_BYTES + GATE_DATA + GATE_DATA_BACK, sizeof site);
        if (!site)
            break;
        gate->sites[gate->stubs++] = site;
    }
    return true;
}

/* The memory of a gate: husk's mapping, and the descriptor to map it by in the guest. */
static int make_pages(struct gate_process *gate)
{
    int fd = memfd_create("husk-gate", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    if (ftruncate(fd, GATE_BYTES) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0 ||
        (gate->pages = mmap(NULL, GATE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED) {
        int error = errno;
        close(fd);
        return -error;
    }
    memcpy(gate->pages, gate_code, gate_code_end - gate_code);
    return fd;
}

/* Answer, and stop the thread on its way out, with a copy of `source` in its table if there is room: `guest_fd`. And
 * with a `channel`, if it is to get one. */
static int stop(struct gate_keeper *keeper, const struct seccomp_notif *notif, int source, struct remote_thread *thread,
                int *guest_fd, struct gate_process *channel, struct stat *theirs)
{
    int listener = keeper->listener->fd;
    if (remote_attach(notif->pid))
        return REMOTE_TRACED;
    if (!notify_is_valid(listener, notif->id)) { /* the tid was reused */
        remote_abandon(notif->pid);
        return -ESRCH;
    }
    *guest_fd = source < 0 ? -1 : notify_inject_fd(listener, notif, source, true);
    if (channel)
        channel->channel = gate_make_channel(listener, notif, theirs);
    notify_answer_value(listener, notif->id, 0);
    int error = remote_wait_stop(thread, notif->pid);
    thread->cookie = keeper->listener->cookie;
    return error ? error : remote_block_signals(thread);
}

int gate_install(struct gate_keeper *keeper, struct gate_process *place, const struct seccomp_notif *notif,
                 const struct gate_view *view)
{
    struct gate_process gate = {.tgid = notif->pid, .names_entry = names_entry_of(keeper, notif->pid), .channel = -1};
    struct remote_thread thread;
    struct stat theirs = {0};
    struct { uint32_t open, gap; uint64_t dev, ino; } words = {.open = 1}; /* as at GATE_OPEN */
    int guest_fd, fd = make_pages(&gate);
    if (fd < 0)
        return REMOTE_TRACED;
    gate.pidfd = (int)syscall(SYS_pidfd_open, notif->pid, 0);
    if (gate.pidfd < 0 || (view->inherited && !take_stubs(&gate, notif->pid, view->inherited))) {
        close(fd);
        munmap(gate.pages, GATE_BYTES);
        if (gate.pidfd >= 0)
            close(gate.pidfd);
        return REMOTE_TRACED;
    }
    int error = stop(keeper, notif, fd, &thread, &guest_fd, gate.names_entry ? &gate : NULL, &theirs);
    close(fd);
    if (error) {
        gate_drop(&gate);
        return error;
    }
    if (guest_fd < 0)
        error = 1;
    else
        error = view->inherited ? map_inherited(&thread, &gate, guest_fd, view->inherited)
                                : map_new(&thread, &gate, guest_fd, notif->data.instruction_pointer);
    bool usable = !error;
    long result = 0;
    uint64_t done[6] = {(uint64_t)guest_fd, 0, 0, 0, 0, thread.cookie};
    if (error >= 0 && guest_fd >= 0 && remote_call(&thread, SYS_close, done, &result))
        usable = false, error = -ESRCH;
    if (usable) {
        lead_known_sites(keeper, &gate, &thread, notif, view);
        words.dev = theirs.st_dev, words.ino = theirs.st_ino;
        usable = guest_write(thread.tid, gate.base + GATE_OPEN, &words, sizeof words) == sizeof words;
    }
    /* Before the thread goes on: its next request may come at once. */
    gate_lock(keeper);
    usable = usable && !atomic_load(&keeper->closed);
    if (usable)
        *place = gate;
    else
        gate_drop(&gate);
    pthread_mutex_unlock(&keeper->lock);
    if (error >= 0)
        remote_repeat(&thread, notif->data.nr);
    return usable ? 0 : -EAGAIN;
}

int gate_add_site(struct gate_keeper *keeper, struct gate_process *gate, const struct seccomp_notif *notif,
                  const struct gate_view *view)
{
    struct remote_thread thread;
    int none, error = stop(keeper, notif, -1, &thread, &none, NULL, NULL);
    if (error)
        return error;
    gate_lock(keeper);
    unsigned before = gate->stubs;
    if (gate->tgid == (pid_t)notif->pid)
        lead_known_sites(keeper, gate, &thread, notif, view);
    bool added = gate->stubs > before;
    pthread_mutex_unlock(&keeper->lock);
    remote_repeat(&thread, notif->data.nr);
    return added ? 0 : -EAGAIN;
}
