/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting in line against a naive model: random rule sets of all algorithms, requests with one to
 * four limits, priorities and costs, arrivals, leavers, releases and give-backs, under a stepped
 * clock.
 *
 * The model has plain lists and a copy of each limit's state, which only core touches. It says of
 * each decision what it must be: all limits charged or none, nobody overtaken, which line a request
 * stands in, and whether a refusal for good is right. Whenever nothing is due any more, it looks at
 * the head of each line: none that would be admitted may be left standing, and the next look must
 * come as soon as one can be.
 */
#include "rules_fixture.h"

#include <stdio.h>

#include <ration/wait.h>

#include "limiter/line/lines.h"
#include "model/random.h"

#define MS INT64_C(1000000)
#define STEPS 1000000
#define WORLD_STEPS 2500
#define RULES 4
#define VALUES 3 /* of each attribute */
#define CLIENTS 48
#define RECEIPTS 8
#define WORDS 160
#define ALL_RULES ((1u << RULES) - 1)
#define AGAIN_NS MS        /* a line asks again after a refusal, at least */
#define POLL_NS (500 * MS) /* and of places after that, at most */
#define CLAIMS_AFTER 2     /* changes of the line */
#define CLAIM_MORE_NS (100 * MS)

enum { BY_NONE, BY_USER, BY_IP };

struct rule {
    struct rn_limit limit;
    unsigned key; /* BY_* */
    bool has_line, by_arrival, has_levels, from_first;
    uint32_t size;
    int64_t max_wait_ns;
    uint64_t line_keys[VALUES]; /* of the states, as the limiter has them */
    int64_t refused_ns[VALUES]; /* when it last refused a request that was not held up */
    uint64_t states[VALUES][WORDS];
};

struct client {
    struct ration_waiter waiter; /* the first member */
    unsigned values[3];          /* by BY_*: of user and ip */
    unsigned level;
    unsigned needs; /* rules that apply to it, a bit for each */
    uint64_t cost;
    int64_t max_wait_ns;
    bool is_used, has_waiter;
    bool waits, displaced;
    unsigned at; /* the rule in whose line it stands */
    uint64_t arrival;
    int64_t arrived_ns, until_ns, asked_ns;
    unsigned moves;   /* how often it has changed lines */
    bool is_first;    /* nobody went before it since it last asked, and it has claims; then: */
    unsigned secured; /* so many of its limits, the slowest ones, have room, */
    int64_t told_ns;  /* and when it may have its turn */
    struct claim {    /* none if it has ended */
        uint64_t units;
        unsigned rank;
        int64_t ends_ns;
    } claims[RULES];
};

/* What was charged to all rules. */
struct receipt {
    struct client who;
    int64_t at_ns, marks[RULES];
    uint64_t id; /* of places */
    struct ration_outcome out;
    bool is_used;
};

static struct ration *r;
static struct ration_waiting *waiting;
static struct rule rules[RULES];
static unsigned rule_count;
static struct client clients[CLIENTS];
static struct receipt receipts[RECEIPTS];
static int64_t now_ns;
static uint64_t arrivals, ids, steps, waits, went, gone, refused, claims, claimed;
static uint64_t progress;
static bool has_places;
static bool is_mixed; /* there are requests that need one limit of several */
static char rules_text[8192];
static struct ration_outcome outcome;

static const unsigned keep_percent[] = {0, 20, 50};
static const char *const level_names[] = {"high", "mid", "low"};

static void print_world(void);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            print_world();                                                                         \
            fail_msg("line %d: %s (seed %" PRIu64 ", step %" PRIu64 ")", __LINE__, #condition,     \
                     random_seed, steps);                                                          \
        }                                                                                          \
    } while (0)

/* --- limits ----------------------------------------------------------------------------------- */

/* What a failure leaves behind, for the reader. */
static void print_world(void)
{
    print_message("# at T0 + %" PRId64 " us\n%s", (now_ns - T0) / 1000, rules_text);
    for (unsigned j = 0; j < CLIENTS; j++) {
        const struct client *c = &clients[j];

        if (c->waits)
            print_message("# %u: user %u ip %u level %u cost %" PRIu64
                          " in line r%u, arrival %" PRIu64 ", asked T0 + %" PRId64
                          " us, until T0 + %" PRId64 " us%s\n",
                          j, c->values[BY_USER], c->values[BY_IP], c->level, c->cost, c->at,
                          c->arrival, (c->asked_ns - T0) / 1000, (c->until_ns - T0) / 1000,
                          c->displaced ? ", displaced" : "");
    }
}

static bool applies(unsigned i, const struct client *c)
{
    return (c->needs >> i & 1) != 0;
}

