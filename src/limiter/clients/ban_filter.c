/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bit of a value follows from its text:
 *
 *   a text           its first and last 8 bytes
 *   192.0.2.1        up to the second dot: all networks of 16 bits and more begin so
 *   2001:db8::1      the first two groups, as numbers
 *
 * An address that may be written otherwise passes. Texts that are not addresses may have any bit:
 * no ban of an address concerns them.
 */
#include "limiter/clients/ban_filter.h"

#include <stdio.h>

#include "base/hints.h"

/* Networks with a shorter prefix have no bit. */
#define IPV4_PREFIX 16
#define IPV6_PREFIX 32

#define EACH_BYTE(byte) (UINT64_C(0x0101010101010101) * (byte))

/* --- bits --------------------------------------------------------------------------------- */

static inline uint32_t mix(uint64_t a, uint64_t b)
{
    uint64_t both = a ^ (b << 29 | b >> 35);

    return (uint32_t)(both * UINT64_C(0x9E3779B97F4A7C15) >> (64 - RN_BAN_FILTER_LOG2));
}

/* The first 8 bytes of a text as a number, the first byte lowest. */
static inline uint64_t first_bytes(struct rn_slice text)
{
    uint64_t first = 0;

    if (rn_likely(text.len >= sizeof first)) {
        memcpy(&first, text.data, sizeof first);
        return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? __builtin_bswap64(first) : first;
    }
    for (size_t i = 0; i < text.len; i++)
        first |= (uint64_t)(uint8_t)text.data[i] << 8 * i;
    return first;
}

static inline uint32_t text_bit(struct rn_slice text)
{
    uint64_t last = 0;

    if (rn_likely(text.len >= sizeof last))
        memcpy(&last, text.data + text.len - sizeof last, sizeof last);
    return mix(first_bytes(text), last + text.len);
}

/* False: it is not written as an IPv4 address that begins with a digit. */
static inline bool ipv4_bit(struct rn_slice text, uint32_t *bit)
{
    uint64_t first = first_bytes(text);
    uint64_t no_dots = first ^ EACH_BYTE('.');
    /* The lowest set bits mark the dots; what follows the second one does not matter. */
    uint64_t dots = (no_dots - EACH_BYTE(1)) & ~no_dots & EACH_BYTE(0x80);
    uint64_t second = dots & (dots - 1);
    uint64_t start = first & (second ^ (second - 1));

    *bit = mix(start, 4);
    return second != 0 && (start & 0xff) >= '0' &&
           ((start + EACH_BYTE(0x80 - ':')) & EACH_BYTE(0x80)) == 0;
}

/* A group of an IPv6 address and the colon behind it: its value, or UINT32_MAX if it is none. */
static uint32_t read_group(struct rn_slice text, size_t *at)
{
    uint32_t value = 0;
    size_t start = *at;

    for (; *at < text.len && *at < start + 4; ++*at) {
        unsigned c = (uint8_t)text.data[*at], letter = (c | 0x20) - 'a';
        unsigned digit = c - '0' <= 9 ? c - '0' : letter < 6 ? letter + 10 : 16;

        if (digit == 16)
            break;
        value = value << 4 | digit;
    }
    if (*at == start || *at == text.len || text.data[*at] != ':')
        return UINT32_MAX;
    ++*at;
    return value;
}

/* False: it is not written in full, or may be an IPv4 address in another form. */
static RN_ASIDE bool ipv6_bit(struct rn_slice text, uint32_t *bit)
{
    size_t at = 0;
    uint32_t a = read_group(text, &at), b = read_group(text, &at);

    *bit = mix((uint64_t)a << 16 | b, 6);
    return a != UINT32_MAX && b != UINT32_MAX && (a | b) != 0;
}

struct rn_ban_bit rn_ban_filter_text(struct rn_slice text)
{
    return (struct rn_ban_bit){.at = text_bit(text)};
}

