/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Properties of random paths: the path that any of the naive servers sees is a reading, so that its
 * rules apply, and spellings that a server reads as one path have one key.
 */
#include "path_fixture.h"

#include "naive_servers.h"

/* --- spellings ---------------------------------------------------------------------------- */

static uint64_t seed = 1;

static uint32_t random_below(uint32_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % n;
}

static const char *const pieces[] = {
    "a",   "b",   "/",   "/",   "/",     "%2F",   "%2f", "\\",  "%5C",    ".",       "..",
    "%2e", "%2E", ";",   "%3B", "%25",   "2F",    "#",   "%23", "%c0%ae", "%c0%af",  "%ff",
    "%61", "%62", "%3F", "%20", "%2561", "%252F", "%",   "A",   "%C3%A9", "%25%32F", "%252e"};

/* Mostly ordinary segments, with up to three kinds of odd ones. */
static struct text random_target(void)
{
    const char *odd[3];
    uint32_t kinds = 1 + random_below(3), len = 1 + random_below(10);
    struct text t = {.bytes = "/", .len = 1};

    for (uint32_t i = 0; i < kinds; i++)
        odd[i] = pieces[random_below(sizeof pieces / sizeof *pieces)];
    for (uint32_t i = 0; i < len; i++) {
        const char *piece =
            random_below(3) == 0 ? odd[random_below(kinds)] : pieces[random_below(5)];

        while (*piece)
            add(&t, *piece++);
        if (random_below(200) == 0)
            for (piece = "%00"; *piece;)
                add(&t, *piece++);
    }
    return t;
}

static bool is_among_readings(const struct text *seen)
{
    for (uint32_t i = 0; i < readings.count; i++)
        if (rn_slice_equal(readings.text[i], (struct rn_slice){seen->bytes, seen->len}))
            return true;
    return false;
}

static void the_path_that_a_server_sees_is_a_reading(void **state)
{
    unsigned read = 0, several = 0;

    (void)state;
    for (unsigned round = 0; round < 60000; round++) {
        struct text t = random_target();

        read_text((struct rn_slice){t.bytes, t.len}, &defaults);
        if (readings.unreadable)
            continue;
        read++;
        several += readings.count > 1;
        for (size_t s = 0; s < 2 * sizeof servers / sizeof *servers; s++) {
            struct text seen = servers[s / 2](s % 2 ? cut(t, '#') : t);

            if (!is_among_readings(&seen))
                fail_msg("%.*s: server %zu sees %.*s, which is none of %u readings", (int)t.len,
                         t.bytes, s / 2, (int)seen.len, seen.bytes, readings.count);
        }
    }
    assert_true(read > 20000 && several > 10000);
}

/* The path that a server sees has the same key as the path that was sent, so that no spelling gets
 * a new counter. Paths with //host or # may have two keys: servers do not agree on them. */
static void spellings_of_one_path_have_one_key(void **state)
{
    unsigned compared = 0;

    (void)state;
    for (unsigned round = 0; round < 60000; round++) {
        struct text t = random_target(), key;

        read_text((struct rn_slice){t.bytes, t.len}, &defaults);
        if (readings.unreadable || memchr(t.bytes, '#', t.len) ||
            (t.len > 1 && (t.bytes[1] == '/' || t.bytes[1] == '\\')))
            continue;
        key.len = readings.text[0].len;
        memcpy(key.bytes, readings.text[0].data, key.len);
        for (size_t s = 0; s < sizeof servers / sizeof *servers; s++) {
            struct text seen = servers[s](t);

            if (seen.len > 1 && seen.bytes[1] == '\\') /* looks like //host now */
                continue;
            read_text((struct rn_slice){seen.bytes, seen.len}, &defaults);
            if (!rn_slice_equal(readings.text[0], (struct rn_slice){key.bytes, key.len}))
                fail_msg("%.*s has key %.*s, but server %zu sees %.*s with key %.*s", (int)t.len,
                         t.bytes, (int)key.len, key.bytes, s, (int)seen.len, seen.bytes,
                         (int)readings.text[0].len, readings.text[0].data);
            compared++;
        }
    }
    assert_true(compared > 100000);
}

