/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/leased/lease.h"

/* A lease must end here before it ends in Redis. Counting from before the call covers the time of
 * its transport; this part of the lease covers clocks that run at different speeds. It is ten times
 * what crystals differ by. */
#define DRIFT_PARTS 1000
/* A grant below this part of what was wanted, with no more left, is small. */
#define LITTLE_PARTS 8

uint64_t rn_lease_expire(struct rn_lease *h, int64_t now_ns)
{
    uint64_t over = now_ns >= h->deadline_ns ? h->units : 0;

    h->units -= over;
    if (h->in_flight) {
        h->late += over;
        return 0;
    }
    if (over > 0)
        h->known = 0;
    return over;
}

/* The same value in units that cost more. */
static uint64_t worth(uint64_t units, unsigned percent, unsigned before)
{
    __extension__ typedef unsigned __int128 wide;

    return percent < before ? (uint64_t)((wide)units * percent / before) : units;
}

void rn_lease_set_factor(struct rn_lease *h, unsigned percent)
{
    if (percent > h->percent) /* Redis may grant now what it did not */
        h->pause_ns = h->retry_ns = 0;
    h->units = worth(h->units, percent, h->percent);
    h->late = worth(h->late, percent, h->percent);
    h->percent = (uint16_t)percent;
}

bool rn_lease_spend(struct rn_lease *h, uint64_t cost)
{
    if (cost > h->units)
        return false;
    h->units -= cost;
    return true;
}

bool rn_lease_unspend(struct rn_lease *h, uint64_t cost, int64_t mark)
{
    if (h->asked || mark != h->mark || cost > h->known - h->units)
        return false;
    h->units += cost;
    return true;
}

bool rn_lease_refuses(const struct rn_lease *h, uint64_t cost, int64_t now_ns)
{
    return cost > h->units &&
           (now_ns < h->pause_ns || (cost >= h->short_of && now_ns < h->retry_ns));
}

void rn_lease_forget_refusal(struct rn_lease *h)
{
    h->pause_ns = h->retry_ns = 0;
}

void rn_lease_answer(const struct rn_lease *h, bool allowed, int64_t now_ns,
                     struct rn_answer *answer)
{
    uint64_t cap = h->sizing.cap, remaining = h->units + (allowed ? h->left : 0);
    int64_t again_ns = h->pause_ns > h->retry_ns ? h->pause_ns : h->retry_ns;

    *answer = (struct rn_answer){
        .allowed = allowed,
        .remaining = remaining < cap ? remaining : cap,
        .retry_after_ns = allowed             ? 0
                          : again_ns > now_ns ? again_ns - now_ns
                                              : 1,
        .reset_after_ns = h->reset_ns > now_ns ? h->reset_ns - now_ns : 0,
        .mark = h->mark,
        .oldest_ns = RN_NEVER,
    };
}

bool rn_lease_runs_low(const struct rn_lease *h, int64_t now_ns)
{
    return !h->in_flight && now_ns >= h->pause_ns && (h->units <= h->half || now_ns >= h->renew_ns);
}

bool rn_lease_ends_soon(const struct rn_lease *h)
{
    return h->deadline_ns - h->sent_ns < RN_SIZING_SHORTEST_NS / 2;
}

static void begin_call(struct rn_lease *h, uint64_t want, uint64_t back, int64_t now_ns)
{
    h->in_flight = h->asked = true;
    h->sent_ns = now_ns;
    h->sent_percent = h->percent;
    h->wanted = want;
    h->units -= back;
    h->known = h->units;
}

void rn_lease_ask(struct rn_lease *h, uint64_t least, uint64_t waiting, int64_t now_ns,
                  struct rn_codec_lease_request *request)
{
    int64_t lease_ns = rn_sizing_lease_ns(&h->sizing, h->scarce);
    uint64_t hold = rn_sizing_want(&h->sizing, &h->demand, lease_ns, waiting, now_ns);
    uint64_t want = hold > h->units ? hold - h->units : 0;
    uint64_t back = hold < h->units / 2 ? h->units - hold : 0;

    h->least = least;
    begin_call(h, want, back, now_ns);
    *request = (struct rn_codec_lease_request){.want = want,
                                               .keep = h->units,
                                               .back = back,
                                               .least = least,
                                               .lease_ns = lease_ns,
                                               .ends_us = h->ends_us};
}

void rn_lease_ask_out(struct rn_lease *h, int64_t now_ns, struct rn_codec_lease_request *request)
{
    uint64_t back = h->units;

    h->least = 0;
    begin_call(h, 0, back, now_ns);
    *request = (struct rn_codec_lease_request){.back = back, .ends_us = h->ends_us};
}

void rn_lease_unask(struct rn_lease *h, const struct rn_codec_lease_request *request)
{
    h->in_flight = false;
    h->units += request->back;
    h->known = h->units;
}

/* When to ask for more units again. */
static void plan_next_call(struct rn_lease *h, const struct rn_grant *g)
{
    bool lacks = g->granted < h->least;

    h->scarce = lacks || (g->granted < h->wanted / LITTLE_PARTS + (h->wanted > 0) &&
                          g->left < h->wanted / LITTLE_PARTS + (h->wanted > 0));
    h->pause_ns = h->scarce ? h->sent_ns + rn_sizing_pause_ns(&h->sizing) : 0;
    h->short_of = lacks ? h->least : 0;
    h->retry_ns =
        lacks ? h->sent_ns + (g->retry_after_ns < RN_SIZING_LONGEST_NS ? g->retry_after_ns
                                                                       : RN_SIZING_LONGEST_NS)
              : 0;
}

uint64_t rn_lease_take_in(struct rn_lease *h, const struct rn_grant *g, int64_t now_ns)
{
    uint64_t burnt = 0;
    int64_t lease_ns = g->lease_ns - g->lease_ns / DRIFT_PARTS;

    h->in_flight = false;
    h->units += h->late;
    h->late = 0;
    if (!g->kept) {
        burnt = h->units;
        h->units = h->known = 0;
    }
    h->units += worth(g->granted, h->percent, h->sent_percent);
    h->known += g->granted;
    h->half = h->units / 2;
    h->deadline_ns = h->sent_ns + lease_ns;
    h->renew_ns = h->sent_ns + lease_ns / 2;
    h->left = g->left;
    h->reset_ns = h->sent_ns + g->reset_after_ns;
    h->mark = g->mark;
    h->asked = false;
    h->ends_us = h->known > 0 ? g->ends_us : 0;
    plan_next_call(h, g);
    return burnt + rn_lease_expire(h, now_ns);
}

uint64_t rn_lease_lose(struct rn_lease *h)
{
    uint64_t burnt = h->late;

    h->in_flight = false;
    h->late = 0;
    h->ends_us = 0;
    return burnt;
}
