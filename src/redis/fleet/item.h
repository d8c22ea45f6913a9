/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One shared change as Redis keeps it: scripts/fleet_offer.lua says how it looks. Pure:
 * no I/O.
 */
#ifndef RN_REDIS_ITEM_H
#define RN_REDIS_ITEM_H

#include "base/buf.h"
#include "limiter/share.h"

#define RN_FLEET_RULES "rules" /* their name */

/* Kinds besides those of enum rn_client_change, in one digit: append only. */
enum rn_fleet_kind { RN_FLEET_RULES_SET = 5, RN_FLEET_RULES_DELETE = 6 };

struct rn_fleet_item {
    uint32_t kind;
    int64_t made_us, expires_us;
    struct rn_slice text;
};

void rn_fleet_item_write(struct rn_buf *out, const struct rn_fleet_item *value);
/* False: that is no value. */
bool rn_fleet_item_read(struct rn_slice bytes, struct rn_fleet_item *value);

#endif
