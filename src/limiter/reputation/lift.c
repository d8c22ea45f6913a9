/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An operator lifts a ban: the record of offences goes, so that the client begins again.
 */
#include "limiter/decide/gather.h"
#include "limiter/limiter.h"
#include "limiter/state.h"

/* One client to lift. */
struct lifted {
    const struct rn_book *book;
    const struct rn_rule *rule;
    const struct rn_applied *applied; /* NULL: its name is not known */
    uint64_t rule_hash, hash;
    int64_t now_ns;
};

static uint64_t forget(void *arg, uint64_t word)
{
    (void)arg;
    (void)word;
    return 0;
}

/* Other nodes must learn of it even if this one has no record: they may have one. */
static bool lift(struct ration *r, const struct lifted *l)
{
    struct rn_records_change change = {.key = rn_records_key(l->hash, RN_RECORD_OFFENCES),
                                       .rule = l->rule_hash,
                                       .now_ns = l->now_ns,
                                       .follow = forget};
    struct rn_records_change lapses = change;
    struct rn_event event = {
        .rule = l->rule_hash, .hash = l->hash & ~RN_RECORD_KIND, .at_ns = l->now_ns};
    struct rn_stripe *s = rn_stats_stripe(&r->stats);
    struct rn_record_view v;

    lapses.key = rn_records_key(l->hash, RN_RECORD_LAPSES);
    rn_records_change(&r->reputation.records, &lapses);
    rn_records_change(&r->reputation.records, &change);
    if (l->applied)
        event.name_len = (uint32_t)rn_gather_join_key(l->applied, event.name, sizeof event.name);
    rn_event_ring_add(r->reputation.records.ring, &event);
    rn_record_view(change.before, l->now_ns, &v);
    if (!v.live)
        return false;
    rn_stats_add(s, &s->total.lifted);
    rn_stats_add(s, &rn_stats_row(rn_stats_stripe(&l->book->stats), l->rule->index)->lifted);
    return true;
}

/* --- by attributes ------------------------------------------------------------------------------
 */

struct lifting {
    int64_t now_ns;
    uint32_t count;
    bool applied; /* some rule with escalate */
};

static int lift_rule(struct ration *r, const struct rn_book *book, const struct rn_applied *a,
                     void *arg)
{
    struct lifting *lifting = arg;
    const struct rn_compiled *any = a->rule->escalate ? rn_book_any_limit(book, a->rule) : NULL;

    lifting->applied |= any != NULL;
    if (any)
        lifting->count += lift(r, &(struct lifted){.book = book,
                                                   .rule = a->rule,
                                                   .applied = a,
                                                   .rule_hash = rn_reputation_rule_of(r, any),
                                                   .hash = rn_gather_hash(a, any),
                                                   .now_ns = lifting->now_ns});
    return 0;
}

int ration_reputation_lift(struct ration *r, const struct ration_request *request, const char *rule,
                           size_t rule_len, int64_t now_ns, uint32_t *count)
{
    struct lifting lifting = {.now_ns = rn_limiter_now(r, now_ns)};
    int code = rn_state_change(r, request, rule, rule_len, lift_rule, &lifting);

    if (code == 0 && !rule && !lifting.applied)
        code = RATION_EUNMATCHED; /* "none" would read as if the client were not banned */
    if (code == 0 && count)
        *count = lifting.count;
    return code;
}

/* --- by hash -------------------------------------------------------------------------------------
 */

int ration_reputation_lift_hash(struct ration *r, const char *rule, size_t rule_len, uint64_t hash,
                                int64_t now_ns)
{
    struct rn_pin pin = rn_pin_take_counted(&r->shelf);
    struct lifted l = {.book = pin.book, .hash = hash, .now_ns = rn_limiter_now(r, now_ns)};
    const struct rn_compiled *any = NULL;

    if (pin.book)
        l.rule = rn_book_find(pin.book, (struct rn_slice){rule, rule_len});
    if (l.rule && l.rule->escalate)
        any = rn_book_any_limit(pin.book, l.rule);
    int code = !l.rule ? RATION_ENORULE : RATION_EGONE;

    if (any) {
        l.rule_hash = rn_reputation_rule_of(r, any);
        uint64_t found =
            rn_records_rule(&r->reputation.records, rn_records_key(hash, RN_RECORD_OFFENCES));

        /* A record of another rule stays. One that is not known here may be known elsewhere. */
        if (found == 0 || found == l.rule_hash)
            code = lift(r, &l) ? 0 : RATION_EGONE;
    }
    rn_pin_drop(&pin);
    return code;
}
