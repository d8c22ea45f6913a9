/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adaptive concurrency in front of a simulated service with a knee. The service has as many
 * servers as the knee says; further requests wait in line, and each of them may also slow the
 * others down. Everything is deterministic: the time is the simulation's and chance is seeded.
 *
 * What is promised: at least 95 % of the throughput of the best fixed limit, at no more than
 * twice the latency of the service without load. RATION_SOAK=1 tries every fixed limit from 1 to
 * three times the knee.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../model/subject.h"
#include "unit/sanitized.h"

#define MS INT64_C(1000000)
#define HELD_MAX 4096 /* requests in flight */

enum arrivals { ALWAYS, RANDOM, BURSTS };
enum times { EQUAL, EXPONENTIAL, HEAVY_TAIL };
enum hostile { NOBODY, NEVER_RELEASE, RELEASE_AT_ONCE };

struct service {
    uint32_t knee, knee_later; /* servers, and from the middle on */
    int64_t time_ns, time_later_ns;
    unsigned slowdown_percent; /* for each knee of requests in flight above it */
    enum arrivals arrivals;
    enum times times;
    enum hostile hostile;
    uint32_t requests;
};

struct result {
    double per_second, latency_ns, unloaded_ns;
    uint64_t places; /* in force at the end */
};

struct request {
    int64_t ends_ns, began_ns;
    uint64_t id;
};

struct simulation {
    const struct service *service;
    struct subject subject;
    int64_t now, next_arrival;
    struct request busy[HELD_MAX], line[HELD_MAX];
    uint32_t busy_count, line_count, line_first, instant;
    uint64_t last_id, places;
    uint64_t fixed, held; /* not 0: so many places, instead of the subject's */
    uint64_t seed, started, arrived;
    bool later;
};

/* Number n of a sequence: above 0, at most 1. Each limit meets the same requests. */
static double chance(const struct simulation *s, uint64_t sequence, uint64_t n)
{
    uint64_t z = (s->seed * 2 + sequence + 1) * UINT64_C(0x9E3779B97F4A7C15) +
                 n * UINT64_C(0xD1342543DE82EF95);

    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    z ^= z >> 31;
    return ((double)(z >> 11) + 1) / 0x1p53;
}

static uint32_t knee_of(const struct simulation *s)
{
    return s->later && s->service->knee_later ? s->service->knee_later : s->service->knee;
}

static int64_t time_of(const struct simulation *s)
{
    return s->later && s->service->time_later_ns ? s->service->time_later_ns : s->service->time_ns;
}

static int64_t service_time(struct simulation *s)
{
    uint32_t in_flight = s->busy_count + s->line_count, knee = knee_of(s);
    double mean = (double)time_of(s), over = in_flight > knee ? in_flight - knee : 0;

    mean *= 1 + s->service->slowdown_percent / 100.0 * over / knee;
    switch (s->service->times) {
    case EXPONENTIAL:
        mean *= -log(chance(s, 0, s->started++));
        break;
    case HEAVY_TAIL: /* Pareto: no finite variance */
        mean *= pow(chance(s, 0, s->started++), -1 / 1.5) / 3;
        break;
    case EQUAL:
        break;
    }
    return mean < 1000 ? 1000 : (int64_t)mean;
}

static void start(struct simulation *s, struct request r)
{
    r.ends_ns = s->now + service_time(s);
    s->busy[s->busy_count++] = r;
}

/* False: refused. */
static bool admit(struct simulation *s)
{
    struct rn_ask ask = {
        .op = RN_TAKE, .now_ns = s->now, .cost = 1, .id = ++s->last_id, .lease_ns = 60 * SECOND};
    struct rn_answer answer;

    if (s->fixed != 0) {
        answer.allowed = s->held < s->fixed;
    } else {
        subject_ask(&s->subject, &ask, &answer);
        s->places = answer.places;
    }
    if (!answer.allowed)
        return false;
    s->held++;
    struct request r = {.began_ns = s->now, .id = ask.id};

    if (s->service->hostile == NEVER_RELEASE && ask.id % 500 == 7)
        return true;
    if (s->service->hostile == RELEASE_AT_ONCE && ask.id / 1000 % 4 == 3) {
        ask.op = RN_RELEASE;
        ask.now_ns += 1000;
        subject_ask(&s->subject, &ask, &answer);
        s->instant++;
        return true;
    }
    if (s->busy_count < knee_of(s))
        start(s, r);
    else
        s->line[(s->line_first + s->line_count++) % HELD_MAX] = r;
    return true;
}

