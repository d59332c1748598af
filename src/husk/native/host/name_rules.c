/* native: the rules of a mount: which names below its root are hidden, denied, protected, or allowed again.
 *
 * A rule is a list of parts, each matched against one component of a path; the part ** stands for any number of them.
 * Several parts can be awaited at once, so a rule's state is a set of bits: bit n says that part n comes next. A rule
 * that has matched the component at hand decides; of several, the one with the highest number. Python orders them.
 *
 * Names are compared without regard to case. A directory may fold case (ext4, f2fs), and then `.SSH` opens `.ssh`; so
 * may names with other characters that fold to ASCII, or that folding ignores. Doing so everywhere costs nothing that
 * anybody needs, and asking each directory would.
 *
 * Nothing here opens anything: guard.c asks, and acts. */
#include "host/name_rules.h"

#include "host/host.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_RULES = 1024, MOST_PARTS = 30 };

struct part {
    char *text; /* folded; owned by the rule */
    uint16_t size;
    unsigned char first; /* the byte it begins with; 0: any */
    bool plain;          /* no wildcard in it */
};

struct rule {
    enum host_verb verb;
    bool own;               /* what the guest itself made, in a directory that it made, is excepted */
    bool files;             /* directories are excepted */
    unsigned count;         /* of parts */
    uint32_t start;         /* the state at the mount's root */
    uint32_t resting;       /* the state in which it awaits only what any directory may hold */
    uint32_t deep;          /* which parts are ** */
    unsigned char entry;    /* the byte that takes it out of the resting state; 0: any */
    struct part *parts;     /* owned */
    char *reason, *allow;   /* owned */
};

struct host_rules {
    unsigned count;
    bool first[256]; /* a name that begins so may be the first part of a rule that holds everywhere */
    struct rule rules[];
};

/* ---- names --------------------------------------------------------------------------------------------------- */

/* Code points that case folding ignores (Default_Ignorable_Code_Point in Unicode's DerivedCoreProperties.txt). */
static bool ignored(uint32_t c)
{
    static const uint32_t RANGES[][2] = {
        {0xad, 0xad},     {0x34f, 0x34f},   {0x61c, 0x61c},   {0x115f, 0x1160},   {0x17b4, 0x17b5},   {0x180b, 0x180f},
        {0x200b, 0x200f}, {0x202a, 0x202e}, {0x2060, 0x206f}, {0x3164, 0x3164},   {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},
        {0xffa0, 0xffa0}, {0xfff0, 0xfff8}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
    };
    for (size_t i = 0; i < sizeof RANGES / sizeof *RANGES; i++)
        if (c >= RANGES[i][0] && c <= RANGES[i][1])
            return true;
    return false;
}

/* What other characters fold to ASCII (CaseFolding.txt, status C and F); NULL: not this one. */
static const char *folded(uint32_t c)
{
    switch (c) {
    case 0xdf:
    case 0x1e9e:
        return "ss";
    case 0x17f:
        return "s";
    case 0x212a:
        return "k";
    case 0xfb00:
        return "ff";
    case 0xfb01:
        return "fi";
    case 0xfb02:
        return "fl";
    case 0xfb03:
        return "ffi";
    case 0xfb04:
        return "ffl";
    case 0xfb05:
    case 0xfb06:
        return "st";
    default:
        return NULL;
    }
}

/* The length of the UTF-8 character at `text`, and its code point; 1 for a byte that begins none. */
static size_t character(const unsigned char *text, size_t size, uint32_t *c)
{
    size_t length = *text < 0xc2 ? 1 : *text < 0xe0 ? 2 : *text < 0xf0 ? 3 : *text < 0xf5 ? 4 : 1;
    *c = length == 1 ? *text : *text & (0x7f >> length);
    if (length > size) {
        *c = *text;
        return 1;
    }
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80) {
            *c = *text;
            return 1;
        }
        *c = *c << 6 | (text[i] & 0x3f);
    }
    return length;
}

/* Fold `name` into `to`, which has room for `size` bytes: the result is never longer. Returns its size. */
static size_t fold(const char *name, size_t size, char *to)
{
    const unsigned char *from = (const unsigned char *)name;
    size_t made = 0;
    for (size_t at = 0; at < size;) {
        if (from[at] < 0x80) {
            to[made++] = from[at] >= 'A' && from[at] <= 'Z' ? (char)(from[at] | 0x20) : (char)from[at];
            at++;
            continue;
        }
        uint32_t c;
        size_t length = character(from + at, size - at, &c);
        const char *plain = length > 1 ? folded(c) : NULL;
        if (plain) {
            memcpy(to + made, plain, strlen(plain));
            made += strlen(plain);
        } else if (length == 1 || !ignored(c)) {
            memcpy(to + made, from + at, length);
            made += length;
        }
        at += length;
    }
    return made;
}

