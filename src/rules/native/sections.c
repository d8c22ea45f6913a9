/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sections beside limits: attributes (where they come from), tiers (named
 * sets), response and mode (for all rules), server (for rationd). They hold for
 * all files, so each thing may be said once only.
 */
#include <stdlib.h>

#include "rules/match/pattern.h"
#include "rules/native/native_internal.h"

/* Reports that something was given before; false if it was not. */
static bool is_again(struct rn_builder *builder, const struct rn_node *node,
                     const struct rn_place *before)
{
    struct rn_report *report = builder->report;

    if (before->line == 0)
        return false;
    struct rn_slice file =
        before->file < report->file_count ? report->files[before->file].name : RN_SLICE("?");
    rn_report_error(report, node->key->at, "%s is given already, at %.*s:%u; keep one of them",
                    rn_excerpt(node->key->text).text, (int)file.len, file.data, before->line);
    return true;
}

/* --- attributes -------------------------------------------------------------------- */

static void derive_from_header(struct rn_builder *builder, const struct rn_node *node,
                               uint16_t number)
{
    struct rn_slice name = rn_native_header(builder, node, "");
    struct rn_attribute *attribute = rn_builder_attribute_at(builder, number);

    if (name.data == NULL)
        return;
    attribute->source = RN_SOURCE_HEADER;
    attribute->header = name;
    if (attribute->is_ip)
        rn_report_warning(builder->report, node->at,
                          "anybody can send a header with any address in it; write "
                          "{trusted_proxies: [...], forwarded: x-forwarded-for} to believe your "
                          "proxies only");
}

/* Which segment of the pattern is {name}: -1 if none, -2 if its place varies. */
static int find_segment(struct rn_slice pattern, struct rn_slice name)
{
    struct rn_slice segment;
    bool varies = false;

    for (unsigned i = 0; (segment = rn_pattern_segment(pattern, i)).data != NULL; i++) {
        varies |= rn_slice_is(segment, "**") || i > UINT16_MAX;
        if (segment.len == name.len + 2 && segment.data[0] == '{' &&
            memcmp(segment.data + 1, name.data, name.len) == 0)
            return varies ? -2 : (int)i;
    }
    return -1;
}

/* The pattern with {name} written as {full}: a team's is printed as a file of the root. */
static struct rn_slice with_full_name(struct rn_builder *builder, struct rn_slice pattern,
                                      struct rn_slice name, struct rn_slice full)
{
    size_t more = full.len - name.len, at = 0;
    char *text = rn_builder_alloc(builder, pattern.len + more + 1, 1);

    if (text == NULL)
        return (struct rn_slice){NULL, 0};
    while (pattern.data[at] != '{' || pattern.data[at + name.len + 1] != '}' ||
           memcmp(pattern.data + at + 1, name.data, name.len) != 0)
        at++;
    memcpy(text, pattern.data, at + 1);
    memcpy(text + at + 1, full.data, full.len);
    memcpy(text + at + 1 + full.len, pattern.data + at + 1 + name.len,
           pattern.len - at - 1 - name.len);
    return (struct rn_slice){text, pattern.len + more};
}

static void derive_from_path(struct rn_builder *builder, const struct rn_node *node,
                             uint16_t number)
{
    struct rn_attribute *attribute = rn_builder_attribute_at(builder, number);
    struct rn_slice text, name = attribute->name;
    const char *fault;
    int segment;

    if (!rn_node_as_text(node, builder->report, &text))
        return;
    if (builder->team.len != 0)
        name =
            (struct rn_slice){name.data + builder->team.len + 1, name.len - builder->team.len - 1};
    fault = rn_pattern_fault(text);
    segment = fault == NULL ? find_segment(text, name) : 0;
    if (fault != NULL)
        rn_report_error(builder->report, node->at, "%s", fault);
    else if (segment == -2)
        rn_report_error(builder->report, node->at,
                        "{%.*s} after **, where its place is not known; put ** behind it",
                        (int)name.len, name.data);
    else if (segment < 0)
        rn_report_error(builder->report, node->at,
                        "a path without {%.*s}, the segment to take; write for example "
                        "/%.*s/{%.*s}/**",
                        (int)name.len, name.data, (int)name.len, name.data, (int)name.len,
                        name.data);
    if (fault != NULL || segment < 0)
        return;
    attribute->source = RN_SOURCE_PATH;
    attribute->pattern = with_full_name(builder, text, name, attribute->name);
    attribute->segment = (uint16_t)segment;
}