static uint64_t *state_of(struct rule *rule, const struct client *c)
{
    return rule->states[c->values[rule->key]];
}

static uint64_t keep_of(const struct rule *rule, const struct client *c)
{
    return rule->has_levels ? (rule->limit.cap * keep_percent[c->level] + 99) / 100 : 0;
}

static unsigned rank_of(const struct rule *rule, const struct client *c)
{
    return rule->has_levels && !rule->by_arrival ? keep_percent[c->level] : 0;
}

static struct rn_answer apply(const struct rule *rule, uint64_t *state, const struct rn_ask *ask)
{
    struct rn_answer answer = {0};
    uint32_t words = rule->limit.words_full ? rule->limit.words_full : 1;

    rn_limit_apply(&rule->limit, state, words, ask, &answer);
    return answer;
}

/* What the limit says to so many units. */
static struct rn_answer peek_units(const struct rule *rule, const uint64_t *state, uint64_t units,
                                   int64_t at_ns)
{
    struct rn_ask ask = {.op = RN_PEEK, .now_ns = at_ns, .cost = units, .id = 1};
    uint64_t copy[WORDS];

    memcpy(copy, state, sizeof copy);
    return apply(rule, copy, &ask);
}

/* What the limit says to the cost and what must be left. */
static struct rn_answer peek_at(const struct rule *rule, const uint64_t *state,
                                const struct client *c, int64_t at_ns)
{
    return peek_units(rule, state, c->cost + keep_of(rule, c), at_ns);
}

static struct rn_answer charge_at(const struct rule *rule, uint64_t *state, const struct client *c,
                                  int64_t at_ns)
{
    struct rn_ask ask = {.op = RN_TAKE,
                         .now_ns = at_ns,
                         .cost = c->cost,
                         .id = ids,
                         .lease_ns = rule->limit.lease_ns};

    return apply(rule, state, &ask);
}

/* The longest that this rule lets a request wait, with what a queue tells after the line. */
static int64_t longest_wait(const struct rule *rule, const struct client *c)
{
    bool queue = rule->limit.algorithm == RATION_LEAKY_BUCKET;

    if (!rule->has_line)
        return queue ? 0 : c->max_wait_ns;
    return c->max_wait_ns > 0 && c->max_wait_ns < rule->max_wait_ns ? c->max_wait_ns
                                                                    : rule->max_wait_ns;
}

static int64_t told_delay(const struct rule *rule, uint64_t cost)
{
    return rule->limit.algorithm == RATION_LEAKY_BUCKET && cost < rule->limit.cap
               ? rule->limit.unit_ns * ((int64_t)rule->limit.cap - (int64_t)cost)
               : 0;
}

/* --- lines ------------------------------------------------------------------------------------ */

static bool shares_line(const struct rule *rule, const struct client *a, const struct client *b)
{
    return a->values[rule->key] == b->values[rule->key];
}

static bool goes_before(const struct rule *rule, const struct client *a, const struct client *b)
{
    unsigned rank_a = rank_of(rule, a), rank_b = rank_of(rule, b);
    uint64_t arrival_b = b->waits ? b->arrival : UINT64_MAX;

    return rank_a != rank_b ? rank_a < rank_b : a->arrival < arrival_b;
}

/* Whether somebody in the line of a rule goes before this request. */
static bool is_held(unsigned i, const struct client *c)
{
    for (unsigned j = 0; j < CLIENTS; j++) {
        const struct client *other = &clients[j];

        if (other != c && other->waits && other->at == i && !other->displaced &&
            shares_line(&rules[i], other, c) && goes_before(&rules[i], other, c))
            return true;
    }
    return false;
}

/* Units that those before this request claim of a rule, and until when one of them does. */
static uint64_t claimed_before(unsigned i, const struct client *c, int64_t *ends_ns)
{
    uint64_t units = 0;

    *ends_ns = INT64_MAX;
    for (unsigned j = 0; j < CLIENTS; j++) {
        const struct client *other = &clients[j];
        const struct claim *claim = &other->claims[i];
        unsigned rank = rank_of(&rules[i], c);

        if (other == c || !other->waits || claim->ends_ns <= now_ns ||
            !shares_line(&rules[i], other, c) || claim->rank > rank ||
            (claim->rank == rank && c->waits && c->arrival < other->arrival))
            continue;
        units += claim->units;
        if (claim->ends_ns < *ends_ns)
            *ends_ns = claim->ends_ns;
    }
    return units;
}

/* Windows and logs come back after their length, buckets a unit at a time; places nobody knows
 * when, least of all few. */
