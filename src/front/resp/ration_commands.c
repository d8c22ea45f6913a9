/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RATION.*: the parameters of the commands that answer with a decision (decide.c).
 */
#include <ration/signals.h>

#include "base/decimal.h"
#include "base/error.h"
#include "front/resp/resp_internal.h"
#include "limiter/limiter.h"
#include "rules/report/report.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* As many attributes as JSON may have, one more to refuse them, and all options. */
_Static_assert(2 + 2 * (RN_PARAMS_ATTRIBUTES_MAX + 1) + 11 <= RN_RESP_ARGS_MAX,
               "a command has room for the attributes of a request");

/* --- options ------------------------------------------------------------------------------- */

static bool read_cost(struct rn_resp_context *c, struct rn_slice text)
{
    c->ws->params.cost_given = true;
    return rn_front_resp_cost(c, text, "cost", &c->ws->params.cost);
}

/* A negative cost gives units back, for callers that may reset. */
static bool read_credit(struct rn_resp_context *c, struct rn_slice text)
{
    struct rn_params *params = &c->ws->params;
    bool negative = text.len > 1 && text.data[0] == '-';
    struct rn_json_token units = {.kind = RN_JSON_NUMBER,
                                  .text = {text.data + negative, text.len - negative}};

    if (!negative || !rn_json_u64(&units, &params->cost))
        return read_cost(c, text);
    params->cost_given = params->credit = true;
    return rn_front_resp_may_change(c);
}

/* hold, return, or milliseconds without a sign. */
static bool read_wait(struct rn_resp_context *c, struct rn_slice text)
{
    struct rn_params *params = &c->ws->params;
    int64_t ms = 0, max_ms = RN_REPLY_DELAY_MAX_NS / 1000000;

    params->wait = rn_front_resp_is(text, "RETURN") ? RN_WAIT_RETURN : RN_WAIT_HOLD;
    if (params->wait == RN_WAIT_RETURN || rn_front_resp_is(text, "HOLD"))
        return true;
    for (size_t i = 0; i < text.len && ms <= max_ms; i++)
        ms = text.data[i] >= '0' && text.data[i] <= '9' ? ms * 10 + (text.data[i] - '0')
                                                        : max_ms + 1;
    params->max_wait_ns = ms * 1000000;
    if (ms > 0 && ms <= max_ms)
        return true;
    rn_front_resp_fail(
        c,
        "WAIT must be return (not at all), hold (60 s), or the longest wait in milliseconds, 1 to "
        "60000, "
        "found %s",
        rn_excerpt(text).text);
    return false;
}

static bool is_decimal(struct rn_slice text)
{
    size_t digits = 0, points = 0;

    for (size_t i = 0; i < text.len; i++) {
        digits += text.data[i] >= '0' && text.data[i] <= '9';
        points += text.data[i] == '.' && i > 0 && i + 1 < text.len;
    }
    return digits > 0 && points <= 1 && digits + points == text.len;
}

static bool read_for(struct rn_resp_context *c, struct rn_slice text)
{
    struct rn_json_token number = {.kind = RN_JSON_NUMBER, .text = text};
    int64_t *ns = &c->ws->params.for_ns;

    if (is_decimal(text) && rn_json_seconds(&number, ns) && *ns >= 1000000 &&
        *ns <= RATION_LEASE_MAX_NS)
        return true;
    rn_front_resp_fail(c, "FOR must be seconds, from 0.001 to 86400, found %s",
                       rn_excerpt(text).text);
    return false;
}

static bool read_algorithm(struct rn_resp_context *c, struct rn_slice text)
{
    c->ws->params.algorithm = text;
    return true;
}

static bool read_line(struct rn_resp_context *c, struct rn_slice text)
{
    c->ws->params.line = true;
    return rn_front_resp_line_id(c, text, &c->ws->params.line_id);
}

enum {
    OPTION_COST = 1,
    OPTION_WAIT = 2,
    OPTION_FOR = 4,
    OPTION_ALGORITHM = 8,
    OPTION_FLAGS = 16, /* PEEK, LEASE, SHADOW and FULL */
    OPTION_DRAIN = 32,
    OPTION_CREDIT = 64, /* a cost that may be negative */
    OPTION_LINE = 128,
};

#define AT(field) offsetof(struct rn_params, field)

