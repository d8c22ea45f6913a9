/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the clients of a rule made requests. Bounded: when the memory is full, half of the clients
 * are forgotten, chosen by hash, so that those that stay are a fair sample of all.
 */
#ifndef RN_CLI_REPLAY_DEMAND_H
#define RN_CLI_REPLAY_DEMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RN_DEMAND_TIERS 16                           /* of one rule that are distinguished */
#define RN_DEMAND_COST_MAX ((UINT64_C(1) << 56) - 1) /* more than any limit admits */

struct rn_demand_event {
    uint64_t client; /* the hash of its key and tier */
    int64_t at_ns;
    uint64_t cost : 56; /* RN_DEMAND_COST_MAX: that, or more */
    uint64_t tier : 8;
};

struct rn_demand_events {
    struct rn_demand_event *events; /* after rn_demand_sort: by client, then by time */
    size_t count;
    unsigned halvings; /* one of 2^halvings clients is in the sample */

    size_t room, most; /* private from here on */
};

bool rn_demand_init(struct rn_demand_events *demand, uint64_t bytes);
void rn_demand_done(struct rn_demand_events *demand);
/* In the order of time. False: out of memory. */
bool rn_demand_add(struct rn_demand_events *demand, const struct rn_demand_event *event);
void rn_demand_sort(struct rn_demand_events *demand);
/* How many events from `first` on are of one client. */
size_t rn_demand_run(const struct rn_demand_events *demand, size_t first);

#endif
