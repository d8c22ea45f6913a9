/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sampling, the rings, and which rules have a history.
 */
#include "front/admin/timeline.h"

#include <stdio.h>
#include <stdlib.h>

#include <ration/ration.h>

#include "base/clock.h"
#include "limiter/rulebook/listing.h"

#define NEW_RULES 16 /* that may get a history in one second */
#define BUSIER 1.5f  /* how much busier a rule must be than the one whose place it takes */
#define HARDLY 0.01f /* decisions per second, which no place is taken for */
#define REACH (RN_TIMELINE_MINUTES * 60 + 60) /* seconds that the rings reach back */

const char *const rn_timeline_names[RN_TIMELINE_KINDS] = {
    [RN_TIMELINE_ALLOWED] = "allowed",
    [RN_TIMELINE_REFUSED] = "refused",
    [RN_TIMELINE_DELAYED] = "delayed",
    [RN_TIMELINE_SHADOWED] = "shadowed",
    [RN_TIMELINE_ERRORS] = "errors",
    [RN_TIMELINE_NEAR] = "near",
    [RN_TIMELINE_UNMATCHED] = "unmatched",
    [RN_TIMELINE_P50] = "p50",
    [RN_TIMELINE_P99] = "p99",
};

_Static_assert((int)RN_TIMELINE_ALLOWED == (int)RN_ACTIVITY_ALLOWED &&
                   (int)RN_TIMELINE_REFUSED == (int)RN_ACTIVITY_REFUSED &&
                   (int)RN_TIMELINE_DELAYED == (int)RN_ACTIVITY_DELAYED &&
                   (int)RN_TIMELINE_SHADOWED == (int)RN_ACTIVITY_SHADOWED,
               "rules are counted in the same order");

size_t rn_timeline_bytes(void)
{
    return sizeof(struct rn_timeline) + rn_activity_bytes();
}

static void read_totals(const struct ration *r, uint64_t now[RN_TIMELINE_COUNTS])
{
    struct ration_totals t;

    ration_totals(r, &t);
    now[RN_TIMELINE_ALLOWED] = t.allowed;
    now[RN_TIMELINE_REFUSED] = t.refused;
    now[RN_TIMELINE_DELAYED] = t.delayed;
    now[RN_TIMELINE_SHADOWED] = t.shadowed;
    now[RN_TIMELINE_ERRORS] = t.errors;
    now[RN_TIMELINE_NEAR] = t.near;
    now[RN_TIMELINE_UNMATCHED] = t.unmatched;
}

static int64_t second_at(const struct rn_timeline *h, int64_t boot_ns)
{
    return (boot_ns + h->offset_ns) / RN_SECOND_NS;
}

struct rn_timeline *rn_timeline_new(struct ration *limiter, int64_t boot_ns, int64_t wall_ns)
{
    struct rn_timeline *h = calloc(1, sizeof *h);

    _Static_assert(sizeof *h + 2 * RN_ACTIVITY_RULES_MAX * sizeof(struct rn_activity_rule) <
                       (16 << 20) - (1 << 19),
                   "all of it, with an index, takes at most 16 MB");
    if (!h)
        return NULL;
    h->limiter = limiter;
    h->activity = rn_activity_new(limiter);
    if (!h->activity) {
        free(h);
        return NULL;
    }
    /* Places in the rings are ends, which must not be below 0: a machine without a battery begins
     * with the clock at 1970. */
    h->shift_s = wall_ns < (REACH + 1) * RN_SECOND_NS ? -(REACH + 60) : 0;
    h->offset_ns = wall_ns - boot_ns - h->shift_s * RN_SECOND_NS;
    h->end = second_at(h, boot_ns);
    h->counted[RN_TIMELINE_P50] = h->counted[RN_TIMELINE_P99] = RN_TIMELINE_NONE;
    read_totals(limiter, h->seen);
    rn_activity_sample(h->activity, 0);
    return h;
}

