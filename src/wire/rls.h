/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Envoy's rate limit service: its messages as bytes (protobuf) and as JSON, and
 * those of gRPC's health checks.
 *
 * Texts that are not UTF-8 are refused here: nothing behind this has to mind.
 */
#ifndef RN_WIRE_RLS_H
#define RN_WIRE_RLS_H

#include <ration/envoy.h>

#include "base/buf.h"
#include "wire/json.h"

#define RN_RLS_MESSAGE_MAX ((size_t)64 << 10) /* bytes of a request */
#define RN_RLS_ENTRIES_MAX 1024               /* of all descriptors of a request */
#define RN_RLS_TEXT_MAX 4096                  /* bytes of a key or a value */
#define RN_RLS_ARENA ((size_t)256 << 10)
#define RN_RLS_HEADERS 4
#define RN_RLS_LEAVES_MAX 64 /* of metadata in an answer */

/* A request that has been read; `request` points into the rest. About 320 KB, to be
 * used again and again: reading allocates nothing. */
struct rn_rls_reader {
    struct ration_descriptors request;
    struct ration_descriptor_ask asks[RATION_DESCRIPTORS_MAX];
    struct ration_descriptor_entry entries[RN_RLS_ENTRIES_MAX];
    size_t entry_count;
    struct rn_slice service; /* of a health check */
    uint32_t leaf_count;
    struct ration_metadata leaves[RN_RLS_LEAVES_MAX]; /* see rn_rls_keep */
    size_t used;                                      /* of the arena */
    bool exhausted;
    _Alignas(16) char arena[RN_RLS_ARENA];
};

/* 0; RATION_EPARSE: not such a message; RATION_EFULL: too many parts; RATION_EINVAL:
 * it makes no sense. `error` says what is wrong. Nothing points into the message
 * afterwards. */
int rn_rls_read(struct rn_rls_reader *reader, struct rn_slice message, struct ration_error *error);
/* The same from JSON as protobuf defines it, in camelCase or as in the .proto. The
 * text is changed, and lives as long as the request. RATION_EPARSE or RATION_EINVAL. */
int rn_rls_read_json(struct rn_rls_reader *reader, char *text, size_t len,
                     struct ration_error *error);

/* For ration_descriptors.metadata, with the reader: keeps the leaves for the answer. */
void rn_rls_keep(void *reader, const struct ration_metadata *leaf);

/* What answers may have besides the statuses. */
struct rn_rls_extra {
    /* ratelimit-limit, -remaining and -reset of the limit that decides, and for a
     * refusal retry-after. */
    bool headers;
    bool metadata;   /* of the limits that have passed, as dynamic_metadata */
    bool quota_mode; /* of all limits; not of the answer, but set together with it */
};

/* `reader` has the metadata, and room to work in. */
void rn_rls_write(struct rn_buf *out, struct rn_rls_reader *reader,
                  const struct ration_descriptors_outcome *outcome,
                  const struct rn_rls_extra *extra);
void rn_rls_write_json(struct rn_buf *out, struct rn_rls_reader *reader,
                       const struct ration_descriptors_outcome *outcome,
                       const struct rn_rls_extra *extra);

/* Of grpc.health.v1; reader->service points into the reader. */
enum rn_health { RN_HEALTH_SERVING = 1, RN_HEALTH_NOT_SERVING = 2, RN_HEALTH_SERVICE_UNKNOWN = 3 };
int rn_rls_read_health(struct rn_rls_reader *reader, struct rn_slice message);
void rn_rls_write_health(struct rn_buf *out, enum rn_health health);

/* --- shared by the two forms ------------------------------------------------------------- */

/* Checks and appends one descriptor, or one entry to the last of them: 0, or a code
 * with `error`. */
int rn_rls_begin(struct rn_rls_reader *reader, struct ration_error *error);
int rn_rls_add_entry(struct rn_rls_reader *reader, struct rn_slice key, struct rn_slice value,
                     struct ration_error *error);
int rn_rls_end(struct rn_rls_reader *reader, struct rn_slice domain, struct ration_error *error);

/* Whole seconds, rounded up: Envoy looks at no less. */
static inline int64_t rn_rls_seconds(int64_t ns)
{
    return ns / 1000000000 + (ns % 1000000000 > 0);
}

/* The headers of an answer; returns how many there are. Values are decimal. */
struct rn_rls_header {
    const char *name;
    char value[24];
};
size_t rn_rls_headers(const struct ration_descriptors_outcome *outcome,
                      struct rn_rls_header headers[RN_RLS_HEADERS]);

#endif
