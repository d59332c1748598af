/* The structures that the fuzzer passes to calls: socket addresses, messages, random words. */
#ifndef FUZZ_VALUES_H
#define FUZZ_VALUES_H

#include "descriptors.h"
#include "names.h"
#include "sets.h"

#include <linux/capability.h>
#include <poll.h>

static pid_t supervisor, pet;

static void socket_address(Random *r, char *out, size_t *size) {
    memset(out, 0, 128);
    switch (below(r, r->polite ? 5 : 7)) {
    case 0: case 1: {
        struct sockaddr_un *unix_name = (void *)out;
        unix_name->sun_family = AF_UNIX;
        char text[200];
        size_t length = r->polite ? likely_name(r, text, sizeof text) : make_name(r, text, sizeof text);
        if (one_in(r, 4))
            text[0] = 0; /* abstract */
        else if (one_in(r, 6))
            length = 1 + sprintf(text, "/tmp/listens");
        if (length > sizeof unix_name->sun_path)
            length = sizeof unix_name->sun_path;
        memcpy(unix_name->sun_path, text, length);
        *size = 2 + length;
        break;
    }
    case 2: case 3: {
        struct sockaddr_in *v4 = (void *)out;
        static const uint32_t HOSTS[] = {0, 0x7f000001, 0xffffffff, 0xa9fea9fe, 0x08080808, 0x7f123456, 0xe0000001};
        v4->sin_family = AF_INET;
        v4->sin_port = htons(below(r, 3) ? 40000 + below(r, 20) : next(r));
        v4->sin_addr.s_addr = htonl(HOSTS[below(r, COUNT(HOSTS))]);
        *size = sizeof *v4;
        break;
    }
    case 4: {
        struct sockaddr_in6 *v6 = (void *)out;
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(40000 + below(r, 20));
        inet_pton(AF_INET6, one_in(r, 2) ? "::ffff:127.0.0.1" : one_in(r, 2) ? "::1" : "::", &v6->sin6_addr);
        *size = sizeof *v6;
        break;
    }
    default:
        for (int i = 0; i < 128; i += 8) {
            uint64_t word = odd_number(r);
            memcpy(out + i, &word, 8);
        }
        if (one_in(r, 2)) {
            uint16_t family = below(r, 46);
            memcpy(out, &family, 2);
        }
        *size = below(r, 129);
    }
    if (absurd(r, 8))
        *size = odd_number(r);
}

/* Words that may be counts, flags, descriptors or pointers: an iovec, a msghdr, clone_args, open_how, a rlimit … */
static uint64_t soup(Random *r) {
    if (absurd(r, 12))
        return bad_address(r);
    if (absurd(r, 12))
        return FLIP + 8 * below(r, 16);
    size_t size = 8 * (1 + below(r, 32));
    char *place = room(r, size);
    for (size_t i = 0; i < size; i += 8) {
        uint64_t word;
        switch (below(r, 8)) {
        case 0: word = (uint64_t)heap_of(r) + 8 * below(r, 1024); break;
        case 1: word = descriptor(r); break;
        case 2: word = bad_address(r); break;
        case 3: word = below(r, 300); break;
        case 4: word = 1UL << below(r, 32); break;
        case 5: word = 0; break;
        default: word = odd_number(r);
        }
        memcpy(place + i, &word, 8);
    }
    return (uint64_t)place;
}

/* A msghdr that looks valid: it has a name, parts and a control message. */
static uint64_t message(Random *r) {
    if (absurd(r, 8))
        return soup(r);
    char *base = heap_of(r) + PAGE * below(r, HEAP_PAGES - 1);
    struct msghdr *header = (void *)base;
    struct iovec *parts = (void *)(base + 256);
    size_t name_size;
    memset(header, 0, 128);
    socket_address(r, base + 512, &name_size);
    header->msg_name = one_in(r, r->polite ? 2 : 3) ? NULL : base + 512;
    header->msg_namelen = name_size;
    for (int i = 0; i < 4; i++)
        parts[i] = (struct iovec){absurd(r, 8) ? (void *)bad_address(r) : base + 1024, absurd(r, 8) ? odd_number(r) : below(r, 64)};
    header->msg_iov = absurd(r, 16) ? (void *)bad_address(r) : parts;
    header->msg_iovlen = absurd(r, 10) ? odd_number(r) : below(r, 5);
    struct cmsghdr *control = (void *)(base + 2048);
    int *payload = (void *)CMSG_DATA(control);
    unsigned count = absurd(r, 10) ? below(r, 260) : below(r, 4);
    for (unsigned i = 0; i < count; i++)
        payload[i] = descriptor(r);
    control->cmsg_level = absurd(r, 6) ? (int)odd_number(r) : SOL_SOCKET;
    control->cmsg_type = absurd(r, 6) ? (int)odd_number(r) : one_in(r, 4) ? SCM_CREDENTIALS : SCM_RIGHTS;
    control->cmsg_len = absurd(r, 8) ? odd_number(r) : CMSG_LEN(count * 4);
    if (one_in(r, 2)) {
        header->msg_control = control;
        header->msg_controllen = absurd(r, 8) ? odd_number(r) : CMSG_SPACE(count * 4);
    }
    return (uint64_t)base;
}

