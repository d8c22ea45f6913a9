/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The test of an algorithm makes random decisions about one limit, by the same functions that every
 * store calls. Each is compared with what the state said before: by a look, or by asking a copy.
 */
#include "limiter/own_algorithm.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "core/algorithm.h"
#include "core/limit.h"

#define WORDS_MAX (RATION_STATE_MAX / 8 + 8)
#define BEGIN_NS (INT64_C(1700000000) * 1000000000)
#define END_NS (BEGIN_NS + 10 * RATION_PERIOD_MAX_NS)

/* --- those given at open ----------------------------------------------------------------- */

static bool is_name(const char *name)
{
    size_t len = name ? strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") : 0;

    return len != 0 && name[len] == '\0' && len < RATION_NAME_SIZE;
}

static bool is_ours(const char *name)
{
    for (const struct rn_algorithm *a = rn_algorithms; a->name; a++)
        if (strcmp(a->name, name) == 0)
            return true;
    return false;
}

static const char *fault_of(const struct ration_own_algorithm *a)
{
    if (!a || a->size < sizeof *a)
        return "is of another version; set size to sizeof(struct ration_own_algorithm)";
    if (!is_name(a->name))
        return "has no name of small letters, digits and -";
    if (is_ours(a->name))
        return "has the name of one of the library's; choose another";
    if (!a->take || !a->give_back)
        return "is not whole; set take and give_back";
    if (a->state_bytes == 0 || a->state_bytes > RATION_STATE_MAX)
        return "has a state that is not 1 to 256 bytes; set state_bytes";
    return NULL;
}

int rn_own_algorithm_check_all(const struct ration_own_algorithm *const *algorithms, size_t count,
                               struct ration_error *error)
{
    if (count > RATION_OWN_ALGORITHMS_MAX || (count != 0 && !algorithms))
        return rn_error_set(error, RATION_EINVAL, 0,
                            "%zu algorithms of your own, but no list of that length, which is %d "
                            "at most",
                            count, RATION_OWN_ALGORITHMS_MAX);
    for (size_t i = 0; i < count; i++) {
        const char *fault = fault_of(algorithms[i]);

        for (size_t j = 0; !fault && j < i; j++)
            if (strcmp(algorithms[i]->name, algorithms[j]->name) == 0)
                fault = "has the name of another; choose another";
        if (fault)
            return rn_error_set(error, RATION_EINVAL, 0, "algorithm %zu of your own %s", i, fault);
    }
    return 0;
}

/* --- the test ---------------------------------------------------------------------------- */

struct state {
    uint64_t words[WORDS_MAX];
};

struct trial {
    struct rn_limit limit, half; /* of the same state */
    struct state state;
    int64_t now_ns;
    uint64_t random, round;
    struct ration_error *error;
    int code;
};

static uint64_t draw(struct trial *t, uint64_t below)
{
    t->random ^= t->random << 13;
    t->random ^= t->random >> 7;
    t->random ^= t->random << 17;
    return t->random % below;
}

__attribute__((format(printf, 2, 3))) static void blame(struct trial *t, const char *format, ...)
{
    char text[160];
    va_list args;

    if (t->code != 0)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    t->code = rn_error_set(t->error, RATION_EALGORITHM, 0, "round %" PRIu64 ": %s", t->round, text);
}

static struct rn_answer ask(struct trial *t, const struct rn_limit *limit, struct state *s,
                            struct rn_ask ask)
{
    struct rn_answer answer = {0}, again = {0};
    struct state copy = *s;
    enum rn_outcome outcome = rn_limit_apply(limit, s->words, limit->words_full, &ask, &answer);

    if (outcome == RN_FAULT)
        blame(t, "an answer out of bounds: more remains than fits, a wait that is negative or too "
                 "long, a refusal of what remains, or bytes written behind the state");
    rn_limit_apply(limit, copy.words, limit->words_full, &ask, &again);
    if (memcmp(&copy, s, sizeof copy) != 0 || answer.allowed != again.allowed ||
        answer.remaining != again.remaining || answer.retry_after_ns != again.retry_after_ns)
        blame(t, "the same question about the same state had two answers");
    return answer;
}

