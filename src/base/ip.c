/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses: parsing, formatting, masking. Networks are in cidr.c.
 *
 * The parsers below return NULL, or a constant text that says what is wrong: no message is
 * built on the busy path, where headers of clients are parsed.
 */
#include "base/ip.h"

#include <string.h>

#include "base/error.h"

#define EXAMPLES "write for example 192.0.2.1 or 2001:db8::1"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static const char *read_ipv4(const char *text, size_t len, uint8_t out[4])
{
    size_t at = 0;

    for (int part = 0; part < 4; part++) {
        unsigned value = 0, digit;
        if (part > 0 && (at >= len || text[at++] != '.'))
            return "IPv4 has four parts";
        size_t start = at, end = len - at < 4 ? len : at + 4;
        for (; at < end && (digit = (unsigned)text[at] - '0') <= 9; at++)
            value = value * 10 + digit;
        if (at == start)
            return "a part that is not a number";
        if (text[start] == '0' && at - start > 1)
            return "a part that begins with 0";
        if (value > 255)
            return "a part above 255";
        out[part] = (uint8_t)value;
    }
    return at == len ? NULL : "more than an address";
}

static int hex_value(char c)
{
    if (is_digit(c))
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The part of an IPv6 address parsed so far. */
struct groups {
    uint8_t bytes[16];
    size_t used;   /* bytes */
    size_t break_; /* where "::" stands, SIZE_MAX: nowhere */
};

/* One group, or at the end an IPv4 address, at text[*at]. */
static const char *read_group(const char *text, size_t len, size_t *at, struct groups *g)
{
    size_t start = *at, end = start;
    unsigned value = 0;

    for (; end < len && end - start < 5 && hex_value(text[end]) >= 0; end++)
        value = value << 4 | (unsigned)hex_value(text[end]);
    if (end < len && text[end] == '.') {
        if (g->used > 12)
            return "more than eight groups";
        const char *wrong = read_ipv4(text + start, len - start, g->bytes + g->used);
        g->used += 4;
        *at = len;
        return wrong;
    }
    if (end == start)
        return end < len && text[end] != ':' ? "a character that is not allowed" : "an empty group";
    if (end - start > 4)
        return "a group of more than four digits";
    if (g->used > 14)
        return "more than eight groups";
    g->bytes[g->used++] = (uint8_t)(value >> 8);
    g->bytes[g->used++] = (uint8_t)value;
    *at = end;
    return NULL;
}

/* "::" at text[*at]. */
static const char *read_break(size_t *at, struct groups *g)
{
    if (g->break_ != SIZE_MAX)
        return "\"::\" twice";
    g->break_ = g->used;
    *at += 2;
    return NULL;
}

static bool is_break(const char *text, size_t len, size_t at)
{
    return len - at >= 2 && text[at] == ':' && text[at + 1] == ':';
}

static const char *read_groups(const char *text, size_t len, struct groups *g)
{
    const char *wrong = NULL;
    size_t at = 0;

    if (is_break(text, len, at))
        wrong = read_break(&at, g);
    while (wrong == NULL && at < len) {
        wrong = read_group(text, len, &at, g);
        if (wrong != NULL || at == len)
            break;
        if (is_break(text, len, at))
            wrong = read_break(&at, g);
        else if (text[at] != ':')
            wrong = "a character that is not allowed";
        else if (++at == len)
            wrong = "an empty group";
    }
    return wrong;
}

static const char *read_ipv6(const char *text, size_t len, uint8_t out[16])
{
    struct groups g = {.break_ = SIZE_MAX};

    if (memchr(text, '%', len) != NULL)
        return "a zone means nothing to other machines";
    const char *wrong = read_groups(text, len, &g);
    if (wrong != NULL)
        return wrong;
    if (g.break_ == SIZE_MAX && g.used < 16)
        return "fewer than eight groups";
    if (g.break_ != SIZE_MAX && g.used == 16)
        return "\"::\" that stands for nothing";
    memset(out, 0, 16);
    size_t head = g.break_ == SIZE_MAX ? 16 : g.break_, tail = g.used - head;
    memcpy(out, g.bytes, head);
    memcpy(out + 16 - tail, g.bytes + head, tail);
    return NULL;
}

static const char *read_ip(const char *text, size_t len, struct rn_ip *ip)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff}; /* RFC 4291, 2.5.5.2 */
    struct rn_ip read = {.bits = 32};
    const char *wrong;

    if (len == 0)
        return "there is nothing";
    if (memchr(text, ':', len) == NULL) {
        wrong = read_ipv4(text, len, read.bytes);
    } else {
        read.bits = 128;
        wrong = read_ipv6(text, len, read.bytes);
        if (wrong == NULL && memcmp(read.bytes, mapped, sizeof mapped) == 0) {
            uint8_t four[4];
            memcpy(four, read.bytes + 12, 4);
            read = (struct rn_ip){.bits = 32};
            memcpy(read.bytes, four, 4);
        }
    }
    if (wrong == NULL)
        *ip = read;
    return wrong;
}

