/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of Envoy's rate limit service, as protobuf and as JSON, and those of gRPC's health
 * checks. Texts that are not UTF-8 are refused here, so that no other room has to check.
 */
#ifndef RN_WIRE_RLS_H
#define RN_WIRE_RLS_H

#include <ration/envoy.h>

#include "base/buf.h"
#include "wire/json.h"

#define RN_RLS_MESSAGE_MAX ((size_t)64 << 10) /* bytes of a request */
#define RN_RLS_ENTRIES_MAX 1024               /* entries of all descriptors of a request */
#define RN_RLS_TEXT_MAX 4096                  /* bytes of a key or a value */
#define RN_RLS_ARENA ((size_t)256 << 10)
#define RN_RLS_HEADERS 4
#define RN_RLS_LEAVES_MAX 64 /* leaves of metadata in an answer */

/* A request; `request` points into the other members. About 320 KB, to be reused: reading
 * allocates nothing. */
struct rn_rls_reader {
    struct ration_descriptors request;
    struct ration_descriptor_ask asks[RATION_DESCRIPTORS_MAX];
    struct ration_descriptor_entry entries[RN_RLS_ENTRIES_MAX];
    size_t entry_count;
    struct rn_slice service; /* the one that a health check asks about */
    uint32_t leaf_count;
    struct ration_metadata leaves[RN_RLS_LEAVES_MAX]; /* see rn_rls_keep */
    size_t used;                                      /* bytes of the arena */
    bool exhausted;
    _Alignas(16) char arena[RN_RLS_ARENA];
};

/* Returns 0; RATION_EPARSE: not such a message; RATION_EFULL: too many parts; RATION_EINVAL: a
 * value is not allowed. `error` says what is wrong. The request does not point into the
 * message. */
int rn_rls_read(struct rn_rls_reader *reader, struct rn_slice message, struct ration_error *error);
/* The same for protobuf's JSON format, with names in camelCase or as in the .proto. The text is
 * changed and must live as long as the request. RATION_EPARSE or RATION_EINVAL. */
int rn_rls_read_json(struct rn_rls_reader *reader, char *text, size_t len,
                     struct ration_error *error);

/* A callback for ration_descriptors.metadata, with the reader as argument: copies the leaves for
 * the answer. */
void rn_rls_keep(void *reader, const struct ration_metadata *leaf);

/* What an answer has besides the statuses. */
struct rn_rls_extra {
    bool headers;    /* ratelimit-* of the limit that decides, and retry-after if it refuses */
    bool metadata;   /* the metadata of the limits that allow, as dynamic_metadata */
    bool quota_mode; /* all limits are in quota mode; kept here as it is set with the others */
};

/* `reader` has the metadata, and its arena is used as scratch. */
void rn_rls_write(struct rn_buf *out, struct rn_rls_reader *reader,
                  const struct ration_descriptors_outcome *outcome,
                  const struct rn_rls_extra *extra);
void rn_rls_write_json(struct rn_buf *out, struct rn_rls_reader *reader,
                       const struct ration_descriptors_outcome *outcome,
                       const struct rn_rls_extra *extra);

/* The messages of grpc.health.v1; reader->service points into the reader. */
enum rn_health { RN_HEALTH_SERVING = 1, RN_HEALTH_NOT_SERVING = 2, RN_HEALTH_SERVICE_UNKNOWN = 3 };
int rn_rls_read_health(struct rn_rls_reader *reader, struct rn_slice message);
void rn_rls_write_health(struct rn_buf *out, enum rn_health health);

/* --- shared by the two formats ----------------------------------------------------------- */

/* Check and append one descriptor, or one entry to the last descriptor. Return 0, or a code with
 * `error`. */
int rn_rls_begin(struct rn_rls_reader *reader, struct ration_error *error);
int rn_rls_add_entry(struct rn_rls_reader *reader, struct rn_slice key, struct rn_slice value,
                     struct ration_error *error);
int rn_rls_end(struct rn_rls_reader *reader, struct rn_slice domain, struct ration_error *error);

/* Whole seconds, rounded up: Envoy does not use fractions. */
static inline int64_t rn_rls_seconds(int64_t ns)
{
    return ns / 1000000000 + (ns % 1000000000 > 0);
}

/* The headers of an answer, with decimal values. Returns their number. */
struct rn_rls_header {
    const char *name;
    char value[24];
};
size_t rn_rls_headers(const struct ration_descriptors_outcome *outcome,
                      struct rn_rls_header headers[RN_RLS_HEADERS]);

#endif
