/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What looking an address up in a database of networks costs. The database is a file in the format
 * MaxMind DB, made here: more than 500,000 networks of IPv4 and IPv6, 50,000 different records. It
 * is loaded as rules load it. A lookup must take at most 400 ns.
 *
 * Kinds of addresses take turns. A lookup begins when the one before has ended, so that the
 * processor cannot overlap them: a decision has one address, too.
 *
 *   bench-geo
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "geo_file.h"
#include "rules/geo/database.h"
#include "steps.h"

#define GOAL_NS 400
#define ENOUGH 500000
#define DRAWN4 600000 /* networks; those that overlap are dropped */
#define DRAWN6 300000
#define ADDRESSES (1 << 18) /* of each kind */
#define ROUNDS 9
#define STEPPED 200 /* lookups: stepping is slow */
#define LOADS 3
#define COLD_ROUNDS 50
#define COLD_LOOKUPS 16
#define COLD_BYTES ((size_t)64 << 20) /* written between them, to empty the caches */

static unsigned missed;

static void fail(const char *what)
{
    fprintf(stderr, "bench-geo: %s\n", what);
    exit(1);
}

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Writes the file, loads it several times and removes it. */
static struct rn_database *load(const struct rn_buf *file)
{
    char path[] = "/tmp/bench-geo-XXXXXX";
    struct ration_error error = {.text = ""};
    struct rn_database *database = NULL;
    int fd = mkstemp(path);
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
    double best = 1e9;

    if (out == NULL)
        fail("cannot make a file in /tmp");
    bool written = fwrite(file->data, 1, file->len, out) == file->len;

    written &= fclose(out) == 0;
    for (int i = 0; i < LOADS && written; i++) {
        rn_database_close(database);
        double start = seconds();

        database = rn_database_open(path, RN_GEO_ASN, &error);
        double took = seconds() - start;

        best = took < best ? took : best;
    }
    unlink(path);
    if (database == NULL)
        fail(written ? error.text : "cannot write the file in /tmp");
    printf("  %-48s %8.0f ms (file of %.1f MB)\n", "loaded and compiled", best * 1e3,
           (double)file->len / 1e6);
    return database;
}

static size_t table_bytes(const struct rn_geo_table *t)
{
    return t->node_count * sizeof *t->nodes + 2 * (sizeof *t->top4 << 16) + t->record_bytes;
}

/* --- addresses ----------------------------------------------------------------------- */

struct work {
    const char *what;
    const struct rn_geo_table *table;
    struct rn_ip *addresses; /* as many as ADDRESSES */
    double ns[ROUNDS];
};

static struct rn_ip make_ip(uint64_t address, bool is_ipv6)
{
    uint64_t low = is_ipv6 ? geo_file_random() : 0;
    struct rn_ip ip = {.bits = is_ipv6 ? 128 : 32};

    for (unsigned i = 0; i < 8; i++) {
        ip.bytes[i] = (uint8_t)(address >> (56 - 8 * i));
        ip.bytes[8 + i] = (uint8_t)(low >> (56 - 8 * i));
    }
    return ip;
}

static bool is_private(const struct network *n)
{
    unsigned top = (unsigned)(n->address >> 48);

    return top >> 8 == 10 || top >> 8 == 127 || (top & 0xffc0) == 0x6440 || top == 0xa9fe ||
           (top & 0xfff0) == 0xac10 || top == 0xc0a8;
}

/* Of networks at random, each checked to have the record that its network was given. */
static struct work known(const char *what, const struct rn_geo_table *table,
                         const struct networks *networks, bool is_ipv6)
{
    struct work w = {what, table, geo_file_demand(calloc(ADDRESSES, sizeof *w.addresses)), {0}};

    for (size_t i = 0; i < ADDRESSES;) {
        const struct network *n = &networks->items[geo_file_random() % networks->count];
        uint64_t host = geo_file_random() & UINT64_MAX >> n->prefix;
        char asn[12];

        if (!is_ipv6 && is_private(n))
            continue;
        w.addresses[i] = make_ip(n->address | (is_ipv6 ? host : host >> 32 << 32), is_ipv6);
        snprintf(asn, sizeof asn, "%u", GEO_FILE_FIRST_ASN + n->record);
        struct rn_slice found = rn_geo_table_find(table, &w.addresses[i++], RN_GEO_ASN);

        if (found.data == NULL || !rn_slice_is(found, asn))
            fail("an address does not have the record of its network");
    }
    return w;
}

/* Between the networks. */
static struct work unknown(const char *what, const struct rn_geo_table *table, bool is_ipv6)
{
    struct work w = {what, table, geo_file_demand(calloc(ADDRESSES, sizeof *w.addresses)), {0}};

