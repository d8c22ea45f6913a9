/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why not libmaxminddb: docs/adr/2026-11-18-our-own-reader-of-mmdb-files.md.
 */
#include "rules/geo/mmdb.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

#define MARKER "\xab\xcd\xefMaxMind.com"
#define MARKER_SIZE (sizeof MARKER - 1)
#define METADATA_MAX RN_MMDB_END_MAX
#define SEPARATOR 16 /* zeros between tree and data */

/* --- values ------------------------------------------------------------------------- */

enum type {
    TYPE_EXTENDED = 0,
    TYPE_POINTER = 1,
    TYPE_STRING = 2,
    TYPE_UINT16 = 5,
    TYPE_UINT32 = 6,
    TYPE_MAP = 7,
    TYPE_UINT64 = 9,
    TYPE_ARRAY = 11,
    TYPE_BOOLEAN = 14,
};

struct value {
    unsigned type;
    uint32_t size; /* bytes; of a map or an array: how many; of a pointer: where to */
    uint32_t at;   /* the first byte behind its head */
    uint32_t next; /* behind it; of a map or an array: its first item */
};

static uint32_t read_bytes(const uint8_t *from, unsigned count)
{
    uint32_t value = 0;

    for (unsigned i = 0; i < count; i++)
        value = value << 8 | from[i];
    return value;
}

/* One value; false: it is not all there. Pointers are not followed. */
static bool decode(struct rn_mmdb_section *s, uint32_t at, struct value *v)
{
    static const uint32_t pointer_base[] = {0, 2048, 526336, 0};
    static const uint32_t size_base[] = {0, 29, 285, 65821};

    if (s->budget == 0 || at >= s->size)
        return false;
    s->budget--;
    unsigned head = s->data[at++], low = head & 31;

    v->type = head >> 5;
    if (v->type == TYPE_POINTER) {
        unsigned kind = low >> 3, bytes = kind + 1;

        if (s->size - at < bytes)
            return false;
        v->size = (kind == 3 ? 0 : (low & 7) << 8 * bytes) + read_bytes(s->data + at, bytes) +
                  pointer_base[kind];
        v->at = v->next = at + bytes;
        return true;
    }
    if (v->type == TYPE_EXTENDED) {
        if (at == s->size)
            return false;
        v->type = 7 + (unsigned)s->data[at++];
    }
    unsigned more = low < 29 ? 0 : low - 28;

    if (s->size - at < more)
        return false;
    v->size = more == 0 ? low : size_base[more] + read_bytes(s->data + at, more);
    v->at = v->next = at + more;
    if (v->type == TYPE_MAP || v->type == TYPE_ARRAY || v->type == TYPE_BOOLEAN)
        return true;
    v->next += v->size;
    return v->size <= s->size - v->at;
}

/* The same, and what a pointer points to; `next` is behind the pointer then. A pointer to a pointer
 * is an error of the file: so there are no loops. */
static bool decode_target(struct rn_mmdb_section *s, uint32_t at, struct value *v, uint32_t *next)
{
    if (!decode(s, at, v))
        return false;
    *next = v->next;
    return v->type != TYPE_POINTER || (decode(s, v->size, v) && v->type != TYPE_POINTER);
}

/* Moves *at behind a value and all that it contains. */
static bool skip(struct rn_mmdb_section *s, uint32_t *at)
{
    struct value v;

    for (uint64_t left = 1; left != 0; left--, *at = v.next) {
        if (!decode(s, *at, &v))
            return false;
        if (v.type == TYPE_MAP)
            left += 2 * (uint64_t)v.size;
        else if (v.type == TYPE_ARRAY)
            left += v.size;
    }
    return true;
}

/* The items of a map, one after the other. */
struct items {
    struct rn_mmdb_section *section;
    uint32_t at, left;
};

/* The next key, and where its value is. False: there is none, or the map is damaged, and then
 * `left` is not 0. */
static bool next_key(struct items *items, struct rn_slice *key, uint32_t *value_at)
{
    struct value v;

    if (items->left == 0 || !decode_target(items->section, items->at, &v, value_at) ||
        v.type != TYPE_STRING)
        return false;
    *key = (struct rn_slice){(const char *)items->section->data + v.at, v.size};
    items->at = *value_at;
    if (!skip(items->section, &items->at))
        return false;
    items->left--;
    return true;
}

static bool open_map(struct rn_mmdb_section *s, const struct value *map, struct items *items)
{
    *items = (struct items){s, map->next, map->size};
    return map->type == TYPE_MAP;
}

/* An unsigned number of at most 64 bits. */
static bool read_number(const struct rn_mmdb_section *s, const struct value *v, uint64_t *number)
{
    bool is_number = v->type == TYPE_UINT16 || v->type == TYPE_UINT32 || v->type == TYPE_UINT64;

    if (!is_number || v->size > 8)
        return false;
    *number = 0;
    for (uint32_t i = 0; i < v->size; i++)
        *number = *number << 8 | s->data[v->at + i];
    return true;
}

