/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the sections that apply to all files: tiers (named sets), response, mode and paths. A
 * setting may appear only once. attributes.c, signals.c and server.c read the other sections.
 */
#include <stdlib.h>

#include "rules/native/native_internal.h"

bool rn_native_is_again(struct rn_builder *builder, const struct rn_node *node,
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

/* --- tiers ------------------------------------------------------------------------- */

static struct rn_native_set *find_set(struct rn_builder *builder, struct rn_slice name)
{
    struct rn_native_set *sets = builder->native->sets.items;

    for (uint32_t i = 0; i < builder->native->sets.count; i++)
        if (rn_slice_equal(sets[i].name, name))
            return &sets[i];
    return NULL;
}

/* Whether the file being read may use the set. */
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
        (set != NULL && rn_native_is_again(builder, node, &set->node->key->at)))
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

static void read_paths(struct rn_builder *builder, const struct rn_node *map)
{
    static const char *const keys[] = {"case", "parameters", "extension"};
    static const char *const cases[] = {"match", "ignore"};
    static const char *const parameters[] = {"either", "keep", "ignore"};
    static const char *const extensions[] = {"keep", "ignore"};
    static const struct {
        const char *key, *what;
        const char *const *words;
        size_t count;
    } settings[] = {{"case", "way to compare letters", cases, RN_COUNT(cases)},
                    {"parameters", "way to read parameters", parameters, RN_COUNT(parameters)},
                    {"extension", "way to read extensions", extensions, RN_COUNT(extensions)}};
    struct rn_path_settings *paths = &builder->ruleset->paths;
    int word[RN_COUNT(settings)];

    if (!rn_native_map(builder, map, keys, RN_COUNT(keys)))
        return;
    for (size_t i = 0; i < RN_COUNT(settings); i++) {
        const struct rn_node *node = rn_node_find(map, settings[i].key);

        word[i] = node == NULL ? -1
                               : rn_native_word(builder, node, settings[i].what, settings[i].words,
                                                settings[i].count);
    }
    builder->ruleset->case_given |= word[0] >= 0;
    paths->ignore_case = word[0] == 1;
    paths->parameters = word[1] < 0 ? RN_PARAMETERS_EITHER : (enum rn_path_parameters)word[1];
    paths->ignore_extension = word[2] == 1;
}

static void read_response(struct rn_builder *builder, const struct rn_node *node)
{
    rn_native_response(builder, node, &builder->native->response);
}

static void read_mode(struct rn_builder *builder, const struct rn_node *node)
{
    builder->ruleset->shadow = rn_native_shadow(builder, node);
}

static void read_apply_to_envoy(struct rn_builder *builder, const struct rn_node *node)
{
    (void)rn_node_as_bool(node, builder->report, &builder->ruleset->apply_to_envoy);
}

/* --- all sections ------------------------------------------------------------------ */

static const struct {
    const char *key;
    void (*read)(struct rn_builder *builder, const struct rn_node *node);
    bool is_map; /* `read` is called for each entry; otherwise once, for the section */
    size_t at;   /* where struct rn_native keeps the place of a section that may appear once */
} sections[] = {
    {"attributes", rn_native_read_attribute, true, 0},
    {"tiers", read_set, true, 0},
    {"signals", rn_native_read_signal, true, 0},
    {"response", read_response, false, offsetof(struct rn_native, response_at)},
    {"mode", read_mode, false, offsetof(struct rn_native, mode_at)},
    {"apply_to_envoy", read_apply_to_envoy, false, offsetof(struct rn_native, envoy_at)},
    {"paths", read_paths, false, offsetof(struct rn_native, paths_at)},
};

void rn_sections_declare(struct rn_builder *builder, const struct rn_node *root)
{
    for (size_t i = 0; i < RN_COUNT(sections); i++) {
        const struct rn_node *section = rn_node_find(root, sections[i].key);
        struct rn_place *at = (void *)((char *)builder->native + sections[i].at);

        if (section == NULL)
            continue;
        if (sections[i].is_map) {
            if (rn_node_expect(section, RN_NODE_MAP, builder->report))
                RN_NODE_EACH(node, section)
                    sections[i].read(builder, node);
        } else if (!rn_native_is_again(builder, section, at)) {
            *at = section->key->at;
            sections[i].read(builder, section);
        }
    }
}

/* --- after all files -------------------------------------------------------------- */

void rn_native_finish(struct rn_builder *builder)
{
    struct rn_native *native = builder->native;

    if (native == NULL)
        return;
    struct rn_native_set *sets = native->sets.items;
    rn_native_finish_attributes(builder);
    rn_native_finish_signals(builder);
    for (uint32_t i = 0; i < native->sets.count; i++) {
        if (sets[i].used)
            continue;
        rn_native_check_tiers(builder, sets[i].node);
        if (builder->report->count[RN_ERROR] != 0) /* a rule with an error may use it */
            continue;
        rn_report_warning(builder->report, sets[i].node->key->at,
                          "no limit uses tiers %s; use them or remove them",
                          rn_excerpt(sets[i].node->key->text).text);
    }
    free(native->sets.items);
    native->sets = (struct rn_builder_list){.items = NULL};
}
