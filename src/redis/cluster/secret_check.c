/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/cluster/secret_check.h"

#include <stdio.h>
#include <string.h>

#include "net/log.h"
#include "redis/cluster/redirect.h"
#include "redis/scripts/script.h"
#include "redis/timing.h"

/* The reply to SET. */
static void on_stored(void *arg, const redisReply *reply)
{
    struct rn_secret_check *secret = arg;
    struct rn_redirect redirect;

    if (!reply)
        return;
    if (reply->type != REDIS_REPLY_ERROR) {
        rn_shard_serves(secret->asked, RN_SCRIPTS);
        return;
    }
    rn_redirect_parse(reply->str, &redirect);
    if (redirect.kind == RN_REDIRECT_FAILED)
        rn_shard_refuses(secret->asked, RN_SCRIPTS, reply->str);
}

static void on_found(void *arg, const redisReply *reply)
{
    struct rn_secret_check *secret = arg;

    secret->asking = false;
    if (secret->state == RN_SECRET_CHECK_NONE)
        return; /* rn_secret_check_done was called */
    if (!reply || reply->type != REDIS_REPLY_STRING) {
        if (reply && reply->type == REDIS_REPLY_ERROR)
            rn_routes_refresh(secret->routes); /* usually, the slot has moved */
        rn_timing_in(secret->routes->loop, &secret->timer, RN_SECRET_CHECK_SOON_NS);
        return;
    }
    bool same = strcmp(reply->str, secret->fingerprint) == 0;
    enum rn_secret_check_state before = secret->state;

    secret->state = same ? RN_SECRET_CHECK_AGREED : RN_SECRET_CHECK_REFUSED;
    if (!same && before != secret->state)
        rn_log(RN_LOG_ERROR, "redis.refused",
               RN_LOG_TEXT("reason", RN_SLICE("the nodes of this Redis do not have the same "
                                              "redis_key_secret: each limit would be counted "
                                              "several times")),
               RN_LOG_TEXT("key", RN_SLICE(RN_SECRET_CHECK_NAME)));
    else if (same && before == RN_SECRET_CHECK_REFUSED)
        rn_log(RN_LOG_INFO, "redis.agreed", RN_LOG_TEXT("key", RN_SLICE(RN_SECRET_CHECK_NAME)));
    if (before != secret->state)
        secret->changed(secret->arg);
    rn_timing_in(secret->routes->loop, &secret->timer,
                 same ? RN_SECRET_CHECK_LATER_NS : RN_SECRET_CHECK_AGAIN_NS);
}

void rn_secret_check_again(struct rn_secret_check *secret)
{
    const char *store[] = {"SET", RN_SECRET_CHECK_NAME, secret->fingerprint, "NX"};
    const char *look[] = {"GET", RN_SECRET_CHECK_NAME};

    if (secret->state == RN_SECRET_CHECK_NONE || secret->asking)
        return;
    struct rn_shard *shard =
        rn_routes_owner(secret->routes, rn_hash_slot_of(rn_slice_of(RN_SECRET_CHECK_NAME)));
    secret->asked = shard;
    secret->asking = shard && rn_link_room(&shard->link) >= 2 &&
                     rn_shard_send(shard, 4, store, NULL, on_stored, secret) &&
                     rn_shard_send(shard, 2, look, NULL, on_found, secret);
    if (!secret->asking)
        rn_timing_in(secret->routes->loop, &secret->timer, RN_SECRET_CHECK_SOON_NS);
}

static void on_timer(struct rn_timer *timer)
{
    rn_secret_check_again(
        (struct rn_secret_check *)((char *)timer - offsetof(struct rn_secret_check, timer)));
}

void rn_secret_check_init(struct rn_secret_check *secret, struct rn_routes *routes,
                          const char *fingerprint, void (*changed)(void *arg), void *arg)
{
    *secret = (struct rn_secret_check){
        .routes = routes, .state = RN_SECRET_CHECK_UNKNOWN, .changed = changed, .arg = arg};
    snprintf(secret->fingerprint, sizeof secret->fingerprint, "%s", fingerprint);
    secret->timer.fire = on_timer;
    rn_secret_check_again(secret);
}

void rn_secret_check_done(struct rn_secret_check *secret)
{
    if (secret->routes)
        rn_timer_cancel(rn_loop_wheel(secret->routes->loop), &secret->timer);
    secret->state = RN_SECRET_CHECK_NONE;
}