static uint64_t words(Random *r, unsigned count, const uint64_t *among, uint64_t otherwise_below) {
    if (absurd(r, 8))
        return soup(r);
    uint64_t *place = (void *)room(r, count * 8);
    for (unsigned i = 0; i < count; i++)
        place[i] = among && one_in(r, 3) ? among[1 + below(r, among[0])] : below(r, otherwise_below);
    return (uint64_t)place;
}

static uint64_t parts(Random *r) {
    if (absurd(r, 8))
        return soup(r);
    struct iovec *place = (void *)room(r, 4 * sizeof *place);
    for (int i = 0; i < 4; i++)
        place[i] = (struct iovec){room(r, 512), below(r, 512)};
    return (uint64_t)place;
}

static uint64_t polled(Random *r) {
    struct pollfd *place = (void *)room(r, 4 * sizeof *place);
    for (int i = 0; i < 4; i++)
        place[i] = (struct pollfd){descriptor(r), next(r), 0};
    return (uint64_t)place;
}

static uint64_t attribute(Random *r) {
    static const char *const ATTRIBUTES[] = {"user.a", "user.a", "user.b", "user.", "trusted.overlay.opaque", "security.capability",
                                             "system.posix_acl_access", "security.selinux", "user.husk", "nothing"};
    char *place = room(r, 64);
    strcpy(place, ATTRIBUTES[below(r, COUNT(ATTRIBUTES))]);
    return absurd(r, 6) ? name(r) : (uint64_t)place;
}

static uint64_t attribute_arguments(Random *r) {
    uint64_t *place = (void *)room(r, 32);
    place[0] = (uint64_t)room(r, 200);
    place[1] = absurd(r, 3) ? odd_number(r) : below(r, 100);
    place[2] = place[3] = 0;
    return (uint64_t)place;
}

static uint64_t queue_name(Random *r) {
    char *place = room(r, 4);
    snprintf(place, 4, "q%d", (int)below(r, 4));
    return absurd(r, 4) ? name(r) : (uint64_t)place;
}

static uint64_t capabilities(Random *r) {
    struct __user_cap_header_struct *place = (void *)room(r, 8);
    *place = (struct __user_cap_header_struct){_LINUX_CAPABILITY_VERSION_3, 0};
    return (uint64_t)place;
}

static uint64_t zeros(Random *r) {
    return (uint64_t)memset(room(r, 256), 0, 256);
}

static uint64_t strings(Random *r) {
    if (absurd(r, 5))
        return bad_address(r);
    uint64_t *vector = (void *)(heap_of(r) + PAGE * below(r, HEAP_PAGES - 1));
    unsigned count = absurd(r, 8) ? below(r, 300) : below(r, 5);
    for (unsigned i = 0; i < count; i++)
        vector[i] = absurd(r, 12) ? bad_address(r) : name(r);
    vector[count] = 0;
    return (uint64_t)vector;
}

static uint64_t open_how(Random *r) {
    uint64_t *how = (void *)room(r, 32);
    how[0] = r->polite ? OPEN[1 + below(r, OPEN[0])] : absurd(r, 4) ? odd_number(r) : next(r) & 0x6ffff;
    how[1] = how[0] & (O_CREAT | 020000000) ? below(r, 01000) : absurd(r, 2) ? below(r, 010000) : 0;
    how[2] = absurd(r, 8) ? odd_number(r) : RESOLVE[1 + below(r, RESOLVE[0])];
    how[3] = absurd(r, 4) ? odd_number(r) : 0;
    return (uint64_t)how;
}

/* Another process: never the fuzzer's supervisor, nor all processes, which would end the program itself. */
static uint64_t process(Random *r) {
    pid_t pid;
    switch (r->polite ? 4 + below(r, 3) : below(r, 7)) {
    case 4: pid = getpid(); break;
    case 5: pid = pet; break;
    case 1: pid = 1; break;
    case 2: pid = below(r, 64); break;
    case 3: pid = -(int)below(r, 1000) - 2; break;
    case 0: pid = odd_number(r); break;
    default: pid = gettid();
    }
    return pid == supervisor || pid == -supervisor || pid == 0 || pid == -1 ? 99999 : (uint64_t)pid;
}

#endif
