/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file format MaxMind DB, version 2 (https://maxmind.github.io/MaxMind-DB/): a search tree over
 * the bits of addresses, records of data, and metadata at the end. Reads from memory, believes
 * nothing, and allocates nothing. One thread at a time.
 */
#ifndef RN_RULES_GEO_MMDB_H
#define RN_RULES_GEO_MMDB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ration/error.h>

#include "base/slice.h"

struct rn_mmdb_section {
    const uint8_t *data;
    uint32_t size;
    uint64_t budget; /* values that may still be read: damaged files must not take for ever */
};

struct rn_mmdb {
    const uint8_t *tree;
    struct rn_mmdb_section data;
    uint32_t node_count;
    unsigned record_bits;  /* 24, 28 or 32: half a node */
    unsigned ip_version;   /* 4 or 6 */
    uint64_t built_s;      /* when it was made, since 1970; 0: not known */
    struct rn_slice title; /* such as GeoLite2-Country */
};

/* The metadata of a file are among its last bytes, not more than these. */
#define RN_MMDB_END_MAX ((size_t)128 * 1024)
/* Whether the end of a file has metadata: a large file that has none need not be read. */
bool rn_mmdb_has_metadata(const void *end, size_t size);
extern const char rn_mmdb_no_metadata[]; /* what is wrong with it then */

/* Checks the metadata and where everything lies. Borrows the bytes. False: `error` says what was
 * found. */
bool rn_mmdb_open(struct rn_mmdb *db, const void *bytes, size_t size, struct ration_error *error);

/* What bit `bit` leads to from a node below node_count. Below node_count: a node. node_count: no
 * record. Above: the record at rn_mmdb_record_at. */
uint32_t rn_mmdb_child(const struct rn_mmdb *db, uint32_t node, unsigned bit);

/* The place of a record in the data section; false: outside of it. */
bool rn_mmdb_record_at(const struct rn_mmdb *db, uint32_t child, uint32_t *at);

/* What rules may ask for, each in a text of its own. */
enum rn_geo_field {
    RN_GEO_COUNTRY,   /* ISO 3166-1: IT */
    RN_GEO_CONTINENT, /* AF AN AS EU NA OC SA */
    RN_GEO_REGION,    /* ISO 3166-2: IT-25 */
    RN_GEO_ASN,       /* 64500 */
    RN_GEO_ORG,       /* the organization behind the asn */
};
#define RN_GEO_FIELDS 5
#define RN_GEO_TEXT_MAX 255 /* longer texts are cut */

struct rn_mmdb_record {
    uint8_t len[RN_GEO_FIELDS]; /* 0: the record does not have it */
    char text[RN_GEO_FIELDS][RN_GEO_TEXT_MAX];
};

/* Reads the fields of a record. False: the record is damaged. */
bool rn_mmdb_read(struct rn_mmdb *db, uint32_t at, struct rn_mmdb_record *record);

#endif
