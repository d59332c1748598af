/* build: keys_rings -pthread
 *
 * Key rings: sessions that threads, children and programs inherit; keys that are added, found, read, changed, linked and
 * taken away; permissions; and which error comes first. Numbers of keys are random and not shown. The program joins a
 * session ring of its own first, so that nothing is left behind.
 */
#include "step.h"

#include <linux/keyctl.h>
#include <pthread.h>
#include <sys/syscall.h>

#define add_key(type, name, data, size, ring) syscall(SYS_add_key, type, name, data, (size_t)(size), ring)
#define request_key(type, name, callout, ring) syscall(SYS_request_key, type, name, callout, ring)
#define keyctl(option, ...) syscall(SYS_keyctl, option, __VA_ARGS__)
#define SESSION KEY_SPEC_SESSION_KEYRING
#define PROCESS KEY_SPEC_PROCESS_KEYRING
#define THREAD KEY_SPEC_THREAD_KEYRING

#define FOUND(expression) ((expression) > 0)

static char text[1000];

static void describe(const char *what, long key) {
    long size = keyctl(KEYCTL_DESCRIBE, key, text, sizeof text);
    if (size < 0) {
        say("%s: %s", what, errname(errno));
        return;
    }
    char type[50], name[100] = "";
    unsigned uid, gid, perm;
    sscanf(text, "%49[^;];%u;%u;%x;%99[^\n]", type, &uid, &gid, &perm, name);
    say("%s: %ld bytes more than its text, %s mine %d %08x %s", what, size - (long)strlen(text), type,
        uid == getuid() && gid == getgid(), perm, name);
}

static long ring_id(long special) { return keyctl(KEYCTL_GET_KEYRING_ID, special, 0); }

static long seen;

static void *ask(void *unused) {
    (void)unused;
    seen = ring_id(SESSION);
    say("a thread's own ring: %s", ring_id(THREAD) < 0 ? errname(errno) : "there");
    return NULL;
}

static void *leave(void *unused) {
    (void)unused;
    STEP(FOUND(keyctl(KEYCTL_JOIN_SESSION_KEYRING, "another of husk's tests")));
    seen = ring_id(SESSION);
    describe("the thread's session", SESSION);
    return NULL;
}

static void in_thread(void *(*work)(void *)) {
    pthread_t thread;
    MUST(pthread_create(&thread, NULL, work, NULL));
    MUST(pthread_join(thread, NULL));
}

static void sessions(char *program) {
    STEP(FOUND(keyctl(KEYCTL_JOIN_SESSION_KEYRING, NULL)));
    describe("joined", SESSION);
    long mine = MUST(ring_id(SESSION));
    in_thread(ask);
    say("a thread has my session %d", seen == mine);
    in_thread(leave);
    say("a thread may leave it %d, and I stay %d", seen != mine, ring_id(SESSION) == mine);
    pid_t child = fork();
    if (child == 0) {
        say("a child has it %d", ring_id(SESSION) == mine);
        STEP(FOUND(keyctl(KEYCTL_JOIN_SESSION_KEYRING, NULL)));
        say("and may leave it %d", ring_id(SESSION) != mine);
        char number[30];
        snprintf(number, sizeof number, "%ld", ring_id(SESSION));
        MUST(keyctl(KEYCTL_GET_KEYRING_ID, PROCESS, 1));
        execl(program, program, "program", number, NULL);
        _exit(1);
    }
    say("%s", status_text(wait_for(child)));
    say("I stay %d", ring_id(SESSION) == mine);
    STEP(keyctl(KEYCTL_JOIN_SESSION_KEYRING, ".dot"));
    STEP(keyctl(KEYCTL_JOIN_SESSION_KEYRING, (char *)8));
}

static void keys(void) {
    char data[20] = "";
    long key = STEP(FOUND(add_key("user", "a key", "content", 7, PROCESS))) ? request_key("user", "a key", NULL, 0) : 0;
    describe("a key", key);
    STEP(keyctl(KEYCTL_READ, key, NULL, 0));
    STEP(keyctl(KEYCTL_READ, key, data, 3));
    say("too little room: '%s'", data);
    STEP(keyctl(KEYCTL_READ, key, data, sizeof data));
    say("%s", data);
    STEP(add_key("user", "a key", "more", 4, PROCESS) == key);
    STEP(keyctl(KEYCTL_UPDATE, key, "changed", 7));
    STEP(keyctl(KEYCTL_READ, key, data, sizeof data));
    say("%s", data);
    long ring = MUST(add_key("keyring", "a ring", NULL, 0, PROCESS));
    describe("a ring", ring);
    STEP(keyctl(KEYCTL_LINK, key, ring));
    STEP(keyctl(KEYCTL_READ, ring, text, sizeof text));
    say("holds it %d", *(int *)text == key);
    STEP(keyctl(KEYCTL_SEARCH, ring, "user", "a key", 0) == key);
    STEP(keyctl(KEYCTL_SEARCH, ring, "user", "no key", 0));
    STEP(keyctl(KEYCTL_SEARCH, ring, "nothing", "a key", 0));
    STEP(keyctl(KEYCTL_SEARCH, key, "user", "a key", 0));
    STEP(keyctl(KEYCTL_LINK, ring, ring));
    STEP(keyctl(KEYCTL_LINK, PROCESS, ring));
    STEP(keyctl(KEYCTL_LINK, key, key));
    STEP(keyctl(KEYCTL_UNLINK, key, PROCESS));
    STEP(keyctl(KEYCTL_UNLINK, key, PROCESS));
    STEP(request_key("user", "a key", NULL, 0) == key);
    STEP(keyctl(KEYCTL_CLEAR, ring));
    STEP(keyctl(KEYCTL_READ, ring, text, sizeof text));
    STEP(keyctl(KEYCTL_CLEAR, PROCESS));
    long logon = MUST(add_key("logon", "for:husk", "secret", 6, PROCESS));
    describe("a logon key", logon);
    STEP(keyctl(KEYCTL_READ, logon, data, sizeof data));
    STEP(add_key("logon", "nothing", "secret", 6, PROCESS));
    STEP(keyctl(KEYCTL_UPDATE, PROCESS, "x", 1));
    key = MUST(add_key("user", "one", "x", 1, PROCESS));
    STEP(keyctl(KEYCTL_REVOKE, key));
    STEP(keyctl(KEYCTL_READ, key, data, sizeof data));
    STEP(request_key("user", "one", NULL, 0));
    STEP(FOUND(add_key("user", "one", "x", 1, PROCESS)));
    key = MUST(add_key("user", "short", "x", 1, PROCESS));
    STEP(keyctl(KEYCTL_SET_TIMEOUT, key, 1000));
    STEP(keyctl(KEYCTL_READ, key, data, sizeof data));
    key = MUST(add_key("user", "gone", "x", 1, PROCESS));
    STEP(keyctl(KEYCTL_INVALIDATE, key));
    STEP(request_key("user", "gone", NULL, 0));
}

