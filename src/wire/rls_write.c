/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers of Envoy's rate limit service, packed by protobuf-c from structs on the
 * stack.
 */
#include <stdio.h>

#include "wire/rls.h"
#include <rls.pb-c.h>

enum code { OK = 1, OVER_LIMIT = 2 };

static void put_message(struct rn_buf *out, const ProtobufCMessage *message)
{
    size_t len = protobuf_c_message_get_packed_size(message);
    char *to = rn_buf_reserve(out, len);

    if (!to)
        return;
    protobuf_c_message_pack(message, (uint8_t *)to);
    out->len += len;
}

static ProtobufCBinaryData bytes_of(const char *text)
{
    return (ProtobufCBinaryData){strlen(text), (uint8_t *)(uintptr_t)text}; /* only read */
}

size_t rn_rls_headers(const struct ration_descriptors_outcome *o,
                      struct rn_rls_header headers[RN_RLS_HEADERS])
{
    static const char *const names[RN_RLS_HEADERS] = {"ratelimit-limit", "ratelimit-remaining",
                                                      "ratelimit-reset", "retry-after"};

    if (o->decided_by < 0 || !o->statuses[o->decided_by].limited)
        return 0;
    const struct ration_descriptor_status *status = &o->statuses[o->decided_by];
    uint64_t values[RN_RLS_HEADERS] = {status->requests_per_unit, status->remaining,
                                       (uint64_t)rn_rls_seconds(status->reset_ns)};
    size_t count = o->allowed ? RN_RLS_HEADERS - 1 : RN_RLS_HEADERS;

    values[3] = values[2] != 0 ? values[2] : 1;
    for (size_t i = 0; i < count; i++) {
        headers[i].name = names[i];
        snprintf(headers[i].value, sizeof headers[i].value, "%llu", (unsigned long long)values[i]);
    }
    return count;
}

/* The parts of one status. */
struct told {
    Rls__DescriptorStatus status;
    Rls__RateLimit limit;
    Rls__Duration reset;
};

static void tell(struct told *t, const struct ration_descriptor_status *from)
{
    rls__descriptor_status__init(&t->status);
    t->status.code = from->over ? OVER_LIMIT : OK;
    t->status.limit_remaining = from->remaining;
    if (from->reset_ns > 0) {
        rls__duration__init(&t->reset);
        t->reset.seconds = rn_rls_seconds(from->reset_ns);
        t->status.duration_until_reset = &t->reset;
    }
    if (!from->limited)
        return;
    rls__rate_limit__init(&t->limit);
    t->limit.requests_per_unit = from->requests_per_unit;
    t->limit.unit = from->unit;
    t->limit.name = bytes_of(from->name);
    t->status.current_limit = &t->limit;
}

void rn_rls_write(struct rn_buf *out, const struct ration_descriptors_outcome *o,
                  const struct rn_rls_extra *extra)
{
    Rls__RateLimitResponse response = RLS__RATE_LIMIT_RESPONSE__INIT;
    struct told told[RATION_DESCRIPTORS_MAX];
    Rls__DescriptorStatus *statuses[RATION_DESCRIPTORS_MAX];
    struct rn_rls_header headers[RN_RLS_HEADERS];
    Rls__HeaderValue values[RN_RLS_HEADERS], *value_list[RN_RLS_HEADERS];

    for (size_t i = 0; i < o->count; i++) {
        tell(&told[i], &o->statuses[i]);
        statuses[i] = &told[i].status;
    }
    response.overall_code = o->allowed ? OK : OVER_LIMIT;
    response.n_statuses = o->count;
    response.statuses = statuses;
    if (extra->headers)
        response.n_response_headers_to_add = rn_rls_headers(o, headers);
    for (size_t i = 0; i < response.n_response_headers_to_add; i++) {
        rls__header_value__init(&values[i]);
        values[i].key = bytes_of(headers[i].name);
        values[i].value = bytes_of(headers[i].value);
        value_list[i] = &values[i];
    }
    response.response_headers_to_add = value_list;
    put_message(out, &response.base);
}

void rn_rls_write_health(struct rn_buf *out, enum rn_health health)
{
    Rls__HealthCheckResponse response = RLS__HEALTH_CHECK_RESPONSE__INIT;

    response.status = health;
    put_message(out, &response.base);
}
