/* SPDX-License-Identifier: Apache-2.0 */
/* Builds jansson's values from our tokens and compares them with its own. */
#include "model/json_oracle.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "wire/json.h"

/* A number is exact as an integer in one reader if it is in the other. */
static const char *number_fault(const struct rn_json_token *token)
{
    char text[64];
    uint64_t n;
    int64_t ns;

    if (token->text.len >= sizeof text)
        return NULL;
    memcpy(text, token->text.data, token->text.len);
    text[token->text.len] = '\0';
    errno = 0;
    bool whole = strspn(text, "0123456789") == token->text.len;
    unsigned long long expected = strtoull(text, NULL, 10);

    if (rn_json_u64(token, &n) != (whole && errno == 0) || (whole && errno == 0 && n != expected))
        return "value as an unsigned number";
    long double exact = strtold(text, NULL) * 1e9L, most = 0x1p62L;
    /* Also where strtold has nothing left of it. */
    bool negative = text[0] == '-' && strcspn(text, "123456789") < strcspn(text, "eE");

    if (!rn_json_seconds(token, &ns))
        return negative || exact > most ? NULL : "seconds that are fine";
    if (negative || exact > most + 1)
        return "seconds that are out of range";
    return ns - exact > 0.5001L || exact - ns > 0.5001L ? "value as seconds" : NULL;
}

/* What we write is what we have read, also for jansson. */
static const char *string_fault(struct rn_slice text)
{
    struct rn_buf out = {0};
    const char *fault = NULL;
    json_t *back;

    rn_json_put_string(&out, text);
    back = json_loadb(out.data, out.len, JSON_DECODE_ANY, NULL);
    if (!back || !json_is_string(back) || json_string_length(back) != text.len ||
        memcmp(json_string_value(back), text.data, text.len) != 0)
        fault = "a string that was written";
    json_decref(back);
    rn_buf_done(&out);
    return fault;
}

static json_t *number_of(const struct rn_json_token *token, const char **fault)
{
    char *text = strndup(token->text.data, token->text.len);
    int64_t whole;
    double real = atof(text);
    json_t *value;

    if (rn_json_i64(token, &whole))
        value = json_integer(whole);
    else
        value = json_real(isfinite(real) ? real : 0); /* jansson refuses what is not finite */

    *fault = *fault ? *fault : number_fault(token);
    free(text);
    return value;
}

/* NULL: BAD. */
static json_t *value_of(struct rn_json *json, const struct rn_json_token *token,
                        const char **fault);

static json_t *members_of(struct rn_json *json, json_t *all, const char **fault)
{
    for (;;) {
        struct rn_json_token token = rn_json_next(json);
        json_t *member;

        if (token.kind == RN_JSON_END)
            return all;
        member = value_of(json, &token, fault);
        if (!member) {
            json_decref(all);
            return NULL;
        }
        if (json_is_array(all)) {
            json_array_append_new(all, member);
        } else {
            char *name = strndup(token.name.data, token.name.len);

            json_object_set_new(all, name, member);
            free(name);
        }
    }
}

static json_t *value_of(struct rn_json *json, const struct rn_json_token *token, const char **fault)
{
    switch (token->kind) {
    case RN_JSON_OBJECT:
        return members_of(json, json_object(), fault);
    case RN_JSON_ARRAY:
        return members_of(json, json_array(), fault);
    case RN_JSON_STRING:
        *fault = *fault ? *fault : string_fault(token->text);
        return json_stringn(token->text.data, token->text.len);
    case RN_JSON_NUMBER:
        return number_of(token, fault);
    case RN_JSON_TRUE:
        return json_true();
    case RN_JSON_FALSE:
        return json_false();
    case RN_JSON_NULL:
        return json_null();
    case RN_JSON_END:
    case RN_JSON_BAD:
        break;
    }
    return NULL;
}

/* The whole text; NULL: BAD. */
static json_t *read_all(struct rn_json *json, const char **fault)
{
    struct rn_json_token token = rn_json_next(json);
    json_t *value = value_of(json, &token, fault);

    if (value && rn_json_next(json).kind != RN_JSON_END) {
        json_decref(value);
        value = NULL;
    }
    if (!value && (json->error.code == 0 || json->error.text[0] == '\0'))
        *fault = "a refusal without a reason";
    return value;
}

const char *json_oracle_fault(const char *text, size_t len)
{
    char *copy = malloc(len ? len : 1);
    const char *fault = NULL;
    json_error_t error;
    struct rn_json json;

    if (len)
        memcpy(copy, text, len);
    rn_json_init(&json, copy, len);
    json_t *ours = read_all(&json, &fault),
           *theirs = json_loadb(text, len, JSON_DECODE_ANY, &error);
    bool overflow = !theirs && json_error_code(&error) == json_error_numeric_overflow;
    bool deep = !ours && strstr(json.error.text, "at most 16 levels");

    if (ours && len && memchr(text, '\0', len))
        fault = "a text with NUL";
    if (!fault && !overflow && !deep && !(len && memchr(text, '\0', len))) {
        if (!ours != !theirs)
            fault = ours ? "a text that jansson refuses" : "a text that jansson takes";
        else if (ours && !json_equal(ours, theirs))
            fault = "values";
    }
    json_decref(ours);
    json_decref(theirs);
    free(copy);
    return fault;
}
