/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A YAML or JSON file as a tree in which every node has a position. Readers of
 * numbers, durations, percentages and booleans are here too; native/ and envoy/
 * interpret the rest.
 */
#ifndef RN_RULES_YAML_DOCUMENT_H
#define RN_RULES_YAML_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ration/limit.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/slice.h"
#include "rules/report/report.h"

#define RN_DOCUMENT_BYTES ((size_t)16 << 20)
#define RN_DOCUMENT_DEPTH 64
#define RN_DOCUMENT_NODES 2000000 /* after aliases have been filled in */
#define RN_DOCUMENT_ANCHORS 256

enum rn_node_kind { RN_NODE_SCALAR, RN_NODE_LIST, RN_NODE_MAP };

/*
 *   limits:               MAP, count 1
 *     - name: login         first -> LIST, count 1, key -> SCALAR "limits"
 *       limit: 5 per day      first -> MAP, count 2
 *                               first -> SCALAR "login", key -> SCALAR "name"
 *                                next -> SCALAR "5 per day", key -> SCALAR "limit"
 */
struct rn_node {
    uint8_t kind;         /* enum rn_node_kind */
    bool quoted;          /* SCALAR: in quotes, a block (| >) or tagged !!str: never a number */
    uint32_t count;       /* LIST: items; MAP: pairs */
    struct rn_place at;   /* its first character; after an alias: that of the anchor's node */
    struct rn_slice text; /* SCALAR; a NUL follows */
    struct rn_node *key;  /* of a value in a MAP: always a SCALAR */
    struct rn_node *first, *next;
};

struct rn_document {
    struct rn_arena arena;
    struct rn_node *root; /* NULL if the file could not be read to its end */
    uint32_t file;        /* in the report */
};

/* for (const struct rn_node *item = ...: the items of a list, the values of a map. */
#define RN_NODE_EACH(child, parent)                                                                \
    for (const struct rn_node *child = (parent)->first; child != NULL; child = child->next)

/* Parses `bytes`; messages use `name` for the file. Returns 0, RATION_EPARSE (also for an empty
 * file) or RATION_ENOMEM; all errors are in the report. After an error such as a duplicate key,
 * `root` is set nevertheless, and the caller may look for more errors. Call rn_document_done in any
 * case. */
int rn_document_parse(struct rn_document *document, struct rn_slice name, const char *bytes,
                      size_t len, struct rn_report *report);

/* Reads a file, or one byte more than would be parsed; free the bytes. The file must be inside
 * `folder` unless that is NULL (see rn_file_open_inside). False: `reason` says why. */
bool rn_document_read(const char *path, const char *folder, char **bytes, size_t *len,
                      char reason[RN_FILE_PROBLEM]);
/* An empty document for a file that could not be read: RATION_EIO after reporting it, or
 * RATION_ENOMEM. */
int rn_document_refuse(struct rn_document *document, struct rn_slice name, struct rn_slice problem,
                       struct rn_report *report);

void rn_document_done(struct rn_document *document);

/* The value of a key; NULL if absent or `map` is no MAP. */
const struct rn_node *rn_node_find(const struct rn_node *map, const char *key);

/* Nothing, ~ or null, not in quotes. */
bool rn_node_is_null(const struct rn_node *node);

/* "a list", "a map", "nothing" or the text in quotes. */
struct rn_excerpt rn_node_describe(const struct rn_node *node);

/* If the node is something else, each of these reports an error with its key, what was found and
 * what to write, and returns false; the value is then not set. */

/* Whether the node is of that kind; reports "expected a list, found ...". Null is no text. */
bool rn_node_expect(const struct rn_node *node, enum rn_node_kind kind, struct rn_report *report);

/* Any scalar but null. */
bool rn_node_as_text(const struct rn_node *node, struct rn_report *report, struct rn_slice *text);

/* 1500 or 1_500, not in quotes. */
bool rn_node_as_uint(const struct rn_node *node, struct rn_report *report, uint64_t *value);

/* true or false, not in quotes. */
bool rn_node_as_bool(const struct rn_node *node, struct rn_report *report, bool *value);

/* 0% to 100%, in whole numbers. */
bool rn_node_as_percent(const struct rn_node *node, struct rn_report *report, uint8_t *percent);

/* As base/number.h reads it; may be 0. */
bool rn_node_as_duration(const struct rn_node *node, struct rn_report *report, int64_t *ns);
bool rn_node_as_limit(const struct rn_node *node, struct rn_report *report,
                      struct ration_limit *limit);

#endif
