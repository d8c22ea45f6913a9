/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages in protobuf's JSON format: names in camelCase or as in the .proto, numbers also as
 * text, enumerations by name or number; members that are null or zero may be left out, and are
 * left out here. Unknown members are refused.
 */
#include "wire/members.h"
#include "wire/rls_internal.h"

static const char *const unit_names[] = {"UNKNOWN", "SECOND", "MINUTE", "HOUR",
                                         "DAY",     "MONTH",  "YEAR",   "WEEK"};
#define MEMBERS_MAX 8 /* more than any of these objects has */
#define UNITS (sizeof unit_names / sizeof *unit_names)

/* --- reading ------------------------------------------------------------------------ */

struct reading {
    struct rn_rls_reader *reader;
    struct rn_json json;
    struct ration_error *error; /* the error that an rn_rls_* function reports */
    int code;                   /* its code */
};

static bool object_to(struct reading *in, size_t at, const char *what)
{
    rn_json_object_to(&in->json, at, "%s", what);
    return false;
}

/* Whether the member has this name, in either spelling. */
static bool is_named(const struct rn_json_token *token, const char *camel, const char *snake)
{
    return rn_slice_is(token->name, camel) || rn_slice_is(token->name, snake);
}

static bool refuse_name(struct reading *in, const struct rn_json_token *token)
{
    return object_to(in, token->name_at, "unknown member");
}

static bool read_text(struct reading *in, const struct rn_json_token *token, struct rn_slice *text)
{
    if (token->kind == RN_JSON_NULL)
        return true;
    if (token->kind != RN_JSON_STRING)
        return object_to(in, token->at, "this must be a string");
    *text = token->text;
    return true;
}

/* A number, or one in quotes: 64 bits do not fit the numbers of JavaScript. */
static bool read_number(struct reading *in, const struct rn_json_token *token, uint64_t max,
                        uint64_t *n)
{
    struct rn_json_token number = *token;

    if (token->kind == RN_JSON_STRING)
        number.kind = RN_JSON_NUMBER;
    for (size_t i = 0; i < token->text.len && token->kind == RN_JSON_STRING; i++)
        if (token->text.data[i] < '0' || token->text.data[i] > '9')
            return object_to(in, token->at, "this must be a whole number");
    if (token->text.len == 0 || !rn_json_u64(&number, n) || *n > max)
        return object_to(in, token->at, "this must be a whole number, and not that large");
    return true;
}

static bool read_unit(struct reading *in, const struct rn_json_token *token, enum ration_unit *unit)
{
    uint64_t number;

    for (size_t i = 0; i < UNITS && token->kind == RN_JSON_STRING; i++) {
        if (rn_slice_is(token->text, unit_names[i])) {
            *unit = (enum ration_unit)i;
            return true;
        }
    }
    if (token->kind != RN_JSON_NUMBER)
        return object_to(in, token->at, "a unit is SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR");
    if (!read_number(in, token, UNITS - 1, &number))
        return false;
    *unit = (enum ration_unit)number;
    return true;
}

/* Whether two names are the same but for spelling, as hitsAddend and hits_addend. */
static bool is_same_name(struct rn_slice a, struct rn_slice b)
{
    size_t i = 0, j = 0;

    while (i < a.len && j < b.len) {
        if (a.data[i] == '_')
            i++;
        else if (b.data[j] == '_')
            j++;
        else if ((a.data[i++] | 0x20) != (b.data[j++] | 0x20))
            return false;
    }
    return i == a.len && j == b.len;
}

/* Calls `member` for each member of an object; refuses a member that occurs twice. */
static bool read_object(struct reading *in, const struct rn_json_token *begin,
                        bool (*member)(struct reading *in, const struct rn_json_token *token,
                                       void *arg),
                        void *arg)
{
    struct rn_slice seen[MEMBERS_MAX];
    struct rn_json_token token;
    size_t count = 0;

    if (begin->kind != RN_JSON_OBJECT)
        return begin->kind != RN_JSON_BAD && object_to(in, begin->at, "this must be an object");
    while ((token = rn_json_next(&in->json)).kind != RN_JSON_END) {
        if (token.kind == RN_JSON_BAD)
            return false;
        for (size_t i = 0; i < count; i++)
            if (is_same_name(seen[i], token.name))
                return object_to(in, token.name_at, "this member is given twice");
        if (count == MEMBERS_MAX)
            return refuse_name(in, &token);
        seen[count++] = token.name;
        if (!member(in, &token, arg))
            return false;
    }
    return true;
}

