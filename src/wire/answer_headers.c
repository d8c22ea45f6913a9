/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rate limit headers: X-RateLimit-*, which many servers send, and RateLimit and RateLimit-Policy
 * of draft-ietf-httpapi-ratelimit-headers, which are structured fields (RFC 9651): lists of
 * strings with parameters.
 */
#include <string.h>

#include "wire/answer_internal.h"
#include "wire/format.h"

#define INTEGER_MAX UINT64_C(999999999999999) /* RFC 9651 3.3.1 */
#define UNNAMED "default"                     /* a limit that came with the request */

/* --- names of policies ------------------------------------------------------------------ */

/* Whether another of the first `count` limits has the name of limit i. */
static bool is_taken(const struct rn_answer_policy_names *names, uint32_t i, uint32_t count)
{
    uint8_t len = names->items[i].len;

    for (uint32_t j = 0; j < count; j++)
        if (j != i && names->items[j].len == len &&
            memcmp(names->items[j].text, names->items[i].text, len) == 0)
            return true;
    return false;
}

/* The first limit of a rule keeps the rule's name; "api-2" for the second one skips the name of a
 * rule that is really called api-2. */
void rn_answer_policy_names_init(struct rn_answer_policy_names *names,
                                 const struct ration_outcome *outcome)
{
    for (uint32_t i = 0; i < outcome->listed; i++) {
        const char *rule = outcome->limits[i].rule[0] ? outcome->limits[i].rule : UNNAMED;
        char *out = names->items[i].text;
        bool plain = true;
        uint8_t len = 0;

        for (; rule[len] != '\0'; len++) {
            char c = rule[len];

            plain &= c != '"' && c != '\\';
            out[len] = c >= ' ' && c <= '~' ? c : '?';
        }
        names->items[i].len = len;
        names->items[i].plain = plain;
    }
    for (uint32_t i = 1; i < outcome->listed; i++) {
        char *text = names->items[i].text;
        uint8_t len = names->items[i].len;

        if (!is_taken(names, i, i))
            continue;
        text[len] = '-';
        for (uint64_t n = 2; n == 2 || is_taken(names, i, outcome->listed); n++)
            names->items[i].len = (uint8_t)(rn_format_u64(text + len + 1, n) - text);
    }
}

/* --- the fields of the IETF --------------------------------------------------------------- */

/* The most bytes of an item: the name escaped, two parameters with integers. */
#define ITEM_MAX (2 * (RATION_NAME_SIZE + 8) + 96)

static char *write_integer(char *to, uint64_t n)
{
    return rn_format_u64(to, n < INTEGER_MAX ? n : INTEGER_MAX);
}

static char *write_name(char *to, const struct rn_answer_policy_names *names, uint32_t i)
{
    const char *text = names->items[i].text;
    uint8_t len = names->items[i].len;

    *to++ = '"';
    if (names->items[i].plain) {
        to = rn_format_bytes(to, text, len);
    } else {
        for (uint8_t at = 0; at < len; at++) {
            if (text[at] == '"' || text[at] == '\\')
                *to++ = '\\';
            *to++ = text[at];
        }
    }
    *to++ = '"';
    return to;
}

/* The window is the time in which the quota comes back. A bucket's burst takes longer, or less,
 * than its period. */
static char *write_policy(char *to, const struct ration_outcome_limit *limit)
{
    __extension__ typedef unsigned __int128 u128;
    uint64_t quota = limit->verdict.limit, amount = limit->amount;
    int64_t window_ns = limit->period_ns;

    to = RN_FORMAT_LITERAL(to, ";q=");
    to = write_integer(to, quota);
    if (limit->algorithm == RATION_CONCURRENCY)
        return RN_FORMAT_LITERAL(to, ";qu=\"concurrent-requests\"");
    if (amount != 0 && quota != amount && quota <= RATION_AMOUNT_MAX) {
        u128 ns = ((u128)quota * (uint64_t)window_ns + amount - 1) / amount;

        window_ns = ns < INT64_MAX ? (int64_t)ns : INT64_MAX - 1;
    }
    to = RN_FORMAT_LITERAL(to, ";w=");
    return write_integer(to, rn_answer_seconds(window_ns));
}

static char *write_state(char *to, const struct ration_outcome_limit *limit)
{
    to = RN_FORMAT_LITERAL(to, ";r=");
    to = write_integer(to, limit->verdict.remaining);
    if (limit->verdict.reset_after_ns == RATION_NEVER)
        return to;
    to = RN_FORMAT_LITERAL(to, ";t=");
    return write_integer(to, rn_answer_seconds(limit->verdict.reset_after_ns));
}

