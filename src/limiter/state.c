/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An operator changes what a client has spent. Requests of the same instant may see it half done.
 */
#include "limiter/state.h"

#include "limiter/clients/client_index.h"
#include "limiter/decide/gather.h"
#include "limiter/decide/workspace.h"
#include "limiter/factor.h"
#include "limiter/limiter.h"
#include "limiter/tickets/reset_log.h"

/* One limit of a client. */
struct target {
    struct ration *r;
    const struct rn_compiled *limit;
    uint64_t key;
    int64_t now_ns, shift_ns;
    unsigned earned; /* percent */
};

static struct target target_of(struct ration *r, const struct rn_transaction_item *item,
                               int64_t now_ns)
{
    return (struct target){r, item->limit, item->key, now_ns, item->shift_ns, item->earned};
}

static int ask(const struct target *t, enum rn_op op, uint64_t cost, int64_t mark,
               struct rn_answer *answer)
{
    struct rn_charge charge = {
        .ask = {.op = op, .now_ns = t->now_ns, .cost = cost, .at_ns = t->now_ns, .mark = mark}};
    int code = rn_limiter_apply_shifted(t->r, t->limit, t->key, t->shift_ns, &charge);

    if (code == 0)
        *answer = charge.answer;
    return code;
}

/* --- the rules that apply ---------------------------------------------------------------- */

static int change_rules(struct ration *r, const struct rn_book *book,
                        const struct ration_request *request, struct rn_slice rule,
                        rn_state_change_fn *change, void *arg, struct rn_matches *matches)
{
    bool found = rule.data == NULL; /* then all rules are meant */

    if (!found && !rn_book_find(book, rule))
        return RATION_ENORULE;
    rn_match_request(book->ruleset, request, matches);
    if (matches->outcome == RN_MATCH_TOO_MANY)
        return RATION_EINVAL;
    for (uint32_t i = 0; matches->outcome == RN_MATCH_LIMITS && i < matches->count; i++) {
        struct rn_applied applied = rn_applied_of(&matches->items[i]);

        if (rule.data && !rn_slice_equal(applied.rule->name, rule))
            continue;
        applied.cost = applied.keep_percent = 0;
        applied.shadow = false;
        int code = change(r, book, &applied, arg);

        if (code != 0)
            return code;
        found = true;
    }
    return found ? 0 : RATION_EUNMATCHED;
}

int rn_state_change(struct ration *r, const struct ration_request *request, const char *rule,
                    size_t rule_len, rn_state_change_fn *change, void *arg)
{
    struct rn_stripe *s = rn_stats_stripe(&r->stats);
    struct rn_workspace *w = rn_workspace_take(s);
    int code = rule ? RATION_ENORULE : 0;

    if (!w)
        return RATION_ENOMEM;
    struct rn_pin pin = rn_pin_take(&r->shelf, s);

    if (pin.book)
        code = change_rules(r, pin.book, request, (struct rn_slice){rule, rule ? rule_len : 0},
                            change, arg, &w->matches);
    rn_pin_drop(&pin);
    rn_workspace_return(s, w);
    return code;
}

/* --- reset ------------------------------------------------------------------------------- */

struct reset {
    int64_t now_ns;
    uint32_t count;
};

static int forget(const struct target *t, const struct rn_compiled *l, uint64_t hash)
{
    uint64_t key = hash ^ l->salt;
    struct rn_charge charge = {.flags = l->is_mark ? 0 : RN_CHARGE_RESET_LOG,
                               .ask = {.op = RN_RESET, .now_ns = t->now_ns}};
    int code = rn_limiter_apply_shifted(t->r, l, key, t->shift_ns, &charge);

    return code == 0 && !l->is_mark ? rn_reset_log_add(t->r, &l->limit, key, t->now_ns) : code;
}

/* Forgets the states of all tiers, and their marks; those before a reload, or they would be
 * inherited; and those of an override of the client. */
static int reset_rule(struct ration *r, const struct rn_book *book, const struct rn_applied *a,
                      void *arg)
{
    struct reset *reset = arg;
    const struct rn_rule *rule = a->rule;
    const struct rn_family *f = &book->families[rule->index];
    const struct rn_client_index *index = rn_book_client_index(book);
    const struct rn_override_rule *of = index ? rn_override_rule(index, rule) : NULL;
    const struct rn_compiled *any = of ? &of->base : rn_book_any_limit(book, rule);
    struct target t = {.r = r, .now_ns = reset->now_ns};
    uint64_t hash = any ? rn_gather_hash(a, any) : 0;
    const struct rn_override *o = of ? rn_map_find(&index->overrides, hash) : NULL;
    int code = 0;

    for (uint32_t i = 0; any && i < f->retired_count && code == 0; i++)
        code = forget(&t, &f->retired[i].limit, hash);
    for (uint32_t tier = 0; any && tier < rule->tier_count; tier++)
        for (uint32_t i = 0; i < rule->tiers[tier].limit_count && code == 0; i++)
            code = forget(&t, &book->limits[rule->tiers[tier].limits[i]->id], hash);
    for (uint32_t i = 0; any && i < f->member_count && code == 0; i++)
        if (f->members[i].limit->is_mark)
            code = forget(&t, f->members[i].limit, hash);
    if (code == 0 && o && o->plan->limit)
        code = forget(&t, &o->plan->compiled, hash);
    if (code == 0 && o && o->plan->compiled.mark)
        code = forget(&t, o->plan->compiled.mark, hash);
    reset->count += o && o->expires_ns > reset->now_ns ? o->plan->limit != NULL : a->limit_count;
    return code;
}

