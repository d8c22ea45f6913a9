/* SPDX-License-Identifier: Apache-2.0 */
/* Requests from tests/http: those in refused/ could be read in two ways, or not at
 * all. Beside each is what must be read from it, as text. Whatever is accepted,
 * llhttp must have read likewise. */
#include "pieces.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "http/oracle.h"

#define BODY_MAX 5000

static const struct rn_http_limits limits = {BODY_MAX};
static struct rn_http_request request;
static struct rn_buf scratch;
static struct rn_http_parser reader; /* of read_all */

/* --- a connection, and what it has read, as text ---------------------------- */

static void tell_slice(struct rn_buf *told, const char *label, struct rn_slice text)
{
    rn_buf_putf(told, "%s <", label);
    rn_buf_put_slice(told, text);
    rn_buf_put_literal(told, ">\n");
}

static void tell_request(struct rn_buf *told)
{
    static const char *const keeps[] = {"close", "keep", "keep and say so"};

    rn_buf_put_slice(told, request.method);
    rn_buf_put_literal(told, " ");
    rn_buf_put_slice(told, request.target);
    rn_buf_putf(told, " HTTP/1.%d\n", request.minor);
    tell_slice(told, "path", request.path);
    tell_slice(told, "query", request.query);
    tell_slice(told, "host", request.host);
    rn_buf_putf(told, "%s%s\n", keeps[request.keep_alive],
                request.expect_continue ? ", expects 100-continue" : "");
    for (uint32_t i = 0; i < request.header_count; i++) {
        rn_buf_put_slice(told, request.headers[i].name);
        tell_slice(told, "", request.headers[i].value);
    }
    tell_slice(told, "body", request.body);
    rn_buf_put_literal(told, "\n");
}

/* One look. The copy has no byte to spare, so that the sanitizer sees a read behind
 * it, and is another one each time, so that nothing can hold on to it. */
static enum rn_parse look(const char *data, size_t len, size_t *bytes, struct rn_buf *told)
{
    struct rn_http_error error = {0};
    char *copy = malloc(len > 0 ? len : 1);
    enum rn_parse answer;

    memcpy(copy, data, len);
    memset(&request, 0xa5, sizeof request);
    answer = rn_http_parse(&reader, &limits, copy, len, &scratch, &request, &error);
    if (answer == RN_PARSE_DONE) {
        assert_in_range(request.bytes, *bytes, len);
        assert_true(oracle_agrees(copy, &request));
        tell_request(told);
        *bytes = request.bytes;
    } else if (answer == RN_PARSE_BAD) {
        rn_buf_putf(told, "! %u %s\n", error.status, error.text);
    } else {
        assert_true(reader.need > len);
        *bytes = reader.need;
    }
    free(copy);
    return answer;
}

/* Never asks for more bytes than a request has. */
static void read_all(struct rn_slice input, size_t piece, struct rn_buf *told)
{
    reader = (struct rn_http_parser){0};
    read_in_pieces(look, input, piece, told);
}

static void expect_bytes(const char *data, size_t len, const char *expected)
{
    expect_in_pieces(read_all, (struct rn_slice){data, len}, 3000, expected);
}

#define HOST "Host: a\r\n"

/* --- files ------------------------------------------------------------------- */

static struct rn_buf read_file(const char *path)
{
    struct rn_buf text = {0};
    FILE *file = fopen(path, "rb");
    char *to;

    if (!file)
        fail_msg("%s is missing", path);
    while ((to = rn_buf_reserve(&text, 1000)) != NULL) {
        size_t got = fread(to, 1, 1000, file);

        text.len += got;
        if (got == 0)
            break;
    }
    fclose(file);
    return text;
}

static void expect_file(const char *folder, const char *name)
{
    char path[4096];
    struct rn_buf input, expected;

    snprintf(path, sizeof path, TESTS_DIR "/http/%s/%s", folder, name);
    input = read_file(path);
    memcpy(path + strlen(path) - strlen("http"), "txt", 4);
    expected = read_file(path);
    rn_buf_put_char(&expected, '\0');
    print_message("# %s/%s\n", folder, name);
    expect_bytes(input.data, input.len, expected.data);
    rn_buf_done(&input);
    rn_buf_done(&expected);
}

