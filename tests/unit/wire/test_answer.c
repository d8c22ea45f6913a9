/* SPDX-License-Identifier: Apache-2.0 */
/* Decisions as HTTP tells them, word for word. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/answer.h"

#define SECOND INT64_C(1000000000)
#define MINUTE (60 * SECOND)
#define CRLF "\r\n"

static const struct rn_answer_extra noon = {.wall_ns = 1800000000 * SECOND + 123456789};

/* As the limiter fills one that no rule has applied to. */
static struct ration_outcome nothing(void)
{
    struct ration_outcome o;

    memset(&o, 0xa5, sizeof o); /* what is not set must not be read */
    o.decision = (struct ration_decision){
        .allowed = true,
        .decided_by = -1,
        .verdict = {.allowed = true, .limit = UINT64_MAX, .remaining = UINT64_MAX}};
    o.kind = RATION_BY_NO_RULE;
    o.soft = o.shadow_refused = o.hold = o.retryafter = false;
    o.delay_ns = 0;
    o.rule[0] = o.message[0] = '\0';
    o.status = 429;
    o.level = 0;
    o.headers = RATION_HEADERS_X;
    o.limit_count = o.listed = 0;
    return o;
}

static struct ration_verdict admits(uint64_t limit, uint64_t remaining, int64_t reset_ns)
{
    return (struct ration_verdict){
        .allowed = true, .limit = limit, .remaining = remaining, .reset_after_ns = reset_ns};
}

static struct ration_verdict refuses(uint64_t limit, int64_t retry_ns, int64_t reset_ns)
{
    return (struct ration_verdict){
        .limit = limit, .retry_after_ns = retry_ns, .reset_after_ns = reset_ns};
}

/* The last limit added decides. */
static void add(struct ration_outcome *o, const char *rule, struct ration_verdict verdict,
                int64_t period_ns)
{
    struct ration_outcome_limit *limit = &o->limits[o->listed];

    strcpy(limit->rule, rule);
    strcpy(o->rule, rule);
    limit->verdict = o->decision.verdict = verdict;
    limit->algorithm = period_ns ? RATION_TOKEN_BUCKET : RATION_CONCURRENCY;
    limit->amount = verdict.limit;
    limit->period_ns = period_ns;
    limit->shadow = false;
    o->decision.allowed = verdict.allowed;
    o->decision.decided_by = (int)o->listed++;
    o->limit_count++;
    o->kind = RATION_BY_LIMITS;
}

static struct ration_outcome one(struct ration_verdict verdict)
{
    struct ration_outcome o = nothing();

    add(&o, "api", verdict, MINUTE);
    return o;
}

enum part { JSON, BODY, PROBLEM, HEADERS };

static void demand(const struct ration_outcome *o, const struct rn_answer_extra *extra,
                   enum part part, const char *expected)
{
    struct rn_buf out = {0};

    if (part == HEADERS)
        rn_answer_put_headers(&out, o, extra);
    else if (part == JSON)
        rn_answer_put_json(&out, o, extra);
    else
        rn_answer_put_body(&out, o, extra, part == PROBLEM);
    rn_buf_put_char(&out, '\0');
    assert_false(out.failed);
    assert_string_equal(out.data, expected);
    rn_buf_done(&out);
}

/* --- admitted ------------------------------------------------------------------------------- */

static void an_admission_by_one_limit(void **state)
{
    struct ration_outcome o = one(admits(100, 99, 600000000));

    (void)state;
    demand(&o, &noon, BODY,
           "{\"allowed\":true,\"rule\":\"api\",\"limit\":100,\"remaining\":99,\"reset_after\":0.6,"
           "\"retry_after\":0,\"delay\":0,\"limits\":[{\"rule\":\"api\",\"limit\":100,"
           "\"remaining\":99,\"reset_after\":0.6}]}");
    demand(&o, &noon, HEADERS,
           "X-RateLimit-Limit: 100" CRLF "X-RateLimit-Remaining: 99" CRLF
           "X-RateLimit-Reset: 1800000001" CRLF);
    assert_int_equal(rn_answer_status(&o), 200);
}

