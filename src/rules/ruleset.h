/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A compiled ruleset: the content of a set of rules files, checked, immutable, in one arena. Any
 * number of threads may read it once rn_ruleset_load has returned.
 *
 * Native rules and Envoy's descriptor trees both become rules with limits. match/match.h finds the
 * rules of a request by attributes, envoy/envoy.h by descriptors.
 */
#ifndef RN_RULES_RULESET_H
#define RN_RULES_RULESET_H

#include <ration/ration.h>

#include "base/arena.h"
#include "base/ip.h"
#include "base/slice.h"
#include "core/earn.h"
#include "core/escalate.h"
#include "core/limit.h"
#include "rules/geo/database.h"
#include "rules/match/path.h"
#include "rules/native/statuses.h"
#include "rules/report/report.h"
#include "rules/signal.h"
#include "rules/teams.h"

#define RN_KEY_PARTS_MAX 8
#define RN_ATTRIBUTES_MAX 256 /* distinct attribute names in a ruleset */
#define RN_NO_ATTRIBUTE UINT16_MAX

/* --- attributes -------------------------------------------------------------- */

enum rn_source {
    RN_SOURCE_REQUEST,   /* the request has it under its name */
    RN_SOURCE_HEADER,    /* the value of header.NAME */
    RN_SOURCE_PATH,      /* a {parameter} of a path pattern */
    RN_SOURCE_FORWARDED, /* ip: the client in a forwarding header of trusted proxies */
    RN_SOURCE_GEO,       /* what a database knows of an address; looked up when a rule needs it */
};

/* A name that rules refer to; its number is its index in ruleset->attributes. */
struct rn_attribute {
    struct rn_slice name;
    enum rn_source source;
    bool is_ip;                      /* compared and keyed as an address */
    bool is_number;                  /* compared as a number by `above` or `below` */
    struct rn_slice header;          /* HEADER, FORWARDED: lower-case name without "header." */
    bool forwarded_rfc7239;          /* FORWARDED: the header is "forwarded", not a plain list */
    struct rn_slice pattern;         /* PATH: like /users/{user}/posts/{post} */
    uint16_t segment;                /* PATH: the number of the segment, from 0 */
    uint16_t of;                     /* GEO: the attribute that has the address, */
    enum rn_geo_field field;         /* what to look up, */
    const struct rn_geo_source *geo; /* and where */
};

/* --- conditions -------------------------------------------------------------- */

enum rn_test {
    RN_TEST_EQUALS,  /* one of `values` */
    RN_TEST_PATTERN, /* matches one of `values`: see match/pattern.h */
    RN_TEST_PREFIX,  /* begins with one of `values` */
    RN_TEST_CIDR,    /* an address in `networks` */
    RN_TEST_PRESENT, /* present and not empty */
    RN_TEST_ABOVE,   /* a number (base/decimal.h) greater than the one in `values` */
    RN_TEST_BELOW,   /* less */
};

struct rn_condition {
    uint16_t attribute;
    enum rn_test test;
    bool negated;   /* absent attributes satisfy a negated test */
    bool looked_up; /* the attribute is RN_SOURCE_GEO */
    bool is_path;   /* PATTERN: `*` stops at slashes; PREFIX: a slash at its end is optional */
    const struct rn_slice *values;
    uint32_t value_count;
    const struct rn_cidr_set *networks;
    uint32_t line, column; /* its place in the file */
};

/* Conditions that must all hold. */
struct rn_alternative {
    const struct rn_condition *conditions;
    uint32_t condition_count;
    uint32_t line, column; /* its place in the file */
};

/* --- keys, costs, priorities --------------------------------------------------- */

/* One part of a key: the first of `attributes` that is present. */
struct rn_key_part {
    uint16_t attributes[RN_KEY_PARTS_MAX];
    uint8_t count;
    uint8_t ipv4_prefix, ipv6_prefix; /* for addresses; by default 32 and 64 */
};

struct rn_cost {
    uint64_t fixed;     /* if there is no attribute, or it is absent or no number */
    uint16_t attribute; /* that has the cost; RN_NO_ATTRIBUTE: none */
    uint64_t max;       /* larger costs count as this; 0: no maximum */
};

/* `keep_percent` of the limit must be left after a request of this level. */
struct rn_level {
    struct rn_slice name;
    uint8_t keep_percent;
};

