/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/decide/fast_path.h"

#include "limiter/clients/client_index.h"
#include "limiter/decide/gather.h"
#include "limiter/effect/effect.h"
#include "limiter/factor.h"
#include "limiter/limiter.h"
#include "limiter/line/gate.h"
#include "limiter/reputation/earned.h"

/* Whether a take decides: no other step of transaction.h is needed, and rn_outcome_charged fills
 * in the whole outcome. This depends on the rule alone and is found out once. */
bool rn_fast_path_fits(const struct rn_book *book, const struct rn_rule *rule,
                       const struct rn_rule_limit *limit)
{
    const struct rn_compiled *l = &book->limits[limit->id];
    bool counts = rn_compiled_counts(l) && l->limit.algorithm != RATION_LEAKY_BUCKET;
    bool uncoupled = rn_compiled_is_alone(l) && book->families[rule->index].until_ns == INT64_MIN;
    bool waits = rule->max_wait_ns != 0 || rule->line_size != 0 || rule->throttle.on;

    return counts && uncoupled && !waits && !rule->shadow && !rule->by_outcome &&
           rule->priority.attribute == RN_NO_ATTRIBUTE && limit->soft_units == 0;
}

/* Added to the number of limits if one of them has steps (factor.h), */
#define STEPPED (2 * RN_TABLE_ALL_MAX)
/* and if one of their rules has extras. */
#define EXTRAS (4 * RN_TABLE_ALL_MAX)

static RN_ASIDE uint32_t count_several(const struct rn_book *book, const struct rn_matches *matches)
{
    uint32_t n = 0, stepped = 0, extras = 0;

    for (uint32_t i = 0; i < matches->count; i++) {
        const struct rn_tier *tier = matches->items[i].tier;

        n += tier->limit_count;
        if (tier->limit_count == 0 || n > RN_TABLE_ALL_MAX)
            return 0;
        for (uint32_t k = 0; k < tier->limit_count; k++) {
            const struct rn_compiled *l = &book->limits[tier->limits[k]->id];

            if (!rn_factor_step(l)->fast_path && !l->fast_extras)
                return 0;
            stepped = l->stepped ? STEPPED : stepped;
            extras = l->fast_extras ? EXTRAS : extras;
        }
    }
    return n + stepped + extras;
}

RN_INLINE static uint32_t count_limits(const struct rn_book *book, const struct rn_matches *matches)
{
    const struct rn_tier *tier = matches->items[0].tier;

    if (rn_unlikely(matches->outcome != RN_MATCH_LIMITS))
        return 0;
    if (rn_likely(matches->count == 1 && tier->limit_count == 1)) {
        const struct rn_compiled *l = &book->limits[tier->limits[0]->id];

        if (rn_likely(l->fast_path))
            return 1;
        if (l->fast_steps)
            return STEPPED + 1;
        return l->fast_extras ? EXTRAS + 1 : 0;
    }
    return count_several(book, matches);
}

uint32_t rn_fast_path_count(const struct rn_book *book, const struct rn_matches *matches)
{
    return count_limits(book, matches) % STEPPED;
}

static RN_ASIDE uint64_t hash_parts(const struct rn_match *match, const struct rn_compiled *l)
{
    struct rn_applied applied = rn_applied_of(match);

    return rn_gather_hash(&applied, l);
}

/* All limits of a rule have the same seed. False: the client has an override. */
RN_INLINE static bool add_rule(struct rn_fast_path *f, const struct ration *r,
                               const struct rn_book *book, const struct rn_match *match,
                               uint32_t limit_count, bool stepped, bool extras, int64_t now_ns)
{
    struct rn_rule_limit *const *limits = match->tier->limits;
    const struct rn_compiled *l = &book->limits[limits[0]->id];
    uint64_t hash = rn_likely(match->rule->key_count == 1 && !match->key_names[0].data)
                        ? rn_siphash(&l->seed, match->key[0].data, match->key[0].len)
                        : hash_parts(match, l);
    const struct rn_client_index *index = rn_book_client_index(book);

    if (rn_unlikely(index != NULL) && rn_map_find(&index->overrides, hash))
        return false;
    const struct rn_earn_plan *plan = extras ? match->rule->earn : NULL;
    uint64_t word = plan ? rn_earned_find(r, hash) : 0;
    unsigned earned = plan ? rn_earn_percent(plan, word, now_ns) : RN_FACTOR_WRITTEN;

    if (extras && match->rule->escalate)
        rn_reputation_prefetch(&r->reputation, hash);
    for (uint32_t i = 0; i < limit_count; i++) {
        struct rn_charge *charge = &f->charges[f->n]; /* as much of it as a take reads */

        l = i == 0 ? l : &book->limits[limits[i]->id];
        if (extras) {
            l = rn_factor_step_earned(l, earned);
            f->opens[f->n] = plan && i == 0 && !rn_earn_goes_on(plan, word, now_ns);
        } else if (stepped) {
            l = rn_factor_step(l);
        }
        charge->key = hash ^ l->salt;
        rn_table_prefetch(r->table, charge->key);
        charge->limit = &l->limit;
        charge->flags = l->charge_flags;
        charge->ask.op = RN_TAKE;
        charge->ask.cost = match->cost;
        charge->ask.wall_offset_ns = -rn_gather_shift_ns(match->rule, hash);
        f->matches[f->n] = match;
        f->limits[f->n++] = l;
    }
    return true;
}

