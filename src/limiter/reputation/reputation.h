/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of clients under rules with `escalate` or `earn` (include/ration/reputation.h): the
 * records of the limiter, and their part in a decision.
 *
 * A record is found by the hash of the client under the rule, without a salt: limits of a rule,
 * tiers and overrides share it. The area is opened when rules first need it and stays open: a
 * decision under a rule that has `escalate` finds it open.
 */
#ifndef RN_LIMITER_REPUTATION_REPUTATION_H
#define RN_LIMITER_REPUTATION_REPUTATION_H

#include <ration/reputation.h>

#include "core/escalate.h"
#include "limiter/stats.h"
#include "rules/ruleset.h"
#include "store/records.h"

struct rn_applied;
struct rn_book;
struct rn_gathered;

struct rn_reputation {
    struct rn_records records; /* all zeros until rules need them */
    uint64_t steps,
        lost_steps; /* what clients earned, and lost by refusals: how often; atomically */
    /* Accessed atomically: an event that a reader waits for (rn_reputation_recent), and since
     * when. */
    uint64_t awaited;
    int64_t awaited_since_ns;
};

/* Opens the records if one of the rules needs them and they are not open yet. As rn_records_open.
 * Under the lock of the shelf. */
int rn_reputation_open(struct ration *r, const struct rn_ruleset *ruleset,
                       struct ration_error *error);

/* The name of a rule as its records and events have it: the same on all nodes that share limits. */
uint64_t rn_reputation_rule(const struct ration *r, struct rn_slice name);

/* The rule of a book that has records and this name; NULL: there is none. */
const struct rn_rule *rn_reputation_find_rule(const struct ration *r, const struct rn_book *book,
                                              uint64_t rule);

/* --- deciding ---------------------------------------------------------------------------- */

static inline void rn_reputation_prefetch(const struct rn_reputation *reputation, uint64_t hash)
{
    rn_records_prefetch(&reputation->records, hash);
}

/* A ban in force. */
struct rn_reputation_ban {
    int64_t rest_ns; /* 0: there is none */
    uint32_t level;
};

/* Of the client with this hash under a rule that has `escalate`. */
static inline struct rn_reputation_ban rn_reputation_ban(const struct rn_reputation *reputation,
                                                         const struct rn_escalate_plan *plan,
                                                         uint64_t hash, int64_t now_ns)
{
    uint64_t word = rn_records_find(&reputation->records, rn_records_key(hash, RN_RECORD_OFFENCES));
    struct rn_reputation_ban ban = {0};

    if (__builtin_expect(word != 0, 0)) {
        ban.rest_ns = rn_escalate_rest_ns(plan, word, now_ns);
        ban.level = rn_record_level(word);
    }
    return ban;
}

/* A refusal that counts, under a rule that has records. */
struct rn_reputation_refusal {
    const struct rn_applied *applied;
    uint64_t rule; /* rn_reputation_rule */
    uint64_t hash;
    int64_t now_ns;
};
/* Enters it in the records. A ban that begins by it is counted in the row of the rule, too. */
void rn_reputation_refused(struct ration *r, const struct rn_book *book,
                           const struct rn_reputation_refusal *refusal);

/* Counts a request of the client with this hash that was refused by a ban. */
void rn_reputation_count_ban(struct ration *r, const struct rn_book *book,
                             const struct rn_applied *applied, uint64_t hash, int64_t now_ns);

/* decide.c: for a rule with `escalate` that is being gathered; sets the ban, if it is the longest
 * so far. */
void rn_reputation_find_ban(struct rn_gathered *g, const struct rn_applied *applied, uint64_t hash);
/* For a rule that has refused, by its number: rn_reputation_refused, unless the refusal does not
 * count. */
void rn_reputation_count_refusal(struct rn_gathered *g, uint32_t rule);
/* For a rule with `earn` that has admitted, by its number: it helps the client to earn. */
void rn_reputation_count_admission(struct rn_gathered *g, uint32_t rule);

/* --- for explain and /v1/state ------------------------------------------------------------- */

/* What is known of the client with this hash under a rule of a pinned book. False: nothing; `out`
 * is filled in any case. `key` stays NULL. */
bool rn_reputation_look(struct ration *r, const struct rn_rule *rule, uint64_t hash, int64_t now_ns,
                        struct ration_reputation *out);

/* --- for other nodes, and for the log -------------------------------------------------------- */

/* A ban that began, or was lifted, by a decision or call of a process that shares the records. */
struct rn_reputation_event {
    uint64_t sequence;  /* from 1 on */
    uint64_t rule;      /* rn_reputation_rule */
    uint64_t hash;      /* as in a listing */
    uint32_t level;     /* 0: lifted */
    uint32_t name_len;  /* 0: not known */
    int64_t age_ns;     /* since it happened */
    int64_t ends_in_ns; /* of a ban; 0 or less: it is over */
    char name[RN_EVENT_NAME_BYTES];
};

/* The events after *sequence, the oldest first, and moves *sequence behind them. 0: all that are
 * still known; UINT64_MAX: none, only moves it to the end. Returns how many, `most` at most. An
 * event whose writer was killed half-way is left out, after a second. */
size_t rn_reputation_recent(struct ration *r, uint64_t *sequence, struct rn_reputation_event *out,
                            size_t most);

/* Puts a ban of another node in force: the higher level and the later end count, at most a whole
 * ban by the rule's plan. Level 0: forgets ban, level and counts. Not an event here, and not
 * counted. A rule that is not known, or has no `escalate`, is passed over. False: there was no room
 * for it. */
bool rn_reputation_apply(struct ration *r, uint64_t rule, uint64_t hash, uint32_t level,
                         int64_t ends_in_ns);

#endif
