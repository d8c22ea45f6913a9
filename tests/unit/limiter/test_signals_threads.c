/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads and processes that look at the same signals: one of them evaluates, whichever is frozen
 * or killed, and outcomes and entries of the board add up.
 */
#include "rules_fixture.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "limiter/board.h"
#include "limiter/factor.h"
#include "limiter/signals/signals.h"

#define WORKERS 4
#define TERM_S 5 /* how long a silent evaluator stays one: evaluate.c */

static const char rules[] = "signals:\n"
                            "  backlog: { source: push, expires: 60s }\n"
                            "  slow: { source: latency, of: api, quantile: 50%, over: 10s }\n"
                            "  errors: { source: status, of: api, status: 5xx, over: 10s }\n"
                            "limits:\n"
                            "  - name: api\n"
                            "    key: user\n"
                            "    limit: 100 per minute\n"
                            "    adapt:\n"
                            "      - { when: backlog above 1000, to: 50% }\n"
                            "      - { when: errors above 90%, to: 40% }\n"
                            "      - { when: slow above 20s, to: 30% }\n";

static struct ration *open_file(const char *path)
{
    struct ration_options options = {.state_path = path, .memory_bytes = UINT64_C(2) << 20};
    struct ration *r = NULL;

    assert_int_equal(ration_open(&options, &r, NULL), 0);
    rules_at(r, rules, T0);
    return r;
}

static void make_path(char path[32])
{
    strcpy(path, "/tmp/ration-test-XXXXXX");
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    close(fd);
    unlink(path);
}

static void set_value(struct ration *r, int64_t millionths, int64_t now_ns)
{
    struct rn_pin pin = rn_pin_take_counted(&r->shelf);

    assert_true(rn_signals_set(r->table, &pin.book->ruleset->signals[0], now_ns, millionths));
    rn_pin_drop(&pin);
}

static unsigned factor_of(struct ration *r)
{
    struct rn_pin pin = rn_pin_take_counted(&r->shelf);
    unsigned percent = rn_factor_get(pin.book, &pin.book->ruleset->rules[0]);

    rn_pin_drop(&pin);
    return percent;
}

/* Threads and processes wait here until all are there, so that what follows happens at once. */
struct gate {
    unsigned arrived;
};

static struct gate *make_gate(void)
{
    struct gate *gate =
        mmap(NULL, sizeof *gate, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_true(gate != MAP_FAILED);
    return gate;
}

/* `times` counts from 1: how often each has come. */
static void pass_gate(struct gate *gate, unsigned count, unsigned times)
{
    __atomic_fetch_add(&gate->arrived, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&gate->arrived, __ATOMIC_ACQUIRE) < count * times)
        sched_yield();
}

/* --- the election --------------------------------------------------------------------------- */

struct child {
    pid_t pid;
    int times, replies; /* pipes: to it, and from it */
};

struct reply {
    bool is_evaluator;
    unsigned factor;
};

/* Ticks at each time that it reads. */
static void run_child(const char *path, unsigned number, int times, int replies)
{
    struct ration *r = open_file(path);
    int64_t now_ns;

    r->id_seed.k0 = 2 * number; /* ids of processes are random: here they are surely different */
    while (read(times, &now_ns, sizeof now_ns) == sizeof now_ns) {
        ration_signals_tick(r, now_ns);
        struct reply reply = {r->signals.is_evaluator, factor_of(r)};

        if (write(replies, &reply, sizeof reply) != sizeof reply)
            break;
    }
    ration_close(r);
}

static void start_children(struct child *children, const char *path)
{
    for (unsigned i = 0; i < WORKERS; i++) {
        int to[2], from[2];

        assert_int_equal(pipe(to) | pipe(from), 0);
        children[i] = (struct child){fork(), to[1], from[0]};
        if (children[i].pid == 0) {
            for (unsigned k = 0; k <= i; k++) { /* so that each ends with its parent */
                close(children[k].times);
                close(children[k].replies);
            }
            run_child(path, i, to[0], from[1]);
            _exit(0);
        }
        close(to[0]);
        close(from[1]);
    }
}

