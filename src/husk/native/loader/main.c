/*
 * husk-loader: the host kernel starts it in place of every guest program. It
 * asks the supervisor which file to run, maps it, makes the process look as if
 * Linux had executed that file, and leaves only the resident region behind.
 *
 * Freestanding: no C library, no relocation to process, no vector register.
 */
#include <fcntl.h>
#include <linux/prctl.h>
#include <sys/mman.h>

#include "directories.h"
#include "loader.h"

#define ADDR_NO_RANDOMIZE 0x0040000
#define PERSONALITY_QUERY 0xffffffff
#define BRK_RANDOM_PAGES (1ul << 18) /* 1 GiB: x86-64's arch_randomize_brk */
#define EINTR 4

extern const char image_start[] __asm__("__ehdr_start") __attribute__((visibility("hidden")));
extern const char image_end[] __asm__("_end") __attribute__((visibility("hidden")));

static union {
    struct husk_exec_info info;
    char bytes[HUSK_EXEC_INFO_MAX];
} answer __attribute__((aligned(16)));

static struct loader_image program, interpreter;
static struct loader_stack stack;

static long question(long op, void *buf, size_t size, int started_by)
{
    long result;

    do
        result = syscall6(HUSK_CALL, op, (long)buf, (long)size, started_by, 0, 0);
    while (result == -EINTR);
    if (failed(result)) /* 127: a shell's exit code when it cannot run a command */
        for (;;)
            syscall3(SYS_exit_group, 127, 0, 0);
    return result;
}

static void ask(int started_by)
{
    struct husk_exec_info *info = &answer.info;
    uint64_t room = sizeof answer - sizeof *info;
    long result = question(HUSK_EXEC_INFO, &answer, sizeof answer, started_by);

    if (info->magic != HUSK_EXEC_MAGIC || info->version != HUSK_EXEC_VERSION)
        die();
    if (info->prefix_bytes > room || info->execfn_bytes > room - info->prefix_bytes ||
        info->exe_bytes > room - info->prefix_bytes - info->execfn_bytes)
        die();
    if (info->execfn_bytes == 0 || info->exe_bytes == 0 ||
        (uint64_t)info->execfn_bytes + info->exe_bytes > HUSK_RES_STRINGS_BYTES)
        die();
    if (info->program_fd < 0)
        info->program_fd = (int)result;
}

/* The resident region, and beside it what direct names need, if the program left room for that. */
static struct husk_resident *map_resident(int *names_too)
{
    int names = *names_too;
    uint64_t start = names ? HUSK_NAMES : HUSK_RESIDENT, data = HUSK_RESIDENT_DATA;
    uint64_t end = names ? HUSK_NAMES_DATA + HUSK_NAMES_DATA_BYTES : HUSK_RESIDENT + HUSK_RESIDENT_BYTES;

    if (sys_mmap(start, end - start, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0)
        != start) {
        if (!names)
            die();
        *names_too = 0;
        return map_resident(names_too);
    }
    memcpy((void *)HUSK_RESIDENT, loader_resident_code, (size_t)(loader_resident_code_end - loader_resident_code));
    if (names)
        memcpy((void *)HUSK_NAMES, loader_names_begin, (size_t)(loader_names_end - loader_names_begin));
    if (failed(sys_mprotect(start, data - start, PROT_READ | PROT_EXEC)))
        die();
    return (struct husk_resident *)data;
}

static void fill_resident(struct husk_resident *r, const struct husk_exec_info *info)
{
    const char *execfn = info->strings + info->prefix_bytes;

    r->version = HUSK_RESIDENT_VERSION;
    memcpy(r->identity, info->identity, sizeof r->identity);
    memcpy(r->eintr_bitmap, info->eintr_bitmap, sizeof r->eintr_bitmap);
    r->exe_len = info->exe_bytes - 1;
    r->execfn_offset = info->exe_bytes;
    memcpy(r->exe, execfn + info->execfn_bytes, info->exe_bytes);
    memcpy(r->exe + r->execfn_offset, execfn, info->execfn_bytes);
}

/*
 * The table of direct names. Where something here fails the program has none, and asks the supervisor.
 * The table's name is one of the box's root, as are those in it: no other call of the loader carries a name.
 */
