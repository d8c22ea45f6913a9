/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the native format. native.c walks a file and its rules. The other files read
 * one part each: limits.c, limits_check.c and tiers.c `limit:`, conditions.c and
 * condition_values.c `when:`, keys.c `key:`, options.c the other keys of a rule,
 * sections.c, attributes.c, geo.c, signals.c and server.c the sections beside `limits:`,
 * adapt_elastic.c what follows signals, reputation.c what follows a client's behaviour, factors.c
 * what both make of the limits, usage.c what is counted for bills, mistakes.c common mistakes.
 *
 * Each function reports an error and goes on; what it should have filled in keeps its
 * default. The report says whether there was an error.
 */
#ifndef RN_RULES_NATIVE_NATIVE_INTERNAL_H
#define RN_RULES_NATIVE_NATIVE_INTERNAL_H

#include "rules/builder.h"

/* A set of `tiers:`. */
struct rn_native_set {
    const struct rn_node *node;
    struct rn_slice name, team; /* the name has the team's prefix */
    bool used;
};

/* What is known of a signal while rules are read. */
struct rn_native_signal {
    struct rn_place at;       /* line 0: not given */
    const struct rn_node *of; /* the node that names its limit, NULL: none */
    bool used;                /* by a rule */
};

struct rn_native {
    struct rn_builder_list sets; /* struct rn_native_set */
    struct rn_signal *signals;   /* RN_SIGNALS_MAX in the arena; NULL: none */
    struct rn_native_signal signal_notes[RN_SIGNALS_MAX];
    struct rn_response response; /* what rules start from */
    /* Where these were given; line 0: not yet. */
    struct rn_place response_at, mode_at, envoy_at, trusted_at, paths_at;
    struct rn_place attribute_at[RN_ATTRIBUTES_MAX];
    struct rn_place geo_of_at[RN_ATTRIBUTES_MAX]; /* where `of:` was given */
    bool attribute_used[RN_ATTRIBUTES_MAX];       /* by a rule or a list */
};

/* --- native.c ----------------------------------------------------------------------- */

void rn_native_when(struct rn_builder *builder, const struct rn_node *node, struct rn_rule *rule);

/* --- sections.c --------------------------------------------------------------------- */

/* Reads the sections of one file that rules may refer to. */
void rn_sections_declare(struct rn_builder *builder, const struct rn_node *root);
/* The set of that name. NULL: there is none, reported at `node`, a scalar. */
struct rn_native_set *rn_sections_find_tiers(struct rn_builder *builder,
                                             const struct rn_node *node);
/* Whether a setting was given `before` (line 0: it was not); if so it is reported. */
bool rn_native_is_again(struct rn_builder *builder, const struct rn_node *node,
                        const struct rn_place *before);

/* --- attributes.c ------------------------------------------------------------------- */

/* Reads one entry of `attributes:`. */
void rn_native_read_attribute(struct rn_builder *builder, const struct rn_node *node);
/* After all files: completes the attributes, and warns of those that no rule uses. */
void rn_native_finish_attributes(struct rn_builder *builder);

/* --- geo.c -------------------------------------------------------------------------- */

/* Reads an attribute with `geo:`, which the map has. */
void rn_native_read_geo(struct rn_builder *builder, const struct rn_node *map, uint16_t number);
/* After all files: reports attributes that are looked up by one that cannot have an address. */
void rn_native_finish_geo(struct rn_builder *builder);

/* False after reporting: the attribute is looked up, and can never have this value, which is spelt
 * by rn_native_value. */
bool rn_native_geo_value(struct rn_builder *builder, struct rn_place at, uint16_t attribute,
                         struct rn_slice value);

/* --- signals.c ---------------------------------------------------------------------- */

/* Reads one entry of `signals:`. */
void rn_native_read_signal(struct rn_builder *builder, const struct rn_node *node);
/* The index of the signal of that name, as used by a rule; -1 after reporting at `node` that there
 * is none. */
int rn_native_find_signal(struct rn_builder *builder, const struct rn_node *node,
                          struct rn_slice name);
/* After all files: finds the limits that signals are of, and warns of unused signals. */
void rn_native_finish_signals(struct rn_builder *builder);

/* --- adapt_elastic.c ---------------------------------------------------------------- */

void rn_native_adapt(struct rn_builder *builder, const struct rn_node *node, struct rn_rule *rule);
void rn_native_elastic(struct rn_builder *builder, const struct rn_node *node,
                       struct rn_rule *rule);

/* --- reputation.c ------------------------------------------------------------------- */

void rn_native_escalate(struct rn_builder *builder, const struct rn_node *node,
                        struct rn_rule *rule);
