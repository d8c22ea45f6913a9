/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands that bring their limit and are charged together: those of redis-cell, Redis and
 * throttlecrab, whose replies disagree about the order and the meaning of their numbers,
 * and our own.
 *
 *   CL.THROTTLE, GCRA   limited? limit remaining retry_after|-1 reset_after
 *   THROTTLE            allowed? burst remaining reset_after retry_after|0
 */
#include "front/resp/resp_internal.h"

#include "base/clock.h"
#include "limiter/limiter.h"
#include "rules/report/report.h"
#include "wire/resp_format.h"

enum reply_style { STYLE_REDIS_CELL, STYLE_THROTTLECRAB, STYLE_RATION };

/* --- replies ------------------------------------------------------------------------------- */

static uint64_t clamp(uint64_t n)
{
    return n <= INT64_MAX ? n : INT64_MAX;
}

/* Rounds up. A time that there is not is -1. */
static inline char *write_seconds(char *to, bool any, int64_t ns)
{
    return any ? rn_resp_format_head(to, ':', ((uint64_t)ns + RN_SECOND_NS - 1) / RN_SECOND_NS)
               : RN_FORMAT_LITERAL(to, ":-1\r\n");
}

/* What both begin with: a bit, the limit, what remains. NULL: out of memory. */
static inline char *begin_reply(struct rn_buf *out, bool bit, const struct ration_verdict *v)
{
    char *to = rn_buf_reserve(out, 6 * RN_RESP_FORMAT_MAX);

    if (!to)
        return NULL;
    to = bit ? RN_FORMAT_LITERAL(to, "*5\r\n:1\r\n") : RN_FORMAT_LITERAL(to, "*5\r\n:0\r\n");
    to = rn_resp_format_head(to, ':', clamp(v->limit));
    return rn_resp_format_head(to, ':', clamp(v->remaining));
}

/* A limit that cannot be used is the caller's mistake; all else is the store's failure. */
static RN_ASIDE void put_failure(struct rn_resp_context *c, const struct ration_charge *charge)
{
    struct ration_error error;

    if (charge->error == RATION_EINVAL &&
        rn_limiter_judge(c->front->limiter, charge->ad_hoc, &error) != 0) {
        rn_resp_put_error(c->out, "ERR", rn_slice_of(error.text));
        return;
    }
    rn_front_count(&c->ws->counts->failed[RN_FRONT_RESP], 1);
    rn_resp_put_error(c->out, "STORE", rn_slice_of(ration_error_text(charge->error)));
}

static void put_reply(struct rn_resp_context *c, const struct ration_charge *charge,
                      enum reply_style style)
{
    const struct ration_verdict *v = &charge->verdict;
    bool never = v->retry_after_ns == RATION_NEVER;
    struct rn_decision *d = &c->ws->decision;
    char *to;

    if (rn_unlikely(charge->error != 0)) {
        put_failure(c, charge);
        return;
    }
    switch (style) {
    case STYLE_REDIS_CELL:
        if (!(to = begin_reply(c->out, !v->allowed, v)))
            return;
        to = write_seconds(to, !v->allowed && !never, v->retry_after_ns);
        rn_format_done(c->out, write_seconds(to, true, v->reset_after_ns));
        break;
    case STYLE_THROTTLECRAB:
        if (!(to = begin_reply(c->out, v->allowed, v)))
            return;
        to = write_seconds(to, true, v->reset_after_ns);
        rn_format_done(c->out, write_seconds(to, !never, v->retry_after_ns));
        break;
    case STYLE_RATION:
        rn_decision_from_charge(&d->outcome, charge, charge->ad_hoc);
        d->by_limit = true;
        d->lease_ticket[0] = d->charge_ticket[0] = '\0';
        rn_front_resp_put_decision(
            c->out, &(struct rn_decision_format){.version = c->state->version}, d, 0);
        break;
    }
}

void rn_front_resp_flush_batch(struct rn_resp_context *c)
{
    struct rn_front_workspace *ws = c->ws;

    if (ws->charge_count == 0)
        return;
    rn_front_set_deadline(c->front, c->conn);
    ration_take_batch(c->front->limiter, ws->charges, ws->charge_count, RATION_NOW);
    for (uint32_t i = 0; i < ws->charge_count; i++)
        put_reply(c, &ws->charges[i], (enum reply_style)ws->styles[i]);
    ws->charge_count = 0;
}

/* --- limits ----------------------------------------------------------------------------------- */

/* Callers send the same limit over and over: it is parsed once and then found by its bytes.
 * `extra` tells apart commands that read the same bytes differently. NULL: unknown. */
