/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/reputation/reputation.h"

#include <string.h>

#include "limiter/decide/gather.h"
#include "limiter/limiter.h"
#include "limiter/reputation/earned.h"

/* How long a reader waits for an event that is being written. */
#define WRITING_NS INT64_C(1000000000)

static bool needs_records(const struct rn_ruleset *ruleset)
{
    for (uint32_t i = 0; i < ruleset->rule_count; i++)
        if (rn_rule_has_records(&ruleset->rules[i]))
            return true;
    return false;
}

int rn_reputation_open(struct ration *r, const struct rn_ruleset *ruleset,
                       struct ration_error *error)
{
    if (!needs_records(ruleset) || r->reputation.records.groups)
        return 0;
    return rn_records_open(&r->reputation.records, r->table, error);
}

/* Rules that need records find them open. */
int rn_reputation_check_file(struct ration *r, struct ration_error *error)
{
    struct rn_pin pin = rn_pin_take_counted(&r->shelf);
    bool open = pin.book && needs_records(pin.book->ruleset);
    int code = open ? rn_side_file_check(&r->reputation.records.file, error) : 0;

    rn_pin_drop(&pin);
    return code;
}

uint64_t rn_reputation_rule(const struct ration *r, struct rn_slice name)
{
    return rn_siphash(&r->secret, name.data, name.len);
}

/* The seeds of its limits have the hash of its name. */
const struct rn_rule *rn_reputation_find_rule(const struct ration *r, const struct rn_book *book,
                                              uint64_t rule)
{
    for (uint32_t i = 0; i < book->ruleset->rule_count; i++) {
        const struct rn_rule *one = &book->ruleset->rules[i];
        const struct rn_compiled *any =
            rn_rule_has_records(one) ? rn_book_any_limit(book, one) : NULL;

        if (any && rn_reputation_rule_of(r, any) == rule)
            return one;
    }
    return NULL;
}

/* --- offences ------------------------------------------------------------------------------- */

/* What a change of an offence record depends on. */
struct offending {
    const struct rn_escalate_plan *plan;
    int64_t now_ns;
};

static uint64_t follow_refusal(void *arg, uint64_t word)
{
    const struct offending *o = arg;

    return rn_escalate_refuse(o->plan, word, o->now_ns);
}

static void report_ban(struct ration *r, const struct rn_reputation_refusal *o, uint64_t word)
{
    const struct rn_escalate_plan *plan = o->applied->rule->escalate;
    struct rn_event event = {.rule = o->rule,
                             .hash = o->hash & ~RN_RECORD_KIND,
                             .at_ns = o->now_ns,
                             .ends_ns = o->now_ns + rn_escalate_rest_ns(plan, word, o->now_ns),
                             .level = rn_record_level(word)};

    event.name_len = (uint32_t)rn_gather_join_key(o->applied, event.name, sizeof event.name);
    rn_event_ring_add(r->reputation.records.ring, &event);
}

static void offend(struct ration *r, const struct rn_book *book,
                   const struct rn_reputation_refusal *o)
{
    const struct rn_rule *rule = o->applied->rule;
    struct offending offending = {rule->escalate, o->now_ns};
    struct rn_records_change change = {.key = rn_records_key(o->hash, RN_RECORD_OFFENCES),
                                       .rule = o->rule,
                                       .now_ns = o->now_ns,
                                       .follow = follow_refusal,
                                       .arg = &offending};

    if (!rn_records_change(&r->reputation.records, &change) || change.after == change.before ||
        rn_escalate_rest_ns(rule->escalate, change.after, o->now_ns) == 0)
        return;
    struct rn_stripe *s = rn_stats_stripe(&r->stats);

    rn_stats_add(s, &s->total.bans);
    rn_stats_add(s, &rn_stats_row(rn_stats_stripe(&book->stats), rule->index)->bans);
    report_ban(r, o, change.after);
}