static int map_table(struct husk_resident *resident)
{
    long (*direct)(long, long, long, long, long) = (void *)(HUSK_RESIDENT + HUSK_RESIDENT_DIRECT);
    long fd = direct(SYS_openat, AT_FDCWD, (long)HUSK_DIRECTORIES_FILE, O_RDONLY | O_CLOEXEC, 0);

    if (failed(fd))
        return 0;
    if (sys_mmap(HUSK_DIRECTORIES, HUSK_DIRECTORIES_BYTES, PROT_READ, MAP_SHARED | MAP_FIXED_NOREPLACE, (int)fd, 0)
        == HUSK_DIRECTORIES)
        resident->names_entry = HUSK_NAMES + (uint64_t)(loader_names_entry - loader_names_begin);
    syscall3(SYS_close, fd, 0, 0);
    return resident->names_entry != 0;
}

/*
 * A program that its process has executed without asking the supervisor (names.c): the record of it, copied. NULL: it
 * is there no longer.
 */
static const struct husk_program *find_known(const char *name)
{
    static struct husk_program known;
    uint64_t hash = HUSK_HASH_BEGIN;
    uint32_t turn;
    size_t size = 0;

    for (; name[size]; size++)
        hash = husk_hash_step(hash, name[size]);
    const struct husk_program *found = loader_names_program(name, size, hash, &turn);
    if (!found)
        return NULL;
    memcpy(&known, found, sizeof known);
    if (!loader_names_is_still(found, turn) || known.info_at % 8 || known.info_at >= HUSK_PROGRAM_TEXT ||
        known.info_size > HUSK_PROGRAM_TEXT - known.info_at)
        return NULL;
    memcpy(&answer, known.text + known.info_at, known.info_size);
    answer.info.interpreter_fd = known.interpreter_at ? HUSK_ASK_LATER : HUSK_NONE;
    return &known;
}

/* The name below HUSK_RUN that we were started by. NULL: it is another, and the supervisor has to be asked. */
static const char *name_to_run(void)
{
    static const char prefix[] = HUSK_RUN;
    const char *name = loader_stack_execfn(&stack);

    for (size_t i = 0; i < sizeof prefix - 1; i++)
        if (*name++ != prefix[i])
            return NULL;
    return *name == '/' ? name : NULL;
}

/* Something has changed since: execute the name in the ordinary way. */
static _Noreturn void start_again(const char *name)
{
    while (syscall3(SYS_execve, (long)name, (long)stack.argv, (long)stack.envp) == -EINTR)
        ;
    for (;;)
        syscall3(SYS_exit_group, 127, 0, 0);
}

/* Until the supervisor sees this it takes name and arguments for the loader's. */
static void publish(struct husk_resident *resident)
{
    __atomic_store_n(&resident->magic, HUSK_RESIDENT_MAGIC, __ATOMIC_RELEASE);
}

static uint64_t choose_brk(const struct husk_exec_info *info, int randomize)
{
    uint64_t brk = PAGE_UP(program.end);

    /* A static PIE lies among mmap's areas, where a heap could not grow. Linux moves the heap out too. */
    if (program.type == ET_DYN && info->interpreter_fd == HUSK_NONE)
        brk = ELF_ET_DYN_BASE;
    return brk + (randomize ? loader_random_pages(BRK_RANDOM_PAGES) : 0);
}

/*
 * Tell the host kernel what it would know if it had loaded the program itself:
 * brk(2) starts from this, and /proc/PID/{cmdline,environ,auxv,stat} show it.
 * A failure does no harm: malloc falls back to mmap.
 */
static void describe(const struct husk_exec_info *info, int randomize)
{
    uint64_t brk = choose_brk(info, randomize);
    struct prctl_mm_map map = {
        .start_code = program.start_code,
        .end_code = program.end_code,
        .start_data = program.start_data,
        .end_data = program.end_data,
        .start_brk = brk,
        .brk = brk,
        .start_stack = (uint64_t)stack.sp,
        .arg_start = stack.arg_start,
        .arg_end = stack.arg_end,
        .env_start = stack.env_start,
        .env_end = stack.env_end,
        .auxv = (__u64 *)stack.auxv,
        .auxv_size = (uint32_t)stack.auxv_bytes,
        .exe_fd = (uint32_t)-1, /* changing it takes a capability; husk answers for /proc/self/exe */
    };

    syscall6(SYS_prctl, PR_SET_MM, PR_SET_MM_MAP, (long)&map, sizeof map, 0, 0);
    syscall6(SYS_prctl, PR_SET_NAME, (long)info->comm, 0, 0, 0, 0);
}

