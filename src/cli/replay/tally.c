/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/replay/tally.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/siphash.h"

#define SECOND INT64_C(1000000000)

/* Not secret: results must not differ from run to run. */
static const struct rn_hash_key fixed = {UINT64_C(0x7265706C61790001), UINT64_C(0x726174696F6E)};

bool rn_tally_init(struct rn_tally_side *t, const struct rn_ruleset *ruleset, unsigned side,
                   uint64_t bytes)
{
    *t = (struct rn_tally_side){.side = side, .ruleset = ruleset};
    t->rules = calloc(ruleset->rule_count + 1, sizeof *t->rules);
    return t->rules != NULL && rn_touched_init(&t->touched, bytes);
}

void rn_tally_done(struct rn_tally_side *t)
{
    free(t->rules);
    rn_touched_done(&t->touched);
    t->rules = NULL;
}

/* --- clients ------------------------------------------------------------------------------ */

static void make_change(struct rn_tally_shared *shared, const struct rn_tally_change *c)
{
    struct rn_population_row *row = rn_population_get(&shared->population, c->hash);

    if (row == NULL || row->requests == 0)
        rn_distinct_add(&c->clients->all_seen, c->hash << 1);
    if (c->refused && (row == NULL || row->refused[c->side] == 0))
        rn_distinct_add(&c->clients->all_refused, c->hash << 1);
    if (row == NULL)
        return;
    /* The second side sees clients that the first has counted. */
    if (c->counts)
        c->clients->seen += row->requests++ == 0;
    if (c->refused)
        c->clients->refused += row->refused[c->side]++ == 0;
}

void rn_tally_flush(struct rn_tally_shared *shared)
{
    for (unsigned i = 0; i < shared->change_count; i++)
        make_change(shared, &shared->changes[i]);
    shared->change_count = 0;
}

static void change_client(struct rn_tally_shared *shared, struct rn_tally_change change)
{
    rn_population_prefetch(&shared->population, change.hash);
    if (shared->change_count == RN_TALLY_DELAYED)
        rn_tally_flush(shared);
    shared->changes[shared->change_count++] = change;
}

