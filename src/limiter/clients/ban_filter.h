/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Most requests are not banned, and this tells so quickly, without parsing addresses and without
 * keyed hashes: a bit is set for what the first value of each ban begins with. A request that meets
 * no such bit has no ban; the others are looked up. A client that makes up a value with the bit of
 * a ban gains nothing: its own requests are looked up.
 *
 * Any thread reads the filter while one thread adds to it. Bits stay when bans go, until the client
 * index is replaced.
 */
#ifndef RN_LIMITER_CLIENTS_BAN_FILTER_H
#define RN_LIMITER_CLIENTS_BAN_FILTER_H

#include <ration/clients.h>
#include <ration/request.h>

#include "rules/match/match.h"

/* An attribute that a kind of ban compares. Each kind needs one look-up. */
struct rn_ban_part {
    struct rn_slice name;
    uint16_t number;      /* among the ruleset's attributes, or RN_NO_ATTRIBUTE */
    uint8_t bits, prefix; /* an address of 32 or 128 bits cut to that; 0: a text */
};

#define RN_BAN_FILTER_LOG2 18 /* so that 1,000 bans set one bit in 200 at most */

struct rn_ban_filter {
    uint32_t count;                                 /* attributes that bans begin with, */
    struct rn_ban_part parts[RATION_BAN_KINDS_MAX]; /* once as text, once as address */
    bool wide; /* all addresses pass: a network has so short a prefix that it has no bit */
    uint64_t bits[(1 << RN_BAN_FILTER_LOG2) / 64];
};

/* The bit of the first value of a ban. */
struct rn_ban_bit {
    bool wide;
    uint32_t at;
};
struct rn_ban_bit rn_ban_filter_text(struct rn_slice text);
struct rn_ban_bit rn_ban_filter_network(const struct rn_ip *network, uint8_t prefix);

/* Adds a ban. The name of `part` lives as long as the filter. */
void rn_ban_filter_add(struct rn_ban_filter *filter, const struct rn_ban_part *part,
                       struct rn_ban_bit bit);

/* False: the request has no ban. `values` may be NULL, as in rn_ban_find. */
bool rn_ban_filter_passes(const struct rn_ban_filter *filter, const struct rn_values *values,
                          const struct ration_request *request);

#endif
