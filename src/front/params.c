/* SPDX-License-Identifier: Apache-2.0 */
#include "front/params.h"

#include <stdio.h>

#include "base/error.h"
#include "core/algorithm.h"
#include "front/decision.h"
#include "rules/report/report.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

void rn_query_init(struct rn_query *query)
{
    query->by_limit = query->cost_given = query->peek = false;
    query->credit = query->drain = false;
    query->shadow = query->keep_places = query->full = false;
    query->key = query->lease = query->rule = query->charge = (struct rn_slice){0};
    query->attribute_count = 0;
    query->cost = 1;
    query->status = 0;
    query->wait = RN_WAIT_AS_RULE;
    query->max_wait_ns = query->for_ns = 0;
}

int rn_query_add(struct rn_query *query, char *name, size_t name_len, struct rn_slice value)
{
    if (query->attribute_count == RN_QUERY_ATTRIBUTES)
        return RATION_EINVAL;
    for (size_t i = 0; i < name_len; i++)
        if (name[i] >= 'A' && name[i] <= 'Z')
            name[i] = (char)(name[i] | 0x20);
    query->attributes[query->attribute_count++] =
        (struct ration_attribute){name, name_len, value.data, value.len};
    return 0;
}

/* --- the limit ------------------------------------------------------------------------- */

/* What the text implies, NULL if any algorithm will do. */
static const char *implied_by(const struct ration_limit *limit)
{
    switch (limit->algorithm) {
    case RATION_LEAKY_BUCKET:
        return "queue";
    case RATION_CONCURRENCY:
        return "concurrent";
    case RATION_UNLIMITED:
        return "unlimited";
    default:
        if (limit->calendar != RATION_CALENDAR_NONE)
            return "calendar";
        return limit->burst != 0 ? "burst" : limit->step_ns != 0 ? "steps" : NULL;
    }
}

static int set_algorithm(struct ration_limit *limit, struct rn_slice name,
                         struct ration_error *error)
{
    enum ration_algorithm algorithm;

    if (ration_algorithm_parse(name.data, name.len, &algorithm) != 0) {
        const char *rates[RN_ALGORITHMS];
        size_t n = rn_algorithm_rates(rates), len = 0;
        char list[160] = "";

        for (size_t i = 0; i < n; i++)
            len += (size_t)snprintf(list + len, sizeof list - len, "%s%s", rates[i],
                                    i + 2 < n    ? ", "
                                    : i + 2 == n ? " or "
                                                 : "");
        return rn_error_set(error, RATION_EINVAL, 0, "unknown algorithm %s; write %s",
                            rn_excerpt(name).text, list);
    }
    const char *implied = implied_by(limit);

    if (implied && algorithm != limit->algorithm)
        return rn_error_set(error, RATION_EINVAL, 0,
                            "%s in the limit means %s; leave out algorithm or write that", implied,
                            ration_algorithm_name(limit->algorithm));
    limit->algorithm = algorithm;
    return ration_limit_check(limit, error);
}

int rn_query_parse_limit(struct rn_slice text, struct ration_limit *limit,
                         struct ration_error *error)
{
    struct ration_error found;
    int code = ration_limit_parse(text.data, text.len, limit, &found);

    if (code == RATION_EPARSE)
        return rn_error_set(error, RATION_EINVAL, found.pos, "in the limit, at byte %zu: %s",
                            found.pos + 1, found.text);
    return code == 0 ? 0 : rn_error_set(error, RATION_EINVAL, 0, "in the limit: %s", found.text);
}

int rn_query_limit(struct rn_query *query, struct rn_slice text, struct rn_slice algorithm,
                   struct ration_error *error)
{
    int code = rn_query_parse_limit(text, &query->limit, error);

    query->by_limit = true;
    return code == 0 && algorithm.data ? set_algorithm(&query->limit, algorithm, error) : code;
}

int rn_query_complete(struct rn_query *query, struct ration_error *error)
{
    if (query->by_limit && query->attribute_count != 0)
        return rn_error_set(error, RATION_EINVAL, 0,
                            "give attributes (the rules decide) or key and limit, not both");
    if (query->by_limit && !query->key.data)
        return rn_error_set(error, RATION_EINVAL, 0,
                            "\"key\" is missing: the client to count, such as \"alice\"");
    if (!query->by_limit && query->key.data)
        return rn_error_set(error, RATION_EINVAL, 0,
                            "\"limit\" is missing, such as \"100 per minute\"");
    return 0;
}

/* --- JSON --------------------------------------------------------------------------------- */

/* What was found instead. */
static const char *kind_name(enum rn_json_kind kind)
{
    static const char *const names[] = {
        [RN_JSON_BAD] = "nothing",  [RN_JSON_END] = "nothing",     [RN_JSON_OBJECT] = "an object",
        [RN_JSON_ARRAY] = "a list", [RN_JSON_STRING] = "a string", [RN_JSON_NUMBER] = "a number",
        [RN_JSON_TRUE] = "true",    [RN_JSON_FALSE] = "false",     [RN_JSON_NULL] = "null"};

    return names[kind];
}

