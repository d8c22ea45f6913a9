/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys that sign tickets, shared by all nodes: the poll brings them (scripts/fleet_poll.lua). A
 * node that has not reached Redis yet signs with its own key, and always accepts that one.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis/fleet/fleet_internal.h"

#define DIGITS 32

static_assert(RN_FLEET_TICKET_KEYS < RN_TICKET_KEYS, "one place is for this node's own key");

void rn_fleet_ticket_print(const struct rn_hash_key *key, char out[DIGITS + 1])
{
    snprintf(out, DIGITS + 1, "%016" PRIx64 "%016" PRIx64, key->k0, key->k1);
}

/* Parses half a key. False: not hexadecimal. */
static bool parse_half(const char *text, uint64_t *out)
{
    char digits[DIGITS / 2 + 1] = {0};

    memcpy(digits, text, DIGITS / 2);
    if (strspn(digits, "0123456789abcdef") != DIGITS / 2)
        return false;
    *out = strtoull(digits, NULL, 16);
    return true;
}

void rn_fleet_tickets_init(struct rn_fleet *fleet)
{
    rn_fleet_ticket_print(&fleet->limiter->ticket_key, fleet->tickets);
}

/* Adds the oldest key first, so that the newest stays longest. */
bool rn_fleet_tickets_take(struct rn_fleet *fleet, const char *text, bool fresh)
{
    struct rn_hash_key keys[RN_FLEET_TICKET_KEYS];
    size_t len = strlen(text), count = (len + 1) / (DIGITS + 1);

    if (count == 0 || count > RN_FLEET_TICKET_KEYS || len != count * (DIGITS + 1) - 1)
        return false;
    for (size_t i = 0; i < count; i++) {
        const char *at = text + i * (DIGITS + 1);

        if (!parse_half(at, &keys[i].k0) || !parse_half(at + DIGITS / 2, &keys[i].k1) ||
            (at[DIGITS] != ' ' && at[DIGITS] != '\0'))
            return false;
    }
    size_t signer = fresh && count > 1;

    for (size_t i = count; i-- > 0;)
        rn_limiter_add_ticket_key(fleet->limiter, &keys[i], i == signer);
    snprintf(fleet->tickets, sizeof fleet->tickets, "%s", text);
    return true;
}
