/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tokens of the admin port and of changes over RESP: what they let their bearers do, and
 * comparing them, so that guessing is slow: from one address ten wrong ones in a row, then one
 * a second. What is more is refused, right or wrong; so callers that have shown
 * a token on their connection are exempt from that. Any thread.
 */
#ifndef RN_FRONT_TOKEN_H
#define RN_FRONT_TOKEN_H

#include <pthread.h>

#include "base/ip.h"
#include "base/siphash.h"
#include "base/slice.h"
#include "net/conn.h"
#include "rules/ruleset.h"

#define RN_TOKEN_SETS 128 /* of addresses that gave wrong ones lately, */
#define RN_TOKEN_WAYS 8   /* and how many are known of each */

struct rn_token {
    const char *name;
    const char *file; /* where its text comes from; NULL: from the settings */
    enum rn_token_scope scope;
    char *text;       /* from malloc; replaced under the guard's lock */
    uint32_t version; /* how often it was replaced; read atomically */
};

/* The token that a connection has shown. */
struct rn_token_shown {
    const struct rn_token *token; /* NULL: none */
    uint32_t version;             /* of its text */
};

struct rn_token_guard {
    struct rn_token *tokens; /* the daemon's: set before anybody asks */
    size_t token_count;
    pthread_mutex_t lock;
    struct rn_hash_key key;
    struct rn_token_suspect {
        struct rn_ip ip;
        int64_t clear_ns; /* when all of its wrong ones are forgotten */
    } suspects[RN_TOKEN_SETS][RN_TOKEN_WAYS];
};

enum rn_token_answer { RN_TOKEN_RIGHT, RN_TOKEN_WRONG, RN_TOKEN_LATER };

/* False: there is no randomness. */
bool rn_token_guard_init(struct rn_token_guard *guard);
void rn_token_guard_done(struct rn_token_guard *guard);

/* The token with this text; NULL: there is none. For callers that need none: wrong ones are not
 * counted. */
const struct rn_token *rn_token_find(struct rn_token_guard *guard, struct rn_slice given);

/* Compares what a peer gives, and remembers in `shown`, its connection's, whether that is right.
 * `name` is its name; data NULL or "default": whichever it is. LATER: too many were wrong; this one
 * is not judged. */
enum rn_token_answer rn_token_try(struct rn_token_guard *guard, const struct rn_peer *peer,
                                  struct rn_token_shown *shown, struct rn_slice name,
                                  struct rn_slice given, int64_t now_ns);

/* The token that was shown; NULL: none, or its text was replaced since. */
const struct rn_token *rn_token_of(const struct rn_token_shown *shown);

/* Gives a token another text, from malloc, unless it has that one already. False: it has, or
 * another token has it; the text is freed. */
bool rn_token_replace(struct rn_token_guard *guard, struct rn_token *token, char *text);

/* metrics, read, admin */
const char *rn_token_scope_name(enum rn_token_scope scope);

#endif
