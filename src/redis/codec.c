/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/codec.h"

#include <inttypes.h>
#include <stdio.h>

#include <ration/error.h>

#include "core/envelope.h"

__extension__ typedef unsigned __int128 wide;

#define EXACT (UINT64_C(1) << 53)
#define US_NS 1000
#define FINER_PARTS 1000000
/* The price at a factor and at the next larger one differ by this part or more: 399 and 400 %. */
#define FACTORS_APART 400

/* --- limits ------------------------------------------------------------------------- */

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

int64_t rn_codec_us(int64_t ns)
{
    return ns / US_NS + (ns % US_NS > 0);
}

/* rn_codec_parts before it is known to fit. */
struct parts {
    uint64_t tick_us, paid, unit;
    wide full;
};

/* At a factor (core/scale.h) only the unit has another number of parts. Parts are finer then, so
 * that rounding a unit up loses little. The bucket is made to hold its share of units, unless that
 * adds more than a unit costs more at this factor than at the next: then it holds a little less. A
 * stepped bucket charges fractions of units here. */
static void apply_factor(const struct rn_limit *l, struct parts *p)
{
    uint64_t finer = FINER_PARTS;

    while (finer > 1 && (p->full * finer >= EXACT / 16 || (wide)p->paid * finer >= EXACT / 16))
        finer /= 10;
    wide unit = ((wide)p->unit * finer * 100 + l->percent - 1) / l->percent;

    p->paid *= finer;
    p->full *= finer;
    p->unit = (uint64_t)(unit < p->full ? unit : p->full); /* one unit always fits */
    wide share = (wide)l->cap * p->unit;

    if (p->full < share && (l->cap + 1) * FACTORS_APART <= p->unit)
        p->full = share;
}

static struct parts parts_of(const struct rn_limit *l)
{
    struct parts p = {.tick_us = 1, .paid = 1, .unit = 1};
    uint64_t written = l->percent != 0 ? l->written_amount : l->amount;

    if (l->form == RN_FORM_STEP) {
        p.tick_us = (uint64_t)l->step_ns / US_NS;
        p.paid = l->step_units;
    } else if (written != 0) {
        uint64_t period = (uint64_t)l->period_ns, amount = written * US_NS;
        uint64_t shared = common_divisor(period, amount);

        p.unit = period / shared;
        p.paid = amount / shared;
    }
    p.full = (wide)(l->percent != 0 ? l->written_cap : l->cap) * p.unit;
    if (l->percent != 0 && p.full != 0)
        apply_factor(l, &p);
    return p;
}

void rn_codec_bucket(const struct rn_limit *limit, struct rn_codec_parts *out)
{
    struct parts p = parts_of(limit);

    *out = (struct rn_codec_parts){.tick_us = (int64_t)p.tick_us,
                                   .paid = (int64_t)p.paid,
                                   .unit = (int64_t)p.unit,
                                   .full = (int64_t)p.full};
}

static const char *fault_of_bucket(const struct rn_limit *l)
{
    struct parts p = parts_of(l);

    if (l->form == RN_FORM_STEP && l->step_ns % US_NS != 0)
        return "steps that are not whole microseconds, the unit of Redis's clock";
    if (p.full >= EXACT || p.paid >= EXACT)
        return "a bucket too large and a rate too odd to be counted exactly in Redis; write a "
               "rounder rate or a smaller burst";
    if (l->algorithm == RATION_LEAKY_BUCKET && p.paid > p.unit)
        return "a leaky bucket with more than a million requests a second, which Redis cannot tell "
               "apart";
    return NULL;
}

const char *rn_codec_fault(const struct rn_limit *l)
{
    switch (l->form) {
    case RN_FORM_NONE:
    case RN_FORM_WINDOW:
    case RN_FORM_WIDE:
    case RN_FORM_SUBS:
    case RN_FORM_LOG:
    case RN_FORM_PLACES:
    case RN_FORM_ADAPTIVE:
        return NULL;
    case RN_FORM_GCRA:
    case RN_FORM_FINE:
    case RN_FORM_STEP:
        return fault_of_bucket(l);
    case RN_FORM_COUNTER:
        return (wide)l->amount * (uint64_t)rn_codec_us(l->period_ns) < EXACT / 2
                   ? NULL
                   : "a sliding window too long for its amount to be counted exactly in Redis; use "
                     "sub_windows";
    case RN_FORM_OWN:
        break;
    }
    return "an algorithm that Redis has no script for; use another one, or limits of each node";
}

