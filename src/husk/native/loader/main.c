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

static const struct husk_exec_info *ask(int started_by)
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
    return info;
}

static struct husk_resident *make_resident(const struct husk_exec_info *info)
{
    struct husk_resident *r = (struct husk_resident *)HUSK_RESIDENT_DATA;
    const char *execfn = info->strings + info->prefix_bytes;

    if (sys_mmap(HUSK_RESIDENT, HUSK_RESIDENT_BYTES, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != HUSK_RESIDENT)
        die();
    memcpy((void *)HUSK_RESIDENT, loader_resident_code, (size_t)(loader_resident_code_end - loader_resident_code));
    if (failed(sys_mprotect(HUSK_RESIDENT, HUSK_RESIDENT_CODE_BYTES, PROT_READ | PROT_EXEC)))
        die();

    r->version = HUSK_RESIDENT_VERSION;
    memcpy(r->identity, info->identity, sizeof r->identity);
    memcpy(r->eintr_bitmap, info->eintr_bitmap, sizeof r->eintr_bitmap);
    r->exe_len = info->exe_bytes - 1;
    r->execfn_offset = info->exe_bytes;
    memcpy(r->exe, execfn + info->execfn_bytes, info->exe_bytes);
    memcpy(r->exe + r->execfn_offset, execfn, info->execfn_bytes);
    return r;
}

/*
 * Code and table for direct names. Where something here fails the program has none, and asks the supervisor.
 * The table's name is one of the box's root: no other call of the loader carries a name.
 */
static void make_names(struct husk_resident *resident)
{
    long (*direct)(long, long, long, long, long) = (void *)(HUSK_RESIDENT + HUSK_RESIDENT_DIRECT);
    uint64_t size = (uint64_t)(loader_names_end - loader_names_begin);
    long fd = direct(SYS_openat, AT_FDCWD, (long)HUSK_DIRECTORIES_FILE, O_RDONLY | O_CLOEXEC, 0);

    if (failed(fd))
        return;
    if (size > HUSK_NAMES_BYTES ||
        sys_mmap(HUSK_NAMES, HUSK_NAMES_BYTES + HUSK_NAMES_DATA_BYTES, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != HUSK_NAMES) {
        syscall3(SYS_close, fd, 0, 0);
        return;
    }
    memcpy((void *)HUSK_NAMES, loader_names_begin, size);
    if (!failed(sys_mprotect(HUSK_NAMES, HUSK_NAMES_BYTES, PROT_READ | PROT_EXEC)) &&
        sys_mmap(HUSK_DIRECTORIES, HUSK_DIRECTORIES_BYTES, PROT_READ, MAP_SHARED | MAP_FIXED_NOREPLACE, (int)fd, 0)
            == HUSK_DIRECTORIES)
        resident->names_entry = HUSK_NAMES + (uint64_t)(loader_names_entry - loader_names_begin);
    syscall3(SYS_close, fd, 0, 0);
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
    const struct husk_exec_info *info;
    struct husk_resident *resident;
    long personality;
    int has_interpreter, interpreter_fd, randomize, started_by;

    loader_stack_read(&stack, sp);
    started_by = loader_stack_started_by(&stack);
    info = ask(started_by); /* the first call: from here on the supervisor knows that the loader runs */
    personality = syscall3(SYS_personality, PERSONALITY_QUERY, 0, 0);
    interpreter_fd = info->interpreter_fd;
    has_interpreter = interpreter_fd != HUSK_NONE;
    randomize = !(info->flags & HUSK_NO_RANDOMIZE) && (failed(personality) || !(personality & ADDR_NO_RANDOMIZE));
    loader_image_load(&program, info->program_fd,
                      info->flags & HUSK_HEADER_GIVEN ? (const Elf64_Ehdr *)info->ehdr : NULL,
                      has_interpreter ? PLACE_PROGRAM : PLACE_ANYWHERE, randomize);
    syscall3(SYS_close, info->program_fd, 0, 0);
    /* After the program: an image may span the region, as long as it has a hole there. */
    resident = make_resident(info);
    resident->entry = program.entry;
    if (info->flags & HUSK_DIRECT_NAMES)
        make_names(resident);
    if (has_interpreter) {
        if (interpreter_fd == HUSK_ASK_LATER)
            interpreter_fd = (int)question(HUSK_EXEC_INTERPRETER, NULL, 0, started_by);
        loader_image_load(&interpreter, interpreter_fd, NULL, PLACE_ANYWHERE, randomize);
        if (resident->names_entry && interpreter.code) {
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
    /*
     * Last, so that the supervisor never uses a half-made region. Until it sees
     * this it knows that name and arguments are not yet the program's.
     */
    __atomic_store_n(&resident->magic, HUSK_RESIDENT_MAGIC, __ATOMIC_RELEASE);

    leave((uint64_t)image_start, PAGE_UP((uint64_t)image_end) - (uint64_t)image_start, (uint64_t)stack.sp);
    die();
}
