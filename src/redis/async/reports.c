/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/async/reports.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "redis/timing.h"

#define NUMBERS (1 + RN_VIEW_NUMBERS) /* of a key, in a reply */

/* --- waiting keys ------------------------------------------------------------------------- */

static void put_last(struct rn_reports_line *line, struct rn_async_key *key)
{
    key->next = NULL;
    key->link = line->last;
    *line->last = key;
    line->last = &key->next;
}

static void put_first(struct rn_reports_line *line, struct rn_async_key *key)
{
    key->next = line->first;
    key->link = &line->first;
    *(key->next ? &key->next->link : &line->last) = &key->next;
    line->first = key;
}

static void take_out(struct rn_reports_line *line, struct rn_async_key *key)
{
    *key->link = key->next;
    *(key->next ? &key->next->link : &line->last) = key->link;
    key->link = NULL;
}

static struct rn_reports_line *line_of(struct rn_reports *r, const struct rn_async_key *key)
{
    return &r->lines[r->line_count == 1 ? 0 : rn_codec_tag(key->local.key)];
}

static int64_t next_tick(const struct rn_reports *r, int64_t now_ns)
{
    int64_t since = now_ns - r->phase_ns;

    return r->phase_ns + (since / RN_ASYNC_TICK_NS + 1) * RN_ASYNC_TICK_NS;
}

static void wake_at(struct rn_reports *r, int64_t at_ns)
{
    if (!r->stopped)
        rn_timing_by(r->loop, &r->timer, at_ns);
}

static void wait_in_line(struct rn_reports *r, struct rn_async_key *key, bool now)
{
    struct rn_reports_line *line = line_of(r, key);

    if (key->link && now)
        take_out(line, key);
    if (key->link)
        return;
    key->due_ns = now ? 0 : next_tick(r, rn_timing_now(r->loop));
    (now ? put_first : put_last)(line, key);
}

/* --- calls ------------------------------------------------------------------------------- */

static bool on_reply(void *arg, const redisReply *reply);

/* The words of a call, while it is being written. */
struct draft {
    char mark[RN_CODEC_NAME], number[24], units[RN_ASYNC_KEYS_OF_CALL][24];
    struct rn_slice keys[RN_SCRIPT_REQUEST_KEYS], args[1 + 2 * RN_ASYNC_KEYS_OF_CALL];
};

static void write_draft(const struct rn_reports_line *line, struct draft *d)
{
    unsigned tag = (unsigned)(line - line->owner->lines);

    snprintf(d->number, sizeof d->number, "%" PRIu64, line->number);
    d->keys[0] =
        (struct rn_slice){d->mark, rn_codec_report_number_name(tag, line->owner->holder, d->mark)};
    d->args[0] = rn_slice_of(d->number);
    for (size_t i = 0; i < line->count; i++) {
        const struct rn_async_key *key = line->sent[i];

        snprintf(d->units[i], sizeof d->units[i], "%c%" PRIu64,
                 rn_codec_kind(key->budget.view.kind), key->budget.sent);
        d->keys[1 + i] = (struct rn_slice){key->name, key->name_len};
        d->args[1 + 2 * i] = rn_slice_of(d->units[i]);
        d->args[2 + 2 * i] = (struct rn_slice){key->arg, key->arg_len};
    }
}

static void send_call(struct rn_reports_line *line)
{
    struct rn_reports *r = line->owner;
    struct draft draft;

    write_draft(line, &draft);
    bool sent = rn_redis_call(
        r->redis, &(struct rn_script_request){.script = RN_SCRIPT_REPORT,
                                              .keys = draft.keys,
                                              .args = draft.args,
                                              .key_count = 1 + line->count,
                                              .arg_count = 1 + 2 * line->count,
                                              .until_ns = rn_timing_now(r->loop) + RN_ASYNC_TICK_NS,
                                              .reply = on_reply,
                                              .arg = line});

    line->stage = sent ? RN_REPORTS_WAITS : RN_REPORTS_FAILED;
    r->in_flight += sent;
    rn_redis_count(&r->counts->trips, sent);
    rn_redis_count(&r->counts->resent, sent && line->doubtful);
    line->doubtful |= sent;
}

