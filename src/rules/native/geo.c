/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads attributes that a database knows: {geo: country, of: ip, database: FILE.mmdb}.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rules/native/native_internal.h"

/* A path beside the rules file, unless it begins at the root of the file system; in the arena. */
static struct rn_slice resolve(struct rn_builder *builder, struct rn_slice path)
{
    const char *slash = memrchr(builder->file.data, '/', builder->file.len);
    size_t folder = slash == NULL ? 0 : (size_t)(slash - builder->file.data) + 1;

    if (path.data[0] == '/')
        return rn_builder_dup(builder, path);
    char *joined = rn_builder_alloc(builder, folder + path.len + 1, 1);

    if (joined == NULL)
        return (struct rn_slice){NULL, 0};
    memcpy(joined, builder->file.data, folder);
    memcpy(joined + folder, path.data, path.len);
    return (struct rn_slice){joined, folder + path.len};
}

/* The database that these rules use under this path, opened if it is the first time. NULL after
 * reporting. */
static const struct rn_geo_source *
open_database(struct rn_builder *builder, const struct rn_node *node, enum rn_geo_field field)
{
    struct rn_geo_source *source = builder->ruleset->databases;
    struct ration_error error;
    struct rn_slice path;

    if (!rn_node_as_text(node, builder->report, &path))
        return NULL;
    if (path.len == 0 || memchr(path.data, '\0', path.len) != NULL) {
        rn_report_error(builder->report, node->at,
                        "expected the path of a MaxMind DB, found %s; write for example "
                        "GeoLite2-Country.mmdb",
                        rn_node_describe(node).text);
        return NULL;
    }
    path = resolve(builder, path);
    if (path.data == NULL)
        return NULL;
    struct rn_database *database = rn_database_open(path.data, field, &error);

    if (database == NULL) {
        rn_report_error(builder->report, node->at,
                        "cannot use %s: %s; give the path of a MaxMind DB (.mmdb) with a%s %s for "
                        "each network",
                        rn_excerpt(path).text, error.text, field >= RN_GEO_ASN ? "n" : "",
                        rn_geo_table_fields[field]);
        return NULL;
    }
    if (error.text[0] != '\0')
        rn_report_warning(builder->report, node->at,
                          "cannot use %s: %s; what was loaded from it before stays in use",
                          rn_excerpt(path).text, error.text);
    while (source != NULL && !rn_slice_equal(source->path, path))
        source = source->next;
    if (source != NULL) {
        rn_database_close(database); /* the source has it */
        return source;
    }
    source = rn_builder_alloc(builder, 1, sizeof *source);
    if (source == NULL) {
        rn_database_close(database);
        return NULL;
    }
    *source = (struct rn_geo_source){builder->ruleset->databases, path, database,
                                     rn_database_ref_table(database)};
    builder->ruleset->databases = source;
    return source;
}

void rn_native_read_geo(struct rn_builder *builder, const struct rn_node *map, uint16_t number)
{
    const struct rn_node *geo = rn_node_find(map, "geo"), *of = rn_node_find(map, "of"),
                         *database = rn_node_find(map, "database");
    int field =
        rn_native_word(builder, geo, "field of a database", rn_geo_table_fields, RN_GEO_FIELDS);

    if (builder->team.len != 0) {
        rn_report_error(builder->report, geo->key->at,
                        "only files at the root may name databases; declare the attribute there, "
                        "and use it here");
        return;
    }
    if (database == NULL)
        rn_report_error(builder->report, map->at,
                        "%s is looked up in no database; add for example database: "
                        "/var/lib/GeoIP/GeoLite2-Country.mmdb",
                        rn_excerpt(map->key->text).text);
    uint16_t from = of == NULL ? rn_native_attribute(builder, map, RN_SLICE("ip"), 0)
                               : rn_native_attribute_node(builder, of);

    if (field < 0 || database == NULL || from == RN_NO_ATTRIBUTE)
        return;
    const struct rn_geo_source *source = open_database(builder, database, (enum rn_geo_field)field);
    struct rn_attribute *attribute = rn_builder_attribute_at(builder, number);

    attribute->source = RN_SOURCE_GEO;
    attribute->of = from;
    attribute->field = (enum rn_geo_field)field;
    attribute->geo = source;
    builder->native->geo_of_at[number] = (of == NULL ? map : of)->at;
}