struct rn_ban_bit rn_ban_filter_network(const struct rn_ip *network, uint8_t prefix)
{
    const uint8_t *bytes = network->bytes;
    bool ipv4 = network->bits == 32;
    struct rn_ban_bit bit = {.wide = prefix < (ipv4 ? IPV4_PREFIX : IPV6_PREFIX)};
    char text[RN_IP_TEXT];
    size_t len =
        (size_t)snprintf(text, sizeof text,
                         ipv4 ? "%u.%u.0.0" : "%x:%x:", ipv4 ? bytes[0] : bytes[0] << 8 | bytes[1],
                         ipv4 ? bytes[1] : bytes[2] << 8 | bytes[3]);

    if (!(ipv4 ? ipv4_bit : ipv6_bit)((struct rn_slice){text, len}, &bit.at))
        bit.at = 0; /* an address that always passes */
    return bit;
}

/* --- adding --------------------------------------------------------------------------------- */

void rn_ban_filter_add(struct rn_ban_filter *filter, const struct rn_ban_part *part,
                       struct rn_ban_bit bit)
{
    uint32_t i = 0;

    if (bit.wide)
        __atomic_store_n(&filter->wide, true, __ATOMIC_RELEASE);
    __atomic_fetch_or(&filter->bits[bit.at / 64], UINT64_C(1) << bit.at % 64, __ATOMIC_RELEASE);
    while (i < filter->count && ((filter->parts[i].bits != 0) != (part->bits != 0) ||
                                 !rn_slice_equal(filter->parts[i].name, part->name)))
        i++;
    if (i < filter->count)
        return;
    filter->parts[i] = *part;
    __atomic_store_n(&filter->count, i + 1, __ATOMIC_RELEASE);
}

/* --- asking --------------------------------------------------------------------------------- */

static inline bool passes_address(const struct rn_ban_filter *filter, struct rn_slice text,
                                  uint32_t *bit)
{
    return rn_unlikely(__atomic_load_n(&filter->wide, __ATOMIC_RELAXED)) ||
           (rn_unlikely(!ipv4_bit(text, bit)) && !ipv6_bit(text, bit));
}

/* Names are short: a loop is quicker than memcmp. */
static inline bool is_named(const struct ration_attribute *a, struct rn_slice name)
{
    size_t i = 0;

    if (a->name_len != name.len)
        return false;
    do { /* no name is empty */
        if (a->name[i] != name.data[i])
            return false;
    } while (++i < name.len);
    return true;
}

/* As ban.c finds it. */
static inline struct rn_slice find_value(const struct rn_ban_part *part,
                                         const struct rn_values *values,
                                         const struct ration_request *request)
{
    if (values && part->number != RN_NO_ATTRIBUTE)
        return values->value[part->number];
    if (values && rn_slice_is(part->name, "path"))
        return values->paths.text[0];
    for (size_t i = 0; i < request->count; i++) {
        const struct ration_attribute *a = &request->attributes[i];

        if (is_named(a, part->name) && a->value)
            return (struct rn_slice){a->value, a->value_len};
    }
    return (struct rn_slice){0};
}

RN_HOT bool rn_ban_filter_passes(const struct rn_ban_filter *filter, const struct rn_values *values,
                                 const struct ration_request *request)
{
    uint32_t count = __atomic_load_n(&filter->count, __ATOMIC_ACQUIRE);

    if (values && rn_unlikely(values->paths.count > 1))
        return count != 0; /* it may have other values by other readings */
    for (uint32_t i = 0; i < count; i++) {
        const struct rn_ban_part *part = &filter->parts[i];
        struct rn_slice text = find_value(part, values, request);
        uint32_t bit;

        if (!text.data)
            continue;
        if (part->bits == 0)
            bit = text_bit(text);
        else if (passes_address(filter, text, &bit))
            return true;
        if (__atomic_load_n(&filter->bits[bit / 64], __ATOMIC_RELAXED) >> bit % 64 & 1)
            return true;
    }
    return false;
}
