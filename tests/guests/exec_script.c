/* build: exec_script
 *
 * The "#!" line: how Linux splits it, how far chains go, what is shown of the script's name.
 * argv[1] is the directory of the guest programs. The interpreter is a copy of exec_show in the current directory.
 */
#include "step.h"

static char *no_env[] = {NULL};
static char *names_env[] = {"SHOW=n", NULL};

static void run_with(const char *label, const char *path, char **argv, char **envp) {
    pid_t pid = fork();
    if (pid == 0) {
        syscall(SYS_execve, path, argv, envp);
        say("%s = -1 %s", label, errname(errno));
        _exit(0);
    }
    say("%s: %s", label, status_text(wait_for(pid)));
}

static void run(const char *label, const char *path) {
    char *argv[] = {"zero", "one", "two words", "", NULL};
    run_with(label, path, argv, no_env);
}

static void script(const char *label, const char *text) {
    put_text("script", text, 0755);
    run(label, "./script");
}

static void first_lines(const char *show) {
    char text[5000], cwd[PATH_MAX], absolute[PATH_MAX + 10];
    MUST(getcwd(cwd, sizeof cwd) ? 0 : -1);
    snprintf(absolute, sizeof absolute, "%s/show", cwd);
    script("relative interpreter", "#!./show\n");
    script("bare interpreter name", "#!show\n");
    snprintf(text, sizeof text, "#!%s\n", absolute);
    script("absolute interpreter", text);
    snprintf(text, sizeof text, "#!%s -x\n", show);
    script("one argument", text);
    script("several words are one argument", "#!./show one two\tthree\n");
    script("blanks around everything", "#! \t ./show \t one two \t \n");
    script("trailing blanks only", "#!./show   \n");
    script("carriage return", "#!./show\r\n");
    script("argument with carriage return", "#!./show arg\r\n");
    script("no newline", "#!./show");
    script("no newline, argument", "#!./show arg");
    script("more lines", "#!./show first\n#!./show second\n");
    script("nothing after #!", "#!\n");
    script("only #!", "#!");
    script("only blanks", "#!   \n");
    script("blank before #!", " #!./show\n");
    script("only #", "#\n");
    script("missing interpreter", "#!./missing\n");
    script("interpreter is a directory", "#!.\n");
    script("interpreter below a file", "#!./show/x\n");
    script("empty script below", "#!./empty\n");
    put_text("plain", "no program\n", 0755);
    script("interpreter is text", "#!./plain\n");
    put_text("nox", "#!./show\n", 0644);
    script("interpreter without x bit", "#!./nox\n");
    put_file("script", "#!./show\0hidden\n", 16, 0755);
    run("NUL after the name", "./script");
    put_file("script", "#!./show a\0b\n", 13, 0755);
    run("NUL in the argument", "./script");
    script("itself", "#!./script\n");
    MUST(symlink("show", "show_link"));
    script("symlink as interpreter", "#!./show_link\n");
}

/* Linux looks at 256 bytes. A longer line loses its tail; a name that does not end within them is refused. */
static void long_lines(void) {
    char text[1000];
    const int lengths[] = {253, 254, 255, 256, 257, 300};
    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char label[50];
        memset(text, 'a', sizeof text);
        memcpy(text, "#!./show ", 9);
        text[lengths[i]] = '\n';
        text[lengths[i] + 1] = 0;
        snprintf(label, sizeof label, "argument up to byte %d", lengths[i]);
        script(label, text);
        memset(text, '/', lengths[i]);
        memcpy(text, "#!./", 4);
        memcpy(text + lengths[i] - 4, "show\n", 6);
        snprintf(label, sizeof label, "name up to byte %d", lengths[i]);
        script(label, text);
        text[lengths[i]] = 0;
        snprintf(label, sizeof label, "name up to byte %d without newline", lengths[i]);
        script(label, text);
    }
    memset(text, ' ', 300);
    memcpy(text, "#!", 2);
    strcpy(text + 300, "./show\n");
    script("300 blanks before the name", text);
}

static void chains(void) {
    put_text("s1", "#!./show a1\n", 0755);
    for (int i = 2; i <= 7; i++) {
        char name[10], text[40], label[40];
        snprintf(name, sizeof name, "s%d", i);
        snprintf(text, sizeof text, "#!./s%d a%d\n", i - 1, i);
        put_text(name, text, 0755);
        snprintf(label, sizeof label, "chain of %d", i);
        snprintf(text, sizeof text, "./s%d", i);
        run(label, text);
    }
    put_text("broken1", "#!./missing\n", 0755);
    put_text("broken2", "#!./broken1\n", 0755);
    run("chain that ends nowhere", "./broken2");
}

static void shown_names(void) {
    char *argv[] = {"zero", "one", NULL};
    char *none[] = {NULL};
    put_text("a_script_with_a_long_name", "#!./show arg\n", 0755);
    run_with("names of a script", "./a_script_with_a_long_name", argv, names_env);
    run_with("names of a chain", "./s3", argv, names_env);
    run_with("script, argc 0", "./s1", none, names_env);
    run_with("script, argv NULL", "./s1", NULL, names_env);
    MUST(symlink("s1", "script_link"));
    run_with("symlink to a script", "./script_link", argv, names_env);
    MUST(mkdir("sub", 0755));
    put_text("sub/here", "#!./show\n", 0755);
    run("interpreter is relative to the current directory", "sub/here");
    MUST(chdir("sub"));
    run("and not to the script", "./here");
    MUST(chdir(".."));
}

int main(int argc, char **argv) {
    if (argc < 2)
        return 2;
    char show[PATH_MAX];
    snprintf(show, sizeof show, "%s/exec_show", argv[1]);
    copy_file(show, "show", 0755);
    put_text("empty", "", 0755);
    first_lines(show);
    long_lines();
    chains();
    shown_names();
    return 0;
}
