/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/line/gate.h"

#include "limiter/decide/fast_path.h"
#include "limiter/line/claims.h"
#include "limiter/line/line_internal.h"

/* A claim lasts so much longer than the wait that it bridges: timers fire late. */
#define CLAIM_MORE_NS INT64_C(100000000)
/* Places come back unseen: nobody knows when. A claim lasts until they are looked for again. */
#define CLAIM_PLACES_NS INT64_C(500000000)

/* A refusal at the last moment: others go first, or the rest of a wait has just passed. */
#define RETRY_SOON_NS INT64_C(1000000)

/* As its owner may see it: before `turn` is called, it stands in line. */
static enum rn_waiter_state state_of(const struct ration_waiter *waiter)
{
    const struct rn_waiter *w = (const void *)waiter;
    uint8_t state = w ? __atomic_load_n(&w->state, __ATOMIC_ACQUIRE) : (uint8_t)RN_WAITER_IDLE;

    return state == RN_WAITER_CALLED ? RN_WAITER_STANDS : (enum rn_waiter_state)state;
}

bool rn_gate_is_awaited(const struct ration_waiter *waiter)
{
    return state_of(waiter) == RN_WAITER_STANDS;
}

/* --- how long ---------------------------------------------------------------------------- */

/* A queue (leaky bucket) that has just got room for these units tells this delay. */
static int64_t told_ns(const struct rn_limit *limit, uint64_t units)
{
    if (limit->algorithm != RATION_LEAKY_BUCKET || limit->cap == 0 || units >= limit->cap)
        return 0;
    return (int64_t)((u128)(uint64_t)limit->full_ns * (limit->cap - units) / limit->cap);
}

/* The longest wait that limit and caller agree on, in line and for a told delay. 0: none. */
static int64_t longest_ns(const struct rn_transaction *tx, size_t i)
{
    const struct rn_transaction_item *item = &tx->items[i];
    bool queue = item->limit->limit.algorithm == RATION_LEAKY_BUCKET;
    bool by_call = tx->max_wait_ns > 0 && !tx->wait_is_bound && !queue;

    /* What is charged by its outcome has no room taken: all that wait would go ahead together. */
    if ((item->line_size == 0 && !by_call) || item->by_outcome)
        return 0;
    int64_t longest = item->line_size != 0 ? item->line_wait_ns : INT64_MAX;

    return tx->max_wait_ns > 0 && tx->max_wait_ns < longest ? tx->max_wait_ns : longest;
}

int64_t rn_gate_rest_ns(const struct rn_transaction *tx, size_t i)
{
    int64_t longest = longest_ns(tx, i);

    return longest > tx->waited_ns ? longest - tx->waited_ns : 0;
}

/* Whether time cures the refusal by this item, and for how long it can be waited for. */
static bool can_wait(const struct rn_transaction *tx, size_t i, int64_t *line_ns)
{
    const struct rn_transaction_item *item = &tx->items[i];

    *line_ns = longest_ns(tx, i);
    if (*line_ns == 0 || item->refused_by_delay || item->answer.retry_after_ns == RATION_NEVER)
        return false;
    *line_ns -= told_ns(&item->limit->limit, tx->charges[i].cost);
    return *line_ns > 0;
}

/* --- before: others go first ------------------------------------------------------------- */

static bool may_meet_line(const struct rn_transaction *tx, size_t i)
{
    const struct rn_transaction_item *item = &tx->items[i];

    return !item->shadow && !item->past_lines && tx->charges[i].cost != 0 &&
           rn_lines_may_stand(tx->r->lines, item->key);
}

bool rn_gate_is_held(const struct rn_transaction *tx, size_t i, int64_t *wait_ns)
{
    const struct rn_transaction_item *item = &tx->items[i];

    return may_meet_line(tx, i) && rn_lines_is_ahead(tx->r->lines, item->key, tx->charges[i].cost,
                                                     item->rank, tx->waiter, tx->now_ns, wait_ns);
}

/* Units that those before this request claim must be left to them. Where there is no room for both
 * even if nothing is spent, the request is held up. */
static bool heed_claims(struct rn_transaction *tx, size_t i)
{
    struct rn_transaction_item *item = &tx->items[i];
    uint64_t cost = tx->charges[i].cost, cap = item->limit->limit.cap;
    int64_t rest_ns;

    if (!may_meet_line(tx, i))
        return false;
    uint64_t claimed =
        rn_claims_before(tx->r->lines, item->key, item->rank, tx->waiter, tx->now_ns, &rest_ns);

    if (claimed <= item->keep)
        return false;
    item->claim_ns = rest_ns > RETRY_SOON_NS ? rest_ns : RETRY_SOON_NS;
    item->own_keep = item->keep;
    if (claimed > cap || cost > cap - claimed) {
        item->held_ns = item->claim_ns;
        return true;
    }
    item->keep = claimed;
    tx->needs |= RN_NEEDS_LOOK;
    return false;
}

