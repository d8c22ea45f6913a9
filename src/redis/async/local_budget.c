/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/async/local_budget.h"

uint64_t rn_local_budget_most(const struct rn_limit *l, unsigned permille, unsigned holders)
{
    uint64_t units = l->cap / 1000 * permille + l->cap % 1000 * permille / 1000;

    units /= holders;
    return units > 0 ? units : 1;
}

/* No view is below -n c, so a bucket must refill (n + 1) c units to be at c. */
int64_t rn_local_budget_settle_ns(const struct rn_limit *l, uint64_t most, unsigned holders)
{
    __extension__ typedef unsigned __int128 wide;
    wide ns;

    if (rn_codec_script(l) == RN_SCRIPT_WINDOW)
        return l->longest_ns;
    if (rn_codec_script(l) == RN_SCRIPT_COUNTER)
        return 2 * l->period_ns;
    ns = (wide)most * (holders + UINT64_C(1)) * (uint64_t)l->period_ns /
             (l->amount ? l->amount : 1) +
         (uint64_t)l->step_ns;
    return ns < INT64_MAX ? (int64_t)ns : RN_NEVER;
}

void rn_local_budget_init(struct rn_local_budget *h, const struct rn_charge *charge,
                          enum rn_local_budget_stage stage, int64_t store_us, int64_t now_ns)
{
    *h = (struct rn_local_budget){.stage = stage, .sent_up_to = charge->ask.now_ns - 1};
    rn_view_init(&h->view, charge->limit, store_us, now_ns);
}

/* --- decisions ----------------------------------------------------------------------------- */

static void answer(const struct rn_local_budget *h, struct rn_charge *charge, int64_t store_us,
                   bool allowed)
{
    const struct rn_view *v = &h->view;
    uint64_t units = rn_local_budget_units(h), cost = charge->ask.cost;
    int64_t left = rn_view_left(v, store_us) - (int64_t)units;

    charge->error = 0;
    charge->answer = (struct rn_answer){
        .allowed = allowed,
        .remaining = left > 0 ? (uint64_t)left : 0,
        .retry_after_ns = allowed         ? 0
                          : cost > v->cap ? rn_limit_beyond_ns(charge->limit, cost)
                                          : rn_view_wait(v, charge->limit, store_us, units, cost),
        .reset_after_ns = rn_view_wait(v, charge->limit, store_us, units, v->cap),
        .mark = rn_view_mark(v, charge->limit, store_us),
        .oldest_ns = RN_NEVER,
    };
}

static bool fits(uint64_t cost, int64_t left)
{
    return cost == 0 || (left > 0 && cost <= (uint64_t)left);
}

/* False: the worker would hold too many units. */
static bool hold(struct rn_local_budget *h, const struct rn_ask *ask, uint64_t units, uint64_t most)
{
    uint64_t held = rn_local_budget_units(h);

    if (units > 0 && (held >= most || units > most - held))
        return false;
    h->unsent += units;
    if (units > 0 && ask->now_ns > h->taken_ns)
        h->taken_ns = ask->now_ns;
    return true;
}

/* Units that are in no report were never charged in Redis: dropping them undoes the take. The time
 * of the take tells whether its units are among them. Units of an earlier take may have been
 * refilled meanwhile; dropping others instead would admit them twice. */
static bool drop(struct rn_local_budget *h, const struct rn_ask *ask)
{
    if (ask->cost == 0 || ask->cost > h->unsent || ask->at_ns <= h->sent_up_to)
        return false;
    h->unsent -= ask->cost;
    return true;
}

bool rn_local_budget_decide(struct rn_local_budget *h, struct rn_charge *charge, int64_t now_ns,
                            uint64_t most)
{
    const struct rn_ask *ask = &charge->ask;
    int64_t store_us = rn_view_time(&h->view, now_ns);
    int64_t left = rn_view_left(&h->view, store_us) - (int64_t)rn_local_budget_units(h);
    uint64_t rest = left > 0 ? (uint64_t)left : 0;
    bool fit = fits(ask->cost, left), allowed = true, here = false;

    if (h->stage == RN_LOCAL_BUDGET_UNKNOWN)
        return false;
    switch (ask->op) {
    case RN_PEEK:
        allowed = fit;
        here = true;
        break;
    case RN_TAKE:
        allowed = fit;
        here = !fit || hold(h, ask, ask->cost, most);
        break;
    case RN_DRAIN:
        allowed = fit;
        here = hold(h, ask, fit ? ask->cost : rest, most);
        break;
    case RN_FORCE:
        here = hold(h, ask, fit ? ask->cost : rest, most);
        break;
    case RN_GIVE_BACK:
        here = drop(h, ask);
        break;
    case RN_OLDEST:
    case RN_DEBIT:
    case RN_CREDIT:
    case RN_RELEASE:
    case RN_RENEW:
    case RN_RESET:
        break;
    }
    if (here)
        answer(h, charge, store_us, allowed);
    if (here && ask->op == RN_DRAIN)
        charge->answer.drained = fit ? 0 : rest;
    return here;
}

/* --- reports -------------------------------------------------------------------------------- */

bool rn_local_budget_is_idle(const struct rn_local_budget *h, int64_t now_ns, uint64_t most)
{
    uint64_t enough = most < h->view.cap ? most : h->view.cap;

    if (h->reporting || rn_local_budget_units(h) > 0 || h->stage == RN_LOCAL_BUDGET_UNKNOWN)
        return false;
    return rn_view_left(&h->view, rn_view_time(&h->view, now_ns)) >= (int64_t)enough;
}

uint64_t rn_local_budget_send(struct rn_local_budget *h)
{
    h->reporting = true;
    h->sent = h->unsent;
    h->unsent = 0;
    h->sent_up_to = h->taken_ns;
    return h->sent;
}

void rn_local_budget_learn(struct rn_local_budget *h, const long long numbers[RN_VIEW_NUMBERS],
                           long long store_us, int64_t now_ns)
{
    bool learnt = numbers && rn_view_learn(&h->view, numbers, store_us, now_ns);

    h->stage = learnt && !h->outdated ? RN_LOCAL_BUDGET_KNOWN : RN_LOCAL_BUDGET_UNKNOWN;
    h->reporting = h->outdated = false;
    h->sent = 0;
}

void rn_local_budget_doubt(struct rn_local_budget *h)
{
    h->stage = RN_LOCAL_BUDGET_UNKNOWN;
    h->outdated = h->reporting;
}