static bool is_slower(unsigned i, unsigned j, const struct client *c)
{
    int64_t takes_ns[2];
    const unsigned at[2] = {i, j};

    for (unsigned k = 0; k < 2; k++) {
        const struct rn_limit *limit = &rules[at[k]].limit;

        if (rn_form_is_places(limit->form))
            takes_ns[k] = INT64_MAX - (int64_t)limit->cap;
        else if (limit->step_ns != 0)
            takes_ns[k] = limit->step_ns;
        else if (limit->algorithm == RATION_TOKEN_BUCKET || limit->algorithm == RATION_LEAKY_BUCKET)
            takes_ns[k] = limit->period_ns / (int64_t)limit->amount +
                          (limit->period_ns % (int64_t)limit->amount != 0 && limit->unit_frac == 0);
        else
            takes_ns[k] = limit->period_ns;
    }
    if (takes_ns[0] != takes_ns[1])
        return takes_ns[0] > takes_ns[1];
    return rules[i].line_keys[c->values[rules[i].key]] >
           rules[j].line_keys[c->values[rules[j].key]];
}

static unsigned count_line(unsigned i, const struct client *c)
{
    unsigned count = 0;

    for (unsigned j = 0; j < CLIENTS; j++)
        count += &clients[j] != c && clients[j].waits && clients[j].at == i &&
                 !clients[j].displaced && shares_line(&rules[i], &clients[j], c);
    return count;
}

static struct client *last_in_line(unsigned i, const struct client *c)
{
    struct client *last = NULL;

    for (unsigned j = 0; j < CLIENTS; j++) {
        struct client *other = &clients[j];

        if (other != c && other->waits && other->at == i && !other->displaced &&
            shares_line(&rules[i], other, c) && (!last || goes_before(&rules[i], last, other)))
            last = other;
    }
    return last;
}

static struct client *next_in_line(unsigned i, const struct client *c, const struct client *after)
{
    struct client *next = NULL;

    for (unsigned j = 0; j < CLIENTS; j++) {
        struct client *other = &clients[j];

        if (other != c && other->waits && other->at == i && !other->displaced &&
            shares_line(&rules[i], other, c) && goes_before(&rules[i], other, c) &&
            (!after || goes_before(&rules[i], after, other)) &&
            (!next || goes_before(&rules[i], other, next)))
            next = other;
    }
    return next;
}

/* When a request could go at the earliest in the line of a rule, if those ahead go as soon as this
 * limit lets them, and no other limit matters. */
static int64_t earliest_in_line(unsigned i, const struct client *c)
{
    struct rule *rule = &rules[i];
    uint64_t state[WORDS];
    int64_t at_ns = now_ns;
    const struct client *one = NULL;

    memcpy(state, state_of(rule, c), sizeof state);
    do {
        one = next_in_line(i, c, one);
        const struct client *who = one ? one : c;
        struct rn_answer answer = peek_at(rule, state, who, at_ns);

        while (!answer.allowed) {
            if (answer.retry_after_ns == RATION_NEVER)
                return RATION_NEVER;
            at_ns += answer.retry_after_ns;
            answer = peek_at(rule, state, who, at_ns);
        }
        if (one)
            (void)charge_at(rule, state, who, at_ns);
    } while (one);
    return at_ns;
}

static bool is_late(unsigned i, const struct client *c, int64_t until_ns)
{
    if (now_ns >= until_ns)
        return true;
    return !rn_form_is_places(rules[i].limit.form) && earliest_in_line(i, c) > until_ns;
}

static bool is_full(unsigned i, const struct client *c)
{
    uint32_t size = rules[i].has_line ? rules[i].size : 1000;
    const struct client *last = last_in_line(i, c);

    return !(c->waits && c->at == i) && count_line(i, c) >= size &&
           rank_of(&rules[i], last) <= rank_of(&rules[i], c);
}

/* --- decisions -------------------------------------------------------------------------------- */

struct expected {
    bool held[RULES], refuses[RULES];
    int64_t retry_ns[RULES], longest_retry_ns;
    bool is_held, fits;
    bool is_first;    /* nobody goes before it, and nobody has claimed what it asks for */
    bool for_good;    /* no line would help */
    int64_t until_ns; /* if it waits */
};

static struct expected expect(const struct client *c)
{
    struct expected e = {.fits = true, .is_first = true, .until_ns = RATION_NEVER};
    int64_t from_ns = c->waits ? c->arrived_ns : now_ns;
    int64_t waited_ns =
        c->waits && now_ns == from_ns ? 1 : now_ns - from_ns; /* not 0 once it has */
    uint64_t keep[RULES];

