/* SPDX-License-Identifier: Apache-2.0 */
/* Printing is the inverse of parsing: what is printed parses, and prints alike;
 * for the good files and for random rulesets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rules/print/print.h"
#include "unit/rules/fixtures.h"

/* What a text means, printed; the text must load. */
static struct text print_of(const char *name, const char *data, size_t len)
{
    struct text printed = {NULL, 0};
    struct rn_report report;
    struct rn_ruleset *ruleset = parse_text(name, data, len, &report);

    if (ruleset == NULL) {
        struct text said = text_of_report(&report);
        fail_msg("%s:\n%s\n%s", name, said.data, data);
    }
    rn_print_ruleset(ruleset, text_add, &printed);
    rn_ruleset_free(ruleset);
    rn_report_done(&report);
    return printed;
}

static void expect_round_trip(const char *name, struct text text)
{
    struct text once = print_of(name, text.data, text.len);
    struct text twice = print_of("printed.yaml", once.data, once.len);

    assert_string_equal(once.data, twice.data);
    free(once.data);
    free(twice.data);
}

static void apply_to_envoy_is_printed(void **state)
{
    static const char text[] = "apply_to_envoy: true\nlimits: [{name: a, limit: 1 per hour}]\n";
    struct text printed = print_of("text.yaml", text, sizeof text - 1);

    (void)state;
    assert_non_null(strstr(printed.data, "\napply_to_envoy: true\n"));
    free(printed.data);
}

static void good_files_survive_a_round_trip(void **state)
{
    (void)state;
    each_fixture("good", expect_round_trip);
    each_fixture("warn", expect_round_trip);
}

static void print_shows(const char *text, const char *expected)
{
    struct text printed = print_of("rules.yaml", text, strlen(text));

    assert_string_equal(printed.data, expected);
    free(printed.data);
}

static void defaults_are_left_out_and_shared_sections_dissolved(void **state)
{
    (void)state;
    print_shows("response: {status: 503}\n"
                "tiers: {plans: {free: 5 per 1s, gold: unlimited, default: free}}\n"
                "limits:\n"
                "  - {name: a, limit: {by: plan, use: plans}, mode: enforce, wait: return}\n",
                "mode: enforce\n"
                "limits:\n"
                "  - name: \"a\"\n"
                "    limit: {by: \"plan\", \"free\": [5 per second], \"gold\": unlimited, default: "
                "\"free\"}\n"
                "    response: {status: 503, headers: both}\n");
}

static void alternatives_and_numbers_are_kept(void **state)
{
    (void)state;
    print_shows("limits:\n"
                "  - name: a\n"
                "    when: [{size: {above: 1_000, below: 1e6}}, {user: ann, size: {not: {below: "
                "-0.5}}}]\n"
                "    limit: 5 per second\n"
                "  - {name: b, when: [{user: ann}], limit: 5 per second}\n",
                "mode: enforce\n"
                "limits:\n"
                "  - name: \"a\"\n"
                "    when: [{\"size\": {above: 1000, below: 1e6}}, {\"user\": {one_of: [\"ann\"]}, "
                "\"size\": {not: {below: -0.5}}}]\n"
                "    limit: [5 per second]\n"
                "  - name: \"b\"\n"
                "    when: {\"user\": {one_of: [\"ann\"]}}\n"
                "    limit: [5 per second]\n");
}

static void odd_values_are_escaped(void **state)
{
    (void)state;
    print_shows(
        "limits:\n"
        "  - name: a\n"
        "    when: {user: [\"\\\"\\\\\", \"\\u00e9\\U0001F600\", \"\\n\\t\\x7f\", 'null', \"# "
        "x\"]}\n"
        "    limit: 5 per second\n",
        "mode: enforce\n"
        "limits:\n"
        "  - name: \"a\"\n"
        "    when: {\"user\": {one_of: [\"\\\"\\\\\", \"\\u00e9\\U0001f600\", \"\\n\\x09\\x7f\", "
        "\"null\", \"# x\"]}}\n"
        "    limit: [5 per second]\n");
}

