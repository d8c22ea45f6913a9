/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libration: decide whether a request may go ahead.
 *
 * Every function is thread-safe, none blocks (ration_open may wait two seconds
 * for another process that is creating the same state file), none prints.
 * Several processes may open one state file and share its counters exactly.
 *
 *     struct ration_named limits[] = {{.name = "api"}};
 *     ration_limit_parse("100 per minute", 14, &limits[0].limit, &error);
 *     ration_open(&(struct ration_options){.limits = limits, .limit_count = 1}, &r, &error);
 *
 *     struct ration_charge c = {.limit = 0, .key = ip, .key_len = strlen(ip), .cost = 1};
 *     if (ration_take(r, &c, RATION_NOW) == 0 && !c.verdict.allowed)
 *         reply_429(c.verdict.retry_after_ns);
 */
#ifndef RATION_RATION_H
#define RATION_RATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ration/error.h>
#include <ration/limit.h>

/* Pass as `now_ns` to have the clock read; otherwise a time from ration_now(). */
#define RATION_NOW INT64_MIN
/* A wait that never ends: the cost exceeds what the limit can ever admit. */
#define RATION_NEVER INT64_MAX
/* The most limits one ration_check() may name. */
#define RATION_CHARGES_MAX 64
/* Names of rules, where they are copied, are cut to fit. */
#define RATION_NAME_SIZE 64
#define RATION_OWN_ALGORITHMS_MAX 16

struct ration;
struct ration_store;  /* store.h */
struct ration_waiter; /* wait.h */

enum ration_flags {
    RATION_SHADOW = 1, /* evaluate and count, never refuse */
    RATION_KEEP = 2,   /* at capacity refuse new keys rather than forget live ones */
    RATION_EVICT_LAST =
        4, /* at capacity forget keys of other limits first, then what has spent least */
};

/* Limits that share a name are variants of one limit (tiers, say): a client
 * that moves between them takes along what it has spent. */
struct ration_named {
    const char *name;
    struct ration_limit limit;
    unsigned flags;
};

struct ration_options {
    const char *state_path;            /* NULL: anonymous memory, gone at close */
    uint64_t memory_bytes;             /* everything; 0: as in the file, else 64 MiB */
    const struct ration_named *limits; /* copied; referred to by index */
    size_t limit_count;
    uint64_t usage_bytes; /* of the file of usage (usage.h), if rules need one; 0: 64 MiB */
    /* Not NULL: keeps the states of all limits (store.h). The struct is copied; what it points to
     * must outlive the limiter. Overrides, bans, pauses and usage stay in memory or the state file.
     * RATION_ESTORE: it failed already; RATION_EVERSION: another version wrote to it. */
    const struct ration_store *store;
    /* Algorithms of your own (algorithm.h), for rules to name. All are borrowed until close. */
    const struct ration_own_algorithm *const *own_algorithms;
    size_t own_algorithm_count; /* RATION_OWN_ALGORITHMS_MAX at most */
};

/* The answer for one limit. Waits are relative to the time of the call. */
struct ration_verdict {
    bool allowed;           /* for a shadow limit: what it would have said */
    uint64_t limit;         /* the most it admits at once: what `remaining` counts down from */
    uint64_t remaining;     /* units left after this call */
    int64_t retry_after_ns; /* 0 if allowed; until this cost would be; or RATION_NEVER */
    int64_t reset_after_ns; /* until nothing is spent any more */
    int64_t delay_ns;       /* leaky bucket: wait this long before going ahead */
};

/* One limit, one key, one cost; filled with the answer, and then also the
 * receipt that ration_give_back(), ration_commit() and ration_refund() take.
 * Zero-initialise it and set the first group. */
struct ration_charge {
    uint32_t limit; /* index into the limits given at open */
    bool drain;     /* if it does not fit, take what is left, and refuse: an exception to the
                       rule that a refusal changes nothing. For one limit at a time: ration_take,
                       ration_take_batch, and ration_check of one charge */
    bool paused;    /* out: a pause has refused it (pause.h) */
    const struct ration_limit
        *ad_hoc;     /* or a limit given with this call (then `limit` is unused) */
    const void *key; /* borrowed during the call; NULL: `hash` is set */
    size_t key_len;
    uint64_t cost; /* 0 looks without charging */
    uint64_t hash; /* in if key is NULL (from ration_hash), else out */

    struct ration_verdict verdict; /* out */
    int error;                     /* out: 0, or why this one could not be decided */
    int64_t at_ns;                 /* receipt: when, */
    int64_t mark;                  /* which window or log entry, */
    uint64_t taken;                /* and how much; 0 when nothing is charged. Of a drain that was
                                      refused: what was left */

