/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store contract over Redis, strict: every charge is decided there, by the
 * store's clock. One for each loop, of its thread. Redis is one server, the master that
 * Sentinel names, or a cluster.
 *
 * An answer comes within the deadline, counted from rn_backend_begin, or the charge has
 * RATION_ESTORE: what that means for a request is not decided here. The charge may
 * have been made all the same; if the request was refused, it is given back when the reply
 * comes (redis/strict/late_charges.h), and burnt if none does. While the breaker of a server is
 * open, charges that it would decide have RATION_ESTORE at once; others are not concerned. Refusals
 * are remembered (redis/strict/refusal_cache.h): those who come again too early are answered here.
 */
#ifndef RN_REDIS_REDIS_H
#define RN_REDIS_REDIS_H

#include "redis/backend.h"
#include "redis/redis_counts.h"
#include "redis/strict/batch_queue.h"
#include "redis/strict/script_request.h"

#define RN_REDIS_DEADLINE_NS (INT64_C(25) * 1000000)
#define RN_REDIS_JOBS 1024 /* under way at once; one more has RATION_ESTORE */

struct rn_redis;

/* In the loop's thread; connecting begins at once. `url` is borrowed until the end.
 * deadline_ns 0: RN_REDIS_DEADLINE_NS. RATION_EIO: files of the URL cannot be used. */
int rn_redis_new(struct rn_loop *loop, const struct rn_url *url, int64_t deadline_ns,
                 struct rn_redis **out, struct ration_error *error);
/* Before the loop goes on: charges are only sent once it is known that all nodes of this
 * Redis have the same fingerprint of the secret that keys are hashed with
 * (redis/cluster/secret_check.h); until then, and if they have not, everything is RATION_ESTORE. */
void rn_redis_agree(struct rn_redis *redis, const char *fingerprint);
/* Whatever is under way ends with RATION_ESTORE first. */
void rn_redis_free(struct rn_redis *redis);

struct rn_backend *rn_redis_backend(struct rn_redis *redis);
/* Runs a script beside the charges, now. False: it was not sent, as the server of its
 * slot cannot be asked. The time that the caller waits is its own affair. */
bool rn_redis_call(struct rn_redis *redis, const struct rn_script_request *ask);
/* A server may have lost states, a little while ago: rn_shard_doubt. */
bool rn_redis_doubts(const struct rn_redis *redis);
/* All servers can be asked, and charges are sent. */
bool rn_redis_is_up(const struct rn_redis *redis);

/* The number of the server that holds the slot of a key; RN_SHARDS: nobody is known to. */
unsigned rn_redis_server(const struct rn_redis *redis, struct rn_slice key);
/* How many tags have keys that do not go together in a call: 1, or RN_CODEC_TAGS. */
unsigned rn_redis_tags(const struct rn_redis *redis);

/* Any thread, as long as the store lives. */
const struct rn_redis_counts *rn_redis_counts(const struct rn_redis *redis);
/* The servers, as rn_routes_list. */
size_t rn_redis_shards(struct rn_redis *redis, struct rn_routes_shard *out, size_t max);

#endif
