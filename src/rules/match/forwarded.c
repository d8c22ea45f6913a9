/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads forwarding headers backwards: each proxy appends the address it sees, so the nearest proxy
 * wrote the right end. Reading backwards also makes quotes harmless: if read forwards, a quote that
 * a client opens and never closes would hide what the proxies append.
 *
 * Empty elements are skipped (RFC 9110 5.6.1.2). An element that is no address
 * (unknown, _hidden, garbage) ends the walk: the author of
 * the elements to its left is unknown.
 */
#include "rules/match/forwarded.h"

#define LONGEST 64 /* bytes of an address with a port; more is none */

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

/* The quote that opens the string which text[end] closes; `end` if none does. */
static size_t opening_quote(struct rn_slice text, size_t end)
{
    for (size_t i = end; i-- > 0;) {
        size_t slashes = 0;

        if (text.data[i] != '"')
            continue;
        while (slashes < i && text.data[i - slashes - 1] == '\\')
            slashes++;
        if (slashes % 2 == 0)
            return i;
        i -= slashes; /* escaped: part of the string */
    }
    return end;
}

/* Cuts the last element off a list; separators within quotes are not any. After
 * a quote that nothing opens, quotes mean nothing, which also keeps this linear. */
static struct rn_slice take_last(struct rn_slice *list, char separator, bool quotes)
{
    size_t begin = list->len;

    while (begin > 0 && list->data[begin - 1] != separator) {
        size_t end = --begin;

        if (quotes && list->data[end] == '"') {
            begin = opening_quote(*list, end);
            quotes = begin != end;
        }
    }
    struct rn_slice last = {list->data + begin, list->len - begin};

    list->len = begin > 0 ? begin - 1 : 0;
    for (; last.len > 0 && is_space(last.data[0]); last.len--)
        last.data++;
    while (last.len > 0 && is_space(last.data[last.len - 1]))
        last.len--;
    return last;
}

/* The node that an element of Forwarded is for; empty if it names none, or two. */
static struct rn_slice for_of(struct rn_slice element)
{
    struct rn_slice node = {NULL, 0};

    while (element.len > 0) {
        struct rn_slice pair = take_last(&element, ';', true);

        if (pair.len < 4 || (pair.data[0] | 0x20) != 'f' || (pair.data[1] | 0x20) != 'o' ||
            (pair.data[2] | 0x20) != 'r' || pair.data[3] != '=') /* no space before = */
            continue;
        if (node.data)
            return (struct rn_slice){NULL, 0};
        node = (struct rn_slice){pair.data + 4, pair.len - 4};
        if (node.len >= 2 && node.data[0] == '"' && node.data[node.len - 1] == '"')
            node = (struct rn_slice){node.data + 1, node.len - 2};
    }
    return node;
}

bool rn_forwarded_walk(struct rn_forwarded *walk, struct rn_slice value)
{
    while (value.len > 0) {
        if (!rn_cidr_set_contains(walk->trusted, &walk->client))
            return false;
        if (walk->hops++ >= RN_FORWARDED_HOPS)
            return false;
        struct rn_slice element = take_last(&value, ',', walk->rfc7239);

        if (element.len == 0)
            continue;
        if (walk->rfc7239)
            element = for_of(element);
        if (element.len == 0 || element.len > LONGEST ||
            rn_ip_parse_host(element.data, element.len, &walk->client, NULL) != 0)
            return false;
    }
    return rn_cidr_set_contains(walk->trusted, &walk->client);
}
