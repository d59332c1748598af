/* build: exec_path
 *
 * execvp's search, and what posix_spawn reports. glibc does the searching; husk must give the errnos it steers by.
 */
#include "step.h"
#include <spawn.h>

extern char **environ;
static char show[PATH_MAX];

static void search(const char *path, const char *name) {
    say("--- PATH=%s %s", path ? path : "(unset)", name);
    pid_t pid = fork();
    if (pid == 0) {
        if (path)
            setenv("PATH", path, 1);
        else
            unsetenv("PATH");
        setenv("SHOW", "n", 1);
        char *argv[] = {(char *)name, "one", NULL};
        execvp(name, argv);
        say("execvp = -1 %s", errname(errno));
        _exit(0);
    }
    say("%s", status_text(wait_for(pid)));
}

static void spawn(const char *label, const char *path, int search_path) {
    pid_t pid = 0;
    char *argv[] = {(char *)path, NULL};
    char *envp[] = {"SHOW=d", "PATH=./first:./second", NULL};
    int error = (search_path ? posix_spawnp : posix_spawn)(&pid, path, NULL, NULL, argv, envp);
    if (error)
        say("%s: %s", label, errname(error));
    else
        say("%s: %s", label, status_text(wait_for(pid)));
}

static void spawn_actions(void) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 9, "opened", O_WRONLY | O_CREAT | O_EXCL, 0640);
    posix_spawn_file_actions_adddup2(&actions, 9, 11);
    posix_spawn_file_actions_addclose(&actions, 0);
    posix_spawn_file_actions_addchdir_np(&actions, "first");
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    posix_spawnattr_setsigmask(&attributes, &set);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    pid_t pid;
    char *envp[] = {"SHOW=dsw", NULL};
    int error = posix_spawn(&pid, show, &actions, &attributes, (char *[]){"show", NULL}, envp);
    say("posix_spawn with actions: %s", error ? errname(error) : status_text(wait_for(pid)));
    posix_spawn_file_actions_addopen(&actions, 9, "missing/file", O_RDONLY, 0);
    error = posix_spawn(&pid, show, &actions, &attributes, (char *[]){"show", NULL}, envp);
    say("posix_spawn with a failing action: %s", error ? errname(error) : status_text(wait_for(pid)));
}

int main(int argc, char **argv) {
    if (argc < 2)
        return 2;
    snprintf(show, sizeof show, "%s/exec_show", argv[1]);
    MUST(mkdir("first", 0755));
    MUST(mkdir("second", 0755));
    MUST(mkdir("closed", 0755));
    copy_file(show, "second/both", 0755);
    copy_file(show, "first/both", 0755);
    copy_file(show, "second/later", 0755);
    copy_file(show, "first/denied", 0644);
    copy_file(show, "second/denied", 0755);
    copy_file(show, "first/only_denied", 0644);
    MUST(mkdir("first/directory", 0755));
    put_text("first/text", "echo from the shell: $0 $1\n", 0755);
    copy_file(show, "closed/later", 0755);
    MUST(chmod("closed", 0));
    search("first:second", "both");
    search("first:second", "later");
    search("first:second", "denied");
    search("first:second", "only_denied");
    search("first:second", "directory");
    search("first:second", "missing");
    search("first:second", "text");
    search("closed:second", "later");
    search("missing:closed", "later");
    search("first/both:second", "later");
    search("second/", "later");
    search("", "later");
    search(":second", "later");
    search(NULL, "true");
    search("first", "./second/later");
    spawn("posix_spawn", "./second/later", 0);
    spawn("posix_spawn missing", "./missing", 0);
    spawn("posix_spawn denied", "first/denied", 0);
    spawn("posix_spawn text", "first/text", 0);
    spawn("posix_spawn directory", "first", 0);
    spawn("posix_spawnp missing", "missing", 1);
    setenv("PATH", "first:second", 1);
    spawn("posix_spawnp", "later", 1);
    spawn("posix_spawnp denied first", "denied", 1);
    spawn_actions();
    MUST(chmod("closed", 0755));
    return 0;
}