/* Moves the keys that are due into the call. False: none is. */
static bool fill_call(struct rn_reports_line *line, int64_t now_ns)
{
    line->count = 0;
    while (line->first && line->first->due_ns <= now_ns && line->count < RN_ASYNC_KEYS_OF_CALL) {
        struct rn_async_key *key = line->first;

        take_out(line, key);
        rn_local_budget_send(&key->budget);
        line->sent[line->count++] = key;
    }
    line->number += line->count > 0;
    line->doubtful = false;
    return line->count > 0;
}

static void serve(struct rn_reports_line *line, int64_t now_ns)
{
    if (line->stage == RN_REPORTS_FREE && fill_call(line, now_ns))
        send_call(line);
    if (line->stage == RN_REPORTS_FAILED || line->first)
        wake_at(line->owner, next_tick(line->owner, now_ns));
}

/* A tick. */
static void on_timer(struct rn_timer *timer)
{
    struct rn_reports *r =
        (struct rn_reports *)((char *)timer - offsetof(struct rn_reports, timer));
    int64_t now_ns = rn_timing_now(r->loop);

    for (size_t i = 0; i < r->line_count; i++) {
        if (r->lines[i].stage == RN_REPORTS_FAILED)
            send_call(&r->lines[i]);
        serve(&r->lines[i], now_ns);
    }
}

/* --- replies -------------------------------------------------------------------------------- */

static bool reads_whole(const struct rn_reports_line *line, const redisReply *reply)
{
    char number[24];

    snprintf(number, sizeof number, "%" PRIu64, line->number);
    if (!reply || reply->type != REDIS_REPLY_ARRAY ||
        reply->elements != 2 + NUMBERS * line->count ||
        reply->element[0]->type != REDIS_REPLY_STRING ||
        strcmp(reply->element[0]->str, number) != 0)
        return false;
    for (size_t i = 1; i < reply->elements; i++)
        if (reply->element[i]->type != REDIS_REPLY_INTEGER)
            return false;
    return true;
}

static void learn(struct rn_reports_line *line, struct rn_async_key *key,
                  redisReply *const *element, int64_t got_ns)
{
    struct rn_reports *r = line->owner;
    struct rn_local_budget *h = &key->budget;
    long long numbers[RN_VIEW_NUMBERS];

    for (size_t i = 0; i < RN_VIEW_NUMBERS; i++)
        numbers[i] = element[1 + i]->integer;
    rn_redis_count(&r->counts->reports, 1);
    rn_redis_count(&r->counts->units, h->sent);
    rn_redis_count(&r->counts->unreported, UINT64_C(0) - h->sent);
    rn_local_budget_learn(h, element[0]->integer == 1 ? numbers : NULL, r->store_us, got_ns);
    if (h->unsent > 0)
        wait_in_line(r, key, h->unsent >= (key->most + 1) / 2);
}

/* Redis ran the script before this moment, so time counts from here: see redis/async/view.h. */
static bool on_reply(void *arg, const redisReply *reply)
{
    struct rn_reports_line *line = arg;
    struct rn_reports *r = line->owner;
    int64_t got_ns = rn_clock_read_ns(CLOCK_MONOTONIC);

    r->in_flight--;
    if (!reads_whole(line, reply)) {
        line->stage = RN_REPORTS_FAILED;
        wake_at(r, next_tick(r, rn_timing_now(r->loop)));
        return r->stopped; /* then several calls may be in flight, and only the last is known */
    }
    r->store_us = reply->element[1]->integer;
    r->heard_ns = got_ns;
    line->stage = RN_REPORTS_FREE;
    for (size_t i = 0; i < line->count; i++)
        learn(line, line->sent[i], &reply->element[2 + NUMBERS * i], got_ns);
    if (!r->stopped)
        serve(line, rn_timing_now(r->loop));
    return true;
}

