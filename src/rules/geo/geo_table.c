/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/geo/geo_table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/hints.h"
#include "base/siphash.h"

#define LEAF (UINT32_C(1) << 31)
#define TOP (1 << 16)

const char *const rn_geo_table_fields[RN_GEO_FIELDS] = {"country", "continent", "region", "asn",
                                                        "org"};

static const struct rn_hash_key fixed_key = {3, 5}; /* of files that the operator chooses */

/* --- lookups --------------------------------------------------------------------------- */

/* Follows `count` bits, the uppermost first, unless a leaf comes before. */
static inline uint32_t walk(const struct rn_geo_table *t, uint32_t entry, uint64_t bits,
                            unsigned count)
{
    for (; count != 0 && !(entry & LEAF); count--, bits <<= 1)
        entry = t->nodes[entry][bits >> 63];
    return entry;
}

static inline uint64_t load_word(const uint8_t *from)
{
    uint64_t word;

    memcpy(&word, from, sizeof word);
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? __builtin_bswap64(word) : word;
}

RN_HOT struct rn_slice rn_geo_table_find(const struct rn_geo_table *t, const struct rn_ip *ip,
                                         enum rn_geo_field field)
{
    uint64_t high = load_word(ip->bytes);
    uint32_t entry = (ip->bits == 32 ? t->top4 : t->top6)[high >> 48];

    entry = walk(t, entry, high << 16, ip->bits == 32 ? 16 : 48);
    if (ip->bits == 128)
        entry = walk(t, entry, load_word(ip->bytes + 8), 64);
    if (!(entry & LEAF)) /* a damaged tree is deeper than addresses are long */
        return (struct rn_slice){NULL, 0};
    const uint8_t *record = t->records + (entry & ~LEAF);
    const char *text = (const char *)record + RN_GEO_FIELDS;

    for (unsigned i = 0; i < (unsigned)field; i++)
        text += record[i];
    return (struct rn_slice){record[field] != 0 ? text : NULL, record[field]};
}

/* --- compiling ------------------------------------------------------------------------- */

/* Numbers by number, with open addressing. */
struct known {
    struct known_slot {
        uint64_t key; /* plus 1; 0: free */
        uint32_t value;
    } * slots;
    size_t count, room;
};

struct build {
    struct rn_geo_table *table;
    struct rn_mmdb db;
    struct known places; /* where a record is in the file -> in the table */
    struct known hashes; /* of a record -> its place in the table: equal ones are kept once */
    struct rn_buf records;
    struct ration_error *error;
};

static bool grow_known(struct known *known)
{
    struct known old = *known;

    known->room = old.room == 0 ? 1024 : 2 * old.room;
    known->slots = calloc(known->room, sizeof *known->slots);
    if (known->slots == NULL) {
        *known = old;
        return false;
    }
    for (size_t i = 0; i < old.room; i++) {
        size_t at = old.slots[i].key * UINT64_C(0x9E3779B97F4A7C15) >> 20;

        if (old.slots[i].key == 0)
            continue;
        while (known->slots[at & (known->room - 1)].key != 0)
            at++;
        known->slots[at & (known->room - 1)] = old.slots[i];
    }
    free(old.slots);
    return true;
}

/* The slot of a key, which may be free; NULL: out of memory. Whoever fills it counts it. */
static struct known_slot *find_slot(struct known *known, uint64_t key)
{
    if (2 * known->count >= known->room && !grow_known(known))
        return NULL;
    for (size_t at = key * UINT64_C(0x9E3779B97F4A7C15) >> 20;; at++) {
        struct known_slot *slot = &known->slots[at & (known->room - 1)];

        if (slot->key == 0 || slot->key == key)
            return slot;
    }
}

static bool run_out(struct build *b)
{
    rn_error_set(b->error, RATION_ENOMEM, 0, "there is not enough memory for it");
    return false;
}

/* Puts a record into the table, unless it is there. */
static bool keep_record(struct build *b, const struct rn_mmdb_record *record, uint32_t *entry)
{
    size_t begin = b->records.len;
    struct known_slot *slot;

    rn_buf_put(&b->records, record->len, sizeof record->len);
    for (unsigned i = 0; i < RN_GEO_FIELDS; i++)
        rn_buf_put(&b->records, record->text[i], record->len[i]);
    if (b->records.failed || b->records.len >= LEAF)
        return run_out(b);
    uint64_t hash = rn_siphash(&fixed_key, b->records.data + begin, b->records.len - begin);

    slot = find_slot(&b->hashes, hash | 1);
    if (slot == NULL)
        return run_out(b);
    if (slot->key != 0) { /* another record with this hash is not to be expected */
        b->records.len = begin;
        *entry = LEAF | slot->value;
        return true;
    }
    *slot = (struct known_slot){hash | 1, (uint32_t)begin};
    b->hashes.count++;
    for (unsigned i = 0; i < RN_GEO_FIELDS; i++)
        b->table->having[i] += record->len[i] != 0;
    *entry = LEAF | (uint32_t)begin;
    return true;
}

