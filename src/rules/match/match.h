/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the rules that apply to a request, and their keys. The cost grows with the number of rules
 * that match, not with the number of rules. Nothing is allocated; only addresses, hosts, methods
 * and paths that must be rewritten are copied, into memory of the caller.
 */
#ifndef RN_RULES_MATCH_MATCH_H
#define RN_RULES_MATCH_MATCH_H

#include <ration/request.h>

#include "base/decimal.h"
#include "rules/ruleset.h"

/* Rules that may apply to one request. Loading cannot find out, so more are an error of the
 * request. */
#define RN_MATCHES_MAX 64

/* One rule that applies. */
struct rn_match {
    const struct rn_rule *rule;
    const struct rn_tier *tier;
    uint64_t cost;
    uint8_t keep_percent;                  /* the share that a request of its priority must leave */
    struct rn_slice key[RN_KEY_PARTS_MAX]; /* rule->key_count values, */
    struct rn_slice key_names[RN_KEY_PARTS_MAX]; /* the attributes, where there was a choice */
    char cut[RN_KEY_PARTS_MAX][48];              /* addresses cut to a prefix; `key` points here */
};

#define RN_METHOD_MAX 32 /* longer methods are not changed to upper case */

/* By attribute number; only the ruleset's attribute_count are touched. */
struct rn_values {
    struct rn_slice value[RN_ATTRIBUTES_MAX]; /* data NULL: absent */
    struct rn_ip address[RN_ATTRIBUTES_MAX];  /* for is_ip; bits 0: not an address */
    char scratch[RN_ATTRIBUTES_MAX][48];      /* canonical addresses */
    /* For is_number. Parsed once: a request may have long numbers, and many rules may compare
     * them. */
    struct rn_decimal number[RN_ATTRIBUTES_MAX];
    bool has_number[RN_ATTRIBUTES_MAX]; /* false: the value is no number */
    bool pending[RN_ATTRIBUTES_MAX];    /* for RN_SOURCE_GEO: not looked up yet */
    char host[256];                     /* the host, if it had to be rewritten, */
    char method[RN_METHOD_MAX];         /* and the method */
    struct rn_path_readings paths;      /* `value` is by one of these */
};

enum rn_match_outcome {
    RN_MATCH_LIMITS,  /* `matches` apply, possibly none */
    RN_MATCH_ALLOWED, /* by an allow entry: no limits */
    RN_MATCH_DENIED,  /* by a deny entry; without one: the path is unreadable, and more
                         rules than can be charged might be meant */
    RN_MATCH_TOO_MANY,
};

struct rn_matches {
    enum rn_match_outcome outcome;
    const struct rn_list_entry *entry; /* ALLOWED, DENIED; else NULL */
    uint32_t count;
    struct rn_match items[RN_MATCHES_MAX]; /* in order of the files */
    struct rn_values values;               /* by the first reading of the path */
};

/* `matches` can be reused; its slices point into the request, the ruleset or itself. */
void rn_match_request(const struct rn_ruleset *ruleset, const struct ration_request *request,
                      struct rn_matches *matches);

/* Finds out why one rule applies or not, without the index; tests compare the two. Fills in `match`
 * if the rule applies, also with an unlimited tier; its slices may point into itself, so do not
 * copy it. Its cost is 0 if the rule has none, where rn_match_request uses the request's.
 * Afterwards `values` are by the first reading of the path that the rule applies to, or by the
 * first. */
enum rn_why {
    RN_WHY_APPLIES,
    RN_WHY_CONDITION, /* no alternative holds */
    RN_WHY_NO_KEY,    /* key part number `at` is absent */
    RN_WHY_NO_TIER,   /* the tier's value is unknown and there is no default */
    RN_WHY_UNLIMITED, /* applies, and the tier is unlimited */
};
struct rn_reason {
    enum rn_why why;
    uint32_t at;
    uint32_t alternative; /* the number of the first that holds; 0 if none does */
};
struct rn_reason rn_match_explain(const struct rn_ruleset *ruleset, const struct rn_rule *rule,
                                  struct rn_values *values, struct rn_match *match);

/* Whether a condition holds for the values, which are by one reading, and of which all are found
 * (rn_values_find_all). */
bool rn_condition_holds(const struct rn_ruleset *ruleset, const struct rn_condition *condition,
                        const struct rn_values *values);

/* Fills in the values of all attributes of the ruleset. If a request has an attribute twice, the
 * first counts (all forwarding headers count, the last first). `path` is the first of its readings
 * (path.h); addresses become canonical, without a port; `host` is in lower case, without port and
 * final dot. */
void rn_values_resolve(const struct rn_ruleset *ruleset, const struct ration_request *request,
                       struct rn_values *values);
/* The value of an attribute, which is looked up if it is in a database and was not looked up for
 * this request yet. data NULL: absent. Those who read rn_values.value themselves see attributes of
 * RN_SOURCE_GEO only after that. */
struct rn_slice rn_values_find(const struct rn_ruleset *ruleset, struct rn_values *values,
                               uint16_t number);
/* The same for all attributes. */
void rn_values_find_all(const struct rn_ruleset *ruleset, struct rn_values *values);
/* Changes `path`, and the attributes derived from it, to reading `n` of paths.count. */
void rn_values_read_as(const struct rn_ruleset *ruleset, struct rn_values *values, uint32_t n);

/* Builds the index; called by rn_ruleset_load. Allocates in the arena. False:
 * out of memory. */
bool rn_match_index_build(struct rn_ruleset *ruleset);

#endif
