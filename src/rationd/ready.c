/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "limiter/limiter.h"
#include "net/log.h"
#include "net/systemd.h"
#include "rationd/rationd.h"

#define REDIS_WAIT_NS RN_SECOND_NS
#define HISTORY_WAIT_NS (2 * RN_SECOND_NS)
#define REDIS_LOOK_NS (RN_SECOND_NS / 500)

struct rule_count {
    uint64_t all, native;
    uint64_t for_envoy, native_for_envoy; /* rules that apply to Envoy's requests */
};

static int count_rule(void *arg, const struct ration_rule_info *info)
{
    struct rule_count *count = arg;

    count->all++;
    count->native += !info->envoy;
    count->for_envoy += info->for_envoy;
    count->native_for_envoy += info->for_envoy && !info->envoy;
    return 0;
}

static const char *address_of(const struct rn_rationd *d, const char *name)
{
    const char *address = rn_server_address(d->server, name);

    return address ? address : "none";
}

static void warn_not_for_envoy(const struct rule_count *count)
{
    bool some = count->native_for_envoy != 0;

    rn_log(
        RN_LOG_WARN, "rules.not_for_envoy",
        RN_LOG_NUMBER("native", count->native - count->native_for_envoy),
        RN_LOG_TEXT("meaning", some ? RN_SLICE("rules with charge_on or concurrent do not apply to "
                                               "requests of Envoy's protocol")
                                    : RN_SLICE("native rules do not apply to requests of Envoy's "
                                               "protocol")),
        RN_LOG_TEXT("advice", some ? RN_SLICE("add rules without these for such requests")
                                   : RN_SLICE("write apply_to_envoy: true in a file of native "
                                              "rules, or descriptors")));
}

/* Prints the line that scripts wait for, whatever the log level; as JSON if the log is JSON. */
static void say_ready(struct rn_rationd *d)
{
    const char *http = address_of(d, "http"), *resp = address_of(d, "resp"),
               *grpc = address_of(d, "grpc"), *admin = address_of(d, "admin");
    struct rule_count count = {0};

    d->front.starting = false;
    ration_rules_each(d->limiter, count_rule, &count);
    uint64_t rules = count.all;

    if (d->options.log_format == RN_LOG_JSON) {
        rn_log_setup(RN_LOG_INFO, d->options.log_format);
        rn_log(RN_LOG_INFO, "daemon.ready", RN_LOG_TEXT("http", rn_slice_of(http)),
               RN_LOG_TEXT("resp", rn_slice_of(resp)), RN_LOG_TEXT("grpc", rn_slice_of(grpc)),
               RN_LOG_TEXT("admin", rn_slice_of(admin)), RN_LOG_NUMBER("rules", rules),
               RN_LOG_NUMBER("files", d->file_count),
               RN_LOG_NUMBER("capacity", rn_limiter_capacity(d->limiter)));
        rn_log_setup(d->options.log_level, d->options.log_format);
    } else {
        fprintf(stderr,
                "rationd: ready http=%s resp=%s grpc=%s admin=%s rules=%" PRIu64 " files=%" PRIu32
                " capacity=%" PRIu64 "\n",
                http, resp, grpc, admin, rules, d->file_count, rn_limiter_capacity(d->limiter));
        fflush(stderr);
    }
    if (d->front.rules_from_api)
        rn_log(RN_LOG_WARN, "rules.from_api",
               RN_LOG_TEXT("meaning", RN_SLICE("rules that an operator has set are in force, "
                                               "not those of the files")),
               RN_LOG_TEXT("advice", RN_SLICE("ration rules delete goes back to the files")));
    if (rules == 0)
        rn_log(RN_LOG_WARN, "rules.none",
               RN_LOG_TEXT("meaning", RN_SLICE("every request is allowed")),
               RN_LOG_TEXT("advice", RN_SLICE("name a file of rules with --config")));
    if (count.for_envoy != 0 && count.native_for_envoy != count.native)
        warn_not_for_envoy(&count);
    rn_systemd_notify("READY=1");
}

static void look_for_redis(struct rn_timer *timer)
{
    struct rn_rationd *d =
        (struct rn_rationd *)((char *)timer - offsetof(struct rn_rationd, ready_timer));
    struct rn_wheel *wheel = rn_loop_wheel(rn_server_control(d->server));
    int64_t now_ns = rn_wheel_now(wheel);
    bool up = rn_shared_store_is_up(&d->shared);
    int64_t by_ns =
        d->ready_by_ns + rn_membership_wait_ns(&d->membership) + (up ? HISTORY_WAIT_NS : 0);
    bool joined = up && rn_membership_is_synced(&d->membership);
    bool known = joined && rn_shared_store_is_whole(&d->shared);

    if (!d->accepting && (joined || now_ns >= d->ready_by_ns)) {
        d->accepting = true;
        rn_server_accept(d->server);
    }
    if (now_ns < by_ns && !known) {
        rn_timer_set(wheel, timer, now_ns + REDIS_LOOK_NS);
        return;
    }
    if (!up)
        rn_log(RN_LOG_WARN, "redis.unreached",
               RN_LOG_TEXT("meanwhile", RN_SLICE("on_store_failure of each rule")));
    say_ready(d);
}

void rn_rationd_ready(void *arg)
{
    struct rn_rationd *d = arg;
    struct rn_loop *loop = rn_server_control(d->server);

    if (!d->options.shares) {
        say_ready(d);
        return;
    }
    d->front.starting = true;
    rn_shared_store_begin(&d->shared, loop);
    rn_membership_begin(&d->membership, &d->shared, &d->front);
    int64_t wait_ns = d->options.redis_deadline_ns;
    d->ready_by_ns =
        rn_wheel_now(rn_loop_wheel(loop)) + (wait_ns > REDIS_WAIT_NS ? wait_ns : REDIS_WAIT_NS);
    d->ready_timer.fire = look_for_redis;
    look_for_redis(&d->ready_timer);
}
