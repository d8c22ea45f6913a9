/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instructions that reading a request takes, all of it being there: a pipelined
 * CL.THROTTLE, a small POST, the same in chunks, and what llhttp alone takes for the
 * head of that POST.
 *
 *   bench-wire
 */
#include <llhttp.h>
#include <stdio.h>
#include <stdlib.h>

#include "steps.h"
#include "wire/http.h"
#include "wire/resp.h"

#define STEPPED 10

#define HEAD                                                                                       \
    "POST /v1/check HTTP/1.1\r\n"                                                                  \
    "Host: 127.0.0.1:8080\r\n"                                                                     \
    "User-Agent: wrk/4.1\r\n"                                                                      \
    "Content-Type: application/json\r\n"                                                           \
    "Accept: */*\r\n"
#define BODY "{\"attributes\":{\"ip\":\"192.0.2.1\",\"api_key\":\"alice\",\"cost\":1}}"

static char command_bytes[] =
    "*5\r\n$11\r\nCL.THROTTLE\r\n$8\r\nuser:123\r\n$2\r\n15\r\n$2\r\n30\r\n$2\r\n60\r\n";
static const char post[] = HEAD "Content-Length: 60\r\n\r\n" BODY;
static const char chunked[] = HEAD "Transfer-Encoding: chunked\r\n\r\n3c\r\n" BODY "\r\n0\r\n\r\n";
static unsigned missed;

static void demand(bool read)
{
    if (!read) {
        fputs("bench-wire: a request is not read\n", stderr);
        exit(1);
    }
}

static void read_command(void *context, uint64_t count)
{
    static struct rn_resp_command command;
    const char *error;

    (void)context;
    for (; count > 0; count--)
        demand(rn_resp_parse(command_bytes, sizeof command_bytes - 1, &command, &error) ==
               RN_PARSE_DONE);
}

static void read_request(void *context, uint64_t count)
{
    static const struct rn_http_limits limits = {1 << 20};
    static struct rn_http_request request;
    static struct rn_buf scratch;
    struct rn_http_parser parser = {0};
    struct rn_http_error error;
    const char *text = context;
    size_t len = strlen(text);

    for (; count > 0; count--)
        demand(rn_http_parse(&parser, &limits, text, len, &scratch, &request, &error) ==
               RN_PARSE_DONE);
}

static int pause_here(llhttp_t *llhttp)
{
    (void)llhttp;
    return HPE_PAUSED;
}

static void read_head_by_llhttp(void *context, uint64_t count)
{
    static const llhttp_settings_t settings = {.on_headers_complete = pause_here};
    llhttp_t llhttp;

    (void)context;
    for (; count > 0; count--) {
        llhttp_init(&llhttp, HTTP_REQUEST, &settings);
        demand(llhttp_execute(&llhttp, post, sizeof post - 1) == HPE_PAUSED);
    }
}

static void report(const char *what, double steps, double goal)
{
    bool met = steps <= goal;

    printf("  %-58s %9.0f instructions  goal ≤ %-5g %s\n", what, steps, goal,
           met ? "met" : "MISSED");
    missed += !met;
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0); /* or children would print it again */
    read_request((void *)post, 1);
    read_request((void *)chunked, 1);
    puts("reading one request");
    report("CL.THROTTLE with 4 arguments", bench_steps(read_command, NULL, STEPPED), 200);
    report("POST with 5 headers, 195 bytes", bench_steps(read_request, (void *)post, STEPPED),
           1500);
    printf("  %-58s %9.0f instructions\n", "the same in chunks, llhttp included",
           bench_steps(read_request, (void *)chunked, STEPPED));
    printf("  %-58s %9.0f instructions\n", "the head of the POST by llhttp alone",
           bench_steps(read_head_by_llhttp, NULL, STEPPED));
    printf(missed ? "%u goals missed\n" : "all goals met\n", missed);
    return missed > 0;
}
