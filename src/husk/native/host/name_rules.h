/* native/host: the rules of a mount (name_rules.c), as its guard (guard.c) uses them. Once read, they never change. */
#ifndef HUSK_NAME_RULES_H
#define HUSK_NAME_RULES_H

#include "core.h"

#include <limits.h>

/* In the order of their strength. HOST_ALLOW also stands for no rule at all. */
enum host_verb { HOST_ALLOW, HOST_PROTECT, HOST_DENY, HOST_HIDE };

/* What lies on the way to something that a rule closes or protects; bits of host_verdict.way. */
enum {
    HOST_WAY = 1,     /* the last component is a part of such a rule */
    HOST_OWN_WAY = 2, /* likewise, of a rule that excepts what the guest itself made */
    HOST_PASSING = 4, /* a rule with ** in its middle awaits something below */
    HOST_OWN_PASSING = 8, /* likewise, of a rule that excepts what the guest itself made */
};

struct host_verdict {
    enum host_verb verb;
    int rule;     /* the rule that decides; -1: none */
    bool files;   /* that rule excepts directories, */
    bool own;     /* and what the guest itself made */
    bool itself;  /* the rule matched the last component, not one above it */
    size_t end;   /* where the component that it matched ends */
    unsigned way; /* of the last component */
    int way_rule; /* one of the rules that say so */
};

struct host_rules;                                     /* owned by whoever has read it, until host_rules_free */
struct host_rules *host_rules_read(PyObject *list);    /* NULL: an exception is set */
void host_rules_free(struct host_rules *rules);
unsigned host_rules_count(const struct host_rules *rules);
/* `own_end`: what the components up to there name is the guest's own. */
void host_rules_judge(const struct host_rules *rules, const char *relative, size_t own_end, struct host_verdict *found);
enum host_verb host_rule_verb(const struct host_rules *rules, unsigned rule);
/* Both texts are borrowed. */
const char *host_rule_reason(const struct host_rules *rules, unsigned rule, const char **allow);
/* Those of `names`, a list of bytes, that are hidden in `directory`; a new list, or NULL: an exception is set. */
PyObject *host_rules_hidden(const struct host_rules *rules, const char *directory, PyObject *names);

#endif