static const struct option {
    const char *name;
    unsigned bit;
    size_t flag; /* one word: the bool that it sets */
    bool (*read)(struct rn_resp_context *c, struct rn_slice value);
} options[] = {
    {"COST", OPTION_CREDIT, 0, read_credit},    {"COST", OPTION_COST, 0, read_cost},
    {"WAIT", OPTION_WAIT, 0, read_wait},        {"FOR", OPTION_FOR, 0, read_for},
    {"PEEK", OPTION_FLAGS, AT(peek), NULL},     {"LEASE", OPTION_FLAGS, AT(keep_places), NULL},
    {"SHADOW", OPTION_FLAGS, AT(shadow), NULL}, {"FULL", OPTION_FLAGS, AT(full), NULL},
    {"DRAIN", OPTION_DRAIN, AT(drain), NULL},   {"ALGORITHM", OPTION_ALGORITHM, 0, read_algorithm},
    {"LINE", OPTION_LINE, 0, read_line},
};

/* The options from argv[at] on. */
static bool read_options(struct rn_resp_context *c, uint32_t at, unsigned allowed)
{
    unsigned given = 0;

    for (; at < c->argc; at++) {
        const struct option *option = options, *end = options + COUNT(options);

        while (option < end &&
               (!(allowed & option->bit) || !rn_front_resp_is(c->argv[at], option->name)))
            option++;
        if (option == end || (option->read && at + 1 == c->argc)) {
            rn_front_resp_fail_usage(c);
            return false;
        }
        if (given & 1u << (option - options)) {
            rn_front_resp_fail(c, "%s is given twice; give it once", rn_excerpt(c->argv[at]).text);
            return false;
        }
        given |= 1u << (option - options);
        if (!option->read)
            *((bool *)(void *)&c->ws->params + option->flag) = true;
        else if (!option->read(c, c->argv[++at]))
            return false;
    }
    return true;
}

/* Attribute names are lower case: capitals begin the options. */
static bool is_option(struct rn_slice word)
{
    if (word.len == 0 || word.data[0] < 'A' || word.data[0] > 'Z')
        return false;
    for (size_t i = 0; i < COUNT(options); i++)
        if (options[i].bit != OPTION_ALGORITHM && rn_slice_is(word, options[i].name))
            return true;
    return false;
}

/* Attributes from argv[at] on, then options. */
static bool read_request(struct rn_resp_context *c, uint32_t at, unsigned allowed)
{
    struct rn_params *params = &c->ws->params;

    rn_params_init(params);
    for (; at < c->argc && !is_option(c->argv[at]); at += 2) {
        struct rn_slice name = c->argv[at];

        if (at + 1 == c->argc)
            rn_front_resp_fail(c, "attribute %s has no value", rn_excerpt(name).text);
        else if (name.len == 0)
            rn_front_resp_fail(c, "an attribute has no name");
        else if (rn_params_add(params, (char *)name.data, name.len, c->argv[at + 1]) != 0)
            rn_front_resp_fail(c, "more than %d attributes", RN_PARAMS_ATTRIBUTES_MAX);
        else
            continue;
        return false;
    }
    return read_options(c, at, allowed);
}

/* key limit, then options from argv[at] on. */
static bool read_limit(struct rn_resp_context *c, uint32_t at, unsigned allowed)
{
    struct rn_params *params = &c->ws->params;
    struct ration_error error;

    if (!read_options(c, at, allowed))
        return false;
    params->key = c->argv[1];
    if (rn_params_set_limit(params, c->argv[2], params->algorithm, &error) == 0)
        return true;
    rn_front_resp_fail(c, "%s", error.text);
    return false;
}

static bool by_rules(const struct rn_resp_context *c)
{
    return rn_slice_is(c->argv[1], "RULES");
}

/* --- commands ------------------------------------------------------------------------------ */

/* NULL, or what does not go together. */
static const char *find_clash(const struct rn_params *params)
{
    if (params->keep_places && (params->peek || (params->wait == RN_WAIT_HOLD && !params->line)))
        return "LEASE goes with neither PEEK nor a WAIT that holds the reply";
    if (!params->line)
        return NULL;
    if (!params->full)
        return "LINE is for gateways and needs FULL";
    if (params->peek || params->drain || params->credit || params->wait == RN_WAIT_RETURN)
        return "LINE waits in line; PEEK, DRAIN, a negative COST and WAIT return do not go with "
               "that";
    return NULL;
}