/* --- metadata ------------------------------------------------------------------------- */

struct metadata {
    uint64_t node_count, record_size, ip_version, major, build_epoch;
};

static bool read_metadata(struct rn_mmdb *db, struct rn_mmdb_section s, struct metadata *m)
{
    const struct {
        const char *name;
        uint64_t *to;
    } numbers[] = {
        {"node_count", &m->node_count},   {"record_size", &m->record_size},
        {"ip_version", &m->ip_version},   {"binary_format_major_version", &m->major},
        {"build_epoch", &m->build_epoch},
    };
    struct rn_slice key;
    struct items items;
    struct value map, v;
    uint32_t at, next;

    if (!decode_target(&s, 0, &map, &next) || !open_map(&s, &map, &items))
        return false;
    while (next_key(&items, &key, &at)) {
        if (!decode_target(&s, at, &v, &next))
            return false;
        if (rn_slice_is(key, "database_type") && v.type == TYPE_STRING)
            db->title = (struct rn_slice){(const char *)s.data + v.at, v.size};
        for (size_t i = 0; i < RN_COUNT(numbers); i++)
            if (rn_slice_is(key, numbers[i].name) && !read_number(&s, &v, numbers[i].to))
                return false;
    }
    return items.left == 0;
}

/* The last marker in the file; NULL: none. */
static const uint8_t *find_marker(const uint8_t *bytes, size_t size)
{
    size_t window = size < METADATA_MAX ? size : METADATA_MAX;
    const uint8_t *end = bytes + size;

    for (size_t back = MARKER_SIZE; back <= window; back++)
        if (memcmp(end - back, MARKER, MARKER_SIZE) == 0)
            return end - back;
    return NULL;
}

const char rn_mmdb_no_metadata[] =
    "it is no MaxMind DB, or its end is missing: there is no metadata";

bool rn_mmdb_has_metadata(const void *end, size_t size)
{
    return find_marker(end, size) != NULL;
}

static bool refuse(struct ration_error *error, const char *what, uint64_t found)
{
    rn_error_set(error, RATION_EPARSE, 0, what, found);
    return false;
}

bool rn_mmdb_open(struct rn_mmdb *db, const void *bytes, size_t size, struct ration_error *error)
{
    const uint8_t *marker = find_marker(bytes, size);
    struct metadata m = {0};

    *db = (struct rn_mmdb){.tree = bytes, .title = RN_SLICE("")};
    if (size == 0)
        return refuse(error, "it is empty", 0);
    if (marker == NULL)
        return refuse(error, rn_mmdb_no_metadata, 0);
    size_t before = (size_t)(marker - db->tree);
    const struct rn_mmdb_section s = {.data = marker + MARKER_SIZE,
                                      .size = (uint32_t)(size - before - MARKER_SIZE),
                                      .budget = METADATA_MAX};

    if (!read_metadata(db, s, &m))
        return refuse(error, "its metadata is damaged", 0);
    if (m.major != 2)
        return refuse(error, "its format has version %" PRIu64 "; rules read version 2", m.major);
    if (m.record_size != 24 && m.record_size != 28 && m.record_size != 32)
        return refuse(error, "its records have %" PRIu64 " bits; 24, 28 and 32 are known",
                      m.record_size);
    if (m.ip_version != 4 && m.ip_version != 6)
        return refuse(error, "it is for IP version %" PRIu64 "; 4 and 6 are known", m.ip_version);
    uint64_t tree_bytes = m.node_count > before ? UINT64_MAX : m.node_count * (m.record_size / 4);

    if (m.node_count >= INT32_MAX || before < SEPARATOR || tree_bytes > before - SEPARATOR)
        return refuse(error, "its metadata names %" PRIu64 " nodes, more than the file has",
                      m.node_count);
    if (before - SEPARATOR - tree_bytes > UINT32_MAX)
        return refuse(error, "it has %" PRIu64 " bytes of data, more than 4 GB", before);
    db->data = (struct rn_mmdb_section){.data = db->tree + tree_bytes + SEPARATOR,
                                        .size = (uint32_t)(before - SEPARATOR - tree_bytes),
                                        .budget = 64 * (uint64_t)size + METADATA_MAX};
    db->node_count = (uint32_t)m.node_count;
    db->record_bits = (unsigned)m.record_size;
    db->ip_version = (unsigned)m.ip_version;
    db->built_s = m.build_epoch;
    return true;
}

/* --- the tree ------------------------------------------------------------------------- */

uint32_t rn_mmdb_child(const struct rn_mmdb *db, uint32_t node, unsigned bit)
{
    const uint8_t *at = db->tree + (size_t)node * (db->record_bits / 4);

    switch (db->record_bits) {
    case 24:
        return read_bytes(at + 3 * bit, 3);
    case 28: /* the byte in the middle has the upper bits of both */
        return read_bytes(at + 4 * bit, 3) | (bit ? at[3] & 15U : (unsigned)at[3] >> 4) << 24;
    default:
        return read_bytes(at + 4 * bit, 4);
    }
}

