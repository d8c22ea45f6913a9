/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No cliffs: what a request costs when something unusual is in force, as a ratio to the same
 * request without it. Instructions over RESP (RATION.CHECK), HTTP (POST /v1/check), and in the
 * library (ration_decide, ration_check).
 *
 *   bench-cliffs [clients | refusals | limits | headers | factor | escalate | earn | usage]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ration/clients.h>

#include "front/http/conversation.h"
#include "front/resp/resp_internal.h"
#include "limiter/factor.h"
#include "limiter/limiter.h"
#include "paper.h"
#include "steps.h"

#define REQUESTS 4 /* with keys of their own; they arrive together */
#define OVERRIDES 10000
#define BANS 1000 /* half of them addresses, half users */
#define LIMITS 5

enum way { BY_RESP, BY_HTTP, BY_DECIDE, BY_CHECK, WAYS };

static const char *const way_names[WAYS] = {"RATION.CHECK", "POST /v1/check", "ration_decide",
                                            "ration_check"};

static unsigned missed;

/* What is in force, and how a request is decided under it. */
struct setting {
    unsigned limits; /* that apply to each request */
    bool refused, without_headers, clients;
    unsigned factor;   /* in percent, of rules that adapt; 0: they do not */
    bool state;        /* there is a state file */
    const char *limit; /* of the rules; NULL: ample */
    const char *extra; /* what the rules have besides; NULL: nothing */
    bool banned;       /* by a rule */
};

/* A limiter under one setting, and requests for it. */
struct bench {
    struct rn_front front;
    struct ration_request requests[REQUESTS];
    struct ration_attribute attributes[REQUESTS][3];
    struct ration_charge charges[REQUESTS][LIMITS];
    unsigned limits;
};

static void must(bool worked, const char *what)
{
    if (worked)
        return;
    fprintf(stderr, "bench-cliffs: %s failed\n", what);
    exit(1);
}

/* --- settings ----------------------------------------------------------------------- */

static struct ration_attribute attribute(const char *name, const char *value)
{
    return (struct ration_attribute){name, strlen(name), value, strlen(value)};
}

static const char *limit_text(const struct setting *s)
{
    if (s->limit)
        return s->limit;
    return s->refused ? "1 per hour" : "1000000 per second";
}

static void load_rules(struct ration *r, const struct setting *s)
{
    static const char *const keys[LIMITS] = {"user", "ip", "path", "[user, ip]", "[user, path]"};
    struct rn_buf text = {0};

    if (s->without_headers)
        rn_buf_putf(&text, "response: {headers: none}\n");
    if (s->factor != 0)
        rn_buf_putf(&text, "signals: {jobs: {source: push, expires: 30s}}\n");
    rn_buf_putf(&text, "limits:\n");
    for (unsigned i = 0; i < s->limits; i++)
        rn_buf_putf(&text, "  - {name: api%u, when: {path: /api/**}, key: %s, limit: %s%s%s}\n", i,
                    keys[i], limit_text(s),
                    s->factor != 0 ? ", adapt: {when: jobs above 1000, to: 50%}" : "",
                    s->extra ? s->extra : "");
    must(ration_rules_parse(r, "rules", text.data, text.len, NULL) == 0, "ration_rules_parse");
    rn_buf_done(&text);
}

static void set_factor(struct ration *r, unsigned percent)
{
    const struct rn_book *book = __atomic_load_n(&r->shelf.book, __ATOMIC_RELAXED);
    const struct rn_rule *rule = rn_book_find(book, RN_SLICE("api0"));

    must(rule != NULL, "rn_book_find");
    rn_factor_set(r, book, rule, percent);
    must(rn_factor_get(book, rule) == percent, "rn_factor_set");
}

/* None of them is about a client that asks. */
static void set_clients(struct ration *r)
{
    struct ration_error error;
    char value[32];

    for (unsigned i = 0; i < OVERRIDES; i++) {
        struct ration_attribute user = {"user", 4, value, 0};
        struct ration_override o = {.rule = "api0", .rule_len = 4, .attributes = &user, .count = 1};

        user.value_len = (size_t)snprintf(value, sizeof value, "other:%u", i);
        o.limit = "50 per second";
        o.limit_len = strlen(o.limit);
        must(ration_override_set(r, &o, &error) == 0, "ration_override_set");
    }
    for (unsigned i = 0; i < BANS; i++) {
        struct ration_attribute a;

        if (i % 2 == 0)
            snprintf(value, sizeof value, "10.0.%u.%u", i / 250, i % 250);
        else
            snprintf(value, sizeof value, "banned:%u", i);
        a = attribute(i % 2 == 0 ? "ip" : "user", value);
        must(ration_ban_set(r, &(struct ration_ban){.attributes = &a, .count = 1}, &error) == 0,
             "ration_ban_set");
    }
}

