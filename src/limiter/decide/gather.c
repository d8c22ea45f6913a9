/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gathering the limits of a request, charging them, counting the outcome.
 */
#include "limiter/decide/gather.h"

#include <string.h>

#include "limiter/clients/client_index.h"
#include "limiter/effect/effect.h"
#include "limiter/factor.h"
#include "limiter/limiter.h"
#include "limiter/line/gate.h"
#include "limiter/reputation/earned.h"
#include "limiter/state.h"
#include "limiter/value_stats.h"

#define RETRY_RULE_NS INT64_C(1000000000) /* the server may answer again by then */

RN_HOT void rn_gather_init(struct rn_gathered *g, struct ration *r, const struct rn_book *book,
                           int64_t now_ns)
{
    g->r = r;
    g->book = book;
    g->all_shadow = rn_gather_is_shadow(r, book);
    g->no_server = g->drain = g->past_bans = false;
    g->ban.rest_ns = g->pause_ns = 0;
    g->lease_ns = g->max_wait_ns = 0;
    g->rule_count = g->lease_count = g->usage_count = 0;
    g->room = RATION_CHARGES_MAX;
    g->error = 0;
    g->lease = 0;
    rn_transaction_init(&g->tx, r, g->charges, 0, now_ns);
    g->tx.uncounted = true;
}

/* Under a key of `api_key or ip`, a client that sends an address as its API key must not share the
 * state of the client with that address: the name of the attribute is part of the key. */
static RN_ASIDE uint64_t hash_parts(const struct rn_applied *a, const struct rn_compiled *l)
{
    struct ration_part parts[RN_ENVOY_PARTS_MAX + RN_KEY_PARTS_MAX];
    size_t count = 0;

    for (uint32_t i = 0; i < a->key_count; i++) {
        if (a->key_names && a->key_names[i].data)
            parts[count++] = (struct ration_part){a->key_names[i].data, a->key_names[i].len};
        parts[count++] = (struct ration_part){a->key[i].data, a->key[i].len};
    }
    return rn_compiled_hash_parts(l, parts, count);
}

RN_HOT uint64_t rn_gather_hash(const struct rn_applied *a, const struct rn_compiled *l)
{
    if (rn_likely(a->key_count == 1 && (!a->key_names || !a->key_names[0].data)))
        return rn_siphash(&l->seed, a->key[0].data, a->key[0].len); /* as of one part */
    return hash_parts(a, l);
}

static RN_ASIDE void add_places(struct rn_gathered *g, struct rn_transaction_item *item)
{
    g->lease = g->lease ? g->lease : rn_limiter_new_id(g->r);
    g->lease_count++;
    item->lease = g->lease;
    if (item->limit->limit.form == RN_FORM_ADAPTIVE) {
        item->keep = item->soft = 0; /* shares of a number that is not known yet */
        g->tx.needs |= RN_NEEDS_SOFT;
    }
    if (g->lease_ns == 0)
        return;
    item->own = *item->limit;
    item->own.limit.lease_ns = g->lease_ns;
    item->limit = &item->own;
}

/* What the step has above the limit as written, at its factor. */
static RN_ASIDE uint64_t soft_at(const struct rn_compiled *l, const struct rn_rule_limit *limit)
{
    u128 written = (u128)(limit->limit.cap - limit->soft_units) * l->limit.percent / 100;

    written = written != 0 ? written : 1;
    return l->limit.cap > written ? l->limit.cap - (uint64_t)written : 0;
}

