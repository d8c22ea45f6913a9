/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readings of paths: a table, and two properties over random spellings. Whatever
 * one of the naive servers below takes a path for is among its readings, so a rule
 * for it applies; and spellings that a server takes for one path have one key.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "rules/match/path.h"

static const struct rn_path_settings defaults;
static struct rn_path_readings readings;

static void read_text(struct rn_slice target, const struct rn_path_settings *settings)
{
    memset(&readings, 0xee, sizeof readings); /* a caller's scratch holds anything */
    if (rn_path_is_plain(rn_path_cut_query(target), settings)) {
        readings.count = 1;
        readings.unreadable = false;
        readings.text[0] = rn_path_cut_query(target);
    } else {
        rn_path_read_all(target, settings, &readings);
    }
}

/* `expected`: readings with a space between them; "-": unreadable. */
static void assert_readings(const char *target, const struct rn_path_settings *settings,
                            const char *expected)
{
    char found[256] = "";
    size_t len = 0;

    read_text(rn_slice_of(target), settings);
    for (uint32_t i = 0; i < readings.count && len < sizeof found; i++)
        len += (size_t)snprintf(found + len, sizeof found - len, "%s%.*s", i == 0 ? "" : " ",
                                (int)readings.text[i].len, readings.text[i].data);
    if (strcmp(readings.unreadable ? "-" : found, expected) != 0)
        fail_msg("%s is read as %s, expected %s", target, readings.unreadable ? "-" : found,
                 expected);
}

