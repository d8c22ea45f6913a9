/* SPDX-License-Identifier: Apache-2.0 */
#include "front/params.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/decimal.h"
#include "base/error.h"
#include "core/algorithm.h"
#include "front/decision.h"
#include "rules/report/report.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

void rn_params_init(struct rn_params *params)
{
    params->by_limit = params->cost_given = params->peek = false;
    params->credit = params->drain = false;
    params->shadow = params->keep_places = params->full = params->line = false;
    params->key = params->lease = params->charge = (struct rn_slice){0};
    params->limit_text = params->algorithm = (struct rn_slice){0};
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

/* The word in a limit's text that allows one algorithm only; NULL: there is none. */
static const char *implied_by(const struct ration_limit *limit)
{
    const char *word = rn_algorithm_find(limit->algorithm)->word;

    if (word)
        return word;
    if (limit->calendar != RATION_CALENDAR_NONE)
        return "calendar";
    return limit->burst != 0 ? "burst" : limit->step_ns != 0 ? "steps" : NULL;
}

static int refuse_algorithm(struct rn_slice name, struct ration_error *error)
{
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

int rn_params_set_limit(struct rn_params *params, struct rn_slice text, struct rn_slice name,
                        struct ration_error *error)
{
    struct ration_limit *limit = &params->limit;
    int code = rn_params_parse_limit(text, limit, error);
    enum ration_algorithm algorithm;
    const char *implied;

    params->by_limit = true;
    if (code != 0 || !name.data)
        return code;
    if (ration_algorithm_parse(name.data, name.len, &algorithm) != 0)
        return refuse_algorithm(name, error);
    implied = implied_by(limit);
    if (implied && algorithm != limit->algorithm)
        return rn_error_set(error, RATION_EINVAL, 0,
                            "%s in the limit means %s; leave out algorithm or write that", implied,
                            ration_algorithm_name(limit->algorithm));
    limit->algorithm = algorithm;
    return ration_limit_check(limit, error);
}

int rn_params_check(const struct rn_params *params, struct ration_error *error)
{
    if (params->by_limit && params->attribute_count != 0)
        return rn_error_set(error, RATION_EINVAL, 0,
                            "give attributes (the rules decide) or key and limit, not both");
    if (params->by_limit && !params->key.data)
        return rn_error_set(error, RATION_EINVAL, 0,
                            "\"key\" is missing: the client to count, such as \"alice\"");
    if (!params->by_limit && params->algorithm.data)
        return rn_error_set(error, RATION_EINVAL, 0, "\"algorithm\" without \"limit\"");
    if (!params->by_limit && params->key.data)
        return rn_error_set(error, RATION_EINVAL, 0,
                            "\"limit\" is missing; write one such as \"100 per minute\"");
    return 0;
}

/* --- tables of members ------------------------------------------------------------------- */

static int refuse_kind(struct rn_json *json, const struct rn_json_token *token, const char *what)
{
    static const char *const names[] = {
        [RN_JSON_BAD] = "nothing",  [RN_JSON_END] = "nothing",     [RN_JSON_OBJECT] = "an object",
        [RN_JSON_ARRAY] = "a list", [RN_JSON_STRING] = "a string", [RN_JSON_NUMBER] = "a number",
        [RN_JSON_TRUE] = "true",    [RN_JSON_FALSE] = "false",     [RN_JSON_NULL] = "null"};

    return rn_json_object_to(json, token->at, "%s must be %s, found %s",
                             rn_excerpt(token->name).text, what, names[token->kind]);
}

static int read_value(const struct rn_param_member *member, void *into, struct rn_json *json,
                      const struct rn_json_token *token)
{
    void *to = (char *)into + member->offset;

    switch (member->kind) {
    case RN_VALUE_TEXT:
        if (token->kind != RN_JSON_STRING)
            return refuse_kind(json, token, "a string");
        *(struct rn_slice *)to = token->text;
        return 0;
    case RN_VALUE_FLAG:
        if (token->kind != RN_JSON_TRUE && token->kind != RN_JSON_FALSE)
            return refuse_kind(json, token, "true or false");
        *(bool *)to = token->kind == RN_JSON_TRUE;
        return 0;
    case RN_VALUE_OTHER:
        break;
    }
    return member->read(into, json, token);
}

const char *rn_params_suggest(const struct rn_param_member *members, size_t count, unsigned allowed,
                              struct rn_slice name)
{
    const char *names[RN_PARAMS_MEMBERS_MAX];
    size_t n = 0;

    for (size_t i = 0; i < count; i++)
        if (allowed & members[i].bit)
            names[n++] = members[i].name;
    return rn_suggest(name, names, n);
}

static int refuse_unknown(const struct rn_param_member *members, size_t count, struct rn_json *json,
                          unsigned allowed, const struct rn_json_token *token)
{
    const char *meant = rn_params_suggest(members, count, allowed, token->name);
    char all[160] = "";
    size_t len = 0;

    for (size_t i = 0; i < count && len < sizeof all; i++)
        if (allowed & members[i].bit)
            len += (size_t)snprintf(all + len, sizeof all - len, "%s%s", len == 0 ? "" : ", ",
                                    members[i].name);
    if (meant)
        return rn_json_object_to(json, token->name_at, "unknown member %s; did you mean \"%s\"?",
                                 rn_excerpt(token->name).text, meant);
    return rn_json_object_to(json, token->name_at, "unknown member %s; allowed here: %s",
                             rn_excerpt(token->name).text, all);
}

int rn_params_read_members(const struct rn_param_member *members, size_t count, void *into,
                           struct rn_json *json, unsigned allowed, unsigned *given)
{
    struct rn_json_token token;

    *given = 0;
    while (rn_json_read(json, &token) != RN_JSON_END) {
        const struct rn_param_member *member = members, *end = members + count;

        if (token.kind == RN_JSON_BAD)
            return RATION_EINVAL;
        while (member < end && (!(allowed & member->bit) || !rn_slice_is(token.name, member->name)))
            member++;
        if (member == end) {
            for (member = members; member < end; member++)
                if (rn_slice_is(token.name, member->name))
                    return rn_json_object_to(json, token.name_at, "\"%s\" has no meaning here",
                                             member->name);
            return refuse_unknown(members, count, json, allowed, &token);
        }
        if (*given & member->bit)
            return rn_json_object_to(json, token.name_at, "%s is given twice",
                                     rn_excerpt(token.name).text);
        *given |= member->bit;
        if (read_value(member, into, json, &token) != 0)
            return RATION_EINVAL;
    }
    return 0;
}

/* --- members of a decision ----------------------------------------------------------------- */

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

static int read_attribute(struct rn_params *params, struct rn_json *json,
                          const struct rn_json_token *token)
{
    if (token->name.len == 0)
        return rn_json_object_to(json, token->at, "an attribute has no name");
    switch (token->kind) {
    case RN_JSON_STRING:
    case RN_JSON_NUMBER:
    case RN_JSON_TRUE:
    case RN_JSON_FALSE:
        break;
    case RN_JSON_NULL: /* as if it were not there */
        return 0;
    case RN_JSON_BAD:
    case RN_JSON_END:
    case RN_JSON_OBJECT:
    case RN_JSON_ARRAY:
        return refuse_kind(json, token, "a string, a number or a boolean");
    }
    if (rn_params_add(params, (char *)token->name.data, token->name.len, token->text) != 0)
        return rn_json_object_to(json, token->at, "more than %d attributes",
                                 RN_PARAMS_ATTRIBUTES_MAX);
    return 0;
}

int rn_params_read_attributes(void *into, struct rn_json *json, const struct rn_json_token *token)
{
    struct rn_params *params = into;
    struct rn_json_token member;

    if (token->kind != RN_JSON_OBJECT)
        return refuse_kind(json, token, "an object such as {\"ip\": \"192.0.2.7\"}");
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

int rn_params_read_cost(void *into, struct rn_json *json, const struct rn_json_token *token)
{
    struct rn_params *params = into;

    if (!rn_json_u64(token, &params->cost))
        return rn_json_object_to(json, token->at, "\"cost\" must be a whole number, 0 or more");
    params->cost_given = true;
    return 0;
}

static int read_credit(void *into, struct rn_json *json, const struct rn_json_token *token)
{
    struct rn_params *params = into;
    int64_t units;

    if (!rn_json_i64(token, &units) || units >= 0)
        return rn_params_read_cost(params, json, token);
    params->cost = 0 - (uint64_t)units;
    params->cost_given = params->credit = true;
    return 0;
}

bool rn_params_parse_wait(struct rn_params *params, struct rn_slice text)
{
    struct rn_json_token number = {.kind = RN_JSON_NUMBER, .text = text};
    struct rn_decimal decimal;

    params->wait = rn_slice_is(text, "return") ? RN_WAIT_RETURN : RN_WAIT_HOLD;
    return params->wait == RN_WAIT_RETURN || rn_slice_is(text, "hold") ||
           (rn_decimal_parse(text, &decimal) && rn_json_seconds(&number, &params->max_wait_ns) &&
            params->max_wait_ns > 0 && params->max_wait_ns <= RN_REPLY_DELAY_MAX_NS);
}

static int read_wait(void *into, struct rn_json *json, const struct rn_json_token *token)
{
    bool word = rn_slice_is(token->text, "hold") || rn_slice_is(token->text, "return");

    if (token->kind != (word ? RN_JSON_STRING : RN_JSON_NUMBER) ||
        !rn_params_parse_wait(into, token->text))
        return rn_json_object_to(json, token->at,
                                 "\"wait\" must be \"return\" (not at all), \"hold\" (60 s), or a "
                                 "number: the longest wait in seconds, above 0 and up to 60");
    return 0;
}

static int read_for(void *into, struct rn_json *json, const struct rn_json_token *token)
{
    struct rn_params *params = into;

    if (token->kind != RN_JSON_NUMBER || !rn_json_seconds(token, &params->for_ns) ||
        params->for_ns < 1000000 || params->for_ns > RATION_LEASE_MAX_NS)
        return rn_json_object_to(json, token->at, "\"for\" must be seconds, from 0.001 to 86400");
    return 0;
}

static int read_limit(void *into, struct rn_json *json, const struct rn_json_token *token)
{
    struct rn_params *params = into;

    if (token->kind != RN_JSON_STRING)
        return refuse_kind(json, token, "a string");
    params->limit_text = token->text;
    params->limit_at = token->at;
    return 0;
}

static int read_status(void *into, struct rn_json *json, const struct rn_json_token *token)
{
    struct rn_params *params = into;

    if (rn_json_u64(token, &params->status) && params->status >= RN_STATUS_MIN &&
        params->status <= RN_STATUS_MAX)
        return 0;
    return rn_json_object_to(json, token->at,
                             "\"status\" must be that of the answer, from %d to %d", RN_STATUS_MIN,
                             RN_STATUS_MAX);
}

bool rn_params_parse_number(struct rn_slice text, double *value)
{
    struct rn_decimal number;
    char copy[64];

    if (text.len >= sizeof copy || !rn_decimal_parse(text, &number))
        return false;
    rn_slice_copy(copy, sizeof copy, text);
    *value = strtod(copy, NULL);
    return true;
}

#define AT(field) offsetof(struct rn_params, field)

static const struct rn_param_member members[] = {
    {"attributes", RN_PARAM_ATTRIBUTES, RN_VALUE_OTHER, 0, rn_params_read_attributes},
    {"cost", RN_PARAM_CREDIT, RN_VALUE_OTHER, 0, read_credit},
    {"cost", RN_PARAM_COST, RN_VALUE_OTHER, 0, rn_params_read_cost},
    {"key", RN_PARAM_KEY, RN_VALUE_TEXT, AT(key), NULL},
    {"limit", RN_PARAM_LIMIT, RN_VALUE_OTHER, 0, read_limit},
    {"algorithm", RN_PARAM_ALGORITHM, RN_VALUE_TEXT, AT(algorithm), NULL},
    {"wait", RN_PARAM_WAIT, RN_VALUE_OTHER, 0, read_wait},
    {"peek", RN_PARAM_PEEK, RN_VALUE_FLAG, AT(peek), NULL},
    {"drain", RN_PARAM_DRAIN, RN_VALUE_FLAG, AT(drain), NULL},
    {"for", RN_PARAM_FOR, RN_VALUE_OTHER, 0, read_for},
    {"lease", RN_PARAM_LEASE, RN_VALUE_TEXT, AT(lease), NULL},
    {"charge", RN_PARAM_CHARGE, RN_VALUE_TEXT, AT(charge), NULL},
    {"status", RN_PARAM_STATUS, RN_VALUE_OTHER, 0, read_status},
};
_Static_assert(COUNT(members) <= RN_PARAMS_MEMBERS_MAX, "rn_params_suggest has room for all names");

int rn_params_read(struct rn_params *params, struct rn_json *json, unsigned allowed)
{
    struct ration_error error;
    unsigned given;

    if (rn_params_read_members(members, COUNT(members), params, json, allowed, &given) != 0)
        return RATION_EINVAL;
    if ((given & RN_PARAM_LIMIT) &&
        rn_params_set_limit(params, params->limit_text, params->algorithm, &error) != 0)
        return rn_json_object_to(json, params->limit_at, "%s", error.text);
    return 0;
}
