/* SPDX-License-Identifier: Apache-2.0 */
/* Private to fleet/. */
#ifndef RN_REDIS_FLEET_INTERNAL_H
#define RN_REDIS_FLEET_INTERNAL_H

#include "base/buf.h"
#include "limiter/clients/replication.h"
#include "limiter/reputation/reputation.h"
#include "net/server.h"
#include "redis/fleet/fleet.h"
#include "redis/fleet/usage_internal.h"

#define RN_FLEET_LOT 64        /* changes offered in one call */
#define RN_FLEET_TICKET_KEYS 5 /* that sign tickets, at most: KEPT in fleet_poll.lua */

/* One shared change as Redis keeps it: scripts/fleet_offer.lua has the format. */
#define RN_FLEET_RULES "rules" /* the name of the rules among the shared changes */

/* Kinds besides those of enum rn_client_change, in one digit: append only. */
enum rn_fleet_kind { RN_FLEET_RULES_SET = 5, RN_FLEET_RULES_DELETE = 6 };

struct rn_fleet_item {
    uint32_t kind;
    int64_t made_us, expires_us;
    struct rn_slice text;
};

void rn_fleet_item_write(struct rn_buf *out, const struct rn_fleet_item *value);
/* False: malformed. */
bool rn_fleet_item_read(struct rn_slice bytes, struct rn_fleet_item *value);

/* The shared rules. */
struct rn_fleet_rules {
    struct rn_buf text;
    bool set;        /* false: each node uses its own */
    bool shared;     /* Redis has them */
    int64_t made_us; /* 0: never set */
    int64_t told_us; /* made_us of the rules offered last */
};

#define RN_FLEET_HOST 64 /* bytes of the name of a machine, with the 0 behind it */

/* Factors that nodes ask of each other. */
struct rn_fleet_factors {
    uint64_t version; /* of the book that the rules are of, + 1; 0: none */
    struct rn_fleet_asked *rules;
    size_t count;
    char host[RN_FLEET_HOST]; /* the name of this machine */
    char who[sizeof((struct rn_fleet_asked *)0)->who];
    int64_t heard_ns; /* when a reply came last, on the loop's clock */
    bool said;        /* Redis may have what this node asks for */
    bool failed;      /* Redis refused the last call, which was logged */
    bool refusing;    /* the last reply had something malformed, which was logged */
};

/* Bans that rules with `escalate` began. */
struct rn_fleet_bans {
    uint64_t rules_of; /* the version of the book that the rules are of, + 1; 0: none */
    uint64_t *rules;   /* hashes of the rules with escalate */
    size_t count;
    bool walking;     /* Redis has lost all: all bans in force are sent, whoever began them */
    bool walked;      /* the call under way has some of them */
    uint64_t cursor;  /* where that goes on */
    uint64_t version; /* of the bans in Redis that were heard */
    uint64_t told;    /* the last event of the ring that Redis has */
    uint64_t sent;    /* ... once the call has been answered */
    unsigned calls;   /* left in this round */
    bool failed;      /* Redis refused the last call, which was logged */
    bool refusing;    /* something malformed was logged */
    struct rn_reputation_event events[RN_FLEET_LOT]; /* being read */
};

struct rn_fleet_pauses {
    uint64_t version; /* of the pauses in Redis that were heard, */
    uint64_t latest;  /* and of those that Redis has */
    uint64_t told;    /* the last event of the log that Redis has */
    uint64_t sent;    /* ... once the call has been answered */
    bool all;         /* Redis has lost all: what others have said is sent, too */
    unsigned calls;   /* left in this round */
    bool failed;      /* Redis refused the last call, which was logged */
    bool refusing;    /* something malformed was logged */
    struct rn_pause_event events[RN_FLEET_LOT]; /* being read */
};

struct rn_fleet {
    struct rn_loop *loop;
    struct rn_redis *redis;
    struct ration *limiter;
    struct rn_fleet_options options;
    struct rn_timer timer; /* the next poll */
    struct rn_timer again; /* the next try after is_busy */
    char node[17];
    bool leaving;

    bool calling;  /* a call is in flight: only one at a time */
    bool in_touch; /* the last poll and all calls since have succeeded */
    bool apart;    /* fleet.disconnected was logged, and no poll has succeeded since */
    bool doubt;    /* Redis may have lost the last changes */
    char id[17];   /* of the set of changes in Redis that `version` belongs to; empty: none */
    uint64_t version, latest;

    uint64_t told; /* rn_replication_changes when all changes had been offered */
    uint64_t news; /* rn_replication_changes when the walk began */
    struct rn_replication_walk walk;
    size_t found; /* changes found by this walk */
    struct rn_replication_batch batch;
    struct rn_fleet_rules rules;
    struct rn_fleet_factors factors;
    struct rn_fleet_bans bans;
    struct rn_fleet_pauses pauses;
    struct rn_fleet_usage usage;
    char tickets[RN_FLEET_TICKET_KEYS * 33]; /* the keys as Redis has them, newest first */
    struct rn_fleet_counts counts;
};

