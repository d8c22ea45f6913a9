/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/json.h"

#include <ration/ration.h>

#include "base/clock.h"

/* Recursive; the JSON reader bounds the depth. */
static struct rn_cli_json *build(struct rn_arena *arena, struct rn_json *json,
                                 const struct rn_json_token *token)
{
    struct rn_cli_json *value = rn_arena_alloc(arena, sizeof *value), **link;
    struct rn_json_token member;

    if (value == NULL)
        return NULL;
    *value = (struct rn_cli_json){.kind = token->kind, .name = token->name, .text = token->text};
    if (token->kind != RN_JSON_OBJECT && token->kind != RN_JSON_ARRAY)
        return value;
    link = &value->first;
    while ((member = rn_json_next(json)).kind != RN_JSON_END) {
        if (member.kind == RN_JSON_BAD || (*link = build(arena, json, &member)) == NULL)
            return NULL;
        link = &(*link)->next;
    }
    return value;
}

struct rn_cli_json *rn_cli_json_parse(struct rn_arena *arena, char *text, size_t len,
                                      struct ration_error *error)
{
    struct rn_json json;
    struct rn_json_token token;
    struct rn_cli_json *value = NULL;

    rn_json_init(&json, text, len);
    token = rn_json_next(&json);
    if (token.kind != RN_JSON_BAD && token.kind != RN_JSON_END)
        value = build(arena, &json, &token);
    if (value != NULL && rn_json_next(&json).kind == RN_JSON_END)
        return value;
    if (error != NULL)
        *error = json.error;
    return NULL;
}

const struct rn_cli_json *rn_cli_json_get(const struct rn_cli_json *object, const char *name)
{
    if (object == NULL || object->kind != RN_JSON_OBJECT)
        return NULL;
    for (const struct rn_cli_json *v = object->first; v != NULL; v = v->next)
        if (rn_slice_is(v->name, name))
            return v;
    return NULL;
}

const struct rn_cli_json *rn_cli_json_list(const struct rn_cli_json *object, const char *name)
{
    const struct rn_cli_json *v = rn_cli_json_get(object, name);

    return v != NULL && v->kind == RN_JSON_ARRAY ? v->first : NULL;
}

struct rn_slice rn_cli_json_text(const struct rn_cli_json *object, const char *name)
{
    const struct rn_cli_json *v = rn_cli_json_get(object, name);

    return v != NULL && v->kind == RN_JSON_STRING ? v->text : (struct rn_slice){NULL, 0};
}

bool rn_cli_json_is_true(const struct rn_cli_json *object, const char *name)
{
    const struct rn_cli_json *v = rn_cli_json_get(object, name);

    return v != NULL && v->kind == RN_JSON_TRUE;
}

static struct rn_json_token token_of(const struct rn_cli_json *v)
{
    return v != NULL ? (struct rn_json_token){.kind = v->kind, .text = v->text}
                     : (struct rn_json_token){.kind = RN_JSON_BAD};
}

bool rn_cli_json_u64(const struct rn_cli_json *object, const char *name, uint64_t *n)
{
    struct rn_json_token token = token_of(rn_cli_json_get(object, name));

    return token.kind == RN_JSON_NUMBER && rn_json_u64(&token, n);
}

bool rn_cli_json_i64(const struct rn_cli_json *object, const char *name, int64_t *n)
{
    struct rn_json_token token = token_of(rn_cli_json_get(object, name));

    return token.kind == RN_JSON_NUMBER && rn_json_i64(&token, n);
}

int64_t rn_cli_json_seconds(const struct rn_cli_json *object, const char *name)
{
    const struct rn_cli_json *v = rn_cli_json_get(object, name);
    struct rn_json_token token;
    int64_t ns;

    if (v == NULL)
        return 0;
    token = (struct rn_json_token){.kind = v->kind, .text = v->text};
    if (v->kind == RN_JSON_NUMBER && rn_json_seconds(&token, &ns))
        return ns;
    return v->kind == RN_JSON_NULL ? RATION_NEVER : 0;
}

int rn_cli_json_percent(const struct rn_cli_json *object, const char *name)
{
    return (int)(rn_cli_json_seconds(object, name) / (RN_SECOND_NS / 100)); /* 0.5 s: 50 % */
}

static void write_members(struct rn_buf *out, const struct rn_cli_json *parent, char open,
                          char close)
{
    rn_buf_put_char(out, open);
    for (const struct rn_cli_json *v = parent->first; v != NULL; v = v->next) {
        if (v != parent->first)
            rn_buf_put_char(out, ',');
        if (parent->kind == RN_JSON_OBJECT) {
            rn_json_put_string(out, v->name);
            rn_buf_put_char(out, ':');
        }
        rn_cli_json_write(out, v);
    }
    rn_buf_put_char(out, close);
}

void rn_cli_json_write(struct rn_buf *out, const struct rn_cli_json *value)
{
    if (value->kind == RN_JSON_OBJECT)
        write_members(out, value, '{', '}');
    else if (value->kind == RN_JSON_ARRAY)
        write_members(out, value, '[', ']');
    else if (value->kind == RN_JSON_STRING)
        rn_json_put_string(out, value->text);
    else
        rn_buf_put_slice(out, value->text);
}
