/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads tokens, and reports errors in them. json_string.c and json_number.c read strings and
 * numbers.
 */
#include "wire/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "wire/json_internal.h"

void rn_json_init(struct rn_json *json, char *text, size_t len)
{
    json->text = json->at = len ? text : ""; /* without text, `text` may be NULL */
    json->end = json->text + len;
    json->line_breaks = 0;
    json->objects = 0;
    json->depth = 0;
    json->begun = false;
    json->error.code = 0;
    json->error.text[0] = '\0';
}

/* --- errors ---------------------------------------------------------------------------- */

static size_t count_breaks(const char *text, size_t len)
{
    const char *end = text + len;
    size_t count = 0;

    for (const char *p = text; p < end && (p = memchr(p, '\n', (size_t)(end - p))); p++)
        count++;
    return count;
}

/* Unescaping may put line breaks into strings, but moves no byte outside of them. A text of one
 * line with such breaks still has one line; in other texts they cannot be told from its own line
 * breaks, so that only the offset is certain. */
int rn_json_object_to(struct rn_json *json, size_t at, const char *format, ...)
{
    struct ration_error *error = &json->error;
    size_t len = (size_t)(json->end - json->text), begin = at;
    va_list args;
    int used;

    if (error->code != 0)
        return error->code;
    *error = (struct ration_error){.code = RATION_EINVAL, .pos = at};
    while (len > 0 && strchr(" \t\r\n", json->text[len - 1]) && json->text[len - 1] != '\0')
        len--;
    if (count_breaks(json->text, len) == json->line_breaks) {
        error->line = 1;
        error->column = (unsigned)at + 1;
        used = snprintf(error->text, sizeof error->text, "column %u: ", error->column);
    } else if (json->line_breaks != 0) {
        used = snprintf(error->text, sizeof error->text, "byte %zu: ", at + 1);
    } else {
        while (begin > 0 && json->text[begin - 1] != '\n')
            begin--;
        error->line = (unsigned)count_breaks(json->text, at) + 1;
        error->column = (unsigned)(at - begin) + 1;
        used = snprintf(error->text, sizeof error->text, "line %u column %u: ", error->line,
                        error->column);
    }
    va_start(args, format);
    vsnprintf(error->text + used, sizeof error->text - (size_t)used, format, args);
    va_end(args);
    return error->code;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

struct rn_json_found rn_json_found(const struct rn_json *json, const char *at)
{
    struct rn_json_found found = {"the end of the text"};
    unsigned char c = at < json->end ? (unsigned char)*at : 0;
    size_t word = 0;

    if (at >= json->end)
        return found;
    while (at + word < json->end && is_letter(at[word]))
        word++;
    if (c == '"')
        strcpy(found.text, "a string");
    else if (c == '\'')
        strcpy(found.text, "a single quote");
    else if (c >= '0' && c <= '9')
        strcpy(found.text, "a digit");
    else if (word > 0)
        strcpy(found.text, rn_error_quote(at, word, 0).text);
    else if (c > ' ' && c < 0x7f)
        snprintf(found.text, sizeof found.text, "'%c'", c);
    else
        snprintf(found.text, sizeof found.text, c == ' ' ? "a space" : "the byte 0x%02x", c);
    return found;
}

/* Out of line, to keep the path of correct texts short. */
__attribute__((cold, noinline)) static char *expected(struct rn_json *json, const char *at,
                                                      const char *what)
{
    rn_json_object_to(json, (size_t)(at - json->text), "expected %s, found %s", what,
                      rn_json_found(json, at).text);
    return NULL;
}

/* --- tokens ------------------------------------------------------------------------------ */

__attribute__((noinline)) static char *skip_space(const struct rn_json *json, char *p)
{
    while (p < json->end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        p++;
    return p;
}

/* Most texts have no white space between tokens. */
static inline char *pass_space(const struct rn_json *json, char *p)
{
    bool is_space = p >= json->end || *p <= ' ';

    return is_space ? skip_space(json, p) : p;
}

/* The byte at `p`; at the end NUL, with which no token begins. */
static inline char look(const struct rn_json *json, const char *p)
{
    return p < json->end ? *p : '\0';
}

/* Returns where the value of the next member begins, or the end of the object or array: then the
 * token is END. NULL: BAD. */
static inline char *begin_member(struct rn_json *json, char *p, struct rn_json_token *token)
{
    bool is_object = json->objects >> (json->depth - 1) & 1;
    char c = look(json, p);

    if (c == (is_object ? '}' : ']')) {
        token->kind = RN_JSON_END;
        json->depth--;
        json->begun = true;
        return p + 1;
    }
    if (json->begun) {
        if (c != ',')
            return expected(
                json, p, is_object ? "',' or '}' after the value" : "',' or ']' after the value");
        p = pass_space(json, p + 1);
    }
    if (!is_object)
        return p;
    token->name_at = (size_t)(p - json->text);
    if (look(json, p) != '"')
        return expected(json, p,
                        json->begun ? "a name in double quotes after the ','"
                                    : "a name in double quotes or '}'");
    if (!(p = rn_json_read_string(json, p, &token->name)))
        return NULL;
    p = pass_space(json, p);
    if (look(json, p) != ':')
        return expected(json, p, "':' after the name");
    return pass_space(json, p + 1);
}

/* The same for the whole text, which has one value. */
static char *begin_text(struct rn_json *json, char *p, struct rn_json_token *token)
{
    if (!json->begun)
        return p;
    if (p < json->end)
        return expected(json, p, "nothing more after the value");
    token->kind = RN_JSON_END;
    return p;
}

static char *open_level(struct rn_json *json, char *p, bool is_object)
{
    if (json->depth == RN_JSON_DEPTH) {
        rn_json_object_to(json, (size_t)(p - json->text),
                          "expected at most %d levels of objects and arrays, found one more",
                          RN_JSON_DEPTH);
        return NULL;
    }
    uint32_t bit = UINT32_C(1) << json->depth++;

    json->objects = is_object ? json->objects | bit : json->objects & ~bit;
    json->begun = false;
    return p + 1;
}

static char *read_word(struct rn_json *json, char *p, struct rn_slice word, struct rn_slice *out)
{
    size_t left = (size_t)(json->end - p);

    if (left < word.len || memcmp(p, word.data, word.len) != 0 ||
        (left > word.len && is_letter(p[word.len])))
        return expected(json, p, "a value");
    *out = (struct rn_slice){p, word.len};
    return p + word.len;
}

static inline char *read_value(struct rn_json *json, char *p, struct rn_json_token *token)
{
    char c = look(json, p);

    if (c == '"') { /* most are */
        token->kind = RN_JSON_STRING;
        return rn_json_read_string(json, p, &token->text);
    }
    switch (c) {
    case '{':
        token->kind = RN_JSON_OBJECT;
        return open_level(json, p, true);
    case '[':
        token->kind = RN_JSON_ARRAY;
        return open_level(json, p, false);
    case 't':
        token->kind = RN_JSON_TRUE;
        return read_word(json, p, RN_SLICE("true"), &token->text);
    case 'f':
        token->kind = RN_JSON_FALSE;
        return read_word(json, p, RN_SLICE("false"), &token->text);
    case 'n':
        token->kind = RN_JSON_NULL;
        return read_word(json, p, RN_SLICE("null"), &token->text);
    default:
        token->kind = RN_JSON_NUMBER;
        return c == '-' || (c >= '0' && c <= '9') ? rn_json_read_number(json, p, &token->text)
                                                  : expected(json, p, "a value");
    }
}

enum rn_json_kind rn_json_read(struct rn_json *json, struct rn_json_token *token)
{
    *token = (struct rn_json_token){.kind = RN_JSON_BAD};
    if (json->error.code != 0)
        return RN_JSON_BAD;
    char *p = pass_space(json, json->at);

    token->at = (size_t)(p - json->text);
    p = json->depth == 0 ? begin_text(json, p, token) : begin_member(json, p, token);
    if (p && token->kind != RN_JSON_END) {
        token->at = (size_t)(p - json->text);
        json->begun = true;
        p = read_value(json, p, token);
    }
    if (p)
        json->at = p;
    else
        *token = (struct rn_json_token){.kind = RN_JSON_BAD};
    return token->kind;
}