/* All that are not `away` tick at once. Returns which of them evaluates; -1: none. */
static int tick_all(const struct child *children, unsigned away, int64_t now_ns)
{
    int evaluator = -1;

    for (unsigned i = 0; i < WORKERS; i++)
        if (!(away >> i & 1))
            assert_int_equal(write(children[i].times, &now_ns, sizeof now_ns), sizeof now_ns);
    for (unsigned i = 0; i < WORKERS; i++) {
        struct reply reply;

        if (away >> i & 1)
            continue;
        assert_int_equal(read(children[i].replies, &reply, sizeof reply), sizeof reply);
        assert_true(!reply.is_evaluator || evaluator < 0); /* never two */
        evaluator = reply.is_evaluator ? (int)i : evaluator;
    }
    return evaluator;
}

/* Ticks each second until one evaluates; it must not take longer than a term. */
static int elect(const struct child *children, unsigned away, int64_t *now_ns)
{
    int evaluator = -1;

    for (unsigned s = 0; evaluator < 0; s++) {
        assert_true(s <= TERM_S + 1);
        evaluator = tick_all(children, away, *now_ns += SECOND);
    }
    return evaluator;
}

static void one_process_evaluates_whoever_is_frozen_or_killed(void **state)
{
    struct child children[WORKERS];
    int64_t now_ns = T0;
    unsigned gone = 0;
    char path[32];

    (void)state;
    make_path(path);
    struct ration *r = open_file(path);

    start_children(children, path);
    set_value(r, 5000 * RN_SIGNAL_UNIT, T0);
    int evaluator = elect(children, 0, &now_ns);

    assert_int_equal(factor_of(r), 50);
    for (unsigned s = 0; s < 20; s++) /* and stays the one */
        assert_int_equal(tick_all(children, 0, now_ns += SECOND), evaluator);

    /* Frozen: another takes over. The frozen one leaves it to that, and the factor alone. */
    kill(children[evaluator].pid, SIGSTOP);
    set_value(r, 5000 * RN_SIGNAL_UNIT, now_ns);
    int next = elect(children, 1U << evaluator, &now_ns);

    assert_int_not_equal(next, evaluator);
    kill(children[evaluator].pid, SIGCONT);
    for (unsigned s = 0; s < 10; s++) {
        assert_int_equal(tick_all(children, 0, now_ns += SECOND), next);
        assert_int_equal(factor_of(r), 50);
    }

    /* Killed, one after the other. */
    for (unsigned left = WORKERS; left > 1; left--) {
        kill(children[next].pid, SIGKILL);
        gone |= 1U << next;
        next = elect(children, gone, &now_ns);
        assert_int_equal(factor_of(r), 50);
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        close(children[i].times);
        close(children[i].replies);
        waitpid(children[i].pid, NULL, 0);
    }
    ration_close(r);
    unlink(path);
}

#define TERMS 400

struct candidate {
    const char *path;
    struct gate *gate;
    unsigned number;
    unsigned *elected; /* [TERMS]: how many */
};

/* Each with a table of its own, as processes have. All terms have ended when they tick. */
static void *run_candidate(void *arg)
{
    const struct candidate *candidate = arg;
    struct ration *r = open_file(candidate->path);

    r->id_seed.k0 = 2 * candidate->number;
    for (unsigned i = 0; i < TERMS; i++) {
        pass_gate(candidate->gate, WORKERS, i + 1);
        ration_signals_tick(r, T0 + (int64_t)i * 2 * TERM_S * SECOND);
        if (r->signals.is_evaluator)
            __atomic_fetch_add(&candidate->elected[i], 1, __ATOMIC_RELAXED);
    }
    ration_close(r);
    return NULL;
}

