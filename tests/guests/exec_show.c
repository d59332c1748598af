/* build: exec_show
 * build: exec_show_nopie -no-pie
 * build: exec_show_static -static
 * build: exec_show_static_pie -static-pie
 * build: exec_show_nointerp -Wl,--dynamic-linker=/nonexistent/ld.so
 * build: exec_show_relinterp -Wl,--dynamic-linker=./ld
 *
 * The program the exec tests execute: says what a program can see of how it was started.
 * Arguments are always shown; letters in $SHOW ask for more, so that argv stays free for the test.
 */
#include "step.h"
#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#include <dirent.h>

extern char **environ;
extern char _start[];
extern const ElfW(Ehdr) __ehdr_start __attribute__((weak, visibility("hidden")));

static void show_arguments(int argc, char **argv) {
    size_t bytes = 0;
    for (int i = 0; i < argc; i++)
        bytes += strlen(argv[i]);
    if (bytes > 3000) {
        say("argc=%d bytes=%zu last=%.20s end=%s", argc, bytes, argv[argc - 1], argv[argc] ? "not NULL" : "NULL");
        return;
    }
    char line[8000];
    int at = snprintf(line, sizeof line, "argc=%d", argc);
    for (int i = 0; i < argc; i++)
        at += snprintf(line + at, sizeof line - at, " [%s]", argv[i]);
    say("%s%s", line, argv[argc] ? " argv[argc] is not NULL" : "");
}

static void show_names(void) {
    char text[PATH_MAX + 1];
    const char *execfn = (const char *)getauxval(AT_EXECFN);
    say("execfn=%s", execfn ? execfn : "(none)");
    int fd = open("/proc/self/comm", O_RDONLY);
    ssize_t n = read(fd, text, sizeof text - 1);
    say("comm=%.*s", (int)(n > 0 ? n - 1 : 0), text);
    close(fd);
    fd = open("/proc/self/cmdline", O_RDONLY);
    n = read(fd, text, sizeof text - 1);
    for (ssize_t i = 0; i < n; i++)
        if (!text[i])
            text[i] = '|';
    say("cmdline=%.*s", (int)(n > 0 ? n : 0), text);
    close(fd);
    n = readlink("/proc/self/exe", text, sizeof text);
    say("exe=%.*s", (int)(n > 0 ? n : 0), text);
}

static void show_auxv(void) {
    const ElfW(Phdr) *headers = (void *)getauxval(AT_PHDR);
    unsigned long loads = 0, count = getauxval(AT_PHNUM), has_interp = 0;
    for (unsigned long i = 0; headers && i < count; i++) {
        loads += headers[i].p_type == PT_LOAD;
        has_interp |= headers[i].p_type == PT_INTERP;
    }
    say("auxv: phdr %s, phnum %s, phent %lu, has interp %lu", headers && loads ? "ok" : "bad",
        count == __ehdr_start.e_phnum ? "ok" : "bad", getauxval(AT_PHENT), has_interp);
    say("auxv: entry %s, base %s", getauxval(AT_ENTRY) == (unsigned long)_start ? "ok" : "bad",
        getauxval(AT_BASE) ? "set" : "zero");
    const ElfW(Ehdr) *base = (void *)getauxval(AT_BASE);
    say("auxv: base is ELF %s", !base ? "-" : memcmp(base->e_ident, ELFMAG, SELFMAG) ? "no" : "yes");
    say("auxv: pagesz %lu clktck %lu secure %lu flags %lu", getauxval(AT_PAGESZ), getauxval(AT_CLKTCK),
        getauxval(AT_SECURE), getauxval(AT_FLAGS));
    say("auxv: ids %s", getauxval(AT_UID) == getuid() && getauxval(AT_EUID) == geteuid() && getauxval(AT_GID) == getgid() &&
        getauxval(AT_EGID) == getegid() ? "ok" : "bad");
    say("auxv: random %s platform %s vdso %s", getauxval(AT_RANDOM) ? "set" : "zero", (char *)getauxval(AT_PLATFORM),
        getauxval(AT_SYSINFO_EHDR) ? "set" : "zero");
    /* The file must hold the very vector the program started with. */
    size_t size;
    unsigned long *vector = (void *)get_file("/proc/self/auxv", &size);
    int same = size >= 16 && size % 16 == 0;
    for (size_t i = 0; i + 1 < size / 8 && vector[i] != AT_NULL; i += 2)
        if (vector[i + 1] != getauxval(vector[i]))
            same = 0;
    say("/proc/self/auxv %s", same ? "same" : "differs");
}

