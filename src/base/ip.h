/* SPDX-License-Identifier: Apache-2.0 */
/*
 * IP addresses and networks: parsing, formatting, sets.
 *
 * Parsing is strict: it refuses text that programs understand differently (010.0.0.1, 10.1,
 * fe80::1%eth0). An IPv4-mapped address (::ffff:192.0.2.1) becomes the IPv4 address. Neither
 * family contains the other: ::/0 contains no IPv4 address.
 */
#ifndef RN_BASE_IP_H
#define RN_BASE_IP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ration/error.h>

struct rn_ip {
    uint8_t bytes[16]; /* network order; IPv4 uses the first four, the rest is 0 */
    uint8_t bits;      /* 32 or 128 */
};

/* The whole text must be one address. RATION_EPARSE otherwise, with `error` (may be NULL);
 * `ip` is then untouched. */
int rn_ip_parse(const char *text, size_t len, struct rn_ip *ip, struct ration_error *error);

/* An address as in X-Forwarded-For: allows and drops spaces and tabs around it, a port
 * (192.0.2.1:80, [2001:db8::1]:80) and brackets. */
int rn_ip_parse_host(const char *text, size_t len, struct rn_ip *ip, struct ration_error *error);

/* The canonical form (RFC 5952): lower case, the longest run of zeros as "::".
 * Terminated; returns the length. */
#define RN_IP_TEXT 40
size_t rn_ip_write(const struct rn_ip *ip, char out[RN_IP_TEXT]);

bool rn_ip_equal(const struct rn_ip *a, const struct rn_ip *b);

/* The address with all bits after the first `prefix` cleared; a prefix of
 * ip.bits or more changes nothing. */
struct rn_ip rn_ip_mask(struct rn_ip ip, unsigned prefix);

/* A network: `prefix` is at most network.bits, the bits after it are 0. */
struct rn_cidr {
    struct rn_ip network;
    uint8_t prefix;
};

/* 10.0.0.0/8, or an address alone: a network of one. Bits set after the prefix are an error
 * that names the network probably meant. */
int rn_cidr_parse(const char *text, size_t len, struct rn_cidr *cidr, struct ration_error *error);

/* Always with a prefix. Terminated; returns the length. */
#define RN_CIDR_TEXT (RN_IP_TEXT + 4)
size_t rn_cidr_write(const struct rn_cidr *cidr, char out[RN_CIDR_TEXT]);

bool rn_cidr_contains(const struct rn_cidr *cidr, const struct rn_ip *ip);

/* Networks, sorted, none inside another. */
struct rn_cidr_set {
    const struct rn_cidr *items; /* the caller's memory */
    size_t count;
};

/* Sorts the items in place and drops those inside others. The set borrows them. */
struct rn_cidr_set rn_cidr_set_build(struct rn_cidr *items, size_t count);

/* Takes log2(count) comparisons. */
bool rn_cidr_set_contains(const struct rn_cidr_set *set, const struct rn_ip *ip);

#endif
