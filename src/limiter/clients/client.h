/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One override or ban as it is kept: the payload of a record of the journal.
 *
 *   expiry, wall time in ns, 0: never (8 bytes) | number of attributes (1) |
 *   rule | limit | note | name, value | name, value ...   each: length (2), bytes
 *   when it was made, wall time in us (8 bytes)
 *
 * A ban has an empty rule and limit; its note is the reason. A deletion has rule, attributes and
 * the time it was made. Earlier versions did not write that time.
 */
#ifndef RN_LIMITER_CLIENTS_CLIENT_H
#define RN_LIMITER_CLIENTS_CLIENT_H

#include <ration/clients.h>

#include "base/buf.h"
#include "base/siphash.h"
#include "base/slice.h"
#include "rules/match/path.h"

#define RN_CLIENT_ATTRIBUTES_MAX RATION_OVERRIDE_ATTRIBUTES_MAX

/* Kinds of records. Numbers are part of the file: append only. */
enum rn_client_change {
    RN_OVERRIDE_SET = 1,
    RN_OVERRIDE_DELETE = 2,
    RN_BAN_SET = 3,
    RN_BAN_DELETE = 4,
};

struct rn_client_attribute {
    struct rn_slice name, value;
};

/* Slices are borrowed. */
struct rn_client {
    int64_t expires_wall_ns; /* 0: never */
    int64_t made_us;         /* 0: not known */
    struct rn_slice rule, limit, note;
    uint32_t count;
    struct rn_client_attribute attributes[RN_CLIENT_ATTRIBUTES_MAX];
};

void rn_client_write(const struct rn_client *client, struct rn_buf *out);
/* False: the bytes are something else. */
bool rn_client_read(struct rn_slice payload, struct rn_client *client);

/* Whether rn_client_take and rn_client_take_note would accept it from a caller. */
bool rn_client_is_valid(const struct rn_client *client);

/* Equal for changes of the same rule and attributes, in whatever order. */
uint64_t rn_client_identity(const struct rn_client *client, const struct rn_hash_key *secret);

/* The same on every node, whatever its secret, in hexadecimal digits: so many that two equal ones
 * cannot be searched for. */
#define RN_CLIENT_NAME 32
void rn_client_name(const struct rn_client *client, char out[RN_CLIENT_NAME]);

/* Takes attributes from a caller. RATION_EINVAL if they are faulty. */
int rn_client_take(struct rn_client *client, const struct ration_attribute *attributes,
                   size_t count, struct ration_error *error);
/* Takes the note; `what` is "note" or "reason". */
int rn_client_take_note(struct rn_client *client, const char *what, const char *note, size_t len,
                        struct ration_error *error);

/* Replaces the path by its first reading, which is what is compared. RATION_EINVAL if it cannot be
 * read, or is too long then. */
int rn_client_spell_path(struct rn_slice *path, const struct rn_path_settings *settings,
                         struct rn_path_readings *readings, struct ration_error *error);

#endif
