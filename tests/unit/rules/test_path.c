/* SPDX-License-Identifier: Apache-2.0 */
/* The readings of some paths, and which paths are plain. */
#include "path_fixture.h"

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

/* A target, and its readings; "-": unreadable. */
static const char *const spellings[][2] = {
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

static void each_spelling_has_these_readings(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++)
        assert_readings(spellings[i][0], &defaults, spellings[i][1]);
}

static void each_setting_has_its_effect(void **state)
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

static void a_path_in_a_rule_is_written_like_a_reading(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_spelling_has_these_readings),
        cmocka_unit_test(each_setting_has_its_effect),
        cmocka_unit_test(a_path_too_long_to_be_rewritten_is_unreadable),
        cmocka_unit_test(a_path_in_a_rule_is_written_like_a_reading),
        cmocka_unit_test(a_path_is_plain_only_if_it_reads_as_itself),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