int rn_query_expected(struct rn_json *json, const struct rn_json_token *token, const char *what)
{
    return rn_json_object_to(json, token->at, "%s must be %s, found %s",
                             rn_excerpt(token->name).text, what, kind_name(token->kind));
}

static int read_text(struct rn_json *json, const struct rn_json_token *token, struct rn_slice *text)
{
    if (token->kind != RN_JSON_STRING)
        return rn_query_expected(json, token, "a string");
    *text = token->text;
    return 0;
}

static int read_attribute(struct rn_query *query, struct rn_json *json,
                          const struct rn_json_token *token)
{
    switch (token->kind) {
    case RN_JSON_STRING:
    case RN_JSON_NUMBER:
    case RN_JSON_TRUE:
    case RN_JSON_FALSE:
        break;
    case RN_JSON_NULL: /* as if it were not there */
        return 0;
    default:
        return rn_query_expected(json, token, "a string, a number or a boolean");
    }
    if (token->name.len == 0)
        return rn_json_object_to(json, token->at, "an attribute has no name");
    if (rn_query_add(query, (char *)token->name.data, token->name.len, token->text) != 0)
        return rn_json_object_to(json, token->at, "more than %d attributes", RN_QUERY_ATTRIBUTES);
    return 0;
}

/* Whether an attribute before has the name, in whatever letter case, of the member. */
static bool is_given(const struct rn_query *query, struct rn_slice name)
{
    for (uint32_t i = 0; i < query->attribute_count; i++) {
        const struct ration_attribute *a = &query->attributes[i];
        size_t at = 0;

        if (a->name_len != name.len)
            continue;
        while (at < name.len &&
               (name.data[at] >= 'A' && name.data[at] <= 'Z' ? name.data[at] | 0x20
                                                             : name.data[at]) == a->name[at])
            at++;
        if (at == name.len)
            return true;
    }
    return false;
}

int rn_query_read_attributes(struct rn_query *query, struct rn_json *json,
                             const struct rn_json_token *token)
{
    struct rn_json_token member;

    if (token->kind != RN_JSON_OBJECT)
        return rn_query_expected(json, token, "an object such as {\"ip\": \"192.0.2.7\"}");
    while (rn_json_read(json, &member) != RN_JSON_END) {
        if (member.kind == RN_JSON_BAD)
            return RATION_EINVAL;
        if (is_given(query, member.name))
            return rn_json_object_to(json, member.name_at, "attribute %s is given twice",
                                     rn_excerpt(member.name).text);
        if (read_attribute(query, json, &member) != 0)
            return RATION_EINVAL;
    }
    return 0;
}

static int read_wait(struct rn_query *query, struct rn_json *json,
                     const struct rn_json_token *token)
{
    if (token->kind == RN_JSON_STRING && rn_slice_is(token->text, "return")) {
        query->wait = RN_WAIT_RETURN;
        return 0;
    }
    query->wait = RN_WAIT_HOLD;
    if (token->kind == RN_JSON_STRING && rn_slice_is(token->text, "hold"))
        return 0;
    if (token->kind == RN_JSON_NUMBER && rn_json_seconds(token, &query->max_wait_ns) &&
        query->max_wait_ns > 0 && query->max_wait_ns <= RN_HOLD_MAX_NS)
        return 0;
    return rn_json_object_to(json, token->at,
                             "\"wait\" must be \"return\", \"hold\" or the longest wait in "
                             "seconds, up to 60");
}

static int read_for(struct rn_query *query, struct rn_json *json, const struct rn_json_token *token)
{
    if (token->kind != RN_JSON_NUMBER || !rn_json_seconds(token, &query->for_ns) ||
        query->for_ns < 1000000 || query->for_ns > RATION_LEASE_MAX_NS)
        return rn_json_object_to(json, token->at, "\"for\" must be seconds, from 0.001 to 86400");
    return 0;
}

int rn_query_read_cost(struct rn_query *query, struct rn_json *json,
                       const struct rn_json_token *token)
{
    if (!rn_json_u64(token, &query->cost))
        return rn_json_object_to(json, token->at, "\"cost\" must be a whole number, 0 or more");
    query->cost_given = true;
    return 0;
}

static int read_credit(struct rn_query *query, struct rn_json *json,
                       const struct rn_json_token *token)
{
    int64_t units;

    if (!rn_json_i64(token, &units) || units >= 0)
        return rn_query_read_cost(query, json, token);
    query->cost = 0 - (uint64_t)units;
    query->cost_given = query->credit = true;
    return 0;
}

static int read_flag(struct rn_json *json, const struct rn_json_token *token, bool *flag)
{
    if (token->kind != RN_JSON_TRUE && token->kind != RN_JSON_FALSE)
        return rn_query_expected(json, token, "true or false");
    *flag = token->kind == RN_JSON_TRUE;
    return 0;
}

static int read_peek(struct rn_query *query, struct rn_json *json,
                     const struct rn_json_token *token)
{
    return read_flag(json, token, &query->peek);
}

static int read_drain(struct rn_query *query, struct rn_json *json,
                      const struct rn_json_token *token)
{
    return read_flag(json, token, &query->drain);
}