static void an_admission_by_three_limits_of_two_rules(void **state)
{
    struct ration_outcome o = nothing();

    (void)state;
    add(&o, "api", admits(100, 50, 30 * SECOND), MINUTE);
    add(&o, "api", admits(1000, 950, 3 * MINUTE), 60 * MINUTE);
    add(&o, "login", admits(5, 0, 12 * SECOND), MINUTE);
    o.headers = RATION_HEADERS_IETF;
    o.delay_ns = 250000000;
    demand(&o, &noon, JSON,
           "{\"allowed\":true,\"rule\":\"login\",\"limit\":5,\"remaining\":0,\"reset_after\":12,"
           "\"retry_after\":0,\"delay\":0.25,\"limits\":["
           "{\"rule\":\"api\",\"limit\":100,\"remaining\":50,\"reset_after\":30},"
           "{\"rule\":\"api\",\"limit\":1000,\"remaining\":950,\"reset_after\":180},"
           "{\"rule\":\"login\",\"limit\":5,\"remaining\":0,\"reset_after\":12}]}");
    demand(&o, &noon, HEADERS,
           "RateLimit-Policy: \"api\";q=100;w=60, \"api-2\";q=1000;w=3600, \"login\";q=5;w=60" CRLF
           "RateLimit: \"api\";r=50;t=30, \"api-2\";r=950;t=180, \"login\";r=0;t=12" CRLF);
}

/* 10 per second burst 500: the quota of 500 comes back in 50 seconds. And 100 per
 * minute burst 7: 7 in 4.2. */
static void the_window_of_a_burst_is_the_time_it_takes_to_come_back(void **state)
{
    struct ration_outcome o = one(admits(500, 499, SECOND / 10));

    (void)state;
    o.headers = RATION_HEADERS_IETF;
    o.limits[0].amount = 10;
    o.limits[0].period_ns = SECOND;
    demand(&o, &noon, HEADERS,
           "RateLimit-Policy: \"api\";q=500;w=50" CRLF "RateLimit: \"api\";r=499;t=1" CRLF);
    o.limits[0].verdict.limit = 7;
    o.limits[0].amount = 100;
    o.limits[0].period_ns = MINUTE;
    demand(&o, &noon, HEADERS,
           "RateLimit-Policy: \"api\";q=7;w=5" CRLF "RateLimit: \"api\";r=499;t=1" CRLF);
}

static void without_a_rule_there_are_no_numbers(void **state)
{
    static const char body[] = "{\"allowed\":true,\"rule\":null,\"limit\":null,\"remaining\":null,"
                               "\"reset_after\":0,\"retry_after\":0,\"delay\":0,\"limits\":[]}";
    struct ration_outcome o = nothing();

    (void)state;
    o.headers = RATION_HEADERS_BOTH;
    demand(&o, &noon, BODY, body);
    demand(&o, &noon, HEADERS, "");
    o.kind = RATION_BY_ALLOW_LIST;
    demand(&o, &noon, BODY, body);
    demand(&o, &noon, HEADERS, "");
}

static void an_unlimited_decision_has_no_numbers(void **state)
{
    struct ration_outcome o = one(admits(UINT64_MAX, UINT64_MAX, 0));

    (void)state;
    o.limits[0].algorithm = RATION_UNLIMITED;
    o.headers = RATION_HEADERS_BOTH;
    demand(&o, &noon, BODY,
           "{\"allowed\":true,\"rule\":\"api\",\"limit\":null,\"remaining\":null,\"reset_after\":0,"
           "\"retry_after\":0,\"delay\":0,\"limits\":[{\"rule\":\"api\",\"limit\":null,"
           "\"remaining\":null,\"reset_after\":0}]}");
    demand(&o, &noon, HEADERS, "");
}

