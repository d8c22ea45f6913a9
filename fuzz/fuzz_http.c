/* SPDX-License-Identifier: Apache-2.0 */
/* Requests one after the other, at once and in pieces that the first byte chooses:
 * the same is read from both, and llhttp alone reads it likewise. */
#include <stdint.h>
#include <stdlib.h>

#include "http/oracle.h"

static const struct rn_http_limits limits = {3000};
static struct rn_http_request whole, pieced;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool good)
{
    if (!good)
        abort();
}

/* A copy without a byte to spare. */
static char *copy_of(const char *data, size_t len)
{
    char *copy = malloc(len > 0 ? len : 1);

    demand(copy != NULL);
    if (len > 0)
        memcpy(copy, data, len);
    return copy;
}

static enum rn_parse read_in_pieces(const char *data, size_t len, unsigned dice,
                                    struct rn_buf *scratch, struct rn_http_error *error)
{
    struct rn_http_parser parser = {0};
    size_t there = 0, wanted = 0;

    for (;;) {
        char *copy = copy_of(data, there);
        enum rn_parse answer =
            rn_http_parse(&parser, &limits, copy, there, scratch, &pieced, error);

        if (answer == RN_PARSE_DONE)
            demand(pieced.bytes <= there && pieced.bytes >= wanted && oracle_agrees(copy, &pieced));
        free(copy);
        if (answer != RN_PARSE_MORE || there == len)
            return answer;
        demand(parser.need > there);
        wanted = parser.need;
        dice = dice * 1103515245 + 12345;
        there += 1 + (dice >> 16) % (dice % 5 == 0 ? 100 : 4);
        there = there < len ? there : len;
    }
}

/* How long the first request is; 0: there is none. */
static size_t read_one(const char *data, size_t len, unsigned dice)
{
    struct rn_http_parser parser = {0};
    struct rn_http_error error = {0}, error_pieced = {0};
    struct rn_buf scratch = {0}, scratch_pieced = {0};
    enum rn_parse answer = rn_http_parse(&parser, &limits, data, len, &scratch, &whole, &error);

    demand(answer == read_in_pieces(data, len, dice, &scratch_pieced, &error_pieced));
    if (answer == RN_PARSE_DONE)
        demand(whole.bytes == pieced.bytes && oracle_agrees(data, &whole) &&
               whole.keep_alive == pieced.keep_alive && whole.path.len == pieced.path.len &&
               whole.query.len == pieced.query.len && whole.host.len == pieced.host.len);
    if (answer == RN_PARSE_BAD)
        demand(error.status == error_pieced.status && error.text == error_pieced.text);
    rn_buf_done(&scratch);
    rn_buf_done(&scratch_pieced);
    return answer == RN_PARSE_DONE ? whole.bytes : 0;
}

static void read_query(struct rn_slice query)
{
    char *decoded = copy_of(query.data, query.len), *out = decoded;
    struct rn_slice rest = query, name, value;
    bool bad = false;

    while (rn_http_query_next(&rest, &out, &name, &value, &bad))
        demand(out <= decoded + query.len && name.len + value.len <= query.len);
    free(decoded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t at = 1, bytes;

    if (size == 0)
        return 0;
    read_query((struct rn_slice){(const char *)data, size});
    do {
        char *copy = copy_of((const char *)data + at, size - at);

        bytes = read_one(copy, size - at, data[0]);
        free(copy);
        at += bytes;
    } while (bytes > 0);
    return 0;
}
