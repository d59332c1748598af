/* Names for the fuzzer: a grammar of a box's tree, and names that exist. */
#ifndef FUZZ_NAMES_H
#define FUZZ_NAMES_H

#include "memory.h"

#include <stdio.h>

static const char *const ROOTS[] = {
    "", "/", "/tmp/", "/workspace/", "/given/", "/copied/", "/shared/", "/proc/self/", "/proc/", "/dev/", "/usr/bin/",
    "/etc/", "/home/user/", "/sys/", "/proc/self/fd/", "/proc/thread-self/", "/proc/self/task/", "//", "./", "../",
    "/dev/fd/", "/dev/pts/", "/proc/1/", "/dev/shm/", "/run/", "/proc/self/cwd/", "/proc/self/root/", "/proc/sys/",
};
static const char *const PARTS[] = {
    "a", "b", "file", "dir", "link", "loop", "fifo", "socket", "deep/x/y", "dangling", "..", ".", "", "fd", "exe", "cwd",
    "root", "maps", "mem", "status", "self", "null", "tty", "ptmx", "0", "1", "12", "15", "30", "true", "sh", "passwd",
    "new", "new/", "file/", "dir/..", "link/..", "dir/../..", "environ", "cmdline", "stat", "comm", "net/tcp", "mounts",
    "script", "bad-script", "program", "\xff\xfe", "a b", "\n", "(deleted)", "fixed", "kernel", "urandom", "-1",
};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static size_t make_name(Random *r, char *out, size_t bound) {
    size_t length = 0;
    if (one_in(r, 40)) { /* long: a part, or all of it */
        static const size_t LENGTHS[] = {254, 255, 256, 4094, 4095, 4096, 4097, 5000};
        length = LENGTHS[below(r, COUNT(LENGTHS))];
        if (length >= bound)
            length = bound - 1;
        memset(out, 'x', length);
        if (one_in(r, 2))
            for (size_t i = 0; i < length; i += 1 + below(r, 300))
                out[i] = '/';
        out[length] = 0;
        return length + 1;
    }
    length = snprintf(out, bound, "%s", ROOTS[below(r, COUNT(ROOTS))]);
    for (unsigned i = below(r, 4); i < 4 && length + 20 < bound; i++)
        length += snprintf(out + length, bound - length, "%s%s", PARTS[below(r, COUNT(PARTS))], i < 3 ? "/" : "");
    if (one_in(r, 60))
        out[below(r, length + 1)] = next(r);
    return length + 1;
}

/* Names that exist in each of the trees, and some that a call may make and a later call find. */
static const char *const TREES[] = {"/tmp/", "/copied/", "/shared/", "/workspace/", "", "/given/"};
static const char *const THERE[] = {"file", "dir", "link", "script", "deep/x", "fifo", "b", "program", "dir/in", "."};
static const char *const ELSEWHERE[] = {
    "/", "/etc/passwd", "/usr/bin/true", "/usr/bin/env", "/proc/self/status", "/proc/self/exe", "/proc/self/cwd", "/proc/self/fd",
    "/proc/self/fd/12", "/proc/self/fd/20", "/proc/self/fd/24", "/dev/null", "/dev/zero", "/dev/tty", "/dev/pts", "/dev/ptmx",
    "/proc/self/task", "/proc/mounts", "/proc/sys/kernel/hostname", "/usr/lib", "/tmp/loop", "/tmp/dangling", "/dev/shm/x",
    "/proc/self/maps", "/home/user", "/proc/self/oom_score_adj", "/proc/self/ns", "/proc/self/fdinfo/12", "/sys",
};

static size_t likely_name(Random *r, char *out, size_t bound) {
    if (one_in(r, 6))
        return 1 + snprintf(out, bound, "%s", ELSEWHERE[below(r, COUNT(ELSEWHERE))]);
    /* Two names of one call are mostly in one tree: rename fails across trees. */
    const char *tree = TREES[one_in(r, 6) ? below(r, COUNT(TREES)) : r->tree];
    if (one_in(r, 2))
        return 1 + snprintf(out, bound, "%s%s", tree, THERE[below(r, COUNT(THERE))]);
    return 1 + snprintf(out, bound, "%s%sn%d", tree, one_in(r, 4) ? "dir/" : "", (int)below(r, 8));
}

static uint64_t name(Random *r) {
    if (absurd(r, 8))
        return bad_address(r);
    if (absurd(r, 4))
        return FLIP + below(r, 2) * 64; /* changes while husk reads it */
    char text[5100];
    size_t size = r->polite || one_in(r, 3) ? likely_name(r, text, sizeof text) : make_name(r, text, sizeof text);
    char *place = room(r, size);
    memcpy(place, text, size);
    return (uint64_t)place;
}

#endif