/* Is the byte in the class that begins at `at`, behind its bracket? `end` becomes the place behind the class. */
static bool in_class(const char *pattern, size_t size, size_t at, unsigned char byte, size_t *end)
{
    bool not = at < size && (pattern[at] == '!' || pattern[at] == '^'), found = false;
    at += not;
    for (size_t begin = at; at < size && (pattern[at] != ']' || at == begin); at++) {
        unsigned char low = (unsigned char)pattern[at], high = low;
        if (at + 2 < size && pattern[at + 1] == '-' && pattern[at + 2] != ']') {
            high = (unsigned char)pattern[at + 2];
            at += 2;
        }
        found |= byte >= low && byte <= high;
    }
    *end = at + 1;
    return found != not;
}

/* Does one character of the name match the pattern at `at`? Both move behind it. */
static bool one_matches(const char *pattern, size_t size, size_t *at, const char *name, size_t name_size, size_t *place)
{
    uint32_t c;
    if (*place >= name_size)
        return false;
    unsigned char byte = (unsigned char)name[*place];
    switch (pattern[*at]) {
    case '?':
        ++*at;
        *place += character((const unsigned char *)name + *place, name_size - *place, &c);
        return true;
    case '[': {
        size_t end;
        bool found = in_class(pattern, size, *at + 1, byte, &end);
        *at = end;
        ++*place;
        return found;
    }
    case '\\':
        *at += *at + 1 < size;
        break;
    default:
        break;
    }
    if ((unsigned char)pattern[*at] != byte)
        return false;
    ++*at;
    ++*place;
    return true;
}

static bool glob(const char *pattern, size_t size, const char *name, size_t name_size)
{
    size_t at = 0, place = 0, star = SIZE_MAX, star_place = 0;
    while (at < size || place < name_size) {
        if (at < size && pattern[at] == '*') {
            star = at++;
            star_place = place;
            continue;
        }
        if (at < size && one_matches(pattern, size, &at, name, name_size, &place))
            continue;
        if (star == SIZE_MAX || star_place >= name_size)
            return false;
        at = star + 1; /* the last star takes one byte more; earlier ones need not be tried again */
        place = ++star_place;
    }
    return true;
}

static bool part_matches(const struct part *part, const char *name, size_t size)
{
    if (part->first && (!size || part->first != (unsigned char)*name))
        return false;
    if (part->plain)
        return part->size == size && memcmp(part->text, name, size) == 0;
    return glob(part->text, part->size, name, size);
}

/* ---- states -------------------------------------------------------------------------------------------------- */

/* ** may stand for nothing, but not at the end: a rule for what is in a directory is none for the directory. */
static uint32_t with_empty(const struct rule *rule, uint32_t state)
{
    for (unsigned i = 0; i + 1 < rule->count; i++)
        if (state >> i & rule->deep >> i & 1)
            state |= 2u << i;
    return state;
}

/* The state after one component. `matched`: the bits that came from a part other than **. */
static uint32_t step(const struct rule *rule, uint32_t state, const char *name, size_t size, uint32_t *matched)
{
    uint32_t next = 0, real = 0;
    for (unsigned i = 0; i < rule->count; i++) {
        if (!(state >> i & 1))
            continue;
        if (rule->deep >> i & 1)
            next |= 1u << i | (i + 1 == rule->count ? 2u << i : 0);
        else if (part_matches(&rule->parts[i], name, size))
            real |= 2u << i;
    }
    *matched = real;
    return with_empty(rule, next | real);
}

/* All rules take one component, the `last` one or not, the guest's `own` or not. Returns the number of the rule that
 * decides here, or -1. `way`, `way_rule` and `quiet` are set. */
