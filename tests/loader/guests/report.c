/*
 * Prints what a program can find out about how it was started, one fact per
 * line, without addresses: run natively and through the loader, it must print the
 * same lines. Facts about addresses are printed as relations that must hold.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char **environ;
extern char _start[], _end[];

static char file[4 << 20];

static size_t slurp(const char *name)
{
    int fd = open(name, O_RDONLY);
    size_t len = 0;
    ssize_t n;

    while (fd >= 0 && (n = read(fd, file + len, sizeof file - 1 - len)) > 0)
        len += (size_t)n;
    file[len] = 0;
    close(fd);
    return len;
}

/* Does /proc show exactly the strings that the table points to? */
static int same_strings(const char *name, char **table)
{
    size_t len = slurp(name), at = 0;

    for (; *table; table++) {
        size_t n = strlen(*table) + 1;
        if (at + n > len || memcmp(file + at, *table, n) != 0)
            return 0;
        at += n;
    }
    return at == len;
}

static int contiguous(char **table)
{
    for (; table[0] && table[1]; table++)
        if (table[0] + strlen(table[0]) + 1 != table[1])
            return 0;
    return 1;
}

static int first_phdr(struct dl_phdr_info *info, size_t size, void *out)
{
    (void)size;
    *(const void **)out = info->dlpi_phdr;
    return 1;
}

static void report_auxv(char **argv, char **envp)
{
    Elf64_auxv_t *auxv, *a;
    const void *phdr = NULL;
    const char *base = (const char *)getauxval(AT_BASE);
    size_t len;

    while (*envp)
        envp++;
    auxv = (Elf64_auxv_t *)(envp + 1);
    printf("auxv types:");
    for (a = auxv; a->a_type != AT_NULL; a++)
        printf(" %lu", a->a_type);
    len = slurp("/proc/self/auxv");
    printf("\n/proc/self/auxv same: %d\n",
           len >= (size_t)((char *)(a + 1) - (char *)auxv) && memcmp(file, auxv, (size_t)((char *)a - (char *)auxv)) == 0);
    dl_iterate_phdr(first_phdr, &phdr);
    printf("AT_PHDR right: %d\n", phdr == (void *)getauxval(AT_PHDR));
    printf("AT_PHENT %lu AT_PHNUM %lu AT_FLAGS %lu\n", getauxval(AT_PHENT), getauxval(AT_PHNUM), getauxval(AT_FLAGS));
    printf("AT_ENTRY right: %d\n", getauxval(AT_ENTRY) == (unsigned long)_start);
    printf("AT_BASE: %s\n", !base ? "none" : memcmp(base, ELFMAG, SELFMAG) == 0 ? "an image" : "wrong");
    printf("AT_EXECFN %s\n", (char *)getauxval(AT_EXECFN));
    printf("AT_PLATFORM %s\n", (char *)getauxval(AT_PLATFORM));
    printf("AT_RANDOM on stack: %d\n",
           (char *)getauxval(AT_RANDOM) > (char *)argv && getauxval(AT_RANDOM) < getauxval(AT_PLATFORM));
    printf("AT_UID %lu AT_EUID %lu AT_GID %lu AT_SECURE %lu AT_PAGESZ %lu AT_CLKTCK %lu\n", getauxval(AT_UID),
           getauxval(AT_EUID), getauxval(AT_GID), getauxval(AT_SECURE), getauxval(AT_PAGESZ), getauxval(AT_CLKTCK));
    printf("AT_HWCAP %lx AT_HWCAP2 %lx AT_MINSIGSTKSZ %lu\n", getauxval(AT_HWCAP), getauxval(AT_HWCAP2),
           getauxval(AT_MINSIGSTKSZ));
    printf("vdso: %d\n", memcmp((char *)getauxval(AT_SYSINFO_EHDR), ELFMAG, SELFMAG) == 0);
}

/* Fields of /proc/self/stat by the numbers proc(5) gives them. */
static void report_stat(int argc, char **argv)
{
    unsigned long field[53] = {0};
    uintptr_t code = (uintptr_t)report_stat, data = (uintptr_t)&environ;
    char *at;

    (void)argc;
    slurp("/proc/self/stat");
    at = strrchr(file, ')') + 2;
    for (int i = 3; i <= 52 && at; i++) {
        field[i] = i == 3 ? 0 : strtoul(at, NULL, 10);
        at = strchr(at, ' ');
        at = at ? at + 1 : NULL;
    }
    printf("code in [startcode, endcode): %d\n", field[26] <= code && code < field[27]);
    printf("startstack right: %d\n", field[28] == (uintptr_t)(argv - 1));
    printf("start_data..end_data before data's end: %d\n", field[45] <= data && field[45] < field[46]);
    printf("start_brk past the program: %d\n", field[47] >= (uintptr_t)_end || field[47] < code);
    printf("arg_start right: %d env_start right: %d\n", field[48] == (uintptr_t)argv[0],
           !environ[0] || field[50] == (uintptr_t)environ[0]);
    printf("exit_code %lu\n", field[52]);
}

/* The call itself: not every C library's sbrk moves the break. */
static char *set_break(char *to)
{
    return (char *)syscall(SYS_brk, to);
}

static void report_memory(void)
{
    char *before = set_break(NULL), *after = set_break(before + 8192), *block[200];
    size_t sum = 0;

    printf("brk moved: %d\n", after == before + 8192);
    for (int i = 0; i < 8192 && after > before; i++)
        sum += (size_t)before[i];
    printf("fresh heap is zero: %d\n", sum == 0);
    for (int i = 0; i < 200; i++) {
        block[i] = malloc(100 << 10);
        memset(block[i], i, 100 << 10);
    }
    printf("heap grew: %d\n", set_break(NULL) > after);
    for (int i = 0; i < 200; i++) {
        sum += (size_t)(block[i][4711] != (char)i);
        free(block[i]);
    }
    printf("blocks intact: %d\n", sum == 0);
}

int main(int argc, char **argv)
{
    char comm[16] = "";

    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    printf("argc %d\n", argc);
    for (int i = 0; i < argc && i < 12; i++)
        printf("argv[%d] %.60s\n", i, argv[i]);
    printf("sp aligned: %d\n", (uintptr_t)(argv - 1) % 16 == 0);
    printf("argv contiguous: %d, environ contiguous: %d\n", contiguous(argv), contiguous(environ));
    printf("argv and environ adjacent: %d\n", !environ[0] || argv[argc - 1] + strlen(argv[argc - 1]) + 1 == environ[0]);
    printf("cmdline same: %d\n", same_strings("/proc/self/cmdline", argv));
    printf("environ same: %d\n", same_strings("/proc/self/environ", environ));
    prctl(PR_GET_NAME, comm);
    printf("comm %s\n", comm);
    printf("open descriptors:");
    for (int fd = 0; fd < 64; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            printf(" %d", fd);
    printf("\n");
    report_auxv(argv, environ);
    report_stat(argc, argv);
    report_memory();
    return 0;
}
