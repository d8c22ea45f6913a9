/* SPDX-License-Identifier: Apache-2.0 */
#include "front/admin/params.h"

#include <inttypes.h>

#include <ration/clients.h>

#include "base/error.h"
#include "rules/report/report.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define TOP_MAX 1000
#define PAGE_MAX 10000

struct place {
    struct rn_admin_params *params;
    struct rn_params *client;
    struct rn_json *json;
};

/* --- members -------------------------------------------------------------------------- */

static int read_text(const struct place *p, const struct rn_json_token *token,
                     struct rn_slice *text)
{
    if (token->kind != RN_JSON_STRING)
        return rn_params_expected(p->json, token, "a string");
    *text = token->text;
    return 0;
}

static int read_attributes(const struct place *p, const struct rn_json_token *token)
{
    return rn_params_read_attributes(p->client, p->json, token);
}

static int read_cost(const struct place *p, const struct rn_json_token *token)
{
    return rn_params_read_cost(p->client, p->json, token);
}

static int read_rule(const struct place *p, const struct rn_json_token *token)
{
    return read_text(p, token, &p->params->rule);
}

static int read_limit(const struct place *p, const struct rn_json_token *token)
{
    return read_text(p, token, &p->params->limit);
}

static int read_note(const struct place *p, const struct rn_json_token *token)
{
    return read_text(p, token, &p->params->note);
}

static int read_reason(const struct place *p, const struct rn_json_token *token)
{
    return read_text(p, token, &p->params->reason);
}

static int read_add(const struct place *p, const struct rn_json_token *token)
{
    if (rn_json_i64(token, &p->params->add))
        return 0;
    return rn_json_object_to(p->json, token->at,
                             "\"add\" must be a whole number of units, below 0 to give back");
}

static int read_remaining(const struct place *p, const struct rn_json_token *token)
{
    if (rn_json_u64(token, &p->params->remaining))
        return 0;
    return rn_json_object_to(p->json, token->at, "\"remaining\" must be a whole number, 0 or more");
}

static int read_for(const struct place *p, const struct rn_json_token *token)
{
    int64_t *ns = &p->params->for_ns;

    *ns = 0;
    if (token->kind == RN_JSON_NULL)
        return 0;
    if (token->kind == RN_JSON_NUMBER && rn_json_seconds(token, ns) && *ns >= 1000000 &&
        *ns <= RATION_EXPIRY_MAX_NS)
        return 0;
    return rn_json_object_to(p->json, token->at,
                             "\"for\" must be seconds, from 0.001 to ten years, or null: for ever");
}

static int read_flag(const struct place *p, const struct rn_json_token *token, bool *flag)
{
    if (token->kind != RN_JSON_TRUE && token->kind != RN_JSON_FALSE)
        return rn_params_expected(p->json, token, "true or false");
    *flag = token->kind == RN_JSON_TRUE;
    return 0;
}

static int read_shadow(const struct place *p, const struct rn_json_token *token)
{
    return read_flag(p, token, &p->params->shadow);
}

static int read_matching(const struct place *p, const struct rn_json_token *token)
{
    return read_flag(p, token, &p->params->matching);
}

static const struct member {
    const char *name;
    unsigned bit;
    int (*read)(const struct place *p, const struct rn_json_token *token);
} members[] = {
    {"attributes", RN_ADMIN_ATTRIBUTES, read_attributes},
    {"cost", RN_ADMIN_COST, read_cost},
    {"rule", RN_ADMIN_RULE, read_rule},
    {"add", RN_ADMIN_ADD, read_add},
    {"remaining", RN_ADMIN_REMAINING, read_remaining},
    {"limit", RN_ADMIN_LIMIT, read_limit},
    {"for", RN_ADMIN_FOR, read_for},
    {"note", RN_ADMIN_NOTE, read_note},
    {"reason", RN_ADMIN_REASON, read_reason},
    {"shadow", RN_ADMIN_SHADOW, read_shadow},
    {"matching", RN_ADMIN_MATCHING, read_matching},
};

