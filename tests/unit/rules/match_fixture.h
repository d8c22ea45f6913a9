/* SPDX-License-Identifier: Apache-2.0 */
/* A ruleset made by hand, for the tests of matching. */
#ifndef MATCH_FIXTURE_H
#define MATCH_FIXTURE_H

#include "rules/match/match.h"

#define RULES_MAX 200

enum { METHOD, PATH, HOST, IP, USER, TIER, COST, PRIORITY, ATTRIBUTES };

static const struct rn_attribute attributes[ATTRIBUTES] = {
    {.name = RN_SLICE_INIT("method")},
    {.name = RN_SLICE_INIT("path")},
    {.name = RN_SLICE_INIT("host")},
    {.name = RN_SLICE_INIT("ip"), .is_ip = true},
    {.name = RN_SLICE_INIT("user")},
    {.name = RN_SLICE_INIT("tier")},
    {.name = RN_SLICE_INIT("cost"), .is_number = true},
    {.name = RN_SLICE_INIT("priority")},
};

static struct rn_rule_limit some_limit = {.spec = {.algorithm = RATION_TOKEN_BUCKET}};
static struct rn_rule_limit *const some_limits[] = {&some_limit};
static const struct rn_tier everybody = {.limits = some_limits, .limit_count = 1};
static const struct rn_tier tiers[] = {
    {.value = RN_SLICE_INIT("free"), .limits = some_limits, .limit_count = 1},
    {.value = RN_SLICE_INIT("pro"), .limits = some_limits, .limit_count = 1},
    {.value = RN_SLICE_INIT("enterprise")},
};
static const struct rn_level levels[] = {
    {RN_SLICE_INIT("critical"), 0},
    {RN_SLICE_INIT("normal"), 20},
    {RN_SLICE_INIT("batch"), 50},
};

static struct rn_rule rules[RULES_MAX];
static struct rn_ruleset ruleset;
static struct rn_matches matches;

static const struct rn_alternative always = {.condition_count = 0};

static struct rn_rule plain_rule(void)
{
    return (struct rn_rule){
        .alternatives = &always,
        .alternative_count = 1,
        .tier_attribute = RN_NO_ATTRIBUTE,
        .tier_second = RN_NO_ATTRIBUTE,
        .tiers = &everybody,
        .tier_count = 1,
        .cost = {.fixed = 1, .attribute = RN_NO_ATTRIBUTE},
        .priority = {.attribute = RN_NO_ATTRIBUTE},
    };
}

static void compile(uint32_t rule_count)
{
    for (uint32_t i = 0; i < rule_count; i++)
        rules[i].index = i;
    ruleset.attributes = attributes;
    ruleset.attribute_count = ATTRIBUTES;
    ruleset.rules = rules;
    ruleset.rule_count = rule_count;
    assert_true(rn_match_index_build(&ruleset));
}

static void discard(void)
{
    rn_arena_done(&ruleset.arena);
    ruleset = (struct rn_ruleset){0};
}

#endif
