/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random histories of clients under rules with escalate and earn, also while signals change the
 * factor: every decision against a naive one, made of the naive reputation (model/reputation.h)
 * and limits that are a debt or a count. A million decisions; RATION_SOAK=1: a hundred million.
 */
#include "factor_fixture.h"

#include "model/random.h"
#include "model/reputation.h"

#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)

#define HISTORIES 50
#define DECISIONS 22000 /* of each, in about two years */
#define CLIENTS 24      /* of each rule */

/* Whole nanoseconds at every factor that can occur: 50 to 300 percent. */
#define UNIT_NS (1512 * SECOND)
#define CAP 20
#define SECOND_UNIT_NS (2 * UNIT_NS)
#define SECOND_CAP 60
#define WINDOW_NS (8 * HOUR)

#define REPUTATION                                                                                 \
    "    escalate: {after: 5 refusals within 10m, ban: 20m, grow: 3x, up_to: 12h, forget: 48h}\n"  \
    "    earn: {every: 12h, add: 20%, up_to: 200%, lost_by: 3 refusals within 1h, forget: 72h}\n"  \
    "    adapt: {when: load above 10, to: 50%, restore: {for: 1s, by: 50%, every: 1s}}\n"          \
    "    elastic: {up_to: 150%, while: load below 5, for: 1s, by: 50%, every: 1s}\n"

static const char rules[] =
    "signals: {load: {source: push, expires: 1h}}\n"
    "limits:\n"
    "  - name: bucket\n"
    "    when: {path: /bucket}\n"
    "    key: user\n"
    "    limit: 20 per 504m\n" REPUTATION "  - name: window\n"
    "    when: {path: /window}\n"
    "    key: user\n"
    "    algorithm: fixed-window\n"
    "    limit: 20 per 8h\n" REPUTATION "  - name: pair\n"
    "    when: {path: /pair}\n"
    "    key: user\n"
    "    limit: [20 per 504m, 60 per 3024m]\n" REPUTATION "  - name: long\n"
    "    when: {path: /long}\n"
    "    key: user\n"
    "    limit: 20 per 504m\n"
    "    priority: {by: importance, levels: {high: 0%, low: 50%}, default: high}\n" REPUTATION;

enum { BUCKET, WINDOW, PAIR, LONG, RULES };
static const char *const names[] = {"bucket", "window", "pair", "long"};

static struct model_escalation escalation = {
    .after = 5, .within_ns = 10 * MINUTE, .forget_ns = 48 * HOUR};
static const struct model_earning earning = {.every_ns = 12 * HOUR,
                                             .forget_ns = 72 * HOUR,
                                             .lost_within_ns = HOUR,
                                             .add = 20,
                                             .up_to = 200,
                                             .lost_after = 3};

struct client {
    struct model_offender offender;
    struct model_earner earner;
    int64_t debt_ns[2], at_ns; /* buckets: what must still be refilled */
    int64_t window;            /* its number, */
    uint64_t count;            /* and what is spent of it */
    uint64_t greed;            /* the most it asks for at once */
};

static struct client clients[RULES][CLIENTS];
static unsigned factors[RULES];
static uint64_t seen_bans, seen_refusals, seen_earned, seen_lowered;

/* --- the naive limits ----------------------------------------------------------------------- */

static void pass_time(struct client *c, int64_t now_ns)
{
    for (int i = 0; i < 2; i++)
        c->debt_ns[i] = c->debt_ns[i] > now_ns - c->at_ns ? c->debt_ns[i] - (now_ns - c->at_ns) : 0;
    c->at_ns = now_ns;
    if (c->window != now_ns / WINDOW_NS)
        c->count = 0;
    c->window = now_ns / WINDOW_NS;
}

/* Whether `cost` units and `keep` more fit, at the price of this factor. */
static bool fits(const struct client *c, int rule, unsigned percent, uint64_t cost, uint64_t keep)
{
    int64_t units = (int64_t)(cost + keep);

    if (rule == WINDOW)
        return c->count + cost + keep <= CAP * percent / 100;
    return c->debt_ns[0] + units * (UNIT_NS * 100 / percent) <= CAP * UNIT_NS &&
           (rule != PAIR || c->debt_ns[1] + units * (SECOND_UNIT_NS * 100 / percent) <=
                                SECOND_CAP * SECOND_UNIT_NS);
}

static void spend(struct client *c, unsigned percent, uint64_t cost)
{
    c->count += cost;
    c->debt_ns[0] += (int64_t)cost * (UNIT_NS * 100 / percent);
    c->debt_ns[1] += (int64_t)cost * (SECOND_UNIT_NS * 100 / percent);
}

/* --- decisions ------------------------------------------------------------------------------ */

static void fail_at(const char *what, int rule, int64_t now_ns)
{
    fail_msg("%s under %s at %" PRId64 " (RATION_SEED=%" PRIu64 ")", what, names[rule], now_ns,
             random_seed);
}

static void check_ban(const struct client *c, int rule, const struct ration_outcome *out,
                      int64_t now_ns)
{
    seen_bans++;
    if (out->kind != RATION_BY_ESCALATION || out->decision.allowed)
        fail_at("a banned client was not refused as such", rule, now_ns);
    if (out->level != c->offender.level ||
        out->decision.verdict.retry_after_ns != model_offender_rest_ns(&c->offender, now_ns))
        fail_at("the level or the rest of a ban differs", rule, now_ns);
}