/* --- spellings of one path ------------------------------------------------------------- */

static void add_code(struct text *t, char c, bool twice_over)
{
    const char *digits = random_below(2) ? "0123456789abcdef" : "0123456789ABCDEF";

    add(t, '%');
    if (twice_over) {
        add(t, '2');
        add(t, '5');
    }
    add(t, digits[(unsigned char)c >> 4]);
    add(t, digits[c & 15]);
}

enum { CODES, CODES_TWICE, SLASHES, SLASH_CODES, BACKSLASHES, OVERLONG, PARAMETERS, DOTS, WAYS };

/* The path in another spelling, odd in one way only; ordinary escapes may be everywhere. */
static struct text respell(struct rn_slice path, uint32_t way)
{
    struct text t = {.len = 0};

    for (size_t i = 0; i < path.len; i++) {
        char c = path.data[i];
        bool chosen = random_below(3) == 0;

        if (c == '/' && i > 0 && chosen && way == SLASH_CODES)
            add_code(&t, c, false);
        else if (c == '/' && i > 0 && chosen && way == BACKSLASHES)
            add(&t, '\\');
        else if (c != '/' && chosen && way == CODES_TWICE)
            add_code(&t, c, true);
        else if (c != '/' && chosen && way == OVERLONG) {
            add_code(&t, (char)(0xC0 | c >> 6), false);
            add_code(&t, (char)(0x80 | (c & 0x3F)), false);
        } else if (c != '/' && random_below(4) == 0)
            add_code(&t, c, false);
        else
            add(&t, c);
        if (c != '/' || i == 0)
            continue;
        for (const char *more = !chosen          ? ""
                                : way == SLASHES ? "//"
                                : way == DOTS    ? "./x/%2e%2E/"
                                                 : "";
             *more; more++)
            add(&t, *more);
    }
    for (const char *end = way == PARAMETERS ? ";v=1,2" : random_below(2) ? "/" : "?x=/.."; *end;)
        add(&t, *end++);
    return t;
}

static void a_respelt_path_reads_as_the_path(void **state)
{
    static const char *const paths[] = {"/login", "/api/v2/users/42", "/a/b/c/d/e/f", "/x-y_z~.1"};

    (void)state;
    for (unsigned round = 0; round < 40000; round++) {
        struct rn_slice path = rn_slice_of(paths[round % 4]);
        struct text t = respell(path, random_below(WAYS));

        read_text((struct rn_slice){t.bytes, t.len}, &defaults);
        if (readings.unreadable || !rn_slice_equal(readings.text[0], path))
            fail_msg("%.*s is read as %.*s, not as %s", (int)t.len, t.bytes,
                     (int)readings.text[0].len, readings.text[0].data, path.data);
    }
}

/* Nothing in a first reading can be read in two ways. */
static void the_first_reading_is_its_own_only_reading(void **state)
{
    char text[TEXT];
    unsigned read = 0;

    (void)state;
    for (unsigned round = 0; round < 30000; round++) {
        struct text t = random_target();
        size_t len;

        read_text((struct rn_slice){t.bytes, t.len}, &defaults);
        if (readings.unreadable)
            continue;
        len = readings.text[0].len;
        memcpy(text, readings.text[0].data, len);
        read_text((struct rn_slice){text, len}, &defaults);
        if (readings.count != 1 || !rn_slice_equal(readings.text[0], (struct rn_slice){text, len}))
            fail_msg("%.*s is read as %.*s, and that as %.*s", (int)t.len, t.bytes, (int)len, text,
                     (int)readings.text[0].len, readings.text[0].data);
        read++;
    }
    assert_true(read > 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_path_that_a_server_sees_is_a_reading),
        cmocka_unit_test(spellings_of_one_path_have_one_key),
        cmocka_unit_test(a_respelt_path_reads_as_the_path),
        cmocka_unit_test(the_first_reading_is_its_own_only_reading),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