void rn_timeline_free(struct rn_timeline *h)
{
    if (!h)
        return;
    rn_activity_free(h->activity);
    free(h);
}

/* --- the rings ------------------------------------------------------------------------------ */

static uint32_t *second_of(struct rn_timeline_series *s, int64_t end)
{
    return &s->seconds[end % RN_TIMELINE_SECONDS];
}

static uint32_t *minute_of(struct rn_timeline_series *s, int64_t end)
{
    return &s->minutes[(end - 1) / 60 % (RN_TIMELINE_MINUTES + 1)];
}

uint32_t rn_timeline_second(const struct rn_timeline_series *s, int64_t end)
{
    return s->seconds[end % RN_TIMELINE_SECONDS] - 1; /* 0 becomes RN_TIMELINE_NONE */
}

uint32_t rn_timeline_minute(const struct rn_timeline_series *s, int64_t end)
{
    return s->minutes[(end - 1) / 60 % (RN_TIMELINE_MINUTES + 1)] - 1;
}

/* Counts of a minute that is not over grow. */
static void put(struct rn_timeline_series *s, int64_t end, uint32_t count)
{
    uint32_t *minute = minute_of(s, end);
    uint64_t sum = (*minute ? *minute : 1) + (uint64_t)count;

    *second_of(s, end) = count < RN_TIMELINE_NONE ? count + 1 : RN_TIMELINE_NONE;
    *minute = sum < RN_TIMELINE_NONE ? (uint32_t)sum : RN_TIMELINE_NONE;
}

static void clear(struct rn_timeline_series *s, int64_t end, bool minute_begins)
{
    *second_of(s, end) = 0;
    if (minute_begins)
        *minute_of(s, end) = 0;
}

/* Begins the next second, without data. */
static void begin_second(struct rn_timeline *h)
{
    bool minute_begins = h->end % 60 == 0;

    h->end++;
    for (size_t k = 0; k < RN_TIMELINE_KINDS; k++)
        clear(&h->total[k], h->end, minute_begins);
    for (size_t i = 0; i < RN_TIMELINE_RULES; i++)
        for (size_t k = 0; h->rules[i].name_len != 0 && k < RN_TIMELINE_RULE_KINDS; k++)
            clear(&h->rules[i].series[k], h->end, minute_begins);
    if (minute_begins)
        memset(h->minute_latency, 0, sizeof h->minute_latency);
}

/* --- times ------------------------------------------------------------------------------------ */

/* The time that a share of the decisions did not exceed, in ns, as evenly as they may lie within
 * their bucket. RN_TIMELINE_NONE: there were none. */
static uint32_t quantile(const uint64_t counts[RN_HISTOGRAM_BUCKETS], double share)
{
    double wanted, before = 0, low_ns = 0;
    uint64_t all = 0;

    for (size_t i = 0; i < RN_HISTOGRAM_BUCKETS; i++)
        all += counts[i];
    wanted = share * (double)all;
    for (size_t i = 0; i < RN_HISTOGRAM_BUCKETS - 1 && all != 0; i++) {
        double high_ns = (double)rn_metrics_histogram_bounds_ns[i], in = (double)counts[i];

        if (counts[i] != 0 && before + in >= wanted)
            return (uint32_t)(low_ns + (high_ns - low_ns) * (wanted - before) / in);
        before += in;
        low_ns = high_ns;
    }
    return all != 0 ? (uint32_t)low_ns : RN_TIMELINE_NONE; /* beyond the last bound, a second */
}

char *rn_timeline_format_time(char *to, uint32_t ns)
{
    return to +
           snprintf(to, RN_TIMELINE_TIME_MAX, "%u.%07u", ns / 1000000000, ns % 1000000000 / 100);
}

static void put_time(struct rn_timeline_series *s, int64_t end, uint32_t second, uint32_t minute)
{
    *second_of(s, end) = second + 1; /* RN_TIMELINE_NONE becomes 0 */
    *minute_of(s, end) = minute + 1;
}