RN_ASIDE bool rn_gate_stops(const struct ration *r, const struct rn_fast_path *f)
{
    for (uint32_t i = 0; i < f->n; i++)
        if (rn_gate_stands_if(r, f->charges[i].key, true))
            return true;
    return false;
}

/* The answers of limits that are not asked. What can never fit must not wait for its turn. */
static void answer_unasked(struct rn_transaction *tx)
{
    for (size_t i = 0; i < tx->n; i++) {
        struct rn_transaction_item *item = &tx->items[i];
        const struct rn_limit *limit = &item->limit->limit;
        uint64_t units = tx->charges[i].cost + item->keep;

        if (units > limit->cap && rn_limit_beyond_ns(limit, units) == RN_NEVER) {
            item->answer = (struct rn_answer){.retry_after_ns = RN_NEVER};
            continue;
        }
        item->answer = item->held_ns == 0 ? (struct rn_answer){.allowed = true,
                                                               .remaining = item->limit->limit.cap}
                                          : (struct rn_answer){.retry_after_ns = item->held_ns,
                                                               .reset_after_ns = item->held_ns};
    }
    tx->unasked = true;
    rn_verdict_decide(tx, false);
}

/* Whether a line, or what the caller has found, holds the request up. */
static bool is_held(struct rn_transaction *tx)
{
    bool held = tx->held;

    for (size_t i = 0; i < tx->n; i++) {
        struct rn_transaction_item *item = &tx->items[i];
        int64_t wait_ns;

        if (rn_gate_is_held(tx, i, &wait_ns)) {
            wait_ns = wait_ns > RETRY_SOON_NS ? wait_ns : RETRY_SOON_NS;
            item->held_ns = wait_ns > item->held_ns ? wait_ns : item->held_ns;
        } else if (!heed_claims(tx, i)) {
            continue;
        }
        held = tx->in_line = true;
    }
    return held;
}

/* --- after: standing in line --------------------------------------------------------------- */

static int64_t arrival_ns(const struct rn_transaction *tx)
{
    return state_of(tx->waiter) == RN_WAITER_IDLE ? tx->now_ns : rn_lines_arrived_ns(tx->waiter);
}

static enum rn_line_steps steps_of(const struct rn_transaction *tx, unsigned flags)
{
    if (!tx->r->fallback || (flags & (RN_CHARGE_LEASED | RN_CHARGE_ASYNC)))
        return RN_STEPS_LOCAL;
    if (tx->needs & (RN_NEEDS_INHERIT | RN_NEEDS_VARIANTS | RN_NEEDS_OUTCOME))
        return RN_STEPS_MORE;
    return tx->n > 1 || (tx->needs & RN_NEEDS_LOOK) ? RN_STEPS_LOOK : RN_STEPS_TAKE;
}

static struct rn_line_refusal refusal_of(const struct rn_transaction *tx, size_t i)
{
    const struct rn_transaction_item *item = &tx->items[i];
    struct rn_line_refusal refusal = {
        .key = item->key,
        .limit = &item->limit->limit,
        .units = tx->charges[i].cost,
        .keep = item->claim_ns != 0 ? item->own_keep : item->keep,
        .rank = item->rank,
        .size = item->line_size != 0 ? item->line_size : RN_GATE_LINE_SIZE,
        .by_line = tx->in_line && item->claim_ns == 0,
        .inexact = tx->held || item->ask_guards || item->floor != 0 || item->claim_ns != 0,
        .claimed = item->claim_ns != 0,
        .steps = steps_of(tx, item->limit->charge_flags),
        .polls = item->limit->limit.algorithm == RATION_CONCURRENCY || tx->held};

    rn_verdict_set(&refusal.verdict, item->limit, &item->answer);
    if (item->claim_ns != 0 && item->claim_ns < refusal.verdict.retry_after_ns)
        refusal.verdict.retry_after_ns = item->claim_ns;
    return refusal;
}

/* Whether nobody goes before this request, for none of its limits. */
static bool is_first(const struct rn_transaction *tx)
{
    bool first = !tx->in_line && !tx->held;

    for (size_t i = 0; i < tx->n; i++)
        first &= tx->items[i].claim_ns == 0;
    return first;
}

/* Stands in the line of item `at`, refused. If nobody goes before it, it has its turn there after
 * the time told, and claims what it needs by then of slower limits. */
