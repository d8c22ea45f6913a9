/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration suggest`: the smallest limit that few clients would have met, by access logs.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/siphash.h"
#include "cli/output/output.h"
#include "cli/replay/suggestion.h"
#include "cli/replay/summary.h"
#include "rules/match/match.h"

#define SHARE_EVENTS 4 /* of the memory */

static const struct rn_hash_key fixed = {UINT64_C(0x737567676573740A), 1};

struct suggest {
    struct rn_run run;
    struct rn_suggestion_list list;
    struct rn_demand_events demand;
    struct rn_matches matches;
    const struct rn_tier *tiers[RN_DEMAND_TIERS];
    uint32_t tier_count;
    bool failed;
};

/* --- the requests of the rule --------------------------------------------------------------- */

static uint32_t number_of_tier(struct suggest *s, const struct rn_tier *tier)
{
    uint32_t i = 0;

    while (i < s->tier_count && s->tiers[i] != tier)
        i++;
    if (i == s->tier_count && i < RN_DEMAND_TIERS)
        s->tiers[s->tier_count++] = tier;
    return i;
}

static void see(struct rn_run *run, const struct rn_logs_entry *entry,
                const struct ration_request *request)
{
    struct suggest *s = run->arg;
    struct rn_demand_event event = {.at_ns = entry->time_ns};

    rn_match_request(run->sides[0].ruleset, request, &s->matches);
    for (uint32_t i = 0; i < s->matches.count && s->matches.outcome == RN_MATCH_LIMITS; i++) {
        const struct rn_match *match = &s->matches.items[i];

        if (match->rule != s->list.rule)
            continue;
        event.tier = (uint8_t)number_of_tier(s, match->tier);
        event.cost = (match->cost < RN_DEMAND_COST_MAX ? match->cost : RN_DEMAND_COST_MAX) &
                     RN_DEMAND_COST_MAX;
        event.client = event.tier;
        for (uint32_t k = 0; k < match->rule->key_count; k++) {
            if (match->key_names[k].data != NULL)
                event.client = event.client * 31 + rn_siphash(&fixed, match->key_names[k].data,
                                                              match->key_names[k].len);
            event.client = (event.client * UINT64_C(0x9E3779B97F4A7C15)) ^
                           rn_siphash(&fixed, match->key[k].data, match->key[k].len);
        }
        if (event.tier < RN_DEMAND_TIERS && !rn_demand_add(&s->demand, &event))
            s->failed = true;
    }
}

/* --- the limit ------------------------------------------------------------------------------ */

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

uint64_t rn_suggestion_amount(const struct rn_suggestion *s, double share)
{
    size_t touched = (size_t)floor((double)s->clients * share + 1e-9);

    return touched >= s->clients ? 1 : s->needs[s->clients - 1 - touched];
}

/* 1, 2, 3, ... 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100, ... */
static uint64_t next_class(uint64_t from)
{
    static const uint64_t steps[] = {10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100};
    uint64_t unit = 1;

    if (from < 10)
        return from + 1;
    while (from >= unit * 100)
        unit *= 10;
    for (size_t i = 0;; i++)
        if (steps[i] * unit > from)
            return steps[i] * unit;
}

static void classify(struct rn_suggestion *s)
{
    uint64_t from = 1, least = s->needs[0];
    size_t at = 0, bounded = 0, room;

    while (bounded < s->clients && s->needs[bounded] <= s->most)
        bounded++;
    room = RN_SUGGESTION_CLASSES - (bounded < s->clients);
    while (next_class(from) <= least && bounded != 0)
        from = next_class(from);
    for (; s->classes < room && at < bounded; from = s->from[s->classes]) {
        bool last = s->classes == room - 1;

        s->from[s->classes] = from;
        s->from[s->classes + 1] = last ? UINT64_MAX : next_class(from);
        while (at < bounded && s->needs[at] < s->from[s->classes + 1]) {
            s->counts[s->classes]++;
            at++;
        }
        s->classes++;
    }
    if (bounded < s->clients) { /* for which there is no limit */
        s->from[s->classes] = from;
        s->from[s->classes + 1] = UINT64_MAX;
        s->has_none = true;
        s->counts[s->classes++] = s->clients - bounded;
    }
    while (s->mark < s->classes && s->from[s->mark + 1] <= s->limit.amount)
        s->mark++;
    s->mark++; /* behind the class that the limit still admits */
}

/* The least burst that touches no more clients than the amount itself may. */
static bool fit_burst(struct rn_suggestion *s, struct rn_fit *fit, const struct rn_demand_events *d,
                      size_t first, size_t end, double share)
{
    uint64_t *bursts = malloc(s->clients * sizeof *bursts);
    size_t touched = (size_t)floor((double)s->clients * share + 1e-9), n = 0;

    if (bursts == NULL)
        return rn_output_error("out of memory");
    fit->spec.amount = s->limit.amount;
    for (size_t i = first, run; i < end; i += run) {
        run = rn_demand_run(d, i);
        bursts[n++] = rn_fit_burst(fit, d->events + i, run);
    }
    qsort(bursts, n, sizeof *bursts, by_size);
    s->limit.burst = touched >= n ? 1 : bursts[n - 1 - touched];
    for (s->touched = 0; s->touched < n && bursts[n - 1 - s->touched] > s->limit.burst;)
        s->touched++;
    free(bursts);
    return true;
}

/* The events from `first` to `end` are of one tier. */
static bool suggest_for(struct suggest *all, size_t first, size_t end)
{
    const struct rn_demand_events *d = &all->demand;
    struct rn_suggestion *s = &all->list.items[all->list.count++];
    const struct rn_rule_limit *limit;
    struct rn_fit fit;
    bool ok;

    *s = (struct rn_suggestion){.tier = all->tiers[d->events[first].tier], .requests = end - first};
    limit = s->tier->limits[0];
    for (size_t i = first; i < end; i += rn_demand_run(d, i))
        s->clients++;
    s->needs = malloc(s->clients * sizeof *s->needs);
    ok = rn_fit_init(&fit, &limit->spec, limit->limit.calendar) && s->needs != NULL;
    for (size_t i = first, run, n = 0; ok && i < end; i += run) {
        run = rn_demand_run(d, i);
        s->needs[n++] = rn_fit_amount(&fit, d->events + i, run);
    }
    if (ok) {
        qsort(s->needs, s->clients, sizeof *s->needs, by_size);
        s->limit = fit.spec;
        s->most = fit.most;
        s->limit.burst = 0;
        s->limit.amount = rn_suggestion_amount(s, all->list.touch);
        while (s->touched < s->clients && s->needs[s->clients - 1 - s->touched] > s->limit.amount)
            s->touched++;
        if (s->limit.algorithm == RATION_TOKEN_BUCKET && s->limit.amount <= fit.most)
            ok = fit_burst(s, &fit, d, first, end, all->list.touch);
        classify(s);
    }
    rn_fit_done(&fit);
    return ok || rn_output_error("out of memory");
}

static bool suggest_all(struct suggest *s)
{
    rn_demand_sort(&s->demand);
    s->list.halvings = s->demand.halvings;
    for (size_t first = 0, end; first < s->demand.count; first = end) {
        for (end = first;
             end < s->demand.count && s->demand.events[end].tier == s->demand.events[first].tier;)
            end++;
        if (s->tiers[s->demand.events[first].tier]->limit_count != 0 && !suggest_for(s, first, end))
            return false;
    }
    return true;
}

/* --- the command ---------------------------------------------------------------------------- */

/* 1%, 0.5 %, 0 */
static bool read_share(const char *text, double *share)
{
    char *end;
    double percent = text != NULL ? strtod(text, &end) : 1;

    if (text == NULL) {
        *share = 0.01;
        return true;
    }
    end += strspn(end, " ");
    *share = percent / 100;
    if (end != text && *end == '\0' && percent > 0 && percent < 1)
        return rn_output_error("--touch: found %s; write %g%%, or %g%% if you mean a part of 1",
                               rn_excerpt(rn_slice_of(text)).text, percent, 100 * percent);
    return (end != text && (*end == '\0' || strcmp(end, "%") == 0) && percent >= 0 &&
            percent < 100) ||
           rn_output_error("--touch: found %s, expected a share such as 1%% or 0.5%%",
                           rn_excerpt(rn_slice_of(text)).text);
}

static bool find_rule(struct suggest *s, const char *name)
{
    const struct rn_ruleset *ruleset = s->run.sides[0].ruleset;
    const char *names[64], *meant;
    size_t count = 0;

    for (uint32_t i = 0; i < ruleset->rule_count; i++) {
        const struct rn_rule *rule = &ruleset->rules[i];

        if (strcmp(rule->title, name) == 0)
            s->list.rule = rule;
        if (count < RN_COUNT(names))
            names[count++] = rule->title;
    }
    meant = s->list.rule == NULL ? rn_suggest(rn_slice_of(name), names, count) : NULL;
    if (meant != NULL)
        return rn_output_error("there is no rule %s; did you mean %s?",
                               rn_excerpt(rn_slice_of(name)).text, meant);
    if (s->list.rule == NULL)
        return rn_output_error("there is no rule %s; \"ration lint %s\" reads the file",
                               rn_excerpt(rn_slice_of(name)).text, s->run.sides[0].name);
    for (uint32_t i = 0; i < s->list.rule->tier_count; i++)
        for (uint32_t k = 0; k < s->list.rule->tiers[i].limit_count; k++)
            if (rn_form_is_places(s->list.rule->tiers[i].limits[k]->limit.form))
                return rn_output_error("rule %s limits requests in flight; suggest finds limits "
                                       "of requests in a time",
                                       s->list.rule->title);
    return true;
}

static bool open_suggest(struct suggest *s, const struct rn_options *o, char *text, size_t size)
{
    const char *name = o->rule;

    if (!read_share(o->touch, &s->list.touch))
        return false;
    if (o->rules.count != 0 && name == NULL)
        return rn_output_error("which rule? write for example --rule api");
    if (o->rules.count == 0 && name != NULL)
        return rn_output_error("--rule %s: give the file that has it, such as --rules rules.yaml",
                               rn_excerpt(rn_slice_of(name)).text);
    if (o->rules.count != 0 && strcmp(o->by, "ip") != 0)
        return rn_output_error(
            "--by is for suggest without --rules: here the key of the rule tells "
            "clients apart");
    if (o->by[strspn(o->by, "abcdefghijklmnopqrstuvwxyz0123456789_.-")] != '\0')
        return rn_output_error("--by: found %s, expected the name of an attribute",
                               rn_excerpt(rn_slice_of(o->by)).text);
    snprintf(text, size, "limits: [{name: requests, key: %s, limit: 1 per minute}]\n", o->by);
    s->run.options = o;
    return rn_run_open(&s->run, o, text) && find_rule(s, name != NULL ? name : "requests") &&
           (rn_demand_init(&s->demand, o->memory_bytes / SHARE_EVENTS) ||
            rn_output_error("out of memory"));
}

static void put_error(void *arg, const char *text)
{
    (void)arg;
    rn_output_error("%s", text);
}

static void complain_of(void *arg, const char *text)
{
    const char *title = arg;
    char rule[RATION_NAME_SIZE + 8];

    snprintf(rule, sizeof rule, "rule %s ", title);
    if (strncmp(text, rule, strlen(rule)) == 0)
        rn_output_error("%s", text);
}

/* Why there is no limit to suggest. */
static void complain_of_nothing(const struct suggest *s)
{
    const char *logs = s->run.feeds.count == 1 ? "this log" : "these logs";
    const char *title = s->list.rule->title;

    if (s->run.requests == 0) {
        rn_output_error("no requests");
        rn_notes_feeds(&s->run, put_error, NULL);
    } else if (s->tier_count != 0) {
        rn_output_error("rule %s sets no limit for its requests in %s: they are unlimited", title,
                        logs);
    } else if (s->run.options->rule == NULL) {
        rn_output_error("no request in %s has %s; --by says what tells clients apart, and --map "
                        "NAME=FIELD where the log has it",
                        logs, s->run.options->by);
    } else {
        rn_output_error("no request in %s is of the rule %s and limited by it", logs, title);
        rn_notes_each(&s->run, complain_of, (void *)(uintptr_t)title);
    }
}

static int run_suggest(struct suggest *s)
{
    const struct rn_options *o = s->run.options;

    s->run.see = see;
    s->run.arg = s;
    s->list.run = &s->run;
    if (!rn_run_all(&s->run) || s->failed || !suggest_all(s))
        return RN_EXIT_ERROR;
    if (s->list.count == 0 && s->demand.halvings != 0) {
        rn_output_error("the requests of one client do not fit the memory; give more --memory");
        return RN_EXIT_ERROR;
    }
    if (s->list.count == 0) {
        complain_of_nothing(s);
        return RN_EXIT_REFUSED;
    }
    if (o->html != NULL && !rn_suggestion_page(&s->list, o->html))
        return RN_EXIT_ERROR;
    if (o->json)
        rn_suggestion_json(&s->list);
    else if (o->html == NULL || strcmp(o->html, "-") != 0)
        rn_suggestion_text(&s->list);
    return RN_EXIT_OK;
}

int rn_command_suggest(const struct rn_options *options)
{
    struct suggest *s = calloc(1, sizeof *s);
    char text[256];
    int status = RN_EXIT_ERROR;

    if (s == NULL) {
        rn_output_error("out of memory");
        return status;
    }
    if (open_suggest(s, options, text, sizeof text))
        status = run_suggest(s);
    for (size_t i = 0; i < s->list.count; i++)
        free(s->list.items[i].needs);
    rn_demand_done(&s->demand);
    rn_run_done(&s->run);
    free(s);
    return status;
}