static void expect_folder(const char *folder, unsigned at_least)
{
    char path[4096];
    struct dirent *entry;
    unsigned count = 0;
    DIR *dir;

    snprintf(path, sizeof path, TESTS_DIR "/http/%s", folder);
    dir = opendir(path);
    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        size_t len = strlen(entry->d_name);

        if (len < 5 || strcmp(entry->d_name + len - 5, ".http") != 0)
            continue;
        expect_file(folder, entry->d_name);
        count++;
    }
    closedir(dir);
    assert_true(count >= at_least);
}

static void ambiguous_requests_are_refused(void **state)
{
    (void)state;
    expect_folder("refused", 80);
}

static void clear_requests_are_read(void **state)
{
    (void)state;
    expect_folder("accepted", 30);
}

/* --- limits ------------------------------------------------------------------ */

static char text_of_x[20000];

/* A head of `head` bytes in all, with a header that is long enough. */
static void expect_head(size_t head, const char *fault)
{
    static const char begin[] = "GET / HTTP/1.1\r\n" HOST "X: ";
    size_t more = head - (sizeof begin - 1) - 4;
    struct rn_buf input = {0}, expected = {0};

    rn_buf_putf(&input, "%s%.*s\r\n\r\n", begin, (int)more, text_of_x);
    rn_buf_putf(&expected,
                "GET / HTTP/1.1\npath </>\nquery <>\nhost <a>\nkeep\nHost <a>\nX <%.*s>\nbody "
                "<>\n\n",
                (int)more, text_of_x);
    assert_int_equal(input.len, head);
    expect_bytes(input.data, input.len, fault ? fault : expected.data);
    rn_buf_done(&input);
    rn_buf_done(&expected);
}

static void a_head_may_have_16384_bytes(void **state)
{
    (void)state;
    expect_head(RN_HTTP_HEAD_MAX, NULL);
    expect_head(RN_HTTP_HEAD_MAX + 1, "! 431 the head is longer than 16384 bytes\n");
    expect_head(RN_HTTP_HEAD_MAX + 2, "! 431 the head is longer than 16384 bytes\n");
    expect_head(RN_HTTP_HEAD_MAX + 1000, "! 431 the head is longer than 16384 bytes\n");
}

static void a_target_may_have_8192_bytes(void **state)
{
    const char *fault = "! 414 the target is longer than 8192 bytes\n";
    struct rn_buf input = {0}, told = {0};

    (void)state;
    rn_buf_putf(&input, "GET /%.*s HTTP/1.1\r\n" HOST "\r\n", RN_HTTP_TARGET_MAX - 1, text_of_x);
    read_all(rn_buf_slice(&input), 50, &told);
    assert_memory_equal(told.data, "GET /x", 6);
    rn_buf_clear(&input);
    rn_buf_putf(&input, "GET /%.*s HTTP/1.1\r\n" HOST "\r\n", RN_HTTP_TARGET_MAX, text_of_x);
    expect_bytes(input.data, input.len, fault);
    rn_buf_clear(&input);
    rn_buf_putf(&input, "GET /%.*s", 17000, text_of_x);
    expect_bytes(input.data, input.len, fault);
    rn_buf_done(&input);
    rn_buf_done(&told);
}

static void there_may_be_100_headers(void **state)
{
    struct rn_buf input = {0}, told = {0};

    (void)state;
    for (int more = 0; more < 2; more++) {
        rn_buf_clear(&input);
        rn_buf_put_literal(&input, "GET / HTTP/1.1\r\n" HOST);
        for (int i = 1; i < RN_HTTP_HEADERS_MAX + more; i++)
            rn_buf_putf(&input, "X-%d: %d\r\n", i, i);
        rn_buf_put_literal(&input, "\r\n");
        read_all(rn_buf_slice(&input), 1000, &told);
        if (more)
            expect_bytes(input.data, input.len, "! 431 more than 100 headers\n");
        else
            assert_non_null(strstr(told.data, "\nX-99 <99>\nbody <>\n"));
    }
    rn_buf_done(&input);
    rn_buf_done(&told);
}