void rn_front_resp_check(struct rn_resp_context *c)
{
    const struct rn_params *params = &c->ws->params;
    const char *clash;

    if (!read_request(c, 1,
                      OPTION_COST | OPTION_CREDIT | OPTION_WAIT | OPTION_FLAGS | OPTION_DRAIN |
                          OPTION_LINE))
        return;
    if ((clash = find_clash(params)))
        rn_front_resp_fail(c, "%s", clash);
    else
        rn_front_resp_decide(c, params->keep_places ? RN_ACQUIRE : RN_CHECK);
}

/* key limit [cost] [options]: where the options begin. False after answering. */
static bool read_optional_cost(struct rn_resp_context *c, uint32_t *at)
{
    *at = 3;
    rn_params_init(&c->ws->params);
    if (c->argc > 3 && !rn_front_resp_is(c->argv[3], "WAIT") &&
        !rn_front_resp_is(c->argv[3], "ALGORITHM") && !rn_front_resp_is(c->argv[3], "DRAIN")) {
        *at = 4;
        return read_credit(c, c->argv[3]);
    }
    return true;
}

void rn_front_resp_take_alone(struct rn_resp_context *c)
{
    uint32_t at;

    if (read_optional_cost(c, &at) &&
        read_limit(c, at, OPTION_WAIT | OPTION_ALGORITHM | OPTION_DRAIN))
        rn_front_resp_decide(c, RN_CHECK);
}

void rn_front_resp_peek(struct rn_resp_context *c)
{
    uint32_t at;

    if (!read_optional_cost(c, &at) || !read_limit(c, at, OPTION_WAIT | OPTION_ALGORITHM))
        return;
    c->ws->params.peek = true;
    rn_front_resp_decide(c, RN_CHECK);
}

void rn_front_resp_reset_key(struct rn_resp_context *c)
{
    struct rn_params *params = &c->ws->params;
    struct ration_error error;
    int code;

    rn_params_init(params);
    if (!read_limit(c, 3, OPTION_ALGORITHM))
        return;
    code = ration_reset(c->front->limiter,
                        &(struct ration_charge){.ad_hoc = &params->limit,
                                                .key = params->key.data,
                                                .key_len = params->key.len},
                        RATION_NOW);
    if (code == 0)
        rn_resp_put_integer(c->out, 1);
    else if (code == RATION_EINVAL &&
             rn_limiter_judge(c->front->limiter, &params->limit, &error) != 0)
        rn_front_resp_fail(c, "%s", error.text);
    else
        rn_resp_put_error(c->out, "STORE", rn_slice_of(ration_error_text(code)));
}

void rn_front_resp_acquire(struct rn_resp_context *c)
{
    rn_params_init(&c->ws->params);
    if (by_rules(c) ? read_request(c, 2, OPTION_COST | OPTION_FOR | OPTION_WAIT)
                    : read_limit(c, 3, OPTION_COST | OPTION_FOR | OPTION_WAIT))
        rn_front_resp_decide(c, RN_ACQUIRE);
}

void rn_front_resp_reserve(struct rn_resp_context *c)
{
    rn_params_init(&c->ws->params);
    if (by_rules(c) ? read_request(c, 2, OPTION_COST | OPTION_FOR | OPTION_WAIT)
                    : c->argc > 3 && read_cost(c, c->argv[3]) &&
                          read_limit(c, 4, OPTION_FOR | OPTION_ALGORITHM | OPTION_WAIT))
        rn_front_resp_decide(c, RN_RESERVE);
    else if (!by_rules(c) && c->argc == 3)
        rn_front_resp_fail_usage(c);
}

/* 1: done; 0: it had ended already. */
static void answer_done(struct rn_resp_context *c, int code)
{
    if (code == 0 || code == RATION_EALREADY || code == RATION_EGONE)
        rn_resp_put_integer(c->out, code == 0);
    else if (code == RATION_EINVAL)
        rn_front_resp_fail(c, "the lease is unknown or damaged: this rationd did not sign it");
    else
        rn_resp_put_error(c->out, "STORE", rn_slice_of(ration_error_text(code)));
}

void rn_front_resp_renew(struct rn_resp_context *c)
{
    struct rn_params *params = &c->ws->params;

    rn_params_init(params);
    if (read_options(c, 2, OPTION_FOR))
        answer_done(c, ration_ticket_renew(c->front->limiter, c->argv[1].data, c->argv[1].len,
                                           params->for_ns, RATION_NOW, NULL));
}

