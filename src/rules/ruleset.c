/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads files and directories into a ruleset: detects the format of each file, lets its reader fill
 * a builder, and checks the result. The root's files come first, then those of each team. The
 * sections of all files of the root, or of a team, are read before their rules, since a rule may
 * refer to a section of another file.
 *
 * If only teams have errors, and earlier versions of them are known, those are compiled instead,
 * until there is no error or nothing left to replace.
 */
#include "rules/ruleset.h"

#include <stdlib.h>
#include <string.h>

#include "core/scale.h"
#include "rules/builder.h"

struct source {
    struct rn_document document;
    struct rn_slice name; /* in the ruleset's arena */
    bool envoy;
};

struct loader {
    struct rn_builder builder;
    struct rn_builder_list sources; /* struct source: the files of all teams, in order */
};

/* --- one set of texts -------------------------------------------------------------- */

/* Whether a team's file says what only the root's may; reported. */
static bool oversteps(const struct rn_node *root, struct rn_report *report)
{
    bool found = false;

    RN_NODE_EACH(section, root) {
        struct rn_slice name = section->key->text;

        if (!rn_native_is_for_root(name) && !rn_slice_is(name, "domain") &&
            !rn_slice_is(name, "descriptors"))
            continue;
        rn_report_error(report, section->key->at,
                        "only files at the root may say %s; a team's hold limits, tiers and "
                        "attributes",
                        rn_excerpt(name).text);
        found = true;
    }
    return found;
}

/* Finds out the format of a file by its keys. False after reporting: neither format, or not allowed
 * in a team. The file is skipped. */
static bool tell_format(struct source *source, bool is_team, struct rn_report *report)
{
    struct rn_node *root = source->document.root;
    bool refused = false;

    if (root == NULL)
        return false;
    const struct rn_node *domain = rn_node_find(root, "domain");
    const struct rn_node *theirs = domain != NULL ? domain : rn_node_find(root, "descriptors");

    if (root->kind != RN_NODE_MAP) {
        rn_report_error(report, root->at,
                        "a rules file is a map of sections such as \"limits:\", found %s",
                        rn_node_describe(root).text);
        refused = true;
    } else if (is_team) {
        refused = oversteps(root, report);
    } else if (theirs != NULL && rn_node_find(root, "limits") != NULL) {
        rn_report_error(report, theirs->key->at,
                        "a file with both \"limits\" (the native format) and \"%s\" (Envoy's); put "
                        "them in two files",
                        theirs->key->text.data);
        refused = true;
    } else {
        source->envoy = theirs != NULL;
    }
    if (refused)
        source->document.root = NULL;
    return !refused;
}

/* Reads the files of the root or of a team. */
static void understand(struct loader *loader, struct source *sources, uint32_t count)
{
    struct rn_builder *builder = &loader->builder;

    for (uint32_t i = 0; i < count; i++) {
        builder->file = sources[i].name;
        if (tell_format(&sources[i], builder->team.len != 0, builder->report) && !sources[i].envoy)
            rn_native_declare(builder, &sources[i].document);
    }
    for (uint32_t i = 0; i < count; i++) {
        builder->file = sources[i].name;
        if (sources[i].document.root == NULL)
            continue;
        if (sources[i].envoy)
            rn_envoy_parse(builder, &sources[i].document);
        else
            rn_native_parse(builder, &sources[i].document);
    }
}

/* Parses a file into a document. */
static void add_source(struct loader *loader, const struct rn_team_file *file)
{
    struct rn_builder *builder = &loader->builder;
    struct rn_slice name = rn_builder_dup(builder, file->path);
    struct source *source =
        name.data == NULL ? NULL : rn_builder_push(builder, &loader->sources, sizeof *source);
    int code;

    if (source == NULL)
        return;
    source->name = name;
    if (file->problem.data != NULL)
        code = rn_document_refuse(&source->document, name, file->problem, builder->report);
    else
        code = rn_document_parse(&source->document, name, file->text.data, file->text.len,
                                 builder->report);
    if (code == RATION_ENOMEM)
        builder->failed = true;
}

/* NULL: the report says why, or memory ran out. */
static struct rn_ruleset *compile(const struct rn_teams *teams, const struct rn_ruleset_host *host,
                                  struct rn_report *report, uint32_t errors)
{
    struct loader loader = {.sources.items = NULL};
    struct rn_builder *builder = &loader.builder;
    struct rn_ruleset *ruleset = NULL;