enum rn_script rn_codec_script(const struct rn_limit *l)
{
    switch (l->form) {
    case RN_FORM_WINDOW:
    case RN_FORM_WIDE:
        return RN_SCRIPT_WINDOW;
    case RN_FORM_COUNTER:
        return RN_SCRIPT_COUNTER;
    case RN_FORM_SUBS:
    case RN_FORM_LOG:
        return RN_SCRIPT_LOG;
    case RN_FORM_PLACES:
        return RN_SCRIPT_PLACES;
    case RN_FORM_ADAPTIVE:
        return RN_SCRIPT_ADAPTIVE;
    case RN_FORM_GCRA:
    case RN_FORM_FINE:
    case RN_FORM_STEP:
        return RN_SCRIPT_BUCKET;
    case RN_FORM_NONE:
    case RN_FORM_OWN:
        break;
    }
    return RN_SCRIPTS;
}

bool rn_codec_leases(const struct rn_limit *l)
{
    enum rn_script script = rn_codec_script(l);

    /* A leaky bucket gives each request its own delay: nothing to lease. */
    return script == RN_SCRIPT_BUCKET ? l->algorithm == RATION_TOKEN_BUCKET
                                      : script == RN_SCRIPT_WINDOW || script == RN_SCRIPT_COUNTER ||
                                            script == RN_SCRIPT_LOG;
}

enum rn_script rn_codec_script_of(const struct rn_charge *charge)
{
    static const enum rn_script with_leases[] = {
        [RN_SCRIPT_BUCKET] = RN_SCRIPT_LEASE_BUCKET,
        [RN_SCRIPT_WINDOW] = RN_SCRIPT_LEASE_WINDOW,
        [RN_SCRIPT_COUNTER] = RN_SCRIPT_LEASE_COUNTER,
        [RN_SCRIPT_LOG] = RN_SCRIPT_LEASE_LOG,
    };
    enum rn_script script = rn_codec_script(charge->limit);

    if (!(charge->flags & RN_CHARGE_LEASED) || !rn_codec_leases(charge->limit))
        return script;
    return charge->limit->form == RN_FORM_SUBS ? RN_SCRIPT_LEASE_SUBS : with_leases[script];
}

char rn_codec_kind(enum rn_script script)
{
    static const char kinds[RN_SCRIPTS_STRICT] = {'b', 'w', 'c', 'l', 'p', 'a',
                                                  'B', 'W', 'C', 'L', 'L'};

    return kinds[script];
}

/* Of all names of three hexadecimal digits, the one whose hash slot (redis/cluster/hash_slot.h) is
 * nearest to the middle of its 64th of the slots. */
static const char tags[RN_CODEC_TAGS][4] = {
    "464", "65b", "4b0", "6af", "574", "74b", "5c0", "ef6", "96a", "f12", "9be", "fe6", "094",
    "56b", "8ce", "5bf", "5a3", "7be", "557", "76a", "ffc", "6ce", "447", "67a", "8af", "fd8",
    "85b", "28a", "ddc", "4ae", "94b", "39a", "712", "52d", "7e6", "b37", "602", "43d", "6d6",
    "fa0", "532", "d49", "781", "eb0", "f4b", "931", "4f6", "8e8", "7d8", "4ec", "621", "f77",
    "6e8", "5dc", "731", "be0", "fbe", "da3", "f6a", "912", "5e5", "8d6", "511", "802",
};

struct rn_slice rn_codec_tag_name(unsigned tag)
{
    return rn_slice_of(tags[tag]);
}

static size_t print_name(unsigned tag, char kind, uint64_t key, char out[RN_CODEC_NAME])
{
    return (size_t)snprintf(out, RN_CODEC_NAME, "ration:{%s}:%c:%016" PRIx64, tags[tag], kind, key);
}