void rn_native_earn(struct rn_builder *builder, const struct rn_node *node, struct rn_rule *rule);
/* Reports an escalate or earn that the rule `map` cannot have; call it after all of it is read. */
void rn_native_reputation_check(struct rn_builder *builder, const struct rn_node *map,
                                const struct rn_rule *rule);

/* --- factors.c ---------------------------------------------------------------------- */

/* Reports an adapt, elastic or earn that the limits of the rule `map` cannot follow, and collects
 * its percentages in rule->factors; call it after the limits are read. */
void rn_native_factors_check(struct rn_builder *builder, const struct rn_node *map,
                             struct rn_rule *rule);

/* --- usage.c ------------------------------------------------------------------------ */

void rn_native_usage(struct rn_builder *builder, const struct rn_node *node, struct rn_rule *rule);
/* Completes rule->usage, if there is one, from the limits of the rule `map`; call it after they are
 * read. */
void rn_native_usage_finish(struct rn_builder *builder, const struct rn_node *map,
                            struct rn_rule *rule);

/* --- server.c ----------------------------------------------------------------------- */

void rn_native_server(struct rn_builder *builder, const struct rn_node *node);

/* --- attribute_names.c -------------------------------------------------------------- */

/* The full name, in the arena: TEAM.NAME for a team's NAME or TEAM.NAME; the root's names are
 * unchanged. Data NULL: out of memory. */
struct rn_slice rn_native_full_name(struct rn_builder *builder, struct rn_slice name);

/* A name, not longer than this: header.X-Api-Key, user. */
#define RN_ATTRIBUTE_NAME_MAX 128

/* The attribute that a part of a scalar (`pos` bytes into its text) names;
 * RN_NO_ATTRIBUTE after reporting what is wrong with the name. */
uint16_t rn_native_attribute(struct rn_builder *builder, const struct rn_node *node,
                             struct rn_slice name, size_t pos);
/* The attribute that a key of `attributes:` declares, with the team's prefix. */
uint16_t rn_native_attribute_declared(struct rn_builder *builder, const struct rn_node *node);
/* As rn_native_attribute, for a whole scalar; other nodes are reported. */
uint16_t rn_native_attribute_node(struct rn_builder *builder, const struct rn_node *node);
/* The same, and marks the attribute as used by a rule. */
uint16_t rn_native_attribute_used(struct rn_builder *builder, const struct rn_node *node);
/* The attribute header.X for the name of a header, as used by a rule. */
uint16_t rn_native_header_attribute(struct rn_builder *builder, const struct rn_node *node);
/* Reads the name of a header and returns it in lower case, in the arena, after `prefix`; data NULL
 * after reporting. */
struct rn_slice rn_native_header(struct rn_builder *builder, const struct rn_node *node,
                                 const char *prefix);

/* --- keys.c ------------------------------------------------------------------------ */

void rn_native_key(struct rn_builder *builder, const struct rn_node *node, struct rn_rule *rule);

/* --- conditions.c ------------------------------------------------------------------ */

/* A map of attribute to condition. */
void rn_native_conditions(struct rn_builder *builder, const struct rn_node *node,
                          const struct rn_condition **conditions, uint32_t *count);

/* --- condition_values.c ------------------------------------------------------------ */

/* Normalizes a value as matching normalizes the attribute: methods and codes of countries in upper
 * case, hosts in lower case, paths as rn_path_spell does, AS64500 as 64500; in the arena. Data
 * NULL: out of memory, or a path that cannot be read. */
struct rn_slice rn_native_value(struct rn_builder *builder, uint16_t attribute,
                                struct rn_slice text);
/* The same for a path or a pattern of paths. */
struct rn_slice rn_native_path(struct rn_builder *builder, struct rn_slice text);
/* The error in a result of rn_native_path; NULL: none. */
const char *rn_native_path_fault(struct rn_slice path);
/* Networks of a scalar or a list; NULL after reporting. */
const struct rn_cidr_set *rn_native_networks(struct rn_builder *builder,
                                             const struct rn_node *node);
/* A number as rn_decimal_parse reads it, in the arena; false after reporting. */
bool rn_native_number(struct rn_builder *builder, const struct rn_node *node,
                      struct rn_slice *number);
/* A scalar or a list of scalars: how many, and the first. -1 after reporting. */
int64_t rn_native_open_values(struct rn_report *report, const struct rn_node *node,
                              const struct rn_node **first);
/* The value after `item`; NULL if that is the last. */
const struct rn_node *rn_native_next_value(const struct rn_node *node, const struct rn_node *item);
/* Warns if it is a list without values. */
void rn_native_warn_of_empty(struct rn_report *report, const struct rn_node *node);

