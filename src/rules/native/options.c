/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the keys of a rule but name and limit: by a table those that are more than a word. Also
 * words, durations and maps for the whole format.
 */
#include "base/number.h"
#include "rules/native/native_internal.h"

static const char *const modes[] = {"enforce", "shadow"};
static const char *const when_full[] = {"evict", "evict_last", "refuse"};
static const char *const failures[] = {"local", "allow", "refuse"};       /* rn_store_failure */
static const char *const consistencies[] = {"strict", "leased", "async"}; /* rn_consistency */
static const char *const families[] = {"both", "x", "ietf", "none"};      /* rn_header_family */

static const char *const retry_headers[] = {"X-RateLimit-Retry-After", "X-RateLimit-RetryAfter"};

#define COST_MAX RATION_AMOUNT_MAX

/* --- words, durations, maps --------------------------------------------------------- */

int rn_native_word(struct rn_builder *builder, const struct rn_node *node, const char *what,
                   const char *const *words, size_t count)
{
    struct rn_slice text;

    if (!rn_node_as_text(node, builder->report, &text))
        return -1;
    size_t i = rn_slice_find(text, words, count);

    if (i < count)
        return (int)i;
    rn_report_unknown_word(builder->report, node, what, words, count);
    return -1;
}

bool rn_native_duration(struct rn_builder *builder, const struct rn_node *node, int64_t *ns)
{
    int64_t value;

    if (!rn_node_as_duration(node, builder->report, &value))
        return false;
    if (value != 0)
        *ns = value;
    else
        rn_report_error(builder->report, node->at,
                        "a duration of 0; write a longer one or leave out %s",
                        rn_excerpt(node->key->text).text);
    return value != 0;
}

bool rn_native_percent(struct rn_builder *builder, const struct rn_node *node, uint64_t least,
                       uint64_t most, const char *why, uint16_t *percent)
{
    bool plain = node->kind == RN_NODE_SCALAR && !rn_node_is_null(node);
    uint64_t number = 0;
    size_t pos = 0;

    plain = plain && rn_number_parse(node->text.data, node->text.len, &pos, &number, NULL) == 0 &&
            pos + 1 == node->text.len && node->text.data[pos] == '%';
    if (plain && number >= least && number <= most)
        *percent = (uint16_t)number;
    else
        rn_report_error(builder->report, node->at, "%s: found %s; %s",
                        rn_excerpt(node->key->text).text, rn_node_describe(node).text, why);
    return plain && number >= least && number <= most;
}

bool rn_native_expect_map(struct rn_builder *builder, const struct rn_node *node,
                          const char *example)
{
    if (node->kind == RN_NODE_MAP)
        return true;
    rn_report_error(builder->report, node->at, "%s must be a map, found %s; write for example %s",
                    rn_excerpt(node->key->text).text, rn_node_describe(node).text, example);
    return false;
}

bool rn_native_map(struct rn_builder *builder, const struct rn_node *node, const char *const *keys,
                   size_t count)
{
    if (!rn_node_expect(node, RN_NODE_MAP, builder->report))
        return false;
    RN_NODE_EACH(value, node)
        if (rn_slice_find(value->key->text, keys, count) == count)
            rn_report_unknown_key(builder->report, value, keys, count);
    return true;
}

const struct rn_node *rn_native_require(struct rn_builder *builder, const struct rn_node *map,
                                        const char *key, const char *example)
{
    const struct rn_node *node = rn_node_find(map, key);

    if (node == NULL)
        rn_report_error(builder->report, map->at, "%s is missing; add for example %s: %s", key, key,
                        example);
    return node;
}

/* The index of the word that a key of the map is set to, or `otherwise`. */
static int word_of(struct rn_builder *builder, const struct rn_node *map, const char *key,
                   const char *const *words, size_t count, int otherwise)
{
    const struct rn_node *node = rn_node_find(map, key);
    int word = node == NULL ? -1 : rn_native_word(builder, node, key, words, count);

    return word < 0 ? otherwise : word;
}

bool rn_native_shadow(struct rn_builder *builder, const struct rn_node *node)
{
    return rn_native_word(builder, node, "mode", modes, RN_COUNT(modes)) == 1;
}

/* --- response ---------------------------------------------------------------------- */

void rn_native_response(struct rn_builder *builder, const struct rn_node *node,
                        struct rn_response *response)
{
    static const char *const keys[] = {"status", "headers", "retry_header", "message"};
    const struct rn_node *status, *message;
    uint64_t number;