static void a_soft_admission_is_marked(void **state)
{
    struct ration_outcome o = one(admits(100, 0, MINUTE));

    (void)state;
    o.soft = true;
    demand(&o, &noon, BODY,
           "{\"allowed\":true,\"rule\":\"api\",\"limit\":100,\"remaining\":0,\"reset_after\":60,"
           "\"retry_after\":0,\"delay\":0,\"limits\":[{\"rule\":\"api\",\"limit\":100,"
           "\"remaining\":0,\"reset_after\":60}],\"soft\":true}");
    demand(&o, &noon, HEADERS,
           "X-RateLimit-Limit: 100" CRLF "X-RateLimit-Remaining: 0" CRLF
           "X-RateLimit-Reset: 1800000061" CRLF "X-RateLimit-Soft: 1" CRLF);
    o.headers = RATION_HEADERS_NONE;
    demand(&o, &noon, HEADERS, "");
}

static void shadow_limits_are_hidden_from_clients(void **state)
{
    struct ration_outcome o = nothing();

    (void)state;
    add(&o, "trial", refuses(5, 2 * SECOND, 9 * SECOND), MINUTE);
    o.limits[0].shadow = true;
    add(&o, "api", admits(100, 99, SECOND), MINUTE);
    o.shadow_refused = true;
    o.headers = RATION_HEADERS_BOTH;
    demand(&o, &noon, BODY,
           "{\"allowed\":true,\"rule\":\"api\",\"limit\":100,\"remaining\":99,\"reset_after\":1,"
           "\"retry_after\":0,\"delay\":0,\"limits\":["
           "{\"rule\":\"trial\",\"limit\":5,\"remaining\":0,\"reset_after\":9,\"shadow\":true},"
           "{\"rule\":\"api\",\"limit\":100,\"remaining\":99,\"reset_after\":1}],\"shadow\":true}");
    demand(&o, &noon, HEADERS,
           "X-RateLimit-Limit: 100" CRLF "X-RateLimit-Remaining: 99" CRLF
           "X-RateLimit-Reset: 1800000002" CRLF "RateLimit-Policy: \"api\";q=100;w=60" CRLF
           "RateLimit: \"api\";r=99;t=1" CRLF);
}

static void a_service_in_shadow_mode_sends_no_headers(void **state)
{
    struct ration_outcome o = one(admits(100, 0, MINUTE));

    (void)state;
    o.limits[0].shadow = o.shadow_refused = true;
    o.headers = RATION_HEADERS_BOTH;
    demand(&o, &noon, HEADERS, "");
}

static void places_have_no_window(void **state)
{
    struct ration_outcome o = nothing();
    struct rn_answer_extra extra = noon;

    (void)state;
    extra.lease = RN_SLICE("t0k\"en");
    extra.held_ns = 1500000000;
    o.waited_ns = 2250000000;
    add(&o, "inflight", admits(20, 19, 60 * SECOND), 0);
    o.headers = RATION_HEADERS_IETF;
    demand(&o, &extra, BODY,
           "{\"allowed\":true,\"rule\":\"inflight\",\"limit\":20,\"remaining\":19,"
           "\"reset_after\":60,\"retry_after\":0,\"delay\":0,\"limits\":[{\"rule\":\"inflight\","
           "\"limit\":20,\"remaining\":19,\"reset_after\":60}],\"lease\":\"t0k\\\"en\","
           "\"waited\":2.25,\"held\":1.5}");
    demand(&o, &extra, HEADERS,
           "RateLimit-Policy: \"inflight\";q=20;qu=\"concurrent-requests\"" CRLF
           "RateLimit: \"inflight\";r=19;t=60" CRLF);
}

