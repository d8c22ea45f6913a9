/* SPDX-License-Identifier: Apache-2.0 */
/* Records of clients: found, changed, listed, lost by rank; in a file; under threads. */
#include "store/records.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/prctl.h>

#include "core/escalate.h"
#include "file_fixture.h"
#include "unit/sanitized.h"

#define NOW (INT64_C(1763442000) * SECOND)
#define RULE UINT64_C(0x1122334455667788)

static struct rn_escalate_plan plan = {
    .after = 1000, .within_ns = HOUR, .ban_ns = {0, HOUR}, .forget_ns = 7 * 24 * HOUR};

struct area {
    struct rn_table *table;
    struct rn_records records;
};

static struct area open_area(const char *state)
{
    struct area a = {0};
    struct ration_error error;

    for (int i = 1; i < RN_LEVELS; i++)
        plan.ban_ns[i] = i * HOUR;
    if (rn_table_open(&(struct rn_table_options){.path = state, .bytes = 1 << 20}, &a.table,
                      &error) != 0 ||
        rn_records_open(&a.records, a.table, &error) != 0)
        fail_msg("%s", error.text);
    return a;
}

static void close_area(struct area *a)
{
    rn_records_close(&a->records);
    rn_table_close(a->table);
}

/* --- one thread ------------------------------------------------------------------------- */

static uint64_t refused(void *arg, uint64_t word)
{
    return rn_escalate_refuse(&plan, word, *(int64_t *)arg);
}

static uint64_t given(void *arg, uint64_t word)
{
    (void)word;
    return *(uint64_t *)arg;
}

static bool put(struct rn_records *records, uint64_t hash, uint64_t word)
{
    struct rn_records_change c = {.key = rn_records_key(hash, rn_record_kind(word)),
                                  .rule = RULE,
                                  .now_ns = NOW,
                                  .follow = given,
                                  .arg = &word};

    return rn_records_change(records, &c);
}

static uint64_t find(const struct rn_records *records, uint64_t hash)
{
    return rn_records_find(records, rn_records_key(hash, RN_RECORD_OFFENCES));
}

static uint64_t count_of(uint32_t refusals)
{
    uint64_t word = 0;

    for (uint32_t i = 0; i < refusals; i++)
        word = rn_escalate_refuse(&plan, word, NOW);
    return word;
}

/* The hashes of nine clients of one group. */
static void same_group(const struct rn_records *records, uint64_t hashes[9])
{
    struct rn_records_group *group = rn_records_group(records, 4);
    unsigned n = 0;

    for (uint64_t hash = 4; n < 9; hash += 4)
        if (rn_records_group(records, hash) == group)
            hashes[n++] = hash;
}

static void a_record_is_entered_changed_and_removed(void **state)
{
    struct area a = open_area(NULL);
    int64_t now = NOW;
    struct rn_records_change c = {.key = rn_records_key(UINT64_MAX, RN_RECORD_OFFENCES),
                                  .rule = RULE,
                                  .now_ns = NOW,
                                  .follow = refused,
                                  .arg = &now};
    uint64_t none = 0;

    (void)state;
    assert_int_equal(find(&a.records, UINT64_MAX), 0);
    assert_true(rn_records_change(&a.records, &c));
    assert_true(c.before == 0 && c.after == count_of(1));
    assert_true(rn_records_change(&a.records, &c));
    assert_true(find(&a.records, UINT64_MAX) == count_of(2));
    c.follow = given;
    c.arg = &none;
    assert_true(rn_records_change(&a.records, &c));
    assert_true(c.before == count_of(2));
    assert_int_equal(find(&a.records, UINT64_MAX), 0);
    assert_true(rn_records_change(&a.records, &c));
    close_area(&a);
}

static int note(void *arg, const struct rn_records_entry *e)
{
    uint64_t *seen = arg;

    assert_true(e->rule == RULE);
    assert_true(e->key == seen[1 + seen[0]++]);
    return 0;
}

static void records_of_both_kinds_lie_in_one_group(void **state)
{
    struct area a = open_area(NULL);
    uint64_t earned = rn_record_stamp(NOW) | 48 << RN_RECORD_LIFE_AT | RN_RECORD_EARNED;
    uint64_t seen[3] = {0, rn_records_key(400, RN_RECORD_OFFENCES),
                        rn_records_key(400, RN_RECORD_EARNED)};

    (void)state;
    assert_true(put(&a.records, 400, count_of(3)) && put(&a.records, 400, earned));
    assert_true(find(&a.records, 400) == count_of(3));
    assert_true(rn_records_find(&a.records, seen[2]) == earned);
    assert_true(rn_records_each(&a.records, 0, note, seen) == rn_records_capacity(&a.records));
    assert_int_equal(seen[0], 2);
    close_area(&a);
}

