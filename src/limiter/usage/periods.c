/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/usage/periods.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/siphash.h"

#define DIGITS 17                   /* ~ and a hash */
#define LATEST_S (INT64_C(1) << 36) /* in 4147; a row of a later period is damaged */

int rn_usage_periods_init(struct rn_usage_periods *periods, enum ration_calendar unit,
                          const char *zone, uint32_t keep, int64_t now_s,
                          struct ration_error *error)
{
    int code = rn_zone_load(zone, &periods->zone, error);

    if (code != 0)
        return code;
    keep = keep < RN_USAGE_KEEP_MAX ? keep : RN_USAGE_KEEP_MAX;
    periods->unit = unit;
    for (periods->count = 0; periods->count <= keep; periods->count++) {
        rn_calendar_span(periods->zone, unit, now_s, &periods->spans[periods->count]);
        now_s = periods->spans[periods->count].start_s - 1;
    }
    return 0;
}

void rn_usage_periods_done(struct rn_usage_periods *periods)
{
    rn_zone_free(periods->zone);
    periods->zone = NULL;
}

bool rn_usage_periods_find(const struct rn_usage_periods *periods, int64_t start_s,
                           struct rn_calendar_span *span)
{
    for (uint32_t i = 0; i < periods->count; i++)
        if (periods->spans[i].start_s == start_s) {
            *span = periods->spans[i];
            return true;
        }
    if (start_s < periods->spans[periods->count - 1].start_s || start_s > LATEST_S)
        return false;
    rn_calendar_span(periods->zone, periods->unit, start_s, span);
    return true;
}

int rn_usage_period_resolve(struct rn_slice period, enum ration_calendar unit, const char *zone,
                            int64_t at_s, char name[RATION_PERIOD_TEXT], struct ration_error *error)
{
    bool last = rn_slice_is(period, "last");
    struct rn_usage_periods periods;

    if (last || rn_slice_is(period, "current")) {
        int code = rn_usage_periods_init(&periods, unit, zone, 1, at_s, error);

        if (code != 0)
            return code;
        memcpy(name, periods.spans[last].name, RATION_PERIOD_TEXT);
        rn_usage_periods_done(&periods);
        return 0;
    }
    if (rn_calendar_unit_named(period.data, period.len) == RATION_CALENDAR_NONE)
        return rn_error_set(
            error, RATION_EINVAL, 0,
            "%s is not a period; write current, last, or one such as 2026, 2026-11, "
            "2026-W47 or 2026-11-18",
            rn_error_quote(period.data, period.len, 0).text);
    memcpy(name, period.data, period.len);
    name[period.len] = '\0';
    return 0;
}

/* Blocks of a fixed length, so that the hash does not depend on where the parts end. */
struct joiner {
    char *name;
    size_t len;
    char block[64];
    struct rn_siphash hash;
};

static void join(struct joiner *j, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (j->len < RATION_USAGE_CLIENT_MAX)
            j->name[j->len] = text[i];
        j->block[j->len++ % sizeof j->block] = text[i];
        if (j->len % sizeof j->block == 0)
            rn_siphash_add(&j->hash, j->block, sizeof j->block);
    }
}

/* A blank may only stand between parts. */
static void join_escaped(struct joiner *j, struct rn_slice part)
{
    for (size_t i = 0; i < part.len; i++)
        if (part.data[i] == ' ')
            join(j, "%20", 3);
        else if (part.data[i] == '%')
            join(j, "%25", 3);
        else
            join(j, &part.data[i], 1);
}

static bool looks_cut(const char *name, size_t len)
{
    if (len < RATION_USAGE_CLIENT_MAX - 3 || name[len - DIGITS] != '~')
        return false;
    for (size_t i = len - DIGITS + 1; i < len; i++)
        if (!memchr("0123456789abcdef", name[i], 16))
            return false;
    return true;
}

static size_t cut(struct joiner *j)
{
    char digits[DIGITS + 1];
    size_t at = RATION_USAGE_CLIENT_MAX - DIGITS;

    rn_siphash_add(&j->hash, j->block, j->len % sizeof j->block);
    snprintf(digits, sizeof digits, "~%016" PRIx64, rn_siphash_done(&j->hash));
    for (unsigned i = 0; i < 3 && ((unsigned char)j->name[at] & 0xC0) == 0x80; i++)
        at--; /* not within a character of UTF-8 */
    memcpy(j->name + at, digits, DIGITS);
    return at + DIGITS;
}

static const struct rn_hash_key fixed = {1, 2};

size_t rn_usage_client(const struct rn_slice *parts, const struct rn_slice *names, size_t count,
                       char name[RATION_USAGE_CLIENT_MAX])
{
    struct joiner j = {.name = name};

    rn_siphash_init(&j.hash, &fixed);
    for (size_t i = 0; i < count; i++) {
        if (i != 0)
            join(&j, " ", 1);
        if (names && names[i].data) {
            join(&j, names[i].data, names[i].len);
            join(&j, "=", 1);
        }
        if (count > 1)
            join_escaped(&j, parts[i]);
        else
            join(&j, parts[i].data, parts[i].len);
    }
    return j.len > RATION_USAGE_CLIENT_MAX || looks_cut(name, j.len) ? cut(&j) : j.len;
}

size_t rn_usage_client_asked(struct rn_slice client, char name[RATION_USAGE_CLIENT_MAX])
{
    struct joiner j = {.name = name};

    rn_siphash_init(&j.hash, &fixed);
    join(&j, client.data, client.len);
    return j.len > RATION_USAGE_CLIENT_MAX ? cut(&j) : j.len;
}
