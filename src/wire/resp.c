/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses commands of the Redis protocol. There is no state between calls: an incomplete command is
 * read again from its beginning, but not before enough bytes for its next argument have arrived.
 */
#include "wire/resp.h"

#include <stdio.h>

#define DIGITS_MAX 19 /* the most digits of a length */
#define BULK_MIN 6    /* the shortest argument: $0 CR LF CR LF */

struct reader {
    char *data;
    size_t len, at;
    size_t need; /* for MORE */
};

static enum rn_parse need(struct reader *r, size_t bytes)
{
    r->need = bytes;
    return RN_PARSE_MORE;
}

/* Reads digits and CR LF at r->at, and moves r->at after them. */
static enum rn_parse read_length(struct reader *r, uint64_t *value)
{
    const char *p = r->data + r->at, *end = r->data + r->len, *start = p;
    uint64_t n = 0;

    for (; p < end && (unsigned char)(*p - '0') < 10; p++) {
        if (p - start == DIGITS_MAX || (p != start && n == 0))
            return RN_PARSE_BAD;
        n = n * 10 + (uint64_t)(*p - '0');
    }
    if (p < end && (*p != '\r' || p == start))
        return RN_PARSE_BAD;
    if (end - p < 2)
        return need(r, p == start ? r->len + 3 : (size_t)(p - r->data) + 2);
    if (p[1] != '\n')
        return RN_PARSE_BAD;
    r->at = (size_t)(p - r->data) + 2;
    *value = n;
    return RN_PARSE_DONE;
}

/* Reads one argument, after which `left` more follow. */
static enum rn_parse read_bulk(struct reader *r, uint64_t left, struct rn_slice *bulk,
                               const char **error)
{
    uint64_t size, have;
    enum rn_parse answer;

    r->at++; /* skip '$' */
    *error = "invalid bulk length";
    answer = read_length(r, &size);
    if (answer != RN_PARSE_DONE)
        return answer;
    if (size > RN_RESP_BULK_MAX)
        return RN_PARSE_BAD;
    if (r->at + size + 2 + left * BULK_MIN > RN_RESP_COMMAND_MAX) {
        *error = "too big command";
        return RN_PARSE_BAD;
    }
    *error = "expected CR LF after a bulk string";
    have = r->len - r->at;
    if ((have > size && r->data[r->at + size] != '\r') ||
        (have > size + 1 && r->data[r->at + size + 1] != '\n'))
        return RN_PARSE_BAD;
    if (have < size + 2)
        return need(r, r->at + size + 2 + left * BULK_MIN);
    *bulk = (struct rn_slice){r->data + r->at, size};
    r->at += size + 2;
    return RN_PARSE_DONE;
}

static enum rn_parse parse_array(struct reader *r, struct rn_resp_command *command,
                                 const char **error)
{
    bool negative = r->len > 1 && r->data[1] == '-'; /* as in Redis, *-1 is an empty command */
    uint64_t count;
    enum rn_parse answer;

    *error = "invalid multibulk length";
    r->at = 1 + negative;
    answer = read_length(r, &count);
    if (answer != RN_PARSE_DONE)
        return answer;
    if (negative ? count == 0 : count > RN_RESP_ARGS_MAX)
        return RN_PARSE_BAD;
    count = negative ? 0 : count;
    for (uint64_t i = 0; i < count; i++) {
        if (r->at == r->len)
            return need(r, r->at + (count - i) * BULK_MIN);
        if (r->data[r->at] != '$') {
            snprintf(command->error_text, sizeof command->error_text, "expected '$', got '%c'",
                     r->data[r->at]);
            *error = command->error_text;
            return RN_PARSE_BAD;
        }
        answer = read_bulk(r, count - i - 1, &command->argv[i], error);
        if (answer != RN_PARSE_DONE)
            return answer;
    }
    command->argc = (uint32_t)count;
    return RN_PARSE_DONE;
}

/* --- inline commands ------------------------------------------------------- */

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Copies a quoted text to *out. `p` is after the opening quote; returns the place after the closing
 * one, where the word must end. NULL: the quotes are unbalanced. In double quotes, escapes are as
 * redis-cli writes them; in single quotes, only \' is one. */
static const char *unquote(const char *p, const char *end, char quote, char **out)
{
    static const char letters[] = "nrtba", meanings[] = "\n\r\t\b\a";

    while (p < end && *p != quote) {
        char c = *p++;

        if (c == '\\' && p < end && quote == '"') {
            const char *letter = *p != '\0' ? strchr(letters, *p) : NULL;

            if (*p == 'x' && end - p >= 3 && rn_parse_hex_digit(p[1]) >= 0 &&
                rn_parse_hex_digit(p[2]) >= 0) {
                c = (char)(rn_parse_hex_digit(p[1]) << 4 | rn_parse_hex_digit(p[2]));
                p += 3;
            } else {
                c = letter ? meanings[letter - letters] : *p;
                p++;
            }
        } else if (c == '\\' && p < end && *p == quote) {
            c = *p++;
        }
        *(*out)++ = c;
    }
    if (p == end || (++p < end && !is_space(*p)))
        return NULL;
    return p;
}

/* Reads the word at *at, which is no space, and unquotes it in place: it never gets longer. */
static bool read_word(char **at, char *end, struct rn_slice *word)
{
    char *out = *at, *start = *at;
    const char *p = *at;

    while (p < end && !is_space(*p)) {
        if (*p == '"' || *p == '\'') {
            p = unquote(p + 1, end, *p, &out);
            if (!p)
                return false;
        } else {
            *out++ = *p++;
        }
    }
    *at += p - start;
    *word = (struct rn_slice){start, (size_t)(out - start)};
    return true;
}

