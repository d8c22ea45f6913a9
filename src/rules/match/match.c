/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the rules that apply to a request. The index (index_internal.h) proposes candidates, which
 * are alternatives of rules; every condition of a candidate is checked (condition.h), so the index
 * may propose too many. rn_match_request and rn_match_explain judge by the same functions.
 */
#include "rules/match/match.h"

#include "base/hints.h"
#include "rules/match/condition.h"
#include "rules/match/index_internal.h"

/* --- one rule ------------------------------------------------------------------- */

/* The first attribute of a key part that has a value; an empty one is none. */
static uint16_t present_one(const struct rn_key_part *part, const struct rn_values *values)
{
    if (values->value[part->attributes[0]].len > 0)
        return part->attributes[0];
    for (uint8_t i = 1; i < part->count; i++)
        if (values->value[part->attributes[i]].len > 0)
            return part->attributes[i];
    return RN_NO_ATTRIBUTE;
}

/* Of the rows that fit, the one that names both values, else the first, else the second. */
static RN_ASIDE const struct rn_tier *tier_of_two(const struct rn_match_input *s,
                                                  const struct rn_rule *rule)
{
    struct rn_slice first = s->values->value[rule->tier_attribute];
    struct rn_slice second = s->values->value[rule->tier_second];
    const struct rn_tier *best = NULL;
    unsigned best_named = 0;

    for (uint32_t i = 0; i < rule->tier_count; i++) {
        const struct rn_tier *tier = &rule->tiers[i];
        unsigned named = (tier->first.len != 0 ? 2U : 0) + (tier->second.len != 0 ? 1U : 0);

        if (named > best_named && (tier->first.len == 0 || rn_slice_equal(tier->first, first)) &&
            (tier->second.len == 0 || rn_slice_equal(tier->second, second))) {
            best = tier;
            best_named = named;
        }
    }
    if (best || rule->default_tier >= rule->tier_count) {
        bool on_path = rn_condition_is_on_path(s->ruleset, rule->tier_attribute) ||
                       rn_condition_is_on_path(s->ruleset, rule->tier_second);

        return best || !s->values->paths.unreadable || !on_path ? best : rule->tiers;
    }
    return &rule->tiers[rule->default_tier];
}

static const struct rn_tier *tier_of_one(const struct rn_match_input *s, const struct rn_rule *rule)
{
    const struct rn_values *values = s->values;
    struct rn_slice value = values->value[rule->tier_attribute];

    for (uint32_t i = 0; value.len > 0 && i < rule->tier_count; i++)
        if (rn_slice_equal(rule->tiers[i].value, value))
            return &rule->tiers[i];
    if (rule->default_tier < rule->tier_count)
        return &rule->tiers[rule->default_tier];
    /* An unreadable path may mean any tier, so the first one applies. */
    return values->paths.unreadable && rn_condition_is_on_path(s->ruleset, rule->tier_attribute)
               ? rule->tiers
               : NULL;
}

/* Of a rule with tiers, or with attributes that must be found first. */
static RN_ASIDE const struct rn_tier *find_tier(const struct rn_match_input *s,
                                                const struct rn_rule *rule)
{
    if (rn_likely(rule->tier_choice == RN_TIER_BY_ONE))
        return tier_of_one(s, rule);
    const uint16_t single[] = {rule->tier_attribute, rule->tier_second, rule->cost.attribute,
                               rule->priority.attribute};

    for (size_t i = 0; i < RN_COUNT(single); i++)
        if (single[i] != RN_NO_ATTRIBUTE)
            rn_values_find(s->ruleset, s->values, single[i]);
    for (uint32_t i = 0; i < rule->key_count; i++)
        for (uint8_t n = 0; n < rule->key[i].count; n++)
            rn_values_find(s->ruleset, s->values, rule->key[i].attributes[n]);
    if (rule->tier_attribute == RN_NO_ATTRIBUTE)
        return rule->tiers;
    return rule->tier_second != RN_NO_ATTRIBUTE ? tier_of_two(s, rule) : tier_of_one(s, rule);
}

/* Judges a rule with an alternative that holds. Sets *tier if the rule applies. */
static inline __attribute__((always_inline)) struct rn_reason
judge(const struct rn_match_input *s, const struct rn_rule *rule, const struct rn_tier **tier)
{
    const struct rn_tier *chosen =
        rn_likely(rule->tier_choice == RN_TIER_ONLY) ? rule->tiers : find_tier(s, rule);
    uint32_t i = 0;

    for (uint32_t at = 0; at < rule->key_count; at++)
        if (present_one(&rule->key[at], s->values) == RN_NO_ATTRIBUTE)
            return (struct rn_reason){.why = RN_WHY_NO_KEY, .at = at};
    if (!chosen)
        return (struct rn_reason){.why = RN_WHY_NO_TIER};
    *tier = chosen;
    while (i < chosen->limit_count && chosen->limits[i]->spec.algorithm == RATION_UNLIMITED)
        i++;
    return (struct rn_reason){.why = i == chosen->limit_count ? RN_WHY_UNLIMITED : RN_WHY_APPLIES};
}

