/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/logs/format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Longer is a fault of the log: no time of a request less this, or more, is out of range. */
#define DURATION_MAX_NS (INT64_C(366) * 86400 * 1000000000)

/* The order in which they are tried: of two that read the same lines the first. */
const struct rn_logs_format *const rn_logs_formats[] = {
    &rn_logs_combined, &rn_logs_apache, &rn_logs_alb,        &rn_logs_haproxy, &rn_logs_caddy,
    &rn_logs_traefik,  &rn_logs_envoy,  &rn_logs_nginx_json, &rn_logs_json,    &rn_logs_csv};
const size_t rn_logs_format_count = RN_COUNT(rn_logs_formats);

const struct rn_logs_format *rn_logs_format_of(const char *name)
{
    for (size_t i = 0; i < rn_logs_format_count; i++)
        if (strcmp(rn_logs_formats[i]->name, name) == 0)
            return rn_logs_formats[i];
    return NULL;
}

/* --- finding fields ------------------------------------------------------------------- */

/* Names are found without regard to case, as those of headers are. */
static bool is_name(struct rn_slice a, const char *b)
{
    return strlen(b) == a.len && strncasecmp(a.data, b, a.len) == 0;
}

static uint8_t slot_of_position(const struct rn_logs_format *format, struct rn_slice field)
{
    char text[16];
    unsigned number;
    uint8_t count = 0;

    for (; format->fields[count] != NULL; count++)
        if (is_name(field, format->fields[count]))
            return (uint8_t)(RN_LOGS_FIRST + count);
    rn_slice_copy(text, sizeof text, field);
    if (sscanf(text, "extra%2u", &number) == 1 && number > 0 &&
        RN_LOGS_FIRST + count + number - 1 < RN_LOGS_SLOTS)
        return (uint8_t)(RN_LOGS_FIRST + count + number - 1);
    return RN_LOGS_NO_SLOT;
}

/* Looks for a name in lines from now on; its value goes to the slot. */
static bool add_name(struct rn_logs_reader *r, struct rn_slice field, uint8_t slot, uint8_t rank)
{
    if (r->name_count == RN_LOGS_NAMES)
        return false;
    r->names[r->name_count++] = (struct rn_logs_name){field, slot, rank};
    return true;
}

/* The slot of a field of this name; of named fields a new one unless `slot` is given. */
static uint8_t find_slot(struct rn_logs_reader *r, struct rn_slice field, uint8_t slot,
                         uint8_t rank)
{
    if (r->format->fields != NULL)
        return slot != RN_LOGS_NO_SLOT ? slot : slot_of_position(r->format, field);
    if (r->format->titled) {
        for (uint32_t i = 0; i < r->name_count && slot == RN_LOGS_NO_SLOT; i++)
            if (r->names[i].name.len == field.len &&
                strncasecmp(r->names[i].name.data, field.data, field.len) == 0)
                return r->names[i].slot;
        return slot;
    }
    if (slot == RN_LOGS_NO_SLOT && r->slot_count < RN_LOGS_SLOTS)
        slot = r->slot_count++;
    return slot != RN_LOGS_NO_SLOT && add_name(r, field, slot, rank) ? slot : RN_LOGS_NO_SLOT;
}

/* header.x-api-key is http_x_api_key, request.headers.x-api-key, ... The name is made in `text`. */
static struct rn_slice make_header_name(struct rn_logs_reader *r, struct rn_slice attribute)
{
    size_t prefix = strlen(r->format->header_prefix), len = prefix + attribute.len - 7;
    char *out = r->text + r->text_len;

    if (len > sizeof r->text - r->text_len)
        return (struct rn_slice){NULL, 0};
    memcpy(out, r->format->header_prefix, prefix);
    memcpy(out + prefix, attribute.data + 7, attribute.len - 7);
    for (size_t i = prefix; i < len && strcmp(r->format->header_prefix, "http_") == 0; i++)
        out[i] = out[i] == '-' ? '_' : out[i];
    r->text_len += len;
    return (struct rn_slice){out, len};
}