static int advance(const struct host_rules *rules, uint32_t *states, const char *name, size_t size, bool last, bool own,
                   struct host_verdict *found, bool *quiet)
{
    int decides = -1;
    found->way = 0;
    found->way_rule = -1;
    *quiet = true;
    for (unsigned i = 0; i < rules->count; i++) {
        const struct rule *rule = &rules->rules[i];
        uint32_t matched, end = 1u << rule->count;
        if (!states[i] || (states[i] == rule->resting && rule->entry && (!size || rule->entry != (unsigned char)*name)))
            continue;
        uint32_t next = step(rule, states[i], name, size, &matched);
        if (next & end && (last || !rule->files) && !(own && rule->own)) /* nothing is below a file */
            decides = (int)i;
        states[i] = next & ~end;
        *quiet &= states[i] == rule->resting;
        unsigned way = matched & ~end ? (rule->own ? HOST_OWN_WAY : HOST_WAY) : 0;
        if (states[i] & rule->deep & ~1u)
            way |= rule->own ? HOST_OWN_PASSING : HOST_PASSING;
        if (way && rule->verb != HOST_ALLOW) {
            found->way |= way;
            found->way_rule = (int)i;
        }
    }
    return decides;
}

static void begin(const struct host_rules *rules, uint32_t *states, bool *quiet)
{
    *quiet = true;
    for (unsigned i = 0; i < rules->count; i++) {
        states[i] = rules->rules[i].start;
        *quiet &= states[i] == rules->rules[i].resting;
    }
}

/* Take the components of `relative` until a rule closes one. The last one's `way` is left in `found`. The components up
 * to `own_end` are the guest's own. */
static void walk(const struct host_rules *rules, const char *relative, size_t own_end, uint32_t *states, bool *quiet,
                 struct host_verdict *found)
{
    char name[NAME_MAX + 1];
    *found = (struct host_verdict){.rule = -1, .way_rule = -1};
    begin(rules, states, quiet);
    for (const char *rest = relative; *rest;) {
        size_t size = strcspn(rest, "/");
        const char *here = rest;
        rest += size + (rest[size] == '/');
        if (!size || (size == 1 && *here == '.') || size > NAME_MAX)
            continue;
        found->way = 0;
        found->way_rule = -1;
        found->itself = false;
        if (*quiet && !rules->first[(unsigned char)*here])
            continue;
        size_t end = (size_t)(here - relative) + size;
        int decides = advance(rules, states, name, fold(here, size, name), !*rest, end <= own_end, found, quiet);
        if (decides < 0)
            continue;
        found->verb = rules->rules[decides].verb;
        found->rule = found->verb == HOST_ALLOW ? -1 : decides;
        found->files = rules->rules[decides].files;
        found->own = rules->rules[decides].own;
        found->itself = true;
        if (found->verb == HOST_ALLOW) { /* it may also go elsewhere, with what a rule has below it */
            found->way = 0;
            found->way_rule = -1;
        }
        found->end = end;
        if (found->verb == HOST_HIDE || found->verb == HOST_DENY) {
            found->itself = !*rest;
            return;
        }
    }
}

void host_rules_judge(const struct host_rules *rules, const char *relative, size_t own_end, struct host_verdict *found)
{
    uint32_t states[MOST_RULES];
    bool quiet;
    walk(rules, relative, own_end, states, &quiet, found);
    if (found->rule < 0)
        found->verb = HOST_ALLOW;
}

enum host_verb host_rule_verb(const struct host_rules *rules, unsigned rule)
{
    return rules->rules[rule].verb;
}

const char *host_rule_reason(const struct host_rules *rules, unsigned rule, const char **allow)
{
    *allow = rule < rules->count ? rules->rules[rule].allow : "";
    return rule < rules->count ? rules->rules[rule].reason : "a rule that is gone by now";
}

unsigned host_rules_count(const struct host_rules *rules)
{
    return rules->count;
}

/* ---- from Python, and for it --------------------------------------------------------------------------------- */

void host_rules_free(struct host_rules *rules)
{
    for (unsigned i = 0; rules && i < rules->count; i++) {
        struct rule *rule = &rules->rules[i];
        for (unsigned n = 0; rule->parts && n < rule->count; n++)
            free(rule->parts[n].text);
        free(rule->parts);
        free(rule->reason);
        free(rule->allow);
    }
    free(rules);
}

static bool read_part(PyObject *text, struct part *part)
{
    char *from;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(text, &from, &size) < 0)
        return false;
    if (!size || size > 4 * NAME_MAX) {
        PyErr_SetString(PyExc_ValueError, "a part of a rule is 1 to 1020 bytes");
        return false;
    }
    part->text = malloc(size);
    if (!part->text) {
        PyErr_NoMemory();
        return false;
    }
    part->size = (uint16_t)fold(from, size, part->text);
    part->plain = true;
    for (size_t i = 0; i < part->size; i++)
        if (strchr("*?[\\", part->text[i]))
            part->plain = false;
    part->first = part->size && !strchr("*?[\\", *part->text) ? (unsigned char)*part->text : 0;
    return true;
}

