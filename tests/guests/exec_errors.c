/* build: exec_errors
 *
 * execve(2) of things that cannot be executed, and of things that nearly cannot. argv[1] is the directory of the
 * guest programs; the current directory is scratch space.
 */
#include "step.h"
#include <elf.h>
#include <sys/resource.h>

static char *guests;
static char *no_env[] = {NULL};

static char *guest(const char *name) {
    char *path;
    MUST(asprintf(&path, "%s/%s", guests, name));
    return path;
}

static void attempt_full(const char *label, const char *path, char **argv, char **envp) {
    pid_t pid = fork();
    if (pid == 0) {
        syscall(SYS_execve, path, argv, envp);
        int error = errno, next = dup(0); /* nothing is left behind: no descriptor, no blocked signal */
        sigset_t blocked;
        MUST(sigprocmask(SIG_BLOCK, NULL, &blocked));
        say("%s = -1 %s, next descriptor %d, signals blocked %d", label, errname(error), next, !sigisemptyset(&blocked));
        _exit(0);
    }
    say("%s: %s", label, status_text(wait_for(pid)));
}

static void attempt(const char *label, const char *path) {
    char *argv[] = {"zero", "one", NULL};
    attempt_full(label, path, argv, no_env);
}

static void plain_mistakes(void) {
    attempt("missing", "missing");
    attempt("empty name", "");
    attempt("missing directory", "missing/show");
    attempt("file as directory", "show/x");
    attempt("trailing slash", "show/");
    attempt("directory", ".");
    attempt("root", "/");
    put_text("noexec", "#!/bin/sh\n", 0644);
    attempt("no x bit", "noexec");
    copy_file(guest("exec_show"), "group_only", 0610);
    attempt("x bit for the group only, we are the owner", "group_only");
    copy_file(guest("exec_show"), "x_only", 0100);
    attempt("execute-only binary", "x_only");
    put_text("x_only_script", "#!./show\n", 0100);
    attempt("execute-only script", "x_only_script");
    MUST(mkdir("closed", 0700));
    copy_file(guest("exec_show"), "closed/show", 0755);
    MUST(chmod("closed", 0600));
    attempt("directory without x", "closed/show");
    MUST(chmod("closed", 0700));
    MUST(symlink("loop_b", "loop_a"));
    MUST(symlink("loop_a", "loop_b"));
    attempt("symlink loop", "loop_a");
    MUST(symlink("nowhere", "dangling"));
    attempt("dangling symlink", "dangling");
    MUST(symlink("show", "link"));
    attempt("symlink", "link");
    MUST(mkfifo("fifo", 0755));
    attempt("fifo", "fifo");
    attempt("device", "/dev/null");
    static char long_name[5000];
    memset(long_name, 'a', 300);
    attempt("component of 300", long_name);
    memset(long_name, '/', 4500);
    attempt("path of 4500", long_name);
    memset(long_name, 0, sizeof long_name);
    memset(long_name, '/', 4091);
    memcpy(long_name, "./", 2);
    strcpy(long_name + 4091, "show"); /* 4095 characters and the NUL: the longest name Linux takes */
    attempt("path of 4095", long_name);
    memset(long_name, '/', 4092);
    memcpy(long_name, "./", 2);
    strcpy(long_name + 4092, "show");
    attempt("path of 4096", long_name);
    copy_file(guest("exec_show"), "setuid", 0755);
    MUST(chmod("setuid", 06755));
    attempt("set-user-id bit of our own file", "setuid");
}

static void bad_pointers(void) {
    char *argv[] = {"zero", NULL};
    attempt_full("path NULL", NULL, argv, no_env);
    attempt_full("path unmapped", (char *)8, argv, no_env);
    attempt_full("path runs into unmapped page", memset(edge_buffer(4), 'a', 4), argv, no_env);
    attempt("path ends at the last mapped byte", edge_string("./show"));
    attempt_full("argv unmapped", "show", (char **)8, no_env);
    attempt_full("envp unmapped", "show", argv, (char **)8);
    char *bad[] = {"zero", (char *)8, NULL};
    attempt_full("argv[1] unmapped", "show", bad, no_env);
    attempt_full("envp[1] unmapped", "show", argv, bad);
    attempt_full("bad argv and missing file", "missing", bad, no_env);
    char **edge = (char **)edge_buffer(2 * sizeof *edge);
    edge[0] = edge_string("zero");
    edge[1] = NULL;
    attempt_full("argv ends at the last mapped byte", "show", edge, no_env);
    edge[1] = "no end";
    attempt_full("argv without NULL before the unmapped page", "show", edge, no_env);
    attempt_full("argv NULL", "show", NULL, no_env);
    attempt_full("envp NULL", "show", argv, NULL);
}

