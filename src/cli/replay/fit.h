/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The smallest limit under which a client is never refused, by the arithmetic of the limit itself
 * (core/limit.h).
 */
#ifndef RN_CLI_REPLAY_FIT_H
#define RN_CLI_REPLAY_FIT_H

#include "cli/replay/demand.h"
#include "core/limit.h"

struct rn_fit {
    struct ration_limit spec; /* whose amount, or burst, is varied */
    const struct rn_calendar *calendar;
    uint64_t most; /* no amount above this can be enforced */

    uint64_t *state; /* private from here on */
    size_t words;
};

/* False: out of memory. Call rn_fit_done in any case. */
bool rn_fit_init(struct rn_fit *fit, const struct ration_limit *spec,
                 const struct rn_calendar *calendar);
void rn_fit_done(struct rn_fit *fit);

/* The least amount that admits all of a client's requests; fit->most + 1: none does. */
uint64_t rn_fit_amount(struct rn_fit *fit, const struct rn_demand_event *events, size_t count);
/* The same of a burst, for the amount in fit->spec; amount + 1: none up to the amount does. */
uint64_t rn_fit_burst(struct rn_fit *fit, const struct rn_demand_event *events, size_t count);

#endif
