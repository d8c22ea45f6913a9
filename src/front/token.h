/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tokens of the admin port and of changes over RESP: their scopes, and comparing them.
 * Guessing is slow: an address may try ten wrong tokens in a row, then one a second. Further
 * ones are refused, right or wrong, except on connections that have shown a right one before.
 * Any thread.
 */
#ifndef RN_FRONT_TOKEN_H
#define RN_FRONT_TOKEN_H

#include <pthread.h>

#include "base/ip.h"
#include "base/siphash.h"
#include "base/slice.h"
#include "net/conn.h"
#include "rules/ruleset.h"

#define RN_TOKEN_SETS 128 /* of addresses with wrong tokens lately, */
#define RN_TOKEN_WAYS 8   /* and addresses in each */

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
    struct rn_token *tokens; /* the daemon's: set before the server starts */
    size_t token_count;
    pthread_mutex_t lock;
    struct rn_hash_key key;
    struct rn_token_suspect {
        struct rn_ip ip;
        int64_t clear_ns; /* when its wrong tokens are forgotten */
    } suspects[RN_TOKEN_SETS][RN_TOKEN_WAYS];
};

enum rn_token_answer { RN_TOKEN_RIGHT, RN_TOKEN_WRONG, RN_TOKEN_LATER };

/* False: the system gives no random bytes. */
bool rn_token_guard_init(struct rn_token_guard *guard);
void rn_token_guard_done(struct rn_token_guard *guard);

/* The token with this text; NULL: there is none. Wrong ones are not counted: for callers that
 * need no token. */
const struct rn_token *rn_token_find(struct rn_token_guard *guard, struct rn_slice given);

/* Compares the token of a peer, and keeps a right one in `shown`, of its connection. The name of
 * the token must be `name`, unless that is "default" or its data NULL. LATER: too many were wrong;
 * this one was not compared. */
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
