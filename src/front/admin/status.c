/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the daemon: alive, ready, how full, how busy, the keys refused most; and the
 * switch for shadow mode.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <ration/wait.h>

#include "base/clock.h"
#include "front/admin/admin_internal.h"
#include "limiter/limiter.h"
#include "limiter/rulebook/listing.h"
#include "limiter/top.h"

#define TOP_COUNT 20

static const char *const listeners[] = {"http", "resp", "grpc", "admin"};

void rn_admin_health(struct rn_http_context *c)
{
    rn_front_http_text(c, 200, RN_SLICE("ok\n"));
}

void rn_admin_ready(struct rn_http_context *c)
{
    bool draining = rn_server_stopping(c->front->server);
    bool ready = !draining && !c->front->starting;
    struct rn_members m = rn_admin_begin(c);

    rn_members_bool(&m, "ready", ready);
    if (!ready)
        rn_members_text(&m, "reason", draining ? RN_SLICE("draining") : RN_SLICE("starting"));
    else
        rn_members_u64(&m, "rules_version", ration_rules_version(c->front->limiter));
    /* A daemon without its store is ready: it decides by on_store_failure, as others would. */
    if (c->front->store.arg)
        rn_members_text(&m, "store",
                        c->front->store.is_up(c->front->store.arg) ? RN_SLICE("up")
                                                                   : RN_SLICE("down"));
    rn_admin_end(c, &m, ready ? 200 : 503);
}

/* --- status ------------------------------------------------------------------------------- */

/* 2026-11-15T12:00:00Z */
void rn_admin_put_time(struct rn_members *m, const char *name, int64_t unix_ns)
{
    time_t seconds = (time_t)(unix_ns / RN_SECOND_NS);
    char text[32] = "";
    struct tm tm;

    if (gmtime_r(&seconds, &tm))
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
    rn_members_text(m, name, rn_slice_of(text));
}

static void put_rules(struct rn_members *m, struct rn_front *front)
{
    rn_members_open(m, "rules", '{');
    rn_members_u64(m, "version", ration_rules_version(front->limiter));
    rn_members_u64(m, "count", rn_listing_count(front->limiter));
    rn_admin_put_time(m, "loaded_at", front->rules_loaded_ns);
    rn_members_text(m, "source", front->rules_from_api ? RN_SLICE("api") : RN_SLICE("file"));
    rn_members_bool(m, "last_reload_failed", front->reload_failed);
    rn_members_close(m, '}');
}

static void put_decisions(struct rn_members *m, struct rn_front *front)
{
    struct ration_totals totals;

    ration_totals(front->limiter, &totals);
    rn_members_open(m, "decisions", '{');
    rn_members_u64(m, "allowed", totals.allowed);
    rn_members_u64(m, "refused", totals.refused);
    rn_members_u64(m, "shadowed", totals.shadowed);
    rn_members_u64(m, "errors", totals.errors);
    rn_members_u64(m, "unmatched", totals.unmatched);
    rn_members_close(m, '}');
}

static void put_waiting(struct rn_members *m, const struct rn_front *front)
{
    struct ration_waiting_totals totals;

    ration_waiting_totals(front->limiter, &totals);
    rn_members_open(m, "waiting", '{');
    rn_members_u64(m, "requests", totals.waiting);
    rn_members_u64(m, "lines", totals.lines);
    rn_members_u64(m, "most", totals.most);
    rn_members_close(m, '}');
}

static void put_memory(struct rn_members *m, struct rn_front *front)
{
    const struct ration_memory *memory = rn_front_memory(front, RN_FRONT_MEMORY_ASKED);

    rn_members_open(m, "memory", '{');
    rn_members_u64(m, "bytes", memory->bytes);
    rn_members_u64(m, "slots", memory->slots);
    rn_members_u64(m, "capacity", memory->capacity);
    rn_members_u64(m, "live_keys", memory->live);
    rn_members_u64(m, "evictions", memory->evictions);
    rn_members_u64(m, "block_bytes", memory->block_bytes);
    rn_members_u64(m, "block_bytes_used", memory->block_bytes_used);
    rn_members_close(m, '}');
}

