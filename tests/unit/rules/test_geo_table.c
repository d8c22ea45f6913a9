/* SPDX-License-Identifier: Apache-2.0 */
/* Databases of networks: what they answer, and that damaged ones do no harm. The file is made by
 * tests/system/mmdb_writer.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rules/geo/geo_table.h"
#include "unit/rules/fixtures.h"

static struct text example(void)
{
    return text_of_file(TESTS_DIR "/rules/networks.mmdb");
}

static struct rn_slice look_up(const struct rn_geo_table *table, const char *address,
                               enum rn_geo_field field)
{
    struct rn_ip ip;

    assert_int_equal(rn_ip_parse(address, strlen(address), &ip, NULL), 0);
    return rn_geo_table_find(table, &ip, field);
}

static void expect(const struct rn_geo_table *table, const char *address, enum rn_geo_field field,
                   const char *value)
{
    struct rn_slice found = look_up(table, address, field);

    if (value == NULL ? found.data != NULL : found.data == NULL || !rn_slice_is(found, value))
        fail_msg("%s of %s is %.*s", rn_geo_table_fields[field], address, (int)found.len,
                 found.data == NULL ? "" : found.data);
}

static void networks_have_their_fields(void **state)
{
    struct ration_error error = {.text = ""};
    struct text file = example();
    struct rn_geo_table *table = rn_geo_table_new(file.data, file.len, &error);

    (void)state;
    assert_non_null(table);
    free(file.data); /* not needed any more */
    expect(table, "5.1.0.0", RN_GEO_COUNTRY, "IT");
    expect(table, "5.1.255.255", RN_GEO_REGION, "IT-25");
    expect(table, "5.0.255.255", RN_GEO_COUNTRY, NULL);
    expect(table, "5.3.0.0", RN_GEO_COUNTRY, NULL);
    expect(table, "8.8.8.8", RN_GEO_REGION, "US-CA");
    expect(table, "8.8.9.8", RN_GEO_REGION, "US-TX");
    expect(table, "8.8.10.8", RN_GEO_CONTINENT, "NA");
    expect(table, "2a00:2::", RN_GEO_ASN, "4200000000");
    expect(table, "2a00:2:ffff:ffff:ffff:ffff:ffff:ffff", RN_GEO_ORG, "Beispiel AG");
    expect(table, "2a00:3::", RN_GEO_ORG, NULL);
    expect(table, "2002:808:808::1", RN_GEO_COUNTRY, "US"); /* as the file says: 6to4 */
    assert_string_equal(table->title, "Test-City-ASN");
    assert_int_equal(table->built_s, 1700000000);
    rn_geo_table_free(table);
}

static void private_addresses_have_no_country_whatever_the_file_says(void **state)
{
    static const char *const local[] = {"10.0.0.1",    "10.255.255.255", "fc00::1",
                                        "fdff::1",     "127.0.0.1",      "::1",
                                        "::",          "0.0.0.0",        "192.168.1.1",
                                        "172.16.0.1",  "172.31.255.255", "100.64.0.1",
                                        "169.254.1.1", "224.0.0.1",      "255.255.255.255",
                                        "fe80::1",     "ff02::1"};
    struct ration_error error = {.text = ""};
    struct text file = example();
    struct rn_geo_table *table = rn_geo_table_new(file.data, file.len, &error);

    (void)state;
    for (size_t i = 0; i < RN_COUNT(local); i++)
        expect(table, local[i], RN_GEO_COUNTRY, NULL);
    rn_geo_table_free(table);
    free(file.data);
}

/* Looks up a little of everything. */
static void try_all(const struct rn_geo_table *table)
{
    for (unsigned i = 0; i < 512; i++) {
        struct rn_ip ip = {.bytes = {(uint8_t)i, (uint8_t)(i * 7)}, .bits = i < 256 ? 32 : 128};

        for (unsigned f = 0; f < RN_GEO_FIELDS; f++)
            assert_true(rn_geo_table_find(table, &ip, (enum rn_geo_field)f).len <= RN_GEO_TEXT_MAX);
    }
}

static void a_file_that_was_cut_short_is_refused(void **state)
{
    struct text file = example();

    (void)state;
    for (size_t len = 0; len < file.len; len += 1 + len / 64) {
        struct ration_error error = {.text = ""};
        char *part = malloc(len + 1); /* its end is where the sanitizer sees it */

        assert_non_null(part);
        part = realloc(part, len == 0 ? 1 : len);
        memcpy(part, file.data, len);
        assert_null(rn_geo_table_new(part, len, &error));
        assert_int_not_equal(error.text[0], '\0');
        free(part);
    }
    free(file.data);
}

static void no_changed_byte_does_harm(void **state)
{
    struct text file = example();
    unsigned refused = 0;

    (void)state;
    for (size_t at = 0; at < file.len; at++) {
        struct ration_error error = {.text = ""};
        char before = file.data[at];

        file.data[at] = (char)(before ^ (1 << at % 8 | (at % 3 == 0 ? 0xF0 : 0)));
        struct rn_geo_table *table = rn_geo_table_new(file.data, file.len, &error);

        refused += table == NULL;
        if (table == NULL)
            assert_int_not_equal(error.text[0], '\0');
        else
            try_all(table);
        rn_geo_table_free(table);
        file.data[at] = before;
    }
    assert_true(refused > 50 && refused < file.len);
    free(file.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(networks_have_their_fields),
        cmocka_unit_test(private_addresses_have_no_country_whatever_the_file_says),
        cmocka_unit_test(a_file_that_was_cut_short_is_refused),
        cmocka_unit_test(no_changed_byte_does_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
