/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store of the embedder's, held to the contract of every store: the example on SQLite, in a file
 * and shared by processes. And what the limiter does when such a store fails.
 */
#include "../store/contract.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ration/rules.h>
#include <ration/store.h>

#include "../../../examples/own-store/sqlite_store.h"
#include "limiter/decide/own_store.h"

#define WAIT_MS 2000
#define PROCESSES 4
#define LIMIT 200

/* ---- the example as a store of ours */

struct plugged {
    struct rn_own_store own;
    struct sqlite_store *file;
};

static struct rn_store *plug_sqlite(struct plugged_store *p)
{
    struct plugged *g = calloc(1, sizeof *g);

    assert_non_null(g);
    p->handle = g;
    g->file = sqlite_store_open(":memory:", WAIT_MS);
    assert_non_null(g->file);
    struct ration_store user = sqlite_store_ops(g->file);

    assert_int_equal(rn_own_store_init(&g->own, &user, NULL), 0);
    return &g->own.store;
}

static void unplug_sqlite(struct plugged_store *p)
{
    struct plugged *g = p->handle;

    sqlite_store_close(g->file);
    free(g);
}

/* ---- a file in a folder of its own */

static char folder[64], path[96];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/own-store-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/limits.db", folder);
    return 0;
}

static int remove_folder(void **state)
{
    static const char *const endings[] = {"", "-wal", "-shm"};
    char name[128];

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s%s", path, endings[i]);
        unlink(name);
    }
    return rmdir(folder);
}

struct opened {
    struct sqlite_store *file;
    struct ration *r;
};

static struct opened open_file(int wait_ms, const char *text)
{
    struct opened o = {.file = sqlite_store_open(path, wait_ms)};
    struct ration_named limit = {.name = "own"};

    assert_non_null(o.file);
    struct ration_store store = sqlite_store_ops(o.file);

    assert_int_equal(ration_limit_parse(text, strlen(text), &limit.limit, NULL), 0);
    struct ration_options options = {.limits = &limit, .limit_count = 1, .store = &store};

    assert_int_equal(ration_open(&options, &o.r, NULL), 0);
    return o;
}

static void close_file(struct opened *o)
{
    ration_close(o->r);
    sqlite_store_close(o->file);
}

static struct ration_charge charge_of(const char *key, uint64_t cost)
{
    return (struct ration_charge){.key = key, .key_len = strlen(key), .cost = cost};
}

static unsigned admitted_of(struct ration *r, unsigned times)
{
    unsigned admitted = 0;

    for (unsigned i = 0; i < times; i++) {
        struct ration_charge c = charge_of("ada", 1);

        admitted += ration_take(r, &c, RATION_NOW) == 0 && c.verdict.allowed;
    }
    return admitted;
}

/* ---- what embedders rely on */

