/* SPDX-License-Identifier: Apache-2.0 */
#include "front/params.h"

#include <stdio.h>

#include "base/error.h"
#include "core/algorithm.h"
#include "front/decision.h"
#include "rules/report/report.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

void rn_params_init(struct rn_params *params)
{
    params->by_limit = params->cost_given = params->peek = false;
    params->credit = params->drain = false;
    params->shadow = params->keep_places = params->full = false;
    params->key = params->lease = params->rule = params->charge = (struct rn_slice){0};
    params->attribute_count = 0;
    params->cost = 1;
    params->status = 0;
    params->wait = RN_WAIT_AS_RULE;
    params->max_wait_ns = params->for_ns = 0;
}

int rn_params_add(struct rn_params *params, char *name, size_t name_len, struct rn_slice value)
{
    if (params->attribute_count == RN_PARAMS_ATTRIBUTES_MAX)
        return RATION_EINVAL;
    for (size_t i = 0; i < name_len; i++)
        if (name[i] >= 'A' && name[i] <= 'Z')
            name[i] = (char)(name[i] | 0x20);
    params->attributes[params->attribute_count++] =
        (struct ration_attribute){name, name_len, value.data, value.len};
    return 0;
}

/* --- the limit ------------------------------------------------------------------------- */

/* The word of the text that implies an algorithm, NULL if any algorithm will do. */
static const char *implied_by(const struct ration_limit *limit)
{
    const char *word = rn_algorithm_find(limit->algorithm)->word;

    if (word)
        return word;
    if (limit->calendar != RATION_CALENDAR_NONE)
        return "calendar";
    return limit->burst != 0 ? "burst" : limit->step_ns != 0 ? "steps" : NULL;
}

static int set_algorithm(struct ration_limit *limit, struct rn_slice name,
                         struct ration_error *error)
{
    enum ration_algorithm algorithm;