/* (verb, own, files, parts, start, reason, allow) */
static bool read_rule(PyObject *from, struct rule *rule)
{
    int verb, own, files;
    unsigned start;
    const char *reason, *allow;
    PyObject *parts;
    if (!PyArg_ParseTuple(from, "ippO!Iss", &verb, &own, &files, &PyTuple_Type, &parts, &start, &reason, &allow))
        return false;
    Py_ssize_t count = PyTuple_Size(parts);
    if (count < 1 || count > MOST_PARTS || verb < HOST_ALLOW || verb > HOST_HIDE) {
        PyErr_SetString(PyExc_ValueError, "no such rule");
        return false;
    }
    rule->verb = (enum host_verb)verb;
    rule->own = own;
    rule->files = files;
    rule->parts = calloc(count, sizeof *rule->parts);
    rule->reason = strdup(reason);
    rule->allow = strdup(allow);
    if (!rule->parts || !rule->reason || !rule->allow) {
        PyErr_NoMemory();
        return false;
    }
    rule->count = (unsigned)count;
    for (unsigned i = 0; i < rule->count; i++) {
        if (!read_part(PyTuple_GetItem(parts, i), &rule->parts[i]))
            return false;
        if (rule->parts[i].size == 2 && memcmp(rule->parts[i].text, "**", 2) == 0)
            rule->deep |= 1u << i;
    }
    rule->start = with_empty(rule, start);
    rule->resting = rule->deep & 1 ? with_empty(rule, 1) : 0;
    rule->entry = rule->resting == 3 ? rule->parts[1].first : 0;
    return true;
}

static void note_first(struct host_rules *rules, const struct rule *rule)
{
    for (unsigned i = 0; i < rule->count; i++) {
        if (!(rule->resting >> i & 1) || (rule->deep >> i & 1 && i + 1 < rule->count))
            continue;
        unsigned char first = rule->parts[i].first;
        for (unsigned c = 0; c < 256; c++) /* another character may fold to ASCII */
            rules->first[c] |= !first || c >= 0x80 || c == first || (c >= 'A' && c <= 'Z' && (c | 0x20) == first);
    }
}

struct host_rules *host_rules_read(PyObject *list)
{
    Py_ssize_t count = PyList_Size(list);
    if (count > MOST_RULES) {
        PyErr_SetString(PyExc_ValueError, "too many rules");
        return NULL;
    }
    struct host_rules *rules = calloc(1, sizeof *rules + count * sizeof(struct rule));
    if (!rules) {
        PyErr_NoMemory();
        return NULL;
    }
    for (; rules->count < count; rules->count++) {
        if (!read_rule(PyList_GetItem(list, rules->count), &rules->rules[rules->count])) {
            rules->count++; /* what it has so far is freed, too */
            host_rules_free(rules);
            return NULL;
        }
        note_first(rules, &rules->rules[rules->count]);
    }
    return rules;
}

PyObject *host_rules_hidden(const struct host_rules *rules, const char *directory, PyObject *names)
{
    uint32_t states[MOST_RULES], before[MOST_RULES];
    char name[NAME_MAX + 1];
    bool quiet, still;
    struct host_verdict found;
    walk(rules, directory, 0, before, &quiet, &found);
    PyObject *hidden = PyList_New(0);
    for (Py_ssize_t i = 0; hidden && i < PyList_Size(names); i++) {
        PyObject *each = PyList_GetItem(names, i);
        if (!PyBytes_Check(each) || !PyBytes_Size(each) || PyBytes_Size(each) > NAME_MAX)
            continue;
        const char *text = PyBytes_AsString(each);
        if (quiet && !rules->first[(unsigned char)*text])
            continue;
        memcpy(states, before, rules->count * sizeof *states);
        int rule = advance(rules, states, name, fold(text, PyBytes_Size(each), name), true, false,
                           &found, &still);
        if (rule >= 0 && rules->rules[rule].verb == HOST_HIDE && PyList_Append(hidden, each) < 0)
            Py_CLEAR(hidden);
    }
    return hidden;
}

/* name_matches(part, name): does one part of a rule match one component? */
PyObject *host_py_name_matches(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *text;
    const char *name;
    Py_ssize_t size;
    char to[NAME_MAX + 1];
    struct part part = {0};
    if (!PyArg_ParseTuple(args, "Sy#:name_matches", &text, &name, &size) || !read_part(text, &part))
        return NULL;
    bool matches = size <= NAME_MAX && part_matches(&part, to, fold(name, size, to));
    free(part.text);
    return PyBool_FromLong(matches);
}