    for (unsigned i = 0; i < rule_count; i++) {
        int64_t ends_ns;

        if (!applies(i, c))
            continue;
        keep[i] = keep_of(&rules[i], c);
        e.held[i] = is_held(i, c);
        uint64_t units = e.held[i] ? 0 : claimed_before(i, c, &ends_ns);

        if (units > keep[i]) {
            e.is_first = false;
            e.held[i] = c->cost + units > rules[i].limit.cap;
            keep[i] = e.held[i] ? keep[i] : units;
            claimed++;
        }
        e.is_held |= e.held[i];
    }
    e.is_first &= !e.is_held;
    for (unsigned i = 0; i < rule_count; i++) {
        if (!applies(i, c))
            continue;
        struct rule *rule = &rules[i];
        struct rn_answer answer = peek_units(rule, state_of(rule, c), c->cost + keep[i], now_ns);
        int64_t longest = longest_wait(rule, c);

        e.retry_ns[i] = answer.retry_after_ns;
        e.refuses[i] =
            e.is_held ? e.held[i] || answer.retry_after_ns == RATION_NEVER : !answer.allowed;
        if (!e.is_held && answer.allowed && rule->limit.algorithm == RATION_LEAKY_BUCKET &&
            (rule->has_line || c->max_wait_ns != 0)) { /* the told delay must fit */
            int64_t most = c->max_wait_ns != 0 && (!rule->has_line || c->max_wait_ns < longest)
                               ? c->max_wait_ns
                               : longest;

            if (answer.delay_ns > most - waited_ns && answer.delay_ns > 1)
                e.for_good = e.refuses[i] = true;
        }
        if (!e.refuses[i])
            continue;
        e.fits = false;
        if (!e.is_held)
            rule->refused_ns[c->values[rule->key]] = now_ns;
        if (!e.is_held && e.retry_ns[i] > e.longest_retry_ns)
            e.longest_retry_ns = e.retry_ns[i];
        longest -= told_delay(rule, c->cost);
        if (longest <= 0 || e.retry_ns[i] == RATION_NEVER)
            e.for_good = true;
        else if (from_ns + longest < e.until_ns)
            e.until_ns = from_ns + longest;
    }
    return e;
}

/* Of the limits that are slower than that of its line, once it has changed lines twice. */
static void claim(struct client *c, const struct expected *e)
{
    int64_t rest_ns = e->retry_ns[c->at];

    memset(c->claims, 0, sizeof c->claims);
    if (!e->is_first || c->moves < CLAIMS_AFTER)
        return;
    if (rn_form_is_places(rules[c->at].limit.form) && rest_ns > POLL_NS)
        rest_ns = POLL_NS;
    for (unsigned i = 0; i < rule_count; i++) {
        if (i == c->at || !applies(i, c) || !is_slower(i, c->at, c))
            continue;
        c->claims[i] = (struct claim){c->cost + keep_of(&rules[i], c), rank_of(&rules[i], c),
                                      now_ns + rest_ns + CLAIM_MORE_NS};
        claims++;
    }
}

/* How many of its limits, from the slowest on, have room for it, or will have within soon_ns. */
static unsigned count_secured(const struct client *c, const struct expected *e, int64_t soon_ns)
{
    unsigned count = 0;

    for (unsigned i = 0; i < rule_count; i++) {
        bool is_secured = applies(i, c);

        for (unsigned j = 0; j < rule_count && is_secured; j++)
            is_secured = !applies(j, c) || !e->refuses[j] || is_slower(i, j, c) ||
                         (rules[j].from_first && e->retry_ns[j] < soon_ns);
        count += is_secured;
    }
    return count;
}

/* While nobody goes before it, none of what it has got is lost, and each turn gets it one more. Of
 * places nobody knows when they come back. A window that begins with its first request admits
 * nothing in its last 320 us, although it had room (core/window.c). */
static void check_progress(struct client *c, const struct expected *e)
{
    unsigned secured = count_secured(c, e, MS);

    if (!e->is_first || c->moves < CLAIMS_AFTER) {
        c->is_first = false;
        return;
    }
    CHECK(!c->is_first || secured >= c->secured);
    CHECK(!c->is_first || secured > c->secured || now_ns < c->told_ns || has_places);
    c->is_first = true;
    c->secured = count_secured(c, e, 0);
    c->told_ns = now_ns + e->retry_ns[c->at];
    progress++;
}