size_t rn_codec_name(const struct rn_charge *charge, char out[RN_CODEC_NAME])
{
    return print_name(rn_codec_tag(charge->key), rn_codec_kind(rn_codec_script_of(charge)),
                      charge->key, out);
}

bool rn_codec_uses_reset_log(const struct rn_charge *charge)
{
    return (charge->flags & RN_CHARGE_RESET_LOG) && !rn_form_is_places(charge->limit->form) &&
           (charge->ask.op == RN_GIVE_BACK || charge->ask.op == RN_RESET);
}

size_t rn_codec_reset_log_name(const struct rn_charge *charge, char out[RN_CODEC_NAME])
{
    return print_name(rn_codec_tag(charge->key), 'f', charge->key, out);
}

size_t rn_codec_reset_log_of(struct rn_slice name, char out[RN_CODEC_NAME])
{
    memcpy(out, name.data, name.len);
    out[sizeof "ration:{...}:" - 1] = 'f';
    return name.len;
}

size_t rn_codec_report_number_name(unsigned tag, uint64_t holder, char out[RN_CODEC_NAME])
{
    return print_name(tag, 'r', holder, out);
}

size_t rn_codec_history_name(unsigned tag, char out[RN_CODEC_NAME])
{
    return (size_t)(tag < RN_CODEC_TAGS
                        ? snprintf(out, RN_CODEC_NAME, "ration:{%s}:history", tags[tag])
                        : snprintf(out, RN_CODEC_NAME, "ration:history"));
}

size_t rn_codec_history_of(struct rn_slice name, char out[RN_CODEC_NAME])
{
    return (size_t)snprintf(out, RN_CODEC_NAME, "%.*s:history", (int)sizeof "ration:{...}" - 1,
                            name.data);
}

/* --- writing -------------------------------------------------------------------------- */

struct output {
    char *out;
    size_t len;
};

static void put_word(struct output *o, uint64_t word)
{
    for (unsigned i = 0; i < 8; i++)
        o->out[o->len++] = (char)(word >> 8 * i);
}

static void put(struct output *o, double number)
{
    uint64_t word;

    memcpy(&word, &number, sizeof word);
    put_word(o, word);
}

/* The window at a time that the calendar covers. */
static uint32_t window_at(const struct rn_calendar *c, int64_t wall_ns)
{
    uint32_t low = 0, high = c->count - 1;

    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;

        *(c->ends[middle] <= wall_ns ? &low : &high) = middle;
    }
    return low;
}

/* Two windows of the calendar, chosen so that the server's clock may differ from ours by half a
 * window either way. All 0 beyond the calendar's end: windows then have equal length. */
static void put_calendar(struct output *o, const struct rn_calendar *c, int64_t wall_ns)
{
    bool covered = c && c->count >= 3 && wall_ns >= c->ends[1] && wall_ns < c->ends[c->count - 1];
    uint32_t i = covered ? window_at(c, wall_ns) : 0;

    if (covered) {
        bool early = i + 2 >= c->count || wall_ns - c->ends[i] < (c->ends[i + 1] - c->ends[i]) / 2;

        i -= early;
        put(o, (double)(c->ends[i] / US_NS));
        put(o, (double)(c->ends[i + 1] / US_NS));
        put(o, (double)(c->ends[i + 2] / US_NS));
        return;
    }
    for (i = 0; i < 3; i++)
        put(o, 0);
}

/* As batch.lua numbers them. */
static const unsigned char operations[] = {
    [RN_PEEK] = 0,      [RN_OLDEST] = 0, [RN_TAKE] = 1,    [RN_FORCE] = 2,
    [RN_GIVE_BACK] = 3, [RN_RENEW] = 4,  [RN_RELEASE] = 5, [RN_RESET] = 6,
    [RN_DEBIT] = 11,    [RN_DRAIN] = 12, [RN_CREDIT] = 13,
};

#define LEASE 7
#define GIVE_BACK_UNFORGIVEN 8
#define FORGIVE 9
#define RETURN 10