static struct rn_cached_limit *find_older(struct rn_front_workspace *ws, struct rn_slice text,
                                          uint8_t extra)
{
    if (text.len == 0) /* as an empty entry has */
        return NULL;
    for (uint8_t i = 0; i < RN_LIMIT_CACHE; i++) {
        struct rn_cached_limit *r = &ws->limit_cache[i];

        if (r->len == text.len && r->extra == extra &&
            rn_slice_repeats(r->text, text.data, text.len)) {
            ws->limit_cache_last = i;
            return r;
        }
    }
    return NULL;
}

static inline struct rn_cached_limit *find_cached(struct rn_resp_context *c, struct rn_slice text,
                                                  uint8_t extra)
{
    struct rn_cached_limit *r = &c->ws->limit_cache[c->ws->limit_cache_last];

    if (r->len == text.len && r->extra == extra && text.len != 0 &&
        rn_slice_repeats(r->text, text.data, text.len))
        return r;
    return find_older(c->ws, text, extra);
}

/* Commands of the batch may still need the oldest entry: they are charged first. */
static struct rn_cached_limit *replace_oldest(struct rn_resp_context *c)
{
    struct rn_front_workspace *ws = c->ws;

    rn_front_resp_flush_batch(c);
    ws->joined.limit = NULL;
    ws->template.before_len = 0;
    ws->limit_cache_last = (uint8_t)((ws->limit_cache_last + 1) % RN_LIMIT_CACHE);
    ws->limit_cache[ws->limit_cache_last].len = 0;
    return &ws->limit_cache[ws->limit_cache_last];
}

static void keep_limit(struct rn_cached_limit *r, struct rn_slice text, uint8_t extra)
{
    if (text.len > sizeof r->text)
        return;
    memcpy(r->text, text.data, text.len);
    r->len = (uint8_t)text.len;
    r->extra = extra;
}

/* argv[2] to argv[4]: burst, count, period in seconds. The bucket holds `extra` more than the
 * burst. */
static bool read_bucket(struct rn_resp_context *c, struct ration_limit *limit, int64_t extra)
{
    struct ration_error error;
    int64_t burst, count, period;

    if (!rn_front_resp_number(c, c->argv[2], "max_burst", &burst) ||
        !rn_front_resp_number(c, c->argv[3], "count", &count) ||
        !rn_front_resp_number(c, c->argv[4], "period", &period))
        return false;
    if (period > INT64_MAX / RN_SECOND_NS) {
        rn_front_resp_fail(c, "period must be at most ten years (315576000), found %s",
                           rn_excerpt(c->argv[4]).text);
        return false;
    }
    if (burst + extra <= 0 || count <= 0 || period <= 0) {
        rn_front_resp_fail(c,
                           "zero rates are not supported: count and period must be positive, "
                           "max_burst %s",
                           extra ? "0 or more" : "too");
        return false;
    }
    *limit = (struct ration_limit){.algorithm = RATION_TOKEN_BUCKET,
                                   .amount = (uint64_t)count,
                                   .period_ns = period * RN_SECOND_NS,
                                   .burst = (uint64_t)(burst + extra)};
    if (ration_limit_check(limit, &error) == 0)
        return true;
    rn_front_resp_fail(c, "%s", error.text);
    return false;
}

/* Finds the limit by the three words as they stand on the wire, with the bytes between them. */
static const struct ration_limit *find_bucket(struct rn_resp_context *c, uint8_t extra)
{
    struct rn_slice text = {c->argv[2].data,
                            (size_t)(c->argv[4].data + c->argv[4].len - c->argv[2].data)};
    struct rn_cached_limit *r = find_cached(c, text, extra);

    if (r)
        return &r->limit;
    r = replace_oldest(c);
    if (!read_bucket(c, &r->limit, extra))
        return NULL;
    keep_limit(r, text, extra);
    return &r->limit;
}

/* --- joining ------------------------------------------------------------------------------- */

static void add(struct rn_resp_context *c, const struct rn_joined *what, struct rn_slice key)
{
    struct rn_front_workspace *ws = c->ws;

    if (ws->charge_count == RN_FRONT_BATCH)
        rn_front_resp_flush_batch(c);
    struct ration_charge *charge = &ws->charges[ws->charge_count];

    ws->styles[ws->charge_count++] = what->shape;
    charge->ad_hoc = what->limit; /* the other fields are for the answer */
    charge->key = key.data;
    charge->key_len = key.len;
    charge->cost = what->cost;
    charge->drain = what->drain;
}

