/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ramp of a rule's factor; what it promises is in the header. limiter/signals/ feeds it
 * and combines several: the lowest adapt wins, and a surplus counts only if none lowers.
 */
#include "core/ramp.h"

size_t rn_ramp_ladder(const struct rn_ramp_plan *plan, uint16_t out[RN_RAMP_LADDER_MAX])
{
    unsigned from = plan->percent < 100 ? plan->percent : 100;
    unsigned to = plan->percent < 100 ? 100 : plan->percent;
    size_t count = 0;

    for (unsigned p = from; p < to; p += plan->by)
        out[count++] = (uint16_t)p;
    out[count++] = (uint16_t)to;
    return count;
}

void rn_ramp_start(const struct rn_ramp_plan *plan, struct rn_ramp_state *state, unsigned percent)
{
    uint16_t ladder[RN_RAMP_LADDER_MAX];
    size_t i = rn_ramp_ladder(plan, ladder) - 1;

    if (percent > 100 || plan->percent > 100)
        percent = 100;
    while (i != 0 && ladder[i] > percent)
        i--;
    *state = (struct rn_ramp_state){.percent = ladder[i]};
}

bool rn_ramp_holds(const struct rn_ramp_condition *condition, int64_t value)
{
    return condition->above ? value > condition->threshold : value < condition->threshold;
}

/* One step towards `top`, if the signal has been calm for long enough and the last step is old
 * enough. Call it for each calm moment, and set state->calm to false for every other. */
static void climb(const struct rn_ramp_plan *plan, struct rn_ramp_state *state, int64_t now_ns,
                  unsigned top)
{
    if (!state->calm || state->calm_since_ns > now_ns)
        state->calm_since_ns = now_ns;
    state->calm = true;
    if (state->raised_ns > now_ns)
        state->raised_ns = now_ns;
    if (state->percent >= top || now_ns - state->calm_since_ns < plan->for_ns ||
        (state->raised && now_ns - state->raised_ns < plan->every_ns))
        return;
    unsigned next = state->percent + (unsigned)plan->by;

    state->percent = (uint16_t)(next < top ? next : top);
    state->raised = true;
    state->raised_ns = now_ns;
}

unsigned rn_ramp_lower(const struct rn_ramp_plan *plan, struct rn_ramp_state *state, int64_t now_ns,
                       const int64_t *value)
{
    const struct rn_ramp_condition calm = {!plan->when.above, plan->calm_threshold};

    if (value == NULL || rn_ramp_holds(&calm, *value)) {
        climb(plan, state, now_ns, 100);
        return state->percent;
    }
    state->calm = false;
    if (rn_ramp_holds(&plan->when, *value))
        state->percent = plan->percent;
    return state->percent;
}

unsigned rn_ramp_raise(const struct rn_ramp_plan *plan, struct rn_ramp_state *state, int64_t now_ns,
                       const int64_t *value, bool lowered)
{
    if (lowered || value == NULL || !rn_ramp_holds(&plan->when, *value)) {
        state->calm = false;
        state->percent = 100;
        return 100;
    }
    climb(plan, state, now_ns, plan->percent);
    return state->percent;
}

unsigned rn_ramp_follow(const struct rn_ramp_plan *plan, struct rn_ramp_state *state,
                        int64_t now_ns, const unsigned *asked, bool lost)
{
    unsigned top = asked != NULL && *asked < 100 ? *asked : 100;

    state->lost |= lost || asked == NULL;
    if (state->lost && top > state->percent) {
        climb(plan, state, now_ns, top);
        return state->percent;
    }
    state->lost = state->calm = false;
    state->percent = (uint16_t)top;
    return top;
}
