/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines whose fields have positions, with spaces between them, and quotes or brackets around those
 * with spaces: nginx and Apache (common and combined), HAProxy (httplog), AWS load balancers.
 */
#include <string.h>

#include "cli/logs/format.h"

/* --- common and combined ------------------------------------------------------------ */

/* [SERVER[:PORT]] ADDRESS - USER [TIME] "REQUEST" STATUS BYTES ["REFERER" "AGENT" EXTRA...] */
static const char *const combined_fields[] = {
    "server_name", "remote_addr",     "remote_user",  "time_local",      "request",
    "status",      "body_bytes_sent", "http_referer", "http_user_agent", NULL};
enum {
    SERVER = RN_LOGS_FIRST,
    ADDRESS,
    USER,
    TIME,
    REQUEST,
    STATUS,
    BYTES,
    REFERER,
    AGENT,
    EXTRA,
};

/* Keeps text in quotes that begin at `at`. Returns what follows; NULL: it does not end. */
static const char *keep_quoted(struct rn_logs_reader *r, uint8_t slot, const char *at,
                               const char *end)
{
    const char *close = ++at;
    bool escaped = false;

    for (;;) {
        close = memchr(close, '"', (size_t)(end - close));
        if (close == NULL)
            return NULL;
        size_t backslashes = 0;

        while (close - backslashes > at && close[-1 - (ptrdiff_t)backslashes] == '\\')
            backslashes++;
        if (backslashes % 2 == 0)
            break;
        escaped = true;
        close++;
    }
    escaped |= close > at && memchr(at, '\\', (size_t)(close - at)) != NULL;
    /* The line is ours to change (format.h). */
    rn_logs_keep(r, slot, at,
                 escaped ? rn_logs_unescape((char *)(uintptr_t)at, (char *)(uintptr_t)close)
                         : close);
    return close + 1;
}

/* Forgets the values of the line before from this slot on: value_count is behind the last of them.
 */
static void forget_from(struct rn_logs_reader *r, uint32_t slot)
{
    for (uint32_t i = slot; i < r->value_count; i++)
        r->values[i].data = NULL;
    r->value_count = slot;
}

/* Keeps what follows, field by field, from `slot` on. False: quotes do not end. */
static bool keep_rest(struct rn_logs_reader *r, uint8_t slot, const char *at, const char *end)
{
    for (; at < end && slot < RN_LOGS_SLOTS; r->value_count = slot) {
        if (*at == ' ') {
            at++;
            continue;
        }
        if (*at == '"') {
            at = keep_quoted(r, slot, at, end);
            if (at == NULL)
                return false;
        } else {
            const char *stop = memchr(at, ' ', (size_t)(end - at));

            stop = stop != NULL ? stop : end;
            rn_logs_keep(r, slot, at, stop);
            at = stop;
        }
        slot++;
    }
    return true;
}

/* The bracket behind the time: the first one with a quote behind it. The name of the user, which a
 * client sends, may have brackets, but no quotes: servers escape them. */
static const char *find_end_of_time(const char *at, const char *end)
{
    while ((at = memchr(at, ']', (size_t)(end - at))) != NULL && end - at >= 4) {
        if (at[1] == ' ' && at[2] == '"')
            return at;
        at++;
    }
    return NULL;
}

/* Whether it could be an address: hexadecimal digits with dots or colons between them. */
static bool is_address(const char *from, const char *to)
{
    bool divided = false;

    for (; from < to; from++) {
        bool divides = *from == '.' || *from == ':';

        divided |= divides;
        if (!divides && !(*from >= '0' && *from <= '9') && !(*from >= 'a' && *from <= 'f') &&
            !(*from >= 'A' && *from <= 'F'))
            return false;
    }
    return divided;
}

/* The server before the address, as in Apache's vhost_combined: www.example.org:443 192.0.2.1 - -
 * [... Returns the space behind the address; `at` and `stop` enclose the first field. */
static const char *keep_client(struct rn_logs_reader *r, const char *at, const char *stop,
                               const char *end)
{
    const char *second = stop + 1, *behind, *port;

    r->values[SERVER].data = NULL;
    behind = memchr(second, ' ', (size_t)(end - second));
    if (behind != NULL && is_address(second, behind) && !is_address(at, stop)) {
        port = memrchr(at, ':', (size_t)(stop - at));
        rn_logs_keep(r, SERVER, at, port != NULL ? port : stop);
        at = second;
        stop = behind;
    }
    rn_logs_keep(r, ADDRESS, at, stop);
    return stop;
}