static void derive_from_proxies(struct rn_builder *builder, const struct rn_node *map,
                                uint16_t number)
{
    static const char *const headers[] = {"x-forwarded-for", "forwarded"};
    const struct rn_node *proxies = rn_node_find(map, "trusted_proxies");
    const struct rn_node *forwarded = rn_node_find(map, "forwarded");
    struct rn_attribute *attribute = rn_builder_attribute_at(builder, number);
    int header = 0;

    if (proxies != NULL && builder->team.len != 0) {
        rn_report_error(builder->report, proxies->key->at,
                        "only files at the root may say which proxies are trusted; write "
                        "{forwarded: x-forwarded-for} to use those");
        return;
    }
    if (forwarded != NULL)
        header = rn_native_word(builder, forwarded, "header", headers, RN_COUNT(headers));
    if (header >= 0) {
        attribute->source = RN_SOURCE_FORWARDED;
        attribute->is_ip = true;
        attribute->forwarded_rfc7239 = header == 1;
        attribute->header = rn_slice_of(headers[header]);
    }
    if (proxies == NULL || is_again(builder, proxies, &builder->native->trusted_at))
        return;
    builder->native->trusted_at = proxies->key->at;
    builder->ruleset->trusted_proxies = rn_native_networks(builder, proxies);
}

static void read_attribute(struct rn_builder *builder, const struct rn_node *node)
{
    static const char *const keys[] = {"header", "path", "trusted_proxies", "forwarded"};
    uint16_t number = rn_native_attribute_declared(builder, node->key);
    uint32_t errors = builder->report->count[RN_ERROR];

    if (number == RN_NO_ATTRIBUTE || !rn_native_map(builder, node, keys, RN_COUNT(keys)) ||
        is_again(builder, node, &builder->native->attribute_at[number]) ||
        builder->report->count[RN_ERROR] != errors)
        return;
    builder->native->attribute_at[number] = node->key->at;

    const struct rn_node *header = rn_node_find(node, "header");
    const struct rn_node *path = rn_node_find(node, "path");
    bool proxies = rn_node_find(node, "trusted_proxies") || rn_node_find(node, "forwarded");
    int ways = (header != NULL) + (path != NULL) + proxies;

    if (rn_slice_starts_with(rn_builder_attribute_at(builder, number)->name, RN_SLICE("header.")))
        rn_report_error(builder->report, node->key->at,
                        "headers need no description; give the attribute a name of its own");
    else if (ways != 1)
        rn_report_error(builder->report, node->at,
                        "%s comes from %s; write one of {header: x-api-key}, {path: "
                        "\"/users/{user}/**\"} and {trusted_proxies: [10.0.0.0/8]}",
                        rn_excerpt(node->key->text).text, ways == 0 ? "nowhere" : "several places");
    else if (header != NULL)
        derive_from_header(builder, header, number);
    else if (path != NULL)
        derive_from_path(builder, path, number);
    else
        derive_from_proxies(builder, node, number);
}

/* --- tiers ------------------------------------------------------------------------- */

static struct rn_native_set *find_set(struct rn_builder *builder, struct rn_slice name)
{
    struct rn_native_set *sets = builder->native->sets.items;

    for (uint32_t i = 0; i < builder->native->sets.count; i++)
        if (rn_slice_equal(sets[i].name, name))
            return &sets[i];
    return NULL;
}

/* Whether the file being read may use it. */
static bool is_open(const struct rn_builder *builder, const struct rn_native_set *set)
{
    return set->team.len == 0 || rn_slice_equal(set->team, builder->team);
}

static void read_set(struct rn_builder *builder, const struct rn_node *node)
{
    struct rn_slice name = rn_native_full_name(builder, node->key->text);
    struct rn_native_set *set = find_set(builder, name);
    const struct rn_node *by = rn_node_find(node, "by"), *use = rn_node_find(node, "use");
    const struct rn_node *odd = by != NULL ? by : use;

    if (!rn_node_expect(node, RN_NODE_MAP, builder->report) ||
        (set != NULL && is_again(builder, node, &set->node->key->at)))
        return;
    if (odd != NULL)
        rn_report_error(builder->report, odd->key->at,
                        "\"%s\" belongs in the limit that uses these tiers, as in limit: {by: "
                        "tier, use: %.*s}",
                        odd->key->text.data, (int)node->key->text.len, node->key->text.data);
    set = rn_builder_push(builder, &builder->native->sets, sizeof *set);
    if (set != NULL)
        *set = (struct rn_native_set){.node = node, .name = name, .team = builder->team};
}

struct rn_native_set *rn_sections_find_tiers(struct rn_builder *builder, const struct rn_node *node)
{
    const struct rn_native *native = builder->native;
    const struct rn_native_set *sets = native->sets.items;
    struct rn_native_set *set;
    struct rn_slice name;

