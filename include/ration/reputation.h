/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of clients under rules with `escalate` or `earn`: who is banned, who has been
 * refused, who has earned more than the limit as written.
 *
 *     struct ration_reputation_query banned = {.banned_only = true};
 *     ration_reputation_each(r, &banned, print_client, NULL, NULL);
 *
 * Records have a bounded memory of their own, a sixteenth of the table's, at least 1 MiB. With a
 * state file it is FILE.reputation beside it, and outlives the process. It is made when rules first
 * need it: before that, there are no records. When there is no room, the record that is worth least
 * goes: counts of refusals first, bans of high levels last; each loss is counted.
 */
#ifndef RATION_REPUTATION_H
#define RATION_REPUTATION_H

#include <ration/ration.h>
#include <ration/request.h>

/* One client under one rule, as long as `see` runs. */
struct ration_reputation {
    const char *rule; /* its name, not terminated; "": the rules have none any more */
    size_t rule_len;
    uint64_t hash;   /* of the client under that rule */
    const char *key; /* its values, cut to fit, not terminated; NULL: not known any more */
    size_t key_len;
    bool banned;             /* by `escalate`, */
    int64_t ends_after_ns;   /* for so long from now */
    uint32_t level;          /* of the last ban, until it is forgotten; 0: none */
    uint32_t refusals;       /* counted since the window began */
    uint32_t earned_percent; /* of the limit as written; 100: nothing was earned */
};

/* Zeros: all records. */
struct ration_reputation_query {
    const char *rule; /* NULL: of all rules */
    size_t rule_len;
    bool banned_only;
    uint64_t cursor; /* 0: from the beginning; else what a call has set `next` to */
    size_t limit;    /* how many at most; 0: all */
};

/* Calls `see` for each record that is still of use, in no particular order, until it returns
 * non-zero. It must not load rules. *next (may be NULL) is where to go on; 0: there are no more.
 * A client whose record stays meets `see` once. The names of the last 4096 clients that were
 * banned here are known. 0, RATION_ENOMEM, or RATION_ENORULE: there is no rule of this name. */
RATION_API int ration_reputation_each(struct ration *r, const struct ration_reputation_query *query,
                                      int (*see)(void *arg, const struct ration_reputation *one),
                                      void *arg, uint64_t *next);

/* Forgets bans, levels and counts of refusals of the client under the rule with this name, or under
 * all rules that apply to the request (`rule` NULL). What it has earned stays. *count (may be NULL)
 * is how many records there were. Codes as of ration_state_reset; RATION_EUNMATCHED also if `rule`
 * is NULL and no rule with `escalate` applies. */
RATION_API int ration_reputation_lift(struct ration *r, const struct ration_request *request,
                                      const char *rule, size_t rule_len, int64_t now_ns,
                                      uint32_t *count);
/* The same for one client by the hash that ration_reputation_each tells. RATION_ENORULE: there is
 * no rule of this name; RATION_EGONE: there is no such record. */
RATION_API int ration_reputation_lift_hash(struct ration *r, const char *rule, size_t rule_len,
                                           uint64_t hash, int64_t now_ns);

struct ration_reputation_totals {
    uint64_t records;  /* of use now, */
    uint64_t banned;   /* of which are bans in force; */
    uint64_t capacity; /* and how many there may be */
    /* Counted by this process: */
    uint64_t bans;    /* begun */
    uint64_t refused; /* requests of banned clients */
    uint64_t lifted;
    uint64_t steps;      /* earned */
    uint64_t lost_steps; /* and lost by refusals: how often */
    /* Counted by all that share the memory: records that were lost for want of room. */
    uint64_t lost_counts, lost_bans, lost_earned;
};
/* Looks at all records. */
RATION_API void ration_reputation_totals(struct ration *r, struct ration_reputation_totals *totals);

#endif