    if (!rn_native_expect_map(builder, node, "{status: 503}") ||
        !rn_native_map(builder, node, keys, RN_COUNT(keys)))
        return;
    if (node->count == 0)
        rn_report_error(builder->report, node->at,
                        "an empty response; write for example {status: 503}");
    status = rn_node_find(node, "status");
    if (status != NULL && rn_node_as_uint(status, builder->report, &number)) {
        if (number >= 400 && number <= 599) {
            response->status = (uint16_t)number;
            response->status_given = true;
        } else
            rn_report_error(builder->report, status->at,
                            "status %llu is not a refusal; write one from 400 to 599, "
                            "mostly 429",
                            (unsigned long long)number);
    }
    response->headers = (enum rn_header_family)word_of(builder, node, "headers", families,
                                                       RN_COUNT(families), (int)response->headers);
    response->retryafter = word_of(builder, node, "retry_header", retry_headers,
                                   RN_COUNT(retry_headers), response->retryafter) == 1;
    message = rn_node_find(node, "message");
    if (message != NULL && rn_node_as_text(message, builder->report, &response->message))
        response->message = rn_builder_dup(builder, response->message);
}

/* --- cost -------------------------------------------------------------------------- */

static bool read_units(struct rn_builder *builder, const struct rn_node *node, uint64_t *units)
{
    uint64_t value;

    if (!rn_node_as_uint(node, builder->report, &value))
        return false;
    if (value >= 1 && value <= COST_MAX) {
        *units = value;
        return true;
    }
    if (value == 0)
        rn_report_error(builder->report, node->at, "a cost of 0 charges nothing; write 1 or more");
    else
        rn_report_error(builder->report, node->at,
                        "a cost above 1,000,000,000,000,000; write a smaller one");
    return false;
}

/* A number. A name, which people write instead, gets an error of its own. */
static void read_fixed_cost(struct rn_builder *builder, const struct rn_node *node,
                            struct rn_cost *cost)
{
    struct rn_slice name = node->text, header = RN_SLICE("header.");
    bool is_header = rn_slice_starts_with(name, header);

    if (node->kind != RN_NODE_SCALAR || name.len == 0 || (name.data[0] | 0x20) < 'a' ||
        (name.data[0] | 0x20) > 'z') {
        read_units(builder, node, &cost->fixed);
        return;
    }
    if (is_header)
        name = (struct rn_slice){name.data + header.len, name.len - header.len};
    rn_report_error(builder->report, node->at,
                    "cost is a number, found %s; to read it from %s write {%s: %s}",
                    rn_excerpt(node->text).text, is_header ? "a header" : "an attribute",
                    is_header ? "header" : "attribute", rn_excerpt(name).text);
}

/* A number, or where a request has it: {header: x-cost} or {attribute: tokens}. */
static void read_cost(struct rn_builder *builder, const struct rn_node *node, struct rn_rule *rule)
{
    struct rn_cost *cost = &rule->cost;
    static const char *const keys[] = {"header", "attribute", "default", "max"};
    const struct rn_node *header = rn_node_find(node, "header"), *max = rn_node_find(node, "max");
    const struct rn_node *attribute = rn_node_find(node, "attribute");
    const struct rn_node *otherwise = rn_node_find(node, "default");
    uint32_t errors = builder->report->count[RN_ERROR];

    if (node->kind != RN_NODE_MAP) {
        read_fixed_cost(builder, node, cost);
        return;
    }
    if (!rn_native_map(builder, node, keys, RN_COUNT(keys)) ||
        builder->report->count[RN_ERROR] != errors)
        return;
    cost->fixed = 1;
    if (otherwise != NULL)
        read_units(builder, otherwise, &cost->fixed);
    if (max != NULL && read_units(builder, max, &cost->max) && cost->fixed > cost->max)
        rn_report_error(builder->report, max->at,
                        "a maximum below the default of %llu; write at least that",
                        (unsigned long long)cost->fixed);
    if ((header == NULL) == (attribute == NULL))
        rn_report_error(builder->report, node->at,
                        "a cost that is read %s; write {header: x-cost} or {attribute: tokens}",
                        header == NULL ? "nowhere" : "in two places");
    else if (attribute != NULL)
        cost->attribute = rn_native_attribute_used(builder, attribute);
    else
        cost->attribute = rn_native_header_attribute(builder, header);
}

/* --- priority ---------------------------------------------------------------------- */

static void read_levels(struct rn_builder *builder, const struct rn_node *map,
                        struct rn_priority *priority)
{
    struct rn_level *levels;
    uint32_t count = 0;

