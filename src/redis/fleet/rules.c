/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules that all nodes share. A node also keeps them in a file, for a start without Redis.
 */
#include "base/clock.h"
#include "redis/fleet/fleet_internal.h"

struct rn_slice rn_fleet_rules(const struct rn_fleet *fleet)
{
    return fleet->rules.set ? rn_buf_slice(&fleet->rules.text) : (struct rn_slice){0};
}

struct rn_fleet_item rn_fleet_rules_value(const struct rn_fleet *fleet)
{
    const struct rn_fleet_rules *rules = &fleet->rules;

    return (struct rn_fleet_item){.kind = rules->set ? RN_FLEET_RULES_SET : RN_FLEET_RULES_DELETE,
                                  .made_us = rules->made_us,
                                  .text = rn_buf_slice(&rules->text)};
}

void rn_fleet_rules_load(struct rn_fleet *fleet)
{
    struct rn_fleet_rules *rules = &fleet->rules;

    rules->set = fleet->options.rules_path &&
                 rn_rules_file_load(fleet->options.rules_path, &rules->text, &rules->made_us);
    if (rules->set)
        fleet->options.use_rules(fleet->options.arg, rn_buf_slice(&rules->text));
}

static void save(const struct rn_fleet *fleet)
{
    if (fleet->options.rules_path)
        rn_rules_file_save(fleet->options.rules_path, rn_fleet_rules(fleet), fleet->rules.made_us);
}

/* --- changes ---------------------------------------------------------------------------- */

static bool put(struct rn_fleet *fleet, struct rn_slice text, int64_t made_us)
{
    struct rn_fleet_rules *rules = &fleet->rules;

    rn_buf_clear(&rules->text);
    rn_buf_put_slice(&rules->text, text);
    rules->set = text.data != NULL && !rules->text.failed;
    rules->made_us = made_us;
    return !rules->text.failed;
}

/* The new time must be later than that of the rules they replace, as with overrides. */
void rn_fleet_rules_changed(struct rn_fleet *fleet, struct rn_slice text)
{
    int64_t now_us = rn_clock_read_ns(CLOCK_REALTIME) / 1000;
    int64_t before_us = fleet->rules.made_us;

    if (!fleet->options.changes)
        return;
    put(fleet, text, now_us > before_us ? now_us : before_us + 1);
    fleet->rules.shared = false;
    save(fleet);
    rn_fleet_changed(fleet);
}

void rn_fleet_rules_take(struct rn_fleet *fleet, const struct rn_fleet_item *value)
{
    struct rn_fleet_rules *rules = &fleet->rules;
    struct rn_slice text = value->kind == RN_FLEET_RULES_SET ? value->text : (struct rn_slice){0};

    bool had = rules->set;

    if (value->made_us < rules->made_us)
        return;
    rules->shared = true;
    if (rules->made_us == value->made_us && had == (value->kind == RN_FLEET_RULES_SET) &&
        rn_slice_equal(rn_buf_slice(&rules->text), value->text))
        return; /* known already */
    put(fleet, text, value->made_us);
    if (!had && !rules->set)
        return; /* the node used its own rules, and still does */
    if (fleet->options.use_rules(fleet->options.arg, text) != 0) {
        rn_redis_count(&fleet->counts.refused, 1);
        return;
    }
    rn_redis_count(&fleet->counts.taken, 1);
    save(fleet);
}