static void stand(struct client *c, const struct expected *e)
{
    uint64_t key = rn_lines_key(&c->waiter);
    unsigned i = 0;

    while (i < rule_count && rules[i].line_keys[c->values[rules[i].key]] != key)
        i++;
    CHECK(i < rule_count);
    CHECK(c->has_waiter && !e->for_good && !e->fits);
    CHECK(e->is_held ? e->held[i] : e->refuses[i] && e->retry_ns[i] == e->longest_retry_ns);
    CHECK(!is_full(i, c));
    CHECK(now_ns < e->until_ns);
    if (!(c->waits && c->at == i) && rules[i].has_line && count_line(i, c) >= rules[i].size)
        last_in_line(i, c)->displaced = true;
    if (!c->waits) {
        c->arrival = ++arrivals;
        c->arrived_ns = now_ns;
        c->moves = 0;
        c->is_first = false;
        waits++;
    }
    c->moves += c->waits && c->at != i;
    c->waits = true;
    c->at = i;
    c->until_ns = e->until_ns;
    claim(c, e);
    for (unsigned j = 0; j < CLIENTS; j++)
        if (clients[j].waits && applies(i, &clients[j]) && shares_line(&rules[i], c, &clients[j]) &&
            goes_before(&rules[i], c, &clients[j]))
            clients[j].is_first = false;
    check_progress(c, e);
    CHECK(ration_waiter_rest(&c->waiter, now_ns) == c->until_ns - now_ns);
}

static void admit(struct client *c, const struct expected *e)
{
    struct receipt *receipt = &receipts[random_below(RECEIPTS)];

    CHECK(e->fits && !e->is_held);
    CHECK(!c->waits || now_ns < c->until_ns);
    CHECK(outcome.waited_ns == (!c->waits                ? 0
                                : now_ns > c->arrived_ns ? now_ns - c->arrived_ns
                                                         : 1));
    *receipt =
        (struct receipt){.who = *c, .at_ns = now_ns, .id = ++ids, .out = outcome, .is_used = true};
    for (unsigned i = 0; i < rule_count; i++) {
        if (!applies(i, c))
            continue;
        struct rn_answer answer = charge_at(&rules[i], state_of(&rules[i], c), c, now_ns);

        CHECK(answer.allowed);
        receipt->marks[i] = answer.mark;
    }
    went += c->waits;
    for (unsigned j = 0; j < CLIENTS; j++)
        for (unsigned i = 0; i < rule_count; i++)
            if (clients[j].waits && applies(i, c) && applies(i, &clients[j]) &&
                shares_line(&rules[i], c, &clients[j]) && goes_before(&rules[i], c, &clients[j]))
                clients[j].is_first = false;
    c->is_used = c->waits = false;
}

/* A refusal for good must have a reason. */
static void refuse(struct client *c, const struct expected *e)
{
    bool right = !c->has_waiter ? !e->fits : e->for_good;

    if (c->waits)
        right |= c->displaced || now_ns == c->until_ns || is_late(c->at, c, c->until_ns);
    for (unsigned i = 0; i < rule_count && !right; i++)
        right = e->refuses[i] && (is_full(i, c) || is_late(i, c, e->until_ns));
    CHECK(right);
    refused++;
    gone += c->waits;
    c->is_used = c->waits = false;
}

/* The request of a client, with its attributes: "r0" to "r3" tell which rules apply. */
struct question {
    struct ration_attribute attributes[3 + RULES];
    struct ration_request request;
};

static void write_request(struct question *question, struct client *c)
{
    static const char *const rule_names[RULES] = {"r0", "r1", "r2", "r3"};

    *question = (struct question){
        .attributes = {{"user", 4, &"abc"[c->values[BY_USER]], 1},
                       {"ip", 2, &"xyz"[c->values[BY_IP]], 1},
                       {"level", 5, level_names[c->level], strlen(level_names[c->level])}},
        .request = {.attributes = question->attributes,
                    .count = 3 + RULES,
                    .cost = c->cost,
                    .max_wait_ns = c->max_wait_ns,
                    .waiter = c->has_waiter ? &c->waiter : NULL}};
    for (unsigned i = 0; i < RULES; i++)
        question->attributes[3 + i] =
            (struct ration_attribute){rule_names[i], 2, applies(i, c) ? "y" : "n", 1};
}

static void ask(struct client *c)
{
    struct question question;
    struct expected e = expect(c);
    int code;

    steps++;
    c->asked_ns = now_ns;
    write_request(&question, c);
    code = ration_decide(r, &question.request, now_ns, &outcome);
    if (code == RATION_EWAITS) {
        stand(c, &e);
        return;
    }
    CHECK(code == 0);
    CHECK(!rn_lines_waits(&c->waiter));
    if (outcome.decision.allowed)
        admit(c, &e);
    else
        refuse(c, &e);
}

static void turn(struct ration_waiter *waiter)
{
    struct client *c = (struct client *)(void *)waiter;

    CHECK(c->is_used && c->waits);
    ask(c);
}