static bool read_list(struct reading *in, const struct rn_json_token *begin,
                      bool (*item)(struct reading *in, const struct rn_json_token *token))
{
    struct rn_json_token token;

    if (begin->kind == RN_JSON_NULL)
        return true;
    if (begin->kind != RN_JSON_ARRAY)
        return object_to(in, begin->at, "this must be a list");
    while ((token = rn_json_next(&in->json)).kind != RN_JSON_END)
        if (token.kind == RN_JSON_BAD || !item(in, &token))
            return false;
    return true;
}

static bool entry_member(struct reading *in, const struct rn_json_token *token, void *arg)
{
    struct rn_slice *pair = arg;

    if (rn_slice_is(token->name, "key"))
        return read_text(in, token, &pair[0]);
    if (rn_slice_is(token->name, "value"))
        return read_text(in, token, &pair[1]);
    return refuse_name(in, token);
}

static bool read_entry(struct reading *in, const struct rn_json_token *token)
{
    struct rn_slice pair[2] = {{"", 0}, {"", 0}};

    if (!read_object(in, token, entry_member, pair))
        return false;
    in->code = rn_rls_add_entry(in->reader, pair[0], pair[1], in->error);
    return in->code == 0;
}

static bool limit_member(struct reading *in, const struct rn_json_token *token, void *arg)
{
    struct ration_descriptor_ask *ask = arg;
    uint64_t n;

    if (rn_slice_is(token->name, "unit"))
        return read_unit(in, token, &ask->unit);
    if (!is_named(token, "requestsPerUnit", "requests_per_unit"))
        return refuse_name(in, token);
    if (!read_number(in, token, UINT32_MAX, &n))
        return false;
    ask->requests_per_unit = (uint32_t)n;
    return true;
}

static bool descriptor_member(struct reading *in, const struct rn_json_token *token, void *arg)
{
    struct ration_descriptor_ask *ask = arg;

    if (rn_slice_is(token->name, "entries"))
        return read_list(in, token, read_entry);
    if (rn_slice_is(token->name, "limit")) {
        ask->limit_given = token->kind != RN_JSON_NULL;
        return !ask->limit_given || read_object(in, token, limit_member, ask);
    }
    if (is_named(token, "hitsAddend", "hits_addend")) {
        ask->hits_given = token->kind != RN_JSON_NULL;
        return !ask->hits_given || read_number(in, token, UINT64_MAX, &ask->hits);
    }
    if (!is_named(token, "isNegativeHits", "is_negative_hits"))
        return refuse_name(in, token);
    ask->refund = token->kind == RN_JSON_TRUE;
    return token->kind == RN_JSON_TRUE || token->kind == RN_JSON_FALSE ||
           token->kind == RN_JSON_NULL || object_to(in, token->at, "this must be true or false");
}

static bool read_descriptor(struct reading *in, const struct rn_json_token *token)
{
    in->code = rn_rls_begin(in->reader, in->error);
    return in->code == 0 && read_object(in, token, descriptor_member,
                                        &in->reader->asks[in->reader->request.count - 1]);
}

static bool request_member(struct reading *in, const struct rn_json_token *token, void *arg)
{
    if (rn_slice_is(token->name, "domain"))
        return read_text(in, token, arg);
    if (rn_slice_is(token->name, "descriptors"))
        return read_list(in, token, read_descriptor);
    if (is_named(token, "hitsAddend", "hits_addend"))
        return token->kind == RN_JSON_NULL ||
               read_number(in, token, UINT32_MAX, &in->reader->request.hits);
    return refuse_name(in, token);
}

int rn_rls_read_json(struct rn_rls_reader *reader, char *text, size_t len,
                     struct ration_error *error)
{
    struct reading in = {.reader = reader, .error = error};
    struct rn_slice domain = {"", 0};
    struct rn_json_token token;

