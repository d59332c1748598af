/* native/init: the plan husk writes for husk-init, and the reports husk-init sends back. husk/walls/init_plan.py
 * mirrors these layouts; PLAN_MAGIC changes with them. */
#ifndef HUSK_PLAN_H
#define HUSK_PLAN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CONTROL_FD = 3,
    PLAN_FD = 4,
    LOADER_FD = 5,
    WORKDIR_FD = 6,
    TERMINAL_FD = 7,
    START_FD = 8,
    JOIN_FD = 9,
    JOINED = 5, /* descriptors from JOIN_FD on */
    PERSON_FD = JOIN_FD + JOINED,
};
#define PLAN_MAGIC 0x344e4c50u /* "PLN4" */
#define PLAN_SWITCH_USER 1u
#define PLAN_TERMINAL 2u /* TERMINAL_FD is the box's terminal */
#define PLAN_WAIT 4u     /* husk names the program later, on START_FD */
#define PLAN_JOIN 8u     /* JOIN_FD and the following are the user, mount, net, ipc and uts namespaces to join */
#define PLAN_PERSON 16u  /* PERSON_FD is the person's terminal; husk will change its modes */
#define PLAN_LEADS 64u   /* the guest leads a session, as husk does */
#define PLAN_DIRECT 128u /* the guest may look up names of /usr itself */
#define PLAN_PRIVATE_NETWORK 32u /* the network namespace is all of the box's network, so it gets an eth0 */

struct init_plan {
    uint32_t magic, flags;
    uint64_t namespaces;                       /* CLONE_NEW* to unshare */
    uint32_t uid, gid;                         /* as seen inside */
    uint64_t landlock_fs, landlock_net, landlock_scoped, landlock_loader;
    uint32_t landlock_abi;                     /* 0: no Landlock */
    uint32_t filter_count, filter_offset;      /* struct sock_filter[] */
    uint32_t program_offset;                   /* guest path of the first program */
    uint32_t argv_count, argv_offset, envp_count, envp_offset; /* NUL-terminated strings in a row */
    uint32_t limit_count;
    uint32_t reserved;
    uint64_t mark;                             /* hard limit on file locks of every process */
    struct { uint64_t resource, soft, hard; } limits[16];
};

/* What husk says on CONTROL_FD: the ids are mapped; the box is to end. Without SAID_END a hang-up means that husk
 * died. */
enum { SAID_GO = 'g', SAID_END = 'e' };

enum init_report_kind {
    REPORT_FAILED = 1, REPORT_MAP_IDS, REPORT_LISTENER, REPORT_EXEC_FAILED, REPORT_ENDED, REPORT_STOPPED,
    REPORT_DIAGNOSIS, REPORT_REAPER, REPORT_STATE, REPORT_GUEST, REPORT_NAMES,
};
enum init_step {
    STEP_PLAN = 1, STEP_NAMESPACES, STEP_MOUNT, STEP_LOOPBACK, STEP_USER, STEP_HOSTNAME, STEP_REAPER,
    STEP_CAPABILITIES, STEP_NO_NEW_PRIVS, STEP_LANDLOCK, STEP_FILTER, STEP_LISTENER, STEP_LIMITS, STEP_WORKDIR,
    STEP_TERMINAL, STEP_START, STEP_MARK, STEP_NEW_CODE,
};

struct init_report {
    uint32_t kind;
    int32_t a, b; /* FAILED: step, errno; EXEC_FAILED: errno; ENDED: wait status; STOPPED: signal */
    uint32_t reserved;
    int64_t user_us, system_us, max_rss_kb;
    int64_t when_ns; /* ENDED: CLOCK_MONOTONIC; husk may be stopped, and read the report much later */
};

/* Sent on START_FD with five descriptors: for 0, 1, 2, the working directory, and a file with `size` bytes of text,
 * which are program, argv and envp. */
struct init_start {
    uint64_t size;
    uint32_t argv_count, envp_count;
};

/* plan.c: husk is trusted, but its plan is checked all the same, so that a mistake in husk cannot cause one here. */
bool init_plan_is_sound(const struct init_plan *plan, size_t size);
/* Splits `count` NUL-terminated strings in a row into an array for execve. The caller owns the array; the strings stay
 * where they are. `text` then points behind the last. NULL: there are fewer before `end`, or no memory. */
char **init_split_strings(const char **text, const char *end, uint32_t count);
#endif
