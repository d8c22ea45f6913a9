/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines for people and machines: one event a line, on stderr, as logfmt or as JSON.
 *
 *   time=2026-11-15T12:00:00.123Z level=info event=rules.reload version=4
 *   {"time":"2026-11-15T12:00:00.123Z","level":"info","event":"rules.reload","version":4}
 *
 * Each event may write RN_LOG_BURST lines in a second. Further lines are counted, and the
 * next line of the event reports how many (`suppressed=17`). Thread-safe.
 */
#ifndef RN_NET_LOG_H
#define RN_NET_LOG_H

#include <stdint.h>

#include "base/slice.h"

#define RN_LOG_BURST 10

enum rn_log_level {
    RN_LOG_ERROR,
    RN_LOG_WARN,
    RN_LOG_INFO,
    RN_LOG_DEBUG,
    RN_LOG_RECORD, /* info that is always written, whatever the level and however many lines: for
                    * changes that somebody must account for */
};

enum rn_log_format { RN_LOG_LOGFMT, RN_LOG_JSON };

/* The least important level that is written, and the format. Initially INFO and logfmt. */
void rn_log_setup(enum rn_log_level level, enum rn_log_format format);

/* A name and a value, which is quoted and escaped where necessary. */
struct rn_log_field {
    const char *name;     /* NULL: leave the field out */
    struct rn_slice text; /* data NULL: the value is `number` */
    int64_t number;
};

#define RN_LOG_TEXT(name_, slice_)                                                                 \
    (struct rn_log_field)                                                                          \
    {                                                                                              \
        .name = (name_), .text = (slice_)                                                          \
    }
#define RN_LOG_NUMBER(name_, number_)                                                              \
    (struct rn_log_field)                                                                          \
    {                                                                                              \
        .name = (name_), .number = (int64_t)(number_)                                              \
    }

/* `event` is a literal like "conn.refused". */
void rn_log_write(enum rn_log_level level, const char *event, const struct rn_log_field *fields,
                  size_t count);

/* rn_log(RN_LOG_INFO, "rules.reload", RN_LOG_NUMBER("version", 4)) */
#define rn_log(level, event, ...)                                                                  \
    rn_log_write(level, event, (const struct rn_log_field[]){{.name = 0}, __VA_ARGS__} + 1,        \
                 sizeof((const struct rn_log_field[]){{.name = 0}, __VA_ARGS__}) /                 \
                         sizeof(struct rn_log_field) -                                             \
                     1)

#endif
