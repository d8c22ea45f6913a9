/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects the parts of a ruleset in growing lists, knows the names in use, and turns the lists
 * into arrays at the end. builder_limit.c compiles limits.
 */
#include "rules/builder.h"

#include <stdlib.h>
#include <string.h>

#include "rules/match/match.h"

struct rn_builder_name {
    struct rn_slice name; /* data NULL: free */
    uint32_t number;
};

struct rn_builder_reference {
    uint32_t rule; /* its index */
    const struct rn_rule **place;
};

void *rn_builder_push(struct rn_builder *builder, struct rn_builder_list *list, size_t size)
{
    if (list->count == list->room) {
        uint32_t room = list->room ? 2 * list->room : 16;
        void *items = room > list->room ? reallocarray(list->items, room, size) : NULL;

        if (items == NULL) {
            builder->failed = true;
            return NULL;
        }
        list->items = items;
        list->room = room;
    }

    void *item = (char *)list->items + size * list->count++;
    memset(item, 0, size);
    return item;
}

/* --- names ------------------------------------------------------------------------- */

/* The slot of a name, or the free slot for it; at most half are used. The hash is FNV-1a, which is
 * safe here: the names are the operator's own. */
static struct rn_builder_name *find_slot(struct rn_builder_name *slots, uint32_t room,
                                         struct rn_slice name)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < name.len; i++)
        h = (h ^ (unsigned char)name.data[i]) * UINT64_C(0x100000001b3);
    for (uint64_t i = h ^ h >> 32;; i++) {
        struct rn_builder_name *slot = &slots[i & (room - 1)];

        if (slot->name.data == NULL || rn_slice_equal(slot->name, name))
            return slot;
    }
}

static const struct rn_builder_name *find_name(const struct rn_builder_names *names,
                                               struct rn_slice name)
{
    const struct rn_builder_name *slot =
        names->room == 0 ? NULL : find_slot(names->slots, names->room, name);

    return slot == NULL || slot->name.data == NULL ? NULL : slot;
}

/* `name` lives as long as the table. */
static bool add_name(struct rn_builder *builder, struct rn_builder_names *names,
                     struct rn_slice name, uint32_t number)
{
    if (2 * (names->count + 1) > names->room) {
        uint32_t room = names->room ? 2 * names->room : 64;
        struct rn_builder_name *slots = calloc(room, sizeof *slots);

        if (slots == NULL) {
            builder->failed = true;
            return false;
        }
        for (uint32_t i = 0; i < names->room; i++)
            if (names->slots[i].name.data != NULL)
                *find_slot(slots, room, names->slots[i].name) = names->slots[i];
        free(names->slots);
        names->slots = slots;
        names->room = room;
    }
    *find_slot(names->slots, names->room, name) = (struct rn_builder_name){name, number};
    names->count++;
    return true;
}

/* --- begin and end ----------------------------------------------------------------- */

bool rn_builder_init(struct rn_builder *builder, struct rn_report *report)
{
    *builder = (struct rn_builder){.report = report};
    builder->ruleset = calloc(1, sizeof *builder->ruleset);
    if (builder->ruleset == NULL)
        return false;
    builder->arena = &builder->ruleset->arena;
    rn_arena_init(builder->arena);
    return true;
}

void rn_builder_done(struct rn_builder *builder)
{
    rn_ruleset_free(builder->ruleset);
    free(builder->attributes.items);
    free(builder->rules.items);
    free(builder->limits.items);
    free(builder->lists.items);
    free(builder->settings.items);
    free(builder->tokens.items);
    free(builder->calendars.items);
    free(builder->calendar_ids.items);
    free(builder->references.items);
    free(builder->rule_names.slots);
    free(builder->attribute_names.slots);
    *builder = (struct rn_builder){.report = NULL};
}

void *rn_builder_alloc(struct rn_builder *builder, size_t count, size_t size)
{
    void *memory = rn_arena_calloc(builder->arena, count, size);

    if (memory == NULL)
        builder->failed = true;
    return memory;
}

struct rn_slice rn_builder_dup(struct rn_builder *builder, struct rn_slice text)
{
    struct rn_slice copy = rn_arena_dup(builder->arena, text);

    if (copy.data == NULL)
        builder->failed = true;
    return copy;
}

