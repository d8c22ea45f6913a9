/* SPDX-License-Identifier: Apache-2.0 */
/* Commands one after the other, at once and in pieces that the first byte chooses,
 * against a reader that takes one byte at a time and jumps out when there is none. */
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "wire/resp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool good)
{
    if (!good)
        abort();
}

/* --- the naive reader ---------------------------------------------------------- */

struct naive {
    const char *data;
    size_t len, at;
    char error[64];
    struct rn_buf told; /* arguments, each with its length in front */
    unsigned argc;
    jmp_buf out;
};

static void bad(struct naive *n, const char *error)
{
    snprintf(n->error, sizeof n->error, "%s", error);
    longjmp(n->out, RN_PARSE_BAD + 1);
}

static char next(struct naive *n)
{
    if (n->at == n->len)
        longjmp(n->out, RN_PARSE_MORE + 1);
    return n->data[n->at++];
}

/* Digits as text, the line's end, and then as a number. */
static long number(struct naive *n, const char *error)
{
    char digits[20] = "";
    size_t count = 0;
    char c;

    while ((c = next(n)) != '\r') {
        if (c < '0' || c > '9' || count == 19 || strcmp(digits, "0") == 0)
            bad(n, error);
        digits[count++] = c;
    }
    if (count == 0 || next(n) != '\n')
        bad(n, error);
    return atol(digits);
}

static void tell(struct naive *n, const char *text, size_t len)
{
    n->argc++;
    rn_buf_put(&n->told, &len, sizeof len);
    rn_buf_put(&n->told, text, len);
}

static void bulks(struct naive *n, long left)
{
    char c, error[64];
    long size;
    size_t start;

    if (left <= 0)
        return;
    c = next(n);
    if (c != '$') {
        snprintf(error, sizeof error, "expected '$', got '%c'", c);
        bad(n, error);
    }
    size = number(n, "invalid bulk length");
    if (size > RN_RESP_BULK_MAX)
        bad(n, "invalid bulk length");
    if ((long)n->at + size + 2 + 6 * (left - 1) > RN_RESP_COMMAND_MAX)
        bad(n, "too big command");
    start = n->at;
    for (long i = 0; i < size; i++)
        next(n);
    if (next(n) != '\r' || next(n) != '\n')
        bad(n, "expected CR LF after a bulk string");
    tell(n, n->data + start, (size_t)size);
    bulks(n, left - 1);
}

static bool space(char c)
{
    return c != '\0' && strchr(" \t\n\v\f\r", c) != NULL;
}

static char escaped(const char **p, const char *end)
{
    static const char from[] = "nrtba", to[] = "\n\r\t\b\a";
    const char *known;
    char c = *(*p)++;
    char hex[3] = "";

    if (c == 'x' && end - *p >= 2 && strspn(*p, "0123456789abcdefABCDEF") >= 2) {
        memcpy(hex, *p, 2);
        *p += 2;
        return (char)strtol(hex, NULL, 16);
    }
    known = c != '\0' ? strchr(from, c) : NULL;
    return known ? to[known - from] : c;
}

/* One word to `word`, by what Redis does: quotes may begin within a word, and end it. */
static size_t word_at(struct naive *n, const char **p, const char *end, char *word)
{
    size_t len = 0;
    char quote = '\0';

    while (*p < end && (quote || !space(**p))) {
        char c = *(*p)++;

        if (!quote && (c == '"' || c == '\'')) {
            quote = c;
        } else if (quote && c == quote) {
            if (*p < end && !space(**p))
                bad(n, "unbalanced quotes in request");
            return len;
        } else if (quote == '"' && c == '\\' && *p < end) {
            word[len++] = escaped(p, end);
        } else if (quote == '\'' && c == '\\' && *p < end && **p == '\'') {
            word[len++] = *(*p)++;
        } else {
            word[len++] = c;
        }
    }
    if (quote)
        bad(n, "unbalanced quotes in request");
    return len;
}

static void words(struct naive *n)
{
    static char line[RN_RESP_INLINE_MAX + 1], word[RN_RESP_INLINE_MAX];
    size_t len = 0;
    const char *p = line;
    char c;

    while ((c = next(n)) != '\n') {
        line[len++] = c;
        if (len == RN_RESP_INLINE_MAX)
            bad(n, "too big inline request");
    }
    line[len] = '\0';
    for (;;) {
        while (p < line + len && space(*p))
            p++;
        if (p == line + len)
            return;
        if (n->argc == RN_RESP_ARGS_MAX)
            bad(n, "too many arguments in inline request");
        size_t size = word_at(n, &p, line + len, word);

        tell(n, word, size);
    }
}

static enum rn_parse naive_read(struct naive *n)
{
    int left = setjmp(n->out);