static void processes_on_one_key_admit_exactly_the_limit(void **state)
{
    int ends[2];
    unsigned sum = 0, one;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    for (int i = 0; i < PROCESSES; i++) {
        if (fork() == 0) {
            struct opened o = open_file(20000, "200 per 10 hours");

            one = admitted_of(o.r, LIMIT);
            _exit(write(ends[1], &one, sizeof one) != sizeof one);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        assert_int_equal(read(ends[0], &one, sizeof one), sizeof one);
        sum += one;
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;

        assert_true(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(sum, LIMIT);
}

static void what_was_admitted_stays_spent_after_a_kill(void **state)
{
    int ends[2];
    char byte;
    pid_t child;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    child = fork();
    if (child == 0) {
        struct opened o = open_file(WAIT_MS, "10 per 10 hours");

        byte = (char)admitted_of(o.r, 7);
        _exit(write(ends[1], &byte, 1) != 1 || pause() != 0);
    }
    assert_int_equal(read(ends[0], &byte, 1), 1);
    assert_int_equal(byte, 7);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(ends[0]);
    close(ends[1]);
    struct opened o = open_file(WAIT_MS, "10 per 10 hours");

    assert_int_equal(admitted_of(o.r, 10), 3);
    close_file(&o);
}

static void receipts_reservations_and_resets_work(void **state)
{
    struct opened o = open_file(WAIT_MS, "10 per 10 hours");
    struct ration_charge c = charge_of("ada", 6), again = charge_of("ada", 6);
    struct ration_decision decision;
    uint64_t hold;

    (void)state;
    assert_int_equal(ration_take(o.r, &c, RATION_NOW), 0);
    assert_true(c.verdict.allowed);
    assert_int_equal(ration_take(o.r, &again, RATION_NOW), 0);
    assert_false(again.verdict.allowed);
    assert_int_equal(ration_give_back(o.r, &c, RATION_NOW), 0);
    again = charge_of("ada", 6);
    assert_int_equal(ration_reserve(o.r, &again, 1, SECOND * 60, RATION_NOW, &hold, &decision), 0);
    assert_true(decision.allowed);
    assert_int_equal(ration_commit(o.r, hold, &again, 1, &(uint64_t){2}, RATION_NOW), 0);
    assert_int_equal(ration_commit(o.r, hold, &again, 1, &(uint64_t){2}, RATION_NOW), RATION_EGONE);
    c = charge_of("ada", 0);
    assert_int_equal(ration_peek(o.r, &c, RATION_NOW), 0);
    assert_int_equal(c.verdict.remaining, 8);

    /* What was charged before a reset is not given back after it. */
    c = charge_of("ada", 5);
    assert_int_equal(ration_take(o.r, &c, RATION_NOW), 0);
    again = charge_of("ada", 0);
    assert_int_equal(ration_reset(o.r, &again, RATION_NOW), 0);
    again = charge_of("ada", 3);
    assert_int_equal(ration_take(o.r, &again, RATION_NOW), 0);
    assert_int_equal(ration_give_back(o.r, &c, RATION_NOW), 0);
    again = charge_of("ada", 0);
    assert_int_equal(ration_peek(o.r, &again, RATION_NOW), 0);
    assert_int_equal(again.verdict.remaining, 7);
    close_file(&o);
}

static void places_are_shared_and_released(void **state)
{
    struct opened a = open_file(WAIT_MS, "2 concurrent"), b = open_file(WAIT_MS, "2 concurrent");
    struct ration_charge c = charge_of("ada", 1);
    uint64_t first, other;

    (void)state;
    assert_int_equal(ration_acquire(a.r, &c, 0, RATION_NOW, &first), 0);
    assert_true(c.verdict.allowed);
    assert_int_equal(ration_acquire(b.r, &c, 0, RATION_NOW, &other), 0);
    assert_true(c.verdict.allowed);
    assert_int_equal(ration_acquire(a.r, &c, 0, RATION_NOW, &other), 0);
    assert_false(c.verdict.allowed);
    assert_int_equal(ration_release(b.r, &c, first, RATION_NOW), 0);
    assert_int_equal(ration_acquire(a.r, &c, 0, RATION_NOW, &other), 0);
    assert_true(c.verdict.allowed);
    close_file(&a);
    close_file(&b);
}

/* ---- failure */

struct broken {
    struct ration_store inner;
    enum { WHOLE, FAILS, FORGETS_COMPUTE } how;
};

static int update_broken(void *arg, struct ration_update *u)
{
    struct broken *b = arg;

    if (b->how == WHOLE)
        return b->inner.update(b->inner.arg, u);
    return b->how == FAILS ? -1 : 0;
}

static const char rules[] =
    "limits:\n"
    "  - {name: shut, when: {path: /shut}, limit: 5 per hour, on_store_failure: refuse}\n"
    "  - {name: open, when: {path: /open}, limit: 5 per hour, on_store_failure: allow}\n"
    "  - {name: here, when: {path: /here}, limit: 5 per hour, on_store_failure: local}\n";

static unsigned admitted_path(struct ration *r, const char *at)
{
    struct ration_attribute a = {"path", 4, at, strlen(at)};
    struct ration_request request = {.attributes = &a, .count = 1};
    struct ration_outcome out;
    unsigned n = 0;

    for (int i = 0; i < 9; i++) {
        assert_int_equal(ration_decide(r, &request, RATION_NOW, &out), 0);
        n += out.decision.allowed;
    }
    return n;
}

static void a_store_that_fails_is_decided_by_on_store_failure(void **state)
{
    struct sqlite_store *file = sqlite_store_open(path, WAIT_MS);
    struct broken broken = {.inner = sqlite_store_ops(file)};
    struct ration_store store = {.size = sizeof store, .arg = &broken, .update = update_broken};
    struct ration_error error;
    struct ration *r;

    (void)state;
    assert_int_equal(ration_open(&(struct ration_options){.store = &store}, &r, &error), 0);
    assert_int_equal(ration_rules_parse(r, "rules", rules, sizeof rules - 1, NULL), 0);
    assert_int_equal(admitted_path(r, "/shut"), 5);
    for (broken.how = FAILS; broken.how <= FORGETS_COMPUTE; broken.how++) {
        assert_int_equal(admitted_path(r, "/shut"), 0);
        assert_int_equal(admitted_path(r, "/open"), 9);
    }
    assert_int_equal(admitted_path(r, "/here"), 5);
    broken.how = WHOLE;
    assert_int_equal(admitted_path(r, "/shut"), 0);
    assert_int_equal(admitted_path(r, "/open"), 5);
    ration_close(r);
    sqlite_store_close(file);
}

static void a_locked_file_ends_in_on_store_failure(void **state)
{
    struct opened o = open_file(25, "5 per hour");
    struct sqlite_store *file = sqlite_store_open(path, WAIT_MS);
    struct ration_charge c = charge_of("ada", 1);
    int ready[2], stop[2];
    char byte = 0;
    pid_t child;

    (void)state;
    sqlite_store_close(file);
    assert_int_equal(pipe(ready) | pipe(stop), 0);
    child = fork();
    if (child == 0) {
        char command[400];

        dup2(ready[1], 1);
        dup2(stop[0], 0);
        close(stop[1]);
        snprintf(command, sizeof command,
                 "import sqlite3,sys;d=sqlite3.connect('%s',isolation_level=None);"
                 "d.execute('BEGIN IMMEDIATE');print(1,flush=True);sys.stdin.read()",
                 path);
        execl("/usr/bin/python3", "python3", "-c", command, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    int64_t before = ration_now(o.r);

    assert_int_equal(ration_take(o.r, &c, RATION_NOW), 0); /* local: this node's share */
    assert_true(c.verdict.allowed);
    assert_true(ration_now(o.r) - before < 5 * SECOND);
    close(stop[1]);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(stop[0]), close(ready[0]), close(ready[1]);
    assert_int_equal(admitted_of(o.r, 9), 5);
    close_file(&o);
}

static int fail_always(void *arg, struct ration_update *u)
{
    (void)arg, (void)u;
    return -1;
}

static int find_foreign(void *arg, struct ration_update *u)
{
    (void)arg;
    u->records[0].data = "something else";
    u->records[0].len = 14;
    u->compute(u);
    return 0;
}

static void a_faulty_store_is_refused_when_it_is_opened(void **state)
{
    struct ration_store store = {.size = sizeof store};
    struct ration_options options = {.store = &store};
    struct ration_error error;
    struct ration *r;

    (void)state;
    assert_int_equal(ration_open(&options, &r, &error), RATION_EINVAL);
    assert_non_null(strstr(error.text, "without update"));
    store.update = fail_always;
    assert_int_equal(ration_open(&options, &r, &error), RATION_ESTORE);
    assert_string_equal(error.text, "the store could not be read and written");
    store.update = find_foreign;
    assert_int_equal(ration_open(&options, &r, &error), RATION_EVERSION);
    store.size = 8;
    assert_int_equal(ration_open(&options, &r, &error), RATION_EINVAL);
}

/* Whatever the store returns is no more than bytes. */
static int find_garbage(void *arg, struct ration_update *u)
{
    static unsigned char bytes[2048];

    (void)arg;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)random_next();
    for (unsigned i = 1; i < 8; i++)
        bytes[i] = 0;
    bytes[0] = (unsigned char)random_below(14);
    for (size_t i = 0; i < u->count; i++) {
        u->records[i].data = bytes;
        u->records[i].len = random_below(8) ? 8 * random_below(257) : random_below(2049);
    }
    u->compute(u);
    for (size_t i = 0; i < u->count; i++)
        if (u->records[i].changed)
            assert_true(u->records[i].len <= RATION_RECORD_MAX);
    return 0;
}

static void damaged_records_do_no_harm(void **state)
{
    struct ration_store user = {.size = sizeof user, .update = find_garbage};
    struct rn_own_store own;

    (void)state;
    assert_int_equal(rn_own_store_init(&own, &user, NULL), 0);
    for (unsigned i = 0; i < 20000; i++) {
        struct rn_limit limit = compiled(&every_form[i % KINDS].spec[random_below(2)]);
        struct rn_charge c = {.limit = &limit,
                              .key = 7,
                              .ask = {.op = (enum rn_op)random_below(RN_RESET + 1),
                                      .now_ns = BASE,
                                      .cost = random_below(4),
                                      .id = 1,
                                      .at_ns = BASE,
                                      .mark = BASE,
                                      .lease_ns = SECOND}};

        if (rn_form_is_places(limit.form) && (c.ask.op == RN_DRAIN || c.ask.op == RN_CREDIT))
            c.ask.op = RN_TAKE;
        rn_store_apply(&own.store, &c, 1);
        assert_int_equal(c.error, 0);
        assert_true(c.answer.remaining <= limit.cap || c.ask.op == RN_RESET);
    }
}

#define WITH_FILE(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)

int main(void)
{
    static struct plugged_store sqlite = {
        .name = "SQLite", .forgets_idle = true, .open = plug_sqlite, .close = unplug_sqlite};
    const struct CMUnitTest tests[] = {
        CONTRACT_TESTS(&sqlite),
        WITH_FILE(processes_on_one_key_admit_exactly_the_limit),
        WITH_FILE(what_was_admitted_stays_spent_after_a_kill),
        WITH_FILE(receipts_reservations_and_resets_work),
        WITH_FILE(places_are_shared_and_released),
        WITH_FILE(a_store_that_fails_is_decided_by_on_store_failure),
        WITH_FILE(a_locked_file_ends_in_on_store_failure),
        cmocka_unit_test(a_faulty_store_is_refused_when_it_is_opened),
        cmocka_unit_test(damaged_records_do_no_harm),
    };

    random_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
