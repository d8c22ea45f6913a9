/* SPDX-License-Identifier: Apache-2.0 */
#include "front/admin/params.h"

#include <inttypes.h>

#include <ration/clients.h>

#include "base/error.h"
#include "rules/report/report.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define TOP_MAX 1000
#define PAGE_MAX 10000

static int read_attributes(void *into, struct rn_json *json, const struct rn_json_token *token)
{
    return rn_params_read_attributes(((struct rn_admin_params *)into)->client, json, token);
}

static int read_cost(void *into, struct rn_json *json, const struct rn_json_token *token)
{
    return rn_params_read_cost(((struct rn_admin_params *)into)->client, json, token);
}

static int read_add(void *into, struct rn_json *json, const struct rn_json_token *token)
{
    if (rn_json_i64(token, &((struct rn_admin_params *)into)->add))
        return 0;
    return rn_json_object_to(json, token->at,
                             "\"add\" must be a whole number of units, below 0 to give back");
}

static int read_remaining(void *into, struct rn_json *json, const struct rn_json_token *token)
{
    if (rn_json_u64(token, &((struct rn_admin_params *)into)->remaining))
        return 0;
    return rn_json_object_to(json, token->at, "\"remaining\" must be a whole number, 0 or more");
}

static int read_for(void *into, struct rn_json *json, const struct rn_json_token *token)
{
    int64_t *ns = &((struct rn_admin_params *)into)->for_ns;

    if (token->kind == RN_JSON_NULL ||
        (token->kind == RN_JSON_NUMBER && rn_json_seconds(token, ns) && *ns >= 1000000 &&
         *ns <= RATION_EXPIRY_MAX_NS))
        return 0;
    return rn_json_object_to(json, token->at,
                             "\"for\" must be seconds, from 0.001 to ten years, or null: for ever");
}

static int read_value(void *into, struct rn_json *json, const struct rn_json_token *token)
{
    if (token->kind == RN_JSON_NUMBER &&
        rn_params_parse_number(token->text, &((struct rn_admin_params *)into)->value))
        return 0;
    return rn_json_object_to(json, token->at, "\"value\" must be a number, such as 0.7 or 1000");
}

static int read_version(void *into, struct rn_json *json, const struct rn_json_token *token)
{
    if (rn_json_u64(token, &((struct rn_admin_params *)into)->version))
        return 0;
    return rn_json_object_to(json, token->at, "\"version\" must be the id of a version, such as 3");
}

#define AT(field) offsetof(struct rn_admin_params, field)

static const struct rn_param_member members[] = {
    {"attributes", RN_ADMIN_ATTRIBUTES, RN_VALUE_OTHER, 0, read_attributes},
    {"cost", RN_ADMIN_COST, RN_VALUE_OTHER, 0, read_cost},
    {"rule", RN_ADMIN_RULE, RN_VALUE_TEXT, AT(rule), NULL},
    {"add", RN_ADMIN_ADD, RN_VALUE_OTHER, 0, read_add},
    {"remaining", RN_ADMIN_REMAINING, RN_VALUE_OTHER, 0, read_remaining},
    {"limit", RN_ADMIN_LIMIT, RN_VALUE_TEXT, AT(limit), NULL},
    {"for", RN_ADMIN_FOR, RN_VALUE_OTHER, 0, read_for},
    {"note", RN_ADMIN_NOTE, RN_VALUE_TEXT, AT(note), NULL},
    {"reason", RN_ADMIN_REASON, RN_VALUE_TEXT, AT(reason), NULL},
    {"shadow", RN_ADMIN_SHADOW, RN_VALUE_FLAG, AT(shadow), NULL},
    {"matching", RN_ADMIN_MATCHING, RN_VALUE_FLAG, AT(matching), NULL},
    {"value", RN_ADMIN_VALUE, RN_VALUE_OTHER, 0, read_value},
    {"hash", RN_ADMIN_HASH, RN_VALUE_TEXT, AT(hash), NULL},
    {"version", RN_ADMIN_VERSION, RN_VALUE_OTHER, 0, read_version},
    /* For suggestions only: rn_admin_params_read_one reads these. */
    {"count", RN_ADMIN_COUNT, RN_VALUE_OTHER, 0, NULL},
    {"offset", RN_ADMIN_OFFSET, RN_VALUE_OTHER, 0, NULL},
    {"limit", RN_ADMIN_PAGE, RN_VALUE_OTHER, 0, NULL},
    {"after", RN_ADMIN_PAGE, RN_VALUE_OTHER, 0, NULL},
    {"banned", RN_ADMIN_BANNED, RN_VALUE_OTHER, 0, NULL},
};
_Static_assert(COUNT(members) <= RN_PARAMS_MEMBERS_MAX, "rn_params_suggest has room for all names");