bool rn_mmdb_record_at(const struct rn_mmdb *db, uint32_t child, uint32_t *at)
{
    uint32_t from = child - db->node_count;

    if (from < SEPARATOR || from - SEPARATOR >= db->data.size)
        return false;
    *at = from - SEPARATOR;
    return true;
}

/* --- records -------------------------------------------------------------------------- */

/* Where databases have a field: by MaxMind and DB-IP, then by IPinfo. */
static const struct {
    const char *key;
    enum rn_geo_field field;
    const char *inner; /* of the map, or of the first map of the list, under the key */
} places[] = {
    {"country", RN_GEO_COUNTRY, "iso_code"},
    {"continent", RN_GEO_CONTINENT, "code"},
    {"subdivisions", RN_GEO_REGION, "iso_code"},
    {"autonomous_system_number", RN_GEO_ASN, ""},
    {"autonomous_system_organization", RN_GEO_ORG, ""},
    {"country_code", RN_GEO_COUNTRY, ""},
    {"continent_code", RN_GEO_CONTINENT, ""},
    {"asn", RN_GEO_ASN, ""},
    {"as_name", RN_GEO_ORG, ""},
};

/* The value `inner` of a map or of the first map in a list. False: damaged. *v is unchanged if it
 * is neither, and of type TYPE_EXTENDED (none) if there is no such value. */
static bool go_inside(struct rn_mmdb_section *s, const char *inner, struct value *v)
{
    struct value found = {.type = TYPE_EXTENDED};
    struct rn_slice key;
    struct items items;
    uint32_t at, next;

    if (v->type == TYPE_ARRAY && v->size != 0 && !decode_target(s, v->next, v, &next))
        return false;
    if (!open_map(s, v, &items))
        return true;
    while (found.type == TYPE_EXTENDED && next_key(&items, &key, &at))
        if (rn_slice_is(key, inner) && !decode_target(s, at, &found, &next))
            return false;
    *v = found;
    return found.type != TYPE_EXTENDED || items.left == 0;
}

/* Stores a text or a number, unless it cannot be what the field should be. */
static void put_field(const struct rn_mmdb_section *s, const struct value *v,
                      enum rn_geo_field field, struct rn_mmdb_record *record)
{
    bool is_code = field == RN_GEO_COUNTRY || field == RN_GEO_CONTINENT;
    struct rn_slice text = {(const char *)s->data + v->at, v->size};
    char digits[24];
    uint64_t number;

    if (read_number(s, v, &number))
        text =
            (struct rn_slice){digits, (size_t)snprintf(digits, sizeof digits, "%" PRIu64, number)};
    else if (v->type != TYPE_STRING)
        return;
    if (field == RN_GEO_ASN && rn_slice_starts_with(text, RN_SLICE("AS")))
        text = (struct rn_slice){text.data + 2, text.len - 2};
    if (record->len[field] != 0 || (is_code && text.len != 2))
        return;
    record->len[field] = (uint8_t)(text.len < RN_GEO_TEXT_MAX ? text.len : RN_GEO_TEXT_MAX);
    memcpy(record->text[field], text.data, record->len[field]);
}

/* Regions are numbered within their country: puts the country before them, as ISO 3166-2 does. */
static void complete_region(struct rn_mmdb_record *record)
{
    char *region = record->text[RN_GEO_REGION];
    uint8_t *len = &record->len[RN_GEO_REGION];

    if (*len == 0 || memchr(region, '-', *len) != NULL)
        return;
    if (record->len[RN_GEO_COUNTRY] == 0 || *len > RN_GEO_TEXT_MAX - 3) {
        *len = 0;
        return;
    }
    memmove(region + 3, region, *len);
    memcpy(region, record->text[RN_GEO_COUNTRY], 2);
    region[2] = '-';
    *len = (uint8_t)(*len + 3);
}

bool rn_mmdb_read(struct rn_mmdb *db, uint32_t at, struct rn_mmdb_record *record)
{
    struct rn_mmdb_section *s = &db->data;
    struct rn_slice key;
    struct items items;
    struct value v;
    uint32_t next;

    memset(record->len, 0, sizeof record->len);
    if (!decode_target(s, at, &v, &next) || !open_map(s, &v, &items))
        return false;
    while (next_key(&items, &key, &at)) {
        size_t i = 0;

        while (i < RN_COUNT(places) && !rn_slice_is(key, places[i].key))
            i++;
        if (i == RN_COUNT(places))
            continue;
        if (!decode_target(s, at, &v, &next) || !go_inside(s, places[i].inner, &v))
            return false;
        put_field(s, &v, places[i].field, record);
    }
    complete_region(record);
    return items.left == 0;
}
