/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns: by example, against the naive matcher, and in bounded time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "naive_pattern.h"
#include "rules/match/pattern.h"

static struct rn_slice text_of(const char *text)
{
    return (struct rn_slice){text, strlen(text)};
}

static bool glob(const char *pattern, const char *text)
{
    return rn_pattern_match(text_of(pattern), text_of(text));
}

static bool path(const char *pattern, const char *text)
{
    return rn_pattern_match_path(text_of(pattern), text_of(text));
}

static void star_stands_for_any_bytes(void **state)
{
    (void)state;
    assert_true(glob("*.example.com", "a.b.example.com"));
    assert_false(glob("*.example.com", "example.com"));
    assert_true(glob("Mozilla/*(X11*", "Mozilla/5.0 (X11; Linux)"));
    assert_true(glob("a*b*c", "abbbbcbc"));
    assert_false(glob("a*b*c", "abbbbcb"));
    assert_true(glob("*", ""));
    assert_true(glob("**", "any/thing"));
    assert_true(glob("", ""));
    assert_false(glob("", "x"));
    assert_false(glob("a", ""));
    assert_true(glob("{x}", "{x}")); /* braces mean something in paths only */
    assert_false(glob("{x}", "y"));
}

static void double_star_stands_for_any_segments(void **state)
{
    (void)state;
    assert_true(path("/api/**", "/api"));
    assert_true(path("/api/**", "/api/"));
    assert_true(path("/api/**", "/api/a/b"));
    assert_false(path("/api/**", "/apis"));
    assert_false(path("/api/**", "/"));
    assert_true(path("/**", "/"));
    assert_true(path("/**", ""));
    assert_true(path("/**/edit", "/edit"));
    assert_true(path("/**/edit", "/a/b/edit"));
    assert_false(path("/**/edit", "/a/edit/b"));
    assert_true(path("/a/**/b/**/c", "/a/b/x/b/c/c"));
    assert_false(path("/a/**/b/**/c", "/a/x/c"));
    assert_true(path("/a/**/**", "/a"));
}

static void star_and_name_stay_within_a_segment(void **state)
{
    (void)state;
    assert_true(path("/users/*", "/users/42"));
    assert_false(path("/users/*", "/users/42/posts"));
    assert_false(path("/users/*", "/users/"));
    assert_true(path("/v*/x", "/v2/x"));
    assert_true(path("/v*/x", "/v/x"));
    assert_false(path("/v*/x", "/v/2/x"));
    assert_true(path("/img/*-*.png", "/img/a-b-c.png"));
    assert_true(path("/users/{id}/posts", "/users/42/posts"));
    assert_false(path("/users/{id}/posts", "/users//posts"));
    assert_false(path("/users/{id}", "/users/1/2"));
}

static void slashes_cannot_be_used_to_get_around_a_rule(void **state)
{
    (void)state;
    assert_true(path("/login", "/login/"));
    assert_true(path("/login", "//login"));
    assert_true(path("/login/", "/login"));
    assert_true(path("/a/b", "/a///b//"));
    assert_true(path("/", "/"));
    assert_true(path("/", "///"));
    assert_false(path("/", "/a"));
    assert_false(path("/login", "/Login"));
}

static void nothing_is_cut_from_a_path_that_has_been_read(void **state)
{
    (void)state;
    assert_false(path("/login", "/login?next"));
    assert_true(path("/items/*/buy", "/items/a?b/buy"));
    assert_true(path("/items/*/buy", "/items/#/buy"));
}

static bool has_prefix(const char *text, const char *prefix)
{
    return rn_pattern_path_begins(text_of(text), text_of(prefix));
}

static void a_slash_that_ends_a_prefix_may_be_missing(void **state)
{
    (void)state;
    assert_true(has_prefix("/api", "/api/"));
    assert_true(has_prefix("/api/users", "/api/"));
    assert_false(has_prefix("/apis", "/api/"));
    assert_true(has_prefix("/apis", "/api"));
    assert_true(has_prefix("/", "/"));
    assert_false(has_prefix("/", "/a"));
    assert_false(has_prefix("/ap", "/api"));
}

