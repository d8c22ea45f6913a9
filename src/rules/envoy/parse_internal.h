/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the readers of Envoy's format: parse.c (the tree),
 * rate_limit.c (rate_limit), fields.c (keys, metadata).
 */
#ifndef RN_RULES_ENVOY_PARSE_INTERNAL_H
#define RN_RULES_ENVOY_PARSE_INTERNAL_H

#include <ration/limit.h>

#include "rules/builder.h"
#include "rules/envoy/tree_internal.h"

struct rn_envoy_reader {
    struct rn_builder *builder;
    struct rn_report *report;
    uint32_t file; /* its number in the report */
    struct rn_slice domain;
    struct rn_envoy_node *path[RN_ENVOY_DEPTH_MAX]; /* from the top to where we are */
    uint32_t depth;
    const struct rn_node *queue;  /* of the rate_limit that was read last; NULL: none */
    struct rn_envoy_named *named; /* rate_limits with a name or replaces, latest first */
};

/* --- fields.c ---------------------------------------------------------------- */

enum rn_envoy_map { RN_ENVOY_FILE, RN_ENVOY_DESCRIPTOR, RN_ENVOY_RATE_LIMIT, RN_ENVOY_REPLACES };

/* Indexes of `fields` below, by the kind of map. */
enum { RN_FILE_DOMAIN, RN_FILE_DESCRIPTORS };
enum {
    RN_DESCRIPTOR_KEY,
    RN_DESCRIPTOR_VALUE,
    RN_DESCRIPTOR_RATE_LIMIT,
    RN_DESCRIPTOR_DESCRIPTORS,
    RN_DESCRIPTOR_SHADOW_MODE,
    RN_DESCRIPTOR_QUOTA_MODE,
    RN_DESCRIPTOR_DETAILED_METRIC,
    RN_DESCRIPTOR_VALUE_TO_METRIC,
    RN_DESCRIPTOR_SHARE_THRESHOLD,
    RN_DESCRIPTOR_METADATA,
};
enum {
    RN_LIMIT_UNIT,
    RN_LIMIT_REQUESTS,
    RN_LIMIT_UNLIMITED,
    RN_LIMIT_NAME,
    RN_LIMIT_REPLACES,
    RN_LIMIT_TEXT, /* from here on, keys that envoyproxy/ratelimit does not have */
    RN_LIMIT_ALGORITHM,
    RN_LIMIT_BURST,
    RN_LIMIT_SUB_WINDOWS,
    RN_LIMIT_QUEUE,
};
#define RN_ENVOY_FIELDS_MAX 10

/* Whether the node is of that kind; if not, reports it with advice. */
bool rn_envoy_expect(struct rn_envoy_reader *r, const struct rn_node *node, enum rn_node_kind kind,
                     const char *advice);

/* Puts the values of a map into `fields` by key; NULL: absent or empty. Reports keys that are
 * unknown, misplaced or in capitals. */
void rn_envoy_read_fields(struct rn_envoy_reader *r, const struct rn_node *map,
                          enum rn_envoy_map kind,
                          const struct rn_node *fields[RN_ENVOY_FIELDS_MAX]);

/* NULL is false, and so is any other value than a boolean, after reporting it. */
bool rn_envoy_read_flag(struct rn_envoy_reader *r, const struct rn_node *node);

/* Flattens a map. */
void rn_envoy_read_metadata(struct rn_envoy_reader *r, const struct rn_node *map,
                            struct rn_envoy_limit *limit);

/* --- rate_limit.c ----------------------------------------------------------------- */

/* Reads the rate_limit of the last descriptor of the path. False after reporting an error. */
bool rn_envoy_read_limit(struct rn_envoy_reader *r, const struct rn_node *map,
                         struct rn_envoy_limit *limit, struct ration_limit *spec);

/* Warns about replaces of names that no rate_limit of the domain has. */
void rn_envoy_check_replaces(struct rn_envoy_reader *r);

#endif
