/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as a request of Envoy's rate limit service, and the same bytes as JSON: what
 * is read obeys all that is promised of it, and can be answered. */
#include <stdint.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "wire/rls.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct rn_rls_reader reader;
static struct ration_descriptors_outcome outcome;

static void demand(bool good)
{
    if (!good)
        abort();
}

static void demand_text(const char *data, size_t len)
{
    uint32_t point;

    demand(len <= RN_RLS_TEXT_MAX);
    for (size_t at = 0, n; at < len; at += n)
        demand((n = rn_utf8_decode(data + at, len - at, &point)) != 0);
}

static void demand_request(const struct ration_descriptors *request)
{
    demand(request->count > 0 && request->count <= RATION_DESCRIPTORS_MAX);
    demand(request->domain_len > 0);
    demand_text(request->domain, request->domain_len);
    for (size_t i = 0; i < request->count; i++) {
        const struct ration_descriptor_ask *ask = &request->asks[i];

        demand(ask->count > 0 && ask->count <= RN_RLS_ENTRIES_MAX);
        demand(!ask->limit_given ||
               (ask->unit > RATION_UNIT_UNKNOWN && ask->unit <= RATION_UNIT_WEEK));
        for (size_t j = 0; j < ask->count; j++) {
            demand(ask->entries[j].key_len > 0);
            demand_text(ask->entries[j].key, ask->entries[j].key_len);
            demand_text(ask->entries[j].value, ask->entries[j].value_len);
        }
    }
}

/* The request's own numbers, as if they were the answer's. */
static void answer(const struct ration_descriptors *request)
{
    struct rn_rls_extra extra = {.headers = true, .metadata = true};
    struct rn_buf out = {0};

    outcome.allowed = request->count % 2;
    outcome.decided_by = 0;
    outcome.count = request->count;
    for (size_t i = 0; i < request->count; i++) {
        outcome.statuses[i] = (struct ration_descriptor_status){
            .over = request->asks[i].refund,
            .limited = request->asks[i].limit_given,
            .requests_per_unit = request->asks[i].requests_per_unit,
            .unit = request->asks[i].unit,
            .remaining = (uint32_t)request->asks[i].hits,
            .reset_ns = (int64_t)(request->asks[i].hits / 2)};
        rn_slice_copy(outcome.statuses[i].name, sizeof outcome.statuses[i].name,
                      (struct rn_slice){request->asks[i].entries[0].key,
                                        request->asks[i].entries[0].key_len});
    }
    for (size_t i = 0; i < request->asks[0].count; i++)
        rn_rls_keep(&reader,
                    &(struct ration_metadata){request->asks[0].entries[i].key,
                                              request->asks[0].entries[i].key_len,
                                              request->asks[0].entries[i].value,
                                              request->asks[0].entries[i].value_len, i % 3 == 2});
    rn_rls_write(&out, &reader, &outcome, &extra);
    rn_rls_write_json(&out, &reader, &outcome, &extra);
    demand(!out.failed && out.len > 0);
    rn_buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size > 0 ? size : 1);
    struct ration_error error = {0};

    demand(copy != NULL);
    if (size > 0)
        memcpy(copy, data, size);
    if (rn_rls_read(&reader, (struct rn_slice){copy, size}, &error) == 0) {
        demand_request(&reader.request);
        answer(&reader.request);
    } else {
        demand(error.text[0] != '\0');
    }
    (void)rn_rls_read_health(&reader, (struct rn_slice){copy, size});
    error.text[0] = '\0';
    if (rn_rls_read_json(&reader, copy, size, &error) == 0) {
        demand_request(&reader.request);
        answer(&reader.request);
    } else {
        demand(error.text[0] != '\0');
    }
    free(copy);
    return 0;
}
