/* Shared by the inotify programs: one line per step, with what the queue holds after it. */
#ifndef GUEST_INOTIFY_H
#define GUEST_INOTIFY_H

#include "step.h"

#include <poll.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>

static const struct {
    uint32_t bit;
    const char *name;
} BITS[] = {
    {IN_ACCESS, "ACCESS"},           {IN_MODIFY, "MODIFY"},         {IN_ATTRIB, "ATTRIB"},
    {IN_CLOSE_WRITE, "CLOSE_WRITE"}, {IN_CLOSE_NOWRITE, "CLOSE_NOWRITE"}, {IN_OPEN, "OPEN"},
    {IN_MOVED_FROM, "MOVED_FROM"},   {IN_MOVED_TO, "MOVED_TO"},     {IN_CREATE, "CREATE"},
    {IN_DELETE, "DELETE"},           {IN_DELETE_SELF, "DELETE_SELF"}, {IN_MOVE_SELF, "MOVE_SELF"},
    {IN_UNMOUNT, "UNMOUNT"},         {IN_Q_OVERFLOW, "Q_OVERFLOW"}, {IN_IGNORED, "IGNORED"},
    {IN_ISDIR, "ISDIR"},
};

static void add_event(char *line, size_t room, const struct inotify_event *event) {
    static uint32_t cookies[64];
    static int known;
    char text[512] = "", cookie[32] = "";
    for (size_t i = 0; i < sizeof BITS / sizeof *BITS; i++)
        if (event->mask & BITS[i].bit) {
            if (*text)
                strcat(text, "|");
            strcat(text, BITS[i].name);
        }
    if (event->cookie) {
        int i = 0;
        while (i < known && cookies[i] != event->cookie)
            i++;
        if (i == known && known < 64)
            cookies[known++] = event->cookie;
        snprintf(cookie, sizeof cookie, " cookie %d", i + 1);
    }
    size_t used = strlen(line);
    snprintf(line + used, room - used, "; %d %s%s%s%s", event->wd, text, cookie, event->len ? " " : "",
             event->len ? event->name : "");
}

/* Everything the queue holds right now: events are there when the call that made them has returned. */
static UNUSED void events(int queue, const char *step, long result) {
    static char buffer[1 << 16] __attribute__((aligned(8)));
    char line[7000];
    int number = errno;
    ssize_t n;
    snprintf(line, sizeof line, "%s = %s%ld", step, result < 0 ? errname(number) : "", result);
    while ((n = read(queue, buffer, sizeof buffer)) > 0)
        for (char *at = buffer; at < buffer + n;) {
            struct inotify_event *event = (struct inotify_event *)at;
            add_event(line, sizeof line, event);
            at += sizeof *event + event->len;
        }
    say("%s", line);
    if (n < 0 && errno != EAGAIN)
        say("read: %s", errname(errno));
}

#define DO(expression) (errno = 0, events(queue, #expression, (long)(expression)))

#endif