/* --- parts of a ruleset ------------------------------------------------------------ */

uint16_t rn_builder_attribute(struct rn_builder *builder, struct rn_slice name)
{
    const struct rn_builder_name *known = find_name(&builder->attribute_names, name);
    uint32_t number = builder->attributes.count;

    if (known != NULL)
        return (uint16_t)known->number;
    if (number == RN_ATTRIBUTES_MAX)
        return RN_NO_ATTRIBUTE;

    struct rn_slice copy = rn_builder_dup(builder, name);
    if (copy.data == NULL || !add_name(builder, &builder->attribute_names, copy, number))
        return RN_NO_ATTRIBUTE;
    struct rn_attribute *attribute =
        rn_builder_push(builder, &builder->attributes, sizeof *attribute);
    if (attribute == NULL)
        return RN_NO_ATTRIBUTE;
    attribute->name = copy;
    attribute->source = RN_SOURCE_REQUEST;
    attribute->is_ip = rn_slice_is(name, "ip");
    return (uint16_t)number;
}

uint16_t rn_builder_find_attribute(const struct rn_builder *builder, struct rn_slice name)
{
    const struct rn_builder_name *known = find_name(&builder->attribute_names, name);

    return known == NULL ? RN_NO_ATTRIBUTE : (uint16_t)known->number;
}

struct rn_attribute *rn_builder_attribute_at(struct rn_builder *builder, uint16_t number)
{
    return (struct rn_attribute *)builder->attributes.items + number;
}

/* The conditions of a rule without `when`. */
static const struct rn_alternative always = {.condition_count = 0};

struct rn_rule *rn_builder_rule(struct rn_builder *builder, struct rn_slice name, uint32_t line,
                                uint32_t column)
{
    struct rn_rule *rule = rn_builder_alloc(builder, 1, sizeof *rule);
    struct rn_slice copy = rn_builder_dup(builder, name);

    if (rule == NULL || copy.data == NULL)
        return NULL;
    *rule = (struct rn_rule){
        .name = copy,
        .file = builder->file,
        .line = line,
        .column = column,
        .index = builder->rules.count,
        .alternatives = &always,
        .alternative_count = 1,
        .tier_attribute = RN_NO_ATTRIBUTE,
        .tier_second = RN_NO_ATTRIBUTE,
        .default_tier = UINT32_MAX,
        .cost.attribute = RN_NO_ATTRIBUTE,
        .priority.attribute = RN_NO_ATTRIBUTE,
        .response.status = 429,
    };
    if (find_name(&builder->rule_names, copy) == NULL &&
        !add_name(builder, &builder->rule_names, copy, rule->index))
        return NULL;
    struct rn_rule **slot = rn_builder_push(builder, &builder->rules, sizeof(struct rn_rule *));
    if (slot == NULL)
        return NULL;
    return *slot = rule;
}

const struct rn_rule *rn_builder_find_rule(const struct rn_builder *builder, struct rn_slice name)
{
    const struct rn_builder_name *known = find_name(&builder->rule_names, name);

    return known == NULL ? NULL : ((struct rn_rule **)builder->rules.items)[known->number];
}

bool rn_builder_refer(struct rn_builder *builder, const struct rn_rule *rule,
                      const struct rn_rule **place)
{
    struct rn_builder_reference *reference =
        rn_builder_push(builder, &builder->references, sizeof *reference);

    if (reference == NULL)
        return false;
    *reference = (struct rn_builder_reference){rule->index, place};
    *place = rule;
    return true;
}

bool rn_builder_tier(struct rn_builder *builder, struct rn_rule *rule,
                     struct rn_rule_limit *const *limits, uint32_t count)
{
    struct rn_tier *tier = rn_builder_alloc(builder, 1, sizeof *tier);
    struct rn_rule_limit **copy = rn_builder_alloc(builder, count, sizeof(struct rn_rule_limit *));

    if (tier == NULL || copy == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++)
        copy[i] = limits[i];
    *tier = (struct rn_tier){.value = RN_SLICE(""), .limits = copy, .limit_count = count};
    rule->tiers = tier;
    rule->tier_count = 1;
    rule->default_tier = 0;
    return true;
}

