/* SPDX-License-Identifier: Apache-2.0 */
/* Envoy's messages. The bytes were written by hand from the field numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "wire/rls.h"

static struct rn_rls_reader reader;
static struct ration_error error;

#define READ(literal) rn_rls_read(&reader, (struct rn_slice){literal, sizeof(literal) - 1}, &error)

static int read_json(const char *text)
{
    static char copy[4096]; /* lives as long as the request */

    rn_slice_copy(copy, sizeof copy, rn_slice_of(text));
    return rn_rls_read_json(&reader, copy, strlen(copy), &error);
}

static void is_entry(const struct ration_descriptor_entry *e, const char *key, const char *value)
{
    assert_true(rn_slice_is((struct rn_slice){e->key, e->key_len}, key));
    assert_true(rn_slice_is((struct rn_slice){e->value, e->value_len}, value));
}

/* domain "d"; entries (a,x), (b,y), limit 5 per MINUTE, hits 7, negative; entries (c,z);
 * hits_addend 9; and a field 15 that is unknown. */
#define FULL                                                                                       \
    "\x0a\x01"                                                                                     \
    "d"                                                                                            \
    "\x12\x1c\x0a\x06\x0a\x01"                                                                     \
    "a\x12\x01x\x0a\x06\x0a\x01"                                                                   \
    "b\x12\x01y\x12\x04\x08\x05\x10\x02\x1a\x02\x08\x07\x20\x01"                                   \
    "\x12\x08\x0a\x06\x0a\x01"                                                                     \
    "c\x12\x01z\x18\x09\x7a\x01?"

static void check_full(void)
{
    const struct ration_descriptors *request = &reader.request;

    assert_int_equal(request->domain_len, 1);
    assert_int_equal(request->count, 2);
    assert_int_equal(request->hits, 9);
    assert_int_equal(request->asks[0].count, 2);
    is_entry(&request->asks[0].entries[0], "a", "x");
    is_entry(&request->asks[0].entries[1], "b", "y");
    assert_true(request->asks[0].limit_given);
    assert_int_equal(request->asks[0].requests_per_unit, 5);
    assert_int_equal(request->asks[0].unit, RATION_UNIT_MINUTE);
    assert_true(request->asks[0].hits_given);
    assert_int_equal(request->asks[0].hits, 7);
    assert_true(request->asks[0].refund);
    is_entry(&request->asks[1].entries[0], "c", "z");
    assert_false(request->asks[1].limit_given || request->asks[1].hits_given ||
                 request->asks[1].refund);
}

static void a_request_is_read_whole_and_unknown_fields_are_skipped(void **state)
{
    (void)state;
    assert_int_equal(READ(FULL), 0);
    check_full();
}

static void json_gives_the_same_request(void **state)
{
    (void)state;
    assert_int_equal(read_json("{\"domain\":\"d\",\"hitsAddend\":9,\"descriptors\":["
                               "{\"entries\":[{\"key\":\"a\",\"value\":\"x\"},{\"key\":\"b\","
                               "\"value\":\"y\"}],\"limit\":{\"requestsPerUnit\":5,"
                               "\"unit\":\"MINUTE\"},\"hitsAddend\":\"7\",\"isNegativeHits\":true},"
                               "{\"entries\":[{\"key\":\"c\",\"value\":\"z\"}]}]}"),
                     0);
    check_full();
    assert_int_equal(read_json("{\"domain\":\"d\",\"hits_addend\":\"9\",\"descriptors\":["
                               "{\"limit\":{\"unit\":2,\"requests_per_unit\":5},\"entries\":"
                               "[{\"value\":\"x\",\"key\":\"a\"},{\"key\":\"b\",\"value\":\"y\"}],"
                               "\"hits_addend\":7,\"is_negative_hits\":true},"
                               "{\"entries\":[{\"key\":\"c\",\"value\":\"z\"}],\"limit\":null,"
                               "\"hitsAddend\":null}]}"),
                     0);
    check_full();
}

static void zero_hits_differ_from_absent_hits(void **state)
{
    (void)state;
    assert_int_equal(READ("\x0a\x01"
                          "d\x12\x0a\x0a\x06\x0a\x01"
                          "a\x12\x01x\x1a\x00"),
                     0);
    assert_true(reader.request.asks[0].hits_given);
    assert_int_equal(reader.request.asks[0].hits, 0);
}

static void a_nul_does_not_end_a_text(void **state)
{
    (void)state;
    assert_int_equal(READ("\x0a\x01"
                          "d\x12\x0a\x0a\x08\x0a\x01"
                          "a\x12\x03x\0y"),
                     0);
    assert_int_equal(reader.request.asks[0].entries[0].value_len, 3);
}