/* --- time ------------------------------------------------------------------------------------- */

/* Nothing is due. Whoever could go must be looked at as soon as that is so. */
static void check_heads(int64_t next_ns)
{
    for (unsigned j = 0; j < CLIENTS; j++) {
        const struct client *c = &clients[j];
        int64_t retry_ns = 0, tried_ns;
        bool held = false;

        if (!c->waits)
            continue;
        CHECK(!c->displaced && now_ns < c->until_ns);
        CHECK(next_ns <= c->until_ns - now_ns);
        for (unsigned i = 0; i < rule_count && !held; i++) {
            if (!applies(i, c))
                continue;
            uint64_t keep = keep_of(&rules[i], c);
            int64_t ends_ns, rest_ns;

            if ((held = is_held(i, c)))
                break;
            uint64_t units = claimed_before(i, c, &ends_ns);
            struct rn_answer answer = peek_units(&rules[i], state_of(&rules[i], c),
                                                 c->cost + (units > keep ? units : keep), now_ns);

            rest_ns = answer.retry_after_ns;
            if (units > keep && rest_ns > ends_ns - now_ns) {
                answer = peek_at(&rules[i], state_of(&rules[i], c), c, now_ns);
                rest_ns = answer.retry_after_ns > ends_ns - now_ns ? answer.retry_after_ns
                                                                   : ends_ns - now_ns;
            }
            retry_ns = rest_ns > retry_ns ? rest_ns : retry_ns;
        }
        if (held)
            continue;
        tried_ns = rules[c->at].refused_ns[c->values[rules[c->at].key]];
        tried_ns = (c->asked_ns > tried_ns ? c->asked_ns : tried_ns) + AGAIN_NS - now_ns;
        if (rn_form_is_places(rules[c->at].limit.form)) {
            CHECK(next_ns <= POLL_NS);
            tried_ns += POLL_NS - AGAIN_NS;
        }
        if (next_ns > (retry_ns > tried_ns ? retry_ns : tried_ns))
            print_message("# %u: next %" PRId64 " retry %" PRId64 " tried %" PRId64 "\n", j,
                          next_ns, retry_ns, tried_ns);
        CHECK(next_ns <= (retry_ns > tried_ns ? retry_ns : tried_ns));
        CHECK(retry_ns > 0 || tried_ns > 0);
    }
}

static void set_clock(int64_t at_ns)
{
    now_ns = stopped_at(r, at_ns);
}

static void pass_until(int64_t until_ns)
{
    for (;;) {
        int64_t next_ns = ration_waiting_next(waiting, now_ns);

        if (next_ns > 0)
            check_heads(next_ns);
        if (next_ns == RATION_NEVER || next_ns > until_ns - now_ns)
            break;
        set_clock(now_ns + next_ns);
        ration_waiting_run(waiting, now_ns);
    }
    set_clock(until_ns);
}

/* --- worlds ----------------------------------------------------------------------------------- */

static const struct {
    const char *limit, *algorithm;
} choices[] = {
    {"10 per second", "token-bucket"},        {"20 per second burst 5", "token-bucket"},
    {"2 per 100ms burst 1", "token-bucket"},  {"10 per second in steps of 500ms", "token-bucket"},
    {"7 per second burst 6", "token-bucket"}, {"6 per 500ms", "fixed-window"},
    {"3 per second", "fixed-window"},         {"5 per 300ms", "sliding-log"},
    {"9 per second", "sliding-log"},          {"8 per second", "sliding-window"},
    {"10 per second queue 3", NULL},          {"3 concurrent", NULL},
};