/* The slot of what `name` stands for, by --map or else by default. */
static uint8_t bind(struct rn_logs_reader *r, struct rn_slice name)
{
    uint8_t slot = RN_LOGS_NO_SLOT, rank = 0;

    for (uint32_t i = 0; i < r->plan->map_count; i++)
        if (rn_slice_equal(r->plan->maps[i].name, name))
            return find_slot(r, r->plan->maps[i].field, slot, 0);
    for (const struct rn_logs_default *d = r->format->defaults; d != NULL && d->name != NULL; d++)
        if (rn_slice_is(name, d->name))
            slot = find_slot(r, rn_slice_of(d->field), slot, rank++);
    if (r->format->header_prefix != NULL && rn_slice_starts_with(name, RN_SLICE("header."))) {
        struct rn_slice made = make_header_name(r, name);

        if (made.data != NULL)
            slot = find_slot(r, made, slot, rank);
    }
    if (slot == RN_LOGS_NO_SLOT && r->format->titled)
        slot = find_slot(r, name, slot, 0);
    return slot;
}

/* `duration` by --map may end in a unit: took:ms. */
static void bind_duration(struct rn_logs_reader *r)
{
    static const struct {
        const char *suffix;
        int64_t ns;
    } units[] = {{":s", 1000000000}, {":ms", 1000000}, {":us", 1000}, {":ns", 1}};

    r->unit_ns = r->format->unit_ns;
    r->duration = RN_LOGS_NO_SLOT;
    for (uint32_t i = 0; i < r->plan->map_count; i++) {
        struct rn_slice field = r->plan->maps[i].field;

        if (!rn_slice_is(r->plan->maps[i].name, "duration"))
            continue;
        for (size_t k = 0; k < RN_COUNT(units); k++) {
            size_t len = strlen(units[k].suffix);

            if (field.len > len &&
                memcmp(field.data + field.len - len, units[k].suffix, len) == 0 &&
                (k != 0 || field.data[field.len - 2] == ':')) {
                r->unit_ns = units[k].ns;
                field.len -= len;
                break;
            }
        }
        r->duration = find_slot(r, field, RN_LOGS_NO_SLOT, 0);
        return;
    }
    r->duration = bind(r, RN_SLICE("duration"));
}

/* Whether --map names a field for the time that this format cannot have: another one is meant. */
static bool is_time_elsewhere(const struct rn_logs_reader *r)
{
    for (uint32_t i = 0; i < r->plan->map_count; i++)
        if ((rn_slice_is(r->plan->maps[i].name, "time") && r->time == RN_LOGS_NO_SLOT) ||
            (rn_slice_is(r->plan->maps[i].name, "end") && r->end == RN_LOGS_NO_SLOT))
            return true;
    return false;
}

bool rn_logs_reader_init(struct rn_logs_reader *r, const struct rn_logs_format *format,
                         const struct rn_logs_plan *plan, struct rn_slice titles)
{
    *r = (struct rn_logs_reader){.format = format, .plan = plan, .slot_count = RN_LOGS_FIRST};
    if (format->titled && !rn_logs_read_titles(r, titles))
        return false;
    r->time = bind(r, RN_SLICE("time"));
    r->end = bind(r, RN_SLICE("end"));
    r->status = bind(r, RN_SLICE("status"));
    r->request = bind(r, RN_SLICE("request"));
    bind_duration(r);
    r->parts[0] = bind(r, RN_SLICE("duration1"));
    r->parts[1] = bind(r, RN_SLICE("duration2"));
    r->parts[2] = bind(r, RN_SLICE("duration3"));
    for (uint32_t i = 0; i < plan->attribute_count; i++)
        r->attributes[i] = bind(r, plan->attributes[i]);
    for (uint32_t i = 0; i < plan->attribute_count; i++)
        r->of_request[i] = r->request == RN_LOGS_NO_SLOT                ? RN_LOGS_NO_SLOT
                           : rn_slice_is(plan->attributes[i], "method") ? RN_LOGS_METHOD
                           : rn_slice_is(plan->attributes[i], "path")   ? RN_LOGS_TARGET
                           : rn_slice_is(plan->attributes[i], "host")   ? RN_LOGS_HOST
                                                                        : RN_LOGS_NO_SLOT;
    return !is_time_elsewhere(r) && (r->time != RN_LOGS_NO_SLOT || r->end != RN_LOGS_NO_SLOT);
}

