/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From files and directories to a ruleset: finds the files, tells the two
 * formats apart, lets their readers fill a builder, and looks once more at the
 * whole. All files are read before any is understood, since a rule may refer to
 * what another file says.
 */
#include "rules/ruleset.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "rules/builder.h"

struct source {
    struct rn_document document;
    struct rn_slice name; /* in the ruleset's arena */
    bool envoy;
};

struct loader {
    struct rn_builder builder;
    struct rn_builder_list sources; /* struct source */
    uint32_t errors;                /* the report's, before */
};

/* --- reading ----------------------------------------------------------------------- */

/* A file says by its keys which format it is in. */
static bool is_envoy(const struct rn_node *root, struct rn_report *report, bool *mixed)
{
    const struct rn_node *domain = rn_node_find(root, "domain");
    const struct rn_node *descriptors = rn_node_find(root, "descriptors");
    const struct rn_node *theirs = domain != NULL ? domain : descriptors;

    if (theirs == NULL)
        return false;
    if (rn_node_find(root, "limits") == NULL)
        return true;
    *mixed = true;
    rn_report_error(report, theirs->key->at,
                    "a file with both \"limits\" (the native format) and \"%s\" (Envoy's); put "
                    "them in two files",
                    theirs->key->text.data);
    return false;
}

/* A place for a file's document, which must then be initialised. */
static struct source *add_source(struct loader *loader, struct rn_slice name)
{
    struct rn_slice copy = rn_builder_dup(&loader->builder, name);
    struct source *source =
        copy.data == NULL ? NULL
                          : rn_builder_push(&loader->builder, &loader->sources, sizeof *source);

    if (source != NULL)
        source->name = copy;
    return source;
}

static void load_file(struct loader *loader, const char *path)
{
    struct source *source = add_source(loader, rn_slice_of(path));

    if (source != NULL &&
        rn_document_load(&source->document, path, loader->builder.report) == RATION_ENOMEM)
        loader->builder.failed = true;
}

/* --- directories ------------------------------------------------------------------- */

static int is_rules_file(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');

    return entry->d_name[0] != '.' && dot != NULL &&
           (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0 || strcmp(dot, ".json") == 0);
}

/* By bytes, whatever the locale. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void load_entry(struct loader *loader, const char *directory, const char *name)
{
    size_t len = strlen(directory);
    char *path = NULL;

    while (len > 1 && directory[len - 1] == '/')
        len--;
    if (asprintf(&path, "%.*s/%s", (int)len, directory, name) < 0) {
        loader->builder.failed = true;
        return;
    }
    load_file(loader, path);
    free(path);
}

static void load_directory(struct loader *loader, const char *directory)
{
    const struct rn_place nowhere = {.file = RN_REPORT_NO_FILE};
    struct rn_report *report = loader->builder.report;
    struct rn_excerpt name = rn_excerpt(rn_slice_of(directory));
    struct dirent **entries;
    int count = scandir(directory, &entries, is_rules_file, by_name);

    if (count < 0) {
        rn_report_error(report, nowhere, "directory %s cannot be read: %s", name.text,
                        strerror(errno));
        return;
    }
    if (count == 0)
        rn_report_error(report, nowhere,
                        "directory %s holds no rules; files end in .yaml, .yml or .json",
                        name.text);
    for (int i = 0; i < count; i++) {
        load_entry(loader, directory, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
}

static void load_path(struct loader *loader, const char *path)
{
    struct stat status;

    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode))
        load_directory(loader, path);
    else
        load_file(loader, path);
}

/* --- understanding ----------------------------------------------------------------- */

/* False: neither, reported; nobody reads the file then. */
static bool tell_format(struct source *source, struct rn_report *report)
{
    struct rn_node *root = source->document.root;
    bool mixed = false;

    if (root == NULL)
        return false;
    if (root->kind == RN_NODE_MAP)
        source->envoy = is_envoy(root, report, &mixed);
    else
        rn_report_error(report, root->at,
                        "a rules file is a map of sections such as \"limits:\", found %s",
                        rn_node_describe(root).text);
    if (mixed || root->kind != RN_NODE_MAP)
        source->document.root = NULL;
    return source->document.root != NULL;
}

static void understand(struct loader *loader)
{
    struct rn_builder *builder = &loader->builder;
    struct source *sources = loader->sources.items;

    for (uint32_t i = 0; i < loader->sources.count; i++) {
        builder->file = sources[i].name;
        if (tell_format(&sources[i], builder->report) && !sources[i].envoy)
            rn_native_declare(builder, &sources[i].document);
    }
    for (uint32_t i = 0; i < loader->sources.count; i++) {
        builder->file = sources[i].name;
        if (sources[i].document.root == NULL)
            continue;
        if (sources[i].envoy)
            rn_envoy_parse(builder, &sources[i].document);
        else
            rn_native_parse(builder, &sources[i].document);
    }
    rn_native_finish(builder);
}

static struct rn_ruleset *finish(struct loader *loader)
{
    struct rn_builder *builder = &loader->builder;
    struct source *sources = loader->sources.items;
    struct rn_ruleset *ruleset = NULL;

    if (!builder->failed)
        understand(loader);
    if (builder->report->count[RN_ERROR] == loader->errors && !builder->failed)
        ruleset = rn_builder_finish(builder);
    for (uint32_t i = 0; i < loader->sources.count; i++)
        rn_document_done(&sources[i].document);
    free(loader->sources.items);
    rn_builder_done(builder);
    return ruleset;
}

static bool begin(struct loader *loader, struct rn_report *report)
{
    *loader = (struct loader){.errors = report->count[RN_ERROR]};
    return rn_builder_init(&loader->builder, report);
}

struct rn_ruleset *rn_ruleset_load(const char *const *paths, size_t count, struct rn_report *report)
{
    struct loader loader;

    if (!begin(&loader, report))
        return NULL;
    for (size_t i = 0; i < count; i++)
        load_path(&loader, paths[i]);
    return finish(&loader);
}

struct rn_ruleset *rn_ruleset_parse(struct rn_slice name, struct rn_slice text,
                                    struct rn_report *report)
{
    struct loader loader;

    if (!begin(&loader, report))
        return NULL;

    struct source *source = add_source(&loader, name);
    if (source != NULL &&
        rn_document_parse(&source->document, name, text.data, text.len, report) == RATION_ENOMEM)
        loader.builder.failed = true;
    return finish(&loader);
}

void rn_ruleset_free(struct rn_ruleset *ruleset)
{
    if (ruleset == NULL)
        return;

    /* It lives beside the arena, not in it, but everything else does. */
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