static const struct member *find(struct rn_slice name, unsigned allowed)
{
    for (size_t i = 0; i < COUNT(members); i++)
        if ((allowed & members[i].bit) && rn_slice_is(name, members[i].name))
            return &members[i];
    return NULL;
}

/* What was probably meant, or NULL. */
static const char *suggest(struct rn_slice name, unsigned allowed)
{
    const char *names[COUNT(members) + 3];
    size_t count = 0;

    for (size_t i = 0; i < COUNT(members); i++)
        if (allowed & members[i].bit)
            names[count++] = members[i].name;
    if (allowed & RN_ADMIN_COUNT)
        names[count++] = "count";
    if (allowed & RN_ADMIN_PAGE) {
        names[count++] = "limit";
        names[count++] = "after";
    }
    return rn_suggest(name, names, count);
}

/* --- bodies ----------------------------------------------------------------------------- */

static int refuse_member(struct rn_json *json, const struct rn_json_token *token, unsigned allowed)
{
    const char *meant = suggest(token->name, allowed);

    if (meant)
        return rn_json_object_to(json, token->name_at, "unknown member %s; did you mean \"%s\"?",
                                 rn_excerpt(token->name).text, meant);
    return rn_json_object_to(json, token->name_at, "unknown member %s",
                             rn_excerpt(token->name).text);
}

int rn_admin_params_read(struct rn_admin_params *params, struct rn_params *client,
                         struct rn_json *json, unsigned allowed)
{
    struct place p = {params, client, json};
    struct rn_json_token token;

    while ((token = rn_json_next(json)).kind != RN_JSON_END) {
        const struct member *member = find(token.name, allowed);

        if (token.kind == RN_JSON_BAD)
            return RATION_EINVAL;
        if (!member)
            return refuse_member(json, &token, allowed);
        if (params->given & member->bit)
            return rn_json_object_to(json, token.name_at, "\"%s\" is given twice", member->name);
        if (member->read(&p, &token) != 0)
            return RATION_EINVAL;
        params->given |= member->bit;
    }
    return 0;
}

/* --- query strings ----------------------------------------------------------------------- */

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

static int read_after(struct rn_slice value, uint64_t *after, struct ration_error *error)
{
    struct rn_json_token token = {.kind = RN_JSON_NUMBER, .text = value};

    if (rn_json_u64(&token, after))
        return 0;
    return rn_error_set(error, RATION_EINVAL, 0,
                        "after must be an id, such as the number behind \"next\", found %s",
                        rn_excerpt(value).text);
}

static int refuse_parameter(struct rn_slice name, unsigned allowed, struct ration_error *error)
{
    const char *meant = suggest(name, allowed);

    if (meant)
        return rn_error_set(error, RATION_EINVAL, 0, "unknown parameter %s; did you mean %s?",
                            rn_excerpt(name).text, meant);
    return rn_error_set(error, RATION_EINVAL, 0, "unknown parameter %s", rn_excerpt(name).text);
}

int rn_admin_params_read_one(struct rn_admin_params *params, struct rn_params *client,
                             struct rn_slice name, struct rn_slice value, unsigned allowed,
                             struct ration_error *error)
{
    if ((allowed & RN_ADMIN_RULE) && rn_slice_is(name, "rule")) {
        params->rule = value;
        return 0;
    }
    if ((allowed & RN_ADMIN_COUNT) && rn_slice_is(name, "count"))
        return read_number(name, value, TOP_MAX, &params->count, error);
    if ((allowed & RN_ADMIN_PAGE) && rn_slice_is(name, "limit"))
        return read_number(name, value, PAGE_MAX, &params->page, error);
    if ((allowed & RN_ADMIN_PAGE) && rn_slice_is(name, "after"))
        return read_after(value, &params->after, error);
    if (!(allowed & RN_ADMIN_ATTRIBUTES) || name.len == 0)
        return refuse_parameter(name, allowed, error);
    if (rn_params_add(client, (char *)name.data, name.len, value) != 0)
        return rn_error_set(error, RATION_EINVAL, 0, "more than %d attributes",
                            RN_PARAMS_ATTRIBUTES_MAX);
    return 0;
}