/* --- limits.c --------------------------------------------------------------------- */

/* `limit:` and the keys that refine it. */
void rn_native_limits(struct rn_builder *builder, const struct rn_node *map,
                      const struct rn_node *limit, struct rn_rule *rule);
/* Checks the limits of a set of tiers that no rule uses. */
void rn_native_check_tiers(struct rn_builder *builder, const struct rn_node *set);

/* --- options.c ------------------------------------------------------------------- */

/* The index of a word in a list; -1 after reporting that it is no `what`. */
int rn_native_word(struct rn_builder *builder, const struct rn_node *node, const char *what,
                   const char *const *words, size_t count);
/* A duration that is not 0. */
bool rn_native_duration(struct rn_builder *builder, const struct rn_node *node, int64_t *ns);
/* A percentage from `least` to `most`; otherwise `why` is reported. */
bool rn_native_percent(struct rn_builder *builder, const struct rn_node *node, uint64_t least,
                       uint64_t most, const char *why, uint16_t *percent);
/* Whether the node is a map; if not, reports it with an example. */
bool rn_native_expect_map(struct rn_builder *builder, const struct rn_node *node,
                          const char *example);
/* Reports the keys of a map that are not in the list. False: not a map. */
bool rn_native_map(struct rn_builder *builder, const struct rn_node *node, const char *const *keys,
                   size_t count);
/* The value of a required key; NULL after reporting. */
const struct rn_node *rn_native_require(struct rn_builder *builder, const struct rn_node *map,
                                        const char *key, const char *example);
void rn_native_response(struct rn_builder *builder, const struct rn_node *node,
                        struct rn_response *response);
bool rn_native_shadow(struct rn_builder *builder, const struct rn_node *node);
/* Reads all keys of a rule but name and limit. */
void rn_native_options(struct rn_builder *builder, const struct rn_node *map, struct rn_rule *rule);

/* --- mistakes.c ------------------------------------------------------------------- */

/* Reports a text with a comma in place of one method, host or network. */
bool rn_mistakes_comma(struct rn_builder *builder, const struct rn_node *node, const char *what);
/* Warns of a value with a comma that may be meant as a list, unless commas belong to it. */
void rn_mistakes_warn_comma(struct rn_builder *builder, const struct rn_node *node,
                            const struct rn_attribute *attribute);
/* Reports words of other tools in place of an attribute or a test. True: as an error; otherwise
 * there may be a warning. */
bool rn_mistakes_condition(struct rn_builder *builder, const struct rn_node *node);
/* Reports a path that is written for a web framework or as a regular expression. True: as an
 * error; otherwise there may be a warning. */
bool rn_mistakes_path(struct rn_builder *builder, const struct rn_node *node);
/* Warns of a condition on the status of the answer, which no request has yet. */
void rn_mistakes_warn_status(struct rn_builder *builder, const struct rn_node *node,
                             const struct rn_attribute *attribute);
/* Reports an unknown key of the rule `map` if its right place is known; false: not reported. */
bool rn_mistakes_key(struct rn_builder *builder, const struct rn_node *map,
                     const struct rn_node *value);
/* Reports a limit whose parts are a map; false: there is no such part. */
bool rn_mistakes_limit_map(struct rn_builder *builder, const struct rn_node *map);

/* --- throttle.c -------------------------------------------------------------------- */

void rn_native_throttle(struct rn_builder *builder, const struct rn_node *map,
                        struct rn_rule *rule);
/* Reports a throttle that can never begin under the limits of the rule `map`; call it after they
 * are read. */
void rn_native_throttle_check(struct rn_builder *builder, const struct rn_node *map,
                              const struct rn_rule *rule);

/* --- queue.c ----------------------------------------------------------------------- */

/* Reads wait, max_wait and queue of the rule `map`. */
void rn_native_waiting(struct rn_builder *builder, const struct rn_node *map, struct rn_rule *rule);
/* Gives a rule of Envoy's format the line that its key `queue` asks for. */
void rn_native_queue_of_envoy(struct rn_builder *builder, const struct rn_node *queue,
                              struct rn_rule *rule);
/* Gives the rule its line, or reports that nothing can wait under its limits; call it after they
 * are read. */
void rn_native_waiting_finish(struct rn_builder *builder, const struct rn_node *map,
                              struct rn_rule *rule);

/* --- statuses.c ------------------------------------------------------------------- */

/* A text or a list of codes and classes: 401, 5xx. */
void rn_native_statuses(struct rn_builder *builder, const struct rn_node *value,
                        struct rn_statuses *set);

void rn_native_charge_on(struct rn_builder *builder, const struct rn_node *node,
                         struct rn_rule *rule);

#endif
