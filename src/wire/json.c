/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One token after the other, and objections to them. What a string or a number
 * is, is left to json_string.c and json_number.c.
 */
#include "wire/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "wire/json_own.h"

void rn_json_init(struct rn_json *json, char *text, size_t len)
{
    json->text = text;
    json->len = len;
    json->at = json->line_breaks = 0;
    json->objects = 0;
    json->depth = 0;
    json->begun = false;
    json->error.code = 0;
    json->error.text[0] = '\0';
}

/* --- objections ------------------------------------------------------------------------ */

static size_t count_breaks(const char *text, size_t len)
{
    const char *end = text + len;
    size_t count = 0;

    for (const char *p = text; p < end && (p = memchr(p, '\n', (size_t)(end - p))); p++)
        count++;
    return count;
}

static size_t column_of(const struct rn_json *json, size_t at)
{
    size_t begin = at;

    while (begin > 0 && json->text[begin - 1] != '\n')
        begin--;
    return at - begin + 1;
}

/* Unescaping leaves every byte where it was outside of strings, but may put line
 * breaks into them. A text of one line with some of those still has one line; in
 * others they cannot be told from its own, so that only the offset is certain. */
static int put_place(struct rn_json *json, size_t at, char *out, size_t size)
{
    size_t len = json->len;

    while (len > 0 && strchr(" \t\r\n", json->text[len - 1]) && json->text[len - 1] != '\0')
        len--;
    if (count_breaks(json->text, len) == json->line_breaks) {
        json->error.line = 1;
        json->error.column = (unsigned)at + 1;
        return snprintf(out, size, "column %u: ", json->error.column);
    }
    if (json->line_breaks != 0)
        return snprintf(out, size, "byte %zu: ", at + 1);
    json->error.line = (unsigned)count_breaks(json->text, at) + 1;
    json->error.column = (unsigned)column_of(json, at);
    return snprintf(out, size, "line %u column %u: ", json->error.line, json->error.column);
}