/* Judges any rule. */
static RN_ASIDE struct rn_reason
judge_aside(const struct rn_match_input *s, const struct rn_rule *rule, const struct rn_tier **tier)
{
    struct rn_reason reason = {.why = RN_WHY_CONDITION};

    for (uint32_t i = 0; i < rule->alternative_count; i++) {
        const struct rn_alternative *a = &rule->alternatives[i];

        if (rn_condition_first_false(s, a->conditions, a->condition_count) < a->condition_count)
            continue;
        reason = judge(s, rule, tier);
        reason.alternative = i;
        break;
    }
    return reason;
}

/* The cost of a request: digits, at least 1; too large a number counts as UINT64_MAX. */
static inline uint64_t cost_of(const struct rn_cost *cost, const struct rn_values *values)
{
    struct rn_slice text;
    uint64_t value = 0;

    if (cost->attribute == RN_NO_ATTRIBUTE)
        return cost->fixed;
    text = values->value[cost->attribute];
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return cost->fixed;
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(text.data[i] - '0'), &value))
            value = UINT64_MAX; /* overflows again, whatever follows */
    }
    if (value == 0)
        return cost->fixed;
    return cost->max != 0 && value > cost->max ? cost->max : value;
}

/* The last address that was cut: neighbouring rules usually cut the same one. */
struct cut {
    uint16_t attribute;
    uint8_t prefix;
    struct rn_slice text;
};

static inline __attribute__((always_inline)) void fill_key(const struct rn_ruleset *ruleset,
                                                           const struct rn_values *values,
                                                           struct cut *last, struct rn_match *match)
{
    for (uint32_t i = 0; i < match->rule->key_count; i++) {
        const struct rn_key_part *part = &match->rule->key[i];
        uint16_t a = present_one(part, values);
        const struct rn_ip *address = &values->address[a];

        match->key[i] = values->value[a];
        match->key_names[i] =
            part->count > 1 ? ruleset->attributes[a].name : (struct rn_slice){NULL, 0};
        if (!ruleset->attributes[a].is_ip || address->bits == 0)
            continue;
        uint8_t prefix = address->bits == 32 ? part->ipv4_prefix : part->ipv6_prefix;

        if (prefix >= address->bits)
            continue;
        if (last->attribute != a || last->prefix != prefix) {
            struct rn_cidr network = {rn_ip_mask(*address, prefix), prefix};

            *last =
                (struct cut){a, prefix, {match->cut[i], rn_cidr_write(&network, match->cut[i])}};
        }
        match->key[i] = last->text;
    }
}

static inline __attribute__((always_inline)) void
fill(const struct rn_ruleset *ruleset, const struct rn_rule *rule, const struct rn_tier *tier,
     const struct rn_values *values, struct cut *last, struct rn_match *match)
{
    const struct rn_priority *priority = &rule->priority;
    uint32_t level = priority->default_level;

    match->rule = rule;
    match->tier = tier;
    match->cost = cost_of(&rule->cost, values);
    match->keep_percent = 0;
    if (priority->attribute != RN_NO_ATTRIBUTE) {
        for (uint32_t i = 0; i < priority->level_count; i++)
            if (rn_slice_equal(priority->levels[i].name, values->value[priority->attribute]))
                level = i;
        if (level < priority->level_count)
            match->keep_percent = priority->levels[level].keep_percent;
    }
    fill_key(ruleset, values, last, match);
}

struct rn_reason rn_match_explain(const struct rn_ruleset *ruleset, const struct rn_rule *rule,
                                  struct rn_values *values, struct rn_match *match)
{
    struct cut last = {.attribute = RN_NO_ATTRIBUTE};
    const struct rn_match_input scene = {ruleset, values, NULL};
    const struct rn_tier *tier = NULL;
    struct rn_reason reason, first;

    rn_values_read_as(ruleset, values, 0);
    first = reason = judge_aside(&scene, rule, &tier);
    for (uint32_t n = 1; n < values->paths.count && !tier; n++) {
        rn_values_read_as(ruleset, values, n);
        reason = judge_aside(&scene, rule, &tier);
    }
    if (!tier) {
        rn_values_read_as(ruleset, values, 0);
        return first;
    }
    fill(ruleset, rule, tier, values, &last, match);
    return reason;
}

/* --- all rules ------------------------------------------------------------------- */

struct found {
    const struct rn_rule *rule;
    const struct rn_tier *tier;
};

