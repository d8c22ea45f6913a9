/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/cluster/routes.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "net/log.h"
#include "redis/timing.h"

#define MS INT64_C(1000000)
#define LOOK_NS (1000 * MS)  /* between two checks of the routes */
#define HURRY_NS (150 * MS)  /* the same while a server is down */
#define IDLE_NS (10000 * MS) /* a server without slots is kept this long */
#define NOBODY RN_SHARDS

/* --- shards ------------------------------------------------------------------------- */

bool rn_routes_are_up(const struct rn_routes *routes)
{
    unsigned slots = 0;

    for (unsigned i = 0; i < RN_SHARDS; i++) {
        const struct rn_shard *shard = routes->shards[i];

        if (!shard || shard->slots == 0)
            continue;
        if (!rn_shard_is_up(shard))
            return false;
        slots += shard->slots;
    }
    return slots == RN_HASH_SLOTS;
}

static void note_open(struct rn_routes *routes)
{
    bool open = false;

    for (unsigned i = 0; i < RN_SHARDS; i++)
        open |=
            routes->shards[i] && routes->shards[i]->slots > 0 && routes->shards[i]->breaker.open;
    atomic_store_explicit(&routes->totals->open, open, memory_order_relaxed);
}

void rn_routes_set_name(struct rn_routes *routes, struct rn_shard *shard, const char *address)
{
    pthread_mutex_lock(&routes->lock);
    snprintf(shard->name, sizeof shard->name, "%s", address);
    pthread_mutex_unlock(&routes->lock);
}

static struct rn_shard *add_shard(struct rn_routes *routes, const char *address)
{
    unsigned index = 0;

    while (index < RN_SHARDS && routes->shards[index])
        index++;
    struct rn_shard *shard = index < RN_SHARDS
                                 ? rn_shard_new(routes->loop, &routes->shard_options, address,
                                                &routes->shard_events, routes->totals)
                                 : NULL;
    if (!shard)
        return NULL;
    shard->index = index;
    rn_routes_set_name(routes, shard, address);
    pthread_mutex_lock(&routes->lock);
    routes->shards[index] = shard;
    pthread_mutex_unlock(&routes->lock);
    return shard;
}

struct rn_shard *rn_routes_find(struct rn_routes *routes, const char *address)
{
    for (unsigned i = 0; i < RN_SHARDS; i++) {
        if (routes->shards[i] && strcmp(routes->shards[i]->name, address) == 0) {
            routes->shards[i]->used_ns = rn_timing_now(routes->loop); /* it is about to be used */
            return routes->shards[i];
        }
    }
    struct rn_shard *shard = add_shard(routes, address);
    if (!shard)
        rn_log(RN_LOG_ERROR, "redis.too_many", RN_LOG_TEXT("server", rn_slice_of(address)),
               RN_LOG_NUMBER("known", RN_SHARDS));
    return shard;
}

static void remove_shard(struct rn_routes *routes, struct rn_shard *shard)
{
    pthread_mutex_lock(&routes->lock);
    routes->shards[shard->index] = NULL;
    pthread_mutex_unlock(&routes->lock);
    rn_shard_free(shard);
}

/* --- slots -------------------------------------------------------------------------- */

static void set_slots(struct rn_shard *shard, unsigned slots)
{
    shard->slots = slots;
    atomic_store_explicit(&shard->counts.slots, slots, memory_order_relaxed);
}

/* The new owner's clock is compared with the clock that wrote the states; and it may not have got
 * all of them. */
static void move_slot(struct rn_routes *routes, unsigned slot, unsigned to)
{
    unsigned from = routes->owner[slot];
    struct rn_shard *before = from < RN_SHARDS ? routes->shards[from] : NULL;
    struct rn_shard *after = to < RN_SHARDS ? routes->shards[to] : NULL;

    if (before && after) {
        if (!after->skew.known)
            after->skew = before->skew;
        rn_shard_doubt(after);
    }
    if (before)
        set_slots(before, before->slots - 1);
    if (after)
        set_slots(after, after->slots + 1);
    routes->owner[slot] = (uint8_t)to;
}

bool rn_routes_set_owners(struct rn_routes *routes, const uint8_t fresh[RN_HASH_SLOTS])
{
    bool changed = false;

    for (unsigned slot = 0; slot < RN_HASH_SLOTS; slot++) {
        if (fresh[slot] == routes->owner[slot])
            continue;
        changed = true;
        move_slot(routes, slot, fresh[slot]);
    }
    note_open(routes);
    return changed;
}

void rn_routes_patch(struct rn_routes *routes, uint16_t slot, const char *address)
{
    const struct rn_shard *shard = rn_routes_find(routes, address);

    if (shard && routes->owner[slot] != shard->index)
        move_slot(routes, slot, shard->index);
    rn_routes_refresh(routes);
}

void rn_routes_refresh(struct rn_routes *routes)
{
    if (routes->url->kind == RN_URL_SINGLE)
        return;
    rn_topology_probe_ask(&routes->probe);
    rn_timing_by(routes->loop, &routes->timer, rn_timing_now(routes->loop) + HURRY_NS);
}

/* --- events ------------------------------------------------------------------------- */