static void a_limit_of_the_request_has_no_rule(void **state)
{
    struct ration_outcome o = nothing();
    struct rn_answer_extra extra = noon;

    (void)state;
    extra.ad_hoc = true;
    add(&o, "", admits(10, 9, 6 * SECOND), MINUTE);
    o.headers = RATION_HEADERS_IETF;
    demand(&o, &extra, BODY,
           "{\"allowed\":true,\"rule\":null,\"limit\":10,\"remaining\":9,\"reset_after\":6,"
           "\"retry_after\":0,\"delay\":0,\"limits\":[{\"rule\":null,\"limit\":10,\"remaining\":9,"
           "\"reset_after\":6}]}");
    demand(&o, &extra, HEADERS,
           "RateLimit-Policy: \"default\";q=10;w=60" CRLF "RateLimit: \"default\";r=9;t=6" CRLF);
}

/* --- refused -------------------------------------------------------------------------------- */

#define REFUSED                                                                                    \
    "\"allowed\":false,\"rule\":\"api\",\"limit\":100,\"remaining\":0,\"reset_after\":59.4,"       \
    "\"retry_after\":11.001,\"delay\":0,\"limits\":[{\"rule\":\"api\",\"limit\":100,"              \
    "\"remaining\":0,\"reset_after\":59.4}]"

static struct ration_outcome refused(void)
{
    return one(refuses(100, 11 * SECOND + 1, 59400000000));
}

static void a_refusal_says_when_to_come_back(void **state)
{
    struct ration_outcome o = refused();

    (void)state;
    o.headers = RATION_HEADERS_BOTH;
    demand(&o, &noon, BODY,
           "{" REFUSED ",\"error\":\"rate_limited\",\"message\":\"Too many requests. Try again in "
           "12 seconds.\",\"window\":60,\"reset\":1800000060}");
    demand(&o, &noon, JSON, "{" REFUSED "}");
    demand(&o, &noon, HEADERS,
           "X-RateLimit-Limit: 100" CRLF "X-RateLimit-Remaining: 0" CRLF
           "X-RateLimit-Reset: 1800000060" CRLF "X-RateLimit-Retry-After: 12" CRLF
           "RateLimit-Policy: \"api\";q=100;w=60" CRLF "RateLimit: \"api\";r=0;t=60" CRLF
           "Retry-After: 12" CRLF);
    o.status = 503;
    assert_int_equal(rn_answer_status(&o), 503);
}

static void the_rule_chooses_the_family_of_headers(void **state)
{
    struct ration_outcome o = refused();

    (void)state;
    o.decision.verdict.retry_after_ns = 1;
    demand(&o, &noon, HEADERS,
           "X-RateLimit-Limit: 100" CRLF "X-RateLimit-Remaining: 0" CRLF
           "X-RateLimit-Reset: 1800000060" CRLF "X-RateLimit-Retry-After: 1" CRLF
           "Retry-After: 1" CRLF);
    o.retryafter = true;
    demand(&o, &noon, HEADERS,
           "X-RateLimit-Limit: 100" CRLF "X-RateLimit-Remaining: 0" CRLF
           "X-RateLimit-Reset: 1800000060" CRLF "X-RateLimit-RetryAfter: 1" CRLF
           "Retry-After: 1" CRLF);
    o.headers = RATION_HEADERS_IETF;
    demand(&o, &noon, HEADERS,
           "RateLimit-Policy: \"api\";q=100;w=60" CRLF "RateLimit: \"api\";r=0;t=60" CRLF
           "Retry-After: 1" CRLF);
    o.headers = RATION_HEADERS_NONE;
    demand(&o, &noon, HEADERS, "Retry-After: 1" CRLF);
}

/* As the limiter fills one that a rule with `escalate` has banned. */
static struct ration_outcome banned(void)
{
    struct ration_outcome o = nothing();

    o.kind = RATION_BY_ESCALATION;
    strcpy(o.rule, "login");
    o.status = 403;
    o.level = 2;
    o.decision.allowed = o.decision.verdict.allowed = false;
    o.decision.verdict.limit = o.decision.verdict.remaining = 0;
    o.decision.verdict.retry_after_ns = 239500000000;
    return o;
}