/* --- random rulesets --------------------------------------------------------------- */

static uint64_t seed = 1;

static unsigned pick(unsigned below)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(seed >> 33) % below;
}

static const char *one_of(const char *const *words, size_t count)
{
    return words[pick((unsigned)count)];
}
#define ONE_OF(...)                                                                                \
    one_of((const char *const[]){__VA_ARGS__},                                                     \
           sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static void add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct text *text, const char *format, ...)
{
    char line[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    text_add(text, line, strlen(line));
}

static const char *some_value(void)
{
    return ONE_OF("a", "\"b c\"", "'*'", "x*", "'*y*z'", "7", "true", "\"\\u00fc\"", "'#'", "~x");
}

static void add_test(struct text *t, bool inside_not)
{
    switch (pick(inside_not ? 5 : 8)) {
    case 0:
        add(t, "one_of: [%s, %s]", some_value(), some_value());
        break;
    case 1:
        add(t, "prefix: %s", some_value());
        break;
    case 2:
        add(t, "pattern: [%s]", some_value());
        break;
    case 3:
        add(t, "present: %s", ONE_OF("true", "false"));
        break;
    case 4:
        add(t, "%s: %s", ONE_OF("above", "below"), ONE_OF("5", "-1.50", "1_000", "1E-3", "007"));
        break;
    case 5:
        add(t, "above: -%u.5, below: %u", pick(9), pick(99999));
        break;
    case 6:
        add(t, "equals: %s, not: ", some_value());
        add(t, "[%s]", some_value());
        break;
    default:
        add(t, "not: {");
        add_test(t, true);
        add(t, "}");
    }
}

static void add_conditions(struct text *t)
{
    static const char *const names[] = {"user", "tier", "header.X-A", "country"};

    add(t, "{path: %s",
        ONE_OF("/a", "['/a/*', /b]", "{not: '/c/**'}", "'/u/{id}'", "{prefix: /d}"));
    if (pick(2))
        add(t, ", ip: %s",
            ONE_OF("10.0.0.0/8", "['::1', 192.0.2.0/24]", "{not: 10.1.1.1}", "{present: true}"));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (pick(3) != 0)
            continue;
        add(t, ", %s: ", names[i]);
        if (pick(2)) {
            add(t, "[%s, %s]", some_value(), some_value());
        } else {
            add(t, "{");
            add_test(t, false);
            add(t, "}");
        }
    }
    add(t, "}");
}

/* One map, or a list of up to four. */
static void add_when(struct text *t)
{
    unsigned count = pick(2) ? 0 : 1 + pick(4);

    if (count == 0)
        add_conditions(t);
    for (unsigned i = 0; i < count; i++) {
        add(t, i == 0 ? "[" : ", ");
        add_conditions(t);
    }
    add(t, count == 0 ? "" : "]");
}

/* Amounts that differ in window, so that any two may stand together. */
static void add_texts(struct text *t, bool windows)
{
    unsigned n = 1 + pick(1000);

    switch (pick(windows ? 3 : 6)) {
    case 0:
        add(t, "%u per %u minutes", n, 2 + pick(50));
        break;
    case 1:
        add(t, "[%u per second, %u per hour]", n, n * 7);
        break;
    case 2:
        add(t, "[%u per day, %u concurrent]", n, 1 + pick(50));
        break;
    case 3:
        add(t, "%u per minute burst %u", n, 1 + pick(2000));
        break;
    case 4:
        add(t, "%u per second queue %u", n, pick(99));
        break;
    default:
        add(t, "%u per calendar %s", n, ONE_OF("day", "month Europe/Rome", "year UTC"));
    }
}