_Noreturn void loader_main(uint64_t *sp)
{
    void (*leave)(uint64_t image, uint64_t len, uint64_t sp) = (void *)(HUSK_RESIDENT + HUSK_RESIDENT_LEAVE);
    const struct husk_exec_info *info = &answer.info;
    const struct husk_program *known = NULL;
    struct husk_resident *resident = NULL;
    const char *name;
    long personality;
    int has_interpreter, interpreter_fd, randomize, started_by = 0, names = 1;

    loader_stack_read(&stack, sp);
    name = name_to_run();
    if (name) {
        resident = map_resident(&names);
        known = names && map_table(resident) ? find_known(name) : NULL;
        if (!known)
            start_again(name);
        answer.info.program_fd = loader_names_open(known->text + known->program_at, &known->program);
        if (info->program_fd < 0)
            start_again(name);
        fill_resident(resident, info);
        publish(resident); /* the host has the right name and arguments, because this is no script */
    } else {
        started_by = loader_stack_started_by(&stack);
        ask(started_by); /* the first call: from here on the supervisor knows that the loader runs */
    }
    personality = syscall3(SYS_personality, PERSONALITY_QUERY, 0, 0);
    interpreter_fd = info->interpreter_fd;
    has_interpreter = interpreter_fd != HUSK_NONE;
    randomize = !(info->flags & HUSK_NO_RANDOMIZE) && (failed(personality) || !(personality & ADDR_NO_RANDOMIZE));
    loader_image_load(&program, info->program_fd,
                      info->flags & HUSK_HEADER_GIVEN ? (const Elf64_Ehdr *)info->ehdr : NULL,
                      has_interpreter ? PLACE_PROGRAM : PLACE_ANYWHERE, randomize);
    syscall3(SYS_close, info->program_fd, 0, 0);
    if (!known) { /* after the program: an image may span the region, as long as it has a hole there */
        names = (info->flags & HUSK_DIRECT_NAMES) != 0;
        resident = map_resident(&names);
        fill_resident(resident, info);
        if (names)
            map_table(resident);
    }
    resident->entry = program.entry;
    if (has_interpreter) {
        if (known) {
            interpreter_fd = loader_names_open(known->text + known->interpreter_at, &known->interpreter);
            if (interpreter_fd < 0)
                start_again(name);
        } else if (interpreter_fd == HUSK_ASK_LATER)
            interpreter_fd = (int)question(HUSK_EXEC_INTERPRETER, NULL, 0, started_by);
        loader_image_load(&interpreter, interpreter_fd, NULL, PLACE_ANYWHERE, randomize);
        if (resident->names_entry && interpreter.code) {
            /* To change a library's code costs as much as a few notifications: many programs make hardly a call. */
            ((struct husk_names *)HUSK_NAMES_DATA)->leads = !known || known->leads;
            loader_names_make_stubs(resident->names_entry);
            loader_names_lead(interpreter.code, interpreter.code_size, interpreter_fd, interpreter.code_offset);
        }
        syscall3(SYS_close, interpreter_fd, 0, 0);
        resident->entry = interpreter.entry;
    }

    if (info->prefix_count > 0)
        loader_stack_rebuild(&stack, info->strings, info->prefix_count, info->prefix_bytes);
    loader_stack_patch_auxv(&stack, &program, interpreter.bias, resident->exe + resident->execfn_offset);
    if (program.exec_stack)
        loader_stack_make_executable(&stack);
    describe(info, randomize);
    if (!known) /* last, so that the supervisor never uses a half-made region */
        publish(resident);

    leave((uint64_t)image_start, PAGE_UP((uint64_t)image_end) - (uint64_t)image_start, (uint64_t)stack.sp);
    die();
}