#define BANNED                                                                                     \
    "\"allowed\":false,\"rule\":\"login\",\"limit\":null,\"remaining\":null,\"reset_after\":0,"    \
    "\"retry_after\":239.5,\"delay\":0,\"limits\":[],\"banned\":true,\"level\":2,"                 \
    "\"error\":\"banned\""
#define TRY_AGAIN                                                                                  \
    "\"Banned for a while after too many refused requests. Try again in 240 seconds.\""

static void a_ban_by_a_rule_tells_its_level_and_its_end(void **state)
{
    struct ration_outcome o = banned();

    (void)state;
    demand(&o, &noon, BODY,
           "{" BANNED ",\"message\":" TRY_AGAIN ",\"window\":null,\"reset\":null}");
    demand(&o, &noon, PROBLEM,
           "{\"type\":\"https://iana.org/assignments/http-problem-types#abnormal-usage-detected\","
           "\"title\":\"Abnormal Usage Detected\",\"status\":403,\"detail\":" TRY_AGAIN "," BANNED
           ",\"window\":null,\"reset\":null}");
    demand(&o, &noon, HEADERS,
           "X-RateLimit-Retry-After: 240" CRLF "Retry-After: 240" CRLF
           "X-RateLimit-Ban-Level: 2" CRLF);
    assert_int_equal(rn_answer_status(&o), 403);
    strcpy(o.message, "Locked.");
    o.headers = RATION_HEADERS_NONE;
    demand(&o, &noon, BODY, "{" BANNED ",\"message\":\"Locked.\",\"window\":null,\"reset\":null}");
    demand(&o, &noon, HEADERS, "Retry-After: 240" CRLF);
}

static void a_ban_by_a_rule_in_shadow_mode_is_not_told(void **state)
{
    struct ration_outcome o = banned();

    (void)state;
    o.decision = nothing().decision;
    o.shadow_refused = true;
    demand(&o, &noon, BODY,
           "{\"allowed\":true,\"rule\":\"login\",\"limit\":null,\"remaining\":null,"
           "\"reset_after\":0,\"retry_after\":0,\"delay\":0,\"limits\":[],\"shadow\":true}");
    demand(&o, &noon, HEADERS, "");
}

static void a_request_that_never_fits_has_no_retry_after(void **state)
{
    struct ration_outcome o = one(refuses(100, RATION_NEVER, 0));

    (void)state;
    demand(&o, &noon, BODY,
           "{\"allowed\":false,\"rule\":\"api\",\"limit\":100,\"remaining\":0,\"reset_after\":0,"
           "\"retry_after\":null,\"delay\":0,\"limits\":[{\"rule\":\"api\",\"limit\":100,"
           "\"remaining\":0,\"reset_after\":0}],\"error\":\"rate_limited\",\"message\":\"This "
           "request asks for more than its limit ever admits.\",\"window\":60,"
           "\"reset\":1800000001}");
    demand(&o, &noon, HEADERS,
           "X-RateLimit-Limit: 100" CRLF "X-RateLimit-Remaining: 0" CRLF
           "X-RateLimit-Reset: 1800000001" CRLF);
}

#define DENIED                                                                                     \
    "\"allowed\":false,\"rule\":null,\"limit\":null,\"remaining\":null,\"reset_after\":0,"         \
    "\"retry_after\":null,\"delay\":0,\"limits\":[],\"error\":\"denied\""

static void a_denied_request_has_no_numbers(void **state)
{
    struct ration_outcome o = nothing();

    (void)state;
    o.kind = RATION_BY_DENY_LIST;
    o.status = 403;
    o.headers = RATION_HEADERS_BOTH;
    o.decision.allowed = false;
    o.decision.verdict = refuses(0, RATION_NEVER, 0);
    demand(&o, &noon, BODY,
           "{" DENIED ",\"message\":\"Requests like this one are not allowed.\",\"window\":null,"
           "\"reset\":null}");
    demand(&o, &noon, PROBLEM,
           "{\"type\":\"about:blank\",\"title\":\"Forbidden\",\"status\":403,\"detail\":\"Requests "
           "like this one are not allowed.\"," DENIED ",\"window\":null,\"reset\":null}");
    demand(&o, &noon, HEADERS, "");
    assert_int_equal(rn_answer_status(&o), 403);
}

