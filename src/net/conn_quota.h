/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits on the number of connections, in total and from one address. Any thread. A mutex
 * protects the addresses; only accepting and closing take it.
 */
#ifndef RN_NET_CONN_QUOTA_H
#define RN_NET_CONN_QUOTA_H

#include <pthread.h>
#include <stdatomic.h>

#include "net/conn.h"

struct rn_conn_quota;

enum rn_conn_quota_answer { RN_CONN_QUOTA_OK, RN_CONN_QUOTA_TOTAL, RN_CONN_QUOTA_ADDRESS };

/* per_address 0: no limit. NULL: out of memory. */
struct rn_conn_quota *rn_conn_quota_new(uint32_t total, uint32_t per_address);
void rn_conn_quota_free(struct rn_conn_quota *quota);

/* Whether the total is reached. */
bool rn_conn_quota_is_full(const struct rn_conn_quota *quota);
enum rn_conn_quota_answer rn_conn_quota_take(struct rn_conn_quota *quota,
                                             const struct rn_peer *peer);
/* For each successful rn_conn_quota_take. */
void rn_conn_quota_give_back(struct rn_conn_quota *quota, const struct rn_peer *peer);

#endif
