/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RATION.*: the commands that answer with a decision (resp_decision.c).
 */
#include "base/error.h"
#include "front/resp/resp_internal.h"
#include "limiter/limiter.h"
#include "rules/report/report.h"

/* As many attributes as JSON may have, one too many to tell so, and all options. */
_Static_assert(2 + 2 * (RN_PARAMS_ATTRIBUTES_MAX + 1) + 9 <= RN_RESP_ARGS_MAX,
               "a command has room for the attributes of a request");

/* --- deciding ------------------------------------------------------------------------------- */

static void tell_held(struct rn_delayed_reply *held)
{
    struct rn_queued_reply *reply =
        (struct rn_queued_reply *)(void *)held->slot; /* its first member */

    rn_front_resp_put_decision(&reply->out, &held->telling, &held->decided, held->hold_ns);
    reply->of->held--;
    rn_reply_queue_complete(reply);
    rn_reply_queue_flush(reply->of);
}

/* False: out of memory, answer at once. */
static bool hold(struct rn_resp_context *c, int64_t hold_ns, const struct rn_decision_format *how)
{
    struct rn_reply_queue *replies = &c->state->replies;
    struct rn_queued_reply *reply = c->talker->reply;

    if (!reply)
        reply = rn_reply_queue_add(replies, c->out);
    if (!reply)
        return false;
    if (rn_delayed_reply_start(&reply->held, c->conn, &c->ws->decided, hold_ns, how, tell_held)) {
        replies->held++;
        rn_front_count(&c->ws->counts->held, 1);
        return true;
    }
    if (!c->talker->reply)
        rn_reply_queue_complete(reply);
    return false;
}

/* Decides on ws->params and answers, now or later. */
static void decide(struct rn_resp_context *c, enum rn_verb verb)
{
    struct rn_decision *d = &c->ws->decided;
    struct rn_decision_format how = {.version = c->state->version, .full = c->ws->params.full};
    struct ration_error error;
    int code = rn_decision_make(c->front->limiter, &c->ws->params, verb, d, &error);
    int64_t hold_ns;

    if (code == RATION_EINVAL) {
        rn_front_resp_fail(c, "%s", error.text);
        return;
    }
    if (code != 0) {
        rn_front_count(&c->ws->counts->failed[RN_FRONT_RESP], 1);
        rn_resp_put_error(c->out, "STORE", rn_slice_of(error.text));
        return;
    }
    hold_ns = verb == RN_CHECK ? rn_decision_reply_delay_ns(&c->ws->params, d) : 0;
    if (hold_ns <= 0 || !hold(c, hold_ns, &how))
        rn_front_resp_put_decision(c->out, &how, d, 0);
}

/* --- options -----------------------------------------------------------------------------------
 */

enum {
    OPTION_COST = 1,
    OPTION_WAIT = 2,
    OPTION_FOR = 4,
    OPTION_ALGORITHM = 8,
    OPTION_MARKS = 16, /* the words below */
    OPTION_DRAIN = 32,
    OPTION_CREDIT = 64, /* the cost may be negative */
};

/* An option that is one word; NULL: it is none. */
static bool *find_mark(struct rn_params *params, struct rn_slice word)
{
    if (rn_front_resp_is(word, "PEEK"))
        return &params->peek;
    if (rn_front_resp_is(word, "LEASE"))
        return &params->keep_places;
    if (rn_front_resp_is(word, "SHADOW"))
        return &params->shadow;
    return rn_front_resp_is(word, "FULL") ? &params->full : NULL;
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

/* Seconds as a decimal. */
static bool read_seconds(struct rn_resp_context *c, struct rn_slice text, int64_t *ns)
{
    struct rn_json_token number = {.kind = RN_JSON_NUMBER, .text = text};

    if (is_decimal(text) && rn_json_seconds(&number, ns) && *ns >= 1000000 &&
        *ns <= RATION_LEASE_MAX_NS)
        return true;
    rn_front_resp_fail(c, "FOR must be seconds, from 0.001 to 86400, found %s",
                       rn_excerpt(text).text);
    return false;
}

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

/* Milliseconds without a sign; 0 if they are none that a reply can be held for. */
static int64_t read_patience(struct rn_slice text)
{
    int64_t ms = 0;

    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return 0;
        ms = ms * 10 + (text.data[i] - '0');
        if (ms > RN_REPLY_DELAY_MAX_NS / 1000000)
            return 0;
    }
    return ms;
}