/* --- which rules have a history --------------------------------------------------------------- */

static float busyness(const struct rn_activity_rule *rule)
{
    return rule ? rule->rates[RN_ACTIVITY_ALLOWED] + rule->rates[RN_ACTIVITY_REFUSED] : 0;
}

/* The place of the least busy rule, or a free one. */
static struct rn_timeline_rule *find_least(struct rn_timeline *h, float *least)
{
    struct rn_timeline_rule *found = NULL;

    for (size_t i = 0; i < RN_TIMELINE_RULES; i++) {
        struct rn_timeline_rule *rule = &h->rules[i];
        float busy = rule->name_len != 0 ? busyness(rn_activity_find(h->activity, rule->hash)) : 0;

        if (!found || busy < *least || (busy == *least && rule->name_len == 0)) {
            *least = busy;
            found = rule;
        }
    }
    return found;
}

/* The busiest rules without a history, the busiest first. Returns how many. */
static size_t find_new(const struct rn_timeline *h, uint32_t found[NEW_RULES])
{
    const struct rn_activity_rule *rules = h->activity->rules;
    size_t count = 0;

    for (uint32_t i = 0; i < h->activity->count; i++) {
        float busy = busyness(&rules[i]);
        size_t at = count;

        if (rules[i].kept || busy < HARDLY ||
            (count == NEW_RULES && busy <= busyness(&rules[found[count - 1]])))
            continue;
        if (count < NEW_RULES)
            count++;
        else
            at--;
        for (; at > 0 && busyness(&rules[found[at - 1]]) < busy; at--)
            found[at] = found[at - 1];
        found[at] = i;
    }
    return count;
}

struct naming {
    struct rn_timeline_rule *rule;
    bool named;
};

static int take_name(void *arg, const struct ration_rule_info *info)
{
    struct naming *naming = arg;

    naming->named = info->name_len != 0 && info->name_len <= RN_TIMELINE_NAME_MAX;
    if (naming->named) {
        naming->rule->name_len = info->name_len;
        memcpy(naming->rule->name, info->name, info->name_len);
    }
    return 1;
}

static void choose_rules(struct rn_timeline *h)
{
    uint32_t busiest[NEW_RULES];
    size_t count;

    /* A rule that was away for a while comes back to its history. */
    for (size_t i = 0; i < RN_TIMELINE_RULES; i++) {
        struct rn_activity_rule *rule =
            h->rules[i].name_len != 0 ? rn_activity_find(h->activity, h->rules[i].hash) : NULL;

        if (rule)
            rule->kept = true;
    }
    count = find_new(h, busiest);

    for (size_t i = 0; i < count; i++) {
        struct rn_activity_rule *rule = &h->activity->rules[busiest[i]], *former;
        float least = 0;
        struct rn_timeline_rule *place = find_least(h, &least);

        if (place->name_len != 0 && busyness(rule) < BUSIER * least)
            return; /* the others are less busy still */
        former = place->name_len != 0 ? rn_activity_find(h->activity, place->hash) : NULL;
        if (former)
            former->kept = false;
        memset(place, 0, sizeof *place);
        place->hash = rule->hash;
        struct naming naming = {.rule = place};
        rn_listing_each(h->limiter, busiest[i], take_name, &naming);
        rule->kept = naming.named;
    }
}

const struct rn_timeline_rule *rn_timeline_find(const struct rn_timeline *h, struct rn_slice name)
{
    for (size_t i = 0; i < RN_TIMELINE_RULES; i++)
        if (name.len != 0 &&
            rn_slice_equal((struct rn_slice){h->rules[i].name, h->rules[i].name_len}, name))
            return &h->rules[i];
    return NULL;
}

/* --- sampling --------------------------------------------------------------------------------- */

bool rn_timeline_is_due(const struct rn_timeline *h, int64_t boot_ns)
{
    return second_at(h, boot_ns) > h->end;
}