/* Pipelines mostly repeat one command with many keys: the second one is kept as a pattern. */
static void join(struct rn_resp_context *c, const struct rn_joined *what)
{
    struct rn_front_workspace *ws = c->ws;
    struct rn_joined *last = &ws->joined;
    bool again = last->limit == what->limit && last->cost == what->cost &&
                 last->shape == what->shape && last->drain == what->drain;

    *last = *what;
    ws->template.before_len = 0;
    if (again)
        rn_resp_keep_template(&ws->template, c->data, &ws->command);
    add(c, last, c->argv[1]);
}

size_t rn_front_resp_join_again(struct rn_resp_context *c, char *data, size_t len, uint64_t *count)
{
    struct rn_front_workspace *ws = c->ws;
    struct rn_slice key;
    size_t done = 0, bytes;

    if (ws->charge_count == RN_FRONT_BATCH)
        rn_front_resp_flush_batch(c);
    while (ws->charge_count < RN_FRONT_BATCH &&
           (bytes = rn_resp_match_template(&ws->template, data + done, len - done, &key)) != 0) {
        add(c, &ws->joined, key);
        ++*count;
        done += bytes;
    }
    return done;
}

static bool read_quantity(struct rn_resp_context *c, struct rn_slice text, uint64_t least,
                          uint64_t *cost)
{
    if (!rn_front_resp_cost(c, text, "quantity", cost))
        return false;
    if (*cost < least)
        rn_front_resp_fail(c, "quantity must be %llu or more, found %llu",
                           (unsigned long long)least, (unsigned long long)*cost);
    return *cost >= least;
}

void rn_front_resp_cl_throttle(struct rn_resp_context *c)
{
    uint64_t cost = 1;

    const struct ration_limit *limit = find_bucket(c, 1);

    if (limit && (c->argc < 6 || read_quantity(c, c->argv[5], 0, &cost)))
        join(c, &(struct rn_joined){limit, cost, STYLE_REDIS_CELL, false});
}

void rn_front_resp_throttle(struct rn_resp_context *c)
{
    uint64_t cost = 1;

    const struct ration_limit *limit = find_bucket(c, 0);

    if (limit && (c->argc < 6 || read_quantity(c, c->argv[5], 0, &cost)))
        join(c, &(struct rn_joined){limit, cost, STYLE_THROTTLECRAB, false});
}

void rn_front_resp_gcra(struct rn_resp_context *c)
{
    const struct ration_limit *limit;
    uint64_t cost = 1;

    if (c->argc == 6 || (c->argc == 7 && !rn_front_resp_is(c->argv[5], "TOKENS")))
        rn_front_resp_fail_usage(c);
    else if ((limit = find_bucket(c, 1)) && (c->argc < 7 || read_quantity(c, c->argv[6], 1, &cost)))
        join(c, &(struct rn_joined){limit, cost, STYLE_REDIS_CELL, false});
}

static const struct ration_limit *find_limit(struct rn_resp_context *c)
{
    enum { AS_TEXT = 2 };
    struct rn_cached_limit *r = find_cached(c, c->argv[2], AS_TEXT);
    struct ration_error error;

    if (r)
        return &r->limit;
    r = replace_oldest(c);
    if (rn_params_parse_limit(c->argv[2], &r->limit, &error) != 0) {
        rn_front_resp_fail(c, "%s", error.text);
        return NULL;
    }
    if (r->limit.algorithm == RATION_CONCURRENCY) {
        rn_front_resp_fail(c, "places are acquired and released, not taken; use RATION.ACQUIRE");
        return NULL;
    }
    keep_limit(r, c->argv[2], AS_TEXT);
    return &r->limit;
}

/* RATION.TAKE key limit [cost] [DRAIN] joins; with other options it is decided alone. */
void rn_front_resp_take(struct rn_resp_context *c)
{
    bool drain = c->argc > 3 && rn_front_resp_is(c->argv[c->argc - 1], "DRAIN");
    uint32_t argc = c->argc - drain;
    /* A negative cost, or an option without its value. */
    bool is_other =
        argc == 4 && c->argv[3].len > 0 && (c->argv[3].data[0] < '0' || c->argv[3].data[0] > '9');
    const struct ration_limit *limit;
    uint64_t cost = 1;

    if (argc > 4 || is_other) {
        rn_front_resp_flush_batch(c);
        rn_front_set_deadline(c->front, c->conn);
        rn_front_resp_take_alone(c);
    } else if ((limit = find_limit(c)) &&
               (argc < 4 || rn_front_resp_cost(c, c->argv[3], "cost", &cost))) {
        join(c, &(struct rn_joined){limit, cost, STYLE_RATION, drain});
    }
}