/* A refusal counts unless the factor is below 100, or it was for its priority only. */
static void refuse(struct client *c, int rule, bool counts, int64_t now_ns)
{
    seen_refusals++;
    seen_lowered += factors[rule] < 100;
    if (!counts || factors[rule] < 100)
        return;
    model_offender_note(&c->offender, now_ns);
    if (model_offender_refuse(&c->offender, now_ns) &&
        !model_offender_has_earned(&c->offender, c->offender.level, c->offender.ban_ends_ns,
                                   now_ns))
        fail_at("a ban was not earned", rule, now_ns);
    if (model_earner_refuse(&c->earner, now_ns) && !model_earner_has_lost(&c->earner))
        fail_at("steps were lost without enough refusals", rule, now_ns);
}

static void decide_both(struct ration *r, int rule, unsigned user, int64_t now_ns)
{
    struct client *c = &clients[rule][user];
    bool low = rule == LONG && random_below(4) == 0;
    uint64_t cost = 1 + random_below(c->greed);
    char words[80];

    snprintf(words, sizeof words, "path=/%s user=u%u importance=%s", names[rule], user,
             low ? "low" : "high");
    struct ration_outcome out = decide_cost(r, words, cost, stopped_at(r, now_ns));

    pass_time(c, now_ns);
    if (model_offender_rest_ns(&c->offender, now_ns) != 0) {
        check_ban(c, rule, &out, now_ns);
        return;
    }
    unsigned earned = model_earner_percent(&c->earner, now_ns);
    unsigned percent = factors[rule] * earned / 100, cap = CAP * percent / 100;
    uint64_t keep = low ? (cap * 50 + 99) / 100 : 0;
    bool allowed = fits(c, rule, percent, cost, keep);

    seen_earned += earned > 100;
    if (out.kind != RATION_BY_LIMITS || out.decision.allowed != allowed)
        fail_at(allowed ? "the model admits" : "the model refuses", rule, now_ns);
    if (out.limits[0].verdict.limit != cap)
        fail_at("another limit is told", rule, now_ns);
    if (!allowed) {
        refuse(c, rule, !fits(c, rule, percent, cost, 0), now_ns);
        return;
    }
    spend(c, percent, cost);
    model_earner_admit(&c->earner, now_ns);
}

static int64_t random_pause(void)
{
    switch (random_below(16)) {
    case 0:
        return (int64_t)random_below(2 * (uint64_t)DAY);
    case 1:
    case 2:
        return (int64_t)random_below((uint64_t)HOUR);
    case 3:
        return (int64_t)random_below((uint64_t)UNIT_NS);
    case 4:
        return 12 * HOUR;
    case 5:
    case 6:
    case 7:
        return (int64_t)random_below(2 * (uint64_t)MINUTE);
    default:
        return 0;
    }
}

static void set_up(void)
{
    int64_t ban_ns = 20 * MINUTE;

    for (unsigned level = 1; level < MODEL_LEVELS; level++) {
        escalation.ban_ns[level] = ban_ns;
        ban_ns = 3 * ban_ns < 12 * HOUR ? 3 * ban_ns : 12 * HOUR;
    }
    for (int rule = 0; rule < RULES; rule++) {
        factors[rule] = 100;
        for (unsigned user = 0; user < CLIENTS; user++) {
            struct client *c = &clients[rule][user];

            *c = (struct client){0};
            c->greed = 1 + user % 4 * 3;
            c->at_ns = T0;
            model_offender_init(&c->offender, &escalation);
            model_earner_init(&c->earner, &earning);
        }
    }
}

static void tear_down(void)
{
    for (int rule = 0; rule < RULES; rule++)
        for (unsigned user = 0; user < CLIENTS; user++) {
            model_offender_done(&clients[rule][user].offender);
            model_earner_done(&clients[rule][user].earner);
        }
}

/* One client comes for a while, then another. */
static void run_history(void)
{
    static const unsigned percents[] = {50, 100, 100, 100, 150};
    struct ration *r = open_rules(rules);
    int64_t now_ns = T0;
    int rule = 0;
    unsigned user = 0;

    set_up();
    for (unsigned i = 0; i < DECISIONS; i++) {
        now_ns += random_pause();
        if (random_below(30) == 0) {
            rule = (int)random_below(RULES);
            user = (unsigned)random_below(CLIENTS);
        }
        if (random_below(60) == 0) {
            factors[rule] = percents[random_below(COUNT(percents))];
            set_factor(r, names[rule], factors[rule]);
        }
        decide_both(r, rule, user, now_ns);
    }
    tear_down();
    ration_close(r);
}

static void every_decision_is_that_of_the_model(void **state)
{
    uint64_t histories = HISTORIES * soak_factor(), all = histories * DECISIONS;

    (void)state;
    random_init();
    for (uint64_t i = 0; i < histories; i++)
        run_history();
    print_message("# %" PRIu64 " decisions: refused %" PRIu64 " (%" PRIu64 " at a lowered factor), "
                  "banned %" PRIu64 ", more than written %" PRIu64 "; no difference\n",
                  all, seen_refusals, seen_lowered, seen_bans, seen_earned);
    assert_true(seen_refusals > all / 50 && seen_bans > all / 50);
    assert_true(seen_earned > all / 50 && seen_lowered > all / 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_decision_is_that_of_the_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