static void put_params(struct output *o, const struct rn_limit *l, const struct rn_ask *ask)
{
    struct parts p;

    switch (l->form) {
    case RN_FORM_GCRA:
    case RN_FORM_FINE:
    case RN_FORM_STEP:
        p = parts_of(l);
        put(o, (double)p.tick_us);
        put(o, (double)p.paid);
        put(o, (double)p.unit);
        put(o, (double)(uint64_t)p.full);
        put(o, l->algorithm == RATION_LEAKY_BUCKET);
        break;
    case RN_FORM_WINDOW:
    case RN_FORM_WIDE:
        put(o, (double)l->amount);
        put(o, (double)rn_codec_us(l->period_ns));
        put(o, l->from_first);
        put_calendar(o, l->calendar, ask->now_ns + ask->wall_offset_ns);
        put(o, (double)rn_codec_us(l->longest_ns));
        break;
    case RN_FORM_COUNTER:
        put(o, (double)l->amount);
        put(o, (double)rn_codec_us(l->period_ns));
        break;
    case RN_FORM_SUBS:
        put(o, (double)l->amount);
        put(o, (double)rn_codec_us(l->sub_ns));
        put(o, (double)l->subs + 1);
        break;
    case RN_FORM_LOG:
        put(o, (double)l->amount);
        put(o, 1);
        put(o, (double)rn_codec_us(l->period_ns));
        break;
    case RN_FORM_ADAPTIVE:
        put(o, (double)l->least);
        put(o, (double)l->amount);
        put(o, (double)rn_codec_us(ask->lease_ns ? ask->lease_ns : l->lease_ns));
        put(o, (double)rn_codec_us(RATION_LEASE_MAX_NS));
        put_word(o, ask->id);
        break;
    case RN_FORM_PLACES:
        put(o, (double)l->amount);
        put(o, (double)rn_codec_us(ask->lease_ns ? ask->lease_ns : l->lease_ns));
        put(o, (double)rn_codec_us(RATION_LEASE_MAX_NS));
        put_word(o, ask->id);
        break;
    case RN_FORM_NONE: /* has no state: never sent */
    case RN_FORM_OWN:  /* has no script: neither */
        break;
    }
}

size_t rn_codec_params(const struct rn_charge *charge, char out[RN_CODEC_PARAMS])
{
    struct output o = {.out = out};

    put_params(&o, charge->limit, &charge->ask);
    return o.len;
}

static unsigned operation_of(const struct rn_charge *charge)
{
    if (!rn_codec_uses_reset_log(charge))
        return operations[charge->ask.op];
    return charge->ask.op == RN_RESET ? FORGIVE : GIVE_BACK_UNFORGIVEN;
}

/* Of a refund: the age of the take. Of a reset: how long the reset log must keep it. */
static int64_t age_of(const struct rn_charge *charge)
{
    const struct rn_ask *ask = &charge->ask;

    if (ask->op == RN_RESET)
        return rn_envelope_memory_ns(charge->limit);
    return ask->op == RN_GIVE_BACK && ask->now_ns > ask->at_ns ? ask->now_ns - ask->at_ns : 0;
}

/* Of a refund: when the take was made, by the server's clock; 0: the receipt does not say. */
static int64_t made_at(const struct rn_charge *charge)
{
    const struct rn_limit *l = charge->limit;
    bool is_time = l->form == RN_FORM_LOG ||
                   (rn_codec_script(l) == RN_SCRIPT_BUCKET && l->algorithm == RATION_TOKEN_BUCKET);

    return charge->ask.op == RN_GIVE_BACK && is_time ? charge->ask.mark : 0;
}

size_t rn_codec_write(const struct rn_charge *charge, size_t reset_log, char out[RN_CODEC_BYTES])
{
    const struct rn_limit *l = charge->limit;
    const struct rn_ask *ask = &charge->ask;
    struct output o = {.out = out};
    bool marked = ask->op == RN_GIVE_BACK && !rn_form_is_places(l->form);

    put(&o, operation_of(charge));
    put(&o, (double)ask->cost);
    put(&o, (double)rn_codec_us(age_of(charge)));
    put(&o, marked ? (double)ask->mark : 0);
    put_params(&o, l, ask);
    if (rn_codec_uses_reset_log(charge)) {
        put(&o, (double)made_at(charge));
        put(&o, (double)reset_log);
    }
    return o.len;
}

