/* SPDX-License-Identifier: Apache-2.0 */
/* Replies at once and in pieces: a piece never means what the whole does not. A reply that is
 * accepted as a decision can be written as an answer. */
#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"
#include "wire/answer.h"
#include "wire/parsed_decision.h"
#include "wire/resp_reply.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool good)
{
    if (!good)
        abort();
}

/* Copied, so that the sanitizer sees a read behind the end. */
static enum rn_parse skip(const uint8_t *data, size_t len, size_t *at)
{
    char *copy = malloc(len > 0 ? len : 1);
    enum rn_parse answer;

    demand(copy != NULL);
    if (len > 0)
        memcpy(copy, data, len);
    *at = 0;
    answer = rn_resp_reply_skip(copy, len, at);
    demand(answer == RN_PARSE_DONE ? *at > 0 && *at <= len : *at == 0);
    free(copy);
    return answer;
}

/* A turn has one value, which is whole. */
static void tell_turn(struct rn_slice push)
{
    struct rn_slice value;
    uint64_t id, max_ms;
    size_t at = 0;

    if (rn_parsed_decision_read_turn(push, &id, &value))
        demand(rn_resp_reply_skip(value.data, value.len, &at) == RN_PARSE_DONE && at == value.len &&
               value.data + value.len == push.data + push.len);
    (void)rn_parsed_decision_read_wait(push, &id, &max_ms);
}

static void tell(struct rn_slice reply)
{
    static struct ration_outcome outcome;
    struct rn_parsed_decision told = {.outcome = &outcome};
    struct rn_answer_extra extra = {.wall_ns = 1};
    struct rn_buf text = {0};

    if (!rn_parsed_decision_read(reply, &told))
        return;
    demand(outcome.listed <= RATION_OUTCOME_LIMITS && outcome.place_count == 0);
    demand(!told.lease.data || (told.lease.data >= reply.data &&
                                told.lease.data + told.lease.len <= reply.data + reply.len));
    rn_answer_put_headers(&text, &outcome, &extra);
    rn_answer_put_body(&text, &outcome, &extra, false);
    rn_answer_put_body(&text, &outcome, &extra, true);
    rn_buf_done(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t at, part;
    enum rn_parse whole = skip(data, size, &at);

    for (size_t len = size < 300 ? 0 : size - 300; len < size; len++) {
        enum rn_parse answer = skip(data, len, &part);

        if (answer == RN_PARSE_BAD)
            demand(whole == RN_PARSE_BAD);
        if (answer == RN_PARSE_DONE)
            demand(whole == RN_PARSE_DONE && part == at);
    }
    if (whole == RN_PARSE_DONE)
        tell_turn((struct rn_slice){(const char *)data, at});
    if (whole == RN_PARSE_DONE)
        tell((struct rn_slice){(const char *)data, at});
    return 0;
}
