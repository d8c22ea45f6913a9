/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a caller is told about a request under rules; and giving up what was
 * charged for it.
 */
#include <string.h>

#include "limiter/decide/gather.h"
#include "limiter/limiter.h"
#include "limiter/tickets/charge_later.h"
#include "limiter/tickets/lease.h"
#include "limiter/tickets/receipt.h"

#define STATUS_REFUSED 429
#define STATUS_DENIED 403

__extension__ typedef unsigned __int128 u128;

/* All but the decision. */
static void clear(struct ration_outcome *out, enum ration_outcome_kind kind)
{
    out->kind = kind;
    out->soft = out->shadow_refused = out->hold = out->retryafter = false;
    out->delay_ns = out->shadow_delay_ns = 0;
    out->rule[0] = out->message[0] = '\0';
    out->status = kind == RATION_BY_DENY_LIST ? STATUS_DENIED : STATUS_REFUSED;
    out->headers = RATION_HEADERS_BOTH;
    out->limit_count = out->listed = 0;
    out->lease = 0;
    out->at_ns = 0;
    out->place_count = out->receipt_count = out->due_count = 0;
}

void rn_outcome_init(struct ration_outcome *out, enum ration_outcome_kind kind)
{
    clear(out, kind);
    out->decision = (struct ration_decision){
        .allowed = true,
        .decided_by = -1,
        .verdict = {.allowed = true, .limit = UINT64_MAX, .remaining = UINT64_MAX}};
}

/* --- what rules say -------------------------------------------------------------------- */

static unsigned result_of(const struct rn_gathered *g, size_t i)
{
    const struct ration_verdict *verdict = &g->charges[i].verdict;
    bool shadow = g->tx.items[i].shadow;

    if (rn_unlikely(g->charges[i].error != 0))
        return 0;
    if (!verdict->allowed)
        return shadow ? RN_RESULT_SHADOWED : RN_RESULT_REFUSED;
    return !shadow && rn_gather_is_near(verdict) ? RN_RESULT_NEAR : 0;
}

/* --- soft limits, throttling --------------------------------------------------------- */

/* Units left after this request, of all that the limit has; whether its outcome
 * will be charged nobody knows yet. */
static uint64_t left_after(const struct rn_transaction *tx, size_t i)
{
    uint64_t left = tx->items[i].answer.remaining, cost = tx->charges[i].cost;

    if (!tx->look_only || tx->items[i].by_outcome)
        return left;
    return left > cost ? left - cost : 0;
}

/* What is spent after this request. A bucket that refills evenly tells it to the nanosecond: the
 * time to full. Where the two do not agree (another node's bucket, a share of it), whole units
 * count, as for all other limits. */
static u128 spent_after(const struct rn_transaction *tx, size_t i, const struct rn_limit *l,
                        u128 full)
{
    uint64_t left = left_after(tx, i), whole = left < l->cap ? l->cap - left : 0;
    u128 most = full * whole / l->cap, unit = full / l->cap, exact;

    if (!rn_throttle_can_pace(l))
        return most;
    exact = (u128)(uint64_t)tx->items[i].answer.reset_after_ns;
    if (tx->look_only && !tx->items[i].by_outcome)
        exact += unit * tx->charges[i].cost;
    return exact <= most && exact + unit > most ? exact : most;
}

/* Nothing up to `from` of the limit as written; from there on in proportion up to max_ns where it
 * is reached, or as long as the limit takes to refill what lies above `from`. Reckoned in
 * nanoseconds of refill, below 2^61, or in hundredths of a unit, below 2^58: a product with a time
 * fits. */
static RN_ASIDE int64_t throttle_ns(const struct rn_transaction *tx, size_t i,
                                    const struct rn_throttle *throttle,
                                    const struct rn_rule_limit *limit)
{
    const struct rn_limit *l = &limit->limit;
    bool paces = rn_throttle_can_pace(l);
    u128 full = paces ? (uint64_t)l->full_ns : (u128)l->cap * 100;
    u128 written, from, spent;

    if (l->cap == 0)
        return 0;
    written = full * (l->cap - limit->soft_units) / l->cap;
    from = throttle->from_units != 0 ? full * throttle->from_units / l->cap
                                     : written * throttle->from_percent / 100;
    spent = spent_after(tx, i, l, full);
    if (spent <= from)
        return 0;
    if (throttle->max_ns == 0)
        return paces ? (int64_t)(spent - from) : 0;
    if (spent >= written)
        return throttle->max_ns;
    return (int64_t)((spent - from) * (uint64_t)throttle->max_ns / (written - from));
}

/* Of a limit in shadow mode that would admit, but only later. */
static RN_ASIDE void add_shadow_delay(struct ration_outcome *out, struct rn_gathered *g, size_t i,
                                      int64_t delay_ns)
{
    if (delay_ns > 0)
        g->results[g->rule_of[i]] |= RN_RESULT_SHADOW_DELAYED;
    if (delay_ns > out->shadow_delay_ns)
        out->shadow_delay_ns = delay_ns;
}