static void claim_slower(struct rn_transaction *tx, size_t at, bool was_first)
{
    const struct rn_waiter *w = (const void *)tx->waiter;
    const struct rn_transaction_item *stands = &tx->items[at];
    bool claims = was_first && w->moves >= RN_CLAIMS_AFTER;
    int64_t rest_ns = stands->answer.retry_after_ns;

    if (rn_form_is_places(stands->limit->limit.form) && rest_ns > CLAIM_PLACES_NS)
        rest_ns = CLAIM_PLACES_NS;
    int64_t ends_ns = rest_ns < RATION_NEVER - CLAIM_MORE_NS - tx->now_ns
                          ? tx->now_ns + rest_ns + CLAIM_MORE_NS
                          : RATION_NEVER;

    for (size_t i = 0; claims && i < tx->n; i++) {
        const struct rn_transaction_item *item = &tx->items[i];

        if (!item->shadow && !item->by_outcome && !item->past_lines && tx->charges[i].cost != 0 &&
            rn_claims_is_slower(&item->limit->limit, item->key, &stands->limit->limit, stands->key))
            rn_claims_set(tx->r->lines, tx->waiter, item->key, tx->charges[i].cost + item->keep,
                          item->rank, ends_ns);
    }
    rn_claims_drop(tx->r->lines, tx->waiter, false);
}

/* Of a request that is refused, and not for good. True: it stands in line, or `error` is set. */
static bool stand_in_line(struct rn_transaction *tx)
{
    int64_t longest = INT64_MAX, line_ns;
    int at = tx->decision.decided_by;

    if (!tx->waiter || tx->past_lines || at < 0 || state_of(tx->waiter) == RN_WAITER_OVER)
        return false;
    for (size_t i = 0; i < tx->n; i++) {
        if (tx->items[i].shadow || tx->items[i].answer.allowed)
            continue;
        if (!can_wait(tx, i, &line_ns))
            return false;
        longest = line_ns < longest ? line_ns : longest;
    }
    if (!tx->waiter->waiting || !tx->waiter->turn)
        return !rn_transaction_fail(tx, (size_t)at, RATION_EINVAL);
    struct rn_line_refusal refusal = refusal_of(tx, (size_t)at);
    bool was_first = is_first(tx);
    int64_t arrived_ns = arrival_ns(tx), wait_ns;
    enum rn_line_answer answer = rn_lines_join(
        tx->r->lines, tx->waiter, &refusal,
        longest < INT64_MAX - arrived_ns ? arrived_ns + longest : INT64_MAX, tx->now_ns);

    tx->in_line = true;
    if (answer == RN_LINE_JOINED) {
        claim_slower(tx, (size_t)at, was_first);
        tx->error = RATION_EWAITS;
        return true;
    }
    if (rn_lines_is_ahead(tx->r->lines, refusal.key, refusal.units, refusal.rank, NULL, tx->now_ns,
                          &wait_ns) &&
        wait_ns > tx->items[at].answer.retry_after_ns)
        tx->items[at].answer.retry_after_ns = wait_ns;
    return false;
}

/* --- the turn ------------------------------------------------------------------------------ */

/* Delays that limits tell must fit into what is left of the wait. */
static void begin_turn(struct rn_transaction *tx)
{
    uint64_t key = rn_lines_key(tx->waiter);
    int64_t waited_ns = tx->now_ns - rn_lines_arrived_ns(tx->waiter);

    tx->waited_ns = waited_ns > 0 ? waited_ns : 1;
    tx->waited_at = -1;
    for (size_t i = tx->n; i-- > 0;) {
        struct rn_transaction_item *item = &tx->items[i];

        if (item->key == key && !item->shadow)
            tx->waited_at = (int)i;
        if (item->max_wait_ns != 0)
            item->max_wait_ns =
                item->max_wait_ns > tx->waited_ns ? item->max_wait_ns - tx->waited_ns : 1;
    }
}

/* The last refusal still tells when the limit has room. */
static void refuse_for_good(struct rn_transaction *tx)
{
    struct rn_transaction_item *item = &tx->items[tx->waited_at];
    const struct rn_waiter *w = (const void *)tx->waiter;
    int64_t rest_ns = w->verdict.retry_after_ns - (tx->now_ns - w->joined_ns), wait_ns;

    if (rn_lines_is_ahead(tx->r->lines, item->key, tx->charges[tx->waited_at].cost, item->rank,
                          NULL, tx->now_ns, &wait_ns) &&
        wait_ns > rest_ns)
        rest_ns = wait_ns;
    item->held_ns = rest_ns > RETRY_SOON_NS ? rest_ns : RETRY_SOON_NS;
    answer_unasked(tx);
    tx->in_line = true;
}

static void end_turn(struct rn_transaction *tx, bool allowed)
{
    bool known = allowed && tx->waited_at >= 0;
    struct ration_verdict left;

    if (known)
        rn_verdict_set(&left, tx->items[tx->waited_at].limit, &tx->items[tx->waited_at].answer);
    rn_lines_finish(tx->r->lines, tx->waiter, allowed || tx->past_lines, known ? &left : NULL,
                    tx->now_ns);
}

