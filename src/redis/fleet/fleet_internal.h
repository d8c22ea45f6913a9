/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the files of the fleet. */
#ifndef RN_REDIS_FLEET_INTERNAL_H
#define RN_REDIS_FLEET_INTERNAL_H

#include "net/server.h"
#include "redis/fleet/fleet.h"
#include "redis/fleet/item.h"

#define RN_FLEET_LOT 64        /* changes that are offered at once */
#define RN_FLEET_TICKET_KEYS 5 /* that tickets are signed with, at most: KEPT in fleet_poll.lua */

/* The rules, as one shared thing. */
struct rn_fleet_rules {
    struct rn_buf text;
    bool set;        /* false: each node has its own */
    bool shared;     /* others can know */
    int64_t made_us; /* 0: there never were any */
    int64_t told_us; /* of those that were offered last */
};

struct rn_fleet {
    struct rn_loop *loop;
    struct rn_redis *redis;
    struct ration *limiter;
    struct rn_fleet_options options;
    struct rn_timer timer; /* the next round */
    struct rn_timer again; /* somebody was busy */
    char node[17];
    bool leaving;

    bool calling;  /* one call at a time */
    bool in_touch; /* a poll was answered, and everything since */
    bool apart;    /* it was told that this is not so */
    bool doubt;    /* Redis may have lost its last changes */
    char id[17];   /* of the shared changes that were taken over; empty: none were */
    uint64_t version, latest;

    uint64_t told; /* rn_share_news when all had been told */
    uint64_t news; /* the same when the walk began */
    struct rn_share_walk walk;
    size_t found; /* by this walk */
    struct rn_share_batch batch;
    struct rn_fleet_rules rules;
    char tickets[RN_FLEET_TICKET_KEYS * 33]; /* their keys as Redis has them, newest first */
    struct rn_fleet_counts counts;
};

/* fleet.c: runs one of the fleet's scripts over the keys named by letters: h(ead),
 * n(odes), i(tems), v(alues), e(nds). False: it was not sent. */
bool rn_fleet_call(struct rn_fleet *fleet, enum rn_script script, const char *keys,
                   const struct rn_slice *args, size_t arg_count, rn_link_reply *reply);
/* The call is over. `types` are those that the elements of the reply have at least, by
 * letters: s(tring), i(nteger), 0 or more; NULL: the reply is an integer itself. False
 * if it came to nothing, which has been noted. */
bool rn_fleet_called(struct rn_fleet *fleet, const redisReply *reply, const char *types);
/* Does what is to be done next; or soon, if somebody is busy now. */
void rn_fleet_go_on(struct rn_fleet *fleet);
void rn_fleet_go_on_soon(struct rn_fleet *fleet);

/* fleet_changes.c */
void rn_fleet_fetch(struct rn_fleet *fleet);
/* Whether there is something that others may not know. */
bool rn_fleet_has_news(const struct rn_fleet *fleet);
void rn_fleet_offer(struct rn_fleet *fleet);
/* Redis may have lost what was made since then: to be told again. False: not now. */
bool rn_fleet_doubt(struct rn_fleet *fleet, int64_t since_us);

/* fleet_rules.c */
void rn_fleet_rules_load(struct rn_fleet *fleet);
/* Others have these. */
void rn_fleet_rules_take(struct rn_fleet *fleet, const struct rn_fleet_item *value);
struct rn_fleet_item rn_fleet_rules_value(const struct rn_fleet *fleet);

/* fleet_tickets.c */
void rn_fleet_tickets_init(struct rn_fleet *fleet);
void rn_fleet_ticket_print(const struct rn_hash_key *key, char out[33]);
/* Honours these; signs with the newest, or if that is `fresh` with the one before. False:
 * these are no keys, and those that were known stay. */
bool rn_fleet_tickets_take(struct rn_fleet *fleet, const char *text, bool fresh);

#endif