/* Writes a field with an item for each limit that is shown to clients; no field if none is. */
static inline void put_field(struct rn_buf *out, struct rn_slice begin,
                             const struct ration_outcome *outcome,
                             const struct rn_answer_policy_names *names,
                             char *(*write)(char *to, const struct ration_outcome_limit *limit))
{
    char *to = NULL;

    for (uint32_t i = 0; i < outcome->listed; i++) {
        const struct ration_outcome_limit *limit = &outcome->limits[i];
        bool is_first = !to;

        if (limit->shadow || !rn_answer_has_numbers(&limit->verdict))
            continue;
        if (!(to = rn_buf_reserve(out, begin.len + ITEM_MAX)))
            return;
        to = is_first ? rn_format_bytes(to, begin.data, begin.len) : RN_FORMAT_LITERAL(to, ", ");
        to = write_name(to, names, i);
        to = write(to, limit);
        rn_format_done(out, to);
    }
    if (to)
        rn_format_done(out, RN_FORMAT_LITERAL(to, "\r\n"));
}

/* --- all headers ------------------------------------------------------------------------------ */

#define X_MAX 256 /* room for the lines below */

/* The numbers of the limit that decided, unless that is in shadow mode. */
static void put_x(struct rn_buf *out, const struct ration_outcome *outcome,
                  const struct rn_answer_extra *extra)
{
    const struct ration_verdict *v = &outcome->decision.verdict;
    const struct ration_outcome_limit *decider = rn_answer_decider(outcome);
    char *to;

    if (!rn_answer_is_counted(outcome) || (decider && decider->shadow) ||
        !(to = rn_buf_reserve(out, X_MAX)))
        return;
    to = RN_FORMAT_LITERAL(to, "X-RateLimit-Limit: ");
    to = rn_format_u64(to, v->limit);
    to = RN_FORMAT_LITERAL(to, "\r\nX-RateLimit-Remaining: ");
    to = rn_format_u64(to, v->remaining);
    if (v->reset_after_ns != RATION_NEVER) {
        to = RN_FORMAT_LITERAL(to, "\r\nX-RateLimit-Reset: ");
        to = rn_format_u64(to, rn_answer_epoch(extra, v->reset_after_ns));
    }
    to = RN_FORMAT_LITERAL(to, "\r\n");
    rn_format_done(out, to);
}

static void put_retry(struct rn_buf *out, struct rn_slice name, int64_t after_ns)
{
    uint64_t seconds = rn_answer_seconds(after_ns);
    char *to = rn_buf_reserve(out, name.len + RN_FORMAT_U64_MAX + 2);

    if (!to)
        return;
    to = rn_format_bytes(to, name.data, name.len);
    to = rn_format_u64(to, seconds > 0 ? seconds : 1);
    rn_format_done(out, RN_FORMAT_LITERAL(to, "\r\n"));
}

void rn_answer_put_headers(struct rn_buf *out, const struct ration_outcome *outcome,
                           const struct rn_answer_extra *extra)
{
    enum ration_header_family family = outcome->headers;
    struct rn_answer_policy_names names;
    int64_t retry_ns = outcome->decision.verdict.retry_after_ns;
    bool x = family == RATION_HEADERS_X || family == RATION_HEADERS_BOTH;
    bool retry = !outcome->decision.allowed && retry_ns != RATION_NEVER;

    if (x)
        put_x(out, outcome, extra);
    if (x && retry)
        put_retry(out,
                  outcome->retryafter ? RN_SLICE("X-RateLimit-RetryAfter: ")
                                      : RN_SLICE("X-RateLimit-Retry-After: "),
                  retry_ns);
    if (family == RATION_HEADERS_IETF || family == RATION_HEADERS_BOTH) {
        rn_answer_policy_names_init(&names, outcome);
        put_field(out, RN_SLICE("RateLimit-Policy: "), outcome, &names, write_policy);
        put_field(out, RN_SLICE("RateLimit: "), outcome, &names, write_state);
    }
    if (retry)
        put_retry(out, RN_SLICE("Retry-After: "), retry_ns);
    if (outcome->soft && family != RATION_HEADERS_NONE)
        rn_buf_put_literal(out, "X-RateLimit-Soft: 1\r\n");
    if (outcome->level != 0 && retry && family != RATION_HEADERS_NONE) {
        rn_buf_put_literal(out, "X-RateLimit-Ban-Level: ");
        rn_buf_put_u64(out, outcome->level);
        rn_buf_put_literal(out, "\r\n");
    }
}
