/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All overrides and bans, in force or not: also those that other processes have set, if there is a
 * state file. The client index is made from them.
 *
 * They have their own lock, which is taken before the shelf's. The thread that holds it keeps the
 * book in place, and may wait for files. Decisions never take it.
 */
#ifndef RN_LIMITER_CLIENTS_CLIENTS_H
#define RN_LIMITER_CLIENTS_CLIENTS_H

#include <pthread.h>

#include "limiter/clients/client.h"
#include "limiter/clients/map.h"
#include "store/journal.h"

struct ration;
struct rn_book;
struct rn_client_index;

/* How long a node remembers deletions, for nodes that do not know them yet. */
#define RN_CLIENTS_DELETED_NS (INT64_C(30) * 86400 * 1000000000)
#define RN_CLIENTS_DELETED_MAX                                                                     \
    100000 /* of them; beyond that, only those that no other node knows */

/* One override or ban, or the deletion of one. */
struct rn_entry {
    uint64_t identity, sequence;
    uint64_t epoch;     /* of the last reading of the whole journal that had it */
    int64_t expires_ns; /* on the table's time line; INT64_MAX: never */
    int64_t made_us;    /* as in a client */
    bool ban;
    bool deleted;
    bool shared;   /* other nodes can know it: replication.h */
    bool active;   /* in the client index of the current book, */
    uint64_t hash; /* under this */
    size_t len;
    char payload[]; /* client.h */
};

struct rn_clients {
    pthread_mutex_t lock;
    struct rn_map overrides, bans; /* struct rn_entry, by identity */
    struct rn_map deleted;         /* deletions, if `sharing` */
    struct rn_hash_key secret;     /* the table's; hashes identities */
    struct rn_journal journal;     /* path NULL: there is no state file */
    uint64_t sequence;             /* of the last change */
    uint64_t generation;           /* of the table when the journal was last read */
    uint64_t epoch;
    bool sharing;           /* with other nodes: replication.h */
    bool merging;           /* the changes being applied are from other nodes */
    uint64_t local_changes; /* changes that are not */
    bool reread;            /* the journal was replaced: what it does not name is deleted */
    bool stale;             /* the client index may lack something: memory ran out */
    uint64_t undone;        /* records that were no known changes */
    int file_fault;         /* of the state file, as last reported */
    /* Damage that a change found. The next refresh reports it, since callers that make changes
     * seldom have a log. */
    struct ration_error notice;
    int64_t next_expiry_ns;  /* of the next entry that expires; INT64_MAX: none */
    int64_t last_expiry_ns;  /* when expired entries were last dropped */
    int64_t now_ns, wall_ns; /* while the lock is held */
};

int rn_clients_init(struct rn_clients *c);
void rn_clients_done(struct rn_clients *c);
/* Reads the journal beside the state file (NULL: there is none). Damage is a notice in `error`. A
 * code only if memory ran out, or the journal cannot be read. */
int rn_clients_open(struct ration *r, const char *state_path, struct ration_error *error);

/* Takes the lock, and sets the time. */
void rn_clients_lock(struct ration *r, int64_t now_ns);
/* The same; false if another thread has it. */
bool rn_clients_try_lock(struct ration *r, int64_t now_ns);

static inline struct rn_map *rn_clients_map(struct rn_clients *c, bool ban)
{
    return ban ? &c->bans : &c->overrides;
}

/* --- enforce.c, under the lock ------------------------------------------------ */

/* The current book, which stays while the lock is held; NULL: no rules. */
struct rn_book *rn_clients_book(struct ration *r);
/* Gives a new book, which no thread reads yet, its client index. */
int rn_clients_fill(struct rn_clients *c, struct rn_book *book);
/* The current book, and its client index, both made if there are none: a book only if
 * `need_book`, else both may be NULL. 0 or RATION_ENOMEM. */
int rn_clients_index(struct ration *r, bool need_book, struct rn_book **book,
                     struct rn_client_index **index, struct ration_error *error);
/* Takes the entry, in the place of one of the same identity, and puts it in force.
 * RATION_ENOMEM: nothing has changed, it is the caller's. */