static void a_problem_names_the_policies_that_refused(void **state)
{
    struct ration_outcome o = nothing();

    (void)state;
    add(&o, "api", admits(100, 3, SECOND), MINUTE);
    add(&o, "trial", refuses(5, SECOND, SECOND), MINUTE);
    o.limits[1].shadow = true;
    add(&o, "api", refuses(1000, SECOND, SECOND), 60 * MINUTE);
    add(&o, "inflight", refuses(2, 2 * SECOND, 2 * SECOND), 0);
    demand(&o, &noon, PROBLEM,
           "{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\","
           "\"title\":\"Too Many Requests\",\"status\":429,\"detail\":\"Too many requests at the "
           "same time. Try again in 2 seconds.\",\"violated-policies\":[\"api-2\",\"inflight\"],"
           "\"allowed\":false,\"rule\":\"inflight\",\"limit\":2,\"remaining\":0,\"reset_after\":2,"
           "\"retry_after\":2,\"delay\":0,\"limits\":["
           "{\"rule\":\"api\",\"limit\":100,\"remaining\":3,\"reset_after\":1},"
           "{\"rule\":\"trial\",\"limit\":5,\"remaining\":0,\"reset_after\":1,\"shadow\":true},"
           "{\"rule\":\"api\",\"limit\":1000,\"remaining\":0,\"reset_after\":1},"
           "{\"rule\":\"inflight\",\"limit\":2,\"remaining\":0,\"reset_after\":2}],"
           "\"error\":\"rate_limited\",\"window\":null,\"reset\":1800000003}");
}

static void messages_and_names_are_escaped(void **state)
{
    struct ration_outcome o = nothing();

    (void)state;
    add(&o, "a\"b\\c\xc3\xa9", refuses(5, SECOND, SECOND), MINUTE);
    strcpy(o.message, "Say \"please\" \xe2\x98\x95\n");
    o.headers = RATION_HEADERS_IETF;
    demand(&o, &noon, BODY,
           "{\"allowed\":false,\"rule\":\"a\\\"b\\\\c\xc3\xa9\",\"limit\":5,\"remaining\":0,"
           "\"reset_after\":1,\"retry_after\":1,\"delay\":0,\"limits\":[{\"rule\":\"a\\\"b\\\\c"
           "\xc3\xa9\",\"limit\":5,\"remaining\":0,\"reset_after\":1}],\"error\":\"rate_limited\","
           "\"message\":\"Say \\\"please\\\" \xe2\x98\x95\\n\",\"window\":60,"
           "\"reset\":1800000002}");
    demand(&o, &noon, HEADERS,
           "RateLimit-Policy: \"a\\\"b\\\\c\?\?\";q=5;w=60" CRLF
           "RateLimit: \"a\\\"b\\\\c\?\?\";r=0;t=1" CRLF "Retry-After: 1" CRLF);
}

/* --- edges ---------------------------------------------------------------------------------- */

static void fields_never_have_more_than_fifteen_digits(void **state)
{
    struct ration_outcome o = one(admits(1000000000000000, 1000000000000000, INT64_MAX - 1));

    (void)state;
    o.headers = RATION_HEADERS_BOTH;
    o.limits[0].period_ns = 1;
    demand(&o, &noon, HEADERS,
           "X-RateLimit-Limit: 1000000000000000" CRLF "X-RateLimit-Remaining: 1000000000000000" CRLF
           "X-RateLimit-Reset: 9223372037" CRLF
           "RateLimit-Policy: \"api\";q=999999999999999;w=1" CRLF
           "RateLimit: \"api\";r=999999999999999;t=9223372037" CRLF);
}

