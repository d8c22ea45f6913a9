/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection to one Redis, for one loop: made, authenticated, given the
 * scripts, and made again when it is lost. One that was up is made again at once, and nobody
 * is told unless that fails, or it was so a moment ago; after a failure there is a random while
 * in between. A name is resolved anew for each attempt. Commands are answered in order.
 *
 * At most once: a command whose connection is lost before its reply is never sent
 * again by us. Whoever gives up waiting for a reply leaves its place in the order,
 * and the reply is dropped when it comes.
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

#define RN_LINK_COMMANDS 1024 /* that may wait for a reply */

/* What a lost one waits before the next attempt: at random between the shortest and
 * three times the last wait, so that many nodes do not come back at once. */
#define RN_LINK_WAIT_MIN_NS (INT64_C(50) * 1000000)
#define RN_LINK_WAIT_MAX_NS (INT64_C(800) * 1000000)
#define RN_LINK_CONNECT_NS (INT64_C(1) * 1000000000)
#define RN_LINK_LASTED_NS                                                                          \
    (INT64_C(1) * 1000000000) /* what was up so long is made again at once                         \
                               */

/* NULL: the connection was lost; whether the command was run is not known. */
typedef void rn_link_reply(void *arg, const redisReply *reply);

struct rn_link_events {
    void *arg;
    /* Before each attempt; NULL: always to the same address. rn_link_go or rn_link_fail
     * follows, now or later. */
    void (*seek)(void *arg);
    void (*up)(void *arg);
    /* An attempt failed, or it was up and is not made again at once, for this reason: without
     * secrets, not for long. All replies that were owed have been answered with NULL. */
    void (*down)(void *arg, const char *why);
    void (*later)(void *arg); /* after rn_link_call_later; NULL: never asked for */
    /* Before `up`: it was started anew, or is another one, so that what was last written may
     * be gone. NULL: for links that do not ask for states. */
    void (*changed)(void *arg);
    /* A reply that no command is owed, of a server that was asked to tell of things as they come.
     * NULL: there are none, and one is a fault. */
    void (*pushed)(void *arg, const redisReply *reply);
};

enum rn_link_purpose {
    RN_LINK_STATES,       /* a server that holds states: it is given the scripts */
    RN_LINK_MASTER,       /* the same, and it must be a master */
    RN_LINK_ASK_SERVER,   /* one that tells of others */
    RN_LINK_ASK_SENTINEL, /* the same, with another user */
};

/* All borrowed until the end. */
struct rn_link_options {
    const struct rn_url *url; /* who we are */
    struct rn_tls *tls;       /* NULL: in plain */
    enum rn_link_purpose purpose;
};

struct rn_link {
    struct rn_loop *loop;
    struct rn_link_options options;
    const struct rn_link_events *events;
    char address[RN_URL_ADDRESS]; /* host:port or unix:PATH; "": not known yet */
    struct rn_dialler *dialler;
    struct rn_resolve *resolving;
    struct rn_conn *conn; /* NULL: waits for the next attempt, or for an address */
    redisReader *reader;
    struct rn_timer again;
    int64_t wait_ns;
    bool opened; /* there was a connection, in this attempt */
    bool up;
    bool served;     /* it was, in this attempt, */
    int64_t up_ns;   /* since then */
    bool distrusted; /* what comes is not read */
    bool leaving;    /* closed when nothing is owed any more */
    bool seeking;
    bool ending;
    unsigned greetings; /* replies to come before it is up */
    char why[160];      /* it went down */
    uint64_t attempts;
    struct rn_history history; /* of the states of who was last talked to */

    struct {
        rn_link_reply *reply;
        void *arg;
        int64_t sent_ns;
    } owed[RN_LINK_COMMANDS];
    unsigned owed_first, owed_count;
};

/* Begins to connect, to `address` unless it has to be sought. In the loop's thread, as
 * everything here. False: out of memory. */
bool rn_link_init(struct rn_link *link, struct rn_loop *loop, const struct rn_link_options *options,
                  const char *address, const struct rn_link_events *events);
/* Owed replies are answered with NULL; no event follows. */
void rn_link_done(struct rn_link *link);

/* What was sought: connects. Ignored if nothing is. */
void rn_link_go(struct rn_link *link, const char *address);
/* It was not found: `down` follows, and it is sought again after a while. */
void rn_link_fail(struct rn_link *link, const char *why);
/* Another attempt is worth it now: one that waits is not waited for. */
void rn_link_hurry(struct rn_link *link);

/* Appends a command to what goes out. False if it is not up, too many wait, or there
 * is no memory; then it was not sent, and nothing follows. */
bool rn_link_send(struct rn_link *link, int argc, const char **argv, const size_t *lens,
                  rn_link_reply *reply, void *arg);
/* How many commands it would take now. */
unsigned rn_link_room(const struct rn_link *link);
/* Has `later` called when all that happens in this round of the loop has. Only while
 * it is up. */
void rn_link_call_later(struct rn_link *link);
/* It cannot be relied on any more. Not from within `reply`: use rn_link_distrust. */
void rn_link_drop(struct rn_link *link, const char *why);
/* The same from within `reply`: after it has returned. */
void rn_link_distrust(struct rn_link *link, const char *why);
/* Another one is to be made; what is owed still counts, and nothing more is sent. */
void rn_link_leave(struct rn_link *link, const char *why);

/* Takes the replies that have arrived by now. Not from within `reply`. */
void rn_link_hear(struct rn_link *link);
/* Since when the oldest reply is owed; INT64_MAX: none is. */
int64_t rn_link_owed_since(const struct rn_link *link);

/* The next wait, given the last one and a random number. */
int64_t rn_link_next_wait(int64_t last_ns, uint64_t random);

#endif