static void each_spelling_has_these_readings(void **state)
{
    static const char *const cases[][2] = {
        {"/", "/"},
        {"/login", "/login"},
        {"/login?next=/x#y", "/login"},
        {"/login/", "/login"},
        {"/a//b///c", "/a/b/c"},
        {"/%6cog%49n", "/logIn"},
        {"/caf%c3%a9", "/caf\xc3\xa9"},
        {"/caf\xc3\xa9", "/caf\xc3\xa9"},
        {"/%40a%20b%2a", "/@a b*"},
        {"/it's!", "/it's!"},
        {"/a%3fb/%23", "/a%3Fb/%23"},
        {"/100%", "/100%25"},
        {"/100%25", "/100%25"},
        {"/%zz%2", "/%25zz%252"},
        {"/%u006/%under", "/%25u006/%25under"},
        {"host:80/login", "/host:80/login"},
        {"?x=1", "/"},
        {"login", "/login"},
        {"*", "/*"},
        {"http://host/login", "/login"},
        {"HTTPS://user@host:8443/%6cogin?x", "/login"},
        {"http://host", "/"},
        {"http://host?x=/login", "/"},
        {"/http://host/x", "/http:/host/x"},
        /* Two ways to read it. */
        {"/a%2Fb", "/a/b /a%2Fb"},
        {"/a%2fb", "/a/b /a%2Fb"},
        {"/a\\b", "/a/b /a\\b"},
        {"/a%5cb", "/a/b /a\\b"},
        {"/a%256cb", "/alb /a%256cb"},
        {"/a%2%35b", "/a%25b /a%2525b"},
        {"/a;v=1/b", "/a/b /a;v=1/b"},
        {"/a%3Bv=1/b", "/a/b /a;v=1/b"},
        {"/a/;v=1/b", "/a/b /a/;v=1/b"},
        {"/a#b", "/a /a%23b"},
        {"/a%c0%afb", "/a/b /a\xc0\xaf\x62"},
        {"/%c1%acogin", "/login /\xc1\xacogin"},
        {"/log\xffin", "/login /log\xffin"},
        {"/%f8%80%80%81%acogin", "/login /\xf8\x80\x80\x81\xacogin"},
        {"/%fc%80%80%80%81%acogin", "/login /\xfc\x80\x80\x80\x81\xacogin"},
        {"/log%f8%fein", "/login /log\xf8\xfein"},
        {"/log%e2%82in", "/login /log\xe2\x82in"},
        {"/log%ed%a0%80in", "/login /log\xed\xa0\x80in"},
        {"/a/../b", "/b /a/../b"},
        {"/a/./b/.", "/a/b /a/./b/."},
        {"/%2e%2E/../b", "/b /../../b"},
        {"/a/b/%2e%2e", "/a /a/b/.."},
        {"/...", "/..."},
        {"//host/b", "/b /host/b"},
        {"///host/b", "/b /host/b"},
        {"/\\host/b", "/b /host/b /\\host/b"},
        {"//login", "/ /login"},
        {"//", "/"},
        /* Two matters of opinion that do not touch each other. */
        {"/a%2Fb\\c", "/a/b/c /a%2Fb/c /a/b\\c /a%2Fb\\c"},
        /* What one decides changes what the other means. */
        {"/a%25256cb", "-"},
        {"/a%2%356cb", "-"},
        {"/a%2F..%2Fb", "-"},
        {"/x%2Fy/../b", "-"},
        {"/a\\..\\b", "-"},
        {"/a/%252e%252e/b", "-"},
        {"/a%25%ff61", "-"},
        {"/a/%c0%ae%c0%ae/b", "-"},
        {"/a/..;/b", "-"},
        {"/a//../b", "-"},
        {"/a;b%2Fc/d", "-"},
        {"//a%2Fb/c", "-"},
        {"//host/../b", "-"},
        {"/%u006cogin", "-"},
        {"/log%U0069n", "-"},
        {"http:/login", "-"},
        {"http:\\\\host\\login", "-"},
        {"/a%2Fb\\c;d#e", "-"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_readings(cases[i][0], &defaults, cases[i][1]);
}

static void settings_decide_what_they_are_about(void **state)
{
    const struct rn_path_settings keep = {.parameters = RN_PARAMETERS_KEEP},
                                  ignore = {.parameters = RN_PARAMETERS_IGNORE},
                                  no_case = {.ignore_case = true},
                                  no_extension = {.ignore_extension = true};

    (void)state;
    assert_readings("/a;v=1/b%3Bc", &keep, "/a;v=1/b;c");
    assert_readings("/a;v=1/b", &ignore, "/a/b");
    assert_readings("/a/..;x/b", &ignore, "/b /a/../b");
    assert_readings("/a%3Bv=1/b", &ignore, "/a/b /a%3Bv=1/b");
    assert_readings("/a;%2F/b", &ignore, "-");
    assert_readings("/LoGin/%4C%2Fx", &no_case, "/login/l/x /login/l%2Fx");
    assert_readings("/\xc3\x89", &no_case, "/\xc3\x89");
    assert_readings("/login.json", &no_extension, "/login /login.json");
    assert_readings("/a.b/login", &no_extension, "/a.b/login");
    assert_readings("/login.", &no_extension, "/login /login.");
    assert_readings("/a.tar.gz/", &no_extension, "/a /a.tar.gz");
    assert_readings("/.env", &no_extension, "/.env");
    assert_readings("/x/../a.b", &no_extension, "/a /x/../a /a.b /x/../a.b");
}

static void a_path_too_long_to_be_rewritten_is_unreadable(void **state)
{
    static char path[RN_PATH_READINGS_ROOM + 10];

    (void)state;
    memset(path, 'a', sizeof path);
    path[0] = '/';
    read_text((struct rn_slice){path, sizeof path}, &defaults);
    assert_false(readings.unreadable); /* nothing to rewrite */
    assert_int_equal(readings.text[0].len, sizeof path);
    memcpy(path + 1, "%61", 3);
    read_text((struct rn_slice){path, RN_PATH_READINGS_ROOM + 1}, &defaults);
    assert_false(readings.unreadable);
    assert_int_equal(readings.text[0].len, RN_PATH_READINGS_ROOM - 1);
    read_text((struct rn_slice){path, RN_PATH_READINGS_ROOM + 2}, &defaults);
    assert_true(readings.unreadable);
    assert_int_equal(readings.count, 1);
    assert_true(rn_slice_equal(readings.text[0], RN_SLICE("%")));
}

static void what_an_operator_writes_is_spelt_like_a_reading(void **state)
{
    static const char *const cases[][2] = {
        {"/Login/", "/Login"},  {"/%6cogin", "/login"},
        {"/a%2fb", "/a%2Fb"},   {"/a;v=*/{id}", "/a;v=*/{id}"},
        {"//x/**", "/x/**"},    {"/a%", "/a%25"},
        {"/a/../b", "/a/../b"}, {"/caf%C3%A9", "/caf\xc3\xa9"},
    };
    char out[64];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rn_slice found = rn_path_spell(rn_slice_of(cases[i][0]), &defaults, out, sizeof out);

        assert_true(rn_slice_is(found, cases[i][1]));
    }
    assert_null(rn_path_spell(rn_slice_of("/abcdef"), &defaults, out, 5).data);
}

/* --- plain paths ----------------------------------------------------------------------- */

/* Every byte at every place of paths of every length that the scan treats on its own. */
static void a_path_is_plain_only_if_it_reads_as_itself(void **state)
{
    char path[40];
    unsigned plain = 0;

    (void)state;
    for (size_t len = 1; len <= sizeof path; len++)
        for (size_t at = 0; at < len; at++)
            for (int byte = 0; byte < 256; byte++) {
                struct rn_slice text = {path, len};

                memset(path, 'a', sizeof path);
                path[0] = '/';
                path[len / 2] = '/';
                path[at] = (char)byte;
                if (byte == '?' || !rn_path_is_plain(text, &defaults))
                    continue;
                plain++;
                rn_path_read_all(text, &defaults, &readings);
                assert_int_equal(readings.count, 1);
                assert_true(rn_slice_equal(readings.text[0], text));
            }
    assert_true(plain > 40000); /* and most of those that do are found plain */
}

/* --- servers ---------------------------------------------------------------------------- */

#define TEXT 512
#define SEGMENTS 128

struct text {
    char bytes[TEXT];
    size_t len;
};

static void add(struct text *t, char c)
{
    assert_true(t->len < TEXT);
    t->bytes[t->len++] = c;
}

static int digit(char c)
{
    const char *digits = "0123456789abcdef", *at = strchr(digits, c >= 'A' ? c | 0x20 : c);

    return c && at ? (int)(at - digits) : -1;
}

/* Decodes once. */
static struct text decode(struct text t)
{
    struct text out = {.len = 0};

    for (size_t i = 0; i < t.len; i++) {
        int high = t.bytes[i] == '%' && i + 2 < t.len ? digit(t.bytes[i + 1]) : -1;
        int low = high >= 0 ? digit(t.bytes[i + 2]) : -1;

        add(&out, low < 0 ? t.bytes[i] : (char)(high << 4 | low));
        i += low < 0 ? 0 : 2;
    }
    return out;
}

static struct text replace(struct text t, char from, char to)
{
    for (size_t i = 0; i < t.len; i++)
        if (t.bytes[i] == from)
            t.bytes[i] = to;
    return t;
}

static struct text cut(struct text t, char at)
{
    char *found = memchr(t.bytes, at, t.len);

    t.len = found ? (size_t)(found - t.bytes) : t.len;
    return t;
}

static struct text drop_parameters(struct text t)
{
    struct text out = {.len = 0};
    bool dropping = false;

    for (size_t i = 0; i < t.len; i++) {
        dropping = t.bytes[i] != '/' && (dropping || t.bytes[i] == ';');
        if (!dropping)
            add(&out, t.bytes[i]);
    }
    return out;
}

/* Segments that are not empty, with or without dots resolved, each decoded if that is
 * still to be done, spelt as readings are. */
static struct text spell(struct text t, bool dots, bool decoded)
{
    struct text segments[SEGMENTS], out = {.len = 0};
    size_t count = 0, begin = 0;

    for (size_t i = 0; i <= t.len; i++) {
        if (i < t.len && t.bytes[i] != '/')
            continue;
        struct text s = {.len = i - begin};

        memcpy(s.bytes, t.bytes + begin, s.len);
        begin = i + 1;
        s = decoded ? s : decode(s);
        if (dots && s.len == 2 && memcmp(s.bytes, "..", 2) == 0)
            count -= count > 0;
        else if (s.len > 0 && !(dots && s.len == 1 && s.bytes[0] == '.'))
            segments[count++] = s;
        assert_true(count < SEGMENTS);
    }
    for (size_t n = 0; n < count; n++) {
        add(&out, '/');
        for (size_t i = 0; i < segments[n].len; i++) {
            char c = segments[n].bytes[i];
            const char *code = c == '/'   ? "%2F"
                               : c == '%' ? "%25"
                               : c == '?' ? "%3F"
                               : c == '#' ? "%23"
                                          : NULL;

            for (; code && *code; code++)
                add(&out, *code);
            if (!code)
                add(&out, c);
        }
    }
    if (count == 0)
        add(&out, '/');
    return out;
}

/* Decodes, then splits, as WSGI has it. */
static struct text wsgi(struct text t)
{
    return spell(decode(t), false, true);
}

/* Splits, then decodes: routers that keep %2F in a parameter. */
static struct text router(struct text t)
{
    return spell(t, false, false);
}

/* Decodes, folds slashes, resolves dots: nginx, Go. */
static struct text cleaner(struct text t)
{
    return spell(decode(t), true, true);
}

/* Drops parameters, keeps %2F, resolves dots: servlets. */
static struct text servlet(struct text t)
{
    return spell(drop_parameters(t), true, false);
}

/* A backslash is a slash, escaped or not. */
static struct text windows(struct text t)
{
    return spell(replace(decode(t), '\\', '/'), true, true);
}

/* A proxy decodes, and an application once more. */
static struct text twice(struct text t)
{
    return spell(decode(decode(t)), true, true);
}

static struct text c_string(struct text t)
{
    return spell(cut(decode(t), '\0'), false, true);
}

/* A proxy that decodes in front of a servlet. */
static struct text decoded_servlet(struct text t)
{
    return spell(drop_parameters(decode(t)), true, true);
}

/* As browsers read a URL: `\` is `/`, //host is no path. */
static struct text browser(struct text t)
{
    size_t from = 0;

    t = replace(t, '\\', '/');
    if (t.len > 1 && t.bytes[1] == '/') {
        while (from < t.len && t.bytes[from] == '/')
            from++;
        while (from < t.len && t.bytes[from] != '/')
            from++;
    }
    memmove(t.bytes, t.bytes + from, t.len - from);
    t.len -= from;
    return spell(t, true, false);
}

static struct text (*const servers[])(struct text) = {
    wsgi, router, cleaner, servlet, windows, twice, c_string, decoded_servlet, browser};

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

/* Mostly ordinary, with up to three oddities of one spelling or another. */
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

static void what_any_server_takes_a_path_for_is_a_reading(void **state)
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

/* The key of what a server sees, were it sent like that, is the key of what was sent. So
 * nobody gets a fresh counter by another spelling. Servers do not agree on where the path
 * is behind //host and before #: those may have two. */
static void spellings_that_a_server_takes_for_one_path_have_one_key(void **state)
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

static void all_spellings_of_a_path_have_one_key_and_meet_its_rules(void **state)
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

/* The first one: what was a matter of opinion has been decided in it. */
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
        cmocka_unit_test(each_spelling_has_these_readings),
        cmocka_unit_test(settings_decide_what_they_are_about),
        cmocka_unit_test(a_path_too_long_to_be_rewritten_is_unreadable),
        cmocka_unit_test(what_an_operator_writes_is_spelt_like_a_reading),
        cmocka_unit_test(a_path_is_plain_only_if_it_reads_as_itself),
        cmocka_unit_test(what_any_server_takes_a_path_for_is_a_reading),
        cmocka_unit_test(spellings_that_a_server_takes_for_one_path_have_one_key),
        cmocka_unit_test(all_spellings_of_a_path_have_one_key_and_meet_its_rules),
        cmocka_unit_test(the_first_reading_is_its_own_only_reading),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
