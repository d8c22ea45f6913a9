/* SPDX-License-Identifier: Apache-2.0 */
/* Random descriptor trees and requests, against a matcher that goes through the
 * generated tree the slow, obvious way. */
#include "envoy_fixture.h"

#define TREE_NODES 60
#define TREE_DEPTH 4

/* A descriptor as generated; `rate` is its own number, 0 for none. */
struct tree {
    const char *key, *value;
    bool share;
    int rate, parent; /* parent -1: the domain */
};

static const char *const keys[] = {"a", "b", "a_b"};
static const char *const tree_values[] = {"",   "",    "x",   "y",   "xy", "x*",
                                          "*y", "x*y", "*x*", "xx*", "*",  "*y*x"};
static const char *const asked_values[] = {"", "x", "y", "xy", "yx", "xxy", "xyx", "x*", "z"};

static uint64_t seed;

static unsigned pick(unsigned count)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (unsigned)(seed >> 33) % count;
}

static bool has_star(const char *value)
{
    return strchr(value, '*') != NULL;
}

static int depth_of(const struct tree *t, int i)
{
    return i < 0 ? 0 : 1 + depth_of(t, t[i].parent);
}

static int grow(struct tree *t)
{
    int count = 0;

    for (int tries = 0; tries < TREE_NODES; tries++) {
        struct tree n = {.key = keys[pick(3)],
                         .value = tree_values[pick(12)],
                         .parent = count ? (int)pick((unsigned)count + 2) - 2 : -1};
        bool twin = false;

        if (n.parent < -1)
            n.parent = -1;
        if (depth_of(t, n.parent) >= TREE_DEPTH)
            continue;
        for (int i = 0; i < count; i++)
            twin |=
                t[i].parent == n.parent && !strcmp(t[i].key, n.key) && !strcmp(t[i].value, n.value);
        if (twin)
            continue;
        n.rate = pick(3) ? count + 1 : 0;
        n.share = has_star(n.value) && pick(2);
        t[count++] = n;
    }
    return count;
}

static void print_children(const struct tree *t, int count, int parent, char **end)
{
    append_text(end, "descriptors: [");
    for (int i = 0; i < count; i++) {
        if (t[i].parent != parent)
            continue;
        append_text(end, "{key: %s, value: '%s', share_threshold: %s, ", t[i].key, t[i].value,
                    t[i].share ? "true" : "false");
        if (t[i].rate)
            append_text(end, "rate_limit: {unit: hour, requests_per_unit: %d}, ", t[i].rate);
        print_children(t, count, i, end);
        append_text(end, "}, ");
    }
    append_text(end, "]");
}

static bool matches_naively(const char *pattern, const char *text)
{
    if (*pattern == '*')
        return matches_naively(pattern + 1, text) || (*text && matches_naively(pattern, text + 1));
    return *pattern == *text && (!*pattern || matches_naively(pattern + 1, text + 1));
}

/* The child of `parent` for an entry: the exact value, wildcards in file order,
 * the bare key. -1: none. */
static int step_naively(const struct tree *t, int count, int parent, const char *key,
                        const char *value)
{
    for (int way = 0; way < 3; way++) {
        for (int i = 0; i < count; i++) {
            const char *v = t[i].value;

            if (t[i].parent != parent || strcmp(t[i].key, key) != 0)
                continue;
            if ((way == 0 && *v && !has_star(v) && !strcmp(v, value)) ||
                (way == 1 && has_star(v) && matches_naively(v, value)) || (way == 2 && !*v))
                return i;
        }
    }
    return -1;
}

static bool has_children(const struct tree *t, int count, int parent)
{
    for (int i = 0; i < count; i++) {
        if (t[i].parent == parent)
            return true;
    }
    return false;
}

/* One random request, asked both ways. */
static void compare_once(const struct rn_ruleset *r, const struct tree *t, int count)
{
    struct rn_envoy_entry entries[TREE_DEPTH + 1];
    const char *expected[2 * (TREE_DEPTH + 1)];
    struct rn_slice parts[RN_ENVOY_PARTS_MAX];
    uint32_t part_count = 0;
    size_t len = 1 + pick(TREE_DEPTH + 1);
    int at = -1;
    bool found = true;

    for (size_t i = 0; i < len; i++) {
        const char *key = keys[pick(3)], *value = asked_values[pick(9)];

        entries[i] = (struct rn_envoy_entry){rn_slice_of(key), rn_slice_of(value)};
        at = found ? step_naively(t, count, at, key, value) : -1;
        found = at >= 0;
        expected[2 * i] = key;
        expected[2 * i + 1] = found && t[at].share ? t[at].value : value;
    }
    const struct rn_envoy_limit *l =
        rn_envoy_match(r, RN_SLICE("d"), entries, len, parts, &part_count);

    if (!found || (!t[at].rate && has_children(t, count, at))) {
        assert_null(l);
        return;
    }
    assert_non_null(l);
    assert_int_equal(l->requests_per_unit, t[at].rate);
    assert_int_equal(l->rule != NULL, t[at].rate != 0);
    assert_int_equal(part_count, 2 * len);
    for (uint32_t i = 0; i < part_count; i++)
        assert_true(rn_slice_is(parts[i], expected[i]));
}

static void random_trees_agree_with_a_naive_matcher(void **state)
{
    enum { TREES = 300, REQUESTS = 300 };
    struct tree t[TREE_NODES];
    struct loaded l;
    char *text = malloc(TREE_NODES * 200);

    (void)state;
    assert_non_null(text);
    for (seed = 1; seed <= TREES; seed++) {
        uint64_t start = seed;
        char *end = text;
        int count = grow(t);

        append_text(&end, "{domain: d, ");
        print_children(t, count, -1, &end);
        append_text(&end, "}");
        load_text(&l, "random.yaml", text);
        if (!l.ruleset)
            fail_msg("%s", l.report);
        for (int i = 0; i < REQUESTS; i++)
            compare_once(l.ruleset, t, count);
        rn_ruleset_free(l.ruleset);
        seed = start;
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_trees_agree_with_a_naive_matcher),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
