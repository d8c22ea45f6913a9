/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/leased/sizing.h"

#include "core/envelope.h"
#include "redis/codec.h"

__extension__ typedef unsigned __int128 wide;

#define SECOND_NS INT64_C(1000000000)
#define SLOTS_A_SECOND 10
#define LONG_NS (60 * SECOND_NS)      /* a lost unit is missing for a long time */
#define LOST_PARTS 100                /* a kill may cost this part of such a limit */
#define UNITS_MAX (UINT64_C(1) << 53) /* in a slot: what scripts can count */

static uint64_t at_most(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t at_least(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void roll(struct rn_demand *d, int64_t now_ns)
{
    int64_t slot = now_ns / (SECOND_NS / SLOTS_A_SECOND);

    for (int passed = 0; d->slot < slot && passed < 64; d->slot++, passed++) {
        d->latest = d->count * SLOTS_A_SECOND;
        /* A quarter of the way, rounded towards `latest`, so that it arrives. */
        d->rate = d->latest > d->rate ? d->rate + (d->latest - d->rate + 3) / 4
                                      : d->rate - (d->rate - d->latest + 3) / 4;
        d->count = d->asks = 0;
        if (d->rate == 0 && d->latest == 0)
            break;
    }
    d->slot = slot;
}

void rn_sizing_note(struct rn_demand *d, uint64_t units, int64_t now_ns)
{
    roll(d, now_ns);
    d->count = at_most(d->count + at_most(units, UNITS_MAX), UNITS_MAX);
    d->asks++;
}

uint64_t rn_sizing_rate(struct rn_demand *d, int64_t now_ns)
{
    roll(d, now_ns);
    return d->rate;
}

bool rn_sizing_is_hot(struct rn_demand *d, uint64_t cap, int64_t now_ns)
{
    return rn_sizing_rate(d, now_ns) >= RN_SIZING_HOT ||
           (d->asks >= RN_SIZING_RUSH && cap / RN_SIZING_RUSH_PARTS >= RN_SIZING_RUSH);
}

bool rn_sizing_is_cold(struct rn_demand *d, int64_t now_ns)
{
    return rn_sizing_rate(d, now_ns) < RN_SIZING_COLD && d->asks < RN_SIZING_RUSH;
}

/* The longest lease that does not hold too much of the limit. It must be a small part of the window
 * where unused units of a lease still count after the window, and where spent units count from the
 * next call on. */
static int64_t lease_of(const struct rn_limit *l)
{
    wide full = l->amount != 0 ? (wide)l->cap * (uint64_t)l->period_ns / l->amount : 0;
    enum rn_script script = rn_codec_script(l);

    if (script == RN_SCRIPT_BUCKET)
        return full / 4 < RN_SIZING_LONGEST_NS ? (int64_t)(full / 4) : RN_SIZING_LONGEST_NS;
    if (script == RN_SCRIPT_WINDOW)
        return l->period_ns / 4;
    if (script == RN_SCRIPT_COUNTER || script == RN_SCRIPT_LOG)
        return (l->form == RN_FORM_SUBS ? l->sub_ns : l->period_ns) / 16;
    return 0; /* no leases */
}

struct rn_sizing rn_sizing_of(const struct rn_limit *l, bool survives)
{
    int64_t lease_ns = lease_of(l);
    bool useful = lease_ns >= RN_SIZING_SHORTEST_NS && l->cap >= 4;

    return (struct rn_sizing){
        .cap = l->cap,
        .most = survives || rn_envelope_memory_ns(l) <= LONG_NS ? l->cap / 2
                                                                : at_least(l->cap / LOST_PARTS, 1),
        .lease_ns = !useful                           ? 0
                    : lease_ns < RN_SIZING_LONGEST_NS ? lease_ns
                                                      : RN_SIZING_LONGEST_NS,
    };
}

int64_t rn_sizing_lease_ns(const struct rn_sizing *s, bool scarce)
{
    return scarce && s->lease_ns > RN_SIZING_SCARCE_NS ? RN_SIZING_SCARCE_NS : s->lease_ns;
}

uint64_t rn_sizing_want(const struct rn_sizing *s, struct rn_demand *d, int64_t lease_ns,
                        uint64_t least, int64_t now_ns)
{
    /* The current slot will have at least what it has now: so in a sudden rush each call asks for
     * several times as much as the one before. */
    uint64_t mean = rn_sizing_rate(d, now_ns);
    uint64_t peak = at_least(mean, at_least(d->latest, d->count * SLOTS_A_SECOND));
    wide units = ((wide)peak * (uint64_t)lease_ns + SECOND_NS - 1) / SECOND_NS;
    uint64_t want = units < s->most ? (uint64_t)units : s->most;

    return at_least(want, least);
}

int64_t rn_sizing_pause_ns(const struct rn_sizing *s)
{
    return rn_sizing_lease_ns(s, true) / 2;
}