/* fleet.c: runs one of the fleet's scripts. `keys` names its keys by letters: h(ead), n(odes),
 * i(tems), v(alues), e(nds), f(actors), b(ans), their o(rder), and when they are over: u(ntil);
 * p(auses), their order: q, and when they are over: r.
 * False: not sent. */
bool rn_fleet_call(struct rn_fleet *fleet, enum rn_script script, const char *keys,
                   const struct rn_slice *args, size_t arg_count, rn_script_reply *reply);
/* The same with keys of any name. */
bool rn_fleet_call_keys(struct rn_fleet *fleet, enum rn_script script, const struct rn_slice *keys,
                        size_t key_count, const struct rn_slice *args, size_t arg_count,
                        rn_script_reply *reply);
/* Ends the call. `types` are the types that the first elements of the reply must have, by letters:
 * s(tring), i(nteger, 0 or more); NULL: the reply must be an integer. False: the call has failed,
 * which is noted. */
bool rn_fleet_called(struct rn_fleet *fleet, const redisReply *reply, const char *types);
/* Whether a reply is an array that begins with elements of these types; NULL: an integer. */
bool rn_fleet_has_types(const redisReply *reply, const char *types);
/* Does the next step: bans, usage, fetch, offer, or nothing. */
void rn_fleet_go_on(struct rn_fleet *fleet);
/* The same in a few milliseconds, after is_busy. */
void rn_fleet_go_on_soon(struct rn_fleet *fleet);

/* changes.c */
void rn_fleet_fetch(struct rn_fleet *fleet);
/* Whether this node has changes that Redis may not have. */
bool rn_fleet_has_news(const struct rn_fleet *fleet);
void rn_fleet_offer(struct rn_fleet *fleet);
/* Redis may have lost the changes made since then: marks them to be offered again. False: not
 * possible now. */
bool rn_fleet_doubt(struct rn_fleet *fleet, int64_t since_us);

/* factors.c */
void rn_fleet_factors_init(struct rn_fleet *fleet);
/* Says what this node asks for, and asks what others do. False: no call was sent, as there is
 * nothing to ask, or it failed. */
bool rn_fleet_factors_exchange(struct rn_fleet *fleet);
/* Reads what a node says: first the name of its machine, then line by line, until nothing is left.
 * Each call takes one line. False: the line is malformed, `host`: all of it. */
bool rn_fleet_factors_read_host(struct rn_slice *said, char host[RN_FLEET_HOST]);
bool rn_fleet_factors_read(struct rn_slice *said, unsigned *percent, struct rn_slice *rule);

/* bans.c */
void rn_fleet_bans_begin_round(struct rn_fleet *fleet);
/* Redis may have lost bans of this node: sends again what the ring has. `lost`: it has lost all, so
 * this node also sends and hears those of other nodes again. */
void rn_fleet_bans_doubt(struct rn_fleet *fleet, bool lost);
/* Sends what is new and hears the others. False: all is done in this round, or no rule has
 * escalate, or the call was not sent. */
bool rn_fleet_bans_exchange(struct rn_fleet *fleet);
struct rn_fleet_ban {
    uint64_t rule, hash;
    uint32_t level; /* 0: lifted */
    int64_t rest_ns;
};
/* For Redis, and from it. False: malformed. */
void rn_fleet_ban_write(struct rn_buf *out, const struct rn_reputation_event *event);
bool rn_fleet_ban_read(struct rn_slice text, struct rn_fleet_ban *ban);

/* pauses.c: as bans.c. `latest`: the version that the poll has told. */
void rn_fleet_pauses_begin_round(struct rn_fleet *fleet, uint64_t latest);
void rn_fleet_pauses_doubt(struct rn_fleet *fleet, bool lost);
/* False: all is done in this round, or the call was not sent. */
bool rn_fleet_pauses_exchange(struct rn_fleet *fleet);
/* For Redis, and from it; rest 0: lifted. False: malformed. */
void rn_fleet_pause_write(struct rn_buf *out, const struct rn_pause_event *event, int64_t now_ns);
bool rn_fleet_pause_read(struct rn_slice text, uint64_t *key, int64_t *rest_ns);

/* rules.c */
void rn_fleet_rules_load(struct rn_fleet *fleet);
/* Takes over rules of another node. */
void rn_fleet_rules_take(struct rn_fleet *fleet, const struct rn_fleet_item *value);
struct rn_fleet_item rn_fleet_rules_value(const struct rn_fleet *fleet);

#endif