static int fail_on(const char *text, size_t len, const char *wrong, struct ration_error *error)
{
    if (error == NULL)
        return RATION_EPARSE;
    return rn_error_set(error, RATION_EPARSE, 0, "%s is not an IP address (%s); " EXAMPLES,
                        rn_error_quote(text, len, 0).text, wrong);
}

int rn_ip_parse(const char *text, size_t len, struct rn_ip *ip, struct ration_error *error)
{
    const char *wrong = read_ip(text, len, ip);

    return wrong == NULL ? 0 : fail_on(text, len, wrong, error);
}

static bool is_port(const char *text, size_t len)
{
    unsigned value = 0;

    for (size_t i = 0; i < len; i++) {
        if (!is_digit(text[i]) || i == 5)
            return false;
        value = value * 10 + (unsigned)(text[i] - '0');
    }
    return len > 0 && value <= 65535;
}

/* After trimming. Without brackets, one colon separates a port and several are IPv6. */
static const char *read_host(const char *text, size_t len, struct rn_ip *ip)
{
    if (len == 0)
        return "there is nothing";
    const char *end = text + len;
    if (text[0] == '[') {
        const char *close = memchr(text, ']', len);
        if (close == NULL)
            return "a bracket that is not closed";
        if (memchr(text, ':', (size_t)(close - text)) == NULL)
            return "brackets are for IPv6";
        if (close + 1 != end && (close[1] != ':' || !is_port(close + 2, (size_t)(end - close) - 2)))
            return "a port that is not one";
        return read_ip(text + 1, (size_t)(close - text) - 1, ip);
    }
    const char *port = memchr(text, ':', len);
    if (port == NULL || memchr(port + 1, ':', (size_t)(end - port) - 1) != NULL)
        return read_ip(text, len, ip);
    if (!is_port(port + 1, (size_t)(end - port) - 1))
        return "a port that is not one";
    return read_ip(text, (size_t)(port - text), ip);
}

int rn_ip_parse_host(const char *text, size_t len, struct rn_ip *ip, struct ration_error *error)
{
    struct rn_ip plain = {.bits = 32};

    if (len > 0 && is_digit(text[0]) && read_ipv4(text, len, plain.bytes) == NULL) {
        *ip = plain; /* most addresses: nothing to trim, no port */
        return 0;
    }
    while (len > 0 && (text[0] == ' ' || text[0] == '\t'))
        text++, len--;
    while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\t'))
        len--;
    const char *wrong = read_host(text, len, ip);
    return wrong == NULL ? 0 : fail_on(text, len, wrong, error);
}

static unsigned group_at(const struct rn_ip *ip, unsigned i)
{
    return (unsigned)ip->bytes[2 * i] << 8 | ip->bytes[2 * i + 1];
}

/* The first of the longest runs of at least two zero groups. */
static unsigned longest_run(const struct rn_ip *ip, unsigned *length)
{
    unsigned best = 8;

    *length = 1;
    for (unsigned i = 0; i < 8; i++) {
        unsigned run = 0;
        while (i + run < 8 && group_at(ip, i + run) == 0)
            run++;
        if (run > *length) {
            best = i;
            *length = run;
        }
        i += run;
    }
    return best;
}

/* Without printf: this runs for every request from an IPv6 address. */
size_t rn_ip_write(const struct rn_ip *ip, char out[RN_IP_TEXT])
{
    unsigned run_length, run = longest_run(ip, &run_length);
    char *end = out;

    for (unsigned i = 0; ip->bits == 32 && i < 4; i++) {
        unsigned byte = ip->bytes[i];

        if (i != 0)
            *end++ = '.';
        if (byte >= 100)
            *end++ = (char)('0' + byte / 100);
        if (byte >= 10)
            *end++ = (char)('0' + byte / 10 % 10);
        *end++ = (char)('0' + byte % 10);
    }
    for (unsigned i = 0; ip->bits != 32 && i < 8; i++) {
        if (i != 0 || run == 0)
            *end++ = ':';
        if (i == run) {
            i += run_length - 1;
            if (i == 7)
                *end++ = ':';
            continue;
        }
        for (unsigned group = group_at(ip, i), shift = 16; shift > 0; shift -= 4)
            if (shift == 4 || group >> (shift - 4) != 0)
                *end++ = "0123456789abcdef"[group >> (shift - 4) & 15];
    }
    *end = '\0';
    return (size_t)(end - out);
}

bool rn_ip_equal(const struct rn_ip *a, const struct rn_ip *b)
{
    return a->bits == b->bits && memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

struct rn_ip rn_ip_mask(struct rn_ip ip, unsigned prefix)
{
    if (prefix >= ip.bits)
        return ip;
    unsigned last = prefix / 8;

    ip.bytes[last] &= (uint8_t)(0xff00U >> prefix % 8);
    memset(ip.bytes + last + 1, 0, sizeof ip.bytes - 1 - last);
    return ip;
}