/* False: nothing was charged, and the request must be decided at length. */
RN_INLINE static bool charge_all(struct rn_fast_path *f, uint32_t n, struct ration *r,
                                 int64_t now_ns)
{
    now_ns = rn_limiter_now(r, now_ns);
    int64_t wall_offset_ns = rn_table_wall_offset(r->table, now_ns);

    for (uint32_t i = 0; i < n; i++) {
        f->charges[i].ask.now_ns = now_ns;
        f->charges[i].ask.wall_offset_ns += wall_offset_ns;
    }
    if (n == 1) {
        rn_store_apply(r->store, f->charges, 1);
        f->allowed = f->charges[0].answer.allowed;
        return f->charges[0].error == 0;
    }
    enum rn_table_all all = rn_table_take_all(r->table, f->charges, n);

    f->allowed = all == RN_ALL_TAKEN;
    return all != RN_ALL_UNDONE;
}

static uint64_t hash_of(const struct rn_fast_path *f, uint32_t at)
{
    return f->charges[at].key ^ f->limits[at]->salt;
}

/* A refusal: which rules refused, and which had room. */
static RN_ASIDE void watch_refusal(const struct rn_fast_path *f, struct rn_effects *effects)
{
    const struct rn_rule *refuser = NULL;

    for (uint32_t i = 0; i < f->n; i++) {
        if (f->charges[i].answer.allowed)
            continue;
        refuser = f->matches[i]->rule;
        rn_effect_refuse(effects, refuser, hash_of(f, i));
    }
    for (uint32_t i = 0; i < f->n && refuser; i++)
        if (f->charges[i].answer.allowed && f->matches[i]->rule != refuser)
            rn_effect_spare(effects, f->matches[i]->rule, refuser);
}

/* The rules that have a limit which refused count the refusal. */
static RN_ASIDE void count_refusal(const struct rn_fast_path *f, struct ration *r,
                                   const struct rn_book *book)
{
    struct rn_stripe *rows = rn_stats_stripe(&book->stats);
    struct rn_stripe *s = rn_stats_stripe(&r->stats);
    const struct rn_match *counted = NULL;

    for (uint32_t i = 0; i < f->n; i++) {
        const struct rn_match *match = f->matches[i];
        const struct rn_charge *charge = &f->charges[i];

        if (charge->answer.allowed || match == counted)
            continue;
        struct rn_applied applied = rn_applied_of(match);

        rn_stats_count(s, rn_stats_row(rows, match->rule->index), RN_RESULT_REFUSED, match->cost);
        rn_gather_note_refusal(r, s, &applied, charge->key ^ f->limits[i]->salt,
                               charge->ask.now_ns);
        counted = match;
    }
    rn_stats_count_total(s, RN_RESULT_REFUSED);
    if (book->effects)
        watch_refusal(f, book->effects);
}

/* An admission by the rule of `count` limits from `at` on. */
RN_INLINE static void watch_admission(const struct rn_fast_path *f, uint32_t at, uint32_t count,
                                      struct rn_effects *effects, bool near)
{
    const struct rn_match *match = f->matches[at];
    uint64_t hash = hash_of(f, at);

    rn_effect_admit(effects, match->rule, hash);
    for (uint32_t i = 0; i < count; i++)
        rn_effect_use(effects, f->limits[at + i]->id, f->limits[at + i]->limit.cap,
                      f->charges[at + i].answer.remaining);
    if (rn_unlikely(near))
        rn_effect_near(effects, match->rule, hash, match->key);
}