    if (!rn_node_as_text(node, builder->report, &name))
        return NULL;
    set = find_set(builder, rn_native_full_name(builder, name));
    if (set == NULL)
        set = find_set(builder, name);
    if (set != NULL && is_open(builder, set))
        return set;
    const char **names = rn_builder_alloc(builder, native->sets.count + 1, sizeof *names);
    uint32_t count = 0;

    for (uint32_t i = 0; names != NULL && i < native->sets.count; i++)
        if (is_open(builder, &sets[i]))
            names[count++] = sets[i].node->key->text.data;
    if (count != 0)
        rn_report_unknown_word(builder->report, node, "tiers", names, count);
    else if (names != NULL)
        rn_report_error(builder->report, node->at,
                        "no tiers are named %s, nor any other; add a section tiers",
                        rn_excerpt(name).text);
    return NULL;
}

/* --- paths ------------------------------------------------------------------------- */

/* For all files, so each may be given once. */
static void read_paths(struct rn_builder *builder, const struct rn_node *map)
{
    static const char *const keys[] = {"case", "parameters", "extension"};
    static const char *const cases[] = {"match", "ignore"};
    static const char *const parameters[] = {"either", "keep", "ignore"};
    static const char *const extensions[] = {"keep", "ignore"};
    struct rn_path_settings *paths = &builder->ruleset->paths;
    const struct rn_node *node;
    int word;

    if (!rn_native_map(builder, map, keys, RN_COUNT(keys)))
        return;
    node = rn_node_find(map, "case");
    if (node != NULL && (word = rn_native_word(builder, node, "way to compare letters", cases,
                                               RN_COUNT(cases))) >= 0) {
        paths->ignore_case = word == 1;
        builder->ruleset->case_given = true;
    }
    node = rn_node_find(map, "parameters");
    if (node != NULL && (word = rn_native_word(builder, node, "way to read parameters", parameters,
                                               RN_COUNT(parameters))) >= 0)
        paths->parameters = (enum rn_path_parameters)word;
    node = rn_node_find(map, "extension");
    if (node != NULL && (word = rn_native_word(builder, node, "way to read extensions", extensions,
                                               RN_COUNT(extensions))) >= 0)
        paths->ignore_extension = word == 1;
}

/* --- all files' sections ----------------------------------------------------------- */

void rn_sections_declare(struct rn_builder *builder, const struct rn_node *root)
{
    struct rn_native *native = builder->native;
    const struct rn_node *attributes = rn_node_find(root, "attributes");
    const struct rn_node *tiers = rn_node_find(root, "tiers");
    const struct rn_node *response = rn_node_find(root, "response");
    const struct rn_node *mode = rn_node_find(root, "mode");
    const struct rn_node *envoy = rn_node_find(root, "apply_to_envoy");
    const struct rn_node *paths = rn_node_find(root, "paths");

    if (attributes != NULL && rn_node_expect(attributes, RN_NODE_MAP, builder->report)) {
        RN_NODE_EACH(node, attributes)
            read_attribute(builder, node);
    }
    if (tiers != NULL && rn_node_expect(tiers, RN_NODE_MAP, builder->report)) {
        RN_NODE_EACH(node, tiers)
            read_set(builder, node);
    }
    if (response != NULL && !is_again(builder, response, &native->response_at)) {
        native->response_at = response->key->at;
        rn_native_response(builder, response, &native->response);
    }
    if (mode != NULL && !is_again(builder, mode, &native->mode_at)) {
        native->mode_at = mode->key->at;
        builder->ruleset->shadow = rn_native_shadow(builder, mode);
    }
    if (envoy != NULL && !is_again(builder, envoy, &native->envoy_at)) {
        native->envoy_at = envoy->key->at;
        (void)rn_node_as_bool(envoy, builder->report, &builder->ruleset->apply_to_envoy);
    }
    if (paths != NULL && !is_again(builder, paths, &native->paths_at)) {
        native->paths_at = paths->key->at;
        read_paths(builder, paths);
    }
}

/* --- server ------------------------------------------------------------------------ */

/* A list of listeners, as a text with commas between them. */
static bool read_listeners(struct rn_builder *builder, const struct rn_node *node,
                           struct rn_slice *value)
{
    static const char *const names[] = {"http", "grpc", "resp", "admin"};
    char *text = rn_builder_alloc(builder, node->count + 1, sizeof "admin,");
    size_t len = 0;

    if (text == NULL)
        return false;
    RN_NODE_EACH(item, node) {
        int name = rn_native_word(builder, item, "listener", names, RN_COUNT(names));

        if (name < 0)
            return false;
        if (len > 0)
            text[len++] = ',';
        memcpy(text + len, names[name], strlen(names[name]));
        len += strlen(names[name]);
    }
    *value = (struct rn_slice){text, len};
    return true;
}