/* An override stands as the operator wrote it, whatever the client has earned. */
static void add_limit(struct rn_gathered *g, const struct rn_applied *a,
                      const struct rn_rule_limit *limit, uint64_t hash, unsigned earned)
{
    const struct rn_compiled *l = rn_unlikely(a->instead != NULL)
                                      ? rn_factor_step(a->instead)
                                      : rn_factor_step_earned(&g->book->limits[limit->id], earned);
    size_t at = g->tx.n;
    struct rn_transaction_item *item = rn_transaction_add(&g->tx, l, hash ^ l->salt, a->cost);

    g->rule_of[at] = (uint8_t)(g->rule_count - 1);
    g->limits[at] = limit;
    item->earned = earned;
    item->shadow = a->shadow;
    item->by_outcome = a->rule->by_outcome;
    item->soft = limit->soft_units;
    if (rn_unlikely(item->soft != 0 && l->limit.percent != 0))
        item->soft = soft_at(l, limit);
    if (rn_unlikely(a->keep_percent != 0)) { /* a share of the limit as written, and all above */
        u128 written = l->limit.cap - item->soft;

        item->keep = (uint64_t)((written * a->keep_percent + 99) / 100) + item->soft;
    }
    item->line_size = a->rule->line_size;
    item->line_wait_ns = a->rule->max_wait_ns;
    item->rank = a->rule->line_by_arrival ? 0 : a->keep_percent;
    if (l->limit.algorithm == RATION_LEAKY_BUCKET) { /* others tell no delay */
        item->max_wait_ns = a->rule->max_wait_ns;
        if (g->max_wait_ns > 0 && (item->max_wait_ns == 0 || g->max_wait_ns < item->max_wait_ns))
            item->max_wait_ns = g->max_wait_ns;
    }
    item->shift_ns = rn_gather_shift_ns(a->rule, hash);
    if (rn_unlikely(l->limit.algorithm == RATION_CONCURRENCY))
        add_places(g, item);
    if (limit == a->limits[0] && a->rule->index != RN_AD_HOC)
        item->family = &g->book->families[a->rule->index];
}

/* Whether the rule is added, where there may be no room for it. A rule in shadow mode must not make
 * a request fail: it is left out. */
static RN_ASIDE bool fits(struct rn_gathered *g, const struct rn_applied *a)
{
    size_t n = g->tx.n + a->limit_count;
    bool full = g->rule_count == RN_MATCHES_MAX || n + g->usage_count > RATION_CHARGES_MAX;

    if (full && !a->shadow)
        g->error = RATION_EINVAL;
    return !full && (!a->shadow || !g->drain || n <= 1);
}

/* The last rule had more places than a request may have. */
static RN_ASIDE void take_back(struct rn_gathered *g, const struct rn_applied *a, bool has_usage)
{
    if (!a->shadow) {
        g->error = RATION_EINVAL;
        return;
    }
    for (uint32_t i = 0; i < a->limit_count; i++)
        g->lease_count -= g->tx.items[--g->tx.n].lease != 0;
    g->rule_count--;
    g->usage_count -= has_usage;
}

RN_HOT void rn_gather_add(struct rn_gathered *g)
{
    struct rn_applied *a = rn_gather_next(g);
    const struct rn_client_index *index = rn_book_client_index(g->book);
    const struct rn_override_rule *of = rn_unlikely(index != NULL) && a->rule->index != RN_AD_HOC
                                            ? rn_override_rule(index, a->rule)
                                            : NULL;
    const struct rn_compiled *seed = NULL; /* NULL: no limit needs the hash of the key */

    if (rn_unlikely(of != NULL))
        seed = &of->base;
    else if (rn_unlikely(a->instead != NULL))
        seed = a->instead;
    else if (rn_likely(a->limit_count != 0))
        seed = &g->book->limits[a->limits[0]->id];
    const struct rn_usage_rule *usage = rn_usage_of(g->book, a->rule);

    seed = rn_unlikely(usage != NULL) ? &usage->base : seed;
    uint64_t hash = a->hash = seed ? rn_gather_hash(a, seed) : 0;

    const struct rn_override *o =
        rn_unlikely(of != NULL) ? rn_map_find(&index->overrides, hash) : NULL;

    if (rn_unlikely(o != NULL) &&
        (o->expires_ns == INT64_MAX || o->expires_ns > rn_limiter_now(g->r, g->tx.now_ns))) {
        a->limits = &o->plan->limit;
        a->limit_count = o->plan->limit != NULL;
        a->instead = &o->plan->compiled;
    }
    g->usage_count += usage != NULL;
    if (rn_unlikely(g->rule_count == RN_MATCHES_MAX ||
                    g->tx.n + a->limit_count + g->usage_count > g->room) &&
        !fits(g, a)) {
        g->usage_count -= usage != NULL;
        return;
    }
    unsigned earned = RN_FACTOR_WRITTEN;

    if (rn_unlikely(a->rule->earn != NULL) && seed) {
        g->tx.now_ns = rn_limiter_now(g->r, g->tx.now_ns);
        earned = rn_earned_percent(g->r, a->rule, hash, g->tx.now_ns);
    }
    if (rn_unlikely(a->rule->escalate != NULL))
        rn_reputation_find_ban(g, a, hash);
    if (rn_pause_any(&g->r->pauses))
        rn_pause_find(g, a);
    g->rule_count++;
    for (uint32_t i = 0; i < a->limit_count; i++)
        add_limit(g, a, a->limits[i], hash, earned);
    if (rn_unlikely(g->lease_count > RATION_LEASES_MAX))
        take_back(g, a, usage != NULL);
}