RN_INLINE static void count(const struct rn_fast_path *f, uint32_t n, struct ration *r,
                            const struct rn_book *book, const struct ration_outcome *out)
{
    struct rn_stripe *s = rn_stats_stripe(&r->stats), *rows = rn_stats_stripe(&book->stats);
    unsigned total = RN_RESULT_ALLOWED;

    if (rn_unlikely(!f->allowed)) {
        count_refusal(f, r, book);
        return;
    }
    for (uint32_t i = 0; i < n;) {
        const struct rn_match *match = f->matches[i];
        unsigned result = RN_RESULT_ALLOWED;
        uint32_t first = i;

        do {
            if (rn_unlikely(rn_gather_is_near(&out->limits[i].verdict)))
                result |= RN_RESULT_NEAR;
        } while (++i < n && f->matches[i] == match);
        struct rn_counts *row = rn_stats_row(rows, match->rule->index);

        if (book->effects)
            watch_admission(f, first, i - first, book->effects, result != RN_RESULT_ALLOWED);
        if (n == 1 && rn_likely(result == RN_RESULT_ALLOWED)) {
            rn_stats_admit(s, row, match->cost);
            return;
        }
        total |= result;
        rn_stats_count(s, row, result, match->cost);
    }
    rn_stats_count_total(s, total);
}

/* --- extras ------------------------------------------------------------------------------ */

static RN_ASIDE void refuse(const struct rn_fast_path *f, uint32_t at,
                            const struct rn_reputation_ban *ban, struct ration *r,
                            const struct rn_book *book, int64_t now_ns, struct ration_outcome *out)
{
    struct rn_applied applied = rn_applied_of(f->matches[at]);

    rn_outcome_banned(out, applied.rule, ban);
    rn_reputation_count_ban(r, book, &applied, hash_of(f, at), now_ns);
}

/* Whether a rule has banned the client; `out` says so. The longest ban counts. */
RN_INLINE static bool refuse_if_banned(const struct rn_fast_path *f, uint32_t n, struct ration *r,
                                       const struct rn_book *book, int64_t now_ns,
                                       struct ration_outcome *out)
{
    struct rn_reputation_ban worst = {0};
    uint32_t at = 0;

    for (uint32_t i = 0; i < n; i++) {
        const struct rn_escalate_plan *plan = f->matches[i]->rule->escalate;

        if (!plan || (i != 0 && f->matches[i] == f->matches[i - 1]))
            continue;
        struct rn_reputation_ban ban =
            rn_reputation_ban(&r->reputation, plan, hash_of(f, i), now_ns);

        if (rn_unlikely(ban.rest_ns > worst.rest_ns)) {
            worst = ban;
            at = i;
        }
    }
    if (rn_likely(worst.rest_ns == 0))
        return false;
    refuse(f, at, &worst, r, book, now_ns, out);
    return true;
}

/* Each rule that refused, unless its limits are lowered for the moment. */
static RN_ASIDE void count_refusals(const struct rn_fast_path *f, struct ration *r,
                                    const struct rn_book *book)
{
    const struct rn_match *counted = NULL;

    for (uint32_t i = 0; i < f->n; i++) {
        const struct rn_match *match = f->matches[i];

        if (f->charges[i].answer.allowed || match == counted || !rn_rule_has_records(match->rule) ||
            rn_factor_get(book, match->rule) < 100)
            continue;
        struct rn_applied applied = rn_applied_of(match);

        rn_reputation_refused(
            r, book,
            &(struct rn_reputation_refusal){.applied = &applied,
                                            .rule = rn_reputation_rule_of(r, f->limits[i]),
                                            .hash = hash_of(f, i),
                                            .now_ns = f->charges[i].ask.now_ns});
        counted = match;
    }
}

/* Of an admission: a period of what the client earns ends, or the first one begins. */
RN_INLINE static void open_periods(const struct rn_fast_path *f, uint32_t n, struct ration *r)
{
    for (uint32_t i = 0; i < n; i++)
        if (rn_unlikely(f->opens[i]) && f->matches[i]->cost != 0)
            rn_earned_admit(r, &(struct rn_earned){.plan = f->matches[i]->rule->earn,
                                                   .rule = rn_reputation_rule_of(r, f->limits[i]),
                                                   .hash = hash_of(f, i),
                                                   .now_ns = f->charges[i].ask.now_ns});
}

/* Each rule once. What was admitted has a receipt. */
RN_INLINE static void count_usage(const struct rn_fast_path *f, uint32_t n, struct ration *r,
                                  const struct rn_book *book, struct ration_outcome *out)
{
    int64_t now_ns = f->charges[0].ask.now_ns;
    const struct rn_match *counted = NULL;

    for (uint32_t i = 0; i < n; i++) {
        const struct rn_match *match = f->matches[i];
        struct rn_usage_rule *usage = rn_usage_of(book, match->rule);

        if (!usage || match == counted || (!f->allowed && f->charges[i].answer.allowed))
            continue;
        struct rn_applied applied = rn_applied_of(match);

        rn_usage_count(usage, &applied, hash_of(f, i), f->allowed, match->cost,
                       now_ns + rn_table_wall_offset(r->table, now_ns));
        if (f->allowed && match->cost != 0)
            out->receipts[out->receipt_count++] =
                rn_usage_receipt(usage, hash_of(f, i), match->cost);
        counted = match;
    }
}

