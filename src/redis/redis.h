/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One Redis: a single server, the master that Sentinel names, or a cluster. Each loop has its own
 * rn_redis, used by its thread only. It is the strict backend, which decides every charge in Redis
 * by the server's clock, and it runs scripts for the layers in front of it.
 *
 * A charge gets its answer within the deadline, counted from the call, or RATION_ESTORE: the
 * limiter decides what that means for the request. Redis may have made the charge all the same; if
 * the request was refused, the charge is given back when the reply comes
 * (redis/strict/late_charges.h), and lost if none comes. While the breaker of a server is open, its
 * charges get RATION_ESTORE at once; charges of other servers are not affected. A take that must be
 * refused again is refused here, without a call (redis/strict/refusal_cache.h).
 */
#ifndef RN_REDIS_REDIS_H
#define RN_REDIS_REDIS_H

#include "redis/backend.h"
#include "redis/redis_counts.h"
#include "redis/strict/batch_queue.h"

#define RN_REDIS_DEADLINE_NS (INT64_C(25) * 1000000)

struct rn_redis;
struct rn_returns;

/* In the loop's thread; starts to connect at once. `url` is borrowed until the end.
 * deadline_ns 0: RN_REDIS_DEADLINE_NS. RATION_EIO: files of the URL cannot be used. */
int rn_redis_new(struct rn_loop *loop, const struct rn_url *url, int64_t deadline_ns,
                 struct rn_redis **out, struct ration_error *error);
/* Requires that all nodes of this Redis have the same secret (redis/cluster/secret_check.h): until
 * that is known, and if they differ, every charge gets RATION_ESTORE. Call it before the loop goes
 * on. */
void rn_redis_agree(struct rn_redis *redis, const char *fingerprint);
/* With the other loops of this process, where it has several: units that come back on one of them
 * are news for all. Call it before the loop goes on. */
void rn_redis_share_returns(struct rn_redis *redis, struct rn_returns *returns);
/* Jobs under way end with RATION_ESTORE. */
void rn_redis_free(struct rn_redis *redis);

struct rn_backend *rn_redis_backend(struct rn_redis *redis);
/* Runs a script. False: it was not sent, as the server of its slot is down. The caller must limit
 * its own wait for the reply. */
bool rn_redis_call(struct rn_redis *redis, const struct rn_script_request *ask);
/* The deadline of a call that begins now: of this Redis, or of the caller's fiber if that comes
 * first. */
int64_t rn_redis_deadline(const struct rn_redis *redis);
/* Whether somebody waits for the answer to a charge. */
bool rn_redis_is_busy(const struct rn_redis *redis);
/* Whether a server may have lost states lately: rn_shard_doubt. */
bool rn_redis_doubts(const struct rn_redis *redis);
/* Whether all servers are up and the secret is agreed. */
bool rn_redis_is_up(const struct rn_redis *redis);

/* The number of the server that owns the slot of a key; RN_SHARDS: not known. */
unsigned rn_redis_server(const struct rn_redis *redis, struct rn_slice key);
/* How many hash tags there are; a call has keys of one tag only. 1, or in a cluster
 * RN_CODEC_TAGS. */
unsigned rn_redis_tags(const struct rn_redis *redis);

/* Any thread, as long as the store lives. */
const struct rn_redis_counts *rn_redis_counts(const struct rn_redis *redis);
/* The servers, as rn_routes_list. */
size_t rn_redis_shards(struct rn_redis *redis, struct rn_routes_shard *out, size_t max);

#endif
