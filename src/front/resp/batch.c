/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands that bring their limit along and are charged together: those of
 * redis-cell, Redis and throttlecrab, whose replies disagree about the order and
 * the meaning of their numbers, and our own.
 *
 *   CL.THROTTLE, GCRA   limited? limit remaining retry_after|-1 reset_after
 *   THROTTLE            allowed? burst remaining reset_after retry_after|0
 */
#include "front/resp/resp_internal.h"

#include "base/clock.h"
#include "limiter/limiter.h"
#include "rules/report/report.h"
#include "wire/resp_format.h"

enum shape { SHAPE_CELL, SHAPE_CRAB, SHAPE_OURS };

/* --- replies ------------------------------------------------------------------------------- */

/* Of a time that is not negative. */
static uint64_t seconds_up(int64_t ns)
{
    return ((uint64_t)ns + RN_SECOND_NS - 1) / RN_SECOND_NS;
}

static uint64_t clamp(uint64_t n)
{
    return n <= INT64_MAX ? n : INT64_MAX;
}

/* Where both begin: a bit, the limit, what remains. NULL: there is no memory. */
static inline char *begin_reply(struct rn_buf *out, bool bit, const struct ration_verdict *v)
{
    char *to = rn_buf_reserve(out, 6 * RN_RESP_FORMAT_MAX);

    if (!to)
        return NULL;
    to = bit ? RN_FORMAT_LITERAL(to, "*5\r\n:1\r\n") : RN_FORMAT_LITERAL(to, "*5\r\n:0\r\n");
    to = rn_resp_format_head(to, ':', clamp(v->limit));
    return rn_resp_format_head(to, ':', clamp(v->remaining));
}

static inline char *write_seconds(char *to, bool any, int64_t ns)
{
    return any ? rn_resp_format_head(to, ':', seconds_up(ns)) : RN_FORMAT_LITERAL(to, ":-1\r\n");
}

static void put_cell(struct rn_buf *out, const struct ration_verdict *v)
{
    char *to = begin_reply(out, !v->allowed, v);

    if (!to)
        return;
    to = write_seconds(to, !v->allowed && v->retry_after_ns != RATION_NEVER, v->retry_after_ns);
    rn_format_done(out, write_seconds(to, true, v->reset_after_ns));
}

static void put_crab(struct rn_buf *out, const struct ration_verdict *v)
{
    char *to = begin_reply(out, v->allowed, v);

    if (!to)
        return;
    to = write_seconds(to, true, v->reset_after_ns);
    rn_format_done(out, write_seconds(to, v->retry_after_ns != RATION_NEVER, v->retry_after_ns));
}

/* A limit that cannot be used is the caller's fault, all else the store's. */
static RN_ASIDE void put_failure(struct rn_talk *t, const struct ration_charge *c)
{
    struct ration_error error;

    if (c->error == RATION_EINVAL && rn_limiter_judge(t->front->limiter, c->ad_hoc, &error) != 0) {
        rn_resp_put_error(t->out, "ERR", rn_slice_of(error.text));
        return;
    }
    rn_front_count(&t->desk->counts->failed[RN_FRONT_RESP], 1);
    rn_resp_put_error(t->out, "STORE", rn_slice_of(ration_error_text(c->error)));
}

static void put_reply(struct rn_talk *t, const struct ration_charge *c, enum shape shape)
{
    struct rn_decision *d = &t->desk->decided;

    if (rn_unlikely(c->error != 0)) {
        put_failure(t, c);
        return;
    }
    switch (shape) {
    case SHAPE_CELL:
        put_cell(t->out, &c->verdict);
        break;
    case SHAPE_CRAB:
        put_crab(t->out, &c->verdict);
        break;
    case SHAPE_OURS:
        rn_decision_from_charge(&d->outcome, c, c->ad_hoc);
        d->by_limit = true;
        d->ticket[0] = d->due[0] = '\0';
        rn_front_resp_put_decision(
            t->out, &(struct rn_decision_format){.version = t->state->version}, d, 0);
        break;
    }
}

void rn_front_resp_charge(struct rn_talk *t)
{
    struct rn_desk *desk = t->desk;

    if (desk->charge_count == 0)
        return;
    rn_await_set_deadline(t->front, t->conn);
    ration_take_batch(t->front->limiter, desk->charges, desk->charge_count, RATION_NOW);
    for (uint32_t i = 0; i < desk->charge_count; i++)
        put_reply(t, &desk->charges[i], (enum shape)desk->shapes[i]);
    desk->charge_count = 0;
}