static void of_those_that_tick_at_once_one_is_elected(void **state)
{
    struct candidate candidates[WORKERS];
    struct gate *gate = make_gate();
    unsigned elected[TERMS] = {0};
    pthread_t threads[WORKERS];
    char path[32];

    (void)state;
    make_path(path);
    for (unsigned i = 0; i < WORKERS; i++) {
        candidates[i] = (struct candidate){path, gate, i, elected};
        assert_int_equal(pthread_create(&threads[i], NULL, run_candidate, &candidates[i]), 0);
    }
    for (unsigned i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < TERMS; i++)
        assert_int_equal(elected[i], 1);
    munmap(gate, sizeof *gate);
    unlink(path);
}

/* --- outcomes ------------------------------------------------------------------------------- */

#define OUTCOMES 20000

/* A quarter of them are errors, and half of them slow. */
static void tell_all(struct ration *r, struct gate *gate)
{
    pass_gate(gate, 2 * WORKERS, 1);
    for (unsigned i = 0; i < OUTCOMES; i++)
        ration_signal_outcome(r, "api", 3, i % 4 == 0 ? 500 : 200, i % 2 == 0 ? 100000000 : 1000000,
                              T0);
}

struct teller {
    struct ration *r;
    struct gate *gate;
};

static void *run_teller(void *arg)
{
    const struct teller *teller = arg;

    tell_all(teller->r, teller->gate);
    return NULL;
}

static void outcomes_of_threads_and_processes_add_up(void **state)
{
    pthread_t threads[WORKERS];
    pid_t pids[WORKERS];
    int64_t value = 0;
    char path[32];

    (void)state;
    make_path(path);
    struct ration *r = open_file(path);
    struct teller teller = {r, make_gate()};

    /* The one that begins a part clears it: that must be over. */
    ration_signal_outcome(r, "api", 3, 500, 100000000, T0);
    for (unsigned i = 0; i < WORKERS; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            struct ration *mine = open_file(path);

            tell_all(mine, teller.gate);
            ration_close(mine);
            _exit(0);
        }
    }
    for (unsigned i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_teller, &teller), 0);
    for (unsigned i = 0; i < WORKERS; i++) {
        pthread_join(threads[i], NULL);
        waitpid(pids[i], NULL, 0);
    }
    const struct rn_signal *signals = r->shelf.book->ruleset->signals;
    int64_t all = 2 * WORKERS * OUTCOMES, errors = all / 4 + 1;

    assert_true(rn_histogram_value(r->table, &signals[2], T0, &value));
    assert_int_equal(value, errors * RN_SIGNAL_UNIT / (all + 1));
    assert_true(rn_histogram_value(r->table, &signals[1], T0, &value));
    assert_in_range(value, 87500, 112500); /* the median: the first of the slow half */
    munmap(teller.gate, sizeof *teller.gate);
    ration_close(r);
    unlink(path);
}

/* --- everything at once ----------------------------------------------------------------------- */

#define TICKS 300

struct looker {
    struct ration *r;
    unsigned number;
};

/* Pushes, outcomes and looks at signals, at times that overlap with those of others. */
static void *look_often(void *arg)
{
    const struct looker *looker = arg;
    struct ration *r = looker->r;

    for (unsigned i = 0; i < TICKS; i++) {
        int64_t now_ns = T0 + i * SECOND;

        set_value(r, (i % 3 == 0 ? 5000 : 1) * RN_SIGNAL_UNIT, now_ns);
        ration_signal_outcome(r, "api", 3, 500, (int64_t)i * 1000000, now_ns);
        ration_signals_tick(r, now_ns);
        unsigned factor = factor_of(r);

        assert_true(factor >= 30 && factor <= 100);
        if (looker->number == 0 && i % 10 == 0)
            rules_at(r, rules, now_ns);
    }
    return NULL;
}