static void put_listeners(struct rn_members *m, const struct rn_server *server)
{
    struct rn_server_counts counts;

    rn_members_open(m, "listeners", '{');
    for (size_t i = 0; i < sizeof listeners / sizeof *listeners; i++) {
        const char *address = rn_server_address(server, listeners[i]);

        if (address)
            rn_members_text(m, listeners[i], rn_slice_of(address));
    }
    rn_members_close(m, '}');
    rn_members_open(m, "connections", '{');
    for (size_t i = 0; i < sizeof listeners / sizeof *listeners; i++) {
        if (!rn_server_address(server, listeners[i]))
            continue;
        rn_server_counts(server, listeners[i], &counts);
        rn_members_open(m, listeners[i], '{');
        rn_members_u64(m, "open", counts.open);
        rn_members_u64(m, "accepted", counts.accepted);
        rn_members_u64(m, "refused", counts.refused);
        rn_members_close(m, '}');
    }
    rn_members_close(m, '}');
}

void rn_admin_status(struct rn_http_context *c)
{
    struct rn_front *front = c->front;
    struct rn_members m = rn_admin_begin(c);

    rn_members_text(&m, "version", rn_slice_of(ration_version()));
    rn_members_seconds(&m, "uptime", rn_clock_read_ns(CLOCK_REALTIME) - front->started_ns);
    rn_members_u64(&m, "workers", rn_server_workers(front->server));
    put_rules(&m, front);
    rn_members_bool(&m, "shadow", ration_shadow(front->limiter));
    rn_members_bool(&m, "limits_published", front->publishes);
    put_decisions(&m, front);
    put_waiting(&m, front);
    put_memory(&m, front);
    put_listeners(&m, front->server);
    rn_admin_end(c, &m, 200);
}

/* --- keys refused most -------------------------------------------------------------------- */

void rn_admin_put_last(struct rn_members *m, struct ration *r, uint64_t hash)
{
    int64_t at_ns[RN_TOP_LAST];
    size_t count = rn_top_last(r->top, hash, at_ns);

    rn_members_open(m, "last", '[');
    for (size_t i = 0; i < count; i++)
        rn_members_seconds(m, NULL, ration_wall(r, at_ns[i]));
    rn_members_close(m, ']');
}

void rn_admin_top(struct rn_http_context *c)
{
    struct ration_top *keys;
    struct rn_admin_params params;
    struct rn_members m;
    char hash[24];
    size_t count;

    if (!rn_admin_read_query(c, &params, RN_ADMIN_COUNT))
        return;
    count = params.count ? (size_t)params.count : TOP_COUNT;
    keys = calloc(count, sizeof *keys);
    if (!keys) {
        rn_front_http_error(c, 503, "memory", "out of memory");
        return;
    }
    count = ration_top(c->front->limiter, keys, count);
    m = rn_admin_begin(c);
    rn_members_open(&m, "keys", '[');
    for (size_t i = 0; i < count; i++) {
        rn_members_open(&m, NULL, '{');
        if (keys[i].rule[0])
            rn_members_text(&m, "rule", rn_slice_of(keys[i].rule));
        else
            rn_members_null(&m, "rule");
        rn_admin_put_key(&m, "key", (struct rn_slice){keys[i].name, keys[i].name_len});
        rn_members_u64(&m, "refused", keys[i].refused);
        snprintf(hash, sizeof hash, "%016" PRIx64, keys[i].hash);
        rn_members_text(&m, "hash", rn_slice_of(hash));
        rn_admin_put_last(&m, c->front->limiter, keys[i].hash);
        if (keys[i].rule[0])
            rn_admin_put_ban_of(&m, c->front->limiter, rn_slice_of(keys[i].rule), keys[i].hash);
        rn_members_close(&m, '}');
    }
    rn_members_close(&m, ']');
    rn_admin_put_time(&m, "since", c->front->started_ns);
    rn_admin_end(c, &m, 200);
    free(keys);
}

/* --- shadow mode ---------------------------------------------------------------------------- */

void rn_admin_get_shadow(struct rn_http_context *c)
{
    struct rn_members m = rn_admin_begin(c);

    rn_members_bool(&m, "shadow", ration_shadow(c->front->limiter));
    rn_admin_end(c, &m, 200);
}

void rn_admin_put_shadow(struct rn_http_context *c)
{
    struct rn_admin_params params;

    if (!rn_admin_read(c, &params, RN_ADMIN_SHADOW))
        return;
    if (!params.given) {
        rn_front_http_error(c, 400, "bad_request", "\"shadow\" is missing: true or false");
        return;
    }
    ration_shadow_set(c->front->limiter, params.shadow);
    rn_admin_log(c, "shadow.set",
                 RN_LOG_TEXT("shadow", params.shadow ? RN_SLICE("on") : RN_SLICE("off")));
    rn_admin_get_shadow(c);
}
