/* SPDX-License-Identifier: Apache-2.0 */
/* Inside net: whether a log line is written, and its format. */
#ifndef RN_NET_LOG_INTERNAL_H
#define RN_NET_LOG_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "net/log.h"

/* Counts lines of each event in the current second. One thread at a time. */
#define RN_LOG_EVENTS 128
struct rn_log_gate {
    struct rn_log_rate {
        const char *event; /* NULL: unused */
        int64_t since_ns;
        uint64_t written, suppressed;
    } rates[RN_LOG_EVENTS]; /* further events share the last one */
};

/* Whether a line of `event` may be written now. If so, *suppressed is set to how many were
 * not written since the last one. */
bool rn_log_line_admit(struct rn_log_gate *gate, const char *event, int64_t now_ns,
                       uint64_t *suppressed);

/* Ends with a line feed. Values are cut after RN_LOG_VALUE_MAX bytes. */
#define RN_LOG_VALUE_MAX 512
struct rn_log_head {
    int64_t wall_ns;
    enum rn_log_level level;
    const char *event;
    uint64_t suppressed;
};
void rn_log_line_write(struct rn_buf *out, enum rn_log_format format,
                       const struct rn_log_head *head, const struct rn_log_field *fields,
                       size_t count);

#endif