/* --- counting -------------------------------------------------------------------- */

size_t rn_gather_join_key(const struct rn_applied *a, char *out, size_t size)
{
    size_t len = 0;

    for (uint32_t i = 0; i < a->key_count && len < size; i++) {
        size_t room = size - len - (i != 0), part = a->key[i].len < room ? a->key[i].len : room;

        if (i != 0)
            out[len++] = ' ';
        if (part != 0)
            memcpy(out + len, a->key[i].data, part);
        len += part;
    }
    return len;
}

void rn_gather_note_refusal(struct ration *r, struct rn_stripe *s, const struct rn_applied *a,
                            uint64_t hash, int64_t now_ns)
{
    char key[RATION_NAME_SIZE];
    struct ration_charge c; /* only the fields that rn_top_note reads */

    c.hash = hash; /* without a salt: one entry for all limits of the rule */
    c.at_ns = now_ns;
    c.key = key;
    c.key_len = rn_gather_join_key(a, key, sizeof key);
    rn_top_note(r->top, s, RN_AD_HOC, a->rule->name, &c);
}

static RN_ASIDE void note_refusal(struct rn_gathered *g, struct rn_stripe *s, uint32_t rule)
{
    for (size_t i = 0; i < g->tx.n; i++) {
        const struct rn_transaction_item *item = &g->tx.items[i];

        if (g->rule_of[i] != rule || item->shadow || g->charges[i].verdict.allowed)
            continue;
        rn_gather_note_refusal(g->r, s, &g->rules[rule], item->key ^ item->limit->salt,
                               g->tx.now_ns);
        return;
    }
}

static RN_ASIDE void count_usage(const struct rn_gathered *g, const struct rn_applied *a,
                                 bool allowed, uint64_t units)
{
    struct rn_usage_rule *usage = rn_usage_of(g->book, a->rule);

    if (usage)
        rn_usage_count(usage, a, a->hash, allowed, units, ration_wall(g->r, g->tx.now_ns));
}

/* What the decision says about its rules, for `ration report`. An override is not the rule's limit.
 */
static RN_ASIDE void watch(const struct rn_gathered *g, struct rn_effects *effects, bool allowed)
{
    const struct rn_rule *refuser = NULL;

    for (size_t i = 0; i < g->tx.n; i++) {
        const struct rn_applied *a = &g->rules[g->rule_of[i]];
        const struct ration_verdict *v = &g->charges[i].verdict;

        if (rn_likely(!a->instead && v->allowed && v->remaining <= v->limit))
            rn_effect_use(effects, g->limits[i]->id, v->limit, v->remaining);
    }
    for (uint32_t i = 0; i < g->rule_count; i++) {
        const struct rn_applied *a = &g->rules[i];
        unsigned result = g->results[i];

        if (a->rule->index == RN_AD_HOC || a->refund || a->limit_count == 0)
            continue;
        if (result & (RN_RESULT_REFUSED | RN_RESULT_SHADOWED))
            rn_effect_refuse(effects, a->rule, a->hash);
        else if (allowed)
            rn_effect_admit(effects, a->rule, a->hash);
        if (result & RN_RESULT_NEAR)
            rn_effect_near(effects, a->rule, a->hash, a->key);
        refuser = result & RN_RESULT_REFUSED ? a->rule : refuser;
    }
    for (uint32_t i = 0; i < g->rule_count && refuser && !allowed; i++)
        if (!(g->results[i] & RN_RESULT_REFUSED) && g->rules[i].rule->index != RN_AD_HOC)
            rn_effect_spare(effects, g->rules[i].rule, refuser);
}