static void the_record_that_is_worth_least_goes(void **state)
{
    struct area a = open_area(NULL);
    const struct rn_records_header *h = a.records.header;
    uint64_t hashes[9];

    (void)state;
    same_group(&a.records, hashes);
    for (uint32_t i = 0; i < 8; i++)
        assert_true(put(&a.records, hashes[i], count_of(10 + i)));
    assert_false(put(&a.records, hashes[8], count_of(1))); /* all others are worth more */
    assert_int_equal(h->lost_counts, 1);
    assert_true(put(&a.records, hashes[8], count_of(11)));
    assert_int_equal(find(&a.records, hashes[0]), 0);
    assert_int_equal(h->lost_counts, 2);
    /* Bans push the counts out, and stay. */
    for (uint32_t i = 0; i < 8; i++)
        assert_true(put(&a.records, hashes[i], rn_escalate_ban(&plan, 1 + i, HOUR, NOW)));
    assert_int_equal(find(&a.records, hashes[8]), 0);
    assert_int_equal(h->lost_counts, 3); /* the others became bans themselves */
    assert_false(put(&a.records, hashes[8], count_of(999)));
    assert_int_equal(h->lost_bans, 0);
    /* The lowest level goes first. */
    assert_true(put(&a.records, hashes[8], rn_escalate_ban(&plan, 2, HOUR, NOW)));
    assert_int_equal(find(&a.records, hashes[0]), 0);
    assert_int_equal(h->lost_bans, 1);
    close_area(&a);
}

static void what_is_over_goes_without_a_loss(void **state)
{
    struct area a = open_area(NULL);
    uint64_t hashes[9], word = rn_escalate_refuse(&plan, 0, NOW - 2 * HOUR);

    (void)state;
    same_group(&a.records, hashes);
    for (uint32_t i = 0; i < 8; i++)
        assert_true(put(&a.records, hashes[i], word));
    assert_true(put(&a.records, hashes[8], count_of(1)));
    assert_int_equal(a.records.header->lost_counts, 0);
    close_area(&a);
}

static void the_last_bans_are_read_by_number(void **state)
{
    struct area a = open_area(NULL);
    struct rn_event_ring *ring = a.records.ring;
    struct rn_event e = {.rule = RULE, .hash = 4, .level = 1, .name_len = 2, .name = "me"}, out;

    (void)state;
    assert_int_equal(rn_event_ring_last(ring), 0);
    assert_int_equal(rn_event_ring_first(ring), 1);
    assert_false(rn_event_ring_read(ring, 0, &out) || rn_event_ring_read(ring, 1, &out));
    for (unsigned i = 0; i < 2 * RN_EVENT_RING_ENTRIES; i++)
        rn_event_ring_add(ring, &e);
    assert_int_equal(rn_event_ring_last(ring), 2 * RN_EVENT_RING_ENTRIES);
    assert_false(rn_event_ring_read(ring, rn_event_ring_first(ring) - 1, &out));
    assert_true(rn_event_ring_read(ring, rn_event_ring_first(ring), &out));
    assert_true(out.rule == RULE && out.level == 1 && out.name_len == 2);
    /* A writer that was killed while it filled its entry. */
    ring->last++;
    assert_false(rn_event_ring_read(ring, ring->last, &out));
    /* Damaged: no sum of such times may overflow, and counting to the last one must end. */
    ring->entries[5].ends_ns = INT64_MIN;
    assert_true(rn_event_ring_read(ring, ring->entries[5].number, &out));
    assert_true(out.ends_ns == 0 && out.at_ns == 0 && out.name_len == 0);
    ring->last = UINT64_MAX;
    assert_true(rn_event_ring_last(ring) <= INT64_MAX);
    close_area(&a);
}

/* --- in a file ------------------------------------------------------------------------------ */

static void a_file_keeps_the_records(void **state)
{
    struct area a = open_area(path);
    char name[600];

    (void)state;
    int64_t now = rn_table_now(a.table);
    uint64_t ban = rn_escalate_ban(&plan, 3, HOUR, now);

    assert_true(put(&a.records, 400, ban));
    assert_true(put(&a.records, 1200, rn_escalate_ban(&plan, 3, HOUR, now - 30 * 24 * HOUR)));
    close_area(&a);
    a = open_area(path);
    assert_true(find(&a.records, 400) == ban);
    assert_int_equal(find(&a.records, 1200), 0); /* over */
    struct area other = open_area(path);         /* as another process would */

    assert_true(put(&other.records, 800, count_of(2)));
    assert_true(find(&a.records, 800) == count_of(2));
    close_area(&other);
    close_area(&a);
    /* Another table under the same name begins without them. */
    assert_int_equal(unlink(path), 0);
    a = open_area(path);
    assert_int_equal(find(&a.records, 400), 0);
    close_area(&a);
    snprintf(name, sizeof name, "%s.reputation", path);
    unlink(name);
}

/* Enters, raises, bans and lifts without an end. */
static void run_child(uint64_t seed)
{
    struct area a = open_area(path);
    int64_t now = NOW;
    uint64_t none = 0;

    for (;;) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        uint64_t hash = (1 + (seed >> 33) % 100000) << 2;
        struct rn_records_change c = {.key = rn_records_key(hash, RN_RECORD_OFFENCES),
                                      .rule = RULE,
                                      .now_ns = NOW,
                                      .follow = seed >> 61 == 0 ? given : refused,
                                      .arg = seed >> 61 == 0 ? (void *)&none : &now};
        struct rn_event e = {.rule = RULE, .hash = hash, .level = 1};

        rn_records_change(&a.records, &c);
        rn_event_ring_add(a.records.ring, &e);
    }
}

