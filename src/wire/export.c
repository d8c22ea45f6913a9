/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/export.h"

#include <time.h>

#include "base/utf8.h"
#include "wire/parse.h"

int64_t rn_export_units(const struct ration_usage *u)
{
    int64_t units;

    if (__builtin_add_overflow(u->admitted, u->corrected, &units))
        units = u->corrected < 0 ? INT64_MIN : INT64_MAX;
    return units;
}

static struct rn_slice zone_of(const struct ration_usage *u)
{
    return u->zone[0] ? rn_slice_of(u->zone) : RN_SLICE("UTC");
}

/* 2026-11-01T00:00:00Z */
static struct rn_slice time_text(int64_t unix_s, char text[32])
{
    time_t seconds = (time_t)unix_s;
    struct tm tm;

    text[0] = '\0';
    if (gmtime_r(&seconds, &tm))
        strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
    return rn_slice_of(text);
}

/* --- CSV ------------------------------------------------------------------------------------- */

void rn_export_titles(struct rn_buf *out)
{
    rn_buf_put_literal(
        out, "rule,client,other,period,start,end,zone,admitted,refused,corrected,units\r\n");
}

/* A field and the comma behind it. In quotes if it has a comma, a quote or a line break. */
static void put_field(struct rn_buf *out, struct rn_slice text)
{
    bool quoted = false;

    for (size_t i = 0; i < text.len && !quoted; i++)
        quoted = memchr(",\"\r\n", text.data[i], 4) != NULL;
    if (!quoted) {
        rn_buf_put_slice(out, text);
    } else {
        rn_buf_put_char(out, '"');
        for (size_t i = 0; i < text.len; i++)
            rn_buf_put(out, (char[]){text.data[i], '"'}, text.data[i] == '"' ? 2 : 1);
        rn_buf_put_char(out, '"');
    }
    rn_buf_put_char(out, ',');
}

void rn_export_csv(struct rn_buf *out, const struct ration_usage *u)
{
    char text[32];

    put_field(out, (struct rn_slice){u->rule, u->rule_len});
    put_field(out, (struct rn_slice){u->client, u->other ? 0 : u->client_len});
    put_field(out, u->other ? RN_SLICE("true") : RN_SLICE("false"));
    put_field(out, rn_slice_of(u->period));
    put_field(out, time_text(u->start_s, text));
    put_field(out, time_text(u->end_s, text));
    put_field(out, zone_of(u));
    rn_buf_put_i64(out, u->admitted);
    rn_buf_put_char(out, ',');
    rn_buf_put_u64(out, u->refused);
    rn_buf_put_char(out, ',');
    rn_buf_put_i64(out, u->corrected);
    rn_buf_put_char(out, ',');
    rn_buf_put_i64(out, rn_export_units(u));
    rn_buf_put_literal(out, "\r\n");
}

/* --- JSON ------------------------------------------------------------------------------------ */

bool rn_export_is_text(struct rn_slice name)
{
    uint32_t point;

    for (size_t at = 0, taken; at < name.len; at += taken) {
        taken = rn_utf8_decode(name.data + at, name.len - at, &point);
        if (taken == 0 || point == 0)
            return false;
    }
    return true;
}

void rn_export_hex(struct rn_buf *out, struct rn_slice name)
{
    for (size_t i = 0; i < name.len; i++)
        rn_buf_putf(out, "%02x", (unsigned)(unsigned char)name.data[i]);
}

bool rn_export_unhex(struct rn_buf *out, struct rn_slice digits)
{
    if (digits.len % 2 != 0)
        return false;
    for (size_t i = 0; i < digits.len; i += 2) {
        int high = rn_parse_hex_digit(digits.data[i]), low = rn_parse_hex_digit(digits.data[i + 1]);

        if (high < 0 || low < 0)
            return false;
        rn_buf_put_char(out, (char)(high << 4 | low));
    }
    return true;
}

/* A name that JSON cannot hold, for people: a NUL is shown as U+FFFD, too, because readers of JSON
 * may refuse it. The exact bytes follow. */
static void put_bytes(struct rn_members *m, struct rn_slice name)
{
    struct rn_buf shown = {0};

    for (size_t i = 0; i < name.len; i++)
        rn_buf_put_char(&shown, name.data[i] == '\0' ? '\xff' : name.data[i]);
    rn_members_text(m, "client", rn_buf_slice(&shown));
    m->out->failed |= shown.failed;
    rn_buf_done(&shown);
    rn_members_name(m, "client_hex");
    rn_buf_put_char(m->out, '"');
    rn_export_hex(m->out, name);
    rn_buf_put_char(m->out, '"');
}

static void put_number(struct rn_members *m, const char *name, int64_t value)
{
    rn_members_name(m, name);
    rn_buf_put_i64(m->out, value);
}

void rn_export_json(struct rn_members *m, const struct ration_usage *u)
{
    struct rn_slice client = {u->client, u->client_len};
    char text[32];

    rn_members_text(m, "rule", (struct rn_slice){u->rule, u->rule_len});
    if (u->other)
        rn_members_null(m, "client");
    else if (rn_export_is_text(client))
        rn_members_text(m, "client", client);
    else
        put_bytes(m, client);
    rn_members_bool(m, "other", u->other);
    rn_members_text(m, "period", rn_slice_of(u->period));
    rn_members_text(m, "start", time_text(u->start_s, text));
    rn_members_text(m, "end", time_text(u->end_s, text));
    rn_members_text(m, "zone", zone_of(u));
    put_number(m, "admitted", u->admitted);
    rn_members_u64(m, "refused", u->refused);
    put_number(m, "corrected", u->corrected);
    put_number(m, "units", rn_export_units(u));
}
