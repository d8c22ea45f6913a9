/* SPDX-License-Identifier: Apache-2.0 */
/* Usage counted by threads and processes at once: sums are exact, with and without room for all
 * clients, while rules are loaded and rows are listed. */
#include "usage_fixture.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#define DAY (24 * 60 * MINUTE)
#define THREADS 4
#define PROCESSES 3
#define ROUNDS 3000

static const char rules[] = "limits:\n"
                            "  - { name: a, key: user, limit: [40 per second, 1000000 per day], "
                            "usage: { per: day, keep: 4 } }\n"
                            "  - { name: b, key: none, limit: 1000000 per second, usage: { per: "
                            "day, keep: 4 } }\n";

struct worker {
    struct ration *r;
    unsigned seed, users;
    int64_t admitted, refused;
    pthread_t thread;
};

/* Some of what is admitted is given back. */
static void *work(void *arg)
{
    struct worker *w = arg;
    char user[32];

    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned number = (i * 7 + w->seed * 3) % w->users;
        struct ration_outcome out;
        struct words words;

        snprintf(user, sizeof user, "user=u%u", number);
        split_words(&words, user);
        words.request.cost = 1 + i % 3;
        if (ration_decide(w->r, &words.request, T0, &out) != 0)
            abort();
        if (!out.decision.allowed)
            w->refused += 1 + i % 3;
        else if (i % 5 == 0)
            ration_outcome_give_back(w->r, &out, T0);
        else
            w->admitted += 1 + i % 3;
    }
    return NULL;
}

static void run(struct worker *workers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    for (size_t i = 0; i < n; i++)
        pthread_join(workers[i].thread, NULL);
}

static struct rows rows_of(struct ration *r, const char *rule)
{
    return query_rows(
        r, &(struct ration_usage_query){.rule = rule, .rule_len = 1, .at_s = (T0 + DAY) / SECOND});
}

/* Both rules admit together, and only the first refuses. */
static void expect_sums(struct ration *r, const struct worker *workers, size_t n)
{
    int64_t admitted = 0, refused = 0;

    for (size_t i = 0; i < n; i++) {
        admitted += workers[i].admitted;
        refused += workers[i].refused;
    }
    assert_int_equal(rows_of(r, "a").admitted, admitted);
    assert_int_equal(rows_of(r, "a").refused, refused);
    assert_int_equal(rows_of(r, "b").admitted, admitted);
}

/* A clock that stands: a second look at the wall clock would move the periods. */
static struct ration *open_still(const char *text)
{
    struct ration *r = open_usage(text);

    stopped_at(r, T0);
    return r;
}

static void threads_count_every_unit_once(void **state)
{
    struct ration *r = open_still(rules);
    struct worker workers[THREADS] = {{0}};

    (void)state;
    for (unsigned i = 0; i < THREADS; i++)
        workers[i] = (struct worker){.r = r, .seed = i, .users = 50};
    run(workers, THREADS);
    expect_sums(r, workers, THREADS);
    assert_int_equal(rows_of(r, "a").count, 50); /* a race makes no second row */
    ration_close(r);
}

static void sums_are_exact_without_room_for_all(void **state)
{
    struct ration *r = open_still(rules);
    struct ration_usage_totals totals;
    struct worker workers[THREADS] = {{0}};

    (void)state;
    ration_usage_totals(r, &totals);
    for (unsigned i = 0; i < totals.capacity; i++) { /* of days long ago, and of yesterday */
        char name[16];
        int64_t start_s = (T0 - T0 % DAY) / SECOND - (i % 2 == 0 ? 20 : 1) * DAY / SECOND;
        int len = snprintf(name, sizeof name, "filler%u", i);

        rn_usage_file_make(r->usage.file,
                           rn_usage_tag(0, i * UINT64_C(0x9E3779B97F4A7C15), start_s), 0, start_s,
                           (struct rn_slice){name, (size_t)len}, start_s);
    }
    for (unsigned i = 0; i < THREADS; i++)
        workers[i] = (struct worker){.r = r, .seed = i, .users = 6000};
    run(workers, THREADS);
    expect_sums(r, workers, THREADS);
    ration_usage_totals(r, &totals);
    assert_true(totals.other != 0);
    ration_close(r);
}

struct background {
    struct ration *r;
    atomic_bool stop;
};

static void *list_and_load(void *arg)
{
    struct background *b = arg;

    while (!atomic_load(&b->stop)) {
        uint64_t cursor = 0;
        struct rows rows = {0};
        struct ration_usage_query q = {.at_s = T0 / SECOND};

        ration_usage_each(b->r, &q, add_row, &rows, &cursor, NULL);
        ration_rules_parse(b->r, "x", rules, sizeof rules - 1, NULL);
    }
    return NULL;
}

static void listing_and_loading_disturb_nobody(void **state)
{
    struct ration *r = open_still(rules);
    struct worker workers[THREADS] = {{0}};
    struct background background = {.r = r};
    pthread_t thread;

    (void)state;
    for (unsigned i = 0; i < THREADS; i++)
        workers[i] = (struct worker){.r = r, .seed = i, .users = 50};
    assert_int_equal(pthread_create(&thread, NULL, list_and_load, &background), 0);
    run(workers, THREADS);
    atomic_store(&background.stop, true);
    pthread_join(thread, NULL);
    expect_sums(r, workers, THREADS);
    ration_close(r);
}

static void processes_count_every_unit_once(void **state)
{
    pid_t children[PROCESSES];
    int pipes[PROCESSES][2];
    struct worker sums[PROCESSES] = {{0}};
    struct ration *r;

    (void)state;
    for (unsigned i = 0; i < PROCESSES; i++) {
        assert_int_equal(pipe(pipes[i]), 0);
        children[i] = fork();
        if (children[i] == 0) {
            struct worker w = {.r = open_still(rules), .seed = i, .users = 50};
            int64_t found[2];

            work(&w);
            found[0] = w.admitted;
            found[1] = w.refused;
            _exit(write(pipes[i][1], found, sizeof found) != sizeof found);
        }
    }
    for (unsigned i = 0; i < PROCESSES; i++) {
        int64_t found[2];
        int status;

        assert_int_equal(read(pipes[i][0], found, sizeof found), sizeof found);
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
        sums[i].admitted = found[0];
        sums[i].refused = found[1];
        close(pipes[i][0]);
        close(pipes[i][1]);
    }
    r = open_still(rules);
    expect_sums(r, sums, PROCESSES);
    assert_int_equal(rows_of(r, "a").count, 50);
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        USAGE_TEST(threads_count_every_unit_once),
        USAGE_TEST(sums_are_exact_without_room_for_all),
        USAGE_TEST(listing_and_loading_disturb_nobody),
        USAGE_TEST(processes_count_every_unit_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
