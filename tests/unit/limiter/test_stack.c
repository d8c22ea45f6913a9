/* SPDX-License-Identifier: Apache-2.0 */
/* How much stack a decision takes: at most 16 KB, as a thread of musl has 128 KB for everything.
 * Each decision is the first one of a thread whose stack was painted before. */
#include "clients_fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>

#include <ration/envoy.h>

#include "limiter/rulebook/explain.h"

#define STACK_BYTES ((size_t)256 << 10)
#define PAINT 0xA5
#define MOST ((size_t)16 << 10)

/* Other compilers and sanitizers lay out frames as they like: they run the tests, that is all. */
#if defined __GNUC__ && !defined __clang__ && defined __OPTIMIZE__ && !defined __SANITIZE_ADDRESS__
#define MEASURED true
#else
#define MEASURED false
#endif

static struct {
    void (*call)(void);
    const unsigned char *stack,
        *from; /* the lowest byte of all, and of what the test itself used */
    struct ration *r;
    int64_t now_ns;
    struct ration_charge charges[RATION_CHARGES_MAX];
    struct ration_decision decision;
    struct words words;
    struct ration_outcome outcome;
    char ticket[RATION_TICKET_SIZE];
    struct ration_descriptor_entry entry;
    struct ration_descriptor_ask asks[RATION_DESCRIPTORS_MAX];
    struct ration_descriptors descriptors;
    struct ration_descriptors_outcome descriptors_outcome;
    int code;
} run;

static void *call_on_thread(void *arg)
{
    (void)arg;
    run.from = __builtin_frame_address(0);
    run.call();
    return NULL;
}