/* The state of a search. */
struct search {
    struct rn_match_input scene;
    struct found found[RN_MATCHES_MAX]; /* ascending */
    uint32_t count;
    bool too_many;
    /* The hashed segments of the attribute `path`. */
    uint16_t path;
    uint32_t segment_count;
    uint64_t segments[RN_INDEX_SEGMENTS];
};

/* Takes the last rule in shadow mode off a full list, so that it makes no request fail. Returns
 * where the place `at` of the list is now. */
static RN_ASIDE uint32_t make_room(struct search *s, uint32_t at)
{
    uint32_t i = s->count;

    while (i > 0 && !s->found[i - 1].rule->shadow)
        i--;
    s->too_many = i == 0;
    if (i == 0)
        return at;
    s->count--;
    memmove(&s->found[i - 1], &s->found[i], (s->count - (i - 1)) * sizeof s->found[0]);
    return at >= i ? at - 1 : at;
}

/* Keeps the list sorted. The index may propose a rule twice, for different alternatives. False:
 * there are too many. */
static inline __attribute__((always_inline)) bool insert(struct search *s, struct found new)
{
    uint32_t at = s->count;

    while (at > 0 && s->found[at - 1].rule > new.rule)
        at--;
    if (at > 0 && s->found[at - 1].rule == new.rule)
        return true;
    if (rn_unlikely(s->count == RN_MATCHES_MAX)) {
        if (new.rule->shadow)
            return true;
        at = make_room(s, at);
        if (s->too_many)
            return false;
    }
    if (at != s->count)
        memmove(&s->found[at + 1], &s->found[at], (s->count - at) * sizeof new);
    s->found[at] = new;
    s->count++;
    return true;
}

static uint32_t ask_late(struct search *s, uint32_t node, const struct rn_index_probe *probe);

/* The node that the request's answer to a question leads to; RN_INDEX_NONE: none. */
RN_INLINE static uint32_t ask(struct search *s, uint32_t node, const struct rn_index_probe *probe)
{
    struct rn_slice value = s->scene.values->value[probe->attribute];
    uint64_t answer = rn_index_seed(probe->attribute, probe->mask);

    if (!value.data)
        return s->scene.ruleset->databases ? ask_late(s, node, probe) : RN_INDEX_NONE;
    if (probe->mask == 0 && value.len > probe->longest)
        return RN_INDEX_NONE;
    if (probe->mask == 0)
        return rn_index_find(s->scene.index, node, rn_index_hash(answer, value));
    if (s->path != probe->attribute) { /* hash its segments */
        s->path = probe->attribute;
        uint32_t n = 0;

        for (size_t at = 0; at < value.len && n < RN_INDEX_SEGMENTS;) {
            size_t begin = at++;

            if (value.data[begin] == '/')
                continue;
            while (at < value.len && value.data[at] != '/')
                at++;
            s->segments[n++] = rn_index_hash(0, (struct rn_slice){value.data + begin, at - begin});
        }
        s->segment_count = n;
    }
    if (probe->mask >> s->segment_count)
        return RN_INDEX_NONE;
    for (uint32_t i = 0, mask = probe->mask; mask; i++, mask >>= 1)
        if (mask & 1)
            answer = rn_index_add_segment(answer, s->segments[i]);
    return rn_index_find(s->scene.index, node, answer);
}

/* Asks about an attribute that was not looked up yet, or is absent. */
static RN_ASIDE uint32_t ask_late(struct search *s, uint32_t node,
                                  const struct rn_index_probe *probe)
{
    return rn_values_find(s->scene.ruleset, s->scene.values, probe->attribute).data
               ? ask(s, node, probe)
               : RN_INDEX_NONE;
}

/* Recurses at most DEPTH_MAX (index_build.c) deep. */
RN_HOT static void visit(struct search *s, uint32_t number)
{
    const struct rn_match_index *index = s->scene.index;
    const struct rn_index_node *node = &index->nodes[number];

    for (uint32_t i = 0; i < node->candidate_count; i++) {
        const struct rn_index_candidate *c =
            &index->candidates[index->found[node->first_candidate + i]];
        struct found new = {c->rule, NULL};

        if (c->condition_count != 0 &&
            rn_condition_first_false(&s->scene, c->conditions, c->condition_count) <
                c->condition_count)
            continue;
        judge(&s->scene, new.rule, &new.tier);
        if (new.tier && !insert(s, new))
            return;
    }
    for (uint32_t i = 0; i < node->probe_count; i++) {
        uint32_t leads = ask(s, number, &index->probes[node->first_probe + i]);

        if (leads == RN_INDEX_NONE)
            continue;
        visit(s, leads);
        if (s->too_many)
            return;
    }
}

/* Deny entries beat allow entries, wherever they stand. An allow entry with a condition on an
 * unreadable path cannot be decided: it does not apply. */