static void on_timer(struct rn_timer *timer)
{
    struct rn_routes *routes =
        (struct rn_routes *)((char *)timer - offsetof(struct rn_routes, timer));
    bool broken = !rn_routes_are_up(routes);

    /* Ask Sentinel all the time: a former master that is cut off from the others would go on
     * answering. */
    if (broken || routes->url->kind == RN_URL_SENTINEL)
        rn_topology_probe_ask(&routes->probe);
    if (!broken && routes->url->kind == RN_URL_SENTINEL)
        rn_topology_ask_offset(routes);
    /* Drop servers that have lost all slots. A server that is about to get slots was used lately.
     */
    for (unsigned i = 0; i < RN_SHARDS; i++) {
        struct rn_shard *shard = routes->shards[i];

        if (shard && shard->slots == 0 && shard->link.owed_count == 0 &&
            shard->used_ns < rn_timing_now(routes->loop) - IDLE_NS)
            remove_shard(routes, shard);
    }
    rn_timing_by(routes->loop, &routes->timer,
                 rn_timing_now(routes->loop) + (broken ? HURRY_NS : LOOK_NS));
}

static void on_seek(void *arg, struct rn_shard *shard)
{
    (void)shard;
    if (!rn_topology_follow(arg))
        rn_routes_refresh(arg);
}

static void on_up(void *arg, struct rn_shard *shard)
{
    struct rn_routes *routes = arg;

    note_open(routes);
    routes->events->up(routes->events->arg, shard);
}

static void on_down(void *arg, struct rn_shard *shard)
{
    struct rn_routes *routes = arg;

    note_open(routes);
    routes->events->down(routes->events->arg, shard);
    if (shard->slots > 0)
        rn_routes_refresh(routes);
}

static void on_later(void *arg, struct rn_shard *shard)
{
    struct rn_routes *routes = arg;

    routes->events->later(routes->events->arg, shard);
}

/* --- start and end --------------------------------------------------------------------- */

static bool start(struct rn_routes *routes)
{
    bool sentinel = routes->url->kind == RN_URL_SENTINEL;

    routes->shard_options =
        (struct rn_link_options){.url = routes->url,
                                 .tls = routes->tls,
                                 .purpose = sentinel ? RN_LINK_MASTER : RN_LINK_STATES,
                                 .silence_ns = routes->silence_ns};
    routes->shard_events = (struct rn_shard_events){
        .arg = routes, .seek = on_seek, .up = on_up, .down = on_down, .later = on_later};
    if (routes->url->kind != RN_URL_SINGLE) {
        if (!rn_topology_start(routes))
            return false;
        rn_timing_by(routes->loop, &routes->timer, rn_timing_now(routes->loop) + LOOK_NS);
    }
    if (routes->url->kind == RN_URL_CLUSTER)
        return true;
    /* One server owns all slots. */
    return add_shard(routes, sentinel ? "" : routes->url->hosts[0]) &&
           rn_routes_set_owners(routes, (const uint8_t[RN_HASH_SLOTS]){0});
}

int rn_routes_init(struct rn_routes *routes, struct rn_loop *loop, const struct rn_url *url,
                   int64_t silence_ns, const struct rn_routes_events *events,
                   struct rn_redis_counts *totals, struct ration_error *error)
{
    struct rn_tls_trust trust = {.ca = url->ca[0] ? url->ca : NULL,
                                 .cert = url->cert[0] ? url->cert : NULL,
                                 .key = url->key[0] ? url->key : NULL,
                                 .any_name = url->verify == RN_URL_VERIFY_CA,
                                 .unverified = url->verify == RN_URL_VERIFY_NOT};

    *routes = (struct rn_routes){
        .loop = loop, .url = url, .silence_ns = silence_ns, .events = events, .totals = totals};
    routes->timer.fire = on_timer;
    memset(routes->owner, NOBODY, sizeof routes->owner);
    pthread_mutex_init(&routes->lock, NULL);
    int failed = url->tls ? rn_tls_new_client(&trust, &routes->tls, error) : 0;
    if (failed == 0 && !start(routes))
        failed = rn_error_set(error, RATION_ENOMEM, 0, "out of memory");
    if (failed != 0)
        rn_routes_done(routes);
    return failed;
}

void rn_routes_done(struct rn_routes *routes)
{
    rn_topology_probe_done(&routes->probe);
    rn_failover_free(routes->failover);
    for (unsigned i = 0; i < RN_SHARDS; i++)
        if (routes->shards[i])
            remove_shard(routes, routes->shards[i]);
    rn_timer_cancel(rn_loop_wheel(routes->loop), &routes->timer);
    rn_tls_unref(routes->tls);
    pthread_mutex_destroy(&routes->lock);
}

/* --- for other threads ----------------------------------------------------------------- */

size_t rn_routes_list(struct rn_routes *routes, struct rn_routes_shard *out, size_t max)
{
    size_t n = 0;

    pthread_mutex_lock(&routes->lock);
    for (unsigned i = 0; i < RN_SHARDS; i++) {
        const struct rn_shard *shard = routes->shards[i];

        if (!shard || n++ >= max)
            continue;
        const struct rn_shard_counts *c = &shard->counts;
        out[n - 1] =
            (struct rn_routes_shard){.up = c->up && !rn_redis_counts_refused(&c->refused_ns),
                                     .open = c->open,
                                     .slots = c->slots,
                                     .trips = c->trips,
                                     .connects = c->connects,
                                     .opened = c->opened,
                                     .late = c->late,
                                     .turned_away = c->turned_away,
                                     .clock_steps = c->clock_steps,
                                     .skew_us = c->skew_us};
        memcpy(out[n - 1].address, shard->name, sizeof shard->name);
    }
    pthread_mutex_unlock(&routes->lock);
    return n;
}