static bool split_combined(struct rn_logs_reader *r, struct rn_slice line)
{
    const char *at = line.data, *end = at + line.len, *space = memchr(at, ' ', line.len);
    const char *bracket, *stop;

    if (space == NULL || space == at)
        return false;
    space = keep_client(r, at, space, end);
    stop = find_end_of_time(space, end);
    bracket = stop != NULL ? memrchr(space, '[', (size_t)(stop - space)) : NULL;
    /* ident, which nobody has, and the user, who may have spaces */
    at = space + 1;
    at = memchr(at, ' ', (size_t)(end - at));
    if (bracket == NULL || at == NULL || at + 1 >= bracket || bracket[-1] != ' ')
        return false;
    rn_logs_keep(r, USER, at + 1, bracket - 1);
    rn_logs_keep(r, TIME, bracket + 1, stop);
    at = keep_quoted(r, REQUEST, stop + 2, end);
    if (at == NULL || end - at < 4 || *at != ' ')
        return false;
    stop = memchr(at + 1, ' ', (size_t)(end - at - 1));
    rn_logs_keep(r, STATUS, at + 1, stop != NULL ? stop : end);
    forget_from(r, BYTES);
    return stop == NULL || keep_rest(r, BYTES, stop, end);
}

static const struct rn_logs_default combined_defaults[] = {{"time", "time_local"},
                                                           {"request", "request"},
                                                           {"status", "status"},
                                                           {"ip", "remote_addr"},
                                                           {"user", "remote_user"},
                                                           {"host", "server_name"},
                                                           {"header.referer", "http_referer"},
                                                           {"header.user-agent", "http_user_agent"},
                                                           {NULL, NULL}};
static const struct rn_logs_default nginx_defaults[] = {{"end", "time_local"},
                                                        {"request", "request"},
                                                        {"status", "status"},
                                                        {"ip", "remote_addr"},
                                                        {"user", "remote_user"},
                                                        {"host", "server_name"},
                                                        {"header.referer", "http_referer"},
                                                        {"header.user-agent", "http_user_agent"},
                                                        {NULL, NULL}};

const struct rn_logs_format rn_logs_combined = {
    .name = "combined",
    .title = "common or combined, of nginx or Apache",
    .times = "nginx writes the time when a request ends, Apache when it arrives (--format apache)",
    .fields = combined_fields,
    .defaults = nginx_defaults,
    .unit_ns = 1000000000,
    .split = split_combined,
};

const struct rn_logs_format rn_logs_apache = {
    .name = "apache",
    .title = "common or combined, of Apache",
    .times = "the time is when a request arrived",
    .fields = combined_fields,
    .defaults = combined_defaults,
    .unit_ns = 1000000000,
    .split = split_combined,
};

/* --- HAProxy --------------------------------------------------------------------------- */

/* ... CLIENT:PORT [TIME] FRONTEND BACKEND/SERVER TR/Tw/Tc/Tr/Ta STATUS BYTES COOKIE COOKIE STATE
 * CONNECTIONS QUEUES [{HEADERS}] [{HEADERS}] "REQUEST" */
static const char *const haproxy_fields[] = {
    "client",   "time",   "frontend",        "server",           "timers",
    "status",   "bytes",  "request_cookie",  "response_cookie",  "state",
    "counts",   "queues", "request_headers", "response_headers", "request",
    "duration", NULL};
enum {
    H_CLIENT = RN_LOGS_FIRST,
    H_TIME,
    H_FRONTEND,
    H_TIMERS = H_FRONTEND + 2,
    H_STATUS,
    H_QUEUES = H_STATUS + 6,
    H_REQUEST_HEADERS,
    H_RESPONSE_HEADERS,
    H_REQUEST,
    H_DURATION,
    H_EXTRA,
};

/* The address and port before the first ` [` of a line with a syslog header. */
static const char *find_client(const char *from, const char *bracket)
{
    const char *at = bracket - 1;

    while (at > from && at[-1] != ' ')
        at--;
    return at;
}

/* The time in brackets: the first bracket after a space and before a date. The process id of syslog
 * is in brackets, too. */
static const char *find_date(struct rn_slice line)
{
    const char *at = line.data, *end = at + line.len;

    while ((at = memchr(at, '[', (size_t)(end - at))) != NULL) {
        if (at > line.data + 1 && at[-1] == ' ' && end - at > 20 && at[3] == '/' && at[7] == '/')
            return at;
        at++;
    }
    return NULL;
}