static void a_body_may_be_as_long_as_the_limit(void **state)
{
    const char *fault = "! 413 the body is too long\n";
    struct rn_buf input = {0}, told = {0};

    (void)state;
    for (int more = 0; more < 2; more++) {
        rn_buf_clear(&input);
        rn_buf_putf(&input, "POST / HTTP/1.1\r\n" HOST "Content-Length: %d\r\n\r\n%.*s",
                    BODY_MAX + more, BODY_MAX + more, text_of_x);
        read_all(rn_buf_slice(&input), 100, &told);
        assert_memory_equal(told.data, more ? fault : "POST / H", 8);
        rn_buf_clear(&input);
        rn_buf_putf(&input,
                    "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
                    "3\r\nxxx\r\n%X\r\n%.*s\r\n0\r\n\r\n",
                    BODY_MAX - 3 + more, BODY_MAX - 3 + more, text_of_x);
        read_all(rn_buf_slice(&input), 100, &told);
        assert_memory_equal(told.data, more ? fault : "POST / H", 8);
        if (more)
            expect_bytes(input.data, input.len, fault);
    }
    rn_buf_done(&input);
    rn_buf_done(&told);
}

/* What is refused for its length is so before the bytes have come. */
static void long_bodies_are_refused_when_announced(void **state)
{
    static const char announced[] =
        "POST / HTTP/1.1\r\n" HOST "Content-Length: 5001\r\nExpect: 100-continue\r\n\r\n";
    static const char chunk[] =
        "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nFFFFFFFF\r\n";

    (void)state;
    expect_bytes(announced, sizeof announced - 1, "! 413 the body is too long\n");
    expect_bytes(chunk, sizeof chunk - 1, "! 413 the body is too long\n");
}