    if (!rn_builder_init(builder, report))
        return NULL;
    builder->teams = teams;
    builder->host = host;
    for (uint32_t i = 0; i < teams->count; i++)
        for (uint32_t j = 0; j < teams->items[i].file_count; j++)
            add_source(&loader, &teams->items[i].files[j]);
    if (!builder->failed) {
        struct source *sources = loader.sources.items;

        for (uint32_t i = 0; i < teams->count; i++) {
            if (teams->items[i].file_count == 0)
                continue;
            builder->team = teams->items[i].name;
            understand(&loader, sources, teams->items[i].file_count);
            sources += teams->items[i].file_count;
        }
        rn_native_finish(builder);
    }
    if (report->count[RN_ERROR] == errors && !builder->failed)
        ruleset = rn_builder_finish(builder);
    for (uint32_t i = 0; i < loader.sources.count; i++)
        rn_document_done(&((struct source *)loader.sources.items)[i].document);
    free(loader.sources.items);
    rn_builder_done(builder);
    return ruleset;
}

/* Of the limit as written, and at its largest factor. */
static const char *fault_of(const struct rn_rule_limit *limit, rn_limit_fault_fn *store_fault)
{
    const struct rn_rule *rule = limit->rule;
    const char *fault = store_fault(&limit->limit);
    struct rn_limit step;
    struct rn_scale scale;

    if (fault || rule->factor_count == 0)
        return fault;
    rn_scale_init(&scale, &limit->limit, rule->factors, rule->factor_count);
    rn_scale_step(&scale, scale.largest, &step);
    return store_fault(&step);
}

/* In the last file of that name: those before are of versions that were replaced. */
struct rn_place rn_ruleset_place(const struct rn_rule *rule, const struct rn_report *report)
{
    struct rn_place at = {report->file_count, rule->line, rule->column};

    while (at.file-- != 0 && !rn_slice_equal(report->files[at.file].name, rule->file))
        ;
    return at;
}

bool rn_ruleset_fits(const struct rn_ruleset *ruleset, rn_limit_fault_fn *store_fault,
                     struct rn_report *report)
{
    uint32_t before = report->count[RN_ERROR];

    for (uint32_t i = 0; i < ruleset->limit_count; i++) {
        const struct rn_rule *rule = ruleset->limits[i]->rule;
        const char *fault = fault_of(ruleset->limits[i], store_fault);

        if (fault != NULL)
            rn_report_error(report, rn_ruleset_place(rule, report), "%s has %s",
                            rn_excerpt(rule->name).text, fault);
    }
    return report->count[RN_ERROR] == before;
}

/* --- teams with errors ------------------------------------------------------------- */

struct attempt {
    struct rn_teams *teams;
    const struct rn_teams *last;
    struct rn_report *report;
    uint32_t first_file; /* index in the report of this attempt's first file */
};

/* Keeps the errors of this attempt, all of which are of teams, and everything before it. */
static bool is_wanted(void *arg, const struct rn_diagnostic *d)
{
    const struct attempt *a = arg;

    return d->at.file < a->first_file || d->severity == RN_ERROR;
}

/* Replaces teams with errors by their earlier versions. False: something is wrong with the root
 * or an earlier version, or memory ran out. */
static bool replace_teams(struct attempt *a)
{
    struct rn_report *report = a->report;
    bool found = false;

    for (uint32_t i = 0; i < report->kept_count; i++) {
        const struct rn_diagnostic *d = &report->kept[i];
        uint32_t file = d->at.file - a->first_file, t = 0;

        if (d->severity != RN_ERROR || d->at.file < a->first_file)
            continue; /* errors of earlier attempts stay */
        while (t < a->teams->count && file >= a->teams->items[t].file_count)
            file -= a->teams->items[t++].file_count;
        struct rn_team *team = t < a->teams->count ? &a->teams->items[t] : NULL;

        if (d->at.file == RN_REPORT_NO_FILE || team == NULL || team->name.len == 0 || team->kept)
            return false;
        team->errors++;
        found = true;
    }
    for (uint32_t i = 0; i < a->teams->count; i++) {
        struct rn_team *team = &a->teams->items[i];

        if (team->errors == 0 || team->kept)
            continue;
        if (!rn_teams_keep(team, rn_teams_find(a->last, team->name)))
            return false;
    }
    rn_report_retain(report, is_wanted, a);
    return found;
}

/* Takes the teams. */
static struct rn_ruleset *load(struct rn_teams *teams, const struct rn_teams *last,
                               const struct rn_ruleset_host *host, struct rn_report *report)
{
    rn_limit_fault_fn *store_fault = host ? host->store_fault : NULL;
    struct attempt a = {teams, last, report, report->file_count};
    struct rn_ruleset *ruleset = NULL;

    while (teams != NULL) {
        uint32_t errors = report->count[RN_ERROR];

        ruleset = compile(teams, host, report, errors);
        if (ruleset != NULL && store_fault != NULL &&
            !rn_ruleset_fits(ruleset, store_fault, report)) {
            rn_ruleset_free(ruleset);
            ruleset = NULL;
        }
        if (ruleset != NULL || last == NULL || report->count[RN_ERROR] == errors ||
            !replace_teams(&a))
            break;
        a.first_file = report->file_count;
    }
    if (ruleset == NULL)
        rn_teams_free(teams);
    else
        ruleset->teams = teams;
    return ruleset;
}