struct rn_priority {
    uint16_t attribute; /* RN_NO_ATTRIBUTE: no priorities */
    const struct rn_level *levels;
    uint32_t level_count;
    uint32_t default_level;
};

/* Once `from` of the limit as written is spent, requests wait, longer and longer. */
struct rn_throttle {
    bool on;
    uint8_t from_percent;
    uint64_t from_units; /* 0: from_percent counts */
    int64_t max_ns;      /* the wait at the limit; 0: until the part above `from` is refilled */
};

/* Whether the limit refills evenly, so that the wait can be computed from it. */
static inline bool rn_throttle_can_pace(const struct rn_limit *limit)
{
    return limit->algorithm == RATION_TOKEN_BUCKET && limit->form != RN_FORM_STEP;
}

/* --- factors -------------------------------------------------------------------- */

#define RN_FACTOR_MAX 400 /* percent */

/* --- limits --------------------------------------------------------------------- */

struct rn_rule_limit {
    struct ration_limit spec; /* as written */
    struct rn_limit limit;    /* compiled; capacity includes the soft part */
    uint64_t soft_units;      /* the part of cap above the limit as written */
    uint32_t id;              /* index into ruleset->limits */
    const struct rn_rule *rule;
};

/* The limits of one tier, all of which apply. */
struct rn_tier {
    struct rn_slice value; /* the value of the tier attribute; empty: a rule without tiers, or the
                              limits under `default`. Of two attributes: "pro, IT" */
    struct rn_rule_limit *const *limits;
    uint32_t limit_count;
    struct rn_slice first, second; /* of two attributes: their values; empty: any, written `*` */
};

enum rn_on_full { RN_FULL_EVICT, RN_FULL_EVICT_LAST, RN_FULL_REFUSE };
enum rn_store_failure { RN_FAIL_LOCAL, RN_FAIL_ALLOW, RN_FAIL_REFUSE };
enum rn_consistency { RN_STRICT, RN_LEASED, RN_ASYNC };
enum rn_header_family { RN_HEADERS_BOTH, RN_HEADERS_X, RN_HEADERS_IETF, RN_HEADERS_NONE };

struct rn_response {
    uint16_t status;   /* 429 */
    bool status_given; /* in the file: it is the status of bans by escalate, too, not 403 */
    enum rn_header_family headers;
    bool retryafter;         /* X-RateLimit-RetryAfter, not X-RateLimit-Retry-After */
    struct rn_slice message; /* empty: the default text */
};

/* What is counted for bills: for each client the units admitted and refused in each period. */
struct rn_rule_usage {
    enum ration_calendar unit;          /* day, week, month or year, */
    struct rn_slice zone;               /* and whose: "Europe/Rome"; empty is UTC. A NUL follows */
    const struct rn_calendar *calendar; /* where its periods end */
    uint32_t keep;                      /* finished periods that are kept, 1 to 60 */
};

/* How metrics distinguish the requests of an Envoy rule (detailed_metric, value_to_metric). */
struct rn_rule_values {
    const struct rn_slice *names; /* the domain, then for each level "key_value", or "key_" if the
                                     request's value follows */
    uint32_t count;               /* number of levels */
    uint32_t from_request;        /* bit i: the value of level i comes from the request */
};

/* How the tier of a request is found. */
enum rn_tier_choice {
    RN_TIER_ONLY,    /* tiers[0] is for all clients */
    RN_TIER_BY_ONE,  /* by tier_attribute */
    RN_TIER_LOOK_UP, /* by two attributes, or key, tiers, cost or priority use one that is
                        RN_SOURCE_GEO */
};

struct rn_rule {
    struct rn_slice name;
    char title[RATION_NAME_SIZE]; /* the name in replies: cut to fit, then zeros */
    struct rn_slice file;
    uint32_t line, column;
    uint32_t index; /* in ruleset->rules: the order of the files */
    bool envoy;     /* found by descriptors (envoy/envoy.h), never by attributes */
    bool for_envoy; /* applies to requests of Envoy's protocol: an Envoy rule, or under
                       apply_to_envoy a native one that does not depend on a request's end */

    const struct rn_rule_values *values; /* NULL: metrics do not distinguish values */