/* --- values --------------------------------------------------------------------------- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

char *rn_logs_unescape(char *from, char *to)
{
    char *out = from;

    while (from < to) {
        if (*from != '\\' || to - from < 2) {
            *out++ = *from++;
        } else if (from[1] == 'x' && to - from >= 4 && hex_digit(from[2]) >= 0 &&
                   hex_digit(from[3]) >= 0) {
            *out++ = (char)(hex_digit(from[2]) * 16 + hex_digit(from[3]));
            from += 4;
        } else {
            *out++ = from[1];
            from += 2;
        }
    }
    return out;
}

/* http://host:80/path?query, as load balancers and proxies write targets. */
static void split_url(struct rn_logs_reader *r, struct rn_slice url)
{
    const char *end = url.data + url.len, *host, *path;

    host = memmem(url.data, url.len < 16 ? url.len : 16, "://", 3);
    if (url.len == 0 || url.data[0] == '/' || host == NULL)
        return;
    host += 3;
    path = memchr(host, '/', (size_t)(end - host));
    rn_logs_keep(r, RN_LOGS_HOST, host, path != NULL ? path : end);
    r->values[RN_LOGS_TARGET] =
        path != NULL ? (struct rn_slice){path, (size_t)(end - path)} : RN_SLICE("/");
}

void rn_logs_split_request(struct rn_logs_reader *r, struct rn_slice request)
{
    const char *at = request.data, *end = at + request.len;
    const char *space = memchr(at, ' ', request.len), *last = memrchr(at, ' ', request.len);

    if (space == NULL || space == at)
        return; /* such as the bytes of a TLS handshake: no method, no path */
    rn_logs_keep(r, RN_LOGS_METHOD, at, space);
    /* Without a version it was HTTP/0.9. */
    if (last == space || end - last < 6 || memcmp(last + 1, "HTTP/", 5) != 0)
        last = end;
    rn_logs_keep(r, RN_LOGS_TARGET, space + 1, last);
    if (r->values[RN_LOGS_TARGET].data != NULL && r->values[RN_LOGS_TARGET].data[0] != '/')
        split_url(r, r->values[RN_LOGS_TARGET]);
}

static struct rn_slice value_of(const struct rn_logs_reader *r, uint8_t slot)
{
    return slot == RN_LOGS_NO_SLOT || r->values[slot].data == NULL ? (struct rn_slice){NULL, 0}
                                                                   : r->values[slot];
}

/* False: not known. */
static bool read_length(const struct rn_logs_reader *r, struct rn_slice text, int64_t *ns)
{
    return text.data != NULL && rn_moment_parse_length(text, r->unit_ns, ns) &&
           *ns <= DURATION_MAX_NS;
}

static void read_duration(struct rn_logs_reader *r, struct rn_logs_entry *e)
{
    struct rn_slice text = value_of(r, r->duration);
    int64_t part_ns;

    e->duration_ns = -1;
    if (text.data != NULL) {
        if (!read_length(r, text, &e->duration_ns))
            e->duration_ns = -1;
    } else if (r->parts[0] != RN_LOGS_NO_SLOT) {
        for (int i = 0; i < 3; i++)
            if (read_length(r, value_of(r, r->parts[i]), &part_ns))
                e->duration_ns = (e->duration_ns < 0 ? 0 : e->duration_ns) + part_ns;
    }
    r->has_duration |= e->duration_ns >= 0;
}