static void permissions(void) {
    char data[20];
    long key = MUST(add_key("user", "hidden", "x", 1, PROCESS));
    STEP(keyctl(KEYCTL_SETPERM, key, 0x40000000));
    STEP(keyctl(KEYCTL_SETPERM, key, 0x3f000000));
    STEP(keyctl(KEYCTL_CHOWN, key, 0, -1));
    STEP(keyctl(KEYCTL_CHOWN, key, -1, -1));
    STEP(keyctl(KEYCTL_CHOWN, key, getuid(), getgid()));
    STEP(keyctl(KEYCTL_SETPERM, key, 0x29000000)); /* view, search, setattr for who possesses it */
    STEP(keyctl(KEYCTL_READ, key, data, sizeof data));
    STEP(keyctl(KEYCTL_UPDATE, key, "y", 1));
    STEP(keyctl(KEYCTL_LINK, key, SESSION));
    STEP(keyctl(KEYCTL_SETPERM, key, 0));
    describe("without permissions", key);
    STEP(keyctl(KEYCTL_READ, key, data, sizeof data));
    STEP(keyctl(KEYCTL_SETPERM, key, 0x3f3f3f3f));
    STEP(keyctl(KEYCTL_REVOKE, key));
    STEP(keyctl(KEYCTL_UNLINK, key, PROCESS));
}

static void errors(void) {
    STEP(add_key("user", "x", "x", 0, PROCESS));
    STEP(add_key("user", "x", NULL, 1, PROCESS));
    STEP(add_key("user", "x", "x", 32768, 77));
    STEP(add_key("user", "x", "x", 1 << 20, 77));
    STEP(add_key("", "x", "x", 1, PROCESS));
    STEP(add_key(".dot", "x", "x", 1, PROCESS));
    STEP(add_key("nothing", "x", "x", 1, PROCESS));
    STEP(add_key("a type whose name is much too long to be one", "x", "x", 1, PROCESS));
    STEP(add_key("user", "", "x", 1, PROCESS));
    STEP(add_key("user", NULL, "x", 1, PROCESS));
    STEP(add_key("keyring", ".dot", NULL, 0, PROCESS));
    STEP(add_key("keyring", "x", "x", 1, PROCESS));
    STEP(add_key((char *)8, "x", "x", 1, PROCESS));
    STEP(add_key("user", (char *)8, "x", 1, PROCESS));
    STEP(add_key("user", "x", "x", 1, 0));
    STEP(add_key("user", "x", "x", 1, KEY_SPEC_GROUP_KEYRING));
    STEP(add_key("user", "x", "x", 1, -99));
    STEP(request_key("user", "nothing", NULL, 0));
    STEP(request_key("nothing", "nothing", NULL, 0));
    STEP(request_key("user", NULL, NULL, 0));
    STEP(keyctl(KEYCTL_GET_KEYRING_ID, 0, 0));
    STEP(keyctl(KEYCTL_GET_KEYRING_ID, -99, 0));
    STEP(keyctl(KEYCTL_DESCRIBE, SESSION, (char *)8, 1000));
    STEP(keyctl(KEYCTL_DESCRIBE, SESSION, (char *)8, 3) > 3);
    STEP(keyctl(KEYCTL_ASSUME_AUTHORITY, 0));
    STEP(keyctl(KEYCTL_ASSUME_AUTHORITY, -1));
    STEP(keyctl(KEYCTL_INSTANTIATE, 77, NULL, 0, 0));
    STEP(keyctl(999, 0));
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "program")) {
        say("a program has it %d", ring_id(SESSION) == atol(argv[2]));
        say("its process's ring: %s", ring_id(PROCESS) < 0 ? errname(errno) : "there");
        return 0;
    }
    sessions(argv[0]);
    keys();
    permissions();
    errors();
    return 0;
}