/* Of an admission: whether it is soft, and how long it must wait. The limit's own verdict
 * tells the delay, too. */
static void add_delay(struct ration_outcome *out, struct rn_gathered *g, size_t i)
{
    const struct rn_transaction *tx = &g->tx;
    const struct rn_rule *rule = g->rules[g->rule_of[i]].rule;
    struct ration_verdict *verdict = &g->charges[i].verdict;
    uint64_t left = left_after(tx, i);

    if (rn_unlikely(g->charges[i].error != 0 || !verdict->allowed))
        return;
    if (rn_unlikely(rule->throttle.on)) {
        int64_t throttled_ns = throttle_ns(tx, i, &rule->throttle, g->limits[i]);

        if (verdict->delay_ns < throttled_ns)
            verdict->delay_ns = throttled_ns;
    }
    if (rn_unlikely(tx->items[i].shadow || g->all_shadow)) {
        add_shadow_delay(out, g, i, verdict->delay_ns);
        return;
    }
    if (left < tx->items[i].soft && tx->charges[i].cost != 0) {
        out->soft = true;
        g->results[g->rule_of[i]] |= RN_RESULT_SOFT;
    }
    if (verdict->delay_ns > 0)
        g->results[g->rule_of[i]] |= RN_RESULT_DELAYED;
    if (verdict->delay_ns > out->delay_ns) {
        out->delay_ns = verdict->delay_ns;
        out->hold = rule->hold;
    }
}

/* --- lists ---------------------------------------------------------------------------- */

static inline void set_limit(struct ration_outcome_limit *to, const struct rn_rule *rule,
                             const struct rn_limit *limit, const struct ration_verdict *verdict)
{
    memcpy(to->rule, rule->title, sizeof to->rule);
    to->verdict = *verdict;
    to->algorithm = limit->algorithm;
    to->amount = limit->amount;
    to->period_ns = limit->algorithm == RATION_CONCURRENCY ? 0 : limit->period_ns;
    to->shadow = false;
}

static inline void list_limit(struct ration_outcome_limit *to, const struct rn_gathered *g,
                              size_t i)
{
    set_limit(to, g->rules[g->rule_of[i]].rule, &g->limits[i]->limit, &g->charges[i].verdict);
    to->shadow = g->tx.items[i].shadow || g->all_shadow;
}

/* The first ones have been listed, in the order of the rules; the decisive one takes
 * the place of the last if need be. */
static void list_decider(struct ration_outcome *out, const struct rn_gathered *g)
{
    int decider = g->tx.decision.decided_by;

    if (rn_unlikely(decider >= (int)RATION_OUTCOME_LIMITS)) {
        list_limit(&out->limits[RATION_OUTCOME_LIMITS - 1], g, (size_t)decider);
        decider = RATION_OUTCOME_LIMITS - 1;
    }
    out->decision.decided_by = decider;
}

static void list_place(struct ration_outcome *out, const struct rn_gathered *g, size_t i)
{
    const struct rn_limit *limit = &g->tx.items[i].limit->limit;

    out->lease = g->lease;
    out->places[out->place_count].hash = g->charges[i].hash;
    out->places[out->place_count].amount = limit->amount;
    out->places[out->place_count++].lease_ns = limit->lease_ns;
}

static struct ration_receipt receipt_of(const struct rn_gathered *g, size_t i, uint64_t taken)
{
    const struct rn_compiled *l = g->tx.items[i].limit;

    return (struct ration_receipt){.hash = g->charges[i].hash,
                                   .salt = l->salt,
                                   .cap = l->limit.cap,
                                   .taken = taken,
                                   .mark = g->charges[i].mark};
}

/* A shadow limit without room is not charged later, as it would not be now. */
static void list_due(struct ration_outcome *out, const struct rn_gathered *g, size_t i)
{
    const struct ration_charge *c = &g->charges[i];

    if (c->cost != 0 && c->verdict.allowed && !g->tx.look_only)
        out->dues[out->due_count++] = receipt_of(g, i, c->cost);
}

static void list_receipt(struct ration_outcome *out, const struct rn_gathered *g, size_t i)
{
    uint64_t taken = g->charges[i].taken;

    if (rn_unlikely(g->tx.items[i].by_outcome))
        list_due(out, g, i);
    else if (taken != 0 && rn_unlikely(g->tx.items[i].lease != 0))
        list_place(out, g, i);
    else if (taken != 0)
        out->receipts[out->receipt_count++] = receipt_of(g, i, taken);
}

static enum ration_header_family headers_of(enum rn_header_family headers)
{
    switch (headers) {
    case RN_HEADERS_X:
        return RATION_HEADERS_X;
    case RN_HEADERS_IETF:
        return RATION_HEADERS_IETF;
    case RN_HEADERS_BOTH:
        return RATION_HEADERS_BOTH;
    case RN_HEADERS_NONE:
        break;
    }
    return RATION_HEADERS_NONE;
}

