/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All overrides and bans that are known, in force or not: those that others have
 * set, too, if there is a state file. Rosters are made from them.
 *
 * Guarded by a lock of its own, which comes before the shelf's: who holds it
 * keeps the book in place, and may wait for files. Decisions know nothing of it.
 */
#ifndef RN_LIMITER_CLIENTS_H
#define RN_LIMITER_CLIENTS_H

#include <pthread.h>

#include "limiter/client.h"
#include "limiter/roll.h"
#include "store/journal.h"

struct ration;
struct rn_book;
struct rn_roster;

/* One override or ban. */
struct rn_entry {
    uint64_t identity, sequence;
    uint64_t epoch;     /* of the last reading of the whole journal that met it */
    int64_t expires_ns; /* on the table's time line; INT64_MAX: never */
    bool ban;
    bool active;   /* in the roster of the current book, */
    uint64_t hash; /* under this */
    size_t len;
    char payload[]; /* client.h */
};

struct rn_clients {
    pthread_mutex_t lock;
    struct rn_roll overrides, bans; /* struct rn_entry, by identity */
    struct rn_hash_key secret;      /* of identities: the table's */
    struct rn_journal journal;      /* path NULL: there is no state file */
    uint64_t sequence;              /* of the last change */
    uint64_t generation;            /* of the table when the journal was last read */
    uint64_t epoch;
    bool reread;             /* the journal begins anew: what it does not name is gone */
    bool stale;              /* the roster may lack something: memory ran out */
    uint64_t undone;         /* records that were no changes */
    int64_t next_expiry_ns;  /* of the first that will; INT64_MAX: none */
    int64_t last_expiry_ns;  /* when it was looked for them */
    int64_t now_ns, wall_ns; /* while the lock is held */
};

int rn_clients_init(struct rn_clients *c);
void rn_clients_done(struct rn_clients *c);
/* Reads what lies beside the state file, if there is one (else NULL). What is wrong with that is a
 * notice in `error`; a code only if memory ran out. */
int rn_clients_open(struct ration *r, const char *state_path, struct ration_error *error);

/* Gives a book that nobody reads yet its roster. Under the lock. */
int rn_clients_fill(struct rn_clients *c, struct rn_book *book);

/* --- changing, for override_set.c and ban_set.c ------------------------------------- */

/* Takes the lock, and reads what others have changed. To be followed by
 * rn_clients_end unless it fails. */
int rn_clients_begin(struct ration *r, int64_t now_ns, struct ration_error *error);
/* `changed`: something was. */
void rn_clients_end(struct ration *r, bool changed);

/* The current book, and its roster, both made if there are none: `book` only if
 * `need_book`. RATION_ENOMEM; *book and *roster may be NULL without need. */
int rn_clients_roster(struct ration *r, bool need_book, struct rn_book **book,
                      struct rn_roster **roster, struct ration_error *error);

/* The entry of the same rule and attributes that has not expired, or NULL. */
struct rn_entry *rn_clients_find(struct rn_clients *c, const struct rn_client *client, bool ban);
/* RATION_EFULL if there is no room for one more. */
int rn_clients_room(struct ration *r, const struct rn_client *client, bool ban,
                    struct ration_error *error);
/* Checks and converts an expiry, 0 for never, to both time lines. */
int rn_clients_expiry(const struct rn_clients *c, int64_t expires_ns, struct rn_client *client,
                      struct ration_error *error);
/* Makes it last and puts it in force. */
int rn_clients_change(struct ration *r, enum rn_client_change kind, const struct rn_client *client,
                      struct ration_error *error);

/* A copy of all overrides or bans, by sequence. */
struct rn_clients_row {
    uint64_t sequence;
    int64_t expires_ns; /* from now; 0: never */
    bool active;
    size_t at, len; /* its payload */
};
struct rn_clients_list {
    struct rn_clients_row *rows;
    size_t count;
    struct rn_buf payloads;
};
int rn_clients_list(struct ration *r, bool ban, int64_t now_ns, struct rn_clients_list *list);
void rn_clients_list_done(struct rn_clients_list *list);

/* The public functions at a time of the caller's. */
int rn_override_set_at(struct ration *r, const struct ration_override *o, int64_t now_ns,
                       struct ration_error *error);
int rn_ban_set_at(struct ration *r, const struct ration_ban *ban, int64_t now_ns,
                  struct ration_error *error);
int rn_clients_refresh_at(struct ration *r, int64_t now_ns, struct ration_error *error);

#endif