int rn_json_object_to(struct rn_json *json, size_t at, const char *format, ...)
{
    struct ration_error *error = &json->error;
    va_list args;
    int used;

    if (error->code != 0)
        return error->code;
    *error = (struct ration_error){.code = RATION_EINVAL, .pos = at};
    used = put_place(json, at, error->text, sizeof error->text);
    va_start(args, format);
    vsnprintf(error->text + used, sizeof error->text - (size_t)used, format, args);
    va_end(args);
    return error->code;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

struct rn_json_found rn_json_found(const struct rn_json *json, size_t at)
{
    struct rn_json_found found = {"the end of the text"};
    unsigned char c = at < json->len ? (unsigned char)json->text[at] : 0;
    size_t end = at;

    while (end < json->len && is_letter(json->text[end]))
        end++;
    if (at >= json->len)
        return found;
    if (c == '"')
        strcpy(found.text, "a string");
    else if (c == '\'')
        strcpy(found.text, "a single quote");
    else if (c >= '0' && c <= '9')
        strcpy(found.text, "a digit");
    else if (end > at)
        strcpy(found.text, rn_quote_word(json->text, end, at).text);
    else if (c > ' ' && c < 0x7f)
        snprintf(found.text, sizeof found.text, "'%c'", c);
    else
        snprintf(found.text, sizeof found.text, c == ' ' ? "a space" : "the byte 0x%02x", c);
    return found;
}

static bool expected(struct rn_json *json, const char *what)
{
    rn_json_object_to(json, json->at, "expected %s, found %s", what,
                      rn_json_found(json, json->at).text);
    return false;
}

/* --- tokens ------------------------------------------------------------------------------ */

/* The next byte that is not white space; NUL, which nothing may begin with, at the end. */
static char skip_space(struct rn_json *json)
{
    for (; json->at < json->len; json->at++) {
        char c = json->text[json->at];

        if (c != ' ' && c != '\n' && c != '\r' && c != '\t')
            return c;
    }
    return '\0';
}

static bool read_name(struct rn_json *json, struct rn_json_token *token, char c)
{
    token->name_at = json->at;
    if (c != '"')
        return expected(json, json->begun ? "a name in double quotes after the ','"
                                          : "a name in double quotes or '}'");
    if (!rn_json_read_string(json, &token->name))
        return false;
    if (skip_space(json) != ':')
        return expected(json, "':' after the name");
    json->at++;
    skip_space(json);
    return true;
}

/* Up to where the value of a member stands. False: there is none, the token is set. */
static bool begin_member(struct rn_json *json, struct rn_json_token *token, char c)
{
    bool is_object = json->objects >> (json->depth - 1) & 1;

    if (c == (is_object ? '}' : ']')) {
        token->kind = RN_JSON_END;
        json->at++;
        json->depth--;
        json->begun = true;
        return false;
    }
    if (json->begun) {
        if (c != ',')
            return expected(json, is_object ? "',' or '}' after the value"
                                            : "',' or ']' after the value");
        json->at++;
        c = skip_space(json);
    }
    return !is_object || read_name(json, token, c);
}

/* Where the text ends or its only value begins. As above. */
static bool begin_text(struct rn_json *json, struct rn_json_token *token)
{
    if (!json->begun)
        return true;
    if (json->at < json->len)
        return expected(json, "nothing more after the value");
    token->kind = RN_JSON_END;
    return false;
}

static bool open_level(struct rn_json *json, bool is_object)
{
    if (json->depth == RN_JSON_DEPTH) {
        rn_json_object_to(json, json->at,
                          "expected at most %d levels of objects and arrays, found one more",
                          RN_JSON_DEPTH);
        return false;
    }
    uint32_t bit = UINT32_C(1) << json->depth++;

    json->objects = is_object ? json->objects | bit : json->objects & ~bit;
    json->begun = false;
    json->at++;
    return true;
}

static bool read_word(struct rn_json *json, struct rn_slice word, struct rn_slice *out)
{
    const char *from = json->text + json->at;
    size_t left = json->len - json->at;

    if (left < word.len || memcmp(from, word.data, word.len) != 0 ||
        (left > word.len && is_letter(from[word.len])))
        return expected(json, "a value");
    *out = (struct rn_slice){from, word.len};
    json->at += word.len;
    return true;
}

/* The kind of the value, filled in; BAD. */
static enum rn_json_kind read_value(struct rn_json *json, struct rn_slice *out)
{
    char c = json->at < json->len ? json->text[json->at] : '\0';

    switch (c) {
    case '"':
        return rn_json_read_string(json, out) ? RN_JSON_STRING : RN_JSON_BAD;
    case '{':
        return open_level(json, true) ? RN_JSON_OBJECT : RN_JSON_BAD;
    case '[':
        return open_level(json, false) ? RN_JSON_ARRAY : RN_JSON_BAD;
    case 't':
        return read_word(json, RN_SLICE("true"), out) ? RN_JSON_TRUE : RN_JSON_BAD;
    case 'f':
        return read_word(json, RN_SLICE("false"), out) ? RN_JSON_FALSE : RN_JSON_BAD;
    case 'n':
        return read_word(json, RN_SLICE("null"), out) ? RN_JSON_NULL : RN_JSON_BAD;
    default:
        break;
    }
    if (c != '-' && (c < '0' || c > '9')) {
        expected(json, "a value");
        return RN_JSON_BAD;
    }
    return rn_json_read_number(json, out) ? RN_JSON_NUMBER : RN_JSON_BAD;
}

struct rn_json_token rn_json_next(struct rn_json *json)
{
    struct rn_json_token token = {.kind = RN_JSON_BAD};

    if (json->error.code != 0)
        return token;
    char c = skip_space(json);

    token.at = json->at;
    if (!(json->depth == 0 ? begin_text(json, &token) : begin_member(json, &token, c)))
        return token;
    token.at = json->at;
    json->begun = true;
    token.kind = read_value(json, &token.text);
    return token;
}

bool rn_json_skip(struct rn_json *json, const struct rn_json_token *token)
{
    uint8_t depth = json->depth;

    if (token->kind != RN_JSON_OBJECT && token->kind != RN_JSON_ARRAY)
        return token->kind != RN_JSON_BAD;
    while (json->depth >= depth)
        if (rn_json_next(json).kind == RN_JSON_BAD)
            return false;
    return true;
}