/* --- deciding ----------------------------------------------------------------------------- */

/* Inlined for one limit and for any number, each for limits without steps, for those of which some
 * have steps, and for rules of which some have extras. */
RN_INLINE static bool decide(struct ration *r, const struct rn_book *book,
                             const struct ration_request *request, struct rn_matches *matches,
                             uint32_t n, bool stepped, bool extras, int64_t now_ns,
                             struct ration_outcome *out)
{
    const struct rn_client_index *index;
    struct rn_fast_path f;
    int64_t left_ns;

    f.n = 0;
    now_ns = extras ? rn_limiter_now(r, now_ns) : now_ns;
    for (uint32_t i = 0; i < (n == 1 ? 1 : matches->count); i++) {
        const struct rn_match *match = &matches->items[i];

        if (rn_unlikely(!add_rule(&f, r, book, match, n == 1 ? 1 : match->tier->limit_count,
                                  stepped, extras, now_ns)))
            return false;
    }
    if (rn_unlikely(rn_lines_any(r->lines)) && rn_gate_stops(r, &f))
        return false;
    index = rn_book_client_index(book);
    if (rn_unlikely(index != NULL) && rn_unlikely(book->ruleset->databases != NULL))
        rn_values_find_all(book->ruleset, &matches->values); /* bans may name any of them */
    if (rn_unlikely(index != NULL) &&
        rn_unlikely(rn_ban_filter_passes(&index->ban_filter, &matches->values, request)) &&
        rn_ban_find(r, book, &matches->values, request, now_ns, &left_ns))
        return false;
    if (rn_pause_any(&r->pauses) && rn_pause_stops(r, &f, now_ns = rn_limiter_now(r, now_ns)))
        return false;
    if (extras && rn_unlikely(refuse_if_banned(&f, n, r, book, now_ns, out)))
        return true;
    if (rn_unlikely(!charge_all(&f, n, r, now_ns)))
        return false;
    rn_outcome_charged(out, &f);
    count(&f, n, r, book, out);
    if (extras && book->usage_count != 0)
        count_usage(&f, n, r, book, out);
    if (extras && rn_unlikely(!f.allowed))
        count_refusals(&f, r, book);
    else if (extras)
        open_periods(&f, n, r);
    return true;
}

static RN_ASIDE bool decide_several(struct ration *r, const struct rn_book *book,
                                    const struct ration_request *request,
                                    struct rn_matches *matches, uint32_t n, int64_t now_ns,
                                    struct ration_outcome *out)
{
    return n > STEPPED ? decide(r, book, request, matches, n - STEPPED, true, false, now_ns, out)
                       : decide(r, book, request, matches, n, false, false, now_ns, out);
}

static RN_ASIDE bool decide_extras(struct ration *r, const struct rn_book *book,
                                   const struct ration_request *request, struct rn_matches *matches,
                                   int64_t now_ns, struct ration_outcome *out)
{
    return decide(r, book, request, matches, 1, true, true, now_ns, out);
}

static RN_ASIDE bool decide_several_extras(struct ration *r, const struct rn_book *book,
                                           const struct ration_request *request,
                                           struct rn_matches *matches, uint32_t n, int64_t now_ns,
                                           struct ration_outcome *out)
{
    return decide(r, book, request, matches, n, true, true, now_ns, out);
}

static RN_ASIDE bool decide_stepped(struct ration *r, const struct rn_book *book,
                                    const struct ration_request *request,
                                    struct rn_matches *matches, int64_t now_ns,
                                    struct ration_outcome *out)
{
    return decide(r, book, request, matches, 1, true, false, now_ns, out);
}

RN_HOT bool rn_fast_path_decide(struct ration *r, const struct rn_book *book,
                                const struct ration_request *request, struct rn_matches *matches,
                                int64_t now_ns, struct ration_outcome *out)
{
    uint32_t n = count_limits(book, matches);

    if (rn_likely(n == 1))
        return decide(r, book, request, matches, 1, false, false, now_ns, out);
    if (n == EXTRAS + 1)
        return decide_extras(r, book, request, matches, now_ns, out);
    if (n > EXTRAS)
        return decide_several_extras(r, book, request, matches, n % STEPPED, now_ns, out);
    if (n == STEPPED + 1)
        return decide_stepped(r, book, request, matches, now_ns, out);
    return n != 0 && decide_several(r, book, request, matches, n, now_ns, out);
}