/* The same limits as those of the rules are also there by name, for ration_check. */
static void open_limiter(struct bench *b, const struct setting *s)
{
    static const char *const names[LIMITS] = {"a", "b", "c", "d", "e"};
    const char *text = limit_text(s);
    struct ration_named named[LIMITS];
    struct ration_error error;
    char state[] = "/dev/shm/bench-cliffs-XXXXXX", usage[sizeof state + sizeof ".usage"];

    for (unsigned i = 0; i < s->limits; i++) {
        named[i] = (struct ration_named){.name = names[i]};
        must(ration_limit_parse(text, strlen(text), &named[i].limit, &error) == 0, text);
    }
    must(!s->state || mkdtemp(state) != NULL, "mkdtemp");
    must(!s->state || rmdir(state) == 0, "rmdir"); /* a file takes the name */
    must(ration_open(&(struct ration_options){.state_path = s->state ? state : NULL,
                                              .limits = named,
                                              .limit_count = s->limits},
                     &b->front.limiter, &error) == 0,
         "ration_open");
    load_rules(b->front.limiter, s);
    snprintf(usage, sizeof usage, "%s.usage", state);
    if (s->state)
        must(unlink(state) == 0 && (!s->extra || unlink(usage) == 0), "unlink");
}

static void make_requests(struct bench *b)
{
    static const char *const users[REQUESTS] = {"ann", "benjamin", "carlotta", "dave"};
    static const char *const addresses[REQUESTS] = {"192.0.2.7", "198.51.100.23", "203.0.113.200",
                                                    "192.0.2.143"};

    for (unsigned i = 0; i < REQUESTS; i++) {
        b->attributes[i][0] = attribute("ip", addresses[i]);
        b->attributes[i][1] = attribute("user", users[i]);
        b->attributes[i][2] = attribute("path", "/api/items");
        b->requests[i] = (struct ration_request){.attributes = b->attributes[i], .count = 3};
        for (unsigned n = 0; n < b->limits; n++)
            b->charges[i][n] = (struct ration_charge){
                .limit = n, .key = users[i], .key_len = strlen(users[i]), .cost = 1};
    }
}

/* The third request of a client is decided as all that follow. */
static void verify(struct bench *b, const struct setting *s)
{
    struct ration_outcome out;

    for (unsigned i = 0; i < REQUESTS; i++) {
        ration_decide(b->front.limiter, &b->requests[i], RATION_NOW, &out);
        ration_decide(b->front.limiter, &b->requests[i], RATION_NOW, &out);
        must(ration_decide(b->front.limiter, &b->requests[i], RATION_NOW, &out) == 0 &&
                 out.decision.allowed == !s->refused &&
                 (out.kind == RATION_BY_ESCALATION) == s->banned &&
                 out.limit_count == (s->banned ? 0 : s->limits),
             "the setting");
    }
}

static struct bench *bench_new(const struct setting *s)
{
    struct bench *b = calloc(1, sizeof *b);

    must(b != NULL, "calloc");
    b->limits = s->limits;
    open_limiter(b, s);
    if (s->clients)
        set_clients(b->front.limiter);
    if (s->factor != 0)
        set_factor(b->front.limiter, s->factor);
    must(rn_front_init(&b->front, b->front.limiter, NULL) == 0, "rn_front_init");
    make_requests(b);
    verify(b, s);
    return b;
}

static void bench_free(struct bench *b)
{
    struct ration *limiter = b->front.limiter;

    rn_front_done(&b->front);
    ration_close(limiter);
    free(b);
}

/* --- counting ----------------------------------------------------------------------- */

static void decide(void *context, uint64_t count)
{
    struct bench *b = context;
    struct ration_outcome out;

    for (; count > 0; count--)
        for (unsigned i = 0; i < REQUESTS; i++)
            ration_decide(b->front.limiter, &b->requests[i], RATION_NOW, &out);
}

static void check(void *context, uint64_t count)
{
    struct bench *b = context;
    struct ration_decision decision;

    for (; count > 0; count--)
        for (unsigned i = 0; i < REQUESTS; i++)
            ration_check(b->front.limiter, b->charges[i], b->limits, RATION_NOW, &decision);
}

static double steps_over_wire(struct bench *b, const struct rn_protocol *protocol,
                              void (*put)(struct rn_buf *, const struct ration_request *))
{
    struct rn_buf bytes = {0};

    for (unsigned i = 0; i < REQUESTS; i++)
        put(&bytes, &b->requests[i]);
    double steps = paper_steps(&b->front, protocol, rn_buf_slice(&bytes), 1);

    rn_buf_done(&bytes);
    return steps;
}

/* Instructions of one request. */
static double steps_of(struct bench *b, enum way way)
{
    switch (way) {
    case BY_RESP:
        return steps_over_wire(b, &rn_resp_protocol, paper_put_resp_check) / REQUESTS;
    case BY_HTTP:
        return steps_over_wire(b, &rn_http_protocol, paper_put_http_check) / REQUESTS;
    case BY_DECIDE:
        return bench_steps(decide, b, 1) / REQUESTS;
    case BY_CHECK:
        return bench_steps(check, b, 1) / REQUESTS;
    case WAYS:
        break;
    }
    return 0;
}