static void chunks_of_a_byte_each_are_refused_sooner_or_later(void **state)
{
    struct rn_buf input = {0}, told = {0};

    (void)state;
    rn_buf_put_literal(&input, "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < BODY_MAX; i++)
        rn_buf_put_literal(&input, "00000001\r\nx\r\n");
    rn_buf_put_literal(&input, "0\r\n\r\n");
    expect_bytes(input.data, input.len, "! 413 the chunks are too small for the body they make\n");
    rn_buf_clear(&input);
    rn_buf_put_literal(&input, "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < BODY_MAX / 6; i++)
        rn_buf_put_literal(&input, "6\r\nxxxxxx\r\n");
    rn_buf_put_literal(&input, "0\r\n\r\n");
    assert_true(input.len < RN_HTTP_BYTES_MAX(BODY_MAX));
    read_all(rn_buf_slice(&input), 100, &told);
    assert_memory_equal(told.data, "POST /", 6);
    rn_buf_done(&input);
    rn_buf_done(&told);
}

static void a_parser_is_small(void **state)
{
    (void)state;
    assert_true(sizeof(struct rn_http_parser) <= 256);
}

/* --- in pieces ---------------------------------------------------------------- */

static void a_parser_says_how_many_bytes_it_needs(void **state)
{
    static const char text[] = "POST / HTTP/1.1\r\n" HOST "Content-Length: 100\r\n\r\nabc";
    static const char chunk[] =
        "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n20\r\nabc";
    struct rn_http_parser parser = {0};
    struct rn_http_error error;

    (void)state;
    assert_int_equal(rn_http_parse(&parser, &limits, text, 10, &scratch, &request, &error),
                     RN_PARSE_MORE);
    assert_int_equal(parser.need, 11);
    rn_http_parse(&parser, &limits, text, sizeof text - 1, &scratch, &request, &error);
    assert_int_equal(parser.need, sizeof text - 1 - 3 + 100);
    parser = (struct rn_http_parser){0};
    rn_http_parse(&parser, &limits, chunk, sizeof chunk - 1, &scratch, &request, &error);
    assert_int_equal(parser.need, sizeof chunk - 1 - 3 + 32 + 2 + 5);
}

static void continue_is_sent_once_and_only_before_the_body(void **state)
{
    static const char text[] =
        "POST / HTTP/1.1\r\n" HOST "Content-Length: 3\r\nExpect: 100-Continue\r\n\r\nabc";
    const size_t head = sizeof text - 1 - 3;
    struct rn_http_parser parser = {0};
    struct rn_http_error error;

    (void)state;
    rn_http_parse(&parser, &limits, text, head - 1, &scratch, &request, &error);
    assert_false(parser.expects);
    rn_http_parse(&parser, &limits, text, head, &scratch, &request, &error);
    assert_true(parser.expects);
    parser.expects = false;
    rn_http_parse(&parser, &limits, text, head + 1, &scratch, &request, &error);
    assert_false(parser.expects);
    assert_int_equal(rn_http_parse(&parser, &limits, text, head + 3, &scratch, &request, &error),
                     RN_PARSE_DONE);
    assert_true(request.expect_continue);
    assert_int_equal(rn_http_parse(&parser, &limits, text, head + 3, &scratch, &request, &error),
                     RN_PARSE_DONE);
    assert_false(parser.expects);
}

static void headers_are_found_by_name(void **state)
{
    static const char good[] = "GET / HTTP/1.1\r\nX-A: 1\r\n" HOST "x-a: 2\r\nEmpty:\r\n\r\n";
    struct rn_http_parser parser = {0};
    struct rn_http_error error;

    (void)state;
    assert_int_equal(
        rn_http_parse(&parser, &limits, good, sizeof good - 1, &scratch, &request, &error),
        RN_PARSE_DONE);
    assert_true(rn_slice_is(rn_http_find(&request, "x-a"), "1"));
    assert_true(rn_slice_is(rn_http_find(&request, "host"), "a"));
    assert_non_null(rn_http_find(&request, "empty").data);
    assert_null(rn_http_find(&request, "x-b").data);
}

/* Bytes looked at again and again would make this take minutes. */
static void single_bytes_cost_no_more_than_their_number(void **state)
{
    const struct rn_http_limits large = {1000000};
    struct rn_http_parser parser = {0};
    struct rn_http_error error;
    struct rn_buf input = {0};
    enum rn_parse answer = RN_PARSE_MORE;

    (void)state;
    rn_buf_put_literal(&input, "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n");
    rn_buf_putf(&input, "X: %.*s\r\n\r\n", 15000, text_of_x);
    for (int i = 0; i < 50; i++)
        rn_buf_putf(&input, "4E20\r\n%.*s\r\n", 20000, text_of_x);
    rn_buf_put_literal(&input, "0\r\n\r\n");
    for (size_t len = 0; len <= input.len; len++)
        answer = rn_http_parse(&parser, &large, input.data, len, &scratch, &request, &error);
    assert_int_equal(answer, RN_PARSE_DONE);
    assert_int_equal(request.body.len, 1000000);
    rn_buf_done(&input);
}

/* --- queries ------------------------------------------------------------------ */

static void expect_query(const char *query, const char *expected, bool expect_bad)
{
    struct rn_slice rest = rn_slice_of(query), name, value;
    size_t room = rest.len;
    char *decoded = malloc(room > 0 ? room : 1), *out = decoded;
    struct rn_buf told = {0};
    bool bad = false;

    while (rn_http_query_next(&rest, &out, &name, &value, &bad)) {
        tell_slice(&told, "", name);
        tell_slice(&told, value.data ? "=" : "none", value);
    }
    assert_true(out <= decoded + room);
    rn_buf_put_char(&told, '\0');
    assert_string_equal(told.data, expected);
    assert_int_equal(bad, expect_bad);
    rn_buf_done(&told);
    free(decoded);
}

static void queries_are_decoded(void **state)
{
    (void)state;
    expect_query("", "", false);
    expect_query("a=1&b=2", " <a>\n= <1>\n <b>\n= <2>\n", false);
    expect_query("a%3D=%41%2b%2Bx+y%26", " <a=>\n= <A++x y&>\n", false);
    expect_query("&&a&&b=&=c&", " <a>\nnone <>\n <b>\n= <>\n <>\n= <c>\n", false);
    expect_query("a==b", " <a>\n= <=b>\n", false);
    expect_query("a=%4&b=2", " <a>\n= <%4>\n <b>\n= <2>\n", true);
    expect_query("%", " <%>\nnone <>\n", true);
    expect_query("a=%zz", " <a>\n= <%zz>\n", true);
    expect_query("a=%+1", " <a>\n= <% 1>\n", true);
}

/* --- answers ------------------------------------------------------------------ */

static void expect_answer(struct rn_buf *out, const char *expected)
{
    rn_buf_put_char(out, '\0');
    assert_string_equal(out->data, expected);
    rn_buf_clear(out);
}

static void responses_have_a_content_length(void **state)
{
    struct rn_buf out = {0};

    (void)state;
    rn_http_put_status(&out, 429);
    rn_http_put_header(&out, "Retry-After", RN_SLICE("3"));
    rn_http_put_body(&out, RN_HTTP_KEEP, false, "application/json", RN_SLICE("{}"));
    expect_answer(&out, "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\n"
                        "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}");
    rn_http_put_status(&out, 200);
    rn_http_put_body(&out, RN_HTTP_CLOSE, true, NULL, RN_SLICE("hello"));
    expect_answer(&out, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\n");
    rn_http_put_status(&out, 599);
    rn_http_put_body(&out, RN_HTTP_KEEP_SAY, false, NULL, (struct rn_slice){0});
    expect_answer(&out, "HTTP/1.1 599 Unknown\r\nConnection: keep-alive\r\n"
                        "Content-Length: 0\r\n\r\n");
    rn_http_put_continue(&out);
    expect_answer(&out, "HTTP/1.1 100 Continue\r\n\r\n");
    rn_buf_done(&out);
}

static void a_header_stays_on_its_line(void **state)
{
    struct rn_buf out = {0};

    (void)state;
    rn_http_put_header(&out, "X-Rule", RN_SLICE("a\r\nSet-Cookie: b\nc\x7f\x01\xc3\xa4"));
    expect_answer(&out, "X-Rule: a  Set-Cookie: b c  \xc3\xa4\r\n");
    rn_buf_done(&out);
}

static void statuses_have_reasons(void **state)
{
    struct rn_buf out = {0};

    (void)state;
    rn_http_put_status(&out, 429);
    expect_answer(&out, "HTTP/1.1 429 Too Many Requests\r\n");
    rn_http_put_status(&out, 299);
    expect_answer(&out, "HTTP/1.1 299 Unknown\r\n");
    rn_http_put_status(&out, 70000);
    expect_answer(&out, "HTTP/1.1 70000 Unknown\r\n");
    rn_buf_done(&out);
}

static int fill_text(void **state)
{
    (void)state;
    memset(text_of_x, 'x', sizeof text_of_x);
    return 0;
}

static int free_scratch(void **state)
{
    (void)state;
    rn_buf_done(&scratch);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ambiguous_requests_are_refused),
        cmocka_unit_test(clear_requests_are_read),
        cmocka_unit_test(a_head_may_have_16384_bytes),
        cmocka_unit_test(a_target_may_have_8192_bytes),
        cmocka_unit_test(there_may_be_100_headers),
        cmocka_unit_test(a_body_may_be_as_long_as_the_limit),
        cmocka_unit_test(long_bodies_are_refused_when_announced),
        cmocka_unit_test(chunks_of_a_byte_each_are_refused_sooner_or_later),
        cmocka_unit_test(a_parser_is_small),
        cmocka_unit_test(a_parser_says_how_many_bytes_it_needs),
        cmocka_unit_test(continue_is_sent_once_and_only_before_the_body),
        cmocka_unit_test(headers_are_found_by_name),
        cmocka_unit_test(single_bytes_cost_no_more_than_their_number),
        cmocka_unit_test(queries_are_decoded),
        cmocka_unit_test(responses_have_a_content_length),
        cmocka_unit_test(a_header_stays_on_its_line),
        cmocka_unit_test(statuses_have_reasons),
    };

    return cmocka_run_group_tests(tests, fill_text, free_scratch);
}