int rn_clients_put(struct ration *r, struct rn_entry *e);
void rn_clients_drop(struct ration *r, struct rn_entry *e);
/* Takes the entry of something deleted. RATION_ENOMEM: it is the caller's. */
int rn_clients_remember_deleted(struct rn_clients *c, struct rn_entry *e);
void rn_clients_drop_expired(struct ration *r);
/* Drops entries that the journal, read from its beginning, did not name. */
void rn_clients_drop_unnamed(struct ration *r);
/* Replaces a client index that is worn, or lacks something. */
void rn_clients_tidy(struct ration *r);

/* --- changing, for set.c --------------------------------------- */

/* Takes the lock, and reads changes of other processes. rn_clients_end must follow, unless it
 * fails. */
int rn_clients_begin(struct ration *r, int64_t now_ns, struct ration_error *error);
/* The same; RATION_EBUSY if another thread has the lock. */
int rn_clients_try_begin(struct ration *r, int64_t now_ns, struct ration_error *error);
/* `changed`: there was a change. */
void rn_clients_end(struct ration *r, bool changed);

/* The entry of the same rule and attributes that has not expired, or NULL. */
struct rn_entry *rn_clients_find(struct rn_clients *c, const struct rn_client *client, bool ban);
/* The entry of this identity, in force, expired or deleted; NULL: there is none. */
struct rn_entry *rn_clients_known(struct rn_clients *c, uint64_t identity, bool ban);
/* RATION_EFULL if there is no room for one more. */
int rn_clients_room(struct ration *r, const struct rn_client *client, bool ban,
                    struct ration_error *error);
/* Checks and converts an expiry, 0 for never, to both time lines. */
int rn_clients_expiry(const struct rn_clients *c, int64_t expires_ns, struct rn_client *client,
                      struct ration_error *error);
/* Numbers the records, writes them to the journal, all or none, and puts them in force. */
int rn_clients_apply(struct ration *r, struct rn_record *records, size_t n,
                     struct ration_error *error);
/* The same with one change that this node makes now. */
int rn_clients_change(struct ration *r, enum rn_client_change kind, const struct rn_client *client,
                      struct ration_error *error);

/* The change that led to an entry. */
static inline enum rn_client_change rn_entry_change(const struct rn_entry *e)
{
    if (e->ban)
        return e->deleted ? RN_BAN_DELETE : RN_BAN_SET;
    return e->deleted ? RN_OVERRIDE_DELETE : RN_OVERRIDE_SET;
}

static inline bool rn_client_change_is_ban(uint32_t kind)
{
    return kind == RN_BAN_SET || kind == RN_BAN_DELETE;
}

static inline bool rn_client_change_deletes(uint32_t kind)
{
    return kind == RN_OVERRIDE_DELETE || kind == RN_BAN_DELETE;
}

/* --- list.c ------------------------------------------------------------------- */

/* Rewrites the journal, which is locked, if more than half of it is history.
 * If that fails, it stays as it is. */
void rn_clients_compact(struct rn_clients *c);

/* A copy of overrides or bans, by sequence. */
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
/* What was deleted or has expired is left out. */
int rn_clients_list(struct ration *r, bool ban, const struct ration_listing *listing,
                    struct rn_clients_list *list);
void rn_clients_list_done(struct rn_clients_list *list);

/* The next change or refresh reads the journal from its beginning. */
void rn_clients_read_again(struct rn_clients *c);

/* --- set.c -------------------------------------------------------------------- */

/* The public functions for both: a ban is an override without rule and limit; its note is the
 * reason. */
int rn_clients_set(struct ration *r, const struct ration_override *o, bool ban, int64_t now_ns,
                   struct ration_error *error);
int rn_clients_delete(struct ration *r, const struct ration_override *o, bool ban,
                      struct ration_error *error);
/* Fills in `sequence` and `active`. */
int rn_clients_look_up(struct ration *r, struct ration_override *o, bool ban,
                       struct ration_error *error);
typedef int rn_clients_see(void *arg, const struct ration_override *o);
int rn_clients_each(struct ration *r, bool ban, const struct ration_listing *listing,
                    rn_clients_see *see, void *arg);

/* ration_clients_refresh at a time of the caller's. */
int rn_clients_refresh_at(struct ration *r, int64_t now_ns, struct ration_error *error);

#endif