static uint64_t mix(uint64_t hash, uint64_t number)
{
    hash = (hash ^ number) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

/* What a rule counts by as one hash: without RN_POPULATION_WHOLE. */
static uint64_t hash_key(const struct rn_tally_side *t, const struct rn_match *match,
                         const struct rn_tally_whole *whole)
{
    uint64_t hash = match->rule->index * 2 + t->side;

    for (uint32_t i = 0; i < match->rule->key_count; i++) {
        if (match->key_names[i].data != NULL)
            hash = mix(hash, rn_siphash(&fixed, match->key_names[i].data, match->key_names[i].len));
        hash = mix(hash, rn_slice_equal(match->key[i], whole->client)
                             ? whole->hash
                             : rn_siphash(&fixed, match->key[i].data, match->key[i].len));
    }
    return mix(hash, match->rule->key_count) & ~RN_POPULATION_WHOLE;
}

/* The parts of a key with commas between them. */
static void set_name(struct rn_touched *row, const struct rn_match *match)
{
    size_t len = 0;

    for (uint32_t i = 0; i < match->rule->key_count; i++) {
        size_t room = sizeof row->name - len, part = match->key[i].len;

        if (i != 0 && room >= 2) {
            row->name[len++] = ',';
            row->name[len++] = ' ';
            room -= 2;
        }
        part = part < room ? part : room;
        memcpy(row->name + len, match->key[i].data, part);
        len += part;
    }
    if (match->rule->key_count == 0)
        len = (size_t)snprintf(row->name, sizeof row->name, "all requests");
    row->name_len = (uint32_t)len;
}

/* --- decisions ------------------------------------------------------------------------------ */

/* What one rule said. */
struct opinion {
    bool refuses, delays, shadow;
    int64_t wait_ns;
};

static struct opinion opinion_of(const struct rn_tally_side *t, const struct ration_outcome *o,
                                 const struct rn_rule *rule)
{
    struct opinion op = {.shadow = rule->shadow || t->ruleset->shadow};
    bool decides = strcmp(o->rule, rule->title) == 0;

    if (o->kind != RATION_BY_LIMITS) {
        op.refuses = decides && !o->decision.allowed;
        op.wait_ns = op.refuses ? o->decision.verdict.retry_after_ns : 0;
        return op;
    }
    for (uint32_t i = 0; i < o->listed; i++) {
        const struct ration_verdict *v = &o->limits[i].verdict;

        if (strcmp(o->limits[i].rule, rule->title) != 0)
            continue;
        op.refuses |= !v->allowed;
        op.delays |= v->delay_ns > 0;
        op.wait_ns = !v->allowed && v->retry_after_ns > op.wait_ns ? v->retry_after_ns : op.wait_ns;
        op.wait_ns = v->allowed && v->delay_ns > op.wait_ns ? v->delay_ns : op.wait_ns;
    }
    if (decides && !o->decision.allowed && !op.refuses) { /* its limit is not listed */
        op.refuses = true;
        op.wait_ns = o->decision.verdict.retry_after_ns;
    }
    if (decides && o->decision.allowed && o->delay_ns > 0 && !op.delays) { /* throttle */
        op.delays = true;
        op.wait_ns = o->delay_ns;
    }
    return op;
}

/* A refusal by a rule with a line is a wait there, if it is short enough. */
static bool would_stand_in_line(const struct rn_rule *rule, const struct opinion *op)
{
    return op->refuses && rule->line_size != 0 && op->wait_ns <= rule->max_wait_ns;
}

static void add_length(struct rn_tally_rule *rule, int64_t ns)
{
    ns += rule->limited_rest_ns;
    rule->limited_s += (uint64_t)(ns / SECOND);
    rule->limited_rest_ns = ns % SECOND;
}

static void count_touched(struct rn_tally_side *t, const struct rn_match *match, uint64_t hash,
                          const struct opinion *op, bool waits, int64_t now_ns)
{
    struct rn_tally_rule *rule = &t->rules[match->rule->index];
    struct rn_touched *row = rn_touched_get(&t->touched, hash, match->rule->index, now_ns);

    if (row->name_len == UINT32_MAX)
        set_name(row, match);
    if (op->refuses && !waits) {
        rule->refused++;
        row->refused++;
    } else {
        rule->delayed++;
        rule->in_line += waits;
        row->delayed++;
    }
    add_length(rule, rn_touched_wait(row, now_ns, op->wait_ns));
    rule->first_ns = rule->first_ns == 0 ? now_ns : rule->first_ns;
    rule->last_ns = now_ns;
}

/* Counts what one rule that applied has said. Returns whether it makes a refusal a wait in line. */
static bool count_rule(struct rn_tally_side *t, struct rn_tally_shared *shared,
                       const struct ration_outcome *o, const struct rn_match *match,
                       const struct rn_tally_whole *whole, bool plain, int64_t now_ns)
{
    struct rn_tally_rule *rule = &t->rules[match->rule->index];
    struct opinion op = plain ? (struct opinion){.refuses = false} : opinion_of(t, o, match->rule);
    uint64_t hash = hash_key(t, match, whole);
    bool waits = would_stand_in_line(match->rule, &op), refuses = op.refuses && !waits;

    rule->requests++;
    if (op.shadow && (op.refuses || op.delays)) {
        rule->shadowed++;
        refuses = false;
    } else if (op.refuses || op.delays) {
        count_touched(t, match, hash, &op, waits, now_ns);
    }
    change_client(shared, (struct rn_tally_change){.hash = hash,
                                                   .clients = &rule->clients,
                                                   .counts = true,
                                                   .refused = refuses,
                                                   .side = (uint8_t)t->side});
    return waits && !op.shadow;
}

static void count_whole(struct rn_tally_side *t, struct rn_tally_shared *shared,
                        const struct rn_tally_whole *whole, bool refused)
{
    if (whole->client.data == NULL)
        return;
    change_client(shared, (struct rn_tally_change){.hash = whole->hash | RN_POPULATION_WHOLE,
                                                   .clients = &t->clients,
                                                   .counts = t->side == 0,
                                                   .refused = refused,
                                                   .side = (uint8_t)t->side});
}

struct rn_tally_whole rn_tally_whole(struct rn_slice client)
{
    return (struct rn_tally_whole){
        client, client.data != NULL ? rn_siphash(&fixed, client.data, client.len) : 0};
}

enum rn_tally_result rn_tally_add(struct rn_tally_side *t, struct rn_tally_shared *shared,
                                  const struct ration_outcome *o, const struct rn_matches *matches,
                                  const struct rn_tally_whole *whole, int64_t now_ns)
{
    bool plain =
        o->decision.allowed && o->delay_ns == 0 && !o->shadow_refused && o->shadow_delay_ns == 0;
    bool refused = !o->decision.allowed, waits = false, lines_only = true;
    enum rn_tally_result result;

    t->requests++;
    t->shadowed += o->shadow_refused;
    t->unmatched += o->kind == RATION_BY_NO_RULE;
    t->listed += o->kind == RATION_BY_DENY_LIST;
    t->banned += o->kind == RATION_BY_ESCALATION;
    if (matches != NULL && matches->outcome == RN_MATCH_LIMITS)
        for (uint32_t i = 0; i < matches->count; i++) {
            bool line = count_rule(t, shared, o, &matches->items[i], whole, plain, now_ns);

            waits |= line;
            if (!line && refused && !matches->items[i].rule->shadow &&
                opinion_of(t, o, matches->items[i].rule).refuses)
                lines_only = false;
        }
    result = refused && !(waits && lines_only)            ? RN_TALLY_REFUSED
             : (refused || (o->delay_ns > 0 && !refused)) ? RN_TALLY_WAITS
                                                          : RN_TALLY_ADMITTED;
    t->refused += result == RN_TALLY_REFUSED;
    t->delayed += result == RN_TALLY_WAITS;
    count_whole(t, shared, whole, result == RN_TALLY_REFUSED);
    if (t->side == 0)
        rn_trend_add(&shared->trend, (enum rn_trend_row)result, now_ns);
    else if (result == RN_TALLY_REFUSED)
        rn_trend_add(&shared->trend, RN_TREND_REFUSED_BEFORE, now_ns);
    return result;
}

/* --- reading ------------------------------------------------------------------------------- */

static uint64_t count_of(const struct rn_tally_shared *shared, uint64_t exactly,
                         const struct rn_distinct *all, bool *exact)
{
    uint64_t estimate;

    *exact = !shared->population.full;
    if (*exact)
        return exactly;
    estimate = rn_distinct_count(all);
    return estimate > exactly ? estimate : exactly;
}

uint64_t rn_tally_seen(const struct rn_tally_shared *shared, const struct rn_tally_clients *c,
                       bool *exact)
{
    return count_of(shared, c->seen, &c->all_seen, exact);
}

uint64_t rn_tally_refused(const struct rn_tally_shared *shared, const struct rn_tally_clients *c,
                          bool *exact)
{
    return count_of(shared, c->refused, &c->all_refused, exact);
}
