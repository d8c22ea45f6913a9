/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single clients, at run time: an override gives one client of a rule another
 * limit, a ban refuses it everything.
 *
 *     struct ration_attribute who = {"api_key", 7, key, strlen(key)};
 *     struct ration_override o = {.rule = "api", .rule_len = 3, .attributes = &who, .count = 1,
 *                                 .limit = "1000 per minute", .limit_len = 15};
 *     if (ration_override_set(r, &o, &error) != 0)
 *         complain(error.text);
 *
 * They outlive a reload of the rules. With a state file they are kept beside it,
 * in FILE.overrides, and every process that has the state file open learns of a change
 * with its next ration_clients_refresh. A decision never waits for any of this.
 *
 * On success `error` (may be NULL) has an empty text, or a notice: what was
 * found damaged, or cut off.
 */
#ifndef RATION_CLIENTS_H
#define RATION_CLIENTS_H

#include <ration/ration.h>
#include <ration/request.h>

#define RATION_OVERRIDES_MAX 250000
#define RATION_BANS_MAX 250000
#define RATION_OVERRIDE_ATTRIBUTES_MAX 8
#define RATION_BAN_ATTRIBUTES_MAX 4
#define RATION_BAN_KINDS_MAX 64 /* sets of names, and lengths of networks, in all bans */
#define RATION_NOTE_MAX 200     /* bytes of a note or a reason: UTF-8 */
#define RATION_ATTRIBUTE_NAME_MAX 128
#define RATION_ATTRIBUTE_VALUE_MAX 1024
#define RATION_EXPIRY_MAX_NS (INT64_C(3653) * 86400 * 1000000000) /* ten years */

/* --- overrides --------------------------------------------------------------- */

struct ration_override {
    const char *rule; /* its name */
    size_t rule_len;
    /* The key of the client under that rule: for `key: [api_key, ip]` both, for
     * `api_key or ip` one of them. Values as the rule sees them; of an address
     * that the rule cuts to a prefix, the address or that network. For an Envoy
     * rule the entries of the descriptor, in order. */
    const struct ration_attribute *attributes;
    size_t count;
    /* In the place of the rule's limits, of whatever tier: "1000 per minute burst
     * 50", "unlimited". Of the rule's algorithm unless the text implies another. */
    const char *limit;
    size_t limit_len;
    int64_t expires_ns; /* from now; 0: never */
    const char *note;   /* for people */
    size_t note_len;

    /* Out, of list and find; ignored by other calls. */
    uint64_t sequence; /* of the change that set it */
    bool active;       /* false: there is no such rule, or it has another key, now */
};

/* Replaces one of the same rule and key. What the client has spent under the
 * rule stays spent: the same kind and length of window share their state, of
 * another the same share is taken, rounded up; and what it spends under the
 * override is also counted under the rule. RATION_EINVAL or RATION_EPARSE: no
 * such rule, another key, a faulty limit; RATION_EFULL: there are
 * RATION_OVERRIDES_MAX; RATION_EIO, RATION_EBUSY, RATION_ENOMEM; RATION_EFOREIGN,
 * RATION_EVERSION, RATION_ETORN: FILE.overrides is none of ours and was left
 * alone. Nothing has changed then. */
RATION_API int ration_override_set(struct ration *r, const struct ration_override *o,
                                   struct ration_error *error);
/* `rule` and `attributes` are read. RATION_EGONE: there is none. */
RATION_API int ration_override_delete(struct ration *r, const struct ration_override *o,
                                      struct ration_error *error);
/* `rule` and `attributes` are read; sequence and active are set. RATION_EGONE: there
 * is none. */
RATION_API int ration_override_find(struct ration *r, struct ration_override *o,
                                    struct ration_error *error);
/* Calls `see` for all, or those of one rule (NULL: all), in the order in which
 * they were set, until it returns non-zero. It may call anything. expires_ns is
 * from now. 0 or RATION_ENOMEM. */
RATION_API int ration_override_each(struct ration *r, const char *rule, size_t rule_len,
                                    int (*see)(void *arg, const struct ration_override *o),
                                    void *arg);

/* Some of them. A caller that goes on after the last entry it has seen meets each unchanged
 * entry once, even if others are set and deleted meanwhile. An entry that is set again comes
 * again, at the end. */
struct ration_listing {
    const char *rule; /* of overrides; NULL: of all rules */
    size_t rule_len;
    uint64_t after; /* only those of a larger sequence */
    size_t limit;   /* how many at most; 0: all */
};
/* As ration_override_each. */
RATION_API int ration_override_list(struct ration *r, const struct ration_listing *listing,
                                    int (*see)(void *arg, const struct ration_override *o),
                                    void *arg);

/* --- bans ------------------------------------------------------------------------ */

struct ration_ban {
    /* Requests that have all of these are refused: 1 to RATION_BAN_ATTRIBUTES_MAX.
     * An `ip` may be a network: 10.0.0.0/8. Of an Envoy descriptor, its entries. */
    const struct ration_attribute *attributes;
    size_t count;
    int64_t expires_ns; /* from now; 0: never */
    const char *reason; /* given to the client as outcome.message */
    size_t reason_len;

    uint64_t sequence; /* as in an override */
    bool active;
};

/* Refused before any limit is charged, as RATION_BY_BAN; a deny entry of the
 * rules is told first, and an allow entry beats a ban. Codes as above. */
RATION_API int ration_ban_set(struct ration *r, const struct ration_ban *ban,
                              struct ration_error *error);
RATION_API int ration_ban_delete(struct ration *r, const struct ration_ban *ban,
                                 struct ration_error *error);
RATION_API int ration_ban_find(struct ration *r, struct ration_ban *ban,
                               struct ration_error *error);
RATION_API int ration_ban_each(struct ration *r,
                               int (*see)(void *arg, const struct ration_ban *ban), void *arg);
RATION_API int ration_ban_list(struct ration *r, const struct ration_listing *listing,
                               int (*see)(void *arg, const struct ration_ban *ban), void *arg);

/* --- both ------------------------------------------------------------------------- */

/* How many there are of each that have not expired. */
RATION_API void ration_clients_count(struct ration *r, uint64_t *overrides, uint64_t *bans);

/* Takes over what others have changed, and forgets what has expired (which
 * counts no more in any case). To be called several times a second, by one
 * thread that may wait: it reads files. It costs little if nothing has changed.
 * On an error what is known stays in force. It also sees whether the state file is
 * still there: one that was cut short, deleted or replaced is an error, reported
 * once, and everything goes on as it was. */
RATION_API int ration_clients_refresh(struct ration *r, struct ration_error *error);

#endif