    reader->entry_count = 0;
    reader->leaf_count = 0;
    reader->used = 0;
    reader->request = (struct ration_descriptors){0};
    rn_json_init(&in.json, text, len);
    token = rn_json_next(&in.json);
    if (read_object(&in, &token, request_member, &domain) &&
        rn_json_next(&in.json).kind == RN_JSON_END)
        return rn_rls_end(reader, domain, error);
    if (in.code == 0)
        *error = in.json.error;
    return in.code ? in.code : RATION_EPARSE;
}

/* --- writing ------------------------------------------------------------------------ */

static void put_code(struct rn_members *m, const char *name, bool over)
{
    rn_members_text(m, name, over ? RN_SLICE("OVER_LIMIT") : RN_SLICE("OK"));
}

static void put_status(struct rn_members *m, const struct ration_descriptor_status *status)
{
    rn_members_open(m, NULL, '{');
    put_code(m, "code", status->over);
    if (status->limited) {
        rn_members_open(m, "currentLimit", '{');
        if (status->requests_per_unit != 0)
            rn_members_u64(m, "requestsPerUnit", status->requests_per_unit);
        if (status->unit != RATION_UNIT_UNKNOWN)
            rn_members_text(m, "unit", rn_slice_of(unit_names[status->unit]));
        if (status->name[0])
            rn_members_text(m, "name", rn_slice_of(status->name));
        rn_members_close(m, '}');
    }
    if (status->remaining != 0)
        rn_members_u64(m, "limitRemaining", status->remaining);
    if (status->reset_ns > 0) {
        rn_members_name(m, "durationUntilReset");
        rn_buf_put_char(m->out, '"');
        rn_buf_put_i64(m->out, rn_rls_seconds(status->reset_ns));
        rn_buf_put_literal(m->out, "s\"");
    }
    rn_members_close(m, '}');
}

static void put_value(struct rn_buf *out, const struct rn_rls_node *node)
{
    double number = 0;
    enum rn_rls_kind kind = rn_rls_kind(node, &number);
    bool map = kind == RN_RLS_MAP;

    if (kind == RN_RLS_NULL)
        rn_buf_put_literal(out, "null");
    else if (kind == RN_RLS_NUMBER)
        rn_buf_putf(out, "%.17g", number);
    else if (kind == RN_RLS_TRUE || kind == RN_RLS_FALSE)
        rn_buf_put(out, node->leaf->value, node->leaf->value_len);
    else if (kind == RN_RLS_TEXT)
        rn_json_put_string(out, (struct rn_slice){node->leaf->value, node->leaf->value_len});
    if (!node->first)
        return;
    rn_buf_put_char(out, map ? '{' : '[');
    for (const struct rn_rls_node *child = node->first; child; child = child->next) {
        if (map) {
            rn_json_put_string(out, child->name);
            rn_buf_put_char(out, ':');
        }
        put_value(out, child);
        if (child->next)
            rn_buf_put_char(out, ',');
    }
    rn_buf_put_char(out, map ? '}' : ']');
}

void rn_rls_write_json(struct rn_buf *out, struct rn_rls_reader *reader,
                       const struct ration_descriptors_outcome *o, const struct rn_rls_extra *extra)
{
    const struct rn_rls_node *metadata = extra->metadata ? rn_rls_tree(reader) : NULL;
    struct rn_rls_header headers[RN_RLS_HEADERS];
    size_t header_count = extra->headers ? rn_rls_headers(o, headers) : 0;
    struct rn_members m = {.out = out};

    rn_members_open(&m, NULL, '{');
    put_code(&m, "overallCode", !o->allowed);
    rn_members_open(&m, "statuses", '[');
    for (size_t i = 0; i < o->count; i++)
        put_status(&m, &o->statuses[i]);
    rn_members_close(&m, ']');
    if (header_count > 0) {
        rn_members_open(&m, "responseHeadersToAdd", '[');
        for (size_t i = 0; i < header_count; i++) {
            rn_members_open(&m, NULL, '{');
            rn_members_text(&m, "key", rn_slice_of(headers[i].name));
            rn_members_text(&m, "value", rn_slice_of(headers[i].value));
            rn_members_close(&m, '}');
        }
        rn_members_close(&m, ']');
    }
    if (metadata) {
        rn_members_name(&m, "dynamicMetadata");
        put_value(out, metadata);
    }
    rn_members_close(&m, '}');
}