static bool split_haproxy(struct rn_logs_reader *r, struct rn_slice line)
{
    const char *end = line.data + line.len, *bracket = find_date(line), *at, *stop;
    uint8_t slot = H_FRONTEND;

    forget_from(r, H_CLIENT);
    r->value_count = H_EXTRA;
    stop = bracket != NULL ? memchr(bracket, ']', (size_t)(end - bracket)) : NULL;
    if (stop == NULL)
        return false;
    rn_logs_keep(r, H_CLIENT, find_client(line.data, bracket), bracket - 1);
    rn_logs_keep(r, H_TIME, bracket + 1, stop);
    for (at = stop + 1; slot <= H_QUEUES; slot++, at = stop) {
        at += at < end && *at == ' ';
        stop = memchr(at, ' ', (size_t)(end - at));
        if (stop == NULL || stop == at)
            return false;
        rn_logs_keep(r, slot, at, stop);
    }
    for (slot = H_REQUEST_HEADERS; at + 1 < end && at[1] == '{' && slot <= H_RESPONSE_HEADERS;
         slot++, at = stop + 1) {
        stop = memchr(at + 1, '}', (size_t)(end - at - 1));
        if (stop == NULL)
            return false;
        rn_logs_keep(r, slot, at + 2, stop);
    }
    if (at + 2 >= end || at[1] != '"')
        return false;
    at = keep_quoted(r, H_REQUEST, at + 1, end);
    if (at == NULL || !keep_rest(r, H_EXTRA, at, end))
        return false;
    /* The last of the timers is the whole; + before it: without what came after the log line. */
    struct rn_slice timers = r->values[H_TIMERS];
    const char *last = memrchr(timers.data != NULL ? timers.data : "", '/', timers.len);

    if (last == NULL)
        return false;
    last += last[1] == '+' ? 2 : 1;
    rn_logs_keep(r, H_DURATION, last, timers.data + timers.len);
    return true;
}

static const struct rn_logs_default haproxy_defaults[] = {
    {"time", "time"}, {"request", "request"},   {"status", "status"},
    {"ip", "client"}, {"duration", "duration"}, {NULL, NULL}};

const struct rn_logs_format rn_logs_haproxy = {
    .name = "haproxy",
    .title = "HAProxy, option httplog",
    .times = "the time is when a request arrived, in HAProxy's time zone, which the log does not "
             "name: read as UTC",
    .fields = haproxy_fields,
    .defaults = haproxy_defaults,
    .unit_ns = 1000000,
    .split = split_haproxy,
};

/* --- AWS ---------------------------------------------------------------------------------- */

static const char *const alb_fields[] = {"type",
                                         "end",
                                         "elb",
                                         "client",
                                         "target",
                                         "request_processing_time",
                                         "target_processing_time",
                                         "response_processing_time",
                                         "elb_status_code",
                                         "target_status_code",
                                         "received_bytes",
                                         "sent_bytes",
                                         "request",
                                         "user_agent",
                                         "ssl_cipher",
                                         "ssl_protocol",
                                         "target_group_arn",
                                         "trace_id",
                                         "domain_name",
                                         "chosen_cert_arn",
                                         "matched_rule_priority",
                                         "request_creation_time",
                                         "actions_executed",
                                         "redirect_url",
                                         "error_reason",
                                         "target_port_list",
                                         "target_status_code_list",
                                         "classification",
                                         "classification_reason",
                                         NULL};
#define ALB_END (RN_LOGS_FIRST + 1)
#define ALB_REQUEST (RN_LOGS_FIRST + 12)
#define ALB_TIMES (RN_LOGS_FIRST + 5)

/* http, h2, wss, ...; not the {"time": of JSON with spaces */
static bool is_word(struct rn_slice type)
{
    for (size_t i = 0; type.data != NULL && i < type.len; i++)
        if (!(type.data[i] >= 'a' && type.data[i] <= 'z') &&
            !(type.data[i] >= '0' && type.data[i] <= '9'))
            return false;
    return type.data != NULL;
}

static bool split_alb(struct rn_logs_reader *r, struct rn_slice line)
{
    forget_from(r, RN_LOGS_FIRST);
    if (!keep_rest(r, RN_LOGS_FIRST, line.data, line.data + line.len))
        return false;
    for (int i = 0; i < 3; i++) { /* -1: it did not get that far */
        struct rn_slice *time = &r->values[ALB_TIMES + i];

        if (time->data != NULL && time->data[0] == '-')
            time->data = NULL;
    }
    return is_word(r->values[RN_LOGS_FIRST]) && r->value_count > ALB_REQUEST &&
           r->values[ALB_END].data != NULL &&
           memchr(r->values[ALB_END].data, 'T', r->values[ALB_END].len) != NULL;
}

static const struct rn_logs_default alb_defaults[] = {{"time", "request_creation_time"},
                                                      {"end", "end"},
                                                      {"request", "request"},
                                                      {"status", "elb_status_code"},
                                                      {"ip", "client"},
                                                      {"host", "domain_name"},
                                                      {"header.user-agent", "user_agent"},
                                                      {"duration1", "request_processing_time"},
                                                      {"duration2", "target_processing_time"},
                                                      {"duration3", "response_processing_time"},
                                                      {NULL, NULL}};

const struct rn_logs_format rn_logs_alb = {
    .name = "alb",
    .title = "AWS Application Load Balancer",
    .times = "the time is when a request arrived (request_creation_time)",
    .fields = alb_fields,
    .defaults = alb_defaults,
    .unit_ns = 1000000000,
    .split = split_alb,
};