/* Copies the good program with one thing about it changed. */
static void broken(const char *label, const char *name, size_t keep, size_t offset, const void *patch, size_t patch_size) {
    size_t size;
    char *data = get_file("show", &size);
    if (patch_size)
        memcpy(data + offset, patch, patch_size);
    put_file(name, data, keep && keep < size ? keep : size, 0755);
    free(data);
    attempt(label, name);
}

static void bad_formats(void) {
    put_text("empty", "", 0755);
    attempt("empty file", "empty");
    put_text("garbage", "this is no program\n", 0755);
    attempt("text without #!", "garbage");
    put_file("zeros", (char[4096]){0}, 4096, 0755);
    attempt("zeros", "zeros");
    uint16_t half;
    broken("ELF for aarch64", "e_machine", 0, offsetof(Elf64_Ehdr, e_machine), (half = EM_AARCH64, &half), 2);
    broken("ELF relocatable", "e_rel", 0, offsetof(Elf64_Ehdr, e_type), (half = ET_REL, &half), 2);
    broken("ELF core", "e_core", 0, offsetof(Elf64_Ehdr, e_type), (half = ET_CORE, &half), 2);
    broken("ELF no program headers", "e_phnum", 0, offsetof(Elf64_Ehdr, e_phnum), (half = 0, &half), 2);
    broken("ELF odd phentsize", "e_phentsize", 0, offsetof(Elf64_Ehdr, e_phentsize), (half = 55, &half), 2);
    broken("ELF bad magic", "e_magic", 0, 0, "\177ELG", 4);
    broken("ELF of 40 bytes", "cut40", 40, 0, NULL, 0);
    broken("ELF of 64 bytes", "cut64", 64, 0, NULL, 0);
    broken("ELF cut in its program headers", "cut200", 200, 0, NULL, 0);
    Elf64_Off far = 1 << 30;
    broken("ELF headers past the end", "e_phoff", 0, offsetof(Elf64_Ehdr, e_phoff), &far, sizeof far);
}

static void interpreters(void) {
    char *program = guest("exec_show_relinterp");
    attempt("interpreter missing", guest("exec_show_nointerp"));
    attempt("relative interpreter missing", program);
    put_text("ld", "not an ELF file\n", 0755);
    attempt("interpreter is text", program);
    put_text("ld", "", 0755);
    attempt("interpreter is empty", program);
    copy_file("show", "ld", 0644);
    attempt("interpreter not executable", program);
    MUST(unlink("ld"));
    MUST(mkdir("ld", 0755));
    attempt("interpreter is a directory", program);
    MUST(rmdir("ld"));
    MUST(symlink("ld", "ld"));
    attempt("interpreter is a loop", program);
    MUST(unlink("ld"));
    MUST(symlink("/lib64/ld-linux-x86-64.so.2", "ld"));
    attempt("interpreter found in the current directory", program);
    MUST(unlink("ld"));
}

static void too_big(void) {
    static char *many[400000];
    size_t size = 128 * 1024;
    char *text = malloc(size + 1);
    memset(text, 'x', size);
    text[size] = 0;
    char *one[] = {"zero", text, NULL};
    attempt_full("one argument of 128 KiB", "show", one, no_env);
    text[size - 1] = 0;
    attempt_full("one argument of 128 KiB with its NUL", "show", one, no_env);
    attempt_full("one variable of 128 KiB with its NUL", "show", (char *[]){"zero", NULL}, one);
    text[size / 2] = 0;
    many[0] = "zero";
    for (int i = 1; i < 20; i++)
        many[i] = text;
    attempt_full("19 arguments of 64 KiB", "show", many, no_env);
    for (int i = 20; i < 40; i++)
        many[i] = text;
    attempt_full("39 arguments of 64 KiB", "show", many, no_env);
    attempt_full("39 arguments of 64 KiB and a missing file", "missing", many, no_env);
    for (int i = 1; i < 399999; i++)
        many[i] = "x";
    attempt_full("399,998 arguments", "show", many, no_env);
    struct rlimit small = {1 << 20, RLIM_INFINITY};
    getrlimit(RLIMIT_STACK, &small);
    small.rlim_cur = 1 << 20;
    setrlimit(RLIMIT_STACK, &small);
    for (int i = 1; i < 5; i++)
        many[i] = text;
    many[5] = NULL;
    attempt_full("256 KiB of arguments under a stack limit of 1 MiB", "show", many, no_env);
    many[3] = NULL;
    attempt_full("128 KiB of arguments under a stack limit of 1 MiB", "show", many, no_env);
}

int main(int argc, char **argv) {
    if (argc < 2)
        return 2;
    guests = argv[1];
    copy_file(guest("exec_show"), "show", 0755);
    plain_mistakes();
    bad_pointers();
    bad_formats();
    interpreters();
    too_big();
    return 0;
}
