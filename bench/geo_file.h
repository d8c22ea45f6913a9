/* SPDX-License-Identifier: Apache-2.0 */
/* Networks at random, always the same ones, and a file in the format MaxMind DB that has them. */
#ifndef BENCH_GEO_FILE_H
#define BENCH_GEO_FILE_H

#include <stdbool.h>

#include "base/buf.h"

#define GEO_FILE_RECORDS 50000
#define GEO_FILE_FIRST_ASN 1000 /* of record 0 */

/* An address is the upper half of an IPv6 address, or IPv4 in the upper 32 bits. */
struct network {
    uint64_t address;
    unsigned prefix;
    uint32_t record;
};

struct networks {
    struct network *items;
    size_t count;
};

/* Exits if there is no memory. */
void *geo_file_demand(void *memory);

uint64_t geo_file_random(void);
/* An address that may be in a network or not. */
uint64_t geo_file_address(bool is_ipv6);
/* At most `drawn` networks, sorted, none inside another. */
struct networks geo_file_networks(bool is_ipv6, size_t drawn);
/* The bytes of the file. */
struct rn_buf geo_file_make(const struct networks *v4, const struct networks *v6);

#endif