struct rn_list_entry *rn_builder_list_entry(struct rn_builder *builder)
{
    return rn_builder_push(builder, &builder->lists, sizeof(struct rn_list_entry));
}

struct rn_setting *rn_builder_setting(struct rn_builder *builder)
{
    return rn_builder_push(builder, &builder->settings, sizeof(struct rn_setting));
}

/* --- the last step ----------------------------------------------------------------- */

/* An array of the list's items in the arena. */
static void *settle(struct rn_builder *builder, const struct rn_builder_list *list, size_t size)
{
    void *items = rn_builder_alloc(builder, list->count, size);

    if (items != NULL && list->count != 0)
        memcpy(items, list->items, list->count * size);
    return items;
}

/* Whether a rule can apply to Envoy, which tells neither when a request ends nor its status. */
static bool fits_envoy(const struct rn_rule *rule)
{
    const struct rn_rule_limit *limit;

    RN_RULE_EACH_LIMIT(limit, rule)
    if (limit->spec.algorithm == RATION_CONCURRENCY)
        return false;
    return !rule->by_outcome;
}

static enum rn_tier_choice tier_choice(struct rn_builder *builder, const struct rn_rule *rule)
{
    const uint16_t single[] = {rule->tier_attribute, rule->tier_second, rule->cost.attribute,
                               rule->priority.attribute};
    bool found = rule->tier_second != RN_NO_ATTRIBUTE;

    for (size_t i = 0; i < RN_COUNT(single); i++)
        found |= single[i] != RN_NO_ATTRIBUTE &&
                 rn_builder_attribute_at(builder, single[i])->source == RN_SOURCE_GEO;
    for (uint32_t i = 0; i < rule->key_count; i++)
        for (uint8_t n = 0; n < rule->key[i].count; n++)
            found |= rn_builder_attribute_at(builder, rule->key[i].attributes[n])->source ==
                     RN_SOURCE_GEO;
    if (found)
        return RN_TIER_LOOK_UP;
    return rule->tier_attribute == RN_NO_ATTRIBUTE ? RN_TIER_ONLY : RN_TIER_BY_ONE;
}

struct rn_ruleset *rn_builder_finish(struct rn_builder *builder)
{
    struct rn_ruleset *ruleset = builder->ruleset;
    struct rn_rule *rules = rn_builder_alloc(builder, builder->rules.count, sizeof *rules);
    const struct rn_builder_reference *references = builder->references.items;

    if (rules == NULL)
        return NULL;
    for (uint32_t i = 0; i < builder->rules.count; i++) {
        rules[i] = *((struct rn_rule **)builder->rules.items)[i];
        rn_rule_entitle(&rules[i]);
        rules[i].tier_choice = rules[i].envoy ? RN_TIER_ONLY : tier_choice(builder, &rules[i]);
        rules[i].for_envoy = rules[i].envoy || (ruleset->apply_to_envoy && fits_envoy(&rules[i]));
    }
    for (uint32_t i = 0; i < builder->references.count; i++)
        *references[i].place = &rules[references[i].rule];
    ruleset->rules = rules;
    ruleset->rule_count = builder->rules.count;
    ruleset->attributes = settle(builder, &builder->attributes, sizeof(struct rn_attribute));
    ruleset->attribute_count = builder->attributes.count;
    ruleset->limits = settle(builder, &builder->limits, sizeof(struct rn_rule_limit *));
    ruleset->limit_count = builder->limits.count;
    ruleset->lists = settle(builder, &builder->lists, sizeof(struct rn_list_entry));
    ruleset->list_count = builder->lists.count;
    ruleset->settings = settle(builder, &builder->settings, sizeof(struct rn_setting));
    ruleset->setting_count = builder->settings.count;
    ruleset->tokens = settle(builder, &builder->tokens, sizeof(struct rn_token_setting));
    ruleset->token_count = builder->tokens.count;
    ruleset->calendars = settle(builder, &builder->calendars, sizeof(struct rn_calendar *));
    ruleset->calendar_count = builder->calendars.count;
    ruleset->domains = builder->domains;
    ruleset->domain_count = builder->domain_count;
    if (builder->failed || !rn_match_index_build(ruleset))
        return NULL;
    builder->ruleset = NULL;
    return ruleset;
}