void rn_front_resp_release(struct rn_resp_context *c)
{
    answer_done(
        c, ration_ticket_release(c->front->limiter, c->argv[1].data, c->argv[1].len, RATION_NOW));
}

void rn_front_resp_commit(struct rn_resp_context *c)
{
    struct rn_params *params = &c->ws->params;

    rn_params_init(params);
    if (c->argc < 3 || read_cost(c, c->argv[2]))
        answer_done(c, ration_ticket_commit(c->front->limiter, c->argv[1].data, c->argv[1].len,
                                            !params->cost_given, params->cost, RATION_NOW));
}

void rn_front_resp_refund(struct rn_resp_context *c)
{
    answer_done(
        c, ration_ticket_refund(c->front->limiter, c->argv[1].data, c->argv[1].len, RATION_NOW));
}

/* charge status: 1, charged; 0, this status charges nothing, or it was charged already. */
void rn_front_resp_charge_outcome(struct rn_resp_context *c)
{
    struct rn_json_token number = {.kind = RN_JSON_NUMBER, .text = c->argv[2]};
    uint64_t status;
    uint32_t count = 0;
    int code;

    if (!rn_json_u64(&number, &status) || status < RN_STATUS_MIN || status > RN_STATUS_MAX) {
        rn_front_resp_fail(c, "status must be that of the answer, from %d to %d, found %s",
                           RN_STATUS_MIN, RN_STATUS_MAX, rn_excerpt(number.text).text);
        return;
    }
    code = ration_ticket_charge(c->front->limiter, c->argv[1].data, c->argv[1].len,
                                (unsigned)status, RATION_NOW, &count);
    if (code == RATION_EINVAL)
        rn_front_resp_fail(c, "the charge is unknown or damaged: this rationd did not sign it");
    else
        answer_done(c, code == 0 && count == 0 ? RATION_EALREADY : code);
}

/* rule status [seconds] */
void rn_front_resp_outcome(struct rn_resp_context *c)
{
    struct rn_json_token number = {.kind = RN_JSON_NUMBER, .text = c->argv[2]};
    struct rn_json_token seconds = {.kind = RN_JSON_NUMBER};
    struct rn_decimal decimal;
    int64_t duration_ns = -1;
    uint64_t status;

    if (c->argc == 4)
        seconds.text = c->argv[3];
    if (!rn_json_u64(&number, &status) || status < RN_STATUS_MIN || status > RN_STATUS_MAX)
        rn_front_resp_fail(c, "status must be that of the answer, from %d to %d, found %s",
                           RN_STATUS_MIN, RN_STATUS_MAX, rn_excerpt(number.text).text);
    else if (c->argc == 4 && (!rn_decimal_parse(seconds.text, &decimal) ||
                              !rn_json_seconds(&seconds, &duration_ns)))
        rn_front_resp_fail(c, "the duration must be seconds, such as 0.25, found %s",
                           rn_excerpt(seconds.text).text);
    else if (ration_signal_outcome(c->front->limiter, c->argv[1].data, c->argv[1].len,
                                   (unsigned)status, duration_ns, RATION_NOW) != 0)
        rn_front_resp_fail(c, "there is no rule %s", rn_excerpt(c->argv[1]).text);
    else
        answer_done(c, 0);
}

/* name value */
void rn_front_resp_signal(struct rn_resp_context *c)
{
    struct ration_error error = {0};
    double value;

    if (!rn_params_parse_number(c->argv[2], &value))
        rn_front_resp_fail(c, "the value must be a number, such as 0.7, found %s",
                           rn_excerpt(c->argv[2]).text);
    else if (ration_signal_push(c->front->limiter, c->argv[1].data, c->argv[1].len, value,
                                &error) != 0)
        rn_front_resp_fail(c, "%s", error.text);
    else
        answer_done(c, 0);
}

void rn_front_resp_help(struct rn_resp_context *c)
{
    rn_resp_put_array(c->out, rn_resp_entry_count);
    for (size_t i = 0; i < rn_resp_entry_count; i++) {
        const struct rn_resp_entry *e = &rn_resp_entries[i];

        rn_buf_clear(&c->ws->scratch);
        rn_buf_putf(&c->ws->scratch, "%s%s%s: %s", e->name, e->usage[0] ? " " : "", e->usage,
                    e->summary);
        rn_resp_put_bulk(c->out, rn_buf_slice(&c->ws->scratch));
    }
}