static size_t write_rule(unsigned i, char *text, size_t size)
{
    unsigned choice = (unsigned)random_below(COUNT(choices)), key = (unsigned)random_below(3);
    struct ration_named n = named("rule", choices[choice].limit);
    struct rule *rule = &rules[i];
    size_t len;

    memset(rule, 0, sizeof *rule);
    rule->key = key = is_mixed && random_below(3) ? BY_NONE : key;
    if (choices[choice].algorithm)
        assert_int_equal(ration_algorithm_parse(choices[choice].algorithm,
                                                strlen(choices[choice].algorithm),
                                                &n.limit.algorithm),
                         0);
    if (n.limit.algorithm == RATION_SLIDING_WINDOW && random_below(2))
        n.limit.sub_windows = 5;
    if (n.limit.algorithm == RATION_FIXED_WINDOW)
        n.limit.from_first = rule->from_first = random_below(3) == 0;
    rn_limit_init(&rule->limit, &n.limit);
    assert_true(rule->limit.words_full <= WORDS);
    has_places |= rn_form_is_places(rule->limit.form);
    rule->has_line = random_below(5) != 0;
    rule->by_arrival = rule->has_line && random_below(3) == 0;
    rule->has_levels = random_below(2) == 0;
    rule->size = (uint32_t)(1 + random_below(random_below(2) ? 4 : 40));
    rule->max_wait_ns = (int64_t)(1 + random_below(random_below(2) ? 500 : 8000)) * MS;
    if (is_mixed) { /* patient ones, who come to change lines */
        rule->has_line = true;
        rule->size = 40;
        rule->max_wait_ns = 8 * SECOND;
    }
    len = (size_t)snprintf(text, size,
                           "  - name: r%u\n    when: {r%u: y}\n    limit: %s\n    key: %s\n", i, i,
                           choices[choice].limit,
                           key == BY_NONE   ? "none"
                           : key == BY_USER ? "user"
                                            : "ip");
    if (choices[choice].algorithm)
        len += (size_t)snprintf(text + len, size - len, "    algorithm: %s\n",
                                choices[choice].algorithm);
    if (n.limit.sub_windows)
        len += (size_t)snprintf(text + len, size - len, "    sub_windows: 5\n");
    if (rule->from_first)
        len += (size_t)snprintf(text + len, size - len, "    align: first\n");
    if (rule->has_levels)
        len += (size_t)snprintf(text + len, size - len,
                                "    priority: {by: level, levels: {high: 0%%, mid: 20%%, "
                                "low: 50%%}, default: high}\n");
    if (rule->has_line)
        len += (size_t)snprintf(text + len, size - len,
                                "    queue: {size: %" PRIu32 ", max_wait: %" PRId64 "ms, by: %s}\n",
                                rule->size, rule->max_wait_ns / MS,
                                rule->by_arrival ? "arrival" : "priority");
    return len;
}

/* Learns the keys of all states from receipts, long before the world begins. */
static void learn_keys(void)
{
    struct client c = {.cost = 1, .needs = ALL_RULES};

    set_clock(T0 - 1000 * VALUES * VALUES * SECOND);
    for (unsigned j = 0; j < VALUES * VALUES; j++) {
        unsigned charged = 0, places = 0;

        c.values[BY_USER] = j / VALUES;
        c.values[BY_IP] = j % VALUES;
        struct question question;

        write_request(&question, &c);
        assert_int_equal(ration_decide(r, &question.request, now_ns, &outcome), 0);
        assert_true(outcome.decision.allowed);
        for (unsigned i = 0; i < rule_count; i++) {
            uint64_t *key = &rules[i].line_keys[c.values[rules[i].key]];

            if (rn_form_is_places(rules[i].limit.form))
                *key = outcome.places[places++].hash;
            else
                *key = outcome.receipts[charged++].hash;
        }
        assert_int_equal(ration_outcome_release(r, &outcome, now_ns), 0);
        set_clock(now_ns + 1000 * SECOND);
    }
}

static void open_world(void)
{
    char *text = rules_text;
    size_t len = (size_t)snprintf(text, sizeof rules_text, "limits:\n");

    rule_count = 1 + (unsigned)random_below(RULES);
    has_places = false;
    is_mixed = random_below(3) != 0;
    for (unsigned i = 0; i < rule_count; i++)
        len += write_rule(i, text + len, sizeof rules_text - len);
    r = open_limits(NULL, 0);
    r->secret = (struct rn_hash_key){random_next(), random_next()};
    now_ns = stopped_at(r, T0 - 10000 * SECOND);
    rules_at(r, text, now_ns);
    assert_int_equal(ration_waiting_new(r, NULL, NULL, &waiting), 0);
    learn_keys();
    set_clock(T0 + (int64_t)random_below(1000) * MS);
    memset(clients, 0, sizeof clients);
    memset(receipts, 0, sizeof receipts);
    arrivals = 0;
}

/* --- what happens ----------------------------------------------------------------------------- */

static void somebody_arrives(void)
{
    unsigned j = (unsigned)random_below(CLIENTS);
    struct client *c = &clients[j];

    unsigned needs = ALL_RULES;

    if (c->is_used)
        return;
    if (is_mixed && random_below(4) != 0)
        needs = 1u << random_below(rule_count);
    *c = (struct client){.waiter = {.waiting = waiting, .turn = turn},
                         .values = {0, (unsigned)random_below(random_below(3) ? 1 : VALUES),
                                    (unsigned)random_below(VALUES)},
                         .level = (unsigned)random_below(3),
                         .needs = needs,
                         .cost = has_places ? 1 : 1 + random_below(random_below(4) ? 2 : 7),
                         .max_wait_ns = random_below(3) ? 0 : (int64_t)random_below(4000) * MS,
                         .is_used = true,
                         .has_waiter = random_below(8) != 0};
    ask(c);
}