static void segments_are_counted_from_zero(void **state)
{
    struct rn_slice target = text_of("//users/42/"), found;

    (void)state;
    found = rn_pattern_segment(target, 0);
    assert_int_equal(found.len, 5);
    assert_memory_equal(found.data, "users", 5);
    found = rn_pattern_segment(target, 1);
    assert_int_equal(found.len, 2);
    assert_memory_equal(found.data, "42", 2);
    assert_null(rn_pattern_segment(target, 2).data);
    assert_null(rn_pattern_segment(target, UINT32_MAX).data);
    assert_null(rn_pattern_segment(text_of("/"), 0).data);
    assert_null(rn_pattern_segment(text_of(""), 0).data);
}

static void faults_say_what_to_write(void **state)
{
    static const char whole[] =
        "{name} stands for a whole segment; write /users/{id}, or * for a part of one";
    static const struct {
        const char *pattern, *fault;
    } cases[] = {
        {"", "the path is empty; write / for the root or /** for every path"},
        {"api/**", "a path begins with a slash; write /api/** rather than api/**"},
        {"/a%2a", "an escaped *, { or } in a pattern would stand for more than itself; write "
                  "{equals: ...}, where it does not"},
        {"/%7Bid%7d", "an escaped *, { or } in a pattern would stand for more than itself; write "
                      "{equals: ...}, where it does not"},
        {"/a?b", "a path ends before ? or #, so this can never match; leave the query away"},
        {"/a/b{c}", whole},
        {"/a/{c}b", whole},
        {"/a/c}", whole},
        {"/a/{{c}", whole},
        {"/a/{b}{c}", whole},
        {"/a/{}", "{} has no name; write {id}, or * for any segment"},
        {"/a**", "** stands for whole segments; write /files/**, or * for a part of one"},
        {"/a/***", "** stands for whole segments; write /files/**, or * for a part of one"},
        {"/", NULL},
        {"/**", NULL},
        {"/a/{b}/**/*.png", NULL},
        {"/a//b/", NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *fault = rn_pattern_fault(text_of(cases[i].pattern));

        if (!fault != !cases[i].fault || (fault && strcmp(fault, cases[i].fault) != 0))
            fail_msg("%s: %s", cases[i].pattern, fault ? fault : "no fault");
    }
}

static void the_literal_beginning_ends_at_the_first_wildcard(void **state)
{
    (void)state;
    assert_int_equal(rn_pattern_literal(text_of("/api/v*/x")).len, 6);
    assert_int_equal(rn_pattern_literal(text_of("/users/{id}")).len, 7);
    assert_int_equal(rn_pattern_literal(text_of("/login")).len, 6);
    assert_int_equal(rn_pattern_literal(text_of("*")).len, 0);
}

/* --- against the naive matcher ------------------------------------------------ */

static size_t random_text(char *out, size_t max, const char *alphabet)
{
    size_t len = (size_t)rand() % (max + 1), letters = strlen(alphabet);

    for (size_t i = 0; i < len; i++)
        out[i] = alphabet[(size_t)rand() % letters];
    return len;
}

static void globs_equal_the_naive_matcher(void **state)
{
    char p[10], t[12];
    unsigned matched = 0;

    (void)state;
    srand(1);
    for (int i = 0; i < 300000; i++) {
        struct rn_slice pattern = {p, random_text(p, sizeof p, "ab*")};
        struct rn_slice text = {t, random_text(t, sizeof t, "ab")};
        bool expected = naive_glob(pattern, text);

        if (rn_pattern_match(pattern, text) != expected)
            fail_msg("%.*s on %.*s", (int)pattern.len, p, (int)text.len, t);
        matched += expected;
    }
    assert_in_range(matched, 10000, 290000);
}

/* Mostly well-formed path patterns, made of pieces. */
static size_t random_path_pattern(char *out)
{
    static const char *const pieces[] = {"/a",  "/b",   "/*",  "/**",  "/a*",
                                         "/*b", "/{x}", "//a", "/*a*", "/"};
    size_t len = 0, count = (size_t)rand() % 6;

    for (size_t i = 0; i < count; i++) {
        const char *piece = pieces[(size_t)rand() % (sizeof pieces / sizeof *pieces)];

        memcpy(out + len, piece, strlen(piece));
        len += strlen(piece);
    }
    return len;
}

static void paths_equal_the_naive_matcher(void **state)
{
    char p[64], t[14];
    unsigned matched = 0;

    (void)state;
    srand(2);
    for (int i = 0; i < 300000; i++) {
        struct rn_slice pattern = {p, i % 4 ? random_path_pattern(p) : random_text(p, 10, "/a*{}")};
        struct rn_slice text = {t, random_text(t, sizeof t, i % 8 ? "/ab" : "/ab?")};
        bool expected = naive_path(pattern, text);

        if (rn_pattern_match_path(pattern, text) != expected)
            fail_msg("%.*s on %.*s", (int)pattern.len, p, (int)text.len, t);
        matched += expected;
    }
    assert_in_range(matched, 10000, 290000);
}

/* On pairs of patterns and all paths that are tried: what is covered is matched. */
static void a_covering_pattern_matches_the_same_paths(void **state)
{
    char w[64], n[64], t[14];
    unsigned covered = 0, matched = 0;

    (void)state;
    srand(3);
    for (int i = 0; i < 100000; i++) {
        struct rn_slice wide = {w, random_path_pattern(w)}, narrow = {n, random_path_pattern(n)};

        if (!rn_pattern_covers(wide, narrow))
            continue;
        covered++;
        for (int k = 0; k < 20; k++) {
            struct rn_slice path = {t, random_text(t, sizeof t, "/ab")};

            if (!naive_path(narrow, path))
                continue;
            matched++;
            if (!naive_path(wide, path))
                fail_msg("%.*s is not within %.*s: %.*s", (int)narrow.len, n, (int)wide.len, w,
                         (int)path.len, t);
        }
    }
    assert_in_range(covered, 5000, 50000);
    assert_in_range(matched, 5000, 1000000);
}

/* Exponential matchers do not return from this in a lifetime. */
static void many_stars_take_bounded_time(void **state)
{
    static char pattern[4000], text[20000];

    (void)state;
    for (size_t i = 0; i + 1 < sizeof pattern; i += 2)
        memcpy(pattern + i, "*a", 2);
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = 'b';
    assert_false(rn_pattern_match((struct rn_slice){pattern, sizeof pattern},
                                  (struct rn_slice){text, sizeof text}));
    for (size_t i = 0; i + 4 < sizeof pattern; i += 5)
        memcpy(pattern + i, "/**/a", 5);
    for (size_t i = 0; i + 1 < sizeof text; i += 2)
        memcpy(text + i, "/a", 2);
    text[sizeof text - 1] = 'b';
    assert_false(rn_pattern_match_path((struct rn_slice){pattern, sizeof pattern},
                                       (struct rn_slice){text, sizeof text}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(star_stands_for_any_bytes),
        cmocka_unit_test(double_star_stands_for_any_segments),
        cmocka_unit_test(star_and_name_stay_within_a_segment),
        cmocka_unit_test(slashes_cannot_be_used_to_get_around_a_rule),
        cmocka_unit_test(nothing_is_cut_from_a_path_that_has_been_read),
        cmocka_unit_test(a_slash_that_ends_a_prefix_may_be_missing),
        cmocka_unit_test(segments_are_counted_from_zero),
        cmocka_unit_test(faults_say_what_to_write),
        cmocka_unit_test(the_literal_beginning_ends_at_the_first_wildcard),
        cmocka_unit_test(globs_equal_the_naive_matcher),
        cmocka_unit_test(paths_equal_the_naive_matcher),
        cmocka_unit_test(a_covering_pattern_matches_the_same_paths),
        cmocka_unit_test(many_stars_take_bounded_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
