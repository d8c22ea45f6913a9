/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pauses (include/ration/pause.h), and their part in a decision.
 *
 * A pause is a key of this process's table like any other: a bucket of one unit that is full again
 * when the pause ends. So it ends by itself, is never evicted, and all users of the table have it.
 * Its key is derived from the hash of the client under a rule or limit, or from the text of an ad
 * hoc key: on all nodes that share limits it is the same.
 *
 * The board has the latest end of all pauses, and a filter. Decisions read one word while nothing
 * is paused, and while something is, most of them read two.
 */
#ifndef RN_LIMITER_PAUSE_PAUSE_H
#define RN_LIMITER_PAUSE_PAUSE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <ration/pause.h>

#include "base/hints.h"

struct rn_applied;
struct rn_book;
struct rn_compiled;
struct rn_fast_path;
struct rn_gathered;
struct rn_transaction;

#define RN_PAUSE_FILTER_WORDS 64

/* An entry of the board. */
struct rn_pause_board {
    uint64_t latest_ns; /* 0: nothing is paused */
    uint64_t filter[RN_PAUSE_FILTER_WORDS];
};

/* A pause that was set or lifted, for other nodes. */
struct rn_pause_event {
    uint64_t key;
    int64_t at_ns;
    int64_t ends_ns; /* 0: lifted */
    bool heard;      /* from another node */
};

/* What has left the log before it was sent stays a pause of this node. */
#define RN_PAUSE_LOG 4096

#define RN_PAUSE_SPANS 512 /* of five minutes: more than the longest pause */

struct rn_pauses {
    struct rn_pause_board *board; /* `none` if the board of the table has no room */
    struct rn_pause_board none;
    uint64_t begun, lifted, refused; /* atomically */
    /* Changes of this process are made one at a time. */
    pthread_mutex_t lock;
    /* The last events, by number, from 1 on: of a limiter that is shared with other nodes. */
    struct rn_pause_event *log; /* NULL: there was none */
    uint64_t last;              /* number; 0: none */
    /* How many of this process end in a span of time, by its number % RN_PAUSE_SPANS. */
    struct {
        int64_t span;
        uint64_t count;
    } ending[RN_PAUSE_SPANS];
};

/* The table is open. */
void rn_pause_open(struct ration *r);
void rn_pause_close(struct rn_pauses *pauses);

/* Whether anything may be paused. */
static inline bool rn_pause_any(const struct rn_pauses *pauses)
{
    return rn_unlikely(__atomic_load_n(&pauses->board->latest_ns, __ATOMIC_RELAXED) != 0);
}

/* The key of the pause of a client, by its hash under a rule or limit without the salt. */
uint64_t rn_pause_key(uint64_t hash);
/* The key of the pause of an ad hoc key. */
uint64_t rn_pause_key_of_text(const struct ration *r, const void *key, size_t len);
/* The rest of a pause; 0: there is none. */
int64_t rn_pause_left(struct ration *r, uint64_t key, int64_t now_ns);
/* Until the last of all ends; 0: nothing is paused. */
int64_t rn_pause_latest(struct ration *r, int64_t now_ns);

/* --- decide.c ------------------------------------------------------------------------------ */

/* How long a client is paused under a rule of a pinned book, or the key of a charge. */
int64_t rn_pause_of_client(struct ration *r, const struct rn_book *book,
                           const struct rn_applied *applied, int64_t now_ns);
int64_t rn_pause_of_charge(struct ration *r, const struct rn_compiled *l,
                           const struct ration_charge *c, int64_t now_ns);

/* For a rule that is being gathered: sets the pause, if it is the longest so far. */
void rn_pause_find(struct rn_gathered *g, const struct rn_applied *applied);
/* Whether the request stands in line until that pause ends, for the first limit of the rule. */
bool rn_pause_wait(struct rn_gathered *g);
/* Refuses a request because of that pause; counted unless `look_only`. */
void rn_pause_refuse(struct rn_gathered *g, bool look_only, struct ration_outcome *out);
/* Whether a limit of the fast path may be of a paused client. */
bool rn_pause_stops(struct ration *r, const struct rn_fast_path *f, int64_t now_ns);

/* For a charge of a caller that one operation would decide. True: it is paused, refused, filled and
 * counted. */
bool rn_pause_settle(struct ration *r, const struct rn_compiled *l, struct ration_charge *c,
                     int64_t now_ns);
/* For a charge of a caller that was looked at: if it is paused, its verdict says so. */
void rn_pause_tell(struct ration *r, const struct rn_compiled *l, struct ration_charge *c,
                   int64_t now_ns);
/* For the charges of a caller, before they are charged together: sets how long each is held up by
 * its pause. */
void rn_pause_hold(struct rn_transaction *tx);
/* Counts a refusal by a pause. */
void rn_pause_count(struct ration *r);

/* --- for other nodes ------------------------------------------------------------------------- */

/* The events after *number, the oldest first, and moves *number behind them. 0: all that are still
 * known. Returns how many, `most` at most. */
size_t rn_pause_recent(struct ration *r, uint64_t *number, struct rn_pause_event *out, size_t most);

/* Puts a pause of another node in force, for `rest_ns` more; 0: lifts it. False: there was no room.
 */
bool rn_pause_apply(struct ration *r, uint64_t key, int64_t rest_ns);

#endif
