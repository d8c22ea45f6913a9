/* SPDX-License-Identifier: Apache-2.0 */
/* One write for each line, so that lines of several threads or processes do not mix. */
#include "net/log.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/log_line.h"

static _Atomic int least = RN_LOG_INFO, look = RN_LOG_LOGFMT;
static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rn_log_gate gate;

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

    if ((int)level > atomic_load_explicit(&least, memory_order_relaxed))
        return;
    pthread_mutex_lock(&gate_lock);
    bool admitted =
        rn_log_line_admit(&gate, event, rn_clock_read_ns(CLOCK_MONOTONIC), &head.suppressed);
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