RN_ASIDE void rn_reputation_refused(struct ration *r, const struct rn_book *book,
                                    const struct rn_reputation_refusal *refusal)
{
    const struct rn_rule *rule = refusal->applied->rule;

    if (rule->escalate)
        offend(r, book, refusal);
    if (rule->earn)
        rn_earned_refuse(
            r, &(struct rn_earned){rule->earn, refusal->rule, refusal->hash, refusal->now_ns});
}

/* --- other nodes ------------------------------------------------------------------------------ */

/* Whether a reader should wait for an event that cannot be read: it may be just being written. */
static bool is_awaited(struct rn_reputation *p, uint64_t number, int64_t now_ns)
{
    if (__atomic_load_n(&p->awaited, __ATOMIC_ACQUIRE) != number) {
        __atomic_store_n(&p->awaited_since_ns, now_ns, __ATOMIC_RELAXED);
        __atomic_store_n(&p->awaited, number, __ATOMIC_RELEASE);
    }
    return now_ns - __atomic_load_n(&p->awaited_since_ns, __ATOMIC_RELAXED) < WRITING_NS;
}

size_t rn_reputation_recent(struct ration *r, uint64_t *sequence, struct rn_reputation_event *out,
                            size_t most)
{
    const struct rn_event_ring *ring = r->reputation.records.ring;
    int64_t now_ns = rn_limiter_now(r, RATION_NOW);
    uint64_t last = ring ? rn_event_ring_last(ring) : 0;
    uint64_t first = ring ? rn_event_ring_first(ring) : 1;
    uint64_t at = *sequence >= last ? last + 1 : *sequence + 1 > first ? *sequence + 1 : first;
    struct rn_event e;
    size_t n = 0;

    for (; at <= last && n < most; at++) {
        if (!rn_event_ring_read(ring, at, &e)) {
            if (at < rn_event_ring_first(ring) || !is_awaited(&r->reputation, at, now_ns))
                continue;
            break;
        }
        out[n] = (struct rn_reputation_event){.sequence = at,
                                              .rule = e.rule,
                                              .hash = e.hash,
                                              .level = e.level,
                                              .name_len = e.name_len,
                                              .age_ns = now_ns - e.at_ns,
                                              .ends_in_ns = e.level ? e.ends_ns - now_ns : 0};
        memcpy(out[n++].name, e.name, e.name_len);
    }
    *sequence = at - 1;
    return n;
}

/* A change that came from another node. */
struct remote_ban {
    const struct rn_escalate_plan *plan;
    uint32_t level;
    int64_t rest_ns, now_ns;
};

static uint64_t follow_remote(void *arg, uint64_t word)
{
    const struct remote_ban *b = arg;
    struct rn_record_view v;

    if (b->level == 0)
        return 0;
    rn_record_view(word, b->now_ns, &v);
    int64_t rest_ns = rn_escalate_rest_ns(b->plan, word, b->now_ns);

    if (v.level >= b->level && rest_ns >= b->rest_ns)
        return word;
    return rn_escalate_ban(b->plan, v.level > b->level ? v.level : b->level,
                           rest_ns > b->rest_ns ? rest_ns : b->rest_ns, b->now_ns);
}

bool rn_reputation_apply(struct ration *r, uint64_t rule_hash, uint64_t hash, uint32_t level,
                         int64_t ends_in_ns)
{
    struct rn_pin pin = rn_pin_take_counted(&r->shelf);
    const struct rn_rule *rule = pin.book ? rn_reputation_find_rule(r, pin.book, rule_hash) : NULL;
    bool kept = true;

    if (rule && rule->escalate && (level == 0 || ends_in_ns > 0)) {
        int64_t now_ns = rn_limiter_now(r, RATION_NOW);
        struct remote_ban ban = {rule->escalate, level, ends_in_ns, now_ns};
        struct rn_records_change change = {.key = rn_records_key(hash, RN_RECORD_OFFENCES),
                                           .rule = rule_hash,
                                           .now_ns = now_ns,
                                           .follow = follow_remote,
                                           .arg = &ban};

        kept = rn_records_change(&r->reputation.records, &change);
    }
    rn_pin_drop(&pin);
    return kept;
}