    if (left != 0)
        return (enum rn_parse)(left - 1);
    if (next(n) == '*') {
        const char *error = "invalid multibulk length";
        bool negative = next(n) == '-';

        n->at -= !negative;
        long count = number(n, error);

        if (negative ? count == 0 : count > RN_RESP_ARGS_MAX)
            bad(n, error);
        bulks(n, negative ? 0 : count);
    } else {
        n->at = 0;
        words(n);
    }
    return RN_PARSE_DONE;
}

/* --- ours ------------------------------------------------------------------------ */

static struct rn_resp_command command;

/* A look at `len` bytes must be what the naive reader says of them. */
static enum rn_parse look(const char *data, size_t len)
{
    static struct naive n;
    char *copy = malloc(len > 0 ? len : 1);
    const char *error = NULL;
    enum rn_parse answer;
    size_t at = 0;

    demand(copy != NULL);
    if (len > 0)
        memcpy(copy, data, len);
    n.data = data;
    n.len = len;
    n.at = 0;
    n.argc = 0;
    rn_buf_clear(&n.told);
    answer = rn_resp_parse(copy, len, &command, &error);
    demand(answer == naive_read(&n));
    if (answer == RN_PARSE_MORE)
        demand(command.bytes > len);
    if (answer == RN_PARSE_BAD)
        demand(strcmp(error, n.error) == 0);
    if (answer == RN_PARSE_DONE) {
        demand(command.bytes == n.at && command.argc == n.argc);
        for (uint32_t i = 0; i < command.argc; i++) {
            struct rn_slice arg = command.argv[i];

            demand(memcmp(n.told.data + at, &arg.len, sizeof arg.len) == 0);
            at += sizeof arg.len;
            demand(arg.len == 0 || memcmp(n.told.data + at, arg.data, arg.len) == 0);
            at += arg.len;
        }
    }
    free(copy);
    return answer;
}

/* What is taken for the last command with another argument must be read as that. */
static void look_again(const struct rn_resp_template *template, const struct rn_buf *before,
                       const char *data, size_t len)
{
    char *copy = malloc(len > 0 ? len : 1);
    struct rn_slice argument;
    size_t bytes;

    demand(copy != NULL);
    if (len > 0)
        memcpy(copy, data, len);
    bytes = rn_resp_match_template(template, copy, len, &argument);
    if (bytes != 0) {
        const char *error;
        size_t at = 0;

        demand(rn_resp_parse(copy, len, &command, &error) == RN_PARSE_DONE);
        demand(command.bytes == bytes && command.argc >= 2);
        demand(command.argv[1].data == argument.data && command.argv[1].len == argument.len);
        for (uint32_t i = 0; i < command.argc; i++) {
            struct rn_slice arg = command.argv[i];

            if (i == 1)
                continue;
            demand(before->len - at >= arg.len + 1 && before->data[at + arg.len] == '\0');
            demand(arg.len == 0 || memcmp(before->data + at, arg.data, arg.len) == 0);
            at += arg.len + 1;
        }
        demand(at == before->len);
    }
    free(copy);
}

/* Of the command that was read last: its template, and its arguments but for the first. */
static void keep(struct rn_resp_template *template, struct rn_buf *arguments, const char *data)
{
    char *copy = malloc(command.bytes);
    const char *error;

    demand(copy != NULL);
    memcpy(copy, data, command.bytes);
    demand(rn_resp_parse(copy, command.bytes, &command, &error) == RN_PARSE_DONE);
    rn_resp_keep_template(template, copy, &command);
    rn_buf_clear(arguments);
    for (uint32_t i = 0; i < command.argc; i++) {
        if (i != 1) {
            rn_buf_put_slice(arguments, command.argv[i]);
            rn_buf_put_char(arguments, '\0');
        }
    }
    free(copy);
}

static void write_replies(struct rn_slice text)
{
    struct rn_buf out = {0};
    size_t lines = 0;

    rn_resp_put_error(&out, "ERR", text);
    for (size_t i = 0; i < out.len; i++)
        lines += out.data[i] == '\r' || out.data[i] == '\n';
    demand(lines == 2);
    rn_buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rn_buf arguments;
    struct rn_resp_template template = {0};
    size_t start = 1, there = 1, wanted = 0;
    unsigned dice;

    if (size == 0)
        return 0;
    dice = data[0];
    write_replies((struct rn_slice){(const char *)data, size});
    for (;;) {
        look_again(&template, &arguments, (const char *)data + start, there - start);
        enum rn_parse answer = look((const char *)data + start, there - start);

        if (answer == RN_PARSE_BAD)
            return 0;
        if (answer == RN_PARSE_DONE) {
            demand(command.bytes >= wanted);
            keep(&template, &arguments, (const char *)data + start);
            start += command.bytes;
            wanted = 0;
            continue;
        }
        if (there == size)
            return 0;
        wanted = command.bytes;
        dice = dice * 1103515245 + 12345;
        there += data[0] == 0 ? size : 1 + (dice >> 16) % (dice % 5 == 0 ? 100 : 4);
        there = there < size ? there : size;
    }
}