    /* In, and mostly left 0. With a waiter (wait.h) a charge that is refused for the moment stands
     * in line, for max_wait_ns at most: RATION_EWAITS. Without one, max_wait_ns is the longest
     * delay of a leaky bucket that is not a refusal. 0: no such bound, and nobody waits;
     * less: no delay, and nobody waits. */
    struct ration_waiter *waiter;
    int64_t max_wait_ns;
};

/* The answer for several limits together. */
struct ration_decision {
    bool allowed;
    int decided_by; /* index of the charge: the longest wait if refused, else the one nearest
                       its limit; -1 if there was none */
    struct ration_verdict verdict; /* of that charge; delay_ns is the longest of all */
};

/* Opens or creates. On failure returns a code and explains in `error` (may be
 * NULL). On success `error->text` may hold a notice (a file that was set
 * aside), else it is empty. */
RATION_API int ration_open(const struct ration_options *options, struct ration **out,
                           struct ration_error *error);
RATION_API void ration_close(struct ration *r);

/* Nanoseconds on the shared time line of the table: never steps with the wall
 * clock, goes on across processes, restarts and suspend. */
RATION_API int64_t ration_now(const struct ration *r);
/* The same instant as Unix time, for X-RateLimit-Reset and the like. */
RATION_API int64_t ration_wall(const struct ration *r, int64_t now_ns);

/* Hashing a key once for many calls. Parts are delimited, so ("ab","c") and
 * ("a","bc") differ; one part equals ration_hash. `ad_hoc` as in the charge. */
struct ration_part {
    const void *data;
    size_t len;
};
RATION_API uint64_t ration_hash(const struct ration *r, uint32_t limit, const void *key,
                                size_t len);
RATION_API uint64_t ration_hash_parts(const struct ration *r, uint32_t limit,
                                      const struct ration_part *parts, size_t count);
RATION_API uint64_t ration_hash_ad_hoc(const struct ration *r, const struct ration_limit *limit,
                                       const void *key, size_t len);

/* Charge one limit. Returns 0 with c->verdict filled, or a code. */
RATION_API int ration_take(struct ration *r, struct ration_charge *c, int64_t now_ns);
/* Charge each of n independently; faster than n calls because memory is
 * fetched for all of them at once. Errors are in c[i].error. */
RATION_API void ration_take_batch(struct ration *r, struct ration_charge *c, size_t n,
                                  int64_t now_ns);
/* Charge all of n or none (n <= RATION_CHARGES_MAX). RATION_ESEVERAL: one of several asks to be
 * drained. */
RATION_API int ration_check(struct ration *r, struct ration_charge *c, size_t n, int64_t now_ns,
                            struct ration_decision *decision);
/* What ration_take would say, without charging: `remaining` is what is left
 * now, `retry_after_ns` the wait for this cost. */
RATION_API int ration_peek(struct ration *r, struct ration_charge *c, int64_t now_ns);
/* Age of the oldest charge still counted (log: exact entry; windows: start of
 * the oldest window counted; buckets: RATION_NEVER as they keep none);
 * RATION_NEVER if there is none. */
RATION_API int ration_oldest(struct ration *r, struct ration_charge *c, int64_t now_ns,
                             int64_t *age_ns);

/* Returns what the receipt in `c` charged, at most once, and never more than
 * is safe: a window that has ended gives nothing back; a bucket gives back
 * what has not been refilled behind it; a queue only its last place. */
RATION_API int ration_give_back(struct ration *r, struct ration_charge *c, int64_t now_ns);

/* Gives c->cost units back without a receipt, at most what is spent, so that the
 * limit never admits more than it says: what is owed first, then the youngest charges that
 * count; of a fixed window only those of the present one. Not counted as a decision.
 * c->verdict is what ration_peek says at no cost then; the rest of `c` is as it was. A
 * receipt or a reservation of the same units can give them back once more: offer this only to
 * callers that may call ration_reset. RATION_EPLACES: a concurrency limit; release its places. */
RATION_API int ration_credit(struct ration *r, struct ration_charge *c, int64_t now_ns);

/* Charge now, settle later. `hold` names the reservation. Until `timeout_ns`
 * has passed it can be settled once, by any thread or process that has the
 * charges: commit keeps used[i] of each and gives back the rest; refund gives
 * back all. After that the whole charge stands and both answer RATION_EGONE. */
