/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries over what the client has spent when an override is set, so that nothing is minted.
 *
 * Let s be the share of a limit that is spent. An override whose shape the rule does not have
 * starts with the largest s among the rule's own states of the client, and each admission under it
 * raises theirs, as between the tiers of a rule (transaction.c). So while no time passes, an
 * admission of u units under either raises the s of both by at least u / the larger capacity:
 * setting and deleting to and fro admits no more than that.
 *
 * Over time windows and logs forget what they could not count. Limits of the rule
 * that cover the override are therefore its guards, as between tiers, and what has
 * been spent of them when it is set makes it ask them. The rule's limits know no
 * override: one that covers them is not asked once it is gone, and what each of
 * both admits by itself adds up.
 *
 * One override that replaces another goes by the state of that one only: the
 * rule's, which may be far smaller, was filled up by what the override admitted.
 */
#include "base/error.h"
#include "limiter/clients/client_index.h"
#include "limiter/decide/gather.h"
#include "limiter/factor.h"
#include "limiter/limiter.h"
#include "limiter/reputation/earned.h"

/* The state of the client under one limit or another of its rule. */
struct client_state {
    struct ration *r;
    uint64_t hash;
    int64_t shift_ns;
    int64_t now_ns;
    unsigned earned; /* percent of the rule's limits, not of an override */
};

static int apply(const struct client_state *s, const struct rn_compiled *l, enum rn_op op,
                 uint64_t cost, struct rn_answer *answer)
{
    struct rn_charge charge = {.ask = {.op = op, .now_ns = s->now_ns, .cost = cost}};
    int code = rn_limiter_apply_shifted(s->r, l, s->hash ^ l->salt, s->shift_ns, &charge);

    if (code == 0)
        *answer = charge.answer;
    return code;
}

/* Raises *most to the share spent of `from`, in units of `to`. Both are steps in force. */
static int add_share(const struct client_state *s, const struct rn_compiled *from,
                     const struct rn_compiled *to, uint64_t *most)
{
    struct rn_answer answer;
    int code = apply(s, from, RN_PEEK, 0, &answer);

    if (code != 0)
        return code;
    uint64_t cap = from->limit.cap;
    uint64_t share = rn_compiled_scale(cap - answer.remaining, cap, to->limit.cap);

    *most = share > *most ? share : *most;
    return 0;
}

static int add_shares_of_rule(const struct client_state *s, const struct rn_family *f,
                              const struct rn_compiled *to, uint64_t *most)
{
    int code = 0;

    for (uint32_t i = 0; i < f->member_count && code == 0; i++) {
        if (f->members[i].limit->salt == to->salt)
            return *most = 0, 0;           /* one state, which is what it is */
        if (!f->members[i].limit->is_mark) /* nothing is spent of those */
            code = add_share(s, rn_factor_step_earned(f->members[i].limit, s->earned), to, most);
    }
    for (uint32_t i = 0; i < f->retired_count && code == 0; i++)
        if (f->retired[i].until_ns > s->now_ns && f->retired[i].limit.salt != to->salt)
            code = add_share(s, &f->retired[i].limit, to, most);
    return code;
}

/* The rule's limits do not set the mark of an override: they do not know it. */
static int mark_if_spent(const struct client_state *s, const struct rn_compiled *l)
{
    struct rn_answer answer;

    for (uint32_t i = 0; i < l->guard_count; i++) {
        const struct rn_compiled *guard = rn_factor_step_earned(l->guards[i], s->earned);
        int code = apply(s, guard, RN_PEEK, 0, &answer);

        if (code != 0)
            return code;
        if (answer.remaining < guard->limit.cap)
            return apply(s, l->mark, RN_FORCE, 1, &answer);
    }
    return 0;
}

/* Charges the new state what it lacks. */
static int carry_over(const struct client_state *s, const struct rn_family *f,
                      const struct rn_plan *plan, const struct rn_plan *before)
{
    const struct rn_compiled *to = rn_factor_step(&plan->compiled);
    struct rn_answer answer;
    uint64_t share = 0;
    int code;

    if (!plan->limit || !rn_compiled_counts(to))
        return 0;
    if (!before || !before->limit || !rn_compiled_counts(&before->compiled))
        code = add_shares_of_rule(s, f, to, &share);
    else if (before->compiled.salt == to->salt)
        return 0;
    else
        code = add_share(s, rn_factor_step(&before->compiled), to, &share);
    if (code == 0)
        code = mark_if_spent(s, to);
    if (code != 0 || share == 0)
        return code;
    code = apply(s, to, RN_PEEK, 0, &answer);
    if (code != 0)
        return code;
    uint64_t spent = to->limit.cap - answer.remaining;

    if (spent != 0 && rn_compiled_refills(to))
        spent--; /* a peek rounds up; whole units count */
    if (spent >= share)
        return 0;
    return apply(s, to, RN_FORCE, share - spent, &answer);
}

int rn_override_carry_over(struct ration *r, const struct rn_book *book,
                           const struct rn_client_index *index, const struct rn_override_key *key,
                           const struct rn_plan *plan, struct ration_error *error)
{
    const struct rn_override *before = rn_map_find(&index->overrides, key->hash);
    struct client_state s = {.r = r, .hash = key->hash, .now_ns = r->clients.now_ns};

    s.shift_ns = rn_gather_shift_ns(key->rule, key->hash);
    s.earned = rn_earned_percent(r, key->rule, key->hash, s.now_ns);
    if (before && before->expires_ns <= s.now_ns)
        before = NULL;
    int code =
        carry_over(&s, &book->families[key->rule->index], plan, before ? before->plan : NULL);

    return code == 0 ? 0
                     : rn_error_set(error, code, 0,
                                    "what the client has spent cannot be carried over: %s",
                                    ration_error_text(code));
}