int64_t rn_reports_store_us(const struct rn_reports *r, int64_t now_ns)
{
    if (r->heard_ns == 0)
        return rn_clock_read_ns(CLOCK_REALTIME) / 1000;
    return r->store_us + (now_ns > r->heard_ns ? (now_ns - r->heard_ns) / 1000 : 0);
}

bool rn_reports_spares(const struct rn_local_key *local, int64_t now_ns)
{
    const struct rn_async_key *key = (const struct rn_async_key *)local;

    return !key->link && rn_local_budget_is_idle(&key->budget, now_ns, key->most);
}

/* --- start and end --------------------------------------------------------------------------- */

/* The windows of a calendar in a report depend on the time, so its text expires. */
void rn_reports_want(struct rn_reports *r, struct rn_async_key *key, const struct rn_charge *charge,
                     bool now)
{
    struct rn_reports_line *line = line_of(r, key);
    int64_t now_ns = rn_timing_now(r->loop);

    if (r->stopped)
        return;
    if (key->arg_len == 0 || now_ns - key->written_ns >= RN_ASYNC_TICK_NS) {
        key->arg_len = (uint8_t)rn_codec_write(charge, 0, key->arg);
        key->name_len = (uint8_t)rn_codec_name(charge, key->name);
        key->written_ns = now_ns;
    }
    if (key->budget.reporting || (key->link && (!now || key->due_ns == 0)))
        return;
    wait_in_line(r, key, now);
    if (now && line->stage == RN_REPORTS_FREE)
        serve(line, now_ns);
    else
        wake_at(r, next_tick(r, now_ns));
}

bool rn_reports_init(struct rn_reports *r, struct rn_loop *loop, struct rn_redis *redis,
                     bool by_tag, struct rn_async_counts *counts)
{
    uint64_t phase = 0;

    *r = (struct rn_reports){.loop = loop,
                             .redis = redis,
                             .counts = counts,
                             .timer = {.fire = on_timer},
                             .line_count = by_tag ? RN_CODEC_TAGS : 1};
    r->lines = calloc(r->line_count, sizeof *r->lines);
    if (!r->lines || getrandom(&r->holder, sizeof r->holder, 0) != sizeof r->holder)
        return false;
    (void)!getrandom(&phase, sizeof phase, GRND_NONBLOCK);
    r->phase_ns = (int64_t)(phase % (uint64_t)RN_ASYNC_TICK_NS);
    for (size_t i = 0; i < r->line_count; i++) {
        r->lines[i].owner = r;
        r->lines[i].last = &r->lines[i].first;
    }
    return true;
}

/* Redis runs calls in the order of sending, so several may be in flight. A failed call goes first;
 * if it fails again, Redis is down. Then the keys that have more units than the call in flight, and
 * all others. */
static void send_all(struct rn_reports_line *line)
{
    if (line->stage == RN_REPORTS_FAILED)
        send_call(line);
    for (size_t i = 0; i < line->count; i++)
        if (line->sent[i]->budget.unsent > 0)
            wait_in_line(line->owner, line->sent[i], true);
    while (line->stage != RN_REPORTS_FAILED && fill_call(line, INT64_MAX))
        send_call(line);
}

void rn_reports_stop(struct rn_reports *r)
{
    r->stopped = true;
    for (size_t i = 0; i < r->line_count; i++)
        send_all(&r->lines[i]);
    rn_timer_cancel(rn_loop_wheel(r->loop), &r->timer);
}

bool rn_reports_are_busy(const struct rn_reports *r)
{
    return r->in_flight > 0;
}

void rn_reports_done(struct rn_reports *r)
{
    free(r->lines);
}
