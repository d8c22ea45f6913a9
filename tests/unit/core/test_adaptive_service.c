/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adaptive concurrency in front of a simulated service with a knee. The service has as many
 * servers as the knee says; further requests wait in line, and each of them may also slow the
 * others down. Everything is deterministic: the time is the simulation's and chance is seeded.
 *
 * What is promised: at least 95 % of the throughput of the best fixed limit, at no more than
 * twice the latency of the service without load.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../model/subject.h"

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
    double per_second, latency_ns;
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
    uint64_t last_id, done, places;
    uint64_t chance;
    bool later;
};

static double chance(struct simulation *s)
{
    s->chance = s->chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return ((double)(s->chance >> 11) + 1) / 0x1p53;
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
        mean *= -log(chance(s));
        break;
    case HEAVY_TAIL: /* Pareto: no finite variance */
        mean *= pow(chance(s), -1 / 1.5) / 3;
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

    subject_ask(&s->subject, &ask, &answer);
    s->places = answer.places;
    if (!answer.allowed)
        return false;
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
    s->next_arrival = s->now + (int64_t)(-log(chance(s)) / rate) + 1;
}

static void finish(struct simulation *s, uint32_t i)
{
    struct rn_ask ask = {.op = RN_RELEASE, .now_ns = s->now, .id = s->busy[i].id};
    struct rn_answer answer;

    s->busy[i] = s->busy[--s->busy_count];
    subject_ask(&s->subject, &ask, &answer);
    while (s->line_count != 0 && s->busy_count < knee_of(s)) {
        start(s, s->line[s->line_first]);
        s->line_first = (s->line_first + 1) % HELD_MAX;
        s->line_count--;
    }
    s->done++;
}

/* The first third of each half of the time is for learning. */
static struct result simulate(const struct ration_limit *limit, const struct service *service)
{
    static struct simulation s;
    struct result result = {0};
    double latency = 0;
    int64_t from = 0, counted_ns = 0;
    uint64_t counted = 0;

    s = (struct simulation){.service = service,
                            .subject = subject_new(limit),
                            .now = BASE,
                            .next_arrival = BASE,
                            .chance = 42};
    while (s.done < service->requests) {
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
        uint64_t half = service->requests / 2, at = s.done % half;

        s.now = r.ends_ns;
        s.later = s.done >= half;
        finish(&s, first);
        if (at == half / 3)
            from = s.now;
        if (at <= half / 3)
            continue;
        latency += (double)(s.now - r.began_ns);
        counted++;
        if (at == half - 1)
            counted_ns += s.now - from;
    }
    result.per_second = (double)counted * 1e9 / (double)counted_ns;
    result.latency_ns = latency / (double)counted;
    result.places = s.places;
    subject_free(&s.subject);
    return result;
}

static struct ration_limit adaptive(void)
{
    return (struct ration_limit){RATION_CONCURRENCY, .amount = 500, .adaptive_min = 2};
}

/* The mean latency without load: the same number of requests is counted in each half. */
static double unloaded_ns(const struct service *service)
{
    int64_t later = service->time_later_ns ? service->time_later_ns : service->time_ns;

    return (double)(service->time_ns + later) / 2;
}

/* The best throughput of fixed numbers of places around each knee. */
static struct result best_fixed(const struct service *service)
{
    uint64_t later = service->knee_later ? service->knee_later : service->knee;
    struct result best = {0};

    for (unsigned percent = 100; percent <= 200; percent += 50) {
        for (uint64_t knee = service->knee; knee != 0; knee = knee == later ? 0 : later) {
            struct ration_limit fixed = {RATION_CONCURRENCY,
                                         .amount = knee * percent / 100 + (percent > 100)};
            struct result r = simulate(&fixed, service);

            if (r.per_second > best.per_second)
                best = r;
        }
    }
    return best;
}

static void judge(const char *what, const struct service *service, double least)
{
    struct ration_limit limit = adaptive();
    struct service friendly = *service;

    friendly.hostile = NOBODY;
    struct result best = best_fixed(&friendly), learnt = simulate(&limit, service);
    double share = learnt.per_second / best.per_second;
    double times = learnt.latency_ns / unloaded_ns(service);

    print_message("# %s, knee %u, arrivals %d, times %d: %.1f %% of the best fixed limit, latency "
                  "%.2f times (that of the best fixed limit %.2f), %" PRIu64 " places\n",
                  what, service->knee, (int)service->arrivals, (int)service->times, 100 * share,
                  times, best.latency_ns / unloaded_ns(service), learnt.places);
    assert_true(share >= least);
    assert_true(times <= 2);
}

static void the_number_settles_near_every_knee(void **unused)
{
    (void)unused;
    for (uint32_t knee = 4; knee <= 64; knee *= 4)
        for (int arrivals = ALWAYS; arrivals <= BURSTS; arrivals++)
            for (int times = EQUAL; times <= HEAVY_TAIL; times++)
                judge("one knee",
                      &(struct service){.knee = knee,
                                        .time_ns = 10 * MS,
                                        .slowdown_percent = 10,
                                        .arrivals = (enum arrivals)arrivals,
                                        .times = (enum times)times,
                                        .requests = 20000 + 300 * knee},
                      0.95);
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
              0.95);
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
          0.95);
    judge("a faster service",
          &(struct service){.knee = 20,
                            .time_ns = 40 * MS,
                            .time_later_ns = 10 * MS,
                            .times = EXPONENTIAL,
                            .requests = 60000},
          0.95);
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
          0.95);
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
          0.65);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_number_settles_near_every_knee),
        cmocka_unit_test(the_number_follows_a_knee_that_moves),
        cmocka_unit_test(the_best_latency_is_learnt_again),
        cmocka_unit_test(holders_that_never_release_do_not_starve_the_others),
        cmocka_unit_test(places_released_at_once_do_not_starve_the_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