static void somebody_leaves(void)
{
    struct client *c = &clients[random_below(CLIENTS)];

    if (!c->waits)
        return;
    ration_waiter_leave(&c->waiter);
    c->is_used = c->waits = false;
    steps++;
}

static void something_comes_back(void)
{
    struct receipt *receipt = &receipts[random_below(RECEIPTS)];
    bool all = random_below(2);

    if (!receipt->is_used)
        return;
    receipt->is_used = false;
    steps++;
    int code = all ? ration_outcome_give_back(r, &receipt->out, now_ns)
                   : ration_outcome_release(r, &receipt->out, now_ns);

    CHECK(code == 0 || code == RATION_EGONE);
    for (unsigned i = 0; i < rule_count; i++) {
        bool places = rn_form_is_places(rules[i].limit.form);
        struct rn_ask back = {.op = places ? RN_RELEASE : RN_GIVE_BACK,
                              .now_ns = now_ns,
                              .cost = receipt->who.cost,
                              .id = receipt->id,
                              .at_ns = receipt->at_ns,
                              .mark = receipt->marks[i]};

        if (applies(i, &receipt->who) && (all || places))
            (void)apply(&rules[i], state_of(&rules[i], &receipt->who), &back);
    }
}

/* The limits have been charged what the model has, and nothing else. */
static void compare_states(void)
{
    struct client c = {
        .values = {0, (unsigned)random_below(VALUES), (unsigned)random_below(VALUES)},
        .needs = ALL_RULES,
        .cost = 1};
    struct question question;

    write_request(&question, &c);
    assert_int_equal(ration_decide_peek(r, &question.request, now_ns, &outcome), 0);
    CHECK(outcome.listed == rule_count);
    for (unsigned i = 0; i < outcome.listed; i++) {
        const struct ration_verdict *verdict = &outcome.limits[i].verdict;
        unsigned number = (unsigned)(outcome.limits[i].rule[1] - '0');
        int64_t ends_ns;
        uint64_t units = claimed_before(number, &c, &ends_ns), cap = rules[number].limit.cap;
        bool blocks = 1 + units > cap;
        struct rn_answer answer = peek_units(&rules[number], state_of(&rules[number], &c),
                                             1 + (blocks ? 0 : units), now_ns);

        units = blocks ? 0 : units;
        CHECK(verdict->remaining == (answer.remaining > units ? answer.remaining - units : 0));
        if (is_held(number, &c) || blocks)
            CHECK(!verdict->allowed && verdict->retry_after_ns >= answer.retry_after_ns);
        else if (rules[number].limit.algorithm !=
                 RATION_LEAKY_BUCKET) /* its delay may be too long */
            CHECK(verdict->retry_after_ns == answer.retry_after_ns);
    }
}

static void live(void)
{
    uint64_t until = steps + WORLD_STEPS;
    unsigned crowd = 1 + (unsigned)random_below(40);

    for (unsigned i = 0; steps < until; i++) {
        uint64_t what = random_below(100);

        if (what < 10 + crowd)
            somebody_arrives();
        else if (what < 15 + crowd)
            somebody_leaves();
        else if (what < 22 + crowd)
            something_comes_back();
        else
            pass_until(now_ns + (random_below(50) ? (int64_t)random_below(100) * MS
                                                  : (int64_t)random_scale(1, 3000000000)));
        ration_waiting_run(waiting, now_ns);
        if (i % 8 == 0)
            compare_states();
    }
    pass_until(now_ns + 10 * SECOND); /* nobody may wait longer */
    for (unsigned j = 0; j < CLIENTS; j++)
        CHECK(!clients[j].waits);
}

static void lines_behave_as_the_model_says(void **unused)
{
    struct ration_waiting_totals totals;

    (void)unused;
    random_init();
    while (steps < STEPS * soak_factor()) {
        open_world();
        live();
        ration_waiting_totals(r, &totals);
        CHECK(totals.waiting == 0 && totals.lines == 0);
        ration_waiting_free(waiting);
        ration_close(r);
    }
    print_message("# %" PRIu64 " steps: %" PRIu64 " waited, %" PRIu64 " of them went, %" PRIu64
                  " were refused\n",
                  steps, waits, went, gone);
    print_message("# %" PRIu64 " claims, which %" PRIu64 " decisions met; %" PRIu64
                  " turns of those that claim\n",
                  claims, claimed, progress);
    assert_true(went > steps / 100 && gone > steps / 1000 && claims > steps / 1000 &&
                claimed > steps / 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines_behave_as_the_model_says)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