    for (size_t i = 0; i < ADDRESSES;) {
        w.addresses[i] = make_ip(geo_file_address(is_ipv6), is_ipv6);
        i += rn_geo_table_find(table, &w.addresses[i], RN_GEO_ASN).data == NULL;
    }
    return w;
}

/* The first `clients` addresses of the kinds in turn, again and again. */
static struct work mixed(const char *what, const struct work *kinds, size_t count, size_t clients)
{
    struct work w = {
        what, kinds->table, geo_file_demand(calloc(ADDRESSES, sizeof *w.addresses)), {0}};

    for (size_t i = 0; i < ADDRESSES; i++)
        w.addresses[i] = kinds[i % count].addresses[i % clients];
    return w;
}

/* --- measuring ----------------------------------------------------------------------- */

/* Which address is next depends on the answer, though no text is that long. */
static void look_up(void *context, uint64_t count)
{
    const struct work *w = context;
    size_t at = 0;

    for (uint64_t i = 0; i < count; i++) {
        struct rn_slice found = rn_geo_table_find(w->table, &w->addresses[at], RN_GEO_ASN);

        at = (at + 1 + (found.len >> 8)) % ADDRESSES;
    }
}

static int compare_times(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static void report(struct work *w)
{
    double steps = bench_steps(look_up, w, STEPPED);

    qsort(w->ns, ROUNDS, sizeof *w->ns, compare_times);
    bool met = w->ns[0] <= GOAL_NS;

    missed += !met;
    printf("  %-30s %6.0f ns, median %4.0f %6.0f instructions  goal ≤ %d ns  %s\n", w->what,
           w->ns[0], w->ns[ROUNDS / 2], steps, GOAL_NS, met ? "met" : "MISSED");
}

static void measure(struct work *kinds, size_t count)
{
    for (int round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < count; i++) {
            double start = seconds();

            look_up(&kinds[i], ADDRESSES);
            kinds[i].ns[round] = (seconds() - start) * 1e9 / ADDRESSES;
        }
    for (size_t i = 0; i < count; i++)
        report(&kinds[i]);
}

/* A few lookups at a time, after other memory has taken the place of the table in the caches. */
static void measure_cold(const struct work *all)
{
    volatile uint8_t *other = geo_file_demand(calloc(1, COLD_BYTES));
    double ns[COLD_ROUNDS];

    for (size_t round = 0; round < COLD_ROUNDS; round++) {
        struct work part = *all;

        part.addresses += round * COLD_LOOKUPS;
        for (size_t i = 0; i < COLD_BYTES; i += 64)
            other[i]++;
        double start = seconds();

        look_up(&part, COLD_LOOKUPS);
        ns[round] = (seconds() - start) * 1e9 / COLD_LOOKUPS;
    }
    qsort(ns, COLD_ROUNDS, sizeof *ns, compare_times);
    printf("  %-30s %6.0f ns, median %4.0f\n", "all in turn, empty caches", ns[0],
           ns[COLD_ROUNDS / 2]);
    free((void *)other);
}

int main(void)
{
    struct networks v4 = geo_file_networks(false, DRAWN4), v6 = geo_file_networks(true, DRAWN6);
    struct rn_buf file = geo_file_make(&v4, &v6);

    setvbuf(stdout, NULL, _IOLBF, 0); /* or children would print it again */
    printf("%zu networks of IPv4, %zu of IPv6\n", v4.count, v6.count);
    struct rn_database *database = load(&file);
    const struct rn_geo_table *table = rn_database_ref_table(database);

    if (table->networks < ENOUGH || table->networks != v4.count + v6.count)
        fail("the table does not have the networks of the file");
    printf("  %-48s %8.1f MB, %u nodes\n", "in memory", (double)table_bytes(table) / 1e6,
           table->node_count);
    struct work kinds[6] = {
        known("IPv4, in a network", table, &v4, false), unknown("IPv4, in none", table, false),
        known("IPv6, in a network", table, &v6, true), unknown("IPv6, in none", table, true)};

    kinds[4] = mixed("all in turn", kinds, 4, ADDRESSES);
    kinds[5] = mixed("the same, only 1,000 clients", kinds, 4, 1000);
    puts("one lookup");
    measure(kinds, RN_COUNT(kinds));
    measure_cold(&kinds[4]);
    for (size_t i = 0; i < RN_COUNT(kinds); i++)
        free(kinds[i].addresses);
    rn_database_unref_table(table);
    rn_database_close(database);
    rn_buf_done(&file);
    free(v4.items);
    free(v6.items);
    printf(missed ? "%u goals missed\n" : "all goals met\n", missed);
    return 0;
}
