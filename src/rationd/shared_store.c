/* SPDX-License-Identifier: Apache-2.0 */
#include "rationd/shared_store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "limiter/clients/replication.h"
#include "net/log.h"
#include "redis/codec.h"

#define COUNT_NS RN_SECOND_NS
#define REPLIES_NS RN_SECOND_NS /* how long a stop waits for replies of Redis, at most */

/* The secret of nodes without redis_key_secret. It is public, so that names of keys in Redis can be
 * guessed from a client's name. Nothing secret may derive from it: tickets are signed with random
 * keys (limiter/tickets/ticket_keys.h). */
static const struct rn_hash_key published = {UINT64_C(0x7261746961746564),
                                             UINT64_C(0x6f6e206b65797331)};

/* --- life -------------------------------------------------------------------------------- */

bool rn_shared_store_open(struct rn_shared_store *shared, const struct rn_rationd_options *options,
                          struct ration *limiter)
{
    const char *text = options->values[RN_SET_REDIS_KEY_SECRET];
    struct rn_hash_key secret = published, other = {~published.k0, published.k1};

    if (text && *text)
        secret = (struct rn_hash_key){rn_siphash(&published, text, strlen(text)),
                                      rn_siphash(&other, text, strlen(text))};
    shared->options = options;
    shared->limiter = limiter;
    snprintf(shared->fingerprint, sizeof shared->fingerprint, "%016" PRIx64,
             rn_siphash(&secret, "fingerprint", 11));
    if (rn_limiter_share(limiter, &secret, rn_codec_fault) != 0)
        return rn_rationd_fail("out of memory");
    if (options->state && snprintf(shared->leases_path, sizeof shared->leases_path, "%s.leases",
                                   options->state) >= (int)sizeof shared->leases_path)
        return rn_rationd_fail("--state: the path is longer than %zu bytes",
                               sizeof shared->leases_path - sizeof ".leases");
    if (options->redis_changes)
        rn_replication_begin(limiter); /* while no request uses what the journal says */
    limiter->fallback->nodes = options->redis_nodes > 0 ? options->redis_nodes : 1;
    return true;
}

bool rn_shared_store_prepare(struct rn_shared_store *shared, unsigned workers)
{
    shared->stores = calloc(workers + 1, sizeof *shared->stores);
    if (!shared->stores || pthread_mutex_init(&shared->lock, NULL) != 0)
        return rn_rationd_fail("out of memory");
    shared->count = workers + 1;
    return true;
}

void rn_shared_store_close(struct rn_shared_store *shared)
{
    if (shared->count > 0)
        pthread_mutex_destroy(&shared->lock);
    free(shared->stores);
}

/* --- the way of one loop ------------------------------------------------------------------ */

static unsigned nodes_of(const struct rn_shared_store *shared)
{
    return atomic_load_explicit(&shared->limiter->fallback->nodes, memory_order_relaxed);
}

static void count_nodes(struct rn_timer *timer)
{
    struct rn_loop_store *store = (struct rn_loop_store *)(void *)timer;
    struct rn_wheel *wheel = rn_loop_wheel(store->loop);

    rn_async_set_nodes(store->async, nodes_of(store->shared));
    rn_timer_set(wheel, timer, rn_wheel_now(wheel) + COUNT_NS);
}

static bool is_busy(const void *arg)
{
    const struct rn_loop_store *store = arg;

    return rn_redis_is_busy(store->redis) || rn_leased_is_busy(store->leased) ||
           rn_async_is_busy(store->async);
}

/* Sends unreported units and returns leases, and waits for the replies: a lease whose renewal is in
 * flight cannot be returned before, and a connection that is closed with an unread reply takes the
 * calls behind it along. Then answers all waiting charges; what they are followed by is decided
 * without the store. */
static void close_store(struct rn_loop_store *store)
{
    if (store->async) {
        rn_async_stop(store->async);
        rn_leased_stop(store->leased);
        rn_loop_run_while(store->loop, is_busy, store, REPLIES_NS);
    }
    rn_fallback_use(NULL);
    rn_leased_free(store->leased);
    rn_redis_free(store->redis);
    rn_async_free(store->async);
}

void rn_shared_store_begin(struct rn_shared_store *shared, struct rn_loop *loop)
{
    const struct rn_rationd_options *o = shared->options;
    struct rn_loop_store store = {.timer = {.fire = count_nodes}, .shared = shared, .loop = loop};
    struct rn_loop_store *place = &shared->stores[rn_loop_index(loop)];
    struct rn_leased_options leased = {.deadline_ns = o->redis_deadline_ns,
                                       .path = o->state ? shared->leases_path : NULL};
    struct rn_async_options async = {.nodes = nodes_of(shared),
                                     .workers = shared->count,
                                     .by_tag = o->redis.kind == RN_URL_CLUSTER};
    struct ration_error error;
    int code = rn_redis_new(loop, &o->redis, o->redis_deadline_ns, &store.redis, &error);

    if (code == 0) {
        rn_redis_agree(store.redis, shared->fingerprint);
        rn_redis_share_returns(store.redis, &shared->returns);
        code = rn_leased_new(loop, store.redis, &leased, &store.leased, &error);
    }
    if (code == 0)
        code = rn_async_new(loop, store.redis, rn_leased_backend(store.leased), &async,
                            &store.async, &error);
    if (code != 0) {
        rn_log(RN_LOG_ERROR, "redis.unusable", RN_LOG_TEXT("error", rn_slice_of(error.text)));
        close_store(&store);
        return;
    }
    pthread_mutex_lock(&shared->lock);
    *place = store;
    pthread_mutex_unlock(&shared->lock);
    count_nodes(&place->timer);
    rn_fallback_use(&rn_async_backend(place->async)->store);
}

void rn_shared_store_end(struct rn_shared_store *shared, struct rn_loop *loop)
{
    struct rn_loop_store *place = &shared->stores[rn_loop_index(loop)], store = *place;

    if (!store.redis)
        return;
    rn_timer_cancel(rn_loop_wheel(loop), &place->timer);
    pthread_mutex_lock(&shared->lock);
    place->redis = NULL;
    pthread_mutex_unlock(&shared->lock);
    close_store(&store); /* charges use it until the last replies */
}

/* --- status --------------------------------------------------------------------------- */

static bool is_up(const struct rn_loop_store *store)
{
    const struct rn_redis_counts *counts = rn_redis_counts(store->redis);

    return counts->up && !rn_redis_counts_refused(&counts->refused_ns);
}

static bool is_whole(const struct rn_loop_store *store)
{
    return rn_leased_is_whole(store->leased);
}

static bool are_all(struct rn_shared_store *shared, bool (*is)(const struct rn_loop_store *store))
{
    unsigned count = 0;

    pthread_mutex_lock(&shared->lock);
    for (unsigned i = 0; i < shared->count; i++)
        count += shared->stores[i].redis && is(&shared->stores[i]);
    pthread_mutex_unlock(&shared->lock);
    return count == shared->count;
}

bool rn_shared_store_is_up(void *arg)
{
    return are_all(arg, is_up);
}

bool rn_shared_store_is_whole(struct rn_shared_store *shared)
{
    struct rn_pin pin = rn_pin_take_counted(&shared->limiter->shelf);
    bool leased = false;

    for (uint32_t i = 0; pin.book && i < pin.book->ruleset->rule_count; i++)
        leased |= pin.book->ruleset->rules[i].consistency == RN_LEASED;
    rn_pin_drop(&pin);
    return !leased || are_all(shared, is_whole);
}
