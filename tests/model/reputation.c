/* SPDX-License-Identifier: Apache-2.0 */
#include "model/reputation.h"

#include <stdlib.h>

#define TICK_NS (INT64_C(1) << 26)       /* windows, periods and ends of bans */
#define FORGET_NS (INT64_C(1) << 40)     /* when a level is forgotten */
#define SKEW_NS (INT64_C(10000000000))   /* a step back of the clock that ends no ban */
#define HOUR_NS (INT64_C(3600000000000)) /* how long an earned record is kept */

static int64_t round_down(int64_t ns, int64_t unit_ns)
{
    return ns - ((ns % unit_ns) + unit_ns) % unit_ns;
}

static int64_t round_up(int64_t ns, int64_t unit_ns)
{
    return -round_down(-ns, unit_ns);
}

/* --- refusals ------------------------------------------------------------------------------------
 */

static void note(struct model_refusals *r, int64_t now_ns)
{
    if (r->count == r->room) {
        r->room = r->room ? 2 * r->room : 16;
        r->at_ns = realloc(r->at_ns, r->room * sizeof *r->at_ns);
        if (!r->at_ns)
            abort();
    }
    r->at_ns[r->count++] = now_ns;
}

static int compare_times(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

    return (a > b) - (a < b);
}

/* Whether `n` of the refusals were less than `within_ns` apart; forgets them all. */
static bool were_close(struct model_refusals *r, uint32_t n, int64_t within_ns)
{
    bool close = false;

    qsort(r->at_ns, r->count, sizeof *r->at_ns, compare_times);
    for (size_t i = n - 1; i < r->count && !close; i++)
        close = r->at_ns[i] - r->at_ns[i - (n - 1)] < within_ns;
    r->count = 0;
    return close;
}

/* --- escalate --------------------------------------------------------------------------------- */

void model_offender_init(struct model_offender *o, const struct model_escalation *rule)
{
    *o = (struct model_offender){.rule = *rule};
}

void model_offender_done(struct model_offender *o)
{
    free(o->refusals.at_ns);
}

/* A clock that steps back by more than 10 seconds to before the ban ends it. */
int64_t model_offender_rest_ns(const struct model_offender *o, int64_t now_ns)
{
    if (o->level == 0 || o->counting || now_ns >= o->ban_ends_ns)
        return 0;
    int64_t rest_ns = o->ban_ends_ns - now_ns, whole_ns = o->rule.ban_ns[o->level];

    if (rest_ns > whole_ns + SKEW_NS)
        return 0;
    return rest_ns < whole_ns ? rest_ns : whole_ns;
}

bool model_offender_refuse(struct model_offender *o, int64_t now_ns)
{
    const struct model_escalation *rule = &o->rule;

    if (model_offender_rest_ns(o, now_ns) != 0)
        return false;
    if (now_ns >= o->forgotten_ns)
        o->level = 0;
    if (!o->counting || now_ns < o->window_ns || now_ns - o->window_ns >= rule->within_ns) {
        o->counting = true;
        o->counted = 0;
        o->window_ns = round_down(now_ns, TICK_NS);
    }
    o->counted++;
    if (o->counted < rule->after)
        return false;
    o->counting = false;
    if (o->level < MODEL_LEVELS - 1)
        o->level++;
    o->ban_ends_ns = round_down(now_ns + rule->ban_ns[o->level], TICK_NS);
    o->forgotten_ns = round_down(now_ns + rule->ban_ns[o->level] + rule->forget_ns, FORGET_NS);
    return true;
}

void model_offender_note(struct model_offender *o, int64_t now_ns)
{
    note(&o->refusals, now_ns);
}

bool model_offender_has_earned(struct model_offender *o, uint32_t level, int64_t ends_ns,
                               int64_t now_ns)
{
    const struct model_escalation *rule = &o->rule;

    if (now_ns >= o->exact_forgotten_ns)
        o->exact_level = 0;
    if (o->exact_level < MODEL_LEVELS - 1)
        o->exact_level++;
    o->exact_begun_ns = now_ns;
    o->exact_ends_ns = now_ns + rule->ban_ns[o->exact_level];
    o->exact_forgotten_ns = o->exact_ends_ns + rule->forget_ns;
    return were_close(&o->refusals, rule->after, rule->within_ns) && level <= o->exact_level &&
           ends_ns <= o->exact_ends_ns;
}

/* --- earn ---------------------------------------------------------------------------------------
 */

void model_earner_init(struct model_earner *e, const struct model_earning *rule)
{
    *e = (struct model_earner){.rule = *rule};
}

void model_earner_done(struct model_earner *e)
{
    free(e->refusals.at_ns);
}

static void open_period(struct model_earner *e, unsigned percent, int64_t now_ns)
{
    e->known = true;
    e->percent = percent;
    e->start_ns = round_down(now_ns, TICK_NS);
}

static bool is_known(const struct model_earner *e, int64_t now_ns)
{
    int64_t kept_ns = round_up(e->rule.every_ns + e->rule.forget_ns + TICK_NS, HOUR_NS);

    return e->known && now_ns < e->start_ns + kept_ns;
}

unsigned model_earner_percent(const struct model_earner *e, int64_t now_ns)
{
    return is_known(e, now_ns) ? e->percent : 100;
}

void model_earner_admit(struct model_earner *e, int64_t now_ns)
{
    unsigned next = e->percent + e->rule.add;

    if (!is_known(e, now_ns))
        open_period(e, 100, now_ns);
    else if (now_ns < e->start_ns)
        open_period(e, e->percent, now_ns);
    else if (now_ns - e->start_ns >= e->rule.every_ns)
        open_period(e, next < e->rule.up_to ? next : e->rule.up_to, now_ns);
}

bool model_earner_refuse(struct model_earner *e, int64_t now_ns)
{
    note(&e->refusals, now_ns);
    if (!e->counting || now_ns < e->window_ns || now_ns - e->window_ns >= e->rule.lost_within_ns) {
        e->counting = true;
        e->counted = 0;
        e->window_ns = round_down(now_ns, TICK_NS);
    }
    e->counted++;
    if (e->counted < e->rule.lost_after)
        return false;
    e->counting = false;
    if (is_known(e, now_ns))
        open_period(e, 100, now_ns);
    return true;
}

bool model_earner_has_lost(struct model_earner *e)
{
    return were_close(&e->refusals, e->rule.lost_after, e->rule.lost_within_ns);
}