    if (!rn_node_expect(map, RN_NODE_MAP, builder->report))
        return;
    if (map->count == 0)
        rn_report_error(builder->report, map->at,
                        "no levels; write for example {critical: 0%%, normal: 20%%}");
    levels = rn_builder_alloc(builder, map->count, sizeof *levels);
    if (levels == NULL)
        return;
    RN_NODE_EACH(node, map) {
        struct rn_level *level = &levels[count++];

        level->name = rn_builder_dup(builder, node->key->text);
        if (level->name.len == 0)
            rn_report_error(builder->report, node->key->at,
                            "a level without a name; write for example normal: 20%%");
        if (rn_node_as_percent(node, builder->report, &level->keep_percent) &&
            level->keep_percent == 100)
            rn_report_error(builder->report, node->at,
                            "a level that leaves 100%% is never admitted; write less");
    }
    priority->levels = levels;
    priority->level_count = count;
}

static void read_priority(struct rn_builder *builder, const struct rn_node *map,
                          struct rn_rule *rule)
{
    struct rn_priority *priority = &rule->priority;
    static const char *const keys[] = {"by", "levels", "default"};
    const struct rn_node *by, *levels, *otherwise;
    int number;

    if (!rn_native_expect_map(builder, map,
                              "{by: importance, levels: {critical: 0%, normal: 20%}, default: "
                              "normal}") ||
        !rn_native_map(builder, map, keys, RN_COUNT(keys)))
        return;
    by = rn_native_require(builder, map, "by", "importance");
    levels = rn_native_require(builder, map, "levels", "{critical: 0%, normal: 20%}");
    otherwise = rn_native_require(builder, map, "default", "normal");
    if (by != NULL)
        priority->attribute = rn_native_attribute_used(builder, by);
    if (levels != NULL)
        read_levels(builder, levels, priority);
    const char **names = rn_builder_alloc(builder, priority->level_count, sizeof *names);

    if (otherwise == NULL || names == NULL || priority->level_count == 0)
        return;
    for (uint32_t i = 0; i < priority->level_count; i++)
        names[i] = priority->levels[i].name.data;
    number = rn_native_word(builder, otherwise, "level", names, priority->level_count);
    priority->default_level = number < 0 ? 0 : (uint32_t)number;
}

/* --- all options ------------------------------------------------------------------- */

static void read_soft(struct rn_builder *builder, const struct rn_node *node, struct rn_rule *rule)
{
    if (rn_node_as_percent(node, builder->report, &rule->soft_percent) && rule->soft_percent == 0)
        rn_report_error(builder->report, node->at,
                        "a soft part of 0%% admits nothing more; leave it out");
}

static void read_response(struct rn_builder *builder, const struct rn_node *node,
                          struct rn_rule *rule)
{
    rn_native_response(builder, node, &rule->response);
}

static void read_publish(struct rn_builder *builder, const struct rn_node *node,
                         struct rn_rule *rule)
{
    bool publish = true;

    rn_node_as_bool(node, builder->report, &publish);
    rule->unpublished = !publish;
}

static const struct {
    const char *key;
    void (*read)(struct rn_builder *builder, const struct rn_node *node, struct rn_rule *rule);
} options[] = {{"when", rn_native_when},
               {"key", rn_native_key},
               {"soft", read_soft},
               {"throttle", rn_native_throttle},
               {"cost", read_cost},
               {"charge_on", rn_native_charge_on},
               {"priority", read_priority},
               {"response", read_response},
               {"publish", read_publish},
               {"adapt", rn_native_adapt},
               {"elastic", rn_native_elastic},
               {"escalate", rn_native_escalate},
               {"earn", rn_native_earn},
               {"usage", rn_native_usage}};

void rn_native_options(struct rn_builder *builder, const struct rn_node *map, struct rn_rule *rule)
{
    const struct rn_node *node;

    rule->response = builder->native->response;
    rule->shadow = word_of(builder, map, "mode", modes, RN_COUNT(modes), 0) == 1;
    rule->on_full = (enum rn_on_full)word_of(builder, map, "on_full", when_full,
                                             RN_COUNT(when_full), RN_FULL_EVICT);
    rule->on_store_failure = (enum rn_store_failure)word_of(
        builder, map, "on_store_failure", failures, RN_COUNT(failures), RN_FAIL_LOCAL);
    rule->consistency = (enum rn_consistency)word_of(builder, map, "consistency", consistencies,
                                                     RN_COUNT(consistencies), RN_STRICT);
    for (size_t i = 0; i < RN_COUNT(options); i++)
        if ((node = rn_node_find(map, options[i].key)) != NULL)
            options[i].read(builder, node, rule);
    if ((node = rn_node_find(map, "spread")) != NULL)
        rn_native_duration(builder, node, &rule->spread_ns);
    rn_native_waiting(builder, map, rule);
}
