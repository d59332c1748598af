/* inotify under load. `flood`: a queue that is never read. `instances COUNT`: queues that come and go, in three phases;
 * each prints a line and waits for a byte. `print DIR`: tells what happens in DIR until a name "end" comes.
 *
 * build: inotify_load */
#include "inotify.h"

static int flood(void) {
    int queue = MUST(inotify_init1(IN_NONBLOCK));
    long most, count = 0, overflows = 0, last_overflow = -1;
    char *text = get_file("/proc/sys/fs/inotify/max_queued_events", NULL);
    most = atol(text);
    put_text("a", "", 0600);
    put_text("b", "", 0600);
    MUST(inotify_add_watch(queue, ".", IN_MODIFY | IN_CREATE | IN_DELETE));
    int a = MUST(open("a", O_WRONLY)), b = MUST(open("b", O_WRONLY));
    for (long i = 0; i < most; i++) /* events alike, one behind the other, become one */
        if (pwrite(a, "x", 1, 0) != 1 || pwrite(b, "x", 1, 0) != 1)
            return 1;
    for (int i = 0; i < 100; i++) {
        put_text("lost", "", 0600);
        MUST(unlink("lost"));
    }
    static char buffer[1 << 16] __attribute__((aligned(8)));
    for (ssize_t n; (n = read(queue, buffer, sizeof buffer)) > 0;)
        for (char *at = buffer; at < buffer + n; count++) {
            struct inotify_event *event = (struct inotify_event *)at;
            if (event->mask == IN_Q_OVERFLOW && event->wd == -1 && !event->len)
                overflows++, last_overflow = count;
            at += sizeof *event + event->len;
        }
    say("as many as fit: %d; overflows: %ld; it comes last: %d", count == most + 1, overflows, last_overflow == count - 1);
    DO(mkdir("after", 0700));
    return 0;
}

static int instances(long count) {
    char byte;
    for (int phase = 0; phase < 3; phase++) {
        for (long i = 0; i < count; i++) {
            int queue = inotify_init1(IN_CLOEXEC);
            if (queue < 0 || inotify_add_watch(queue, "watched", IN_ALL_EVENTS) != 1 ||
                inotify_add_watch(queue, "watched/file", IN_ALL_EVENTS) != 2) {
                say("queue %ld: %s", i, errname(errno));
                return 1;
            }
            if (i % 2)
                inotify_rm_watch(queue, 1);
            close(queue);
        }
        say("phase");
        if (read(0, &byte, 1) != 1)
            return 1;
    }
    return 0;
}

static int print(const char *directory) {
    static char buffer[1 << 16] __attribute__((aligned(8)));
    int queue = MUST(inotify_init1(0));
    MUST(inotify_add_watch(queue, directory, IN_ALL_EVENTS & ~(IN_OPEN | IN_ACCESS | IN_CLOSE_NOWRITE)));
    say("ready");
    for (;;) {
        ssize_t n = MUST(read(queue, buffer, sizeof buffer));
        for (char *at = buffer; at < buffer + n;) {
            struct inotify_event *event = (struct inotify_event *)at;
            char line[512] = "";
            if (!strcmp(event->name, "end"))
                return 0;
            add_event(line, sizeof line, event);
            say("%s", line + 2);
            at += sizeof *event + event->len;
        }
    }
}

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "flood"))
        return flood();
    if (argc == 3 && !strcmp(argv[1], "instances")) {
        MUST(mkdir("watched", 0700));
        put_text("watched/file", "text", 0600);
        return instances(atol(argv[2]));
    }
    return argc == 3 && !strcmp(argv[1], "print") ? print(argv[2]) : 2;
}