/* --- limits ----------------------------------------------------------------------------------- */

/* Callers say the same limit over and over: it is read once and then recalled by
 * the bytes it was given in. `extra` tells apart commands that read the same
 * bytes differently. NULL: unknown; what was asked last is the place for it. */
static struct rn_recalled *recall_older(struct rn_desk *desk, struct rn_slice text, uint8_t extra)
{
    if (text.len == 0) /* as that of a place where nothing is remembered */
        return NULL;
    for (uint8_t i = 0; i < RN_RECALLED; i++) {
        struct rn_recalled *r = &desk->recalled[i];

        if (r->len == text.len && r->extra == extra &&
            rn_slice_repeats(r->text, text.data, text.len)) {
            desk->recalled_last = i;
            return r;
        }
    }
    return NULL;
}

static inline struct rn_recalled *recall(struct rn_talk *t, struct rn_slice text, uint8_t extra)
{
    struct rn_recalled *r = &t->desk->recalled[t->desk->recalled_last];

    if (r->len == text.len && r->extra == extra && text.len != 0 &&
        rn_slice_repeats(r->text, text.data, text.len))
        return r;
    return recall_older(t->desk, text, extra);
}

/* The oldest of them is replaced. Those that wait to be charged may still need
 * it: they go first. */
static struct rn_recalled *forget_one(struct rn_talk *t)
{
    struct rn_desk *desk = t->desk;

    rn_front_resp_charge(t);
    desk->joined.limit = NULL;
    desk->refrain.before_len = 0;
    desk->recalled_last = (uint8_t)((desk->recalled_last + 1) % RN_RECALLED);
    desk->recalled[desk->recalled_last].len = 0;
    return &desk->recalled[desk->recalled_last];
}

static void remember(struct rn_recalled *r, struct rn_slice text, uint8_t extra)
{
    if (text.len > sizeof r->text)
        return;
    memcpy(r->text, text.data, text.len);
    r->len = (uint8_t)text.len;
    r->extra = extra;
}

/* argv[2] to argv[4]: burst, count, period in seconds. `extra` is what the bucket
 * holds besides the burst. */