    if (ration_algorithm_parse(name.data, name.len, &algorithm) != 0) {
        const char *rates[RN_ALGORITHMS_MAX];
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

int rn_params_parse_limit(struct rn_slice text, struct ration_limit *limit,
                          struct ration_error *error)
{
    struct ration_error found;
    int code = ration_limit_parse(text.data, text.len, limit, &found);

    if (code == RATION_EPARSE)
        return rn_error_set(error, RATION_EINVAL, found.pos, "in the limit, at byte %zu: %s",
                            found.pos + 1, found.text);
    return code == 0 ? 0 : rn_error_set(error, RATION_EINVAL, 0, "in the limit: %s", found.text);
}

int rn_params_set_limit(struct rn_params *params, struct rn_slice text, struct rn_slice algorithm,
                        struct ration_error *error)
{
    int code = rn_params_parse_limit(text, &params->limit, error);

    params->by_limit = true;
    return code == 0 && algorithm.data ? set_algorithm(&params->limit, algorithm, error) : code;
}

int rn_params_check(struct rn_params *params, struct ration_error *error)
{
    if (params->by_limit && params->attribute_count != 0)
        return rn_error_set(error, RATION_EINVAL, 0,
                            "give attributes (the rules decide) or key and limit, not both");
    if (params->by_limit && !params->key.data)
        return rn_error_set(error, RATION_EINVAL, 0,
                            "\"key\" is missing: the client to count, such as \"alice\"");
    if (!params->by_limit && params->key.data)
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

int rn_params_expected(struct rn_json *json, const struct rn_json_token *token, const char *what)
{
    return rn_json_object_to(json, token->at, "%s must be %s, found %s",
                             rn_excerpt(token->name).text, what, kind_name(token->kind));
}

static int read_text(struct rn_json *json, const struct rn_json_token *token, struct rn_slice *text)
{
    if (token->kind != RN_JSON_STRING)
        return rn_params_expected(json, token, "a string");
    *text = token->text;
    return 0;
}

static int read_attribute(struct rn_params *params, struct rn_json *json,
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
    case RN_JSON_OBJECT:
    case RN_JSON_ARRAY:
    case RN_JSON_END:
    case RN_JSON_BAD:
        return rn_params_expected(json, token, "a string, a number or a boolean");
    }
    if (token->name.len == 0)
        return rn_json_object_to(json, token->at, "an attribute has no name");
    if (rn_params_add(params, (char *)token->name.data, token->name.len, token->text) != 0)
        return rn_json_object_to(json, token->at, "more than %d attributes",
                                 RN_PARAMS_ATTRIBUTES_MAX);
    return 0;
}

/* Whether an attribute before has the name, in whatever letter case, of the member. */
static bool is_given(const struct rn_params *params, struct rn_slice name)
{
    for (uint32_t i = 0; i < params->attribute_count; i++) {
        const struct ration_attribute *a = &params->attributes[i];
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

int rn_params_read_attributes(struct rn_params *params, struct rn_json *json,
                              const struct rn_json_token *token)
{
    struct rn_json_token member;

    if (token->kind != RN_JSON_OBJECT)
        return rn_params_expected(json, token, "an object such as {\"ip\": \"192.0.2.7\"}");
    while (rn_json_read(json, &member) != RN_JSON_END) {
        if (member.kind == RN_JSON_BAD)
            return RATION_EINVAL;
        if (is_given(params, member.name))
            return rn_json_object_to(json, member.name_at, "attribute %s is given twice",
                                     rn_excerpt(member.name).text);
        if (read_attribute(params, json, &member) != 0)
            return RATION_EINVAL;
    }
    return 0;
}

static int read_wait(struct rn_params *params, struct rn_json *json,
                     const struct rn_json_token *token)
{
    if (token->kind == RN_JSON_STRING && rn_slice_is(token->text, "return")) {
        params->wait = RN_WAIT_RETURN;
        return 0;
    }
    params->wait = RN_WAIT_HOLD;
    if (token->kind == RN_JSON_STRING && rn_slice_is(token->text, "hold"))
        return 0;
    if (token->kind == RN_JSON_NUMBER && rn_json_seconds(token, &params->max_wait_ns) &&
        params->max_wait_ns > 0 && params->max_wait_ns <= RN_REPLY_DELAY_MAX_NS)
        return 0;
    return rn_json_object_to(json, token->at,
                             "\"wait\" must be \"return\", \"hold\" or the longest wait in "
                             "seconds, up to 60");
}

static int read_for(struct rn_params *params, struct rn_json *json,
                    const struct rn_json_token *token)
{
    if (token->kind != RN_JSON_NUMBER || !rn_json_seconds(token, &params->for_ns) ||
        params->for_ns < 1000000 || params->for_ns > RATION_LEASE_MAX_NS)
        return rn_json_object_to(json, token->at, "\"for\" must be seconds, from 0.001 to 86400");
    return 0;
}

int rn_params_read_cost(struct rn_params *params, struct rn_json *json,
                        const struct rn_json_token *token)
{
    if (!rn_json_u64(token, &params->cost))
        return rn_json_object_to(json, token->at, "\"cost\" must be a whole number, 0 or more");
    params->cost_given = true;
    return 0;
}

static int read_credit(struct rn_params *params, struct rn_json *json,
                       const struct rn_json_token *token)
{
    int64_t units;

    if (!rn_json_i64(token, &units) || units >= 0)
        return rn_params_read_cost(params, json, token);
    params->cost = 0 - (uint64_t)units;
    params->cost_given = params->credit = true;
    return 0;
}

static int read_flag(struct rn_json *json, const struct rn_json_token *token, bool *flag)
{
    if (token->kind != RN_JSON_TRUE && token->kind != RN_JSON_FALSE)
        return rn_params_expected(json, token, "true or false");
    *flag = token->kind == RN_JSON_TRUE;
    return 0;
}

static int read_peek(struct rn_params *params, struct rn_json *json,
                     const struct rn_json_token *token)
{
    return read_flag(json, token, &params->peek);
}

static int read_drain(struct rn_params *params, struct rn_json *json,
                      const struct rn_json_token *token)
{
    return read_flag(json, token, &params->drain);
}

static int read_key(struct rn_params *params, struct rn_json *json,
                    const struct rn_json_token *token)
{
    return read_text(json, token, &params->key);
}

static int read_lease(struct rn_params *params, struct rn_json *json,
                      const struct rn_json_token *token)
{
    return read_text(json, token, &params->lease);
}

static int read_rule(struct rn_params *params, struct rn_json *json,
                     const struct rn_json_token *token)
{
    return read_text(json, token, &params->rule);
}

static int read_charge(struct rn_params *params, struct rn_json *json,
                       const struct rn_json_token *token)
{
    return read_text(json, token, &params->charge);
}

static int read_status(struct rn_params *params, struct rn_json *json,
                       const struct rn_json_token *token)
{
    if (rn_json_u64(token, &params->status) && params->status >= RN_STATUS_MIN &&
        params->status <= RN_STATUS_MAX)
        return 0;
    return rn_json_object_to(json, token->at,
                             "\"status\" must be that of the answer, from %d to %d", RN_STATUS_MIN,
                             RN_STATUS_MAX);
}

static const struct member {
    const char *name;
    unsigned bit;
    int (*read)(struct rn_params *params, struct rn_json *json, const struct rn_json_token *token);
} members[] = {
    {"attributes", RN_PARAM_ATTRIBUTES, rn_params_read_attributes},
    {"cost", RN_PARAM_CREDIT, read_credit},
    {"cost", RN_PARAM_COST, rn_params_read_cost},
    {"key", RN_PARAM_KEY, read_key},
    {"wait", RN_PARAM_WAIT, read_wait},
    {"peek", RN_PARAM_PEEK, read_peek},
    {"drain", RN_PARAM_DRAIN, read_drain},
    {"for", RN_PARAM_FOR, read_for},
    {"lease", RN_PARAM_LEASE, read_lease},
    {"rule", RN_PARAM_RULE, read_rule},
    {"charge", RN_PARAM_CHARGE, read_charge},
    {"status", RN_PARAM_CHARGE, read_status},
};

static int refuse_member(struct rn_json *json, const struct rn_json_token *token, unsigned allowed)
{
    const char *names[COUNT(members) + 2], *meant;
    size_t count = 0;

    for (size_t i = 0; i < COUNT(members); i++)
        if (allowed & members[i].bit)
            names[count++] = members[i].name;
    if (allowed & RN_PARAM_KEY) {
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

static int read_member(struct rn_params *params, struct rn_json *json,
                       const struct rn_json_token *token, unsigned allowed, struct given *given)
{
    const struct member *member = find_member(token, allowed);

    if (member) {
        unsigned bit = 1u << (member - members);

        if (given->members & bit)
            return refuse_twice(json, token);
        given->members |= bit;
        return member->read(params, json, token);
    }
    if ((allowed & RN_PARAM_KEY) && rn_slice_is(token->name, "limit")) {
        given->at = token->at;
        return given->limit.data ? refuse_twice(json, token)
                                 : read_text(json, token, &given->limit);
    }
    if ((allowed & RN_PARAM_KEY) && rn_slice_is(token->name, "algorithm"))
        return given->algorithm.data ? refuse_twice(json, token)
                                     : read_text(json, token, &given->algorithm);
    return refuse_member(json, token, allowed);
}

int rn_params_read(struct rn_params *params, struct rn_json *json, unsigned allowed)
{
    struct given given = {.at = 0};
    struct rn_json_token token;
    struct ration_error error;

    while (rn_json_read(json, &token) != RN_JSON_END)
        if (token.kind == RN_JSON_BAD || read_member(params, json, &token, allowed, &given) != 0)
            return RATION_EINVAL;
    if (given.limit.data && rn_params_set_limit(params, given.limit, given.algorithm, &error) != 0)
        return rn_json_object_to(json, given.at, "%s", error.text);
    if (given.algorithm.data && !given.limit.data)
        return rn_json_object_to(json, token.at, "\"algorithm\" without \"limit\"");
    return 0;
}
