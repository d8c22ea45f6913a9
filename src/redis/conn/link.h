/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection to one Redis server, for one loop. The link connects, authenticates, loads the
 * scripts, and reconnects when the connection is lost. A link that was up for a while reconnects
 * at once and reports `down` only if that fails; after a failure it waits a random time. Each
 * attempt resolves the host name again. Replies come in the order of the commands. A server that
 * owes a reply and sends none for `silence_ns`, during the greeting or later, is given up.
 *
 * At most once: the link never resends a command whose connection was lost before the reply.
 */
#ifndef RN_REDIS_LINK_H
#define RN_REDIS_LINK_H

#include <hiredis/hiredis.h>

#include "base/slice.h"
#include "net/address.h"
#include "net/timer.h"
#include "net/tls.h"
#include "redis/conn/history.h"
#include "redis/url.h"

#define RN_LINK_COMMANDS 1024 /* awaiting a reply, at most */

/* The wait before the next attempt is random, between the minimum and three times the last wait,
 * so that many nodes do not reconnect at the same moment. */
#define RN_LINK_WAIT_MIN_NS (INT64_C(50) * 1000000)
#define RN_LINK_WAIT_MAX_NS (INT64_C(800) * 1000000)
#define RN_LINK_SILENCE_NS (INT64_C(1) * 1000000000)
/* A link that was up for this long reconnects at once. */
#define RN_LINK_LASTED_NS (INT64_C(1) * 1000000000)

/* reply NULL: the connection was lost; nobody knows whether Redis ran the command. */
typedef void rn_link_reply(void *arg, const redisReply *reply);

struct rn_link_events {
    void *arg;
    /* Before each attempt: the owner must find the address, then call rn_link_go or
     * rn_link_fail, now or later. NULL: the address is fixed. */
    void (*seek)(void *arg);
    void (*up)(void *arg);
    /* An attempt failed, or the connection is lost and the link does not reconnect at once.
     * `why` holds no secrets and is valid during the call only. All pending commands have been
     * answered with NULL. */
    void (*down)(void *arg, const char *why);
    void (*later)(void *arg); /* asked for by rn_link_call_later; NULL: never */
    /* Before `up`: the server has restarted or is another one, so the last writes may be lost.
     * NULL: for links that hold no states. */
    void (*changed)(void *arg);
    /* Before each reply: whether it is a message that answers no command (a subscription). NULL:
     * none is. */
    bool (*pushed)(void *arg, const redisReply *reply);
};

enum rn_link_purpose {
    RN_LINK_STATES,       /* a server that holds states: the link loads the scripts */
    RN_LINK_MASTER,       /* the same, and the server must be a master */
    RN_LINK_ASK_SERVER,   /* a cluster node, asked for the topology only */
    RN_LINK_ASK_SENTINEL, /* a Sentinel, which has its own user and password */
};

/* All borrowed until the end. */
struct rn_link_options {
    const struct rn_url *url; /* user, password, database */
    struct rn_tls *tls;       /* NULL: no TLS */
    enum rn_link_purpose purpose;
    int64_t silence_ns; /* how long connecting or the next reply may take; 0:
                           RN_LINK_SILENCE_NS */
};

struct rn_link {
    struct rn_loop *loop;
    struct rn_link_options options;
    struct rn_protocol protocol;
    const struct rn_link_events *events;
    char address[RN_URL_ADDRESS]; /* host:port or unix:PATH; "": not known yet */
    struct rn_dialler *dialler;
    struct rn_resolve *resolving;
    struct rn_conn *conn; /* NULL: waiting for the next attempt or for an address */
    redisReader *reader;
    struct rn_timer again;
    struct rn_timer silence; /* set while a reply is owed; may fire early */
    int64_t heard_ns;        /* when the last reply came */
    int64_t wait_ns;
    bool opened; /* this attempt has connected */
    bool up;
    bool served;     /* this attempt was up, */
    int64_t up_ns;   /* since then */
    bool distrusted; /* the link ignores further input and closes */
    bool leaving;    /* the link closes after the last pending reply */
    bool seeking;    /* rn_link_go or rn_link_fail is due */
    bool ending;
    unsigned greetings; /* replies still to come before the link is up */
    char why[160];      /* the reason for going down */
    uint64_t attempts;
    struct rn_history history; /* of the server's data set */

    struct {
        rn_link_reply *reply;
        void *arg;
        int64_t sent_ns;
    } owed[RN_LINK_COMMANDS];
    unsigned owed_first, owed_count;
};

/* Starts to connect: to `address`, unless `seek` finds it. All functions here must run in the
 * loop's thread. False: out of memory. */
bool rn_link_init(struct rn_link *link, struct rn_loop *loop, const struct rn_link_options *options,
                  const char *address, const struct rn_link_events *events);
/* Answers pending commands with NULL; no event follows. */
void rn_link_done(struct rn_link *link);

/* Answers `seek`: connects. Ignored if no address is due. */
void rn_link_go(struct rn_link *link, const char *address);
/* Answers `seek`: no address was found. `down` follows, and a new attempt after a wait. */
void rn_link_fail(struct rn_link *link, const char *why);
/* Cuts the current wait short: another attempt is likely to succeed now. */
void rn_link_hurry(struct rn_link *link);

/* Queues a command for sending. False: the link is down, too many commands are pending, or out
 * of memory; the command was not sent and `reply` is not called. */
bool rn_link_send(struct rn_link *link, int argc, const char **argv, const size_t *lens,
                  rn_link_reply *reply, void *arg);
/* How many commands rn_link_send would accept now. */
unsigned rn_link_room(const struct rn_link *link);
/* Calls `later` at the end of this round of the loop, if the link is up then. */
void rn_link_call_later(struct rn_link *link);
/* Closes the connection at once. Within a reply callback use rn_link_distrust. */
void rn_link_drop(struct rn_link *link, const char *why);
/* Closes the connection after the current callback; input that follows is ignored. */
void rn_link_distrust(struct rn_link *link, const char *why);
/* Sends nothing more, waits for the pending replies, then reconnects. */
void rn_link_leave(struct rn_link *link, const char *why);

/* Handles the replies that have arrived by now. Not within a reply callback. */
void rn_link_hear(struct rn_link *link);

/* The next wait, given the last one and a random number. */
int64_t rn_link_next_wait(int64_t last_ns, uint64_t random);

/* Private to conn/. greeting.c: sends what a new connection needs before it is up: AUTH, SELECT,
 * ROLE, INFO and the scripts. The link is up when all of it has succeeded. */
void rn_greeting_send(struct rn_link *link);
/* link.c: as rn_link_send, but also before the link is up. */
bool rn_link_push(struct rn_link *link, int argc, const char **argv, const size_t *lens,
                  rn_link_reply *reply, void *arg);

#endif