    const struct rn_alternative *alternatives; /* one must hold; there is at least one */
    uint32_t alternative_count;
    const struct rn_key_part *key; /* none: one counter for all */
    uint32_t key_count;

    enum rn_tier_choice tier_choice;
    uint16_t tier_attribute; /* RN_NO_ATTRIBUTE: tiers[0] is for all clients */
    uint16_t tier_second;    /* by: [tier, country]; RN_NO_ATTRIBUTE: one attribute chooses */
    const struct rn_tier *tiers;
    uint32_t tier_count;
    uint32_t default_tier; /* for an absent or unknown value; UINT32_MAX: the rule does not apply */

    struct rn_cost cost;
    bool by_outcome;              /* charge_on: peek on arrival, and */
    struct rn_statuses charge_on; /* charge if the response has one of these statuses */
    struct rn_priority priority;
    bool shadow;
    bool unpublished; /* publish: false */
    uint8_t soft_percent;
    struct rn_throttle throttle;
    int64_t spread_ns;   /* calendar windows end up to this much later, depending on the key */
    bool hold;           /* wait: hold, or queue */
    int64_t max_wait_ns; /* 0: none is too long; never 0 with a line */
    /* The most that wait in line for one limit and client; 0: a refusal is a refusal. */
    uint32_t line_size;
    bool line_by_arrival; /* whatever their priority */
    /* Every factor in percent that may be in force (limiter/factor.h): that of signals, and with
     * `earn` each product of it and a client's percentage, rounded down. Ascending, from 1 to
     * RN_FACTOR_MAX, and 100 among them. None: always 100. */
    const uint16_t *factors;
    uint32_t factor_count;
    enum rn_on_full on_full;
    enum rn_store_failure on_store_failure;
    enum rn_consistency consistency;
    struct rn_response response;

    struct rn_rule_factor adapt; /* which signals change the factor, and how */

    /* NULL: none. The rules that have escalate or earn have a key. */
    const struct rn_escalate_plan *escalate;
    uint32_t ban_grow_percent; /* of escalate as written: 150 for 1.5x, */
    int64_t ban_up_to_ns;      /* and how long a ban may become */
    const struct rn_earn_plan *earn;
    const struct rn_rule_usage *usage;
};

/* Whether signals may change the factor. Without them factors are only what clients earn. */
static inline bool rn_rule_follows(const struct rn_rule *rule)
{
    return rule->factor_count != 0 &&
           (rule->earn == NULL || rule->adapt.adapt_count != 0 || rule->adapt.has_elastic);
}

/* Whether clients have records under the rule. */
static inline bool rn_rule_has_records(const struct rn_rule *rule)
{
    return rule->escalate != NULL || rule->earn != NULL;
}

/* Whether a decision under the rule does more than charge its limits. */
static inline bool rn_rule_has_extras(const struct rn_rule *rule)
{
    return rn_rule_has_records(rule) || rule->usage != NULL;
}

/* Sets the title; the rest of it is zero. */
static inline void rn_rule_entitle(struct rn_rule *rule)
{
    rn_slice_copy(rule->title, sizeof rule->title, rule->name);
}

/* allow: and deny: entries, checked before any limit; deny first. */
struct rn_list_entry {
    const struct rn_condition *conditions;
    uint32_t condition_count;
    bool deny;
    struct rn_slice file;
    uint32_t line, column;
};

/* server: settings, in file order; rationd parses them. */
struct rn_setting {
    struct rn_slice name, value;
    struct rn_slice file;
    uint32_t line, column;
};

/* The rights of a token; each includes those before it. */
enum rn_token_scope {
    RN_SCOPE_NONE,
    RN_SCOPE_METRICS, /* /metrics */
    RN_SCOPE_READ,    /* requests that change nothing */
    RN_SCOPE_ADMIN,   /* everything */
};

/* server: tokens: */
struct rn_token_setting {
    struct rn_slice name, text, path; /* data NULL: the other of text and path is given */
    enum rn_token_scope scope;
    struct rn_slice file;
    uint32_t line, column;
};

struct rn_match_index;  /* match/match.c */
struct rn_envoy_domain; /* envoy/parse.c */

