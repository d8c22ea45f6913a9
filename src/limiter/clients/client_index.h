/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The overrides and bans in force under one book, ready for decisions: resolved to keys of its
 * rules, with compiled limits. The book owns it. Readers pin the book (pin.h) and never wait; one
 * thread at a time changes the index in place, under the lock of the clients (clients.h).
 *
 * What is replaced stays in limbo until the whole client index is freed, with its book
 * or with the copy of its book that was replaced (rn_book_renew).
 */
#ifndef RN_LIMITER_CLIENTS_CLIENT_INDEX_H
#define RN_LIMITER_CLIENTS_CLIENT_INDEX_H

#include <ration/rules.h>

#include "limiter/clients/ban_filter.h"
#include "limiter/clients/client.h"
#include "limiter/clients/map.h"
#include "limiter/rulebook/book.h"
#include "rules/builder.h"
#include "rules/match/match.h"

struct ration;

/* A limit in the place of a rule's; one for all overrides of that text. */
struct rn_plan {
    struct rn_rule_limit *limit; /* NULL: unlimited */
    struct rn_compiled compiled; /* a variant of all limits that the rule has */
};

struct rn_override {
    const struct rn_plan *plan;
    int64_t expires_ns; /* on the table's time line; INT64_MAX: never */
};

/* A rule that has, or had, an override. */
struct rn_override_rule {
    struct rn_compiled base; /* for its seed */
    const struct rn_compiled **shapes;
    uint32_t shape_count;
    const struct rn_compiled **variants; /* all its limits, sorted for rn_compiled_guard */
    uint32_t variant_count;
};

struct rn_ban_kind {
    uint32_t live; /* bans; 0: not looked up */
    uint32_t count;
    struct rn_ban_part parts[RATION_BAN_ATTRIBUTES_MAX]; /* sorted by name */
};

struct rn_ban {
    int64_t expires_ns;
    struct rn_ban_kind *kind;
    size_t reason_len;
    char reason[];
};

struct rn_client_index {
    struct rn_map overrides;         /* struct rn_override, by rn_gather_hash */
    struct rn_map bans;              /* struct rn_ban */
    bool bans_meet;                  /* two have one key, such as /a and /A where case is ignored */
    struct rn_override_rule **rules; /* by rn_rule.index; NULL: none */
    uint32_t kind_count;
    struct rn_ban_kind kinds[RATION_BAN_KINDS_MAX];
    struct rn_ban_filter ban_filter;

    /* Only the thread that changes it uses these: */
    struct rn_hash_key secret, ban_seed;
    struct rn_map plans;
    struct rn_report report;
    struct rn_builder builder; /* owns limits, calendars, plans */
    void **limbo;
    size_t limbo_count, limbo_room;
};

/* Empty. NULL: out of memory. */
struct rn_client_index *rn_client_index_new(const struct rn_book *book);
void rn_client_index_free(struct rn_client_index *index);

/* Frees `item` with the client index. False: out of memory, and it is not freed. */
bool rn_client_index_retire(struct rn_client_index *index, void *item);
/* Whether so much is in limbo that a new index is worth it. */
bool rn_client_index_is_worn(const struct rn_client_index *index);

/* --- override.c ------------------------------------------------------------------ */

/* A key of a rule, from the attributes of an override. */
struct rn_override_key {
    const struct rn_rule *rule;
    uint64_t hash;
    struct rn_client_attribute attributes[RN_CLIENT_ATTRIBUTES_MAX]; /* as the rule spells them */
    char texts[RN_CLIENT_ATTRIBUTES_MAX][RN_CIDR_TEXT];              /* they may point here */
    struct rn_path_readings paths;                                   /* or here */
};

/* RATION_EINVAL if the book has no such rule, or it has another key. */
int rn_override_resolve(const struct rn_book *book, const struct rn_hash_key *secret,
                        const struct rn_client *client, struct rn_override_key *key,
                        struct ration_error *error);
/* The plan for a text under a rule; NULL with *code set: a fault of the text, or
 * out of memory. */
const struct rn_plan *rn_override_plan(struct rn_client_index *index, const struct rn_book *book,
                                       const struct rn_rule *rule, struct rn_slice text, int *code,
                                       struct ration_error *error);
/* Puts an override in force. RATION_EINVAL: not possible under this book; RATION_ENOMEM. */
int rn_override_enter(struct rn_client_index *index, const struct rn_book *book,
                      const struct rn_client *client, int64_t expires_ns, uint64_t *hash);
void rn_override_leave(struct rn_client_index *index, uint64_t hash);

/* override_carry.c: charges the state of a key under `plan`, which is about to be put in force,
 * what the client has spent under its limits until now. */
int rn_override_carry_over(struct ration *r, const struct rn_book *book,
                           const struct rn_client_index *index, const struct rn_override_key *key,
                           const struct rn_plan *plan, struct ration_error *error);

/* The entry of a rule that has overrides, or NULL. */
static inline const struct rn_override_rule *rn_override_rule(const struct rn_client_index *index,
                                                              const struct rn_rule *rule)
{
    return __atomic_load_n(&index->rules[rule->index], __ATOMIC_ACQUIRE);
}

/* --- ban.c -------------------------------------------------------------------------- */

/* Spells the values as they are compared: addresses, networks and paths canonically
 * (paths as by default: `paths:` of the rules may make more of them equal).
 * RATION_EINVAL or RATION_EPARSE if they cannot be banned. */
struct rn_ban_texts {
    char texts[RATION_BAN_ATTRIBUTES_MAX][RN_CIDR_TEXT];
    struct rn_path_readings paths;
};
int rn_ban_spell(struct rn_client *client, struct rn_ban_texts *texts, struct ration_error *error);
/* RATION_EFULL if RATION_BAN_KINDS_MAX kinds are in use and this would be another. */
int rn_ban_check(const struct rn_client_index *index, const struct rn_book *book,
                 const struct rn_client *client, struct ration_error *error);
/* Puts a ban in force, in the place of itself if it `replaces`: 0, RATION_EINVAL, RATION_EFULL as
 * above, RATION_ENOMEM. If another ban has the same key under these rules, the longer one holds. */
int rn_ban_enter(struct rn_client_index *index, const struct rn_book *book,
                 const struct rn_client *client, int64_t expires_ns, bool replaces, uint64_t *hash);
void rn_ban_leave(struct rn_client_index *index, uint64_t hash);

/* The ban of a request at `now_ns` (may be RATION_NOW), or NULL. `values` may be NULL: then only
 * the attributes of the request count. All readings of its path are tried: afterwards `values` are
 * by any of them. *left_ns is how long the ban lasts. */
const struct rn_ban *rn_ban_find(const struct ration *r, const struct rn_book *book,
                                 struct rn_values *values, const struct ration_request *request,
                                 int64_t now_ns, int64_t *left_ns);

/* Whether there is a ban at all, in force or expired. */
bool rn_ban_any(struct ration *r);

#endif