/* What was counted since the last sample goes to h->counted, times of decisions to `times`. */
static void count_totals(struct rn_timeline *h, const struct rn_histogram *latency,
                         uint64_t times[RN_HISTOGRAM_BUCKETS])
{
    uint64_t now[RN_TIMELINE_COUNTS];

    read_totals(h->limiter, now);
    for (size_t k = 0; k < RN_TIMELINE_COUNTS; k++) {
        uint64_t more = now[k] - h->seen[k];

        h->counted[k] = more < RN_TIMELINE_NONE ? (uint32_t)more : RN_TIMELINE_NONE - 1;
        h->seen[k] = now[k];
    }
    for (size_t i = 0; i < RN_HISTOGRAM_BUCKETS; i++)
        times[i] = latency->counts[i] - h->seen_latency.counts[i];
    h->seen_latency = *latency;
    h->counted[RN_TIMELINE_P50] = quantile(times, 0.5);
    h->counted[RN_TIMELINE_P99] = quantile(times, 0.99);
}

/* Second `at` of the fresh ones. */
static void add_second(struct rn_timeline *h, unsigned at)
{
    begin_second(h);
    for (size_t k = 0; k < RN_TIMELINE_COUNTS; k++)
        put(&h->total[k], h->end, rn_timeline_share(h->counted[k], h->fresh, at));
    for (size_t i = 0; i < RN_TIMELINE_RULES; i++) {
        struct rn_timeline_rule *kept = &h->rules[i];
        const struct rn_activity_rule *rule =
            kept->name_len != 0 ? rn_activity_find(h->activity, kept->hash) : NULL;

        for (size_t k = 0; rule && k < RN_TIMELINE_RULE_KINDS; k++)
            put(&kept->series[k], h->end, rn_timeline_share(rule->counted[k], h->fresh, at));
    }
}

static void add_times(struct rn_timeline *h, const uint64_t times[RN_HISTOGRAM_BUCKETS])
{
    for (size_t i = 0; i < RN_HISTOGRAM_BUCKETS; i++)
        h->minute_latency[i] += times[i];
    put_time(&h->total[RN_TIMELINE_P50], h->end, h->counted[RN_TIMELINE_P50],
             quantile(h->minute_latency, 0.5));
    put_time(&h->total[RN_TIMELINE_P99], h->end, h->counted[RN_TIMELINE_P99],
             quantile(h->minute_latency, 0.99));
}

/* Forgets what was counted meanwhile: nobody knows in which of the seconds. */
static void skip_to(struct rn_timeline *h, int64_t end)
{
    if (end - h->end > REACH)
        h->end = end / 60 * 60 - REACH;
    while (h->end < end)
        begin_second(h);
}

void rn_timeline_sample(struct rn_timeline *h, int64_t boot_ns, int64_t wall_ns,
                        const struct rn_histogram *latency)
{
    int64_t end = second_at(h, boot_ns), passed = end - h->end;
    int64_t drift_ns = wall_ns - boot_ns - h->offset_ns - h->shift_s * RN_SECOND_NS;
    uint64_t times[RN_HISTOGRAM_BUCKETS];

    if (passed <= 0)
        return;
    if (drift_ns > RN_SECOND_NS || drift_ns < -RN_SECOND_NS)
        h->shift_s += drift_ns / RN_SECOND_NS;
    h->fresh = passed <= RN_TIMELINE_LATE_MAX ? (unsigned)passed : 0;
    count_totals(h, latency, times);
    rn_activity_sample(h->activity, h->fresh);
    if (h->fresh == 0) {
        memset(h->counted, 0, sizeof h->counted);
        h->counted[RN_TIMELINE_P50] = h->counted[RN_TIMELINE_P99] = RN_TIMELINE_NONE;
        skip_to(h, end);
        return;
    }
    choose_rules(h);
    for (unsigned i = 0; i < h->fresh; i++)
        add_second(h, i);
    add_times(h, times);
}
