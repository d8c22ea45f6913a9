/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers of a server under load. The first byte says which command was sent and in
 * pieces of which size the rest arrives; the size must not matter.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/request_writer.h"

#define MOST 4096

/* The result, and how far it was read. Memory of exactly the size: the sanitizer notices a byte too
 * far. */
static size_t read_all(const struct rn_bench_request *request, const uint8_t *data, size_t size,
                       size_t piece, uint8_t results[MOST])
{
    size_t from = 0, count = 0;

    for (size_t given = 0; given < size;) {
        given = given + piece < size ? given + piece : size;
        while (from < given && count < MOST) {
            size_t used, len = given - from;
            char *copy = malloc(len);
            enum rn_bench_result result;

            memcpy(copy, data + from, len);
            result = rn_bench_response_read(request, copy, len, &used);
            free(copy);
            if (used > len)
                abort();
            from += used;
            if (result == RN_BENCH_MORE)
                break;
            results[count++] = (uint8_t)result;
            if (result == RN_BENCH_FOREIGN)
                return count;
        }
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t whole[MOST], parts[MOST];
    struct rn_bench_request request;
    size_t count;

    if (size < 2 || size > 8192)
        return 0;
    request = (struct rn_bench_request){.http = data[0] & 1,
                                        .command = (enum rn_bench_command)(data[0] >> 1 & 3)};
    count = read_all(&request, data + 1, size - 1, size - 1, whole);
    if (read_all(&request, data + 1, size - 1, (size_t)(data[0] >> 3) + 1, parts) != count ||
        memcmp(whole, parts, count) != 0)
        abort();
    return 0;
}