static void invalid_requests_are_refused(void **state)
{
    (void)state;
    assert_int_equal(READ(""), RATION_EINVAL);
    assert_string_equal(error.text, "rate limit domain must not be empty");
    assert_int_equal(READ("\x0a\x01"
                          "d"),
                     RATION_EINVAL);
    assert_string_equal(error.text, "rate limit descriptor list must not be empty");
    assert_int_equal(READ("\x0a\x01"
                          "d\x12\x00"),
                     RATION_EINVAL);
    assert_string_equal(error.text, "a descriptor without entries");
    assert_int_equal(READ("\x0a\x01"
                          "d\x12\x05\x0a\x03\x12\x01x"),
                     RATION_EINVAL);
    assert_string_equal(error.text, "an entry without a key");
    assert_int_equal(READ("\x0a\x01"
                          "d\x12\x0c\x0a\x06\x0a\x01"
                          "a\x12\x01x\x12\x02\x10\x08"),
                     RATION_EINVAL);
    assert_int_equal(READ("\x0a\x01\xff\x12\x08\x0a\x06\x0a\x01"
                          "a\x12\x01x"),
                     RATION_EINVAL);
    assert_string_equal(error.text, "a domain is not UTF-8");
    assert_int_equal(READ("\x0a\x05"
                          "d"),
                     RATION_EPARSE);
}

static void too_many_parts_are_refused_early(void **state)
{
    static char message[RN_RLS_MESSAGE_MAX] = "\x0a\x01"
                                              "d\x12\xff\xff\x03";
    size_t len = 7;

    (void)state;
    for (; len + 2 <= 7 + 65535 && len + 2 <= sizeof message; len += 2)
        memcpy(message + len, "\x0a", 2); /* entries of no bytes */
    message[4] = (char)(0x80 | ((len - 7) & 0x7f));
    message[5] = (char)(0x80 | ((len - 7) >> 7 & 0x7f));
    message[6] = (char)((len - 7) >> 14);
    assert_int_equal(rn_rls_read(&reader, (struct rn_slice){message, len}, &error), RATION_EFULL);
    assert_string_equal(error.text, "a message of too many parts");
    assert_int_equal(READ(FULL), 0); /* and the next one is read */
}

static void faults_of_json_have_a_place(void **state)
{
    (void)state;
    assert_int_equal(read_json("{\"domain\":7}"), RATION_EPARSE);
    assert_string_equal(error.text, "column 11: this must be a string");
    assert_int_equal(read_json("{\"domian\":\"d\"}"), RATION_EPARSE);
    assert_string_equal(error.text, "column 2: unknown member");
    assert_int_equal(read_json("{\"hitsAddend\":4294967296}"), RATION_EPARSE);
    assert_int_equal(read_json("{\"hitsAddend\":\"-1\"}"), RATION_EPARSE);
    assert_int_equal(read_json("{\"descriptors\":[{\"limit\":{\"unit\":\"EON\"}}]}"),
                     RATION_EPARSE);
    assert_int_equal(read_json("[]"), RATION_EPARSE);
    assert_int_equal(read_json(""), RATION_EPARSE);
    assert_int_equal(read_json("{} {}"), RATION_EPARSE);
    assert_int_equal(read_json("{}"), RATION_EINVAL);
    assert_string_equal(error.text, "rate limit domain must not be empty");
}

static struct ration_descriptors_outcome refused(void)
{
    static struct ration_descriptors_outcome o;

    o = (struct ration_descriptors_outcome){.decided_by = 0, .count = 2};
    o.statuses[0] = (struct ration_descriptor_status){.over = true,
                                                      .limited = true,
                                                      .name = "n",
                                                      .requests_per_unit = 5,
                                                      .unit = RATION_UNIT_HOUR,
                                                      .reset_ns = INT64_C(1500000000)};
    o.statuses[1].remaining = UINT32_MAX;
    return o;
}

static void an_answer_is_written_as_bytes(void **state)
{
    static const char expected[] =
        "\x08\x02"
        "\x12\x0f\x08\x02\x12\x07\x08\x05\x10\x03\x1a\x01n\x22\x02\x08\x02"
        "\x12\x08\x08\x01\x18\xff\xff\xff\xff\x0f";
    struct ration_descriptors_outcome o = refused();
    struct rn_buf out = {0};

    (void)state;
    rn_rls_write(&out, &reader, &o, &(struct rn_rls_extra){0});
    assert_int_equal(out.len, sizeof expected - 1);
    assert_memory_equal(out.data, expected, out.len);
    rn_buf_done(&out);
}