static void a_reset_that_never_comes_is_left_out(void **state)
{
    struct ration_outcome o = one(refuses(5, RATION_NEVER, RATION_NEVER));

    (void)state;
    o.headers = RATION_HEADERS_BOTH;
    demand(&o, &noon, HEADERS,
           "X-RateLimit-Limit: 5" CRLF "X-RateLimit-Remaining: 0" CRLF
           "RateLimit-Policy: \"api\";q=5;w=60" CRLF "RateLimit: \"api\";r=0" CRLF);
}

static void a_rule_that_is_really_called_api_2_keeps_its_name(void **state)
{
    struct ration_outcome o = nothing();

    (void)state;
    add(&o, "api", admits(1, 1, 0), MINUTE);
    add(&o, "api", admits(2, 2, 0), MINUTE);
    add(&o, "api-2", admits(3, 3, 0), MINUTE);
    add(&o, "api-2", admits(4, 4, 0), MINUTE);
    o.headers = RATION_HEADERS_IETF;
    demand(&o, &noon, HEADERS,
           "RateLimit-Policy: \"api\";q=1;w=60, \"api-3\";q=2;w=60, \"api-2\";q=3;w=60, "
           "\"api-2-2\";q=4;w=60" CRLF
           "RateLimit: \"api\";r=1;t=0, \"api-3\";r=2;t=0, \"api-2\";r=3;t=0, "
           "\"api-2-2\";r=4;t=0" CRLF);
}

/* Long names, many limits: the buffer has room for what is written without asking. */
static void the_longest_answer_fits(void **state)
{
    struct ration_outcome o = nothing();
    char name[RATION_NAME_SIZE];

    (void)state;
    memset(name, '"', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    for (int i = 0; i < RATION_OUTCOME_LIMITS; i++)
        add(&o, name, refuses(UINT64_MAX - 1, RATION_NEVER - 1, RATION_NEVER - 1), INT64_MAX);
    memset(o.message, 1, sizeof o.message - 1);
    o.message[sizeof o.message - 1] = '\0';
    o.headers = RATION_HEADERS_BOTH;
    for (size_t used = 0; used < 5000; used++) { /* every distance to the buffer's end */
        struct rn_buf out = {0};

        rn_buf_putf(&out, "%*s", (int)used, "");
        rn_answer_put_headers(&out, &o, &noon);
        rn_answer_put_body(&out, &o, &noon, true);
        assert_false(out.failed);
        assert_true(out.len > 8000);
        rn_buf_done(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_admission_by_one_limit),
        cmocka_unit_test(an_admission_by_three_limits_of_two_rules),
        cmocka_unit_test(the_window_of_a_burst_is_the_time_it_takes_to_come_back),
        cmocka_unit_test(without_a_rule_there_are_no_numbers),
        cmocka_unit_test(an_unlimited_decision_has_no_numbers),
        cmocka_unit_test(a_soft_admission_is_marked),
        cmocka_unit_test(shadow_limits_are_hidden_from_clients),
        cmocka_unit_test(a_service_in_shadow_mode_sends_no_headers),
        cmocka_unit_test(places_have_no_window),
        cmocka_unit_test(a_limit_of_the_request_has_no_rule),
        cmocka_unit_test(a_refusal_says_when_to_come_back),
        cmocka_unit_test(the_rule_chooses_the_family_of_headers),
        cmocka_unit_test(a_ban_by_a_rule_tells_its_level_and_its_end),
        cmocka_unit_test(a_ban_by_a_rule_in_shadow_mode_is_not_told),
        cmocka_unit_test(a_request_that_never_fits_has_no_retry_after),
        cmocka_unit_test(a_denied_request_has_no_numbers),
        cmocka_unit_test(a_problem_names_the_policies_that_refused),
        cmocka_unit_test(messages_and_names_are_escaped),
        cmocka_unit_test(fields_never_have_more_than_fifteen_digits),
        cmocka_unit_test(a_reset_that_never_comes_is_left_out),
        cmocka_unit_test(a_rule_that_is_really_called_api_2_keeps_its_name),
        cmocka_unit_test(the_longest_answer_fits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