static bool make_entry(struct build *b, uint32_t child, uint32_t *entry)
{
    struct rn_mmdb_record record;
    struct known_slot *slot;
    uint32_t at;

    *entry = child == b->db.node_count ? LEAF : child;
    if (child <= b->db.node_count)
        return true;
    b->table->networks++;
    if (!rn_mmdb_record_at(&b->db, child, &at)) {
        rn_error_set(b->error, RATION_EPARSE, 0, "its search tree points outside of its data");
        return false;
    }
    slot = find_slot(&b->places, (uint64_t)at + 1);
    if (slot == NULL)
        return run_out(b);
    if (slot->key != 0) {
        *entry = LEAF | slot->value;
        return true;
    }
    if (!rn_mmdb_read(&b->db, at, &record)) {
        rn_error_set(b->error, RATION_EPARSE, 0,
                     "the record at byte %" PRIu32 " of its data is damaged", at);
        return false;
    }
    if (!keep_record(b, &record, entry))
        return false;
    *slot = (struct known_slot){(uint64_t)at + 1, *entry & ~LEAF};
    b->places.count++;
    return true;
}

static bool fill_nodes(struct build *b)
{
    struct rn_geo_table *t = b->table;

    for (uint32_t node = 0; node < t->node_count; node++)
        for (unsigned bit = 0; bit < 2; bit++)
            if (!make_entry(b, rn_mmdb_child(&b->db, node, bit), &t->nodes[node][bit]))
                return false;
    return true;
}

/* The first 16 bits of addresses that no country can have: RFC 6890. */
static const struct {
    unsigned from, to;
} local4[] = {{0x0000, 0x00ff}, {0x0a00, 0x0aff}, {0x6440, 0x647f}, {0x7f00, 0x7fff},
              {0xa9fe, 0xa9fe}, {0xac10, 0xac1f}, {0xc0a8, 0xc0a8}, {0xe000, 0xffff}},
  local6[] = {{0x0000, 0x0000}, {0xfc00, 0xffff}};

/* Fills `count` places with what their bits lead to. Recurses at most 16 deep. */
static void fill_top(const struct rn_geo_table *t, uint32_t entry, uint32_t *top, size_t count)
{
    if (count == 1) {
        *top = entry;
    } else if (entry & LEAF) {
        for (size_t i = 0; i < count; i++)
            top[i] = entry;
    } else {
        fill_top(t, t->nodes[entry][0], top, count / 2);
        fill_top(t, t->nodes[entry][1], top + count / 2, count / 2);
    }
}

static void fill_tops(struct rn_geo_table *t, unsigned ip_version)
{
    uint32_t root = t->node_count == 0 ? LEAF : 0;

    fill_top(t, ip_version == 4 ? root : walk(t, walk(t, root, 0, 64), 0, 32), t->top4, TOP);
    fill_top(t, ip_version == 4 ? LEAF : root, t->top6, TOP);
    for (size_t i = 0; i < RN_COUNT(local4); i++)
        for (unsigned n = local4[i].from; n <= local4[i].to; n++)
            t->top4[n] = LEAF;
    for (size_t i = 0; i < RN_COUNT(local6); i++)
        for (unsigned n = local6[i].from; n <= local6[i].to; n++)
            t->top6[n] = LEAF;
}

static bool compile(struct build *b)
{
    static const struct rn_mmdb_record none = {.len = {0}};
    struct rn_geo_table *t = b->table;
    uint32_t entry;

    t->node_count = b->db.node_count;
    t->built_s = b->db.built_s;
    rn_slice_copy(t->title, sizeof t->title, b->db.title);
    t->nodes = malloc(((size_t)t->node_count + 1) * sizeof *t->nodes);
    t->top4 = malloc(TOP * sizeof *t->top4);
    t->top6 = malloc(TOP * sizeof *t->top6);
    if (t->nodes == NULL || t->top4 == NULL || t->top6 == NULL)
        return run_out(b);
    if (!keep_record(b, &none, &entry) || !fill_nodes(b))
        return false;
    fill_tops(t, b->db.ip_version);
    t->records = (uint8_t *)b->records.data;
    t->record_bytes = b->records.len;
    rn_buf_init(&b->records);
    return true;
}

uint64_t rn_geo_table_hash(const void *bytes, size_t size)
{
    return rn_siphash(&fixed_key, bytes, size) | 1;
}

struct rn_geo_table *rn_geo_table_new(const void *bytes, size_t size, struct ration_error *error)
{
    struct build b = {.error = error};
    bool good = false;

    if (!rn_mmdb_open(&b.db, bytes, size, error))
        return NULL;
    b.table = calloc(1, sizeof *b.table);
    if (b.table != NULL) {
        b.table->refs = 1;
        b.table->hash = rn_geo_table_hash(bytes, size);
        good = compile(&b);
    } else {
        run_out(&b);
    }
    free(b.places.slots);
    free(b.hashes.slots);
    rn_buf_done(&b.records);
    if (good)
        return b.table;
    rn_geo_table_free(b.table);
    return NULL;
}

void rn_geo_table_free(struct rn_geo_table *table)
{
    if (table == NULL)
        return;
    free(table->nodes);
    free(table->top4);
    free(table->top6);
    free(table->records);
    free(table);
}