static void show_descriptors(void) {
    char line[1000];
    int at = 0;
    for (int fd = 0; fd < 64; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            at += snprintf(line + at, sizeof line - at, " %d", fd);
    say("descriptors:%s", line);
}

static void show_signals(void) {
    char line[1000];
    int at = 0;
    line[0] = 0;
    for (int sig = 1; sig < 65; sig++) {
        struct sigaction action;
        if (sigaction(sig, NULL, &action) == 0 && action.sa_handler != SIG_DFL)
            at += snprintf(line + at, sizeof line - at, " %d:%s/%x", sig, action.sa_handler == SIG_IGN ? "ignored" : "HANDLER",
                           (unsigned)action.sa_flags);
    }
    say("dispositions:%s", line);
    sigset_t blocked, pending;
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    sigpending(&pending);
    at = 0;
    line[0] = 0;
    for (int sig = 1; sig < 65; sig++)
        if (sigismember(&blocked, sig) == 1 || sigismember(&pending, sig) == 1)
            at += snprintf(line + at, sizeof line - at, " %d%s%s", sig, sigismember(&blocked, sig) == 1 ? "b" : "",
                           sigismember(&pending, sig) == 1 ? "p" : "");
    say("mask:%s", line);
    stack_t stack;
    sigaltstack(NULL, &stack);
    say("sigaltstack %s", stack.ss_flags & SS_DISABLE ? "disabled" : "in place");
}

static void show_process(void) {
    const char *expected = getenv("EXPECT_PID");
    int threads = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *entry; tasks && (entry = readdir(tasks));)
        threads += entry->d_name[0] != '.';
    say("pid %s, thread is leader %s, threads %d", !expected || atoi(expected) == getpid() ? "kept" : "CHANGED",
        gettid() == getpid() ? "yes" : "no", threads);
    unsigned left = alarm(0);
    say("alarm %s", left ? "pending" : "none");
    unsigned long gs = 1;
    syscall(SYS_arch_prctl, 0x1004 /* ARCH_GET_GS */, &gs);
    say("gs base %s", gs ? "set" : "zero");
}

static void show_environment(void) {
    int count = 0;
    while (environ && environ[count])
        count++;
    say("environment: %d", count);
    for (int i = 0; i < count; i++)
        if (strncmp(environ[i], "HUSK_TEST_", 10))
            say("  %s", environ[i]);
}

int main(int argc, char **argv) {
    const char *show = getenv("SHOW");
    if (!show)
        show = "";
    show_arguments(argc, argv);
    for (; *show; show++)
        switch (*show) {
        case 'n': show_names(); break;
        case 'x': show_auxv(); break;
        case 'd': show_descriptors(); break;
        case 's': show_signals(); break;
        case 'p': show_process(); break;
        case 'e': show_environment(); break;
        case 'w': {
            char cwd[PATH_MAX];
            mode_t mask = umask(0);
            say("cwd=%s umask=%03o", getcwd(cwd, sizeof cwd) ? cwd : errname(errno), mask);
            umask(mask);
            break;
        }
        case 'b': /* busy until something ends it */
            for (;;)
                __asm__ volatile("pause");
        case 'r': { /* wait until told: lets a test look at a running program */
            char byte;
            if (read(0, &byte, 1) < 0)
                say("read: %s", errname(errno));
            break;
        }
        }
    return 0;
}