static inline __attribute__((always_inline)) const struct rn_list_entry *
find_entry(const struct rn_match_input *s)
{
    const struct rn_list_entry *allow = NULL;

    for (uint32_t i = 0; i < s->ruleset->list_count; i++) {
        const struct rn_list_entry *e = &s->ruleset->lists[i];
        bool doubtful = false;

        for (uint32_t n = 0; s->values->paths.unreadable && n < e->condition_count; n++)
            doubtful |= rn_condition_is_on_path(s->ruleset, e->conditions[n].attribute);
        if ((!e->deny && (allow || doubtful)) ||
            rn_condition_first_false(s, e->conditions, e->condition_count) < e->condition_count)
            continue;
        if (e->deny)
            return e;
        allow = e;
    }
    return allow;
}

/* --- paths with several readings --------------------------------------------------- */

/* A request is denied if any reading is, and allowed only if all readings are. */
static RN_ASIDE const struct rn_list_entry *find_entry_by_all(const struct rn_match_input *s,
                                                              struct rn_values *values)
{
    const struct rn_list_entry *allow = NULL, *deny = NULL;
    bool all = true;

    for (uint32_t n = 0; n < values->paths.count && !deny; n++) {
        rn_values_read_as(s->ruleset, values, n);
        const struct rn_list_entry *found = find_entry(s);

        all &= found != NULL;
        allow = found;
        deny = found && found->deny ? found : NULL;
    }
    rn_values_read_as(s->ruleset, values, 0);
    return deny || !all ? deny : allow;
}

/* Finds the rules of all readings but the first. An unreadable path may be meant for any rule, so
 * the index cannot be used. */
static RN_ASIDE void visit_others(struct search *s, struct rn_values *values)
{
    const struct rn_ruleset *ruleset = s->scene.ruleset;

    for (uint32_t i = 0; values->paths.unreadable && i < ruleset->rule_count && !s->too_many; i++) {
        struct found new = {&ruleset->rules[i], NULL};

        if (!new.rule->envoy)
            judge_aside(&s->scene, new.rule, &new.tier);
        if (new.tier)
            insert(s, new);
    }
    for (uint32_t n = 1; n < values->paths.count && !s->too_many; n++) {
        rn_values_read_as(ruleset, values, n);
        s->path = RN_NO_ATTRIBUTE;
        visit(s, 0);
    }
}

/* Fills in a match by the first reading that the rule applies to. An address in the path is copied,
 * since the next reading overwrites it. */
static RN_ASIDE void fill_by_reading(const struct rn_match_input *s, const struct rn_rule *rule,
                                     struct rn_values *values, struct rn_match *match)
{
    const char *scratch = values->scratch[0], *end = scratch + sizeof values->scratch;

    rn_match_explain(s->ruleset, rule, values, match);
    for (uint32_t i = 0; i < rule->key_count; i++) {
        struct rn_slice *key = &match->key[i];

        if (key->data < scratch || key->data >= end)
            continue;
        memcpy(match->cut[i], key->data, key->len);
        key->data = match->cut[i];
    }
}

RN_HOT void rn_match_request(const struct rn_ruleset *ruleset, const struct ration_request *request,
                             struct rn_matches *matches)
{
    struct rn_values *values = &matches->values;
    struct cut last = {.attribute = RN_NO_ATTRIBUTE};
    struct search s;

    s.scene = (struct rn_match_input){ruleset, values, ruleset->index};
    matches->count = 0;
    rn_values_resolve(ruleset, request, values);
    bool several = values->paths.count > 1, doubt = several || values->paths.unreadable;

    matches->entry =
        rn_unlikely(several) ? find_entry_by_all(&s.scene, values) : find_entry(&s.scene);
    if (matches->entry) {
        matches->outcome = matches->entry->deny ? RN_MATCH_DENIED : RN_MATCH_ALLOWED;
        return;
    }
    s.count = 0;
    s.too_many = false;
    s.path = RN_NO_ATTRIBUTE;
    visit(&s, 0);
    if (rn_unlikely(doubt))
        visit_others(&s, values);
    matches->outcome = RN_MATCH_LIMITS;
    if (s.too_many) {
        matches->outcome = values->paths.unreadable ? RN_MATCH_DENIED : RN_MATCH_TOO_MANY;
        return;
    }
    for (uint32_t i = 0; i < s.count; i++) {
        struct rn_match *m = &matches->items[i];

        if (rn_unlikely(several))
            fill_by_reading(&s.scene, s.found[i].rule, values, m);
        else
            fill(ruleset, s.found[i].rule, s.found[i].tier, values, &last, m);
        if (m->cost == 0)
            m->cost = request->cost == 0 ? 1 : request->cost;
    }
    if (rn_unlikely(several))
        rn_values_read_as(ruleset, values, 0);
    matches->count = s.count;
}
