/* SPDX-License-Identifier: Apache-2.0 */
#include "front/admin/query.h"

#include <inttypes.h>
#include <stdio.h>

#include "front/admin/admin_internal.h"
#include "rules/report/report.h"
#include "wire/parse.h"

/* "a, b or c" */
static const char *list(char *out, size_t size, const char *const *words, size_t count)
{
    size_t len = 0;

    out[0] = '\0';
    for (size_t i = 0; i < count && len < size; i++)
        len += (size_t)snprintf(out + len, size - len, "%s%s",
                                i == 0           ? ""
                                : i == count - 1 ? " or "
                                                 : ", ",
                                words[i]);
    return out;
}

static struct rn_query_field *find(struct rn_query_field *fields, size_t count,
                                   struct rn_slice name)
{
    for (size_t i = 0; i < count; i++)
        if (rn_slice_is(name, fields[i].name))
            return &fields[i];
    return NULL;
}

static bool refuse_name(struct rn_http_context *c, const struct rn_query_field *fields,
                        size_t count, struct rn_slice name)
{
    const char *names[16] = {NULL};
    char text[256];

    for (size_t i = 0; i < count && i < RN_COUNT(names); i++)
        names[i] = fields[i].name;
    rn_front_http_error(c, 400, "bad_request", "unknown parameter %s; there %s %s",
                        rn_excerpt(name).text, count == 1 ? "is" : "are",
                        list(text, sizeof text, names, count));
    return false;
}

bool rn_query_read(struct rn_http_context *c, struct rn_query_field *fields, size_t count)
{
    struct rn_slice rest = c->request->query, name, value;
    char *decoded = c->ws->names; /* a target is no longer than a head */
    bool bad = false;

    while (rn_http_query_next(&rest, &decoded, &name, &value, &bad)) {
        struct rn_query_field *field = find(fields, count, name);

        if (bad)
            return rn_admin_refuse_escape(c);
        if (!field)
            return refuse_name(c, fields, count, name);
        if (field->given) {
            rn_front_http_error(c, 400, "bad_request", "%s was given twice; give it once",
                                field->name);
            return false;
        }
        field->given = true;
        field->value = value;
    }
    return true;
}

bool rn_query_choose(struct rn_http_context *c, const struct rn_query_field *field,
                     const char *const *words, size_t count, size_t *choice)
{
    size_t found = rn_slice_find(field->value, words, count);
    char text[256];

    if (!field->given)
        return true;
    if (found == count) {
        rn_front_http_error(c, 400, "bad_request", "%s must be %s, found %s", field->name,
                            list(text, sizeof text, words, count), rn_excerpt(field->value).text);
        return false;
    }
    *choice = found;
    return true;
}

bool rn_query_number(struct rn_http_context *c, const struct rn_query_field *field, uint64_t min,
                     uint64_t max, uint64_t *number)
{
    struct rn_json_token token = {.kind = RN_JSON_NUMBER, .text = field->value};

    if (!field->given || (rn_json_u64(&token, number) && *number >= min && *number <= max))
        return true;
    rn_front_http_error(c, 400, "bad_request",
                        "%s must be a number from %" PRIu64 " to %" PRIu64 ", found %s",
                        field->name, min, max, rn_excerpt(field->value).text);
    return false;
}

/* Decodes %XX in place; a + is itself. False: a bad escape. */
static bool unescape(struct rn_slice *name)
{
    char *to = (char *)name->data; /* in ws->names */
    size_t len = 0;

    for (size_t i = 0; i < name->len; i++) {
        char byte = name->data[i];

        if (byte == '%') {
            int high = name->len - i > 2 ? rn_parse_hex_digit(name->data[i + 1]) : -1;
            int low = name->len - i > 2 ? rn_parse_hex_digit(name->data[i + 2]) : -1;

            if (high < 0 || low < 0)
                return false;
            byte = (char)(high << 4 | low);
            i += 2;
        }
        to[len++] = byte;
    }
    name->len = len;
    return true;
}

bool rn_query_names(struct rn_http_context *c, struct rn_query_field *field, size_t max,
                    struct rn_slice *names, size_t *count)
{
    struct rn_slice rest = field->value;

    *count = 0;
    while (rest.len != 0) {
        const char *comma = memchr(rest.data, ',', rest.len);
        struct rn_slice name = {rest.data, comma ? (size_t)(comma - rest.data) : rest.len};
        size_t step = comma ? name.len + 1 : name.len, known = 0;

        if (!unescape(&name)) {
            rn_front_http_error(c, 400, "bad_request",
                                "a name in %s has a %% that two hexadecimal digits do not follow; "
                                "in a list, %%2C is a comma and %%25 a percent sign, each escaped "
                                "once more in the query: %%252C and %%2525",
                                field->name);
            return false;
        }
        while (known < *count && !rn_slice_equal(names[known], name))
            known++;
        if (name.len != 0 && known == *count && *count == max) {
            rn_front_http_error(c, 400, "bad_request", "%s has more than %zu names", field->name,
                                max);
            return false;
        }
        if (name.len != 0 && known == *count)
            names[(*count)++] = name;
        rest.data += step;
        rest.len -= step;
    }
    return true;
}