static void an_answer_is_written_as_json(void **state)
{
    struct ration_descriptors_outcome o = refused();
    struct rn_buf out = {0};

    (void)state;
    rn_rls_write_json(&out, &reader, &o, &(struct rn_rls_extra){.headers = true});
    assert_true(rn_slice_is(
        rn_buf_slice(&out),
        "{\"overallCode\":\"OVER_LIMIT\",\"statuses\":[{\"code\":\"OVER_LIMIT\",\"currentLimit\":"
        "{\"requestsPerUnit\":5,\"unit\":\"HOUR\",\"name\":\"n\"},\"durationUntilReset\":\"2s\"},"
        "{\"code\":\"OK\",\"limitRemaining\":4294967295}],\"responseHeadersToAdd\":["
        "{\"key\":\"ratelimit-limit\",\"value\":\"5\"},"
        "{\"key\":\"ratelimit-remaining\",\"value\":\"0\"},"
        "{\"key\":\"ratelimit-reset\",\"value\":\"2\"},{\"key\":\"retry-after\",\"value\":\"2\"}]"
        "}"));
    rn_buf_done(&out);
}

static void keep(const char *key, const char *value, bool text)
{
    rn_rls_keep(&reader, &(struct ration_metadata){key, strlen(key), value, strlen(value), text});
}

static void metadata_becomes_a_tree(void **state)
{
    struct ration_descriptors_outcome o = {.allowed = true, .decided_by = -1};
    struct rn_buf out = {0};

    (void)state;
    assert_int_equal(READ(FULL), 0);
    keep("owner.team", "web", false);
    keep("cost", "7", false);
    keep("regions.0", "eu", false);
    keep("regions.1", "us", false);
    keep("owner.mail", "", false);
    keep("text", "7", true);
    keep("on", "true", false);
    keep("cost", "1.5", false); /* the first has the word */
    keep("owner", "x", false);
    keep("cost.a", "x", false);
    rn_rls_write_json(&out, &reader, &o, &(struct rn_rls_extra){.metadata = true});
    assert_true(rn_slice_is(rn_buf_slice(&out),
                            "{\"overallCode\":\"OK\",\"statuses\":[],\"dynamicMetadata\":"
                            "{\"metadata\":{\"owner\":{\"team\":\"web\",\"mail\":null},\"cost\":7,"
                            "\"regions\":[\"eu\",\"us\"],\"text\":\"7\",\"on\":true}}}"));
    rn_buf_done(&out);
}

static void more_metadata_than_fits_is_left_out(void **state)
{
    struct ration_descriptors_outcome o = {.allowed = true, .decided_by = -1};
    struct rn_buf out = {0};

    (void)state;
    assert_int_equal(READ(FULL), 0);
    reader.used = sizeof reader.arena - 100; /* as after a large message */
    keep("a", "b", false);
    keep("c", "d", false);
    rn_rls_write(&out, &reader, &o, &(struct rn_rls_extra){.metadata = true});
    assert_true(rn_slice_is(rn_buf_slice(&out), "\x08\x01"));
    rn_buf_done(&out);
}

static void health_is_read_and_written(void **state)
{
    struct rn_buf out = {0};

    (void)state;
    assert_int_equal(rn_rls_read_health(&reader, RN_SLICE("\x0a\x02xy")), 0);
    assert_true(rn_slice_is(reader.service, "xy"));
    assert_int_equal(rn_rls_read_health(&reader, RN_SLICE("")), 0);
    assert_int_equal(reader.service.len, 0);
    assert_int_equal(rn_rls_read_health(&reader, RN_SLICE("\x0a\x09x")), RATION_EPARSE);
    rn_rls_write_health(&out, RN_HEALTH_NOT_SERVING);
    assert_true(rn_slice_is(rn_buf_slice(&out), "\x08\x02"));
    rn_buf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_read_whole_and_unknown_fields_are_skipped),
        cmocka_unit_test(json_gives_the_same_request),
        cmocka_unit_test(zero_hits_differ_from_absent_hits),
        cmocka_unit_test(a_nul_does_not_end_a_text),
        cmocka_unit_test(invalid_requests_are_refused),
        cmocka_unit_test(too_many_parts_are_refused_early),
        cmocka_unit_test(faults_of_json_have_a_place),
        cmocka_unit_test(an_answer_is_written_as_bytes),
        cmocka_unit_test(an_answer_is_written_as_json),
        cmocka_unit_test(metadata_becomes_a_tree),
        cmocka_unit_test(more_metadata_than_fits_is_left_out),
        cmocka_unit_test(health_is_read_and_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