/* --- rows --------------------------------------------------------------------------- */

struct comparison {
    const char *name, *what;
    struct setting without, with;
    double goal;
    unsigned ways; /* bits of enum way */
};

#define ESCALATE(after) ", escalate: {after: " after " refusals within 1s, ban: 1h}"
#define EARN(after) ", earn: {every: 24h, add: 50%, lost_by: " after " refusals within 1h}"
#define ALL_WAYS ((1u << WAYS) - 1)
#define WITH_RULES (1u << BY_RESP | 1u << BY_HTTP | 1u << BY_DECIDE)

static const struct comparison comparisons[] = {
    {"clients",
     "10,000 overrides and 1,000 bans of other clients, against none",
     {.limits = 1},
     {.limits = 1, .clients = true},
     1.10,
     WITH_RULES},
    {"refusals",
     "a refusal, against an admission",
     {.limits = 1},
     {.limits = 1, .refused = true},
     1.15,
     ALL_WAYS},
    {"limits", "three limits, against one", {.limits = 1}, {.limits = 3}, 2.4, ALL_WAYS},
    {"limits", "five limits, against one", {.limits = 1}, {.limits = 5}, 4.0, ALL_WAYS},
    {"headers",
     "all headers, against none",
     {.limits = 1, .without_headers = true},
     {.limits = 1},
     1.5,
     1u << BY_HTTP},
    {"factor",
     "a factor of 50 %, against a rule that does not adapt",
     {.limits = 1, .limit = "1000 per second"},
     {.limits = 1, .limit = "1000 per second", .factor = 50},
     1.03,
     WITH_RULES},
    {"factor",
     "a factor of 100 %, against a rule that does not adapt",
     {.limits = 1, .limit = "1000 per second"},
     {.limits = 1, .limit = "1000 per second", .factor = 100},
     1.03,
     WITH_RULES},
    {"usage",
     "usage counted, against a rule without",
     {.limits = 1, .state = true},
     {.limits = 1, .state = true, .extra = ", usage: true"},
     1.3,
     WITH_RULES},
    {"usage",
     "a refusal that usage counts, against one without",
     {.limits = 1, .refused = true, .state = true},
     {.limits = 1, .refused = true, .state = true, .extra = ", usage: true"},
     1.3,
     WITH_RULES},
    {"usage",
     "usage of three rules, against none",
     {.limits = 3, .state = true},
     {.limits = 3, .state = true, .extra = ", usage: true"},
     1.5,
     WITH_RULES},
    {"escalate",
     "an admission under a rule that escalates, against one under a rule that does not",
     {.limits = 1},
     {.limits = 1, .extra = ESCALATE("1000")},
     1.30,
     WITH_RULES},
    {"escalate",
     "a refusal that counts, against one under a rule that does not escalate",
     {.limits = 1, .refused = true},
     {.limits = 1, .refused = true, .extra = ESCALATE("1000")},
     1.30,
     WITH_RULES},
    {"escalate",
     "a banned client, against a plain refusal",
     {.limits = 1, .refused = true},
     {.limits = 1, .refused = true, .banned = true, .extra = ESCALATE("1")},
     1.10,
     WITH_RULES},
    {"earn",
     "an admission under a rule with earn, against one under a rule without",
     {.limits = 1, .limit = "1000 per second"},
     {.limits = 1, .limit = "1000 per second", .extra = EARN("3")},
     1.15,
     WITH_RULES},
    {"earn",
     "a refusal that counts, against one under a rule without earn",
     {.limits = 1, .refused = true},
     {.limits = 1, .refused = true, .extra = EARN("1000")},
     1.30,
     WITH_RULES},
};

static void compare(const struct comparison *c)
{
    struct bench *without = bench_new(&c->without), *with = bench_new(&c->with);

    puts(c->what);
    for (enum way way = 0; way < WAYS; way++) {
        if ((c->ways & 1u << way) == 0)
            continue;
        double before = steps_of(without, way), after = steps_of(with, way);
        bool met = after <= c->goal * before;

        missed += !met;
        printf("  %-16s %8.0f %8.0f %7.3f times   goal <= %-5g %s\n", way_names[way], before, after,
               after / before, c->goal, met ? "met" : "MISSED");
        fflush(stdout);
    }
    bench_free(without);
    bench_free(with);
}

int main(int argc, char **argv)
{
    bool known = argc < 2;

    for (size_t i = 0; i < sizeof comparisons / sizeof *comparisons; i++) {
        if (argc > 1 && strcmp(argv[1], comparisons[i].name) != 0)
            continue;
        known = true;
        compare(&comparisons[i]);
    }
    if (!known) {
        fprintf(stderr,
                "bench-cliffs: the argument must be clients, refusals, limits, headers, "
                "factor, escalate, earn or usage, not \"%s\"\n",
                argv[1]);
        return 2;
    }
    printf(missed ? "%u goals missed\n" : "all goals met\n", missed);
    return 0;
}