RN_HOT void rn_outcome_name(struct ration_outcome *out, const struct rn_rule *rule)
{
    memcpy(out->rule, rule->title, sizeof out->rule);
    rn_slice_copy(out->message, sizeof out->message, rule->response.message);
    out->status = rule->response.status;
    out->headers = headers_of(rule->response.headers);
    out->retryafter = rule->response.retryafter;
}

/* Where no limit decided (all unlimited, or in shadow mode), the first rule speaks. */
static const struct rn_rule *speaker(const struct rn_gathered *g)
{
    int decider = g->tx.decision.decided_by;

    return g->rules[decider < 0 ? 0 : g->rule_of[decider]].rule;
}

/* --- the outcome ------------------------------------------------------------------------ */

/* Returns what any of the rules has said. */
static unsigned tell_limits(struct ration_outcome *out, struct rn_gathered *g)
{
    bool allowed = g->tx.decision.allowed;
    unsigned all = 0;

    for (uint32_t i = 0; i < g->rule_count; i++)
        g->results[i] = 0;
    for (size_t i = 0; i < g->tx.n; i++) {
        unsigned results = result_of(g, i);

        g->results[g->rule_of[i]] |= (uint8_t)results;
        all |= results;
        if (allowed)
            add_delay(out, g, i);
        if (i < RATION_OUTCOME_LIMITS)
            list_limit(&out->limits[out->listed++], g, i);
        if (allowed)
            list_receipt(out, g, i);
    }
    return all;
}

/* The whole service in shadow mode: counted as if it were enforced. */
static void forgive(struct ration_outcome *out)
{
    out->shadow_refused |= !out->decision.allowed;
    out->decision.allowed = out->decision.verdict.allowed = true;
    out->decision.verdict.retry_after_ns = out->decision.verdict.delay_ns = 0;
}

RN_HOT void rn_outcome_fill(struct ration_outcome *out, struct rn_gathered *g)
{
    if (g->rule_count == 0) {
        rn_outcome_init(out, RATION_BY_NO_RULE);
        return;
    }
    clear(out, RATION_BY_LIMITS);
    out->decision = g->tx.decision;
    out->limit_count = (uint32_t)g->tx.n;
    unsigned results = tell_limits(out, g);

    list_decider(out, g);
    rn_outcome_name(out, speaker(g));
    if (out->decision.allowed) {
        out->at_ns = g->tx.now_ns;
        out->shadow_refused = (results & RN_RESULT_SHADOWED) != 0;
        out->decision.verdict.delay_ns = out->delay_ns;
    }
    if (rn_unlikely(g->all_shadow))
        forgive(out);
}

RN_HOT void rn_outcome_admit(struct ration_outcome *out, const struct rn_rule *rule,
                             const struct rn_compiled *l, const struct rn_charge *charge)
{
    clear(out, RATION_BY_LIMITS);
    out->decision.allowed = true;
    out->decision.decided_by = 0;
    rn_verdict_set(&out->decision.verdict, l, &charge->answer);
    out->limit_count = out->listed = out->receipt_count = 1;
    set_limit(&out->limits[0], rule, &l->limit, &out->decision.verdict);
    out->receipts[0] = (struct ration_receipt){.hash = charge->key,
                                               .salt = l->salt,
                                               .cap = l->limit.cap,
                                               .taken = charge->ask.cost,
                                               .mark = charge->answer.mark};
    out->at_ns = charge->ask.now_ns;
    rn_outcome_name(out, rule);
}

int ration_outcome_release(struct ration *r, struct ration_outcome *out, int64_t now_ns)
{
    int first = 0;

    now_ns = rn_limiter_now(r, now_ns);
    for (uint32_t i = 0; i < out->place_count; i++) {
        int code = rn_limiter_lease_change(r, RN_RELEASE, out->lease, &out->places[i], 0, now_ns);

        first = first ? first : code;
    }
    out->place_count = 0;
    out->lease = 0;
    return first;
}

int ration_outcome_give_back(struct ration *r, struct ration_outcome *out, int64_t now_ns)
{
    now_ns = rn_limiter_now(r, now_ns);
    int released = ration_outcome_release(r, out, now_ns);
    int code = rn_receipt_give_back(r, out->receipts, out->receipt_count, out->at_ns, 0, now_ns);

    out->receipt_count = 0;
    return code != 0 || released == RATION_EGONE ? code : released;
}

int ration_outcome_charge(struct ration *r, struct ration_outcome *out, unsigned status,
                          int64_t now_ns, uint32_t *count)
{
    struct rn_charge_later due = {.items = out->dues, .count = out->due_count};

    out->due_count = 0;
    return rn_charge_later_run(r, &due, status, now_ns, count);
}
