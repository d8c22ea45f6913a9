/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internet addresses and networks as text and as values.
 *
 * Reading is strict: what two programs could understand differently is refused
 * (010.0.0.1, 10.1, fe80::1%eth0). An IPv4 address written as IPv6
 * (::ffff:192.0.2.1) is that IPv4 address. The two families never contain each
 * other: ::/0 is every IPv6 address and no other.
 */
#ifndef RN_BASE_IP_H
#define RN_BASE_IP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ration/error.h>

struct rn_ip {
    uint8_t bytes[16]; /* network order; of IPv4 the first four, the rest is 0 */
    uint8_t bits;      /* 32 or 128 */
};

/* The whole text is one address. RATION_EPARSE otherwise, with `error` filled
 * (may be NULL) and `ip` untouched. */
int rn_ip_parse(const char *text, size_t len, struct rn_ip *ip, struct ration_error *error);

/* An address as it stands in X-Forwarded-For: spaces and tabs around it, a port
 * behind it (192.0.2.1:80, [2001:db8::1]:80) and the brackets of IPv6 are
 * allowed and dropped. */
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

/* 10.0.0.0/8, or an address alone, which is a network of one. Bits set behind
 * the prefix are an error that names the network meant. */
int rn_cidr_parse(const char *text, size_t len, struct rn_cidr *cidr, struct ration_error *error);

/* 10.0.0.0/8, also for a network of one. Terminated; returns the length. */
#define RN_CIDR_TEXT (RN_IP_TEXT + 4)
size_t rn_cidr_write(const struct rn_cidr *cidr, char out[RN_CIDR_TEXT]);

bool rn_cidr_contains(const struct rn_cidr *cidr, const struct rn_ip *ip);

/* Networks, sorted, none inside another. */
struct rn_cidr_set {
    const struct rn_cidr *items; /* the caller's memory */
    size_t count;
};

/* Sorts the items in place, drops those inside others, and borrows the rest for
 * as long as the set is used. */
struct rn_cidr_set rn_cidr_set_build(struct rn_cidr *items, size_t count);

/* Takes log2(count) comparisons. */
bool rn_cidr_set_contains(const struct rn_cidr_set *set, const struct rn_ip *ip);

#endif
