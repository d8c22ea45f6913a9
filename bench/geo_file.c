/* SPDX-License-Identifier: Apache-2.0 */
#include "geo_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALLOCATIONS 20000 /* of IPv6: a /32 each, in which networks lie */

void *geo_file_demand(void *memory)
{
    if (memory == NULL) {
        fputs("bench-geo: out of memory\n", stderr);
        exit(1);
    }
    return memory;
}

/* splitmix64: the same numbers in each run. */
static uint64_t mix(uint64_t n)
{
    n = (n ^ n >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    n = (n ^ n >> 27) * UINT64_C(0x94d049bb133111eb);
    return n ^ n >> 31;
}

uint64_t geo_file_random(void)
{
    static uint64_t state;

    return mix(state += UINT64_C(0x9e3779b97f4a7c15));
}

/* --- networks ------------------------------------------------------------------------ */

/* 1.0.0.0 to 223.255.255.255; the private ones among them have no record. */
static uint64_t draw_address4(void)
{
    return ((1 + geo_file_random() % 223) << 24 | (geo_file_random() & 0xffffff)) << 32;
}

/* In one of the allocations, which lie in the blocks that registries have. */
static uint64_t draw_address6(void)
{
    static const uint64_t blocks[] = {0x200, 0x240, 0x260, 0x280, 0x2a0, 0x2c0};
    uint64_t place = mix(geo_file_random() % ALLOCATIONS + 1);

    return blocks[place % RN_COUNT(blocks)] << 52 | (place >> 44) << 32 | geo_file_random() >> 32;
}

uint64_t geo_file_address(bool is_ipv6)
{
    return is_ipv6 ? draw_address6() : draw_address4();
}

/* Mostly 18 to 24 for IPv4 and 36 to 48 for IPv6, an eighth up to 32 and 56. */
static unsigned draw_prefix(bool is_ipv6)
{
    bool is_small = geo_file_random() % 8 == 0;

    if (is_ipv6)
        return (unsigned)(is_small ? 49 + geo_file_random() % 8 : 36 + geo_file_random() % 13);
    return (unsigned)(is_small ? 25 + geo_file_random() % 8 : 18 + geo_file_random() % 7);
}

static int compare_networks(const void *a, const void *b)
{
    const struct network *x = a, *y = b;

    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    return (int)x->prefix - (int)y->prefix;
}

struct networks geo_file_networks(bool is_ipv6, size_t drawn)
{
    struct networks all = {geo_file_demand(calloc(drawn, sizeof *all.items)), 0};
    uint64_t free_from = 0;

    for (size_t i = 0; i < drawn; i++) {
        struct network *n = &all.items[i];

        n->prefix = draw_prefix(is_ipv6);
        n->address = (geo_file_address(is_ipv6)) & ~(UINT64_MAX >> n->prefix);
        n->record = (uint32_t)(geo_file_random() % GEO_FILE_RECORDS);
    }
    qsort(all.items, drawn, sizeof *all.items, compare_networks);
    for (size_t i = 0; i < drawn; i++) {
        struct network n = all.items[i];

        if (n.address < free_from)
            continue;
        free_from = (n.address | UINT64_MAX >> n.prefix) + 1;
        all.items[all.count++] = n;
    }
    return all;
}

/* --- the file ------------------------------------------------------------------------ */

enum { TYPE_TEXT = 2, TYPE_U16 = 5, TYPE_U32 = 6, TYPE_MAP = 7, TYPE_U64 = 9, TYPE_LIST = 11 };

#define NONE UINT32_MAX
#define RECORD (UINT32_C(1) << 31) /* and its number */

struct tree {
    uint32_t (*nodes)[2]; /* the number of a node, a record, or NONE */
    uint32_t count, room;
};

static uint32_t add_node(struct tree *t)
{
    if (t->count == t->room) {
        t->room = 2 * t->room + 1024;
        t->nodes = geo_file_demand(realloc(t->nodes, t->room * sizeof *t->nodes));
    }
    t->nodes[t->count][0] = t->nodes[t->count][1] = NONE;
    return t->count++;
}

/* Networks come in order, so that nodes are numbered from the root downwards, 0 before 1. */
static void add_network(struct tree *t, const struct network *n, unsigned zeros)
{
    uint32_t at = 0;

    for (unsigned i = 0; i < zeros + n->prefix; i++) {
        unsigned bit = i < zeros ? 0 : n->address >> (63 - (i - zeros)) & 1;

        if (i + 1 == zeros + n->prefix) {
            t->nodes[at][bit] = RECORD | n->record;
            return;
        }
        if (t->nodes[at][bit] == NONE) {
            uint32_t below = add_node(t);

            t->nodes[at][bit] = below;
        }
        at = t->nodes[at][bit];
    }
}

static void put_big_endian(struct rn_buf *file, uint64_t n, unsigned bytes)
{
    while (bytes-- > 0)
        rn_buf_put_char(file, (char)(n >> 8 * bytes));
}

static void put_head(struct rn_buf *file, unsigned type, size_t size)
{
    rn_buf_put_char(file, (char)((type > 7 ? 0 : type << 5) | (size < 29 ? size : 29)));
    if (type > 7)
        rn_buf_put_char(file, (char)(type - 7));
    if (size >= 29)
        rn_buf_put_char(file, (char)(size - 29));
}

static void put_text(struct rn_buf *file, const char *text)
{
    put_head(file, TYPE_TEXT, strlen(text));
    rn_buf_put(file, text, strlen(text));
}

static void put_number(struct rn_buf *file, const char *key, unsigned type, uint64_t n)
{
    unsigned bytes = type == TYPE_U16 ? 2 : type == TYPE_U32 ? 4 : 8;

    put_text(file, key);
    put_head(file, type, bytes);
    put_big_endian(file, n, bytes);
}

static void put_code(struct rn_buf *file, const char *key, const char *code)
{
    put_head(file, TYPE_MAP, 1);
    put_text(file, key);
    put_text(file, code);
}

static void put_record(struct rn_buf *file, unsigned number)
{
    static const char *const continents[] = {"AF", "AS", "EU", "NA", "OC", "SA"};
    char country[] = {(char)('A' + number % 26), (char)('A' + number / 26 % 10), '\0'};
    char region[8], org[40];

    snprintf(region, sizeof region, "%u", number % 90 + 10);
    snprintf(org, sizeof org, "Example Networks %u", number);
    put_head(file, TYPE_MAP, 5);
    put_text(file, "continent");
    put_code(file, "code", continents[number % RN_COUNT(continents)]);
    put_text(file, "country");
    put_code(file, "iso_code", country);
    put_text(file, "subdivisions");
    put_head(file, TYPE_LIST, 1);
    put_code(file, "iso_code", region);
    put_number(file, "autonomous_system_number", TYPE_U32, GEO_FILE_FIRST_ASN + number);
    put_text(file, "autonomous_system_organization");
    put_text(file, org);
}

static void put_metadata(struct rn_buf *file, uint32_t nodes)
{
    rn_buf_put_literal(file, "\xab\xcd\xefMaxMind.com");
    put_head(file, TYPE_MAP, 7);
    put_number(file, "binary_format_major_version", TYPE_U16, 2);
    put_number(file, "binary_format_minor_version", TYPE_U16, 0);
    put_number(file, "build_epoch", TYPE_U64, 1700000000);
    put_text(file, "database_type");
    put_text(file, "Bench-City-ASN");
    put_number(file, "ip_version", TYPE_U16, 6);
    put_number(file, "node_count", TYPE_U32, nodes);
    put_number(file, "record_size", TYPE_U16, 32);
}

static void put_tree(struct rn_buf *file, const struct tree *t, const uint32_t *places)
{
    for (uint32_t node = 0; node < t->count; node++)
        for (unsigned bit = 0; bit < 2; bit++) {
            uint32_t to = t->nodes[node][bit];

            if (to == NONE)
                to = t->count;
            else if (to & RECORD)
                to = t->count + 16 + places[to & ~RECORD];
            put_big_endian(file, to, 4);
        }
}

struct rn_buf geo_file_make(const struct networks *v4, const struct networks *v6)
{
    uint32_t *places = geo_file_demand(calloc(GEO_FILE_RECORDS, sizeof *places));
    struct rn_buf file = {0}, data = {0};
    struct tree tree = {0};

    add_node(&tree);
    for (size_t i = 0; i < v4->count; i++)
        add_network(&tree, &v4->items[i], 96);
    for (size_t i = 0; i < v6->count; i++)
        add_network(&tree, &v6->items[i], 0);
    for (unsigned i = 0; i < GEO_FILE_RECORDS; i++) {
        places[i] = (uint32_t)data.len;
        put_record(&data, i);
    }
    put_tree(&file, &tree, places);
    put_big_endian(&file, 0, 8);
    put_big_endian(&file, 0, 8);
    rn_buf_put_slice(&file, rn_buf_slice(&data));
    put_metadata(&file, tree.count);
    geo_file_demand(file.failed || data.failed ? NULL : file.data);
    rn_buf_done(&data);
    free(tree.nodes);
    free(places);
    return file;
}