static void add_limit(struct text *t, bool windows)
{
    add(t, "    limit: ");
    if (pick(3) != 0) {
        add_texts(t, windows);
    } else {
        add(t, "{by: %s, free: ", ONE_OF("tier", "plan", "method"));
        add_texts(t, windows);
        add(t, ", \"pro x\": ");
        add_texts(t, windows);
        add(t, ", open: unlimited");
        if (pick(2)) {
            add(t, ", default: ");
            if (pick(2))
                add(t, "free");
            else
                add_texts(t, windows);
        }
        add(t, "}");
    }
    add(t, "\n");
    if (windows)
        add(t, "    algorithm: %s\n",
            ONE_OF("fixed-window", "sliding-log", "sliding-window",
                   "fixed-window\n    align: first", "sliding-window\n    sub_windows: 9"));
}

static void add_behaviour(struct text *t)
{
    static const char *const lines[] = {
        "soft: 7%",
        "throttle: {from: 50%, max_delay: 1500ms}",
        "throttle: {from: 60%, max_delay: 2s}\n    wait: hold\n    max_wait: 90s",
        "queue: 50",
        "wait: hold\n    queue: {size: 7, max_wait: 90s, by: arrival}",
        "cost: {header: X-Cost, max: 9}",
        "cost: {attribute: tokens, default: 3}",
        "priority: {by: p, levels: {hi: 0%, 'l o': 99%}, default: 'l o'}",
        "mode: shadow",
        "on_full: refuse",
        "on_full: evict",
        "on_full: evict_last",
        "on_store_failure: allow",
        "consistency: leased",
        "response: {status: 503, message: \"no\\n\\u2028\"}",
        "key: [api_key or ip, user]",
        "key: {ip: {ipv4: 24}}",
        "key: ip\n    escalate: {after: 9 refusals within 90s, ban: 1500ms, grow: 1.05x}",
        "key: [ip, user]\n    escalate: {after: 1 refusal within 1d, ban: 2d, forget: 61m}",
        "usage: true",
        "usage: {per: week, zone: Asia/Tokyo, keep: 1}",
    };
    static const int same_key[] = {-1, 4,  4,  4,  4, 1, 1, -1, -1, 2, 2,
                                   2,  -1, -1, -1, 3, 3, 3, 3,  5,  5};
    bool used[6] = {false};

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        if (pick(4) != 0 || (same_key[i] > 0 && used[same_key[i]]))
            continue;
        if (same_key[i] > 0)
            used[same_key[i]] = true;
        add(t, "    %s\n", lines[i]);
    }
}

static void random_rulesets_survive_a_round_trip(void **state)
{
    (void)state;
    for (int i = 0; i < 500; i++) {
        struct text t = {NULL, 0};

        seed = (uint64_t)i + 1;
        if (pick(2))
            add(&t, "attributes:\n  ip: {trusted_proxies: [10.0.0.0/8]}\n"
                    "  user: {path: '/u/{user}/**'}\n");
        if (pick(2)) {
            add(&t, "deny:\n  - ");
            add_conditions(&t);
            add(&t, "\n");
        }
        add(&t, "limits:\n");
        for (unsigned n = 0, rules = 1 + pick(5); n < rules; n++) {
            add(&t, "  - name: r%u\n    when: ", n);
            add_when(&t);
            add(&t, "\n");
            add_limit(&t, pick(2) == 0);
            add_behaviour(&t);
        }
        expect_round_trip("random.yaml", t);
        free(t.data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_files_survive_a_round_trip),
        cmocka_unit_test(apply_to_envoy_is_printed),
        cmocka_unit_test(defaults_are_left_out_and_shared_sections_dissolved),
        cmocka_unit_test(alternatives_and_numbers_are_kept),
        cmocka_unit_test(odd_values_are_escaped),
        cmocka_unit_test(random_rulesets_survive_a_round_trip),
    };
    return cmocka_run_group_tests_name("rules/print", tests, NULL, NULL);
}
