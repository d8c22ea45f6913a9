/* SPDX-License-Identifier: Apache-2.0 */
/* Networks and sorted sets of them; declared in base/ip.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/ip.h"

/* The number after the slash, 0 to 128; -1: it is not one. */
static int read_prefix(const char *text, size_t len)
{
    int value = 0;

    if (len == 0 || len > 3 || (text[0] == '0' && len > 1))
        return -1;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        value = value * 10 + (text[i] - '0');
    }
    return value <= 128 ? value : -1;
}

/* An IPv4 address may be written as the last 32 of 128 bits; then the prefix counts 128. */
static int set_prefix(struct rn_cidr *cidr, const char *text, size_t len, size_t slash,
                      struct ration_error *error)
{
    int prefix = read_prefix(text + slash + 1, len - slash - 1);
    bool mapped = cidr->network.bits == 32 && memchr(text, ':', slash) != NULL;
    int most = mapped ? 128 : cidr->network.bits;

    if (prefix < 0 || prefix > most)
        return rn_error_set(error, RATION_EPARSE, slash + 1,
                            "expected a number from 0 to %d after the slash, found %s", most,
                            rn_error_quote(text, len, slash + 1).text);
    if (mapped && prefix < 96)
        return rn_error_set(error, RATION_EPARSE, slash + 1,
                            "an IPv4 address written as IPv6 needs a prefix from 96 to 128, found "
                            "%d; write the network as IPv4",
                            prefix);
    cidr->prefix = (uint8_t)(mapped ? prefix - 96 : prefix);
    return 0;
}

int rn_cidr_parse(const char *text, size_t len, struct rn_cidr *cidr, struct ration_error *error)
{
    const char *slash = len > 0 ? memchr(text, '/', len) : NULL;
    size_t address_len = slash == NULL ? len : (size_t)(slash - text);
    struct rn_cidr read;
    char meant[RN_CIDR_TEXT];

    int failed = rn_ip_parse(text, address_len, &read.network, error);
    if (failed)
        return failed;
    read.prefix = read.network.bits;
    if (slash != NULL) {
        failed = set_prefix(&read, text, len, address_len, error);
        if (failed)
            return failed;
    }
    struct rn_ip address = read.network;
    read.network = rn_ip_mask(address, read.prefix);
    if (!rn_ip_equal(&read.network, &address)) {
        rn_cidr_write(&read, meant);
        return rn_error_set(error, RATION_EPARSE, 0,
                            "%s has bits set after its prefix; did you mean %s?",
                            rn_error_quote(text, len, 0).text, meant);
    }
    *cidr = read;
    return 0;
}

size_t rn_cidr_write(const struct rn_cidr *cidr, char out[RN_CIDR_TEXT])
{
    size_t len = rn_ip_write(&cidr->network, out);

    return len + (size_t)snprintf(out + len, RN_CIDR_TEXT - len, "/%u", cidr->prefix);
}

bool rn_cidr_contains(const struct rn_cidr *cidr, const struct rn_ip *ip)
{
    unsigned whole = cidr->prefix / 8, rest = cidr->prefix % 8;

    if (ip->bits != cidr->network.bits || memcmp(ip->bytes, cidr->network.bytes, whole) != 0)
        return false;
    return rest == 0 || ((ip->bytes[whole] ^ cidr->network.bytes[whole]) >> (8 - rest)) == 0;
}

/* By family, then by address. */
static int compare_ips(const struct rn_ip *a, const struct rn_ip *b)
{
    if (a->bits != b->bits)
        return a->bits < b->bits ? -1 : 1;
    return memcmp(a->bytes, b->bytes, sizeof a->bytes);
}

/* The wider of two networks with the same address comes first. */
static int compare_cidrs(const void *left, const void *right)
{
    const struct rn_cidr *a = left, *b = right;
    int order = compare_ips(&a->network, &b->network);

    return order != 0 ? order : (int)a->prefix - (int)b->prefix;
}

/* Two networks are either nested or disjoint. Sorted, a nested one follows the one that
 * contains it, with only nested ones between: so comparing with the last one kept is
 * enough. */
struct rn_cidr_set rn_cidr_set_build(struct rn_cidr *items, size_t count)
{
    size_t kept = 0;

    if (count > 1)
        qsort(items, count, sizeof *items, compare_cidrs);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || !rn_cidr_contains(&items[kept - 1], &items[i].network))
            items[kept++] = items[i];
    return (struct rn_cidr_set){.items = items, .count = kept};
}

bool rn_cidr_set_contains(const struct rn_cidr_set *set, const struct rn_ip *ip)
{
    size_t from = 0,
           to = set->count; /* invariant: the last network not after `ip` is before `to` */

    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (compare_ips(&set->items[middle].network, ip) <= 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from > 0 && rn_cidr_contains(&set->items[from - 1], ip);
}