/* Reports an attribute that is looked up by one that cannot have an address. */
static void check_of(struct rn_builder *builder, uint16_t number)
{
    static const char *const no_addresses[] = {"path", "host", "method", "scheme"};
    const struct rn_native *native = builder->native;
    uint16_t of = rn_builder_attribute_at(builder, number)->of;
    const struct rn_attribute *from = rn_builder_attribute_at(builder, of);
    bool is_known = from->is_ip || native->attribute_at[of].line != 0 ||
                    native->attribute_used[of] ||
                    rn_slice_starts_with(from->name, RN_SLICE("header."));
    struct rn_place at = native->geo_of_at[number];

    if (from->source == RN_SOURCE_GEO)
        rn_report_error(builder->report, at, "%s is itself looked up by an address; write of: ip",
                        rn_excerpt(from->name).text);
    else if (rn_slice_find(from->name, no_addresses, RN_COUNT(no_addresses)) <
             RN_COUNT(no_addresses))
        rn_report_error(builder->report, at, "%s is not an address; write of: ip",
                        rn_excerpt(from->name).text);
    else if (!is_known)
        rn_report_error(builder->report, at,
                        "no attribute %s: it is not declared here, and no limit uses it; write "
                        "of: ip, or say where it comes from",
                        rn_excerpt(from->name).text);
}

void rn_native_finish_geo(struct rn_builder *builder)
{
    bool *used = builder->native->attribute_used;

    for (uint32_t i = 0; i < builder->attributes.count; i++)
        if (rn_builder_attribute_at(builder, (uint16_t)i)->source == RN_SOURCE_GEO)
            check_of(builder, (uint16_t)i);
    for (uint32_t i = 0; i < builder->attributes.count; i++) {
        const struct rn_attribute *attribute = rn_builder_attribute_at(builder, (uint16_t)i);

        if (attribute->source == RN_SOURCE_GEO)
            used[attribute->of] |= used[i];
    }
}

/* --- values ------------------------------------------------------------------------------ */

static bool is_capital(char c)
{
    return c >= 'A' && c <= 'Z';
}

static const char *find_fault(const struct rn_attribute *attribute, struct rn_slice value)
{
    static const char *const continents[] = {"AF", "AN", "AS", "EU", "NA", "OC", "SA"};
    bool begins = value.len >= 2 && is_capital(value.data[0]) && is_capital(value.data[1]);
    size_t digits = 0;

    if (attribute->source != RN_SOURCE_GEO)
        return NULL;
    switch (attribute->field) {
    case RN_GEO_COUNTRY:
        if (rn_slice_is(value, "UK"))
            return "no code of a country (ISO 3166-1); write GB";
        return begins && value.len == 2
                   ? NULL
                   : "a country is a code of two letters (ISO 3166-1), such as IT";
    case RN_GEO_CONTINENT:
        return rn_slice_find(value, continents, RN_COUNT(continents)) < RN_COUNT(continents)
                   ? NULL
                   : "a continent is one of AF, AN, AS, EU, NA, OC and SA";
    case RN_GEO_REGION:
        return begins && value.len >= 4 && value.data[2] == '-'
                   ? NULL
                   : "a region is a code with its country before it (ISO 3166-2), such as US-CA";
    case RN_GEO_ASN:
        while (digits < value.len && value.data[digits] >= '0' && value.data[digits] <= '9')
            digits++;
        return digits == value.len && digits != 0 && value.data[0] != '0'
                   ? NULL
                   : "an asn is the number of an autonomous system, such as 64500 or AS64500";
    case RN_GEO_ORG:
        break;
    }
    return NULL;
}

bool rn_native_geo_value(struct rn_builder *builder, struct rn_place at, uint16_t attribute,
                         struct rn_slice value)
{
    const char *fault = find_fault(rn_builder_attribute_at(builder, attribute), value);

    if (fault != NULL)
        rn_report_error(builder->report, at, "%s: %s", rn_excerpt(value).text, fault);
    return fault == NULL;
}
