/* SPDX-License-Identifier: Apache-2.0 */
#include "core/scale.h"

#include "core/forms.h"

#define PERCENT 100
/* Rounding a unit of this many ns up changes the rate by at most 1e-4. */
#define COARSE_STEP_NS 10000

static bool is_smooth(const struct rn_limit *l)
{
    return l->form == RN_FORM_GCRA || l->form == RN_FORM_FINE;
}

static uint64_t share(const struct rn_limit *l, uint64_t units, unsigned percent)
{
    uint64_t scaled = (uint64_t)((rn_u128)units * percent / PERCENT);
    uint64_t most = l->form == RN_FORM_LOG      ? RATION_LOG_MAX
                    : l->form == RN_FORM_PLACES ? RATION_PLACES_MAX
                                                : 4 * RATION_AMOUNT_MAX;

    return scaled == 0 && units != 0 ? 1 : rn_min_u64(scaled, most);
}

/* A bucket at a factor: times are in 2^-bits ns. */
struct bucket {
    rn_u128 unit, full;
    uint64_t cap;
    bool exact; /* the unit was not rounded */
};

static rn_u128 unit_at(const struct rn_limit *w, unsigned percent, unsigned bits, bool *exact)
{
    rn_u128 time = ((rn_u128)PERCENT * (uint64_t)w->period_ns) << bits;
    rn_u128 rate = (rn_u128)w->amount * percent;

    *exact = time % rate == 0;
    return (time + rate - 1) / rate;
}

/* The time from empty to full by the exact rate. */
static rn_u128 full_of(const struct rn_limit *w, unsigned bits)
{
    rn_u128 time = (rn_u128)w->cap * (uint64_t)w->period_ns;

    return (time / w->amount << bits) + (time % w->amount << bits) / w->amount;
}

/* It is full when the bucket as written is, by the exact rate; or a little later, when rounding has
 * made its units longer; or earlier, if one unit more than the share would fit. */
static struct bucket bucket_at(const struct rn_limit *w, unsigned percent, unsigned bits)
{
    rn_u128 full = full_of(w, bits);
    struct bucket b = {.cap = share(w, w->cap, percent)};

    b.unit = unit_at(w, percent, bits, &b.exact);
    if ((rn_u128)w->cap * percent < PERCENT) /* the one unit that fits costs all there is */
        b.unit = unit_at(w, PERCENT, bits, &b.exact) * w->cap;
    rn_u128 least = b.unit * b.cap, most = least + b.unit - 1;

    b.full = full < least ? least : full > most ? most : full;
    return b;
}

/* Whether whole nanoseconds do for every factor. */
static bool fits_whole(const struct rn_limit *w, const uint16_t *percents, size_t n)
{
    struct bucket before = bucket_at(w, percents[0], 0);

    for (size_t i = 0; i < n; i++) {
        struct bucket b = bucket_at(w, percents[i], 0);

        if (!b.exact && b.unit < COARSE_STEP_NS && percents[i] != PERCENT)
            return false;
        if (before.full > b.full && before.full - b.full > before.unit - b.unit)
            return false;
        before = b;
    }
    return true;
}

void rn_scale_init(struct rn_scale *scale, const struct rn_limit *written, const uint16_t *percents,
                   size_t n)
{
    *scale = (struct rn_scale){
        .written = written, .largest = percents[n - 1], .fine = written->form == RN_FORM_FINE};
    if (written->form == RN_FORM_GCRA && written->cap != 0 && written->amount != 0)
        scale->fine = !fits_whole(written, percents, n);
}

static void scale_bucket(const struct rn_scale *scale, unsigned percent, struct rn_limit *l)
{
    unsigned bits = scale->fine ? 32 : 0;
    struct bucket b = bucket_at(scale->written, percent, bits);

    l->unit_ns = (int64_t)(b.unit >> bits);
    l->full_ns = (int64_t)((b.full + ((rn_u128)1 << bits) - 1) >> bits);
    l->unit_inverse = l->unit_ns != 0 ? UINT64_MAX / (uint64_t)l->unit_ns : UINT64_MAX;
    if (!scale->fine)
        return;
    l->form = RN_FORM_FINE;
    l->unit_frac = (uint32_t)b.unit;
    l->full_over = (uint32_t)(0u - (uint32_t)b.full);
    l->words_small = l->words_full = 2;
}

/* Block sizes are those of the largest factor, for its states are met at all others. */
static void size_blocks(const struct rn_scale *scale, struct rn_limit *l)
{
    const struct rn_limit *w = scale->written;
    struct rn_limit largest;
    struct ration_limit spec = {.algorithm = w->algorithm,
                                .amount = share(w, w->amount, scale->largest),
                                .period_ns = w->period_ns,
                                .sub_windows = w->subs,
                                .from_first = w->from_first};

    if (w->amount == 0)
        return;
    rn_limit_init(&largest, &spec);
    l->form = largest.form;
    l->words_small = largest.words_small;
    l->words_full = largest.words_full;
}

void rn_scale_step(const struct rn_scale *scale, unsigned percent, struct rn_limit *l)
{
    const struct rn_limit *w = scale->written;

    if (w->form == RN_FORM_STEP && percent > PERCENT)
        percent = PERCENT;
    *l = *w;
    if (w->form == RN_FORM_ADAPTIVE) /* follows load by itself */
        return;
    l->percent = (uint16_t)percent;
    l->written_amount = w->amount;
    l->written_cap = w->cap;
    if (w->form == RN_FORM_NONE || w->cap == 0)
        return;
    l->amount = share(w, w->amount, percent);
    l->cap = share(w, w->cap, percent);
    if (is_smooth(w))
        scale_bucket(scale, percent, l);
    else if (w->form == RN_FORM_OWN)
        (void)rn_opaque_bound(l);
    else if (w->form != RN_FORM_STEP)
        size_blocks(scale, l);
}