static size_t write_request(const struct rn_codec_lease_request *request, const double head[4],
                            uint64_t last, struct rn_slice params, char out[RN_CODEC_BYTES])
{
    struct output o = {.out = out};

    for (size_t i = 0; i < 4; i++)
        put(&o, head[i]);
    memcpy(out + o.len, params.data, params.len);
    o.len += params.len;
    put_word(&o, request->holder);
    put(&o, (double)request->call);
    put(&o, (double)request->back);
    put(&o, (double)last);
    put(&o, (double)request->ends_us);
    return o.len;
}

size_t rn_codec_write_lease(const struct rn_codec_lease_request *request, const char *params,
                            size_t len, char out[RN_CODEC_BYTES])
{
    const double head[] = {LEASE, (double)request->want, (double)(request->lease_ns / US_NS),
                           (double)request->keep};

    return write_request(request, head, request->least, (struct rn_slice){params, len}, out);
}

size_t rn_codec_write_return(const struct rn_codec_lease_request *request, const char *params,
                             size_t len, char out[RN_CODEC_BYTES])
{
    const double head[] = {RETURN, 0, 0, (double)request->mark};

    return write_request(request, head, request->known, (struct rn_slice){params, len}, out);
}

/* --- reading --------------------------------------------------------------------------- */

static double take_double(const char *bytes)
{
    uint64_t word = 0;
    double number;

    for (unsigned i = 0; i < 8; i++)
        word |= (uint64_t)(unsigned char)bytes[i] << 8 * i;
    memcpy(&number, &word, sizeof number);
    return number;
}

void rn_codec_numbers(const char *bytes, size_t count, int64_t *out)
{
    for (size_t i = 0; i < count; i++) {
        double number = take_double(bytes + RN_CODEC_NUMBER * i);

        out[i] = number > -0x1p63 && number < 0x1p63 ? (int64_t)number : INT64_MIN;
    }
}

static int64_t to_ns(int64_t us)
{
    return us >= INT64_MAX / US_NS ? RN_NEVER : us * US_NS;
}

/* adaptive.lua tells the number in force in the place of a delay, and the two latencies in that
 * of a mark: best * 2^26 + recent. */
static void read_learnt(struct rn_answer *answer, int64_t places, int64_t latencies)
{
    uint64_t both = latencies < 0 ? 0 : (uint64_t)latencies;

    answer->delay_ns = 0;
    answer->places = (uint64_t)places;
    answer->latency = (struct rn_place_latency){.best_us = (uint32_t)(both >> 26 & RN_LATENCY_MAX),
                                                .recent_us = (uint32_t)(both & RN_LATENCY_MAX)};
}

void rn_codec_read(struct rn_charge *charge, const char answer[RN_CODEC_ANSWER])
{
    int64_t n[RN_CODEC_NUMBERS];

    rn_codec_numbers(answer, RN_CODEC_NUMBERS, n);
    bool sound = (n[0] == 0 || n[0] == 1) && n[1] >= 0 && n[2] >= -1 && n[3] >= 0 && n[4] >= 0;

    charge->error = sound ? 0 : RATION_ESTORE;
    if (!sound)
        return;
    bool debit = charge->ask.op == RN_DEBIT, drained = charge->ask.op == RN_DRAIN && n[0] == 0;

    charge->answer = (struct rn_answer){
        .allowed = n[0] == 1,
        .remaining = (uint64_t)n[1],
        .retry_after_ns =
            n[2] < 0 ? rn_limit_beyond_ns(charge->limit, charge->ask.cost) : to_ns(n[2]),
        .reset_after_ns = to_ns(n[3]),
        .delay_ns = debit || drained ? 0 : to_ns(n[4]),
        .uncollected = debit ? (uint64_t)n[4] : 0,
        .mark = rn_form_is_places(charge->limit->form) ? (int64_t)charge->ask.id : n[5],
        .oldest_ns = RN_NEVER,
    };
    if (drained)
        charge->answer.drained = (uint64_t)n[4];
    if (charge->limit->form == RN_FORM_ADAPTIVE)
        read_learnt(&charge->answer, n[4], n[5]);
}
