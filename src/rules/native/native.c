/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a file in the native format: its sections, and the name of each rule; other files read
 * the other parts of a rule (see native_internal.h).
 */
#include "rules/native/native_internal.h"

/* A team's files may have the first three. */
#define TEAM_SECTIONS 3
static const char *const sections[] = {"limits", "attributes",     "tiers",    "allow",
                                       "deny",   "paths",          "response", "server",
                                       "mode",   "apply_to_envoy", "signals"};

static const char *const rule_keys[] = {"name",
                                        "when",
                                        "key",
                                        "limit",
                                        "algorithm",
                                        "sub_windows",
                                        "align",
                                        "lease",
                                        "mode",
                                        "soft",
                                        "throttle",
                                        "cost",
                                        "priority",
                                        "spread",
                                        "wait",
                                        "max_wait",
                                        "queue",
                                        "on_full",
                                        "on_store_failure",
                                        "consistency",
                                        "charge_on",
                                        "response",
                                        "adapt",
                                        "elastic",
                                        "escalate",
                                        "earn",
                                        "usage",
                                        "publish"};

/* --- names ------------------------------------------------------------------------- */

#define NAME_MAX_LEN 63

/* The name of a rule; "" after reporting an error in it. */
static struct rn_slice read_name(struct rn_builder *builder, const struct rn_node *node)
{
    const struct rn_rule *other;
    struct rn_slice name;

    if (!rn_node_as_text(node, builder->report, &name))
        return RN_SLICE("");
    bool good = name.len != 0 && name.len <= NAME_MAX_LEN;

    for (size_t i = 0; good && i < name.len; i++) {
        char c = name.data[i], lower = (char)(c | 0x20);

        good = (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') ||
               (i != 0 && (c == '.' || c == '_' || c == '-'));
    }
    if (!good) {
        rn_report_error(builder->report, node->at,
                        "%s is not a name; use 1 to 63 letters, digits, dots, hyphens and "
                        "underscores, beginning with a letter or a digit",
                        name.len == 0 ? "an empty text" : rn_excerpt(name).text);
        return RN_SLICE("");
    }
    name = rn_native_full_name(builder, name);
    other = rn_builder_find_rule(builder, name);
    if (name.len > NAME_MAX_LEN)
        rn_report_error(builder->report, node->at,
                        "with its team this limit is named %s, which is longer than %d "
                        "characters; shorten it",
                        rn_excerpt(name).text, NAME_MAX_LEN);
    else if (other != NULL)
        rn_report_error(builder->report, node->at,
                        "there is a limit named %s already, at %.*s:%u; every limit needs a name "
                        "of its own",
                        rn_excerpt(name).text, (int)other->file.len, other->file.data, other->line);
    return name.len > NAME_MAX_LEN || other != NULL ? RN_SLICE("") : name;
}

/* --- when -------------------------------------------------------------------------- */

void rn_native_when(struct rn_builder *builder, const struct rn_node *node, struct rn_rule *rule)
{
    bool is_list = node->kind == RN_NODE_LIST;
    uint32_t count = is_list ? node->count : 1, read = 0;
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
    if (is_list && count == 1)
        rn_report_warning(builder->report, node->at,
                          "a list of one alternative; add others, or write it without the list");
    for (const struct rn_node *item = is_list ? node->first : node; item != NULL;
         item = is_list ? item->next : NULL) {
        struct rn_alternative *a = &alternatives[read];

        if (is_list && item->kind == RN_NODE_MAP && item->count == 0) {
            rn_report_error(builder->report, item->at,
                            "an alternative without conditions always holds, so the others do "
                            "nothing; remove it, or leave out when");
            continue;
        }
        read++;
        a->line = item->at.line;
        a->column = item->at.column;
        rn_native_conditions(builder, item, &a->conditions, &a->condition_count);
    }
}

/* --- rules ------------------------------------------------------------------------- */

/* Reports unknown keys, or missing ones: an unknown key may be a misspelt required one. False: not
 * a map. */
static bool check_keys(struct rn_builder *builder, const struct rn_node *map,
                       const struct rn_node *name, const struct rn_node *limit)
{
    struct rn_report *report = builder->report;
    uint32_t errors = report->count[RN_ERROR];

    if (map->kind != RN_NODE_MAP) {
        rn_report_error(report, map->at,
                        "a limit must be a map, found %s; write for example {name: api, limit: 100 "
                        "per minute}",
                        rn_node_describe(map).text);
        return false;
    }
    RN_NODE_EACH(value, map) {
        size_t i = rn_slice_find(value->key->text, rule_keys, RN_COUNT(rule_keys));

        if (i == RN_COUNT(rule_keys) && !rn_mistakes_key(builder, map, value))
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

static void read_rule(struct rn_builder *builder, const struct rn_node *map)
{
    uint32_t errors = builder->report->count[RN_ERROR];
    const struct rn_node *name = rn_node_find(map, "name"), *limit = rn_node_find(map, "limit");

    if (!check_keys(builder, map, name, limit))
        return;

    struct rn_rule *rule =
        rn_builder_rule(builder, name == NULL ? RN_SLICE("") : read_name(builder, name),
                        map->at.line, map->at.column);
    if (rule == NULL)
        return;
    rn_native_options(builder, map, rule);
    if (limit != NULL)
        rn_native_limits(builder, map, limit, rule);
    if (builder->report->count[RN_ERROR] != errors || builder->failed)
        return;
    rn_native_waiting_finish(builder, map, rule);
    rn_native_throttle_check(builder, map, rule);
    rn_native_factors_check(builder, map, rule);
    rn_native_reputation_check(builder, map, rule);
    rn_native_usage_finish(builder, map, rule);
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
    return rn_slice_find(section, sections + TEAM_SECTIONS, RN_COUNT(sections) - TEAM_SECTIONS) <
           RN_COUNT(sections) - TEAM_SECTIONS;
}

bool rn_native_declare(struct rn_builder *builder, const struct rn_document *document)
{
    uint32_t errors = builder->report->count[RN_ERROR];
    size_t count = builder->team.len != 0 ? TEAM_SECTIONS : RN_COUNT(sections);

    if (builder->native == NULL)
        builder->native = rn_builder_alloc(builder, 1, sizeof *builder->native);
    if (builder->native == NULL)
        return false;
    if (builder->native->response.status == 0)
        builder->native->response.status = 429;
    if (rn_native_map(builder, document->root, sections, count)) {
        /* Read a misspelt section as the one that was probably meant, to report its errors. */
        RN_NODE_EACH(section, document->root) {
            const char *meant = rn_suggest(section->key->text, sections, count);

            if (meant != NULL && rn_node_find(document->root, meant) == NULL)
                section->key->text = rn_slice_of(meant);
        }
    }
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
        bool is_limits = rn_slice_is(name, "limits"), deny = rn_slice_is(name, "deny");

        if (is_limits && section->kind == RN_NODE_MAP)
            rn_report_error(builder->report, section->at,
                            "limits are a list, found a map; begin each with \"- name: ...\"");
        else if (is_limits && rn_node_expect(section, RN_NODE_LIST, builder->report))
            RN_NODE_EACH(rule, section)
                read_rule(builder, rule);
        else if ((deny || rn_slice_is(name, "allow")) &&
                 rn_node_expect(section, RN_NODE_LIST, builder->report))
            RN_NODE_EACH(entry, section)
                read_entry(builder, entry, deny);
        else if (rn_slice_is(name, "server"))
            rn_native_server(builder, section);
    }
    return builder->report->count[RN_ERROR] == errors && !builder->failed;
}