static void read_setting(struct rn_builder *builder, const struct rn_node *node)
{
    const struct rn_setting *settings = builder->settings.items;
    bool is_list = rn_slice_is(node->key->text, "tls") && node->kind == RN_NODE_LIST;
    struct rn_setting *setting;
    struct rn_slice value;

    if (is_list ? !read_listeners(builder, node, &value)
                : !rn_node_as_text(node, builder->report, &value))
        return;
    for (uint32_t i = 0; i < builder->settings.count; i++) {
        if (rn_slice_equal(settings[i].name, node->key->text)) {
            rn_report_error(builder->report, node->key->at,
                            "%s is given already, at %.*s:%u; keep one of them",
                            rn_excerpt(node->key->text).text, (int)settings[i].file.len,
                            settings[i].file.data, settings[i].line);
            return;
        }
    }
    setting = rn_builder_setting(builder);
    if (setting == NULL)
        return;
    *setting = (struct rn_setting){.name = rn_builder_dup(builder, node->key->text),
                                   .value = rn_builder_dup(builder, value),
                                   .file = builder->file,
                                   .line = node->at.line,
                                   .column = node->at.column};
}

void rn_sections_server(struct rn_builder *builder, const struct rn_node *node)
{
    static const char *const keys[] = {"http",
                                       "resp",
                                       "grpc",
                                       "admin",
                                       "state",
                                       "memory",
                                       "workers",
                                       "redis",
                                       "redis_file",
                                       "admin_token",
                                       "admin_token_file",
                                       "tokens",
                                       "connections",
                                       "input_memory",
                                       "trust_local",
                                       "per_address",
                                       "tls_cert",
                                       "tls_key",
                                       "tls_client_ca",
                                       "tls_min",
                                       "tls",
                                       "grpc_max_age",
                                       "rls_headers",
                                       "rls_metadata",
                                       "rls_quota_mode",
                                       "redis_deadline",
                                       "redis_nodes",
                                       "redis_key_secret",
                                       "redis_key_secret_file",
                                       "redis_changes",
                                       "log_keys",
                                       "log_format",
                                       "log_level"};

    if (!rn_native_map(builder, node, keys, RN_COUNT(keys)))
        return;
    RN_NODE_EACH(value, node)
        for (size_t i = 0; i < RN_COUNT(keys); i++)
            if (rn_slice_is(value->key->text, keys[i]))
                (strcmp(keys[i], "tokens") == 0 ? rn_native_tokens : read_setting)(builder, value);
}

/* --- what nobody uses -------------------------------------------------------------- */

/* Now that all files have been seen, and with them `paths:`. */
static void spell_pattern(struct rn_builder *builder, struct rn_attribute *attribute,
                          struct rn_place at)
{
    struct rn_slice path = rn_native_path(builder, attribute->pattern);
    const char *fault = builder->failed ? NULL : rn_native_path_fault(path);

    if (fault != NULL)
        rn_report_error(builder->report, at, "%s", fault);
    else if (path.data != NULL)
        attribute->pattern = path;
}

static void finish_attributes(struct rn_builder *builder)
{
    const struct rn_native *native = builder->native;

    for (uint32_t i = 0; i < builder->attributes.count; i++) {
        struct rn_attribute *attribute = rn_builder_attribute_at(builder, (uint16_t)i);

        if (native->attribute_at[i].line == 0)
            continue;
        if (attribute->source == RN_SOURCE_PATH)
            spell_pattern(builder, attribute, native->attribute_at[i]);
        if (!native->attribute_used[i] && builder->report->count[RN_ERROR] == 0)
            rn_report_warning(builder->report, native->attribute_at[i],
                              "no limit and no list uses %s; use it or remove it",
                              rn_excerpt(attribute->name).text);
        if (attribute->source == RN_SOURCE_FORWARDED && native->trusted_at.line == 0)
            rn_report_warning(builder->report, native->attribute_at[i],
                              "no proxy is trusted, so the header is never believed; add "
                              "trusted_proxies: [10.0.0.0/8] with your proxies' networks");
    }
}

void rn_native_finish(struct rn_builder *builder)
{
    struct rn_native *native = builder->native;

    if (native == NULL)
        return;
    struct rn_native_set *sets = native->sets.items;
    finish_attributes(builder);
    for (uint32_t i = 0; i < native->sets.count; i++) {
        if (sets[i].used)
            continue;
        rn_native_check_tiers(builder, sets[i].node);
        if (builder->report->count[RN_ERROR] != 0) /* who would use it may be misread */
            continue;
        rn_report_warning(builder->report, sets[i].node->key->at,
                          "no limit uses tiers %s; use them or remove them",
                          rn_excerpt(sets[i].node->key->text).text);
    }
    free(native->sets.items);
    native->sets = (struct rn_builder_list){.items = NULL};
}