static void plan_arrival(struct simulation *s)
{
    double rate = 1.5 * knee_of(s) / (double)time_of(s);

    if (s->service->arrivals == BURSTS)
        rate *= s->now / (time_of(s) * 40) % 3 == 0 ? 3 : 0.02;
    s->next_arrival = s->now + (int64_t)(-log(chance(s, 1, s->arrived++)) / rate) + 1;
}

static void finish(struct simulation *s, uint32_t i)
{
    struct rn_ask ask = {.op = RN_RELEASE, .now_ns = s->now, .id = s->busy[i].id};
    struct rn_answer answer;

    s->busy[i] = s->busy[--s->busy_count];
    s->held--;
    if (s->fixed == 0)
        subject_ask(&s->subject, &ask, &answer);
    while (s->line_count != 0 && s->busy_count < knee_of(s)) {
        start(s, s->line[s->line_first]);
        s->line_first = (s->line_first + 1) % HELD_MAX;
        s->line_count--;
    }
}

static struct ration_limit adaptive(void)
{
    return (struct ration_limit){RATION_CONCURRENCY, .amount = 500, .adaptive_min = 2};
}

/* The first half of each half of the time is for learning. `fixed` 0: the places are learnt. */
static struct result simulate(uint64_t fixed, const struct service *service, uint64_t seed)
{
    static struct simulation s;
    struct ration_limit limit = adaptive();
    int64_t half = (int64_t)(service->requests / 2 * (uint64_t)service->time_ns / service->knee);
    double latency = 0, unloaded = 0;
    uint64_t counted = 0;

    s = (struct simulation){.service = service,
                            .subject = subject_new(&limit),
                            .now = BASE,
                            .next_arrival = BASE,
                            .fixed = fixed,
                            .seed = seed};
    while (s.now < BASE + 2 * half) {
        uint32_t first = 0;

        if (service->arrivals == ALWAYS) {
            uint32_t before = s.instant;

            while (s.instant < before + 20 && admit(&s))
                continue;
        }
        for (uint32_t i = 1; i < s.busy_count; i++)
            if (s.busy[i].ends_ns < s.busy[first].ends_ns)
                first = i;
        if (service->arrivals != ALWAYS &&
            (s.busy_count == 0 || s.next_arrival < s.busy[first].ends_ns)) {
            s.now = s.next_arrival;
            (void)admit(&s);
            plan_arrival(&s);
            continue;
        }
        if (s.busy_count == 0) { /* all that were admitted have released at once */
            s.now += MS;
            continue;
        }
        struct request r = s.busy[first];

        s.now = r.ends_ns;
        s.later = s.now >= BASE + half;
        finish(&s, first);
        if ((s.now - BASE) % half < half / 2)
            continue;
        latency += (double)(s.now - r.began_ns);
        unloaded += (double)time_of(&s);
        counted++;
    }
    subject_free(&s.subject);
    return (struct result){.per_second = (double)counted * 1e9 / (double)half,
                           .latency_ns = latency / (double)counted,
                           .unloaded_ns = unloaded / (double)counted,
                           .places = s.places};
}

static bool soaks(void)
{
    return soak_factor() > 1;
}

/* The best throughput of fixed numbers of places up to three times the knee. Fewer than the knee
 * leave servers idle. Nothing of ours runs then but the simulation: sanitizers see the first only.
 */
static struct result best_fixed(const struct service *service, uint64_t seed)
{
    uint64_t knee = service->knee > service->knee_later ? service->knee : service->knee_later;
    uint64_t step = soaks() || knee < 8 ? 1 : knee / 4;
    struct result best = {0};

    for (uint64_t n = soaks() ? 1 : knee; n <= 3 * knee; n += step) {
        struct result r = simulate(n, service, seed);

        if (r.per_second > best.per_second)
            best = r;
        if (service->arrivals == ALWAYS && service->knee_later == 0 && !soaks())
            break; /* as many as the knee keep all servers busy: more only slow them down */
        if (SANITIZED)
            break;
    }
    return best;
}

