/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Choosing a format by an Accept header: one pass, whatever the header is like.
 */
#include <string.h>
#include <strings.h>

#include "wire/publish/publish_internal.h"

const char *const rn_publish_types[RN_PUBLISH_FORMATS] = {
    [RN_PUBLISH_HTML] = "text/html; charset=utf-8",
    [RN_PUBLISH_MARKDOWN] = "text/markdown; charset=utf-8",
    [RN_PUBLISH_JSON] = "application/json",
};

/* In the order of preference where a header leaves the choice. */
static const enum rn_publish_format preferred[RN_PUBLISH_FORMATS] = {
    RN_PUBLISH_MARKDOWN, RN_PUBLISH_HTML, RN_PUBLISH_JSON};

static struct rn_slice trim(struct rn_slice s)
{
    while (s.len != 0 && (s.data[0] == ' ' || s.data[0] == '\t'))
        s.data++, s.len--;
    while (s.len != 0 && (s.data[s.len - 1] == ' ' || s.data[s.len - 1] == '\t'))
        s.len--;
    return s;
}

/* Cuts the part before `mark` from *rest. */
static struct rn_slice cut(struct rn_slice *rest, char mark)
{
    const char *at = rest->len != 0 ? memchr(rest->data, mark, rest->len) : NULL;
    struct rn_slice part = {rest->data, at ? (size_t)(at - rest->data) : rest->len};
    size_t used = part.len + (at != NULL);

    rest->data = rest->len != 0 ? rest->data + used : rest->data;
    rest->len -= used;
    return trim(part);
}

/* q=0.5 as thousandths; 1000 for what is no weight. */
static unsigned weight_of(struct rn_slice parameters)
{
    while (parameters.len != 0) {
        struct rn_slice p = cut(&parameters, ';');
        unsigned weight, unit = 100;

        if (p.len < 3 || (p.data[0] | 0x20) != 'q' || p.data[1] != '=' ||
            (p.data[2] != '0' && p.data[2] != '1'))
            continue;
        weight = p.data[2] == '1' ? 1000 : 0;
        for (size_t i = 4; i < p.len && i < 7 && p.data[i] >= '0' && p.data[i] <= '9'; i++) {
            weight += (unsigned)(p.data[i] - '0') * unit;
            unit /= 10;
        }
        return weight <= 1000 ? weight : 1000;
    }
    return 1000;
}

/* How exactly a range names a type: 3 itself, 2 text/ and any, 1 anything, 0 not at all. */
static unsigned fits(struct rn_slice range, const char *type)
{
    size_t len = strcspn(type, ";"), slash = strcspn(type, "/");

    if (range.len == len && strncasecmp(range.data, type, len) == 0)
        return 3;
    if (range.len == slash + 2 && strncasecmp(range.data, type, slash + 1) == 0 &&
        range.data[slash + 1] == '*')
        return 2;
    return range.len == 3 && memcmp(range.data, "*/*", 3) == 0;
}

enum rn_publish_format rn_publish_accepted(struct rn_slice accept)
{
    unsigned weight[RN_PUBLISH_FORMATS] = {0}, exact[RN_PUBLISH_FORMATS] = {0}, most = 0;
    enum rn_publish_format best = RN_PUBLISH_FORMATS;

    accept = trim(accept);
    if (accept.len == 0)
        return preferred[0];
    while (accept.len != 0) {
        struct rn_slice item = cut(&accept, ','), range = cut(&item, ';');
        unsigned q = weight_of(item);

        for (size_t f = 0; f < RN_PUBLISH_FORMATS; f++) {
            unsigned how = range.len != 0 ? fits(range, rn_publish_types[f]) : 0;

            if (how == 0 || how < exact[f])
                continue;
            exact[f] = how;
            weight[f] = q;
        }
    }
    for (size_t i = 0; i < RN_PUBLISH_FORMATS; i++)
        if (weight[preferred[i]] > most) {
            best = preferred[i];
            most = weight[best];
        }
    return best;
}
