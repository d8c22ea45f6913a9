/* SPDX-License-Identifier: Apache-2.0 */
/* Overrides and bans that come and go, and rules that are replaced, while threads
 * decide: every decision is by one limit or the other, and nothing is read that
 * has been freed. */
#include "clients_fixture.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define THREADS 4
#define CLIENTS 64

static const char *const sets[] = {
    "limits:\n  - { name: a, key: user, limit: 1000000 per hour }\n",
    "limits:\n  - { name: a, key: user, limit: 1000000 per hour, algorithm: fixed-window }\n",
};

struct crew {
    struct ration *r;
    atomic_bool stop;
    atomic_ulong decided, wrong;
};

/* Client i has 1000000 or, overridden, 1000 + i; or it is banned for reason i. */
static bool is_right(const struct ration_outcome *out, unsigned i)
{
    char reason[16];

    snprintf(reason, sizeof reason, "%u", i);
    if (out->kind == RATION_BY_BAN)
        return !out->decision.allowed && strcmp(out->message, reason) == 0;
    return out->kind == RATION_BY_LIMITS && out->limit_count == 1 &&
           (out->limits[0].verdict.limit == 1000000 || out->limits[0].verdict.limit == 1000 + i);
}

static void *decide_on(void *arg)
{
    struct crew *crew = arg;
    struct ration_outcome out;

    for (unsigned i = 1; !atomic_load(&crew->stop); i++) {
        unsigned client = i * 7 % CLIENTS;
        char words[32];
        struct words w;

        snprintf(words, sizeof words, "user=%u", client);
        split_words(&w, words);
        if (ration_decide(crew->r, &w.request, T0, &out) != 0 || !is_right(&out, client))
            atomic_fetch_add(&crew->wrong, 1);
        atomic_fetch_add(&crew->decided, 1);
        if (i % 32 == 0)
            sched_yield();
    }
    return NULL;
}

static void change(struct ration *r, unsigned i)
{
    unsigned client = i * 13 % CLIENTS;
    char words[32], limit[32];

    snprintf(words, sizeof words, "user=%u", client);
    snprintf(limit, sizeof limit, "%u per %u minutes", 1000 + client, 1 + i % 50);
    switch (i % 4) {
    case 0:
        set_limit(r, "a", words, limit);
        break;
    case 1:
        snprintf(limit, sizeof limit, "%u", client);
        assert_int_equal(try_ban(r, words, limit, 0, NULL), 0);
        break;
    case 2:
        (void)try_delete(r, "a", words);
        break;
    case 3:
        (void)unban(r, words);
        break;
    }
}

static void *change_on(void *arg)
{
    struct crew *crew = arg;

    for (unsigned i = 0; !atomic_load(&crew->stop); i++) {
        change(crew->r, i * 3 + 1);
        assert_int_equal(ration_clients_refresh(crew->r, NULL), 0);
    }
    return NULL;
}

static void run(struct crew *crew, unsigned changes, unsigned reload_every)
{
    pthread_t ids[THREADS], changer;

    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&ids[i], NULL, decide_on, crew), 0);
    assert_int_equal(pthread_create(&changer, NULL, change_on, crew), 0);
    for (unsigned i = 0; i < changes; i++) {
        unsigned long seen = atomic_load(&crew->decided);

        change(crew->r, i);
        if (i % reload_every == 0)
            rules_at(crew->r, sets[i / reload_every % COUNT(sets)], T0);
        /* Decisions fall between changes, however busy the machine. */
        while (i % 16 == 0 && atomic_load(&crew->decided) < seen + 2 * THREADS)
            sched_yield();
    }
    atomic_store(&crew->stop, true);
    pthread_join(changer, NULL);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(ids[i], NULL);
    assert_int_equal(crew->wrong, 0);
}

static void decisions_are_right_while_everything_changes(void **state)
{
    struct crew crew = {.r = open_rules(sets[0])};

    (void)state;
    run(&crew, 20000, 500);
    ration_close(crew.r);
}

/* Enough that client indexes wear out and are renewed under the same rules. */
static void decisions_are_right_while_client_indexes_are_renewed(void **state)
{
    struct crew crew = {.r = open_rules(sets[0])};

    (void)state;
    run(&crew, 20000, 1000000);
    ration_close(crew.r);
}

static void decisions_are_right_without_membarrier(void **state)
{
    struct crew crew = {.r = open_limits(NULL, 0)};

    (void)state;
    crew.r->shelf.fenced = true;
    rules_at(crew.r, sets[0], T0);
    run(&crew, 8000, 2000);
    ration_close(crew.r);
}

static void two_handles_on_one_file_agree_in_the_end(void **state)
{
    (void)state;
    remove_files();
    struct crew one = {.r = open_state_rules(sets[0])}, two = {.r = open_state_rules(sets[0])};
    pthread_t id;

    assert_int_equal(pthread_create(&id, NULL, change_on, &two), 0);
    for (unsigned i = 0; i < 200; i++) {
        change(one.r, i);
        refresh(one.r);
    }
    atomic_store(&two.stop, true);
    pthread_join(id, NULL);
    refresh(one.r);
    refresh(two.r);
    static struct listing a;

    a = (struct listing){.len = 0};
    assert_int_equal(ration_override_each(one.r, NULL, 0, list_override, &a), 0);
    assert_string_equal(a.text, overrides(two.r));
    assert_int_equal(one.r->clients.bans.live, two.r->clients.bans.live);
    for (unsigned i = 0; i < CLIENTS; i++) {
        char words[32];

        snprintf(words, sizeof words, "user=%u", i);
        assert_int_equal(look(one.r, words, T0).kind, look(two.r, words, T0).kind);
    }
    ration_close(one.r);
    ration_close(two.r);
    remove_files();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decisions_are_right_while_everything_changes),
        cmocka_unit_test(decisions_are_right_while_client_indexes_are_renewed),
        cmocka_unit_test(decisions_are_right_without_membarrier),
        cmocka_unit_test(two_handles_on_one_file_agree_in_the_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