struct rn_ruleset *rn_ruleset_reload(const char *const *paths, size_t count,
                                     const struct rn_teams *last,
                                     const struct rn_ruleset_host *host, struct rn_report *report)
{
    uint32_t errors = report->count[RN_ERROR];
    struct rn_teams *teams = rn_teams_read(paths, count, report);
    bool is_whole = report->count[RN_ERROR] == errors;
    struct rn_ruleset *ruleset = load(teams, is_whole ? last : NULL, host, report);

    if (ruleset != NULL && !is_whole) {
        rn_ruleset_free(ruleset);
        return NULL;
    }
    if (ruleset != NULL)
        rn_teams_drop_root(ruleset->teams);
    return ruleset;
}

struct rn_ruleset *rn_ruleset_load(const char *const *paths, size_t count, struct rn_report *report)
{
    return rn_ruleset_reload(paths, count, NULL, NULL, report);
}

struct rn_ruleset *rn_ruleset_parse(struct rn_slice name, struct rn_slice text,
                                    struct rn_report *report)
{
    return rn_ruleset_parse_for(NULL, name, text, report);
}

struct rn_ruleset *rn_ruleset_parse_for(const struct rn_ruleset_host *host, struct rn_slice name,
                                        struct rn_slice text, struct rn_report *report)
{
    struct rn_ruleset *ruleset = load(rn_teams_of_text(name, text), NULL, host, report);

    if (ruleset != NULL) {
        rn_teams_free(ruleset->teams);
        ruleset->teams = NULL; /* no files: those that were last good stay so */
    }
    return ruleset;
}

void rn_ruleset_free(struct rn_ruleset *ruleset)
{
    if (ruleset == NULL)
        return;

    for (struct rn_geo_source *s = ruleset->databases; s != NULL; s = s->next) {
        rn_database_unref_table(s->table);
        rn_database_close(s->database);
    }
    /* It lives beside the arena, as its teams' texts do; everything else is in it. */
    rn_teams_free(ruleset->teams);
    rn_arena_done(&ruleset->arena);
    free(ruleset);
}

uint16_t rn_ruleset_attribute(const struct rn_ruleset *ruleset, struct rn_slice name)
{
    for (uint32_t i = 0; i < ruleset->attribute_count; i++)
        if (rn_slice_equal(ruleset->attributes[i].name, name))
            return (uint16_t)i;
    return RN_NO_ATTRIBUTE;
}

/* --- which attributes rules use ---------------------------------------------------- */

#define HEADER "header."

static bool is_header(struct rn_slice name, struct rn_slice header)
{
    size_t prefix = sizeof HEADER - 1;

    return name.len == prefix + header.len && memcmp(name.data, HEADER, prefix) == 0 &&
           memcmp(name.data + prefix, header.data, header.len) == 0;
}

bool rn_ruleset_uses_attribute(const struct rn_ruleset *ruleset, struct rn_slice name)
{
    for (uint32_t i = 0; i < ruleset->attribute_count; i++) {
        const struct rn_attribute *a = &ruleset->attributes[i];
        bool is_it = false;

        switch (a->source) {
        case RN_SOURCE_REQUEST:
            is_it = rn_slice_equal(name, a->name);
            break;
        case RN_SOURCE_PATH:
            is_it = rn_slice_is(name, "path");
            break;
        case RN_SOURCE_HEADER:
            is_it = is_header(name, a->header);
            break;
        case RN_SOURCE_FORWARDED:
            is_it = rn_slice_is(name, "ip") || is_header(name, a->header);
            break;
        case RN_SOURCE_GEO:
            break; /* the address is an attribute of its own */
        }
        if (is_it)
            return true;
    }
    return false;
}

const char *rn_ruleset_suggest_attribute(const struct rn_ruleset *ruleset, struct rn_slice name)
{
    const char *names[RN_ATTRIBUTES_MAX];
    uint32_t count = 0;

    for (uint32_t i = 0; i < ruleset->attribute_count; i++)
        if (ruleset->attributes[i].source == RN_SOURCE_REQUEST)
            names[count++] = ruleset->attributes[i].name.data; /* in the arena a NUL follows */
    return rn_suggest(name, names, count);
}