static bool read_wait(struct rn_resp_context *c, struct rn_slice text)
{
    struct rn_params *params = &c->ws->params;

    params->wait = rn_front_resp_is(text, "RETURN") ? RN_WAIT_RETURN : RN_WAIT_HOLD;
    if (rn_front_resp_is(text, "RETURN") || rn_front_resp_is(text, "HOLD"))
        return true;
    params->max_wait_ns = read_patience(text) * 1000000;
    if (params->max_wait_ns > 0)
        return true;
    rn_front_resp_fail(
        c,
        "WAIT must be hold, return or the longest wait in milliseconds, up to 60000, "
        "found %s",
        rn_excerpt(text).text);
    return false;
}

static bool fail_repeated(struct rn_resp_context *c, struct rn_slice option)
{
    rn_front_resp_fail(c, "%s is given twice; give it once", rn_excerpt(option).text);
    return false;
}

/* The options from argv[at] on. `algorithm` may be NULL. */
static bool read_options(struct rn_resp_context *c, uint32_t at, unsigned allowed,
                         struct rn_slice *algorithm)
{
    struct rn_params *params = &c->ws->params;

    for (; at < c->argc; at += 2) {
        struct rn_slice name = c->argv[at], value;
        bool *mark = allowed & OPTION_MARKS ? find_mark(params, name) : NULL;

        if ((allowed & OPTION_DRAIN) && rn_front_resp_is(name, "DRAIN"))
            mark = &params->drain;
        if (mark && *mark)
            return fail_repeated(c, name);
        if (mark) {
            *mark = true;
            at--;
            continue;
        }
        if (at + 1 == c->argc)
            return rn_front_resp_fail_usage(c), false;
        value = c->argv[at + 1];
        if ((allowed & OPTION_COST) && rn_front_resp_is(name, "COST")) {
            if (params->cost_given)
                return fail_repeated(c, name);
            if (!(allowed & OPTION_CREDIT ? read_credit : read_cost)(c, value))
                return false;
        } else if ((allowed & OPTION_WAIT) && rn_front_resp_is(name, "WAIT")) {
            if (params->wait != RN_WAIT_AS_RULE)
                return fail_repeated(c, name);
            if (!read_wait(c, value))
                return false;
        } else if ((allowed & OPTION_FOR) && rn_front_resp_is(name, "FOR")) {
            if (params->for_ns != 0)
                return fail_repeated(c, name);
            if (!read_seconds(c, value, &params->for_ns))
                return false;
        } else if ((allowed & OPTION_ALGORITHM) && rn_front_resp_is(name, "ALGORITHM")) {
            if (algorithm->data)
                return fail_repeated(c, name);
            *algorithm = value;
        } else {
            return rn_front_resp_fail_usage(c), false;
        }
    }
    return true;
}

/* Attribute names are lower case: capitals begin the options. */
static bool is_option(struct rn_slice word)
{
    static const char *const options[] = {"COST",  "WAIT",   "PEEK", "FOR",
                                          "LEASE", "SHADOW", "FULL", "DRAIN"};

    if (word.len == 0 || word.data[0] < 'A' || word.data[0] > 'Z')
        return false;
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (rn_slice_is(word, options[i]))
            return true;
    return false;
}