int rn_admin_params_read(struct rn_admin_params *params, struct rn_json *json, unsigned allowed)
{
    return rn_params_read_members(
        members, COUNT(members), params, json,
        allowed & ~(unsigned)(RN_ADMIN_COUNT | RN_ADMIN_OFFSET | RN_ADMIN_PAGE | RN_ADMIN_BANNED),
        &params->given);
}

static int read_number(struct rn_slice name, struct rn_slice value, uint64_t max, uint64_t *number,
                       struct ration_error *error)
{
    struct rn_json_token token = {.kind = RN_JSON_NUMBER, .text = value};

    if (rn_json_u64(&token, number) && *number >= 1 && *number <= max)
        return 0;
    return rn_error_set(error, RATION_EINVAL, 0,
                        "%.*s must be a number from 1 to %" PRIu64 ", found %s", (int)name.len,
                        name.data, max, rn_excerpt(value).text);
}

int rn_admin_params_read_one(struct rn_admin_params *params, struct rn_slice name,
                             struct rn_slice value, unsigned allowed, struct ration_error *error)
{
    struct rn_json_token token = {.kind = RN_JSON_NUMBER, .text = value};

    if ((allowed & RN_ADMIN_RULE) && rn_slice_is(name, "rule")) {
        params->rule = value;
        return 0;
    }
    if ((allowed & RN_ADMIN_COUNT) && rn_slice_is(name, "count"))
        return read_number(name, value, TOP_MAX, &params->count, error);
    if ((allowed & RN_ADMIN_OFFSET) && rn_slice_is(name, "offset")) {
        if (rn_json_u64(&token, &params->offset))
            return 0;
        return rn_error_set(error, RATION_EINVAL, 0,
                            "offset must be a whole number, 0 or more, found %s",
                            rn_excerpt(value).text);
    }
    if ((allowed & RN_ADMIN_PAGE) && rn_slice_is(name, "limit"))
        return read_number(name, value, PAGE_MAX, &params->page, error);
    if ((allowed & RN_ADMIN_PAGE) && rn_slice_is(name, "after")) {
        if (rn_json_u64(&token, &params->after))
            return 0;
        return rn_error_set(error, RATION_EINVAL, 0,
                            "after must be an id, such as the number behind \"next\", found %s",
                            rn_excerpt(value).text);
    }
    if ((allowed & RN_ADMIN_BANNED) && rn_slice_is(name, "banned")) {
        params->banned = rn_slice_is(value, "true");
        if (params->banned || rn_slice_is(value, "false"))
            return 0;
        return rn_error_set(error, RATION_EINVAL, 0, "banned must be true or false, found %s",
                            rn_excerpt(value).text);
    }
    if (!(allowed & RN_ADMIN_ATTRIBUTES) || name.len == 0) {
        const char *meant = rn_params_suggest(members, COUNT(members), allowed, name);

        return rn_error_set(error, RATION_EINVAL, 0, "unknown parameter %s%s%s%s",
                            rn_excerpt(name).text, meant ? "; did you mean " : "",
                            meant ? meant : "", meant ? "?" : "");
    }
    if (rn_params_add(params->client, (char *)name.data, name.len, value) != 0)
        return rn_error_set(error, RATION_EINVAL, 0, "more than %d attributes",
                            RN_PARAMS_ATTRIBUTES_MAX);
    return 0;
}
