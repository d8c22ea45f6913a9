/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counting usage: what decisions, give-backs and late debits call, and what other nodes are told.
 * See include/ration/usage.h for what is promised, usage_file.h for how it is kept.
 *
 * A rule with usage adds a receipt of its own to each outcome, beside those of its limits: it
 * names the client by hash and the units that were counted, so that they can be taken back
 * once, whatever limits the rule has. Its capacity is 0, which no limit has that was charged.
 */
#ifndef RN_LIMITER_USAGE_USAGE_H
#define RN_LIMITER_USAGE_USAGE_H

#include <ration/rules.h>
#include <ration/usage.h>

#include "base/hints.h"
#include "limiter/compiled.h"
#include "limiter/rulebook/book.h"
#include "rules/ruleset.h"

struct rn_applied;
struct rn_book;
struct rn_report;
struct rn_rule;
struct rn_ruleset;
struct rn_usage_file;

#define RN_USAGE_BYTES (UINT64_C(64) << 20) /* unless told */
#define RN_USAGE_BYTES_MIN (UINT64_C(1) << 20)

/* The usage of a limiter. The file is opened when rules first need it. */
struct rn_usage {
    char *state_path;           /* NULL: there is no state file */
    uint64_t bytes;             /* of the usage file; 0: as it is, RN_USAGE_BYTES if it is new */
    struct rn_usage_file *file; /* NULL: not open; atomically */
};

/* A rule of a book that has usage. */
struct rn_usage_rule {
    struct rn_usage_file *file;
    const struct rn_calendar *calendar;
    struct rn_compiled base; /* for its seed */
    uint64_t salt;           /* of its receipts; depends on the rule's name only */
    uint32_t slot;           /* in the file */
    uint32_t at;             /* the period of the last decision, in the calendar; atomically */
};

/* 0 or RATION_ENOMEM. */
int rn_usage_init(struct rn_usage *usage, const struct ration_options *options);
void rn_usage_done(struct rn_usage *usage);

/* Opens the file if a rule has usage and there is a state file. error->text may hold a notice on
 * success, else it is "". */
int rn_usage_open(struct ration *r, const struct rn_ruleset *ruleset, struct ration_error *error);

/* Decides without counting usage from now on; call it before rules are installed. For programs that
 * must serve without the file. */
void rn_usage_forgo(struct ration *r);
/* Whether a rule has usage. */
bool rn_usage_is_needed(const struct rn_ruleset *ruleset);

/* As rn_table_check_file. */
int rn_usage_check_file(const struct rn_usage *usage, struct ration_error *error);

/* Reports rules with usage if there is no state file. False: there are some. */
bool rn_usage_fits(const struct rn_ruleset *ruleset, bool has_state, struct rn_report *report);
/* The same, and opens the file and makes room for the rules in it; reports why that cannot be. */
bool rn_usage_prepare(struct ration *r, const struct rn_ruleset *ruleset, struct rn_report *report);

/* Finds the rules of the book in the file, if it is open. 0, RATION_ENOMEM or RATION_EFULL: no room
 * for another rule. */
int rn_usage_attach(struct ration *r, struct rn_book *book, struct ration_error *error);

/* --- counting ---------------------------------------------------------------------- */

/* NULL: the usage of this rule is not counted. */
static inline struct rn_usage_rule *rn_usage_of(const struct rn_book *book,
                                                const struct rn_rule *rule)
{
    return rn_likely(rule->usage == NULL) || !book->usage ? NULL : book->usage[rule->index];
}

/* Adds the units of a decision. `hash` is that of the key, without a salt; `wall_ns` is when. */
void rn_usage_count(struct rn_usage_rule *rule, const struct rn_applied *client, uint64_t hash,
                    bool admitted, uint64_t units, int64_t wall_ns);
/* Adds units to those admitted, or takes some away: of a client that is known by its hash alone. If
 * it has no row, `other` gets them. */
void rn_usage_adjust(struct rn_usage_rule *rule, uint64_t hash, int64_t units, int64_t wall_ns);

/* What was counted as admitted, so that it can be taken back. */
static inline struct ration_receipt rn_usage_receipt(const struct rn_usage_rule *rule,
                                                     uint64_t hash, uint64_t units)
{
    return (struct ration_receipt){.hash = hash ^ rule->salt, .salt = rule->salt, .taken = units};
}

/* The rule of such a receipt; NULL: it is another kind of receipt, or the rule is gone. */
struct rn_usage_rule *rn_usage_find(const struct rn_book *book,
                                    const struct ration_receipt *receipt);
static inline bool rn_usage_is_receipt(const struct ration_receipt *receipt)
{
    return receipt->cap == 0;
}

/* --- for other nodes -------------------------------------------------------------- */

struct rn_usage_row {
    struct ration_usage usage; /* as in a listing */
    uint32_t keep;             /* finished periods that the rule keeps */
    uint64_t tag;              /* of the row in its file: no other one has it */
    uint64_t entry;            /* for rn_usage_mark */
};

/* A number that only rises, kept in the file. 0: usage is not open. */
uint64_t rn_usage_stamp(struct ration *r);

/* Walks the entries that have changed since they were last walked, or `all` of them: until `most`
 * have been seen or `see` returns non-zero. Takes the mark of a change away before it reads
 * the counters. *cursor is 0 at the beginning and again when all have been seen. A process that was
 * killed may have left a change unmarked: walk all of them once after a start. 0 or
 * RATION_ENOMEM. */
int rn_usage_dirty(struct ration *r, bool all, uint64_t *cursor, size_t most,
                   int (*see)(void *arg, const struct rn_usage_row *row), void *arg);
/* Marks an entry as changed again. */
void rn_usage_mark(struct ration *r, uint64_t entry);

#endif
