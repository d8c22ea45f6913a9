/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The outcome of a request under rules; and giving back what was charged for it.
 */
#include <string.h>

#include "limiter/decide/fast_path.h"
#include "limiter/decide/gather.h"
#include "limiter/limiter.h"
#include "limiter/line/gate.h"
#include "limiter/tickets/charge_later.h"
#include "limiter/tickets/receipt.h"

#define STATUS_REFUSED 429
#define STATUS_DENIED 403

/* All but the decision. */
static void clear(struct ration_outcome *out, enum ration_outcome_kind kind)
{
    out->kind = kind;
    out->soft = out->shadow_refused = out->hold = out->retryafter = out->in_line = false;
    out->waited_ns = out->delay_ns = out->shadow_delay_ns = 0;
    out->rule[0] = out->message[0] = '\0';
    out->status = kind == RATION_BY_DENY_LIST ? STATUS_DENIED : STATUS_REFUSED;
    out->level = 0;
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

void rn_outcome_banned(struct ration_outcome *out, const struct rn_rule *rule,
                       const struct rn_reputation_ban *ban)
{
    rn_outcome_init(out, RATION_BY_ESCALATION);
    rn_outcome_name(out, rule);
    out->status = rule->response.status_given ? rule->response.status : STATUS_DENIED;
    out->level = (uint16_t)ban->level;
    out->decision.allowed = out->decision.verdict.allowed = false;
    out->decision.verdict.limit = out->decision.verdict.remaining = 0;
    out->decision.verdict.retry_after_ns = ban->rest_ns;
}

void rn_outcome_paused(struct ration_outcome *out, const struct rn_rule *rule, int64_t rest_ns)
{
    rn_outcome_init(out, RATION_BY_PAUSE);
    rn_outcome_name(out, rule);
    out->decision.allowed = out->decision.verdict.allowed = false;
    out->decision.verdict.limit = out->decision.verdict.remaining = 0;
    out->decision.verdict.retry_after_ns = out->decision.verdict.reset_after_ns = rest_ns;
}

/* --- soft limits, throttling --------------------------------------------------------- */

/* Units left after this request. Whether a charge by outcome will be made is not known yet. */
static uint64_t left_after(const struct rn_transaction *tx, size_t i)
{
    uint64_t left = tx->items[i].answer.remaining, cost = tx->charges[i].cost;

    if (!tx->look_only || tx->items[i].by_outcome)
        return left;
    return left > cost ? left - cost : 0;
}

/* There is no delay up to `from` of the limit as written. From there on the delay grows in
 * proportion, up to max_ns where the limit is reached; without max_ns it is as long as the limit
 * takes to refill what lies above `from`. Reckoned in nanoseconds of refill, below 2^61, or in
 * hundredths of a unit, below 2^58: a product with a time fits. */
static RN_ASIDE int64_t throttle_ns(const struct rn_transaction *tx, size_t i,
                                    const struct rn_throttle *throttle)
{
    const struct rn_limit *l = &tx->items[i].limit->limit;
    bool paces = rn_throttle_can_pace(l);
    u128 full = paces ? (uint64_t)l->full_ns : (u128)l->cap * 100;
    u128 written, from, spent;
    uint64_t left = left_after(tx, i);

    if (l->cap == 0)
        return 0;
    written = full * (l->cap - tx->items[i].soft) / l->cap;
    from = throttle->from_units != 0
               ? full * throttle->from_units / (l->percent ? l->written_cap : l->cap)
               : written * throttle->from_percent / 100;
    spent = full * (left < l->cap ? l->cap - left : 0) / l->cap;
    if (paces) {
        /* The time to full is exact to the nanosecond. Where it does not agree with the units
         * (another node's bucket, a share of it), whole units count, as for all other limits. */
        u128 exact = (u128)(uint64_t)tx->items[i].answer.reset_after_ns, unit = full / l->cap;

        if (tx->look_only && !tx->items[i].by_outcome)
            exact += unit * tx->charges[i].cost;
        spent = exact <= spent && exact + unit > spent ? exact : spent;
    }
    if (spent <= from)
        return 0;
    if (throttle->max_ns == 0)
        return paces ? (int64_t)(spent - from) : 0;
    if (spent >= written)
        return throttle->max_ns;
    return (int64_t)((spent - from) * (uint64_t)throttle->max_ns / (written - from));
}

/* Whether an admission is soft, and how long it must wait; sets the delay of the limit's verdict,
 * too. */
static void add_delay(struct ration_outcome *out, struct rn_gathered *g, size_t i)
{
    const struct rn_transaction *tx = &g->tx;
    const struct rn_rule *rule = g->rules[g->rule_of[i]].rule;
    struct ration_verdict *verdict = &g->charges[i].verdict;
    uint8_t *result = &g->results[g->rule_of[i]];

    if (rn_unlikely(g->charges[i].error != 0 || !verdict->allowed))
        return;
    if (rn_unlikely(rule->throttle.on)) {
        int64_t throttled_ns = throttle_ns(tx, i, &rule->throttle);

        if (tx->waited_ns != 0 && rn_gate_rest_ns(tx, i) < throttled_ns)
            throttled_ns = rn_gate_rest_ns(tx, i);
        if (verdict->delay_ns < throttled_ns)
            verdict->delay_ns = throttled_ns;
    }
    if (rn_unlikely(tx->items[i].shadow || g->all_shadow)) {
        if (verdict->delay_ns > 0)
            *result |= RN_RESULT_SHADOW_DELAYED;
        if (verdict->delay_ns > out->shadow_delay_ns)
            out->shadow_delay_ns = verdict->delay_ns;
        return;
    }
    if (left_after(tx, i) < tx->items[i].soft && tx->charges[i].cost != 0) {
        out->soft = true;
        *result |= RN_RESULT_SOFT;
    }
    if (verdict->delay_ns > 0)
        *result |= RN_RESULT_DELAYED;
    if (verdict->delay_ns > out->delay_ns) {
        out->delay_ns = verdict->delay_ns;
        out->hold = rule->hold;
    }
}

/* --- lists ---------------------------------------------------------------------------- */

/* All but the verdict; the period is that of a limit that counts. */
static inline void set_limit(struct ration_outcome_limit *to, const struct rn_rule *rule,
                             const struct rn_limit *limit)
{
    memcpy(to->rule, rule->title, sizeof to->rule);
    to->algorithm = limit->algorithm;
    to->amount = limit->amount;
    to->period_ns = limit->period_ns;
    to->shadow = false;
}

static inline void list_limit(struct ration_outcome_limit *to, const struct rn_gathered *g,
                              size_t i)
{
    set_limit(to, g->rules[g->rule_of[i]].rule, &g->tx.items[i].limit->limit);
    to->verdict = g->charges[i].verdict;
    if (to->algorithm == RATION_CONCURRENCY)
        to->period_ns = 0;
    to->shadow = g->tx.items[i].shadow || g->all_shadow;
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
static void list_receipt(struct ration_outcome *out, const struct rn_gathered *g, size_t i)
{
    const struct rn_transaction_item *item = &g->tx.items[i];
    const struct ration_charge *c = &g->charges[i];

    if (rn_unlikely(item->by_outcome)) {
        if (c->cost != 0 && c->verdict.allowed && !g->tx.look_only)
            out->dues[out->due_count++] = receipt_of(g, i, c->cost);
    } else if (c->taken != 0 && rn_unlikely(item->lease != 0)) {
        out->lease = g->lease;
        out->places[out->place_count++] =
            (struct ration_place){.hash = c->hash,
                                  .amount = (uint32_t)item->limit->limit.amount,
                                  .adaptive_min = rn_limiter_adaptive_min(&item->limit->limit),
                                  .lease_ns = item->limit->limit.lease_ns};
    } else if (c->taken != 0) {
        out->receipts[out->receipt_count++] = receipt_of(g, i, c->taken);
    }
}

/* A rule whose usage is counted has a receipt for that, beside those of its limits. */
static RN_ASIDE void list_usage(struct ration_outcome *out, const struct rn_gathered *g)
{
    for (uint32_t i = 0; i < g->rule_count && !g->tx.look_only; i++) {
        const struct rn_applied *a = &g->rules[i];
        const struct rn_usage_rule *usage = rn_usage_of(g->book, a->rule);

        if (!usage || a->cost == 0 || a->refund)
            continue;
        if (a->rule->by_outcome)
            out->dues[out->due_count++] = rn_usage_receipt(usage, a->hash, a->cost);
        else
            out->receipts[out->receipt_count++] = rn_usage_receipt(usage, a->hash, a->cost);
    }
    out->at_ns = g->tx.now_ns;
}

RN_INLINE static void set_name(struct ration_outcome *out, const struct rn_rule *rule)
{
    static const enum ration_header_family headers[] = {[RN_HEADERS_X] = RATION_HEADERS_X,
                                                        [RN_HEADERS_IETF] = RATION_HEADERS_IETF,
                                                        [RN_HEADERS_BOTH] = RATION_HEADERS_BOTH,
                                                        [RN_HEADERS_NONE] = RATION_HEADERS_NONE};

    memcpy(out->rule, rule->title, sizeof out->rule);
    out->message[0] = '\0';
    if (rn_unlikely(rule->response.message.len != 0))
        rn_slice_copy(out->message, sizeof out->message, rule->response.message);
    out->status = rule->response.status;
    out->headers = headers[rule->response.headers];
    out->retryafter = rule->response.retryafter;
}

RN_HOT void rn_outcome_name(struct ration_outcome *out, const struct rn_rule *rule)
{
    set_name(out, rule);
}

/* --- the outcome ------------------------------------------------------------------------ */

static void list_limits(struct ration_outcome *out, struct rn_gathered *g)
{
    bool allowed = g->tx.decision.allowed;

    for (uint32_t i = 0; i < g->rule_count; i++)
        g->results[i] = 0;
    for (size_t i = 0; i < g->tx.n; i++) {
        const struct ration_verdict *verdict = &g->charges[i].verdict;
        uint8_t *result = &g->results[g->rule_of[i]];
        bool shadow = g->tx.items[i].shadow;

        if (rn_likely(g->charges[i].error == 0)) {
            if (!verdict->allowed)
                *result |= shadow ? RN_RESULT_SHADOWED : RN_RESULT_REFUSED;
            else if (!shadow && rn_gather_is_near(verdict))
                *result |= RN_RESULT_NEAR;
            out->shadow_refused |= allowed && shadow && !verdict->allowed;
        }
        if (allowed)
            add_delay(out, g, i);
        if (i < RATION_OUTCOME_LIMITS && rn_likely(!g->tx.unasked))
            list_limit(&out->limits[out->listed++], g, i);
        if (allowed)
            list_receipt(out, g, i);
    }
}

RN_HOT void rn_outcome_fill(struct ration_outcome *out, struct rn_gathered *g)
{
    int decider = g->tx.decision.decided_by;

    if (g->rule_count == 0) {
        rn_outcome_init(out, RATION_BY_NO_RULE);
        return;
    }
    clear(out, RATION_BY_LIMITS);
    out->decision = g->tx.decision;
    out->limit_count = (uint32_t)g->tx.n;
    out->in_line = g->tx.in_line;
    out->waited_ns = g->tx.waited_ns;
    list_limits(out, g);
    /* If no limit decided (all are unlimited, or in shadow mode), the first rule gives its name. */
    rn_outcome_name(out, g->rules[decider < 0 ? 0 : g->rule_of[decider]].rule);
    if (rn_unlikely(g->tx.unasked)) { /* of the others nothing is known */
        out->decision.decided_by = 0;
        out->limit_count = out->listed = 1;
        list_limit(&out->limits[0], g, (size_t)decider);
    } else if (rn_unlikely(decider >= (int)RATION_OUTCOME_LIMITS)) { /* in the place of the last */
        out->decision.decided_by = RATION_OUTCOME_LIMITS - 1;
        list_limit(&out->limits[RATION_OUTCOME_LIMITS - 1], g, (size_t)decider);
    }
    if (out->decision.allowed) {
        out->at_ns = g->tx.now_ns;
        out->decision.verdict.delay_ns = out->delay_ns;
    }
    if (rn_unlikely(g->all_shadow)) { /* the whole service is in shadow mode */
        out->shadow_refused |= !out->decision.allowed;
        out->decision.allowed = out->decision.verdict.allowed = true;
        out->decision.verdict.retry_after_ns = out->decision.verdict.delay_ns = 0;
    }
    if (rn_unlikely(g->usage_count != 0) && out->decision.allowed)
        list_usage(out, g);
}

/* Inlined once for one limit, and once for any number. */
RN_INLINE static void fill_charged(struct ration_outcome *out, const struct rn_fast_path *f,
                                   uint32_t n)
{
    struct rn_verdict_choice choice = RN_VERDICT_NO_CHOICE;

    clear(out, RATION_BY_LIMITS);
    for (uint32_t i = 0; i < n; i++) {
        const struct rn_compiled *l = f->limits[i];
        const struct rn_charge *charge = &f->charges[i];
        struct ration_outcome_limit *to = &out->limits[i];

        set_limit(to, f->matches[i]->rule, &l->limit);
        rn_verdict_set(&to->verdict, l, &charge->answer);
        if (n > 1)
            rn_verdict_consider(&choice, (int)i, &to->verdict, f->allowed);
        else
            choice = (struct rn_verdict_choice){&to->verdict, 0, 0};
        if (rn_likely(f->allowed && charge->ask.cost != 0))
            out->receipts[out->receipt_count++] =
                (struct ration_receipt){.hash = charge->key,
                                        .salt = l->salt,
                                        .cap = l->limit.cap,
                                        .taken = charge->ask.cost,
                                        .mark = charge->answer.mark};
    }
    out->limit_count = out->listed = n;
    rn_verdict_choose(&out->decision, &choice, f->allowed);
    if (rn_likely(f->allowed))
        out->at_ns = f->charges[0].ask.now_ns;
    set_name(out, f->matches[choice.at]->rule);
}

static RN_ASIDE void fill_several(struct ration_outcome *out, const struct rn_fast_path *f)
{
    fill_charged(out, f, f->n);
}

RN_HOT void rn_outcome_charged(struct ration_outcome *out, const struct rn_fast_path *f)
{
    if (rn_likely(f->n == 1))
        fill_charged(out, f, 1);
    else
        fill_several(out, f);
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
    struct rn_charge_later due = {.items = out->dues, .count = out->due_count, .at_ns = out->at_ns};

    out->due_count = 0;
    return rn_charge_later_run(r, &due, status, now_ns, count);
}
