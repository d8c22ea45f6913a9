/* SPDX-License-Identifier: Apache-2.0 */
/* Names looked up while the loop goes on. */
#include "net/resolve.h"

#include "echo.h"

struct asker {
    struct running r;
    const char *name;
    bool cancels;
    _Atomic int done;
    _Atomic bool begun;
    size_t count;
    struct rn_peer first;
    char why[128];
};

static void on_done(void *arg, const struct rn_address *found, size_t count, const char *why)
{
    struct asker *a = arg;

    a->count = count;
    if (count > 0)
        rn_address_peer(&found[0], &a->first);
    snprintf(a->why, sizeof a->why, "%s", why);
    a->done++;
}

static void ask(void *arg, struct rn_loop *loop)
{
    struct asker *a = arg;
    struct rn_resolve *resolve;

    if (rn_loop_index(loop) != 0)
        return;
    resolve = rn_resolve_begin(loop, a->name, on_done, a);
    assert_non_null(resolve);
    assert_int_equal(a->done, 0);
    if (a->cancels)
        rn_resolve_cancel(resolve);
    a->begun = true;
}

static void start_asker(struct asker *a)
{
    prepare_server(&a->r, (struct rn_server_options){0});
    listen_on(&a->r, "tcp", "127.0.0.1:0");
    a->r.calls.arg = a; /* the first member is the running server */
    a->r.calls.worker_begins = ask;
    start_server(&a->r);
    wait_for(a->begun);
}

static void a_name_has_its_addresses_with_the_port(void **state)
{
    struct asker a = {.name = "localhost:4711"};

    (void)state;
    start_asker(&a);
    wait_for(a.done == 1);
    assert_true(a.count >= 1 && a.count <= RN_RESOLVE_MAX);
    assert_true(a.first.local);
    assert_int_equal(a.first.port, 4711);
    stop_server(&a.r);
}

static void a_name_without_addresses_has_a_reason(void **state)
{
    struct asker a = {.name = "no.such.host.invalid:1"};

    (void)state;
    start_asker(&a);
    wait_for(a.done == 1);
    assert_int_equal(a.count, 0);
    assert_true(a.why[0] != '\0');
    stop_server(&a.r);
}

static void a_cancelled_lookup_calls_nothing(void **state)
{
    struct asker a = {.name = "localhost:1", .cancels = true};

    (void)state;
    start_asker(&a);
    stop_server(&a.r); /* the loop ends when the question has */
    assert_int_equal(a.done, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_has_its_addresses_with_the_port),
        cmocka_unit_test(a_name_without_addresses_has_a_reason),
        cmocka_unit_test(a_cancelled_lookup_calls_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