static void threads_push_tell_look_and_load_rules(void **state)
{
    struct ration *r = open_rules(rules);
    struct looker lookers[WORKERS];
    pthread_t threads[WORKERS];

    (void)state;
    for (unsigned i = 0; i < WORKERS; i++) {
        lookers[i] = (struct looker){r, i};
        assert_int_equal(pthread_create(&threads[i], NULL, look_often, &lookers[i]), 0);
    }
    for (unsigned i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    ration_close(r);
}

/* --- the board -------------------------------------------------------------------------------- */

#define NAMES 2000
#define BIG 100 /* words */

static struct rn_slice name_of(unsigned i, char text[24])
{
    return (struct rn_slice){text, (size_t)snprintf(text, 24, "entry %u", i)};
}

static void count_in_all(struct ration *r, struct gate *gate)
{
    char text[24];

    pass_gate(gate, WORKERS, 1);
    for (unsigned i = 0; i < NAMES; i++) {
        uint64_t *words = rn_board_entry(r->table, RN_BOARD_SIGNAL, name_of(i, text), 1 + i % 2);

        if (words != NULL)
            __atomic_fetch_add(words, 1, __ATOMIC_RELAXED);
    }
}

static void processes_that_make_the_same_entry_share_it(void **state)
{
    pid_t pids[WORKERS];
    char path[32], text[24];

    (void)state;
    make_path(path);
    struct ration *r = open_file(path);
    struct gate *gate = make_gate();

    for (unsigned i = 0; i < WORKERS; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            struct ration *mine = open_file(path);

            count_in_all(mine, gate);
            ration_close(mine);
            _exit(0);
        }
    }
    for (unsigned i = 0; i < WORKERS; i++)
        waitpid(pids[i], NULL, 0);
    for (unsigned i = 0; i < NAMES; i++)
        assert_int_equal(*rn_board_find(r->table, RN_BOARD_SIGNAL, name_of(i, text), 1 + i % 2),
                         WORKERS);
    munmap(gate, sizeof *gate);
    ration_close(r);
    unlink(path);
}

/* Takes over entries that are idle before its time, and marks them as used at that time. */
static void *reuse_often(void *arg)
{
    const struct looker *looker = arg;
    char text[24];

    for (unsigned i = 0; i < 200; i++) {
        uint64_t *words =
            rn_board_reuse(looker->r->table, RN_BOARD_HISTOGRAM,
                           name_of(1000 * looker->number + i, text), BIG, (int64_t)i + 1);

        if (words != NULL)
            __atomic_store_n(words, i + 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void threads_that_reuse_entries_leave_the_board_whole(void **state)
{
    struct ration *r = open_limits(NULL, 0);
    struct looker lookers[WORKERS];
    pthread_t threads[WORKERS];
    unsigned made = 0, found = 0;
    char text[24];

    (void)state;
    while (rn_board_entry(r->table, RN_BOARD_HISTOGRAM, name_of(100000 + made, text), BIG) != NULL)
        made++;
    assert_int_equal(made, (RN_BOARD_BYTES / 8 - PAUSE_WORDS) / (BIG + 1));
    for (unsigned i = 0; i < WORKERS; i++) {
        lookers[i] = (struct looker){r, i};
        assert_int_equal(pthread_create(&threads[i], NULL, reuse_often, &lookers[i]), 0);
    }
    for (unsigned i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < 1000 * WORKERS; i++)
        found += rn_board_find(r->table, RN_BOARD_HISTOGRAM, name_of(i, text), BIG) != NULL;
    for (unsigned i = 0; i < made; i++)
        found +=
            rn_board_find(r->table, RN_BOARD_HISTOGRAM, name_of(100000 + i, text), BIG) != NULL;
    assert_int_equal(found, made); /* each entry has one name */
    assert_null(rn_board_entry(r->table, RN_BOARD_HISTOGRAM, name_of(99999, text), BIG));
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_process_evaluates_whoever_is_frozen_or_killed),
        cmocka_unit_test(of_those_that_tick_at_once_one_is_elected),
        cmocka_unit_test(outcomes_of_threads_and_processes_add_up),
        cmocka_unit_test(threads_push_tell_look_and_load_rules),
        cmocka_unit_test(processes_that_make_the_same_entry_share_it),
        cmocka_unit_test(threads_that_reuse_entries_leave_the_board_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