static struct rn_answer look(struct trial *t, const struct rn_limit *limit, struct state s,
                             int64_t now_ns, uint64_t cost)
{
    return ask(t, limit, &s, (struct rn_ask){.op = RN_PEEK, .now_ns = now_ns, .cost = cost});
}

static struct rn_answer take(struct trial *t, const struct rn_limit *limit, struct state *s,
                             int64_t now_ns, uint64_t cost)
{
    return ask(t, limit, s, (struct rn_ask){.op = RN_TAKE, .now_ns = now_ns, .cost = cost});
}

/* Not more and not less than remains is admitted; time gives and never takes. */
static void check_look(struct trial *t)
{
    uint64_t left = look(t, &t->limit, t->state, t->now_ns, 0).remaining, cap = t->limit.cap;
    struct rn_answer fits = look(t, &t->limit, t->state, t->now_ns, left);
    int64_t pause_ns = (int64_t)draw(t, (uint64_t)t->limit.longest_ns);

    if (!fits.allowed)
        blame(t, "%" PRIu64 " remain, and a cost of as many is refused", left);
    if (left < cap && look(t, &t->limit, t->state, t->now_ns, left + 1).allowed)
        blame(t, "%" PRIu64 " remain, and a cost of one more is admitted", left);
    if (look(t, &t->limit, t->state, t->now_ns + pause_ns, 0).remaining < left)
        blame(t, "less remains after %" PRId64 " ns than before them", pause_ns);
    if (look(t, &t->limit, t->state, t->now_ns + fits.reset_after_ns, cap).allowed == false)
        blame(t, "after reset_after_ns the capacity is refused");
    if (fits.reset_after_ns > t->limit.longest_ns)
        blame(t, "reset_after_ns %" PRId64 " is longer than longest_ns %" PRId64,
              fits.reset_after_ns, t->limit.longest_ns);
}

static void check_refusal(struct trial *t, uint64_t cost, const struct rn_answer *refusal)
{
    if (cost <= t->limit.cap &&
        !look(t, &t->limit, t->state, t->now_ns + refusal->retry_after_ns, cost).allowed)
        blame(t, "a cost of %" PRIu64 " is refused after its retry_after_ns", cost);
}

/* `before` is the state without the charge: the one after it and without it must not have more. */
static void check_give_back(struct trial *t, const struct state *before, uint64_t cost,
                            int64_t at_ns, int64_t mark)
{
    struct state after = t->state, without = *before;
    int64_t now_ns = at_ns;
    struct rn_ask back = {.op = RN_GIVE_BACK, .cost = cost, .at_ns = at_ns, .mark = mark};

    if (draw(t, 2)) {
        uint64_t other = draw(t, look(t, &t->limit, after, at_ns, 0).remaining + 1);

        now_ns += (int64_t)draw(t, (uint64_t)t->limit.longest_ns);
        take(t, &t->limit, &after, now_ns, other);
        take(t, &t->limit, &without, now_ns, other);
        now_ns += (int64_t)draw(t, (uint64_t)t->limit.longest_ns / 8 + 1);
    }
    back.now_ns = now_ns;
    ask(t, &t->limit, &after, back);
    uint64_t has = look(t, &t->limit, after, now_ns, 0).remaining;
    uint64_t may = look(t, &t->limit, without, now_ns, 0).remaining;

    if (has > may)
        blame(t,
              "give_back of %" PRIu64 " made units: %" PRIu64 " remain, and %" PRIu64
              " without the charge",
              cost, has, may);
}

