/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file in the native format: its sections, and of each rule the name and the
 * order in which its parts are read. native_internal.h lists the readers.
 */
#include "rules/native/native_internal.h"

/* A team's files may hold the first three. */
#define TEAM_SECTIONS 3
static const char *const sections[] = {"limits", "attributes", "tiers",  "allow", "deny",
                                       "paths",  "response",   "server", "mode",  "apply_to_envoy"};

static const char *const rule_keys[] = {
    "name",        "when",      "key",     "limit",    "algorithm", "sub_windows",
    "align",       "lease",     "mode",    "soft",     "throttle",  "cost",
    "priority",    "spread",    "wait",    "max_wait", "on_full",   "on_store_failure",
    "consistency", "charge_on", "response"};

/* --- names ------------------------------------------------------------------------- */

#define NAME_MAX_LEN 63

static bool is_name(struct rn_slice text)
{
    if (text.len == 0 || text.len > NAME_MAX_LEN)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i], lower = (char)(c | 0x20);
        bool is_plain = (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9');

        if (!is_plain && (i == 0 || (c != '.' && c != '_' && c != '-')))
            return false;
    }
    return true;
}

/* The name of a rule, "" after reporting what is wrong with it. */
static struct rn_slice read_name(struct rn_builder *builder, const struct rn_node *node)
{
    const struct rn_rule *other;
    struct rn_slice name;

    if (!rn_node_as_text(node, builder->report, &name))
        return RN_SLICE("");
    if (!is_name(name)) {
        rn_report_error(builder->report, node->at,
                        "%s is no name; use 1 to 63 letters, digits, dots, hyphens and "
                        "underscores, beginning with a letter or a digit",
                        name.len == 0 ? "an empty text" : rn_excerpt(name).text);
        return RN_SLICE("");
    }
    name = rn_native_full_name(builder, name);
    if (name.len > NAME_MAX_LEN) {
        rn_report_error(builder->report, node->at,
                        "with its team this limit is named %s, which is longer than %d "
                        "characters; shorten it",
                        rn_excerpt(name).text, NAME_MAX_LEN);
        return RN_SLICE("");
    }
    other = rn_builder_find_rule(builder, name);
    if (other == NULL)
        return name;
    rn_report_error(builder->report, node->at,
                    "there is a limit named %s already, at %.*s:%u; every limit needs a name of "
                    "its own",
                    rn_excerpt(name).text, (int)other->file.len, other->file.data, other->line);
    return RN_SLICE("");
}

/* --- when -------------------------------------------------------------------------- */

static void read_alternative(struct rn_builder *builder, const struct rn_node *node,
                             struct rn_alternative *alternative)
{
    alternative->line = node->at.line;
    alternative->column = node->at.column;
    rn_native_conditions(builder, node, &alternative->conditions, &alternative->condition_count);
}

static void read_when(struct rn_builder *builder, const struct rn_node *node, struct rn_rule *rule)
{
    uint32_t count = node->kind == RN_NODE_LIST ? node->count : 1, read = 0;
    struct rn_alternative *alternatives = rn_builder_alloc(builder, count, sizeof *alternatives);

    if (alternatives == NULL)
        return;
    if (count == 0) {
        rn_report_error(builder->report, node->at,
                        "an empty list of alternatives, of which none holds; write some, or leave "
                        "out when if the limit always applies");
        return;
    }
    rule->alternatives = alternatives;
    rule->alternative_count = count;
    if (node->kind != RN_NODE_LIST) {
        read_alternative(builder, node, alternatives);
        return;
    }
    if (count == 1)
        rn_report_warning(builder->report, node->at,
                          "a list of one alternative; add others, or write it without the list");
    RN_NODE_EACH(item, node) {
        if (item->kind == RN_NODE_MAP && item->count == 0)
            rn_report_error(builder->report, item->at,
                            "an alternative without conditions always holds, so the others do "
                            "nothing; remove it, or leave out when");
        else
            read_alternative(builder, item, &alternatives[read++]);
    }
}

/* --- rules ------------------------------------------------------------------------- */

/* Unknown keys, and required ones that are missing, unless one of the unknown
 * may be them. False: no map. */
static bool check_keys(struct rn_builder *builder, const struct rn_node *map,
                       const struct rn_node *name, const struct rn_node *limit)
{
    struct rn_report *report = builder->report;
    uint32_t errors = report->count[RN_ERROR];

    if (map->kind != RN_NODE_MAP) {
        rn_report_error(report, map->at,
                        "a limit is a map, found %s; write for example {name: api, limit: 100 "
                        "per minute}",
                        rn_node_describe(map).text);
        return false;
    }
    RN_NODE_EACH(value, map) {
        bool known = false;

        for (size_t i = 0; i < RN_COUNT(rule_keys) && !known; i++)
            known = rn_slice_is(value->key->text, rule_keys[i]);
        if (!known && !rn_mistakes_key(builder, map, value))
            rn_report_unknown_key(report, value, rule_keys, RN_COUNT(rule_keys));
    }
    if (report->count[RN_ERROR] != errors)
        return true;
    if (name == NULL)
        rn_report_error(report, map->at,
                        "a limit without a name; add one, for example name: login");
    if (limit == NULL)
        rn_report_error(report, map->at,
                        "a limit that does not say how much; add for example limit: 100 per "
                        "minute");
    return true;
}