static void judge(const char *what, const struct service *service, uint64_t seed, double least)
{
    struct service friendly = *service;

    friendly.hostile = NOBODY;
    struct result best = best_fixed(&friendly, seed), learnt = simulate(0, service, seed);
    double share = learnt.per_second / best.per_second;
    double times = learnt.latency_ns / learnt.unloaded_ns;

    print_message("# %s, knee %u, slowdown %u, arrivals %d, times %d, seed %" PRIu64
                  ": %.1f %% of the best fixed limit, latency %.2f times (that of the best fixed "
                  "limit %.2f), %" PRIu64 " places\n",
                  what, service->knee, service->slowdown_percent, (int)service->arrivals,
                  (int)service->times, seed, 100 * share, times, best.latency_ns / best.unloaded_ns,
                  learnt.places);
    assert_true(share >= least);
    assert_true(times <= 2);
}

static void judge_every_knee(unsigned slowdown_percent, uint64_t seed, double least)
{
    for (uint32_t knee = 4; knee <= 64; knee *= 4)
        for (int arrivals = ALWAYS; arrivals <= BURSTS; arrivals++)
            for (int times = EQUAL; times <= HEAVY_TAIL; times++)
                judge("one knee",
                      &(struct service){.knee = knee,
                                        .time_ns = 10 * MS,
                                        .slowdown_percent = slowdown_percent,
                                        .arrivals = (enum arrivals)arrivals,
                                        .times = (enum times)times,
                                        .requests = 24000 + 1200 * knee},
                      seed, least);
}

static void the_number_settles_near_every_knee(void **unused)
{
    (void)unused;
    judge_every_knee(10, 42, 0.95);
    judge_every_knee(25, 42, 0.95);
}

static void the_number_settles_with_other_requests(void **unused)
{
    (void)unused;
    judge_every_knee(25, 7, 0.95);
    judge_every_knee(20, 7, 0.95);
}

/* Half of the time the service has fewer or more servers. */
static void the_number_follows_a_knee_that_moves(void **unused)
{
    static const uint32_t knees[][2] = {{10, 40}, {40, 10}, {64, 48}};

    (void)unused;
    for (size_t i = 0; i < sizeof knees / sizeof *knees; i++)
        judge("a knee that moves",
              &(struct service){.knee = knees[i][0],
                                .knee_later = knees[i][1],
                                .time_ns = 10 * MS,
                                .times = EXPONENTIAL,
                                .requests = 60000},
              42, 0.95);
}

/* Half of the time every request takes four times, or a quarter of, the time. */
static void the_best_latency_is_learnt_again(void **unused)
{
    (void)unused;
    judge("a slower service",
          &(struct service){.knee = 20,
                            .time_ns = 10 * MS,
                            .time_later_ns = 40 * MS,
                            .times = EXPONENTIAL,
                            .requests = 60000},
          42, 0.95);
    judge("a faster service",
          &(struct service){.knee = 20,
                            .time_ns = 40 * MS,
                            .time_later_ns = 10 * MS,
                            .times = EXPONENTIAL,
                            .requests = 60000},
          42, 0.95);
}

static void holders_that_never_release_do_not_starve_the_others(void **unused)
{
    (void)unused;
    judge("never released",
          &(struct service){.knee = 20,
                            .time_ns = 10 * MS,
                            .times = EXPONENTIAL,
                            .hostile = NEVER_RELEASE,
                            .requests = 40000},
          42, 0.95);
}

/* A quarter of the requests, in blocks of a thousand: they make the best latency look tiny, until
 * it is measured again. */
static void places_released_at_once_do_not_starve_the_others(void **unused)
{
    (void)unused;
    judge("released at once",
          &(struct service){.knee = 20,
                            .time_ns = 10 * MS,
                            .times = EXPONENTIAL,
                            .hostile = RELEASE_AT_ONCE,
                            .requests = 40000},
          42, 0.8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_number_settles_near_every_knee),
        cmocka_unit_test(the_number_settles_with_other_requests),
        cmocka_unit_test(the_number_follows_a_knee_that_moves),
        cmocka_unit_test(the_best_latency_is_learnt_again),
        cmocka_unit_test(holders_that_never_release_do_not_starve_the_others),
        cmocka_unit_test(places_released_at_once_do_not_starve_the_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