static void check_charge(struct trial *t, uint64_t cost)
{
    struct state before = t->state, parts = t->state;
    struct rn_answer first = look(t, &t->limit, before, t->now_ns, 0);
    uint64_t narrow = look(t, &t->half, before, t->now_ns, 0).remaining, part = draw(t, cost + 1);
    struct rn_answer a = take(t, &t->half, &parts, t->now_ns, part);

    if (a.allowed && look(t, &t->limit, parts, t->now_ns, 0).remaining + part > first.remaining)
        blame(t, "a charge of %" PRIu64 " at half the amount counts for less at the whole", part);
    parts = before;
    a = take(t, &t->limit, &t->state, t->now_ns, cost);
    if (!a.allowed) {
        check_refusal(t, cost, &a);
        return;
    }
    if (a.remaining + cost > first.remaining || a.remaining + cost + 1 < first.remaining)
        blame(t, "%" PRIu64 " remained, %" PRIu64 " were taken, and %" PRIu64 " remain",
              first.remaining, cost, a.remaining);
    take(t, &t->limit, &parts, t->now_ns, part);
    uint64_t rest = take(t, &t->limit, &parts, t->now_ns, cost - part).remaining;

    if (rest > a.remaining || rest + 1 < a.remaining)
        blame(t, "%" PRIu64 " taken in two parts leave another remainder than at once", cost);
    uint64_t now_narrow = look(t, &t->half, t->state, t->now_ns, 0).remaining;

    if (now_narrow > (narrow > cost / 2 ? narrow - cost / 2 : 0))
        blame(t, "a charge of %" PRIu64 " counts for less at half the amount", cost);
    if (cost != 0)
        check_give_back(t, &before, cost, t->now_ns, a.mark);
}

/* Whatever a damaged file holds, the answer must be within bounds. */
static void check_damage(struct trial *t)
{
    struct state damaged = t->state;

    for (uint32_t i = 3; i < t->limit.words_full; i++)
        damaged.words[i] = draw(t, 2) ? (draw(t, UINT64_MAX) << 1 | draw(t, 2)) : draw(t, 1000);
    damaged.words[0] = (uint64_t)(t->now_ns + t->limit.longest_ns);
    damaged.words[1] = (uint64_t)t->now_ns;
    look(t, &t->limit, damaged, t->now_ns, draw(t, t->limit.cap) + 1);
}

static void run(struct trial *t, uint64_t rounds)
{
    for (t->round = 1; t->round <= rounds && t->code == 0; t->round++) {
        uint64_t cap = t->limit.cap, small = cap < 8 ? cap : 8;
        int64_t unit_ns = t->limit.longest_ns / (int64_t)(cap < 1000 ? cap : 1000) + 1;

        if (t->now_ns > END_NS) {
            t->now_ns = BEGIN_NS;
            t->state = (struct state){0};
        }
        if (draw(t, 3))
            t->now_ns += (int64_t)draw(t, 4 * (uint64_t)unit_ns);
        if (draw(t, 50) == 0)
            t->now_ns += (int64_t)draw(t, 2 * (uint64_t)t->limit.longest_ns);
        check_look(t);
        check_charge(t, draw(t, 4) ? draw(t, small + 1) : draw(t, cap + 2));
        check_damage(t);
    }
}

int ration_algorithm_test(const struct ration_own_algorithm *algorithm,
                          const struct ration_terms *terms, uint64_t rounds, uint64_t seed,
                          struct ration_error *error)
{
    struct ration_limit spec = {.algorithm = RATION_OWN_ALGORITHM, .own = algorithm};
    struct trial t = {.now_ns = BEGIN_NS, .random = seed * 2 + 1, .error = error};
    const char *fault = fault_of(algorithm);

    if (fault)
        return rn_error_set(error, RATION_EINVAL, 0, "the algorithm %s", fault);
    if (!terms || terms->amount == 0)
        return rn_error_set(error, RATION_EINVAL, 0,
                            "the limit has no amount; set it to 1 or more");
    spec.amount = terms->amount;
    spec.period_ns = terms->period_ns;
    spec.burst = terms->capacity;
    fault = rn_limit_fault(&spec);
    if (fault)
        return rn_error_set(error, RATION_EINVAL, 0, "the limit has %s", fault);
    rn_limit_init(&t.limit, &spec);
    spec.amount = (spec.amount + 1) / 2;
    spec.burst = (spec.burst + 1) / 2;
    if (rn_limit_fault(&spec) == NULL)
        rn_limit_init(&t.half, &spec);
    else
        t.half = t.limit;
    run(&t, rounds);
    return t.code;
}
