/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds a ruleset. The readers of the two formats (native/native.c, envoy/parse.c) fill it file by
 * file. What they add lives in the ruleset's arena; the builder's growing lists become the
 * ruleset's arrays in rn_builder_finish.
 *
 * If memory runs out, a function returns NULL (or RN_NO_ATTRIBUTE) and sets `failed`; readers may
 * continue or stop, the ruleset is discarded either way. Readers report errors to `report`.
 */
#ifndef RN_RULES_BUILDER_H
#define RN_RULES_BUILDER_H

#include "rules/ruleset.h"
#include "rules/teams.h"
#include "rules/yaml/document.h"

/* A growing array of `count` pointers or plain values. */
struct rn_builder_list {
    void *items;
    uint32_t count, room;
};

/* The names in use, each with a number: a hash table with open addressing. */
struct rn_builder_names {
    struct rn_builder_name *slots;
    uint32_t count, room;
};

struct rn_builder {
    struct rn_ruleset *ruleset; /* `shadow`, `apply_to_envoy` and `trusted_proxies` are set
                                   directly */
    struct rn_arena *arena;     /* the ruleset's */
    struct rn_report *report;
    struct rn_slice file; /* the file being read, kept in the arena */
    struct rn_slice team; /* the file's team: its names get the prefix `team.`; empty: the root */
    const struct rn_ruleset_host *host; /* NULL: none */
    const struct rn_teams *teams;
    bool failed; /* out of memory */

    struct rn_builder_list attributes;   /* struct rn_attribute */
    struct rn_builder_list rules;        /* struct rn_rule *, each in the arena */
    struct rn_builder_list limits;       /* struct rn_rule_limit * */
    struct rn_builder_list lists;        /* struct rn_list_entry */
    struct rn_builder_list settings;     /* struct rn_setting */
    struct rn_builder_list tokens;       /* struct rn_token_setting */
    struct rn_builder_list calendars;    /* struct rn_calendar * */
    struct rn_builder_list calendar_ids; /* uint64_t: rn_limit.calendar_id of each calendar */
    struct rn_builder_list references;   /* struct rn_builder_reference */
    struct rn_builder_names rule_names, attribute_names;

    /* For envoy/parse.c: an array in the arena, which a longer one replaces if necessary. */
    struct rn_envoy_domain *domains;
    uint32_t domain_count;

    struct rn_native *native; /* for native/native.c: sections that files share */
    char fault[256];          /* the fault of rn_builder_limit, if it is not a constant */
};

/* False: out of memory; rn_builder_done is then not needed. */
bool rn_builder_init(struct rn_builder *builder, struct rn_report *report);
/* Frees what rn_builder_finish has not given to the caller. */
void rn_builder_done(struct rn_builder *builder);

/* The number of an attribute, which is added if it is new. A new attribute comes from the request,
 * under its name; `ip` is an address. RN_NO_ATTRIBUTE: there are RN_ATTRIBUTES_MAX already, or
 * memory ran out (`failed`). */
uint16_t rn_builder_attribute(struct rn_builder *builder, struct rn_slice name);
/* The number of a known attribute; RN_NO_ATTRIBUTE: unknown. */
uint16_t rn_builder_find_attribute(const struct rn_builder *builder, struct rn_slice name);
/* To set how the attribute is derived. Valid until the next rn_builder_attribute. */
struct rn_attribute *rn_builder_attribute_at(struct rn_builder *builder, uint16_t number);

/* Adds a rule with defaults: no conditions, one counter for all, no tiers (see rn_builder_tier),
 * the cost of the request, on_store_failure local, strict, status 429. The address is valid until
 * rn_builder_finish; rn_builder_refer keeps a pointer longer. The name is copied. */
struct rn_rule *rn_builder_rule(struct rn_builder *builder, struct rn_slice name, uint32_t line,
                                uint32_t column);
/* The rule with that name, in any file; NULL: none. */
const struct rn_rule *rn_builder_find_rule(const struct rn_builder *builder, struct rn_slice name);

/* rn_builder_finish moves rules into one array, and stores the new address of `rule` in *place,
 * which must be in the arena. rn_builder_limit calls this for a limit's own rule. */
bool rn_builder_refer(struct rn_builder *builder, const struct rn_rule *rule,
                      const struct rn_rule **place);

/* Checks and compiles a limit of `rule`, whose soft_percent must be set. Returns NULL if the limit
 * cannot be enforced or its time zone does not exist: *fault says why, until the next call. NULL
 * with a NULL fault: out of memory. Not for unlimited limits: a tier without limits is
 * unlimited. */
struct rn_rule_limit *rn_builder_limit(struct rn_builder *builder, const struct rn_rule *rule,
                                       const struct ration_limit *spec, const char **fault);

/* The calendar of a unit in a time zone (empty: UTC), shared by all that use it. NULL: as
 * rn_builder_limit. */
const struct rn_calendar *rn_builder_calendar(struct rn_builder *builder, enum ration_calendar unit,
                                              struct rn_slice zone, const char **fault);

/* Makes `limits` (count of them; copied into the arena) the only tier. */
bool rn_builder_tier(struct rn_builder *builder, struct rn_rule *rule,
                     struct rn_rule_limit *const *limits, uint32_t count);

struct rn_list_entry *rn_builder_list_entry(struct rn_builder *builder); /* until the next one */
struct rn_setting *rn_builder_setting(struct rn_builder *builder);       /* until the next one */

/* A copy in the arena. An empty slice stays one (data not NULL); data NULL only
 * when memory ran out. */
struct rn_slice rn_builder_dup(struct rn_builder *builder, struct rn_slice text);
/* One more item at the end of a list, zeroed; NULL: out of memory. */
void *rn_builder_push(struct rn_builder *builder, struct rn_builder_list *list, size_t size);
/* Zeroed memory in the arena, aligned for anything; NULL: out of memory. */
void *rn_builder_alloc(struct rn_builder *builder, size_t count, size_t size);

/* Turns the lists into the ruleset's arrays and builds the index. The caller owns the ruleset.
 * NULL: out of memory. */
struct rn_ruleset *rn_builder_finish(struct rn_builder *builder);

/* --- the readers ----------------------------------------------------------------- */

/* Read one file (builder->file) into the builder; its document must stay until all files are read.
 * Errors go to the report; false: at least one error, or out of memory. */
bool rn_native_parse(struct rn_builder *builder, const struct rn_document *document);
bool rn_envoy_parse(struct rn_builder *builder, const struct rn_document *document);

/* Reads the sections to which rules refer (attributes, tiers) and their defaults (response, mode).
 * Call it for each native file of the root or of a team before any of them is parsed; the root
 * comes first. */
bool rn_native_declare(struct rn_builder *builder, const struct rn_document *document);
/* Whether only files at the root may have this section. */
bool rn_native_is_for_root(struct rn_slice section);
/* After all files: warns of sections that no rule refers to. */
void rn_native_finish(struct rn_builder *builder);

#endif