int ration_state_reset(struct ration *r, const struct ration_request *request, const char *rule,
                       size_t rule_len, int64_t now_ns, uint32_t *count)
{
    struct reset reset = {.now_ns = rn_limiter_now(r, now_ns)};
    int code = rn_state_change(r, request, rule, rule_len, reset_rule, &reset);

    if (code == 0 && count)
        *count = reset.count;
    return code;
}

/* --- adjusting ----------------------------------------------------------------------------- */

struct adjustment {
    int64_t now_ns;
    bool set;
    uint64_t remaining; /* set: the units that must be left */
    int64_t add;        /* else the units to charge; negative: to give back */
    bool places;        /* out: the rules have concurrency limits, */
    bool others;        /* and others */
};

static int adjust_one(const struct target *t, int64_t add)
{
    struct rn_answer unread;

    if (add == 0)
        return 0;
    return add < 0 ? ask(t, RN_CREDIT, -(uint64_t)add, 0, &unread)
                   : ask(t, RN_FORCE, (uint64_t)add, 0, &unread);
}

static struct target variant_of(const struct target *t, const struct rn_compiled *l)
{
    struct target variant = *t;

    variant.limit = rn_factor_step_earned(l, t->earned);
    variant.key = t->key ^ t->limit->salt ^ l->salt;
    return variant;
}

/* As an admission is counted in all of them. Giving back does not undo that the client used another
 * variant. */
static int adjust_variants(const struct target *t, int64_t add)
{
    const struct rn_compiled *l = t->limit;
    int code = 0;

    for (uint32_t i = 0; i < l->shape_count && code == 0; i++) {
        struct target variant = variant_of(t, l->shapes[i]);

        if (rn_compiled_follows(l, l->shapes[i]) && !(l->shapes[i]->is_mark && add < 0))
            code = adjust_one(&variant, add);
    }
    for (uint32_t i = 0; i < l->guard_count && code == 0; i++) {
        struct target guard = variant_of(t, l->guards[i]);

        code = adjust_one(&guard, add);
    }
    return code;
}

static int adjust_limit(const struct target *t, int64_t add)
{
    int code = adjust_one(t, add);

    return code == 0 ? adjust_variants(t, add) : code;
}

/* The units that must be left of the whole limit; `soft` of it lie above what is written. */
static uint64_t goal_of(const struct target *t, uint64_t soft, uint64_t remaining)
{
    uint64_t written = t->limit->limit.cap - soft;

    return (remaining < written ? remaining : written) + soft;
}

/* How many more units to charge so that `goal` are left. Capacities are far below 2^63. */
static int missing(const struct target *t, uint64_t goal, int64_t *add)
{
    struct rn_answer answer;
    int code = ask(t, RN_PEEK, 0, 0, &answer);

    if (code == 0)
        *add = (int64_t)(answer.remaining - goal);
    return code;
}

static int set_limit(const struct target *t, uint64_t soft, uint64_t remaining)
{
    uint64_t goal = goal_of(t, soft, remaining), spent = t->limit->limit.cap - goal;
    struct rn_answer unread;
    int64_t add = 0, rest = 0;
    int code = missing(t, goal, &add);

    if (code == 0)
        code = adjust_limit(t, add);
    if (code == 0 && add < 0)
        code = missing(t, goal, &rest);
    if (code == 0 && rest < 0) {
        /* Units of the window before weigh less than one, so that too few came back. The state is
         * forgotten, and what must count as spent is charged again. */
        code = ask(t, RN_RESET, 0, 0, &unread);
        if (code == 0 && spent != 0)
            code = ask(t, RN_FORCE, spent, 0, &unread);
    }
    /* A guard that has less left would refuse some of the units. */
    for (uint32_t i = 0; i < t->limit->guard_count && code == 0; i++) {
        struct target guard = variant_of(t, t->limit->guards[i]);

        add = 0;
        code = missing(&guard, goal_of(&guard, 0, goal), &add);
        if (code == 0 && add < 0)
            code = adjust_one(&guard, add);
    }
    return code;
}