/* Whether a request under this rule may have to wait. */
static bool can_wait(const struct rn_rule *rule)
{
    if (rule->throttle.on)
        return true;
    for (uint32_t i = 0; i < rule->tier_count; i++)
        for (uint32_t j = 0; j < rule->tiers[i].limit_count; j++)
            if (rule->tiers[i].limits[j]->spec.algorithm == RATION_LEAKY_BUCKET)
                return true;
    return false;
}

static void read_rule(struct rn_builder *builder, const struct rn_node *map)
{
    uint32_t errors = builder->report->count[RN_ERROR];
    const struct rn_node *name = rn_node_find(map, "name"), *limit = rn_node_find(map, "limit");
    const struct rn_node *when, *key, *wait;

    if (!check_keys(builder, map, name, limit))
        return;

    struct rn_rule *rule =
        rn_builder_rule(builder, name == NULL ? RN_SLICE("") : read_name(builder, name),
                        map->at.line, map->at.column);
    if (rule == NULL)
        return;
    when = rn_node_find(map, "when");
    if (when != NULL)
        read_when(builder, when, rule);
    key = rn_node_find(map, "key");
    if (key != NULL)
        rn_native_key(builder, key, rule);
    rn_native_options(builder, map, rule);
    if (limit != NULL)
        rn_native_limits(builder, map, limit, rule);
    if (builder->report->count[RN_ERROR] != errors || builder->failed)
        return;
    wait = rn_node_find(map, rule->hold ? "wait" : "max_wait");
    if (wait != NULL && !can_wait(rule) && (rule->hold || rule->max_wait_ns != 0))
        rn_report_error(builder->report, wait->at,
                        "%s has no effect: nothing waits under this limit; write for example "
                        "limit: 10 per second queue 50, or add throttle",
                        rule->hold ? "wait: hold" : "max_wait");
    rn_native_throttle_check(builder, map, rule);
}

static void read_rules(struct rn_builder *builder, const struct rn_node *list)
{
    if (list->kind == RN_NODE_MAP) {
        rn_report_error(builder->report, list->at,
                        "limits are a list, found a map; begin each with \"- name: ...\"");
        return;
    }
    if (!rn_node_expect(list, RN_NODE_LIST, builder->report))
        return;
    RN_NODE_EACH(rule, list)
        read_rule(builder, rule);
}

/* --- allow and deny ---------------------------------------------------------------- */

static void read_entry(struct rn_builder *builder, const struct rn_node *map, bool deny)
{
    struct rn_list_entry entry = {
        .deny = deny, .file = builder->file, .line = map->at.line, .column = map->at.column};

    if (map->kind == RN_NODE_MAP && map->count == 0) {
        rn_report_error(builder->report, map->at,
                        "an entry without conditions would %s every request; write for example "
                        "{ip: 192.0.2.0/24}",
                        deny ? "deny" : "allow");
        return;
    }
    rn_native_conditions(builder, map, &entry.conditions, &entry.condition_count);

    struct rn_list_entry *place = rn_builder_list_entry(builder);
    if (place != NULL)
        *place = entry;
}

/* --- the file ---------------------------------------------------------------------- */

bool rn_native_is_for_root(struct rn_slice section)
{
    for (size_t i = TEAM_SECTIONS; i < RN_COUNT(sections); i++)
        if (rn_slice_is(section, sections[i]))
            return true;
    return false;
}

/* Reports unknown sections. A misspelt one is read as the one that was probably meant, so that the
 * errors in it are reported as well. */
static void check_sections(struct rn_builder *builder, const struct rn_node *root)
{
    size_t count = builder->team.len != 0 ? TEAM_SECTIONS : RN_COUNT(sections);

    if (!rn_native_map(builder, root, sections, count))
        return;
    RN_NODE_EACH(section, root) {
        const char *meant = rn_suggest(section->key->text, sections, count);

        if (meant != NULL && rn_node_find(root, meant) == NULL)
            section->key->text = rn_slice_of(meant);
    }
}

bool rn_native_declare(struct rn_builder *builder, const struct rn_document *document)
{
    uint32_t errors = builder->report->count[RN_ERROR];

    if (builder->native == NULL)
        builder->native = rn_builder_alloc(builder, 1, sizeof *builder->native);
    if (builder->native == NULL)
        return false;
    if (builder->native->response.status == 0)
        builder->native->response.status = 429;
    check_sections(builder, document->root);
    rn_sections_declare(builder, document->root);
    return builder->report->count[RN_ERROR] == errors && !builder->failed;
}

bool rn_native_parse(struct rn_builder *builder, const struct rn_document *document)
{
    uint32_t errors = builder->report->count[RN_ERROR];

    if (builder->native == NULL)
        return false;
    RN_NODE_EACH(section, document->root) {
        struct rn_slice name = section->key->text;

        if (rn_slice_is(name, "limits"))
            read_rules(builder, section);
        else if ((rn_slice_is(name, "allow") || rn_slice_is(name, "deny")) &&
                 rn_node_expect(section, RN_NODE_LIST, builder->report))
            RN_NODE_EACH(entry, section)
                read_entry(builder, entry, rn_slice_is(name, "deny"));
        else if (rn_slice_is(name, "server"))
            rn_native_server(builder, section);
    }
    return builder->report->count[RN_ERROR] == errors && !builder->failed;
}
