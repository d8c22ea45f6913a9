/* SPDX-License-Identifier: Apache-2.0 */
/* The scripts that run in Redis. scripts/embed.py puts them into the program. */
#ifndef RN_REDIS_SCRIPT_H
#define RN_REDIS_SCRIPT_H

#include "base/slice.h"

enum rn_script {
    RN_SCRIPT_BUCKET,   /* token bucket, leaky bucket */
    RN_SCRIPT_WINDOW,   /* fixed window */
    RN_SCRIPT_COUNTER,  /* two windows, weighted */
    RN_SCRIPT_LOG,      /* sliding log, sub-windows */
    RN_SCRIPT_PLACES,   /* concurrency */
    RN_SCRIPT_ADAPTIVE, /* concurrency whose number of places is learnt */
    /* The same with leases, for charges with RN_CHARGE_LEASED. */
    RN_SCRIPT_LEASE_BUCKET,
    RN_SCRIPT_LEASE_WINDOW,
    RN_SCRIPT_LEASE_COUNTER,
    RN_SCRIPT_LEASE_SUBS,
    RN_SCRIPT_LEASE_LOG,
    RN_SCRIPT_REPORT,     /* async: charges units that a worker has admitted */
    RN_SCRIPT_FLEET_POLL, /* the fleet: number of nodes, version of the shared changes */
    RN_SCRIPT_FLEET_OFFER,
    RN_SCRIPT_FLEET_FETCH,
    RN_SCRIPT_FLEET_FACTORS, /* factors that one node asks of all */
    RN_SCRIPT_FLEET_BANS,    /* bans that rules with escalate began or operators lifted */
    RN_SCRIPT_FLEET_PAUSES,
    RN_SCRIPT_FLEET_USAGE, /* publishes the usage of clients */
    RN_SCRIPT_FLEET_USAGE_READ,
    RN_SCRIPT_HISTORY, /* since when a server has kept its data */
    RN_SCRIPTS,

    /* The scripts that decide charges in batches come first. */
    RN_SCRIPTS_STRICT = RN_SCRIPT_LEASE_LOG + 1,
};

static inline bool rn_script_leases(enum rn_script script)
{
    return script >= RN_SCRIPT_LEASE_BUCKET && script <= RN_SCRIPT_LEASE_LOG;
}

struct rn_script_text {
    const char *name;
    char sha[41]; /* SHA-1 of `text` in hex, for EVALSHA */
    struct rn_slice text;
};
extern const struct rn_script_text rn_scripts[RN_SCRIPTS];

#endif