/* What a newcomer would be told, but the limits are asked what they have left. */
static bool look(struct rn_transaction *tx)
{
    int64_t wait_ns;

    if (tx->held) {
        answer_unasked(tx);
        return false;
    }
    for (size_t i = 0; !tx->past_lines && i < tx->n; i++)
        (void)heed_claims(tx, i);
    bool allowed = rn_transaction_charge(tx);

    for (size_t i = 0; tx->error == 0 && !tx->past_lines && i < tx->n; i++) {
        struct rn_answer *answer = &tx->items[i].answer;

        if (!rn_gate_is_held(tx, i, &wait_ns) && (wait_ns = tx->items[i].held_ns) == 0)
            continue;
        wait_ns = wait_ns > RETRY_SOON_NS ? wait_ns : RETRY_SOON_NS;
        answer->allowed = allowed = false;
        answer->delay_ns = 0;
        answer->retry_after_ns =
            answer->retry_after_ns > wait_ns ? answer->retry_after_ns : wait_ns;
        tx->in_line = true;
    }
    return allowed;
}

RN_ASIDE bool rn_gate_charge(struct rn_transaction *tx)
{
    enum rn_waiter_state state = state_of(tx->waiter);
    bool allowed = false;

    if (tx->late)
        return rn_transaction_charge(tx);
    if (tx->look_only)
        return look(tx);
    if (state == RN_WAITER_STANDS) {
        tx->error = RATION_EWAITS;
        return false;
    }
    if (state != RN_WAITER_IDLE)
        begin_turn(tx);
    if (state == RN_WAITER_OVER && tx->waited_at >= 0 && !tx->past_lines) {
        refuse_for_good(tx);
    } else if (!tx->past_lines && is_held(tx)) {
        answer_unasked(tx);
        if (stand_in_line(tx))
            return false;
        if (tx->held && !tx->uncounted)
            rn_pause_count(tx->r);
    } else {
        allowed = rn_transaction_charge(tx);
        if (!allowed && tx->error == 0 && tx->waiter)
            rn_verdict_decide(tx, false);
        if (!allowed && tx->error == 0 && stand_in_line(tx))
            return false;
    }
    if (state != RN_WAITER_IDLE)
        end_turn(tx, allowed);
    return allowed;
}

bool rn_gate_is_behind(struct rn_transaction *tx)
{
    if (!tx->waiter || tx->waited_ns == 0 || tx->waited_at < 0 ||
        !rn_lines_is_behind(tx->r->lines, tx->waiter))
        return false;
    tx->items[tx->waited_at].answer =
        (struct rn_answer){.retry_after_ns = RETRY_SOON_NS, .reset_after_ns = RETRY_SOON_NS};
    tx->in_line = true;
    return true;
}

void rn_gate_tell(struct ration *r, struct ration_charge *c, int64_t now_ns)
{
    int64_t wait_ns;

    if (c->cost == 0 || !rn_lines_is_ahead(r->lines, c->hash, c->cost, 0, NULL, now_ns, &wait_ns))
        return;
    c->verdict.allowed = false;
    c->verdict.delay_ns = 0;
    if (c->verdict.retry_after_ns < wait_ns)
        c->verdict.retry_after_ns = wait_ns;
}

bool rn_gate_wait_for_pause(struct rn_transaction *tx, size_t first, int64_t rest_ns)
{
    if (!tx->waiter || first >= tx->n)
        return false;
    if (state_of(tx->waiter) != RN_WAITER_IDLE)
        begin_turn(tx);
    tx->items[first].held_ns = rest_ns;
    tx->held = true;
    answer_unasked(tx);
    return stand_in_line(tx);
}

int64_t rn_gate_end_turn(struct ration *r, struct ration_waiter *waiter, int code, bool admitted,
                         int64_t now_ns)
{
    enum rn_waiter_state state = state_of(waiter);

    if (code == RATION_EWAITS || (state != RN_WAITER_TURN && state != RN_WAITER_OVER))
        return 0;
    now_ns = rn_limiter_now(r, now_ns);
    int64_t waited_ns = now_ns - rn_lines_arrived_ns(waiter);

    rn_lines_finish(r->lines, waiter, admitted, NULL, now_ns);
    return waited_ns > 0 ? waited_ns : 1;
}

void rn_gate_poke_all(const struct ration *r, int64_t now_ns)
{
    if (rn_lines_any(r->lines))
        rn_lines_poke_all(r->lines, rn_limiter_now(r, now_ns));
}

void rn_gate_count(const struct rn_transaction *tx, struct rn_counts *row, bool allowed)
{
    struct rn_stripe *s = rn_stats_stripe(&tx->r->stats);

    rn_stats_add(s, allowed ? &s->total.waited : &s->total.wait_timeouts);
    if (row)
        rn_stats_add(s, allowed ? &row->waited : &row->wait_timeouts);
}
