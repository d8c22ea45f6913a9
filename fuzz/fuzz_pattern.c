/* SPDX-License-Identifier: Apache-2.0 */
/* A pattern and a text, separated by a line feed: no crash, and short ones are
 * answered as the naive matcher answers. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../tests/unit/rules/naive_pattern.h"
#include "rules/match/pattern.h"

/* What the naive matcher can bear. */
#define NAIVE_BYTES 24
#define NAIVE_STARS 5

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int condition)
{
    if (!condition)
        abort();
}

static void demand_consistent(struct rn_slice pattern, struct rn_slice text)
{
    struct rn_slice literal = rn_pattern_literal(pattern);
    const char *fault = rn_pattern_fault(pattern);

    demand(literal.len <= pattern.len);
    demand(!fault || strchr(fault, ';'));
    if (!fault && literal.len == pattern.len) /* a literal matches itself */
        demand(rn_pattern_match_path(pattern, pattern));
    for (unsigned i = 0;; i++) {
        struct rn_slice segment = rn_pattern_segment(text, i);

        if (!segment.data || i > 8)
            break;
        demand(segment.len > 0 && segment.data + segment.len <= text.data + text.len);
    }
}

static bool is_bearable(struct rn_slice pattern, struct rn_slice text)
{
    unsigned stars = 0;

    for (size_t i = 0; i < pattern.len; i++)
        stars += pattern.data[i] == '*';
    return pattern.len <= NAIVE_BYTES && text.len <= NAIVE_BYTES && stars <= NAIVE_STARS;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *bytes = (const char *)data;
    const char *line = size ? memchr(bytes, '\n', size) : NULL;

    if (!line)
        return 0;
    struct rn_slice pattern = {bytes, (size_t)(line - bytes)};
    struct rn_slice text = {line + 1, size - pattern.len - 1};
    bool glob = rn_pattern_match(pattern, text), path = rn_pattern_match_path(pattern, text);

    demand_consistent(pattern, text);
    if (is_bearable(pattern, text)) {
        demand(glob == naive_glob(pattern, text));
        demand(path == naive_path(pattern, text));
    }
    return 0;
}