static bool read_bucket(struct rn_talk *t, struct ration_limit *limit, int64_t extra)
{
    struct ration_error error;
    int64_t burst, count, period;

    if (!rn_front_resp_number(t, t->argv[2], "max_burst", &burst) ||
        !rn_front_resp_number(t, t->argv[3], "count", &count) ||
        !rn_front_resp_number(t, t->argv[4], "period", &period))
        return false;
    if (period > INT64_MAX / RN_SECOND_NS) {
        rn_front_resp_fail(t, "period must be at most ten years (315576000), found %s",
                           rn_excerpt(t->argv[4]).text);
        return false;
    }
    if (burst + extra <= 0 || count <= 0 || period <= 0) {
        rn_front_resp_fail(t,
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
    rn_front_resp_fail(t, "%s", error.text);
    return false;
}

/* The three words as they stand on the wire, with what is between them. */
static const struct ration_limit *find_bucket(struct rn_talk *t, uint8_t extra)
{
    struct rn_slice text = {t->argv[2].data,
                            (size_t)(t->argv[4].data + t->argv[4].len - t->argv[2].data)};
    struct rn_recalled *r = recall(t, text, extra);

    if (r)
        return &r->limit;
    r = forget_one(t);
    if (!read_bucket(t, &r->limit, extra))
        return NULL;
    remember(r, text, extra);
    return &r->limit;
}

/* --- joining ------------------------------------------------------------------------------- */

static void add(struct rn_talk *t, const struct rn_joined *what, struct rn_slice key)
{
    struct rn_desk *desk = t->desk;

    if (desk->charge_count == RN_FRONT_BATCH)
        rn_front_resp_charge(t);
    struct ration_charge *c = &desk->charges[desk->charge_count];

    desk->shapes[desk->charge_count++] = what->shape;
    c->ad_hoc = what->limit; /* the rest is for the answer */
    c->key = key.data;
    c->key_len = key.len;
    c->cost = what->cost;
    c->drain = what->drain;
}

/* Pipelines mostly say the same thing of many keys: that is recalled once it has been
 * said twice. */
static void join(struct rn_talk *t, const struct rn_joined *what)
{
    struct rn_desk *desk = t->desk;
    struct rn_joined *last = &desk->joined;
    bool again = last->limit == what->limit && last->cost == what->cost &&
                 last->shape == what->shape && last->drain == what->drain;

    *last = *what;
    desk->refrain.before_len = 0;
    if (again)
        rn_resp_keep_refrain(&desk->refrain, t->data, &desk->command);
    add(t, last, t->argv[1]);
}

size_t rn_front_resp_join_again(struct rn_talk *t, char *data, size_t len, uint64_t *count)
{
    struct rn_desk *desk = t->desk;
    struct rn_slice key;
    size_t done = 0, bytes;

    if (desk->charge_count == RN_FRONT_BATCH)
        rn_front_resp_charge(t);
    while (desk->charge_count < RN_FRONT_BATCH &&
           (bytes = rn_resp_pass_refrain(&desk->refrain, data + done, len - done, &key)) != 0) {
        add(t, &desk->joined, key);
        ++*count;
        done += bytes;
    }
    return done;
}

static bool read_quantity(struct rn_talk *t, struct rn_slice text, uint64_t least, uint64_t *cost)
{
    if (!rn_front_resp_cost(t, text, "quantity", cost))
        return false;
    if (*cost < least)
        rn_front_resp_fail(t, "quantity must be %llu or more, found %llu",
                           (unsigned long long)least, (unsigned long long)*cost);
    return *cost >= least;
}

void rn_front_resp_cl_throttle(struct rn_talk *t)
{
    uint64_t cost = 1;

    const struct ration_limit *limit = find_bucket(t, 1);

    if (limit && (t->argc < 6 || read_quantity(t, t->argv[5], 0, &cost)))
        join(t, &(struct rn_joined){limit, cost, SHAPE_CELL, false});
}

void rn_front_resp_throttle(struct rn_talk *t)
{
    uint64_t cost = 1;

    const struct ration_limit *limit = find_bucket(t, 0);

    if (limit && (t->argc < 6 || read_quantity(t, t->argv[5], 0, &cost)))
        join(t, &(struct rn_joined){limit, cost, SHAPE_CRAB, false});
}

void rn_front_resp_gcra(struct rn_talk *t)
{
    const struct ration_limit *limit;
    uint64_t cost = 1;

    if (t->argc == 6 || (t->argc == 7 && !rn_front_resp_is(t->argv[5], "TOKENS")))
        rn_front_resp_fail_usage(t);
    else if ((limit = find_bucket(t, 1)) && (t->argc < 7 || read_quantity(t, t->argv[6], 1, &cost)))
        join(t, &(struct rn_joined){limit, cost, SHAPE_CELL, false});
}

static const struct ration_limit *find_limit(struct rn_talk *t)
{
    enum { AS_TEXT = 2 };
    struct rn_recalled *r = recall(t, t->argv[2], AS_TEXT);
    struct ration_error error;

    if (r)
        return &r->limit;
    r = forget_one(t);
    if (rn_params_parse_limit(t->argv[2], &r->limit, &error) != 0) {
        rn_front_resp_fail(t, "%s", error.text);
        return NULL;
    }
    if (r->limit.algorithm == RATION_CONCURRENCY) {
        rn_front_resp_fail(t, "places are acquired and released, not taken; use RATION.ACQUIRE");
        return NULL;
    }
    remember(r, t->argv[2], AS_TEXT);
    return &r->limit;
}

/* RATION.TAKE key limit [cost] [DRAIN], and nothing that needs more attention. */
void rn_front_resp_take(struct rn_talk *t)
{
    bool drain = t->argc > 3 && rn_front_resp_is(t->argv[t->argc - 1], "DRAIN");
    uint32_t argc = t->argc - drain;
    bool gives_back = argc == 4 && t->argv[3].len > 0 && t->argv[3].data[0] == '-';
    const struct ration_limit *limit;
    uint64_t cost = 1;

    if (argc > 4 || gives_back) {
        rn_front_resp_charge(t);
        rn_await_set_deadline(t->front, t->conn);
        rn_front_resp_take_alone(t);
    } else if ((limit = find_limit(t)) &&
               (argc < 4 || rn_front_resp_cost(t, t->argv[3], "cost", &cost))) {
        join(t, &(struct rn_joined){limit, cost, SHAPE_OURS, drain});
    }
}