struct rn_ruleset {
    struct rn_arena arena;
    const struct rn_attribute *attributes;
    uint32_t attribute_count;
    const struct rn_cidr_set *trusted_proxies; /* NULL: none */
    struct rn_path_settings paths;
    bool case_given; /* the file has paths: {case: ...} */
    const struct rn_rule *rules;
    uint32_t rule_count;
    struct rn_rule_limit *const *limits; /* of all rules, by id */
    uint32_t limit_count;
    const struct rn_list_entry *lists;
    uint32_t list_count;
    const struct rn_setting *settings;
    uint32_t setting_count;
    const struct rn_token_setting *tokens;
    uint32_t token_count;
    const struct rn_signal *signals;
    uint32_t signal_count;
    bool shadow;         /* mode: shadow for the whole service */
    bool apply_to_envoy; /* native rules, allow and deny also apply to Envoy's requests */
    const struct rn_match_index *index;
    const struct rn_envoy_domain *domains; /* NULL: no Envoy files */
    uint32_t domain_count;
    const struct rn_calendar *const *calendars; /* owned: the limits point to them */
    uint32_t calendar_count;
    struct rn_geo_source *databases; /* owned; the tables may be replaced by newer ones */
    struct rn_teams *teams;          /* owned: the files of teams; NULL: rules from memory */
};

/* NULL, or a constant text: why a store cannot hold this limit, and what to write instead. */
typedef const char *rn_limit_fault_fn(const struct rn_limit *limit);

/* What the process that loads rules has beside them. */
struct rn_ruleset_host {
    rn_limit_fault_fn *store_fault; /* a limit that it refuses is an error; or NULL */
    const struct ration_own_algorithm *const
        *own; /* algorithms that rules may name; outlive them */
    size_t own_count;
};

/* Loads files and directories, as teams.h finds them. All errors and warnings of all files go to
 * the report. NULL: there is an error, or memory ran out. */
struct rn_ruleset *rn_ruleset_load(const char *const *paths, size_t count,
                                   struct rn_report *report);
/* The same, to replace rules that were loaded with the teams `last` (NULL: none). A team whose
 * files have errors keeps its former rules, or has none if it is new; the report has its errors,
 * although a ruleset is returned, and ruleset->teams says which teams. Also NULL if the former
 * rules have errors beside the new root. `host` may be NULL. */
struct rn_ruleset *rn_ruleset_reload(const char *const *paths, size_t count,
                                     const struct rn_teams *last,
                                     const struct rn_ruleset_host *host, struct rn_report *report);
/* Where the rule was read, of the files of the report. */
struct rn_place rn_ruleset_place(const struct rn_rule *rule, const struct rn_report *report);

/* Whether a store can hold all limits of the rules; reports those that it cannot hold. */
bool rn_ruleset_fits(const struct rn_ruleset *ruleset, rn_limit_fault_fn *store_fault,
                     struct rn_report *report);
/* rn_ruleset_load from memory; messages use `name` for the file. */
struct rn_ruleset *rn_ruleset_parse(struct rn_slice name, struct rn_slice text,
                                    struct rn_report *report);
/* The same for a host. */
struct rn_ruleset *rn_ruleset_parse_for(const struct rn_ruleset_host *host, struct rn_slice name,
                                        struct rn_slice text, struct rn_report *report);
void rn_ruleset_free(struct rn_ruleset *ruleset);

/* The number of an attribute name, RN_NO_ATTRIBUTE if no rule refers to it. */
uint16_t rn_ruleset_attribute(const struct rn_ruleset *ruleset, struct rn_slice name);

/* Whether any rule or list uses an attribute that a request has under this name. */
bool rn_ruleset_uses_attribute(const struct rn_ruleset *ruleset, struct rn_slice name);
/* For a name that is not used: the name that was probably meant, or NULL. It lives as long as the
 * ruleset. */
const char *rn_ruleset_suggest_attribute(const struct rn_ruleset *ruleset, struct rn_slice name);

/* Sets `limit`, a const struct rn_rule_limit *, to each limit of all tiers of a rule. */
#define RN_RULE_EACH_LIMIT(limit, rule)                                                            \
    for (uint32_t tier_ = 0; tier_ < (rule)->tier_count; tier_++)                                  \
        for (uint32_t limit_ = 0; limit_ < (rule)->tiers[tier_].limit_count &&                     \
                                  ((limit) = (rule)->tiers[tier_].limits[limit_], true);           \
             limit_++)

#endif