/* Parses a line of words. As in Redis, it may end with LF alone. */
static __attribute__((noinline)) enum rn_parse
parse_inline(struct reader *r, struct rn_resp_command *command, const char **error)
{
    size_t most = r->len < RN_RESP_INLINE_MAX ? r->len : RN_RESP_INLINE_MAX;
    char *end = memchr(r->data, '\n', most), *line = r->data;
    uint32_t count = 0;

    *error = "too big inline request";
    if (!end)
        return most == RN_RESP_INLINE_MAX ? RN_PARSE_BAD : need(r, r->len + 1);
    r->at = (size_t)(end - r->data) + 1;
    for (;;) {
        while (line < end && is_space(*line))
            line++;
        if (line == end)
            break;
        *error = "too many arguments in inline request";
        if (count == RN_RESP_ARGS_MAX)
            return RN_PARSE_BAD;
        *error = "unbalanced quotes in request";
        if (!read_word(&line, end, &command->argv[count++]))
            return RN_PARSE_BAD;
    }
    command->argc = count;
    return RN_PARSE_DONE;
}

/* --- all commands -------------------------------------------------------------- */

static __attribute__((noinline)) enum rn_parse
parse_any(char *data, size_t len, struct rn_resp_command *command, const char **error)
{
    struct reader r = {.data = data, .len = len};
    enum rn_parse answer;

    if (len == 0)
        answer = need(&r, 1);
    else if (data[0] == '*')
        answer = parse_array(&r, command, error);
    else
        answer = parse_inline(&r, command, error);
    command->bytes = answer == RN_PARSE_DONE ? r.at : r.need;
    return answer;
}

static inline bool is_crlf(const char *p)
{
    return memcmp(p, "\r\n", 2) == 0;
}

/* Reads the length of an argument of 1 to 99 bytes; seven bytes must be there. Returns where the
 * argument begins, or NULL. */
static inline char *pass_short_length(char *at, size_t *size)
{
    size_t first = (size_t)at[1] - '0', second;

    if (at[0] != '$' || first - 1 > 8)
        return NULL;
    *size = first;
    if (is_crlf(at + 2))
        return at + 4;
    second = (size_t)at[2] - '0';
    *size = first * 10 + second;
    return second <= 9 && is_crlf(at + 3) ? at + 5 : NULL;
}

/* Reads such an argument if it is complete; the shortest takes seven bytes. Returns where the next
 * begins, or NULL. */
static inline char *pass_short_bulk(char *at, const char *end, struct rn_slice *bulk)
{
    size_t size;

    if (end - at < 7 || !(at = pass_short_length(at, &size)))
        return NULL;
    if ((size_t)(end - at) < size + 2 || !is_crlf(at + size))
        return NULL;
    *bulk = (struct rn_slice){at, size};
    return at + size + 2;
}

/* Fast path: nearly every command is complete and has up to nine arguments of up to 99 bytes. Any
 * other command is parsed from its beginning by parse_any. */
enum rn_parse rn_resp_parse(char *data, size_t len, struct rn_resp_command *command,
                            const char **error)
{
    const char *end = data + len;
    char *at = data + 4;
    uint32_t count;

    if (len < 4 || data[0] != '*' || data[1] < '1' || data[1] > '9' || !is_crlf(data + 2))
        return parse_any(data, len, command, error);
    count = (uint32_t)(data[1] - '0');
    for (uint32_t i = 0; i < count; i++) {
        at = pass_short_bulk(at, end, &command->argv[i]);
        if (!at)
            return parse_any(data, len, command, error);
    }
    command->argc = count;
    command->bytes = (size_t)(at - data);
    return RN_PARSE_DONE;
}

/* --- templates -------------------------------------------------------------------- */

void rn_resp_keep_template(struct rn_resp_template *template, const char *data,
                           const struct rn_resp_command *command)
{
    const struct rn_slice *argv = command->argv;

    template->before_len = 0;
    if (command->argc < 2 || data[0] != '*' || argv[0].data == data) /* inline, "*" unquoted */
        return;
    size_t before_len = (size_t)(argv[0].data + argv[0].len + 2 - data);
    const char *behind = argv[1].data + argv[1].len;
    size_t behind_len = (size_t)(data + command->bytes - behind);

    if (before_len > sizeof template->before || behind_len > sizeof template->behind)
        return;
    memcpy(template->before, data, before_len);
    memcpy(template->behind, behind, behind_len);
    template->before_len = (uint8_t)before_len;
    template->behind_len = (uint8_t)behind_len;
}

/* template->behind begins with the argument's CR LF; with the shortest length and one byte of
 * argument, the seven bytes that pass_short_length needs are there. */
size_t rn_resp_match_template(const struct rn_resp_template *template, char *data, size_t len,
                              struct rn_slice *argument)
{
    size_t before_len = template->before_len, behind_len = template->behind_len, size;
    char *at;

    if (before_len == 0 || len < before_len + 5 + behind_len ||
        !rn_slice_repeats(data, template->before, before_len) ||
        !(at = pass_short_length(data + before_len, &size)))
        return 0;
    if ((size_t)(data + len - at) < size + behind_len ||
        !rn_slice_repeats(at + size, template->behind, behind_len))
        return 0;
    *argument = (struct rn_slice){at, size};
    return (size_t)(at - data) + size + behind_len;
}
