/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values may come from clients: nothing in them may end the line, look like another field, or
 * control the terminal. One write for each line, so that lines of several threads or processes do
 * not mix.
 */
#include "net/log.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/civil.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "net/log_internal.h"

static _Atomic int least = RN_LOG_INFO, look = RN_LOG_LOGFMT;
static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rn_log_gate own_gate;

/* Appends one character, or one byte that is not UTF-8. Returns how many bytes it took. JSON
 * allows only UTF-8: other bytes are written as the text \xNN. */
static size_t put_character(struct rn_buf *out, enum rn_log_format format, const char *text,
                            size_t len)
{
    bool json = format == RN_LOG_JSON;
    uint32_t point;
    size_t size = rn_utf8_decode(text, len, &point);

    if (*text == '"' || *text == '\\')
        rn_buf_putf(out, "\\%c", *text);
    else if (size > 0 && rn_utf8_is_printable(point))
        rn_buf_put(out, text, size);
    else if (size > 0 && json) /* code points that are not printable are below 0x10000 */
        rn_buf_putf(out, "\\u%04x", (unsigned)point);
    else if (*text == '\n')
        rn_buf_put_literal(out, "\\n");
    else
        for (size_t i = 0; i == 0 || i < size; i++)
            rn_buf_putf(out, json ? "\\\\x%02x" : "\\x%02x", (unsigned char)text[i]);
    return size > 0 ? size : 1;
}

/* A text has no quotes if it is logfmt and needs none. */
static void put_field(struct rn_buf *out, enum rn_log_format format,
                      const struct rn_log_field *field)
{
    struct rn_slice text = field->text;
    size_t plain = 0, end = text.len < RN_LOG_VALUE_MAX ? text.len : RN_LOG_VALUE_MAX;

    rn_buf_putf(out, format == RN_LOG_JSON ? ",\"%s\":" : " %s=", field->name);
    if (!text.data) {
        rn_buf_put_i64(out, field->number);
        return;
    }
    while (plain < text.len && text.data[plain] > ' ' && text.data[plain] < 0x7f &&
           !strchr("\"=\\", text.data[plain]))
        plain++;
    if (format == RN_LOG_LOGFMT && plain == text.len && text.len > 0 &&
        text.len <= RN_LOG_VALUE_MAX) {
        rn_buf_put_slice(out, text);
        return;
    }
    rn_buf_put_char(out, '"');
    for (size_t at = 0; at < end;)
        at += put_character(out, format, text.data + at, text.len - at);
    if (end < text.len)
        rn_buf_put_literal(out, "...");
    rn_buf_put_char(out, '"');
}

void rn_log_line_write(struct rn_buf *out, enum rn_log_format format,
                       const struct rn_log_head *head, const struct rn_log_field *fields,
                       size_t count)
{
    static const char *const levels[] = {"error", "warn", "info", "debug", "info"};
    struct rn_log_field level = RN_LOG_TEXT("level", rn_slice_of(levels[head->level]));
    struct rn_log_field event = RN_LOG_TEXT("event", rn_slice_of(head->event));
    int64_t ms = head->wall_ns / (RN_SECOND_NS / 1000), s = ms / 1000;
    struct rn_civil day = rn_civil_of_days(s / RN_DAY_S);
    int second = (int)(s % RN_DAY_S);

    rn_buf_put_slice(out, format == RN_LOG_JSON ? RN_SLICE("{\"time\":\"") : RN_SLICE("time="));
    rn_buf_putf(out, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", (int)day.year, day.month, day.day,
                second / 3600, second / 60 % 60, second % 60, (int)(ms % 1000));
    if (format == RN_LOG_JSON)
        rn_buf_put_char(out, '"');
    put_field(out, format, &level);
    put_field(out, format, &event);
    for (size_t i = 0; i < count; i++)
        if (fields[i].name)
            put_field(out, format, &fields[i]);
    if (head->suppressed > 0)
        put_field(out, format, &RN_LOG_NUMBER("suppressed", head->suppressed));
    rn_buf_put_slice(out, format == RN_LOG_JSON ? RN_SLICE("}\n") : RN_SLICE("\n"));
}

bool rn_log_line_admit(struct rn_log_gate *gate, const char *event, int64_t now_ns,
                       uint64_t *suppressed)
{
    struct rn_log_rate *rate = gate->rates, *last = rate + RN_LOG_EVENTS - 1;

    while (rate < last && rate->event && strcmp(rate->event, event) != 0)
        rate++;
    rate->event = event;
    if (rate->written == 0 || now_ns - rate->since_ns >= RN_SECOND_NS) {
        rate->since_ns = now_ns;
        rate->written = 0;
    }
    if (rate->written >= RN_LOG_BURST) {
        rate->suppressed++;
        return false;
    }
    rate->written++;
    *suppressed = rate->suppressed;
    rate->suppressed = 0;
    return true;
}

void rn_log_setup(enum rn_log_level level, enum rn_log_format format)
{
    atomic_store_explicit(&least, (int)level, memory_order_relaxed);
    atomic_store_explicit(&look, (int)format, memory_order_relaxed);
}

static void write_all(const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(STDERR_FILENO, data, len);
        if (n <= 0)
            return; /* there is no other place to log this */
        data += n;
        len -= (size_t)n;
    }
}

void rn_log_write(enum rn_log_level level, const char *event, const struct rn_log_field *fields,
                  size_t count)
{
    static const char *const formats[] = {
        [RN_LOG_LOGFMT] = "event=%.60s notice=\"out of memory for this line\"\n",
        [RN_LOG_JSON] = "{\"event\":\"%.60s\",\"notice\":\"out of memory for this line\"}\n"};
    enum rn_log_format format =
        (enum rn_log_format)atomic_load_explicit(&look, memory_order_relaxed);
    struct rn_log_head head = {.level = level, .event = event};
    struct rn_buf line = {0};

    bool record = level == RN_LOG_RECORD;

    if (!record && (int)level > atomic_load_explicit(&least, memory_order_relaxed))
        return;
    pthread_mutex_lock(&gate_lock);
    bool admitted = record || rn_log_line_admit(&own_gate, event, rn_clock_read_ns(CLOCK_MONOTONIC),
                                                &head.suppressed);
    pthread_mutex_unlock(&gate_lock);
    if (!admitted)
        return;
    head.wall_ns = rn_clock_wall_ns();
    rn_log_line_write(&line, format, &head, fields, count);
    if (line.failed) {
        /* The event without its fields: when memory is short, logs matter most. */
        char text[160];
        int len = snprintf(text, sizeof text, formats[format], event);

        write_all(text, (size_t)len);
    } else
        write_all(line.data, line.len);
    rn_buf_done(&line);
}