/* A transaction at no cost comes first: it carries over what was spent before a reload. */
static int adjust_rule(struct ration *r, const struct rn_book *book, const struct rn_applied *a,
                       void *arg)
{
    struct adjustment *adjustment = arg;
    struct rn_stripe *s = rn_stats_stripe(&r->stats);
    struct rn_workspace *w = rn_workspace_take(s);

    if (!w)
        return RATION_ENOMEM;
    struct rn_gathered *g = &w->gathered;

    rn_gather_init(g, r, book, adjustment->now_ns);
    *rn_gather_next(g) = *a;
    rn_gather_add(g);
    int code = g->error != 0 ? g->error : rn_transaction_run(&g->tx);

    for (size_t i = 0; i < g->tx.n && code == 0; i++) {
        const struct rn_transaction_item *item = &g->tx.items[i];
        struct target t = target_of(r, item, adjustment->now_ns);

        adjustment->places |= item->lease != 0;
        if (!rn_compiled_counts(item->limit))
            continue;
        adjustment->others = true;
        code = adjustment->set ? set_limit(&t, item->soft, adjustment->remaining)
                               : adjust_limit(&t, adjustment->add);
    }
    rn_workspace_return(s, w);
    return code;
}

static int adjust(struct ration *r, const struct ration_request *request, const char *rule,
                  size_t rule_len, struct adjustment *a)
{
    int code = rn_state_change(r, request, rule, rule_len, adjust_rule, a);

    return code == 0 && a->places && !a->others ? RATION_EPLACES : code;
}

int ration_state_adjust(struct ration *r, const struct ration_request *request, const char *rule,
                        size_t rule_len, int64_t add, int64_t now_ns)
{
    return adjust(r, request, rule, rule_len,
                  &(struct adjustment){.now_ns = rn_limiter_now(r, now_ns), .add = add});
}

int ration_state_set_remaining(struct ration *r, const struct ration_request *request,
                               const char *rule, size_t rule_len, uint64_t remaining,
                               int64_t now_ns)
{
    return adjust(r, request, rule, rule_len,
                  &(struct adjustment){
                      .now_ns = rn_limiter_now(r, now_ns), .set = true, .remaining = remaining});
}

int rn_state_credit(struct ration *r, const struct rn_transaction_item *item, uint64_t units,
                    int64_t now_ns)
{
    struct target t = target_of(r, item, now_ns);

    if (units == 0 || !rn_compiled_counts(item->limit))
        return 0;
    return adjust_limit(&t, units < INT64_MAX ? -(int64_t)units : -INT64_MAX);
}

/* --- draining ------------------------------------------------------------------------------ */

/* Charges all units that are left but `keep`. *drained is their number. */
static int drain(const struct target *t, uint64_t cost, uint64_t keep, uint64_t left,
                 struct rn_answer *answer, uint64_t *drained)
{
    struct rn_answer look;

    if (keep == 0) {
        int code = ask(t, RN_DRAIN, cost, 0, answer);

        *drained = code == 0 && !answer->allowed ? answer->drained : 0;
        if (code == 0 && answer->allowed) /* more units are left now: nothing is drained */
            code = ask(t, RN_GIVE_BACK, cost, answer->mark, &look);
        return code;
    }
    int code = ask(t, RN_FORCE, left, 0, answer);
    int64_t mark = answer->mark;

    *drained = left;
    if (code == 0)
        code = ask(t, RN_PEEK, cost < UINT64_MAX - keep ? cost + keep : cost, 0, answer);
    answer->mark = mark;
    return code;
}

int rn_state_drain(struct rn_transaction *tx)
{
    const struct rn_transaction_item *item = &tx->items[0];
    struct ration_charge *c = &tx->charges[0];
    uint64_t hidden = item->soft > item->keep ? item->soft : item->keep;
    uint64_t left = item->answer.remaining > item->keep ? item->answer.remaining - item->keep : 0;
    uint64_t drained = 0;
    struct target t = target_of(tx->r, item, tx->now_ns);
    struct rn_answer answer = {0};

    if (c->verdict.allowed || left == 0 || c->cost <= left)
        return 0;
    int code = drain(&t, c->cost, item->keep, left, &answer, &drained);

    if (code == 0 && drained != 0)
        code = adjust_variants(&t, (int64_t)drained);
    if (code != 0 || drained == 0)
        return code;
    c->taken = drained;
    c->mark = answer.mark;
    c->verdict.remaining = answer.remaining > hidden ? answer.remaining - hidden : 0;
    c->verdict.reset_after_ns = answer.reset_after_ns;
    if (answer.retry_after_ns > c->verdict.retry_after_ns)
        c->verdict.retry_after_ns = answer.retry_after_ns;
    tx->decision.verdict = c->verdict;
    return 0;
}
