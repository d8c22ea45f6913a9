/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Networks and what is known of them, compiled from a MaxMind DB for lookups of at most a few
 * hundred nanoseconds. Immutable: any number of threads may read it.
 *
 *   top4, top6   for each value of the first 16 bits of an address: where to go on
 *   nodes        two entries each, for the next bit 0 and 1
 *   entry        the number of a node, or LEAF and the place of a record
 *   record       five lengths, then five texts: one cache line, mostly; the one at 0 has none
 *
 * Addresses that are not on the public Internet (private, loopback, link-local, multicast) have no
 * record, whatever the file says.
 */
#ifndef RN_RULES_GEO_GEO_TABLE_H
#define RN_RULES_GEO_GEO_TABLE_H

#include "base/ip.h"
#include "rules/geo/mmdb.h"

#define RN_GEO_TITLE 64

struct rn_geo_table {
    uint32_t (*nodes)[2];
    uint32_t *top4, *top6;
    uint8_t *records;
    size_t record_bytes;
    uint32_t node_count;
    uint64_t networks;              /* entries that lead to a record */
    uint64_t having[RN_GEO_FIELDS]; /* different records that have the field */
    uint64_t built_s;               /* when the database was made */
    uint64_t hash;                  /* of the file */
    char title[RN_GEO_TITLE];       /* the database's own, such as GeoLite2-Country; cut to fit */
    unsigned refs;                  /* of database.c, under its lock */
};

/* Compiles a file, whose bytes are not needed afterwards. NULL: `error` says why. The caller owns
 * the table. */
struct rn_geo_table *rn_geo_table_new(const void *bytes, size_t size, struct ration_error *error);
void rn_geo_table_free(struct rn_geo_table *table);

/* Tells files apart, as table->hash does; not 0. */
uint64_t rn_geo_table_hash(const void *bytes, size_t size);

/* The field of the network that has the address; data NULL: it is not known. Lives as long as the
 * table. */
struct rn_slice rn_geo_table_find(const struct rn_geo_table *table, const struct rn_ip *ip,
                                  enum rn_geo_field field);

/* The names of the fields in rules. */
extern const char *const rn_geo_table_fields[RN_GEO_FIELDS];

#endif