/* A thread has the same number, and shares it with the same others, in both stripes: so `s` tells
 * whether `rows` is shared. */
RN_HOT static void count(struct rn_gathered *g, const struct ration_outcome *out)
{
    struct rn_stripe *s = rn_stats_stripe(&g->r->stats), *rows = rn_stats_stripe(&g->book->stats);
    bool allowed = out->decision.allowed;
    unsigned total = (allowed ? RN_RESULT_ALLOWED : RN_RESULT_REFUSED) |
                     (out->shadow_refused ? RN_RESULT_SHADOWED : 0) |
                     (out->kind == RATION_BY_NO_RULE ? RN_RESULT_UNMATCHED : 0);
    uint32_t refunds = 0;

    for (uint32_t i = 0; i < g->rule_count; i++) {
        const struct rn_rule *rule = g->rules[i].rule;
        unsigned result = g->results[i];

        if (rn_unlikely(g->rules[i].refund)) {
            refunds++;
            continue;
        }
        if (!allowed && !(result & RN_RESULT_REFUSED))
            continue;
        uint64_t units = rule->by_outcome ? 0 : g->rules[i].cost;

        if (!allowed)
            result = RN_RESULT_REFUSED;
        else if (result & RN_RESULT_REFUSED) /* the whole service is in shadow mode */
            result =
                (result & ~(unsigned)RN_RESULT_REFUSED) | RN_RESULT_SHADOWED | RN_RESULT_ALLOWED;
        else
            result |= RN_RESULT_ALLOWED;
        total |= result & ~(unsigned)RN_RESULT_SHADOWED;
        rn_stats_count(s, rn_stats_row(rows, rule->index), result, units);
        if (rn_unlikely(rule->values != NULL))
            rn_value_stats_add(g->book, rule, g->rules[i].key, allowed, 1, units);
        if (rn_unlikely(rule->usage != NULL))
            count_usage(g, &g->rules[i], allowed, units);
        if (!allowed)
            note_refusal(g, s, i);
        if (!allowed && rn_unlikely(rn_rule_has_records(rule)))
            rn_reputation_count_refusal(g, i);
        if (allowed && rn_unlikely(rule->earn != NULL))
            rn_reputation_count_admission(g, i);
    }
    if (g->book->effects && g->rule_count != 0)
        watch(g, g->book->effects, allowed);
    if (rn_likely(refunds == 0 || refunds < g->rule_count)) /* refunds alone ask for nothing */
        rn_stats_count_total(s, total);
    if (rn_unlikely(g->tx.waited_ns != 0)) {
        int at = g->tx.waited_at;

        rn_gate_count(&g->tx,
                      at < 0 ? NULL : rn_stats_row(rows, g->rules[g->rule_of[at]].rule->index),
                      allowed);
    }
}

/* For those that watch adaptive limits. An override has a number of its own. */
static RN_ASIDE void note_places(const struct rn_gathered *g)
{
    for (size_t i = 0; i < g->tx.n; i++) {
        const struct rn_compiled *l = g->tx.items[i].limit;
        uint32_t id = g->limits[i] ? g->limits[i]->id : 0;

        if (l->limit.form == RN_FORM_ADAPTIVE && l == &g->book->limits[id])
            __atomic_store_n(&g->book->places[id], (uint32_t)g->tx.items[i].answer.places,
                             __ATOMIC_RELAXED);
    }
}

/* --- deciding --------------------------------------------------------------------- */

static RN_ASIDE void refuse_banned(struct rn_gathered *g, bool look_only,
                                   struct ration_outcome *out)
{
    const struct rn_applied *a = &g->rules[g->banned_by];

    rn_outcome_banned(out, a->rule, &g->ban);
    if (!look_only)
        rn_reputation_count_ban(g->r, g->book, a, g->banned_hash, g->tx.now_ns);
}