/* The call must succeed. */
static void measure(const char *what, void (*call)(void))
{
    unsigned char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    const unsigned char *touched = stack;
    pthread_attr_t attributes;
    pthread_t thread;

    assert_ptr_not_equal(stack, MAP_FAILED);
    memset(stack, PAINT, STACK_BYTES);
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstack(&attributes, stack, STACK_BYTES), 0);
    run.call = call;
    run.code = -1;
    assert_int_equal(pthread_create(&thread, &attributes, call_on_thread, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(run.code, 0);
    while (*touched == PAINT)
        touched++;
    print_message("%6zu bytes: %s\n", (size_t)(run.from - touched), what);
    if (MEASURED && (size_t)(run.from - touched) > MOST)
        fail_msg("%s takes %zu bytes of stack", what, (size_t)(run.from - touched));
    pthread_attr_destroy(&attributes);
    munmap(stack, STACK_BYTES);
}

/* --- limits ------------------------------------------------------------------------------ */

static void take_one(void)
{
    run.code = ration_take(run.r, &run.charges[0], T0);
}

static void take_batch(void)
{
    ration_take_batch(run.r, run.charges, RATION_CHARGES_MAX, T0);
    run.code = 0;
}

static void check_all(void)
{
    run.code = ration_check(run.r, run.charges, RATION_CHARGES_MAX, T0, &run.decision);
}

static void peek_one(void)
{
    run.code = ration_peek(run.r, &run.charges[0], T0);
}

static void limits_take_little_stack(void **state)
{
    static const struct ration_limit given = {
        .algorithm = RATION_SLIDING_LOG, .amount = 20, .period_ns = MINUTE};
    const struct ration_named limits[] = {
        named("plain", "10 per minute"),
        with(named("v", "10 per 2m"), RATION_SLIDING_LOG),
        with(named("v", "20 per minute"), RATION_FIXED_WINDOW),
        with(named("v", "300 per hour"), RATION_SLIDING_WINDOW),
        flagged(named("shy", "10 per minute"), RATION_SHADOW),
    };

    (void)state;
    run.r = open_limits(limits, COUNT(limits));
    run.charges[0] = charge(0, "ann", 1);
    measure("ration_take", take_one);
    run.charges[0] = charge(0, "ann", 11);
    measure("ration_take, refused", take_one);
    run.charges[0] = charge(1, "ann", 1);
    measure("ration_take with variants", take_one);
    measure("ration_peek with variants", peek_one);
    run.charges[0] = (struct ration_charge){.ad_hoc = &given, .key = "k", .key_len = 1, .cost = 1};
    measure("ration_take of a limit given with the call", take_one);
    for (uint32_t i = 0; i < RATION_CHARGES_MAX; i++)
        run.charges[i] = charge(i % COUNT(limits), "bob", 0);
    measure("ration_check of 64 limits", check_all);
    for (uint32_t i = 0; i < RATION_CHARGES_MAX; i++)
        run.charges[i] = charge(i % COUNT(limits), "bob", 1);
    measure("ration_check of 64 limits, with undo", check_all);
    measure("ration_take_batch of 64 limits", take_batch);
    ration_close(run.r);
}

/* --- rules ------------------------------------------------------------------------------- */

static void decide_one(void)
{
    run.code = ration_decide(run.r, &run.words.request, run.now_ns, &run.outcome);
}

static void peek_rules(void)
{
    run.code = ration_decide_peek(run.r, &run.words.request, run.now_ns, &run.outcome);
}

static void reserve(void)
{
    run.code = ration_decide_reserve(run.r, &run.words.request, MINUTE, run.now_ns, &run.outcome,
                                     run.ticket);
}

static void commit(void)
{
    run.code = ration_ticket_commit(run.r, run.ticket, strlen(run.ticket), false, 3, run.now_ns);
}

static int see_nothing(void *arg, const struct rn_explained_rule *rule)
{
    (void)arg;
    (void)rule;
    return 0;
}

static void explain(void)
{
    run.code = rn_explain_run(run.r, &(struct rn_explain){.request = &run.words.request,
                                                          .now_ns = run.now_ns,
                                                          .see = see_nothing});
}

static void descriptor(void)
{
    const struct ration_descriptor d = {
        .domain = "shop", .domain_len = 4, .entries = &run.entry, .count = 1, .hits = 1};

    run.code = ration_decide_descriptor(run.r, &d, run.now_ns, &run.outcome);
}

static void descriptors(void)
{
    run.code =
        ration_decide_descriptors(run.r, &run.descriptors, run.now_ns, &run.descriptors_outcome);
}

/* As many rules as may apply to one request, on paths that are hard to read. */
static void write_rules(char *text, size_t size, const char *limit)
{
    size_t len = (size_t)snprintf(text, size, "limits:\n");

    for (int i = 0; i < 60; i++)
        len += (size_t)snprintf(text + len, size - len,
                                "  - { name: r%d, key: [user, ip], limit: %s, when: "
                                "{ path: /a/** }%s }\n",
                                i, limit, i % 7 == 6 ? ", mode: shadow" : "");
    assert_true(len < size);
}

static void rules_take_little_stack(void **state)
{
    static char text[1 << 14];

    (void)state;
    run.now_ns = T0;
    run.r = open_rules("limits:\n  - { name: a, key: user, limit: 10 per hour }\n");
    split_words(&run.words, "user=ann ip=192.0.2.7 method=GET host=example.org path=/a/%2e/b");
    measure("ration_decide, one rule", decide_one);
    write_rules(text, sizeof text, "10 per hour");
    rules_at(run.r, text, T0);
    measure("ration_decide, 60 rules", decide_one);
    measure("ration_decide_peek, 60 rules", peek_rules);
    measure("rn_explain_run, 60 rules", explain);
    measure("ration_decide_reserve, 60 rules", reserve);
    measure("ration_ticket_commit of more than was reserved", commit);
    write_rules(text, sizeof text, "100 per day");
    rules_at(run.r, text, T0);
    measure("ration_decide, 60 rules that have just changed", decide_one);
    set_limit(run.r, "r3", "user=ann ip=192.0.2.7", "5 per minute");
    ban(run.r, "user=eve");
    measure("ration_decide with an override, and bans", decide_one);
    split_words(&run.words, "user=eve");
    measure("ration_decide of a banned client", decide_one);
    ration_close(run.r);
}

static void descriptors_take_little_stack(void **state)
{
    (void)state;
    run.now_ns = T0;
    run.r = open_rules("domain: shop\n"
                       "descriptors:\n"
                       "  - key: user\n"
                       "    rate_limit: {unit: minute, requests_per_unit: 1000}\n");
    run.entry = (struct ration_descriptor_entry){"user", 4, "ann", 3};
    for (size_t i = 0; i < RATION_DESCRIPTORS_MAX; i++)
        run.asks[i] = (struct ration_descriptor_ask){.entries = &run.entry, .count = 1, .hits = 1};
    run.descriptors = (struct ration_descriptors){
        .domain = "shop", .domain_len = 4, .asks = run.asks, .count = RATION_DESCRIPTORS_MAX};
    measure("ration_decide_descriptor", descriptor);
    measure("ration_decide_descriptors, 64 of them", descriptors);
    ban(run.r, "user=ann");
    measure("ration_decide_descriptors of a banned client", descriptors);
    assert_int_equal(unban(run.r, "user=ann"), 0);
    rules_at(run.r,
             "apply_to_envoy: true\n"
             "limits:\n  - { name: a, key: user, limit: 1000 per hour }\n",
             T0);
    measure("ration_decide_descriptor, native rules", descriptor);
    measure("ration_decide_descriptors, native rules", descriptors);
    ration_close(run.r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_take_little_stack),
        cmocka_unit_test(rules_take_little_stack),
        cmocka_unit_test(descriptors_take_little_stack),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