static int read_key(struct rn_query *query, struct rn_json *json, const struct rn_json_token *token)
{
    return read_text(json, token, &query->key);
}

static int read_lease(struct rn_query *query, struct rn_json *json,
                      const struct rn_json_token *token)
{
    return read_text(json, token, &query->lease);
}

static int read_rule(struct rn_query *query, struct rn_json *json,
                     const struct rn_json_token *token)
{
    return read_text(json, token, &query->rule);
}

static int read_charge(struct rn_query *query, struct rn_json *json,
                       const struct rn_json_token *token)
{
    return read_text(json, token, &query->charge);
}

static int read_status(struct rn_query *query, struct rn_json *json,
                       const struct rn_json_token *token)
{
    if (rn_json_u64(token, &query->status) && query->status >= RN_QUERY_STATUS_MIN &&
        query->status <= RN_QUERY_STATUS_MAX)
        return 0;
    return rn_json_object_to(json, token->at,
                             "\"status\" must be that of the answer, from %d to %d",
                             RN_QUERY_STATUS_MIN, RN_QUERY_STATUS_MAX);
}

static const struct member {
    const char *name;
    unsigned bit;
    int (*read)(struct rn_query *query, struct rn_json *json, const struct rn_json_token *token);
} members[] = {
    {"attributes", RN_QUERY_ATTRIBUTES_BIT, rn_query_read_attributes},
    {"cost", RN_QUERY_CREDIT, read_credit},
    {"cost", RN_QUERY_COST, rn_query_read_cost},
    {"key", RN_QUERY_KEY, read_key},
    {"wait", RN_QUERY_WAIT, read_wait},
    {"peek", RN_QUERY_PEEK, read_peek},
    {"drain", RN_QUERY_DRAIN, read_drain},
    {"for", RN_QUERY_FOR, read_for},
    {"lease", RN_QUERY_LEASE, read_lease},
    {"rule", RN_QUERY_RULE, read_rule},
    {"charge", RN_QUERY_CHARGE, read_charge},
    {"status", RN_QUERY_CHARGE, read_status},
};

static int refuse_member(struct rn_json *json, const struct rn_json_token *token, unsigned allowed)
{
    const char *names[COUNT(members) + 2], *meant;
    size_t count = 0;

    for (size_t i = 0; i < COUNT(members); i++)
        if (allowed & members[i].bit)
            names[count++] = members[i].name;
    if (allowed & RN_QUERY_KEY) {
        names[count++] = "limit";
        names[count++] = "algorithm";
    }
    meant = rn_suggest(token->name, names, count);
    if (meant)
        return rn_json_object_to(json, token->at, "unknown member %s; did you mean \"%s\"?",
                                 rn_excerpt(token->name).text, meant);
    return rn_json_object_to(json, token->at, "unknown member %s", rn_excerpt(token->name).text);
}

static const struct member *find_member(const struct rn_json_token *token, unsigned allowed)
{
    for (size_t i = 0; i < COUNT(members); i++)
        if ((allowed & members[i].bit) && rn_slice_is(token->name, members[i].name))
            return &members[i];
    return NULL;
}

/* What has been given so far. `limit` and `algorithm` wait for each other. */
struct given {
    unsigned members; /* bit n: members[n] */
    struct rn_slice limit, algorithm;
    size_t at;
};

static int refuse_twice(struct rn_json *json, const struct rn_json_token *token)
{
    return rn_json_object_to(json, token->name_at, "%s is given twice",
                             rn_excerpt(token->name).text);
}

static int read_member(struct rn_query *query, struct rn_json *json,
                       const struct rn_json_token *token, unsigned allowed, struct given *given)
{
    const struct member *member = find_member(token, allowed);

    if (member) {
        unsigned bit = 1u << (member - members);

        if (given->members & bit)
            return refuse_twice(json, token);
        given->members |= bit;
        return member->read(query, json, token);
    }
    if ((allowed & RN_QUERY_KEY) && rn_slice_is(token->name, "limit")) {
        given->at = token->at;
        return given->limit.data ? refuse_twice(json, token)
                                 : read_text(json, token, &given->limit);
    }
    if ((allowed & RN_QUERY_KEY) && rn_slice_is(token->name, "algorithm"))
        return given->algorithm.data ? refuse_twice(json, token)
                                     : read_text(json, token, &given->algorithm);
    return refuse_member(json, token, allowed);
}

int rn_query_read(struct rn_query *query, struct rn_json *json, unsigned allowed)
{
    struct given given = {.at = 0};
    struct rn_json_token token;
    struct ration_error error;

    while (rn_json_read(json, &token) != RN_JSON_END)
        if (token.kind == RN_JSON_BAD || read_member(query, json, &token, allowed, &given) != 0)
            return RATION_EINVAL;
    if (given.limit.data && rn_query_limit(query, given.limit, given.algorithm, &error) != 0)
        return rn_json_object_to(json, given.at, "%s", error.text);
    if (given.algorithm.data && !given.limit.data)
        return rn_json_object_to(json, token.at, "\"algorithm\" without \"limit\"");
    return 0;
}