RN_HOT int rn_gather_run(struct rn_gathered *g, bool look_only, struct ration_outcome *out)
{
    if (rn_unlikely(g->ban.rest_ns != 0) && g->error == 0 && !g->all_shadow) {
        refuse_banned(g, look_only, out);
        return 0;
    }
    if (rn_unlikely(g->pause_ns != 0) && g->error == 0 && !g->all_shadow) {
        if (rn_pause_wait(g))
            return g->tx.error;
        rn_pause_refuse(g, look_only, out);
        return 0;
    }
    g->tx.look_only = look_only;
    g->tx.past_lines = g->all_shadow || g->past_bans;
    if (rn_unlikely(g->drain) && g->tx.n == 1 && g->lease_count != 0 && g->tx.items[0].shadow)
        g->drain = false; /* refuses nothing, whatever the cost */
    if (rn_unlikely(g->drain) && g->tx.n > 1)
        return RATION_ESEVERAL;
    if (rn_unlikely(g->drain) && g->lease_count != 0)
        return RATION_EPLACES;
    if (g->error == 0)
        g->error = rn_transaction_run(&g->tx);
    if (rn_unlikely(g->drain) && g->error == 0 && g->tx.n == 1 && !look_only && !g->all_shadow)
        g->error = rn_state_drain(&g->tx);
    if (g->error != 0 && g->error != RATION_EWAITS && !look_only) {
        struct rn_stripe *s = rn_stats_stripe(&g->r->stats);
        struct rn_stripe *rows = rn_stats_stripe(&g->book->stats);

        for (size_t i = 0; i < g->tx.n; i++)
            if (g->charges[i].error != 0)
                rn_stats_count(s, rn_stats_row(rows, g->rules[g->rule_of[i]].rule->index),
                               RN_RESULT_FAILED, 0);
        rn_stats_count_total(s, RN_RESULT_FAILED);
    }
    if (g->error != 0)
        return g->error;
    if (rn_unlikely(g->lease_count != 0))
        note_places(g);
    rn_outcome_fill(out, g);
    out->shadow_refused |= g->ban.rest_ns != 0 || g->pause_ns != 0;
    if (!look_only)
        count(g, out);
    return 0;
}

/* Unless the whole service is in shadow mode. */
static void refuse(const struct rn_gathered *g, int64_t retry_after_ns, struct ration_outcome *out)
{
    if (g->all_shadow) {
        out->shadow_refused = true;
        return;
    }
    out->decision.allowed = out->decision.verdict.allowed = false;
    out->decision.verdict.limit = out->decision.verdict.remaining = 0;
    out->decision.verdict.retry_after_ns = retry_after_ns;
}

void rn_gather_by_list(struct rn_gathered *g, enum rn_match_outcome list, bool look_only,
                       struct ration_outcome *out)
{
    rn_outcome_init(out, list == RN_MATCH_DENIED ? RATION_BY_DENY_LIST : RATION_BY_ALLOW_LIST);
    if (list == RN_MATCH_DENIED)
        refuse(g, RATION_NEVER, out);
    if (!look_only)
        count(g, out);
}

void rn_gather_by_ban(struct rn_gathered *g, struct rn_slice reason, int64_t left_ns,
                      bool look_only, struct ration_outcome *out)
{
    _Static_assert(RATION_NOTE_MAX < RATION_MESSAGE_SIZE, "a reason fits a message");

    rn_outcome_init(out, RATION_BY_BAN);
    memcpy(out->message, reason.data, reason.len);
    out->message[reason.len] = '\0';
    refuse(g, left_ns, out);
    if (!look_only)
        count(g, out);
}

void rn_gather_by_rule(struct rn_gathered *g, const struct rn_rule *rule, bool look_only,
                       struct ration_outcome *out)
{
    rn_outcome_init(out, RATION_BY_LIMITS);
    rn_outcome_name(out, rule);
    refuse(g, RETRY_RULE_NS, out);
    out->decision.verdict.limit = UINT64_MAX; /* no limit was asked */
    if (!look_only)
        count(g, out);
}

void rn_gather_without_rules(struct rn_stripe *s, bool look_only, struct ration_outcome *out)
{
    rn_outcome_init(out, RATION_BY_NO_RULE);
    if (!look_only)
        rn_stats_count_total(s, RN_RESULT_ALLOWED | RN_RESULT_UNMATCHED);
}