static int check_word(void *arg, const struct rn_records_entry *e)
{
    uint64_t *count = arg;

    assert_int_equal(e->key & RN_RECORD_KIND, RN_RECORD_OFFENCES);
    assert_true((e->key >> 2) - 1 < 100000);
    assert_int_equal(rn_record_kind(e->word), RN_RECORD_OFFENCES);
    assert_in_range(rn_record_refusals(e->word), 1, 999);
    ++*count;
    return 0;
}

/* A hint that a killed process did not write may be missing; the record itself is whole. */
static void killed_processes_leave_sound_records(void **state)
{
    struct area a = open_area(path);
    uint64_t count = 0, last = 0;
    struct rn_event e;

    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        pid_t child = fork();

        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            run_child(i);
        }
        while (rn_event_ring_last(a.records.ring) < last + 100 + 37 * i)
            sched_yield();
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, NULL, 0), child);
        last = rn_event_ring_last(a.records.ring);
    }
    rn_records_each(&a.records, 0, check_word, &count);
    assert_true(count > 100);
    for (uint64_t n = rn_event_ring_first(a.records.ring); n <= last; n++)
        assert_true(!rn_event_ring_read(a.records.ring, n, &e) || e.rule == RULE);
    assert_true(put(&a.records, 400, rn_escalate_ban(&plan, 3, HOUR, NOW)));
    close_area(&a);
}

/* --- threads ---------------------------------------------------------------------------------- */

#define THREADS 4

struct race {
    struct rn_records *records;
    pthread_barrier_t start;
    uint64_t rounds, clients;
    _Atomic uint64_t calls;
};

/* As spread as the hash of a key: the area spreads no numbers in a row. */
static uint64_t hash_of(uint64_t client)
{
    client *= UINT64_C(0x9E3779B97F4A7C15);
    client = (client ^ client >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    client = (client ^ client >> 27) * UINT64_C(0x94D049BB133111EB);
    return client ^ client >> 31;
}

static void *run_race(void *arg)
{
    struct race *race = arg;
    int64_t now = NOW;

    pthread_barrier_wait(&race->start);
    for (uint64_t i = 0; i < race->rounds; i++) {
        struct rn_records_change c = {
            .key = rn_records_key(hash_of(1 + i % race->clients), RN_RECORD_OFFENCES),
            .rule = RULE,
            .now_ns = NOW,
            .follow = refused,
            .arg = &now};

        rn_records_change(race->records, &c);
    }
    return NULL;
}

static void run_threads(struct rn_records *records, uint64_t clients, uint64_t rounds)
{
    struct race race = {.records = records, .rounds = rounds, .clients = clients};
    pthread_t threads[THREADS];

    pthread_barrier_init(&race.start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_race, &race), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&race.start);
}

/* When threads enter a record at the same time, some of their counts may be lost: one for each
 * thread. No refusal is ever counted twice. */
static void threads_that_refuse_one_client_count_no_refusal_twice(void **state)
{
    (void)state;
    for (int round = 0; round < (THREADS_SANITIZED ? 20 : 300); round++) {
        struct area a = open_area(NULL);

        run_threads(&a.records, 1, 200);
        uint32_t counted = rn_record_refusals(find(&a.records, hash_of(1)));

        assert_in_range(counted, THREADS * 200 - THREADS, THREADS * 200);
        close_area(&a);
    }
}

static int check_entry(void *arg, const struct rn_records_entry *e)
{
    uint64_t *most = arg;
    uint64_t refusals = rn_record_refusals(e->word);

    assert_true(refusals >= 1 && refusals <= most[0]);
    most[1] += e->rule == RULE; /* a hint: a thread may have left that of a record which is gone */
    return 0;
}

/* More clients than fit: records come and go while others enter theirs. */
static void threads_that_evict_each_other_leave_sound_records(void **state)
{
    struct area a = open_area(NULL);
    uint64_t clients = 2 * rn_records_capacity(&a.records);
    uint64_t most[2] = {THREADS * 2, 0};

    (void)state;
    run_threads(&a.records, clients, 2 * clients);
    rn_records_each(&a.records, 0, check_entry, most);
    assert_true(most[1] > rn_records_capacity(&a.records) * 9 / 10);
    assert_true(a.records.header->lost_counts > clients / 4);
    close_area(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_is_entered_changed_and_removed),
        cmocka_unit_test(records_of_both_kinds_lie_in_one_group),
        cmocka_unit_test(the_record_that_is_worth_least_goes),
        cmocka_unit_test(what_is_over_goes_without_a_loss),
        cmocka_unit_test(the_last_bans_are_read_by_number),
        cmocka_unit_test_setup_teardown(a_file_keeps_the_records, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(killed_processes_leave_sound_records, make_folder,
                                        drop_folder),
        cmocka_unit_test(threads_that_refuse_one_client_count_no_refusal_twice),
        cmocka_unit_test(threads_that_evict_each_other_leave_sound_records),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