RATION_API int ration_reserve(struct ration *r, struct ration_charge *c, size_t n,
                              int64_t timeout_ns, int64_t now_ns, uint64_t *hold,
                              struct ration_decision *decision);
RATION_API int ration_commit(struct ration *r, uint64_t hold, struct ration_charge *c, size_t n,
                             const uint64_t *used, int64_t now_ns);
RATION_API int ration_refund(struct ration *r, uint64_t hold, struct ration_charge *c, size_t n,
                             int64_t now_ns);

/* Concurrency limits. A place is held until released or until its lease ends
 * (lease_ns 0: the limit's own); `lease` identifies it. ration_take on a
 * concurrency limit is an error: use these. */
RATION_API int ration_acquire(struct ration *r, struct ration_charge *c, int64_t lease_ns,
                              int64_t now_ns, uint64_t *lease);
RATION_API int ration_renew(struct ration *r, struct ration_charge *c, uint64_t lease,
                            int64_t lease_ns, int64_t now_ns);
RATION_API int ration_release(struct ration *r, struct ration_charge *c, uint64_t lease,
                              int64_t now_ns);

/* Forget one key of one limit (and of its variants): the client starts from zero. What was reserved
 * before can still be settled, but gives nothing back. */
RATION_API int ration_reset(struct ration *r, struct ration_charge *c, int64_t now_ns);
/* Free the slots of idle keys. Never needed for correctness (idle slots are
 * reused where they are met); for an exact count of live keys. Returns how
 * many were freed. */
RATION_API uint64_t ration_clean(struct ration *r, int64_t now_ns);

struct ration_totals {
    uint64_t allowed, refused, shadowed; /* decisions of this process; shadowed: admitted although
                                            a shadow limit would have refused */
    uint64_t errors;
    /* Of those allowed under rules (rules.h): with a delay; above the limit as
     * written; and with less than a fifth of it left. */
    uint64_t delayed, soft, near;
    double block_rate;  /* refused / (allowed + refused); 0 before the first */
    uint64_t charged;   /* outcomes of requests that were charged when they were known */
    uint64_t unmatched; /* of all limits together: allowed since no rule applied */
    /* Units, of a rule only: of requests that were admitted, late debits included, and of
     * those that were refused. */
    uint64_t hits_allowed, hits_refused;
    uint64_t uncollected;    /* units of late debits beyond one capacity below empty */
    uint64_t shadow_delayed; /* of those allowed under rules: a shadow limit would have delayed */
    /* Bans by rules with `escalate` (reputation.h): begun; requests refused by one, which are also
     * counted as refused; and lifted. */
    uint64_t bans, ban_refusals, lifted;
    /* Of those allowed, and of those refused: after they had stood in line (wait.h). */
    uint64_t waited, wait_timeouts;
};
/* Of all limits together, or of one. Counted per process. */
RATION_API void ration_totals(const struct ration *r, struct ration_totals *totals);
RATION_API int ration_limit_totals(const struct ration *r, uint32_t limit,
                                   struct ration_totals *totals);

struct ration_memory {
    uint64_t bytes;     /* size of the mapping: the cap */
    uint64_t slots;     /* places for keys; not all can be filled */
    uint64_t live;      /* keys with something spent at now_ns (a full scan) */
    uint64_t evictions; /* live keys forgotten for want of room, ever */
    uint64_t block_bytes, block_bytes_used;
    uint64_t capacity; /* live keys that fit, of whichever limit in force, before any is evicted */
};
RATION_API void ration_memory(const struct ration *r, int64_t now_ns, struct ration_memory *memory);

/* The keys refused most often, as seen by this process: a bounded sketch, so
 * counts of rare keys are approximate (never below a true count by more than
 * what sampling under load missed). Names are cut at 63 bytes. */
struct ration_top {
    uint64_t refused;
    uint32_t limit; /* UINT32_MAX for a limit given per call, and of a rule */
    uint32_t name_len;
    char name[64];               /* raw bytes of the key: escape before printing */
    char rule[RATION_NAME_SIZE]; /* whose limit refused; empty if no rule's */
    uint64_t hash;               /* of the key; under a rule, as reputation.h has it */
};
RATION_API size_t ration_top(const struct ration *r, struct ration_top *out, size_t max);

/* Calls `see` for every live key until it returns non-zero. */
struct ration_entry {
    uint64_t hash;
    int64_t idle_after_ns; /* until the key is as if never seen */
    enum ration_algorithm algorithm;
};
RATION_API void ration_each(const struct ration *r, int64_t now_ns,
                            int (*see)(void *arg, const struct ration_entry *entry), void *arg);

RATION_API const char *ration_version(void);

#endif