/* Attributes from argv[at] on, then options. */
static bool read_request(struct rn_resp_context *c, uint32_t at, unsigned allowed)
{
    struct rn_params *params = &c->ws->params;

    rn_params_init(params);
    for (; at < c->argc && !is_option(c->argv[at]); at += 2) {
        if (at + 1 == c->argc) {
            rn_front_resp_fail(c, "attribute %s has no value", rn_excerpt(c->argv[at]).text);
            return false;
        }
        if (c->argv[at].len == 0) {
            rn_front_resp_fail(c, "an attribute has no name");
            return false;
        }
        if (rn_params_add(params, (char *)c->argv[at].data, c->argv[at].len, c->argv[at + 1]) !=
            0) {
            rn_front_resp_fail(c, "more than %d attributes", RN_PARAMS_ATTRIBUTES_MAX);
            return false;
        }
    }
    return read_options(c, at, allowed, NULL);
}

/* key limit, then options from argv[at] on. */
static bool read_limit(struct rn_resp_context *c, uint32_t at, unsigned allowed)
{
    struct rn_params *params = &c->ws->params;
    struct rn_slice algorithm = {0};
    struct ration_error error;

    if (!read_options(c, at, allowed, &algorithm))
        return false;
    params->key = c->argv[1];
    if (rn_params_set_limit(params, c->argv[2], algorithm, &error) == 0)
        return true;
    rn_front_resp_fail(c, "%s", error.text);
    return false;
}

static bool by_rules(const struct rn_resp_context *c)
{
    return rn_slice_is(c->argv[1], "RULES");
}

/* --- commands ------------------------------------------------------------------------------------
 */

/* Whoever keeps its places can neither only look nor have its reply held. */
void rn_front_resp_check(struct rn_resp_context *c)
{
    const struct rn_params *params = &c->ws->params;

    if (!read_request(c, 1,
                      OPTION_COST | OPTION_CREDIT | OPTION_WAIT | OPTION_MARKS | OPTION_DRAIN))
        return;
    if (params->keep_places && (params->peek || params->wait == RN_WAIT_HOLD))
        rn_front_resp_fail(c, "LEASE goes with neither PEEK nor a WAIT that holds the reply");
    else
        decide(c, params->keep_places ? RN_ACQUIRE : RN_CHECK);
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
        decide(c, RN_CHECK);
}

void rn_front_resp_peek(struct rn_resp_context *c)
{
    uint32_t at;

    if (!read_optional_cost(c, &at) || !read_limit(c, at, OPTION_WAIT | OPTION_ALGORITHM))
        return;
    c->ws->params.peek = true;
    decide(c, RN_CHECK);
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
    if (by_rules(c) ? read_request(c, 2, OPTION_COST | OPTION_FOR)
                    : read_limit(c, 3, OPTION_COST | OPTION_FOR))
        decide(c, RN_ACQUIRE);
}

void rn_front_resp_reserve(struct rn_resp_context *c)
{
    rn_params_init(&c->ws->params);
    if (by_rules(c) ? read_request(c, 2, OPTION_COST | OPTION_FOR)
                    : c->argc > 3 && read_cost(c, c->argv[3]) &&
                          read_limit(c, 4, OPTION_FOR | OPTION_ALGORITHM))
        decide(c, RN_RESERVE);
    else if (!by_rules(c) && c->argc == 3)
        rn_front_resp_fail_usage(c);
}

/* 1: done; 0: it was over already. */
static void answer_done(struct rn_resp_context *c, int code)
{
    if (code == 0 || code == RATION_EALREADY || code == RATION_EGONE)
        rn_resp_put_integer(c->out, code == 0);
    else if (code == RATION_EINVAL)
        rn_front_resp_fail(c, "the lease is none of this daemon's");
    else
        rn_resp_put_error(c->out, "STORE", rn_slice_of(ration_error_text(code)));
}

void rn_front_resp_renew(struct rn_resp_context *c)
{
    struct rn_params *params = &c->ws->params;

    rn_params_init(params);
    if (read_options(c, 2, OPTION_FOR, NULL))
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

/* charge status: 1, charged; 0, nothing is, or it was already. */
void rn_front_resp_charge_due(struct rn_resp_context *c)
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
        rn_front_resp_fail(c, "the charge is none of this daemon's");
    else
        answer_done(c, code == 0 && count == 0 ? RATION_EALREADY : code);
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