static bool read_status(const struct rn_logs_reader *r, struct rn_logs_entry *e)
{
    struct rn_slice text = value_of(r, r->status);

    e->status = 0;
    if (text.data == NULL || (text.len == 1 && text.data[0] == '0') ||
        (text.len == 3 && memcmp(text.data, "000", 3) == 0))
        return true;
    for (size_t i = 0; i < text.len && i < 4; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
        e->status = e->status * 10 + (uint32_t)(text.data[i] - '0');
    }
    return text.len == 3 && e->status >= 100 && e->status <= 599;
}

enum rn_logs_fault rn_logs_reader_read(struct rn_logs_reader *r, struct rn_slice line,
                                       struct rn_logs_entry *e)
{
    struct rn_slice text;
    enum rn_moment_grain grain;

    if (line.len > RN_LOGS_LINE_MAX)
        return RN_LOGS_LONG;
    for (int i = 0; i < RN_LOGS_FIRST; i++)
        r->values[i].data = NULL;
    if (!r->format->split(r, line))
        return memchr(line.data, '\0', line.len) != NULL ? RN_LOGS_BINARY : RN_LOGS_SPLIT;
    text = value_of(r, r->time);
    read_duration(r, e);
    if (text.data != NULL) {
        if (!rn_moment_parse(&r->moments, text, &e->time_ns, &grain))
            return RN_LOGS_TIME;
    } else {
        text = value_of(r, r->end);
        if (text.data == NULL || !rn_moment_parse(&r->moments, text, &e->time_ns, &grain))
            return RN_LOGS_TIME;
        e->time_ns -= e->duration_ns > 0 ? e->duration_ns : 0;
    }
    if (e->time_ns <= 0)
        return RN_LOGS_TIME;
    r->grain = grain > r->grain ? grain : r->grain;
    if (!read_status(r, e))
        return RN_LOGS_STATUS;
    text = value_of(r, r->request);
    if (text.data != NULL)
        rn_logs_split_request(r, text);
    for (uint32_t i = 0; i < r->plan->attribute_count; i++) {
        e->attributes[i] = value_of(r, r->attributes[i]);
        if (e->attributes[i].data == NULL)
            e->attributes[i] = value_of(r, r->of_request[i]);
    }
    return RN_LOGS_GOOD;
}

/* --- detection ------------------------------------------------------------------------- */

#define TRIED_LINES 20

/* How many of the first lines a format reads. `copy` has room for a line. */
static unsigned count_readable(const struct rn_logs_format *format, const struct rn_logs_plan *plan,
                               struct rn_slice text, char *copy)
{
    struct rn_logs_reader *r = malloc(sizeof *r);
    const char *at = text.data, *end = at + text.len;
    struct rn_logs_entry entry;
    unsigned good = 0;
    bool begun = false;

    for (unsigned i = 0; r != NULL && i < TRIED_LINES && at < end; i++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((stop != NULL ? stop : end) - at);
        struct rn_slice line = {copy, len < RN_LOGS_LINE_MAX ? len : RN_LOGS_LINE_MAX};

        memcpy(copy, at, line.len);
        at += len + 1;
        while (line.len > 0 && line.data[line.len - 1] == '\r')
            line.len--;
        if (line.len == 0)
            continue;
        if (!begun) {
            if (!rn_logs_reader_init(r, format, plan, line))
                break;
            begun = true;
            if (format->titled)
                continue;
        }
        good += rn_logs_reader_read(r, line, &entry) == RN_LOGS_GOOD;
    }
    free(r);
    return good;
}

const struct rn_logs_format *rn_logs_detect(const struct rn_logs_plan *plan, struct rn_slice text)
{
    const struct rn_logs_format *best = NULL;
    char *copy = malloc(RN_LOGS_LINE_MAX);
    unsigned most = 0;

    for (size_t i = 0; copy != NULL && i < rn_logs_format_count; i++) {
        unsigned good = count_readable(rn_logs_formats[i], plan, text, copy);

        if (good > most) {
            most = good;
            best = rn_logs_formats[i];
        }
    }
    free(copy);
    return best;
}
