/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads requests with protobuf-c into an arena of fixed size, which bounds the memory that a
 * message can cost and is reused for the next one.
 */
#include "wire/rls.h"

#include "base/error.h"
#include "base/utf8.h"
#include "wire/rls_internal.h"
#include <rls.pb-c.h>

#define ALIGNED(bytes) (((bytes) + 15) / 16 * 16)

void *rn_rls_take(struct rn_rls_reader *reader, size_t bytes)
{
    void *at = reader->arena + reader->used;

    if (bytes > sizeof reader->arena - reader->used) {
        reader->exhausted = true;
        return NULL;
    }
    reader->used += ALIGNED(bytes);
    if (reader->used > sizeof reader->arena)
        reader->used = sizeof reader->arena;
    return at;
}

static void *take(void *arg, size_t bytes)
{
    return rn_rls_take(arg, bytes);
}

static void leave(void *arg, void *pointer)
{
    (void)arg;
    (void)pointer;
}

static ProtobufCAllocator allocator(struct rn_rls_reader *reader)
{
    reader->used = 0;
    reader->leaf_count = 0;
    reader->exhausted = false;
    return (ProtobufCAllocator){.alloc = take, .free = leave, .allocator_data = reader};
}

/* --- checks for both formats --------------------------------------------------------- */

static int check_text(struct rn_slice text, const char *what, struct ration_error *error)
{
    uint32_t point;

    if (text.len > RN_RLS_TEXT_MAX)
        return rn_error_set(error, RATION_EINVAL, 0, "a %s of more than %d bytes", what,
                            RN_RLS_TEXT_MAX);
    for (size_t at = 0, n; at < text.len; at += n) {
        n = (unsigned char)text.data[at] < 0x80
                ? 1
                : rn_utf8_decode(text.data + at, text.len - at, &point);
        if (n == 0)
            return rn_error_set(error, RATION_EINVAL, 0, "a %s is not UTF-8", what);
    }
    return 0;
}

int rn_rls_begin(struct rn_rls_reader *reader, struct ration_error *error)
{
    struct ration_descriptors *request = &reader->request;

    if (request->count == RATION_DESCRIPTORS_MAX)
        return rn_error_set(error, RATION_EFULL, 0, "more than %d descriptors",
                            RATION_DESCRIPTORS_MAX);
    reader->asks[request->count++] =
        (struct ration_descriptor_ask){.entries = reader->entries + reader->entry_count};
    return 0;
}

int rn_rls_add_entry(struct rn_rls_reader *reader, struct rn_slice key, struct rn_slice value,
                     struct ration_error *error)
{
    int code = check_text(key, "key", error);

    if (code == 0)
        code = check_text(value, "value", error);
    if (code != 0)
        return code;
    if (reader->entry_count == RN_RLS_ENTRIES_MAX)
        return rn_error_set(error, RATION_EFULL, 0, "more than %d entries", RN_RLS_ENTRIES_MAX);
    if (key.len == 0)
        return rn_error_set(error, RATION_EINVAL, 0, "an entry without a key");
    reader->entries[reader->entry_count++] =
        (struct ration_descriptor_entry){key.data, key.len, value.data, value.len};
    reader->asks[reader->request.count - 1].count++;
    return 0;
}

int rn_rls_end(struct rn_rls_reader *reader, struct rn_slice domain, struct ration_error *error)
{
    struct ration_descriptors *request = &reader->request;
    int code = check_text(domain, "domain", error);

    if (code == 0 && domain.len == 0)
        code = rn_error_set(error, RATION_EINVAL, 0, "rate limit domain must not be empty");
    if (code == 0 && request->count == 0)
        code =
            rn_error_set(error, RATION_EINVAL, 0, "rate limit descriptor list must not be empty");
    for (size_t i = 0; i < request->count && code == 0; i++) {
        const struct ration_descriptor_ask *ask = &reader->asks[i];

        if (ask->count == 0)
            code = rn_error_set(error, RATION_EINVAL, 0, "a descriptor without entries");
        else if (ask->limit_given &&
                 (ask->unit == RATION_UNIT_UNKNOWN || ask->unit > RATION_UNIT_WEEK))
            code = rn_error_set(error, RATION_EINVAL, 0,
                                "a limit without a unit; give SECOND, MINUTE, HOUR, DAY, WEEK, "
                                "MONTH or YEAR");
    }
    request->domain = domain.data;
    request->domain_len = domain.len;
    request->asks = reader->asks;
    return code;
}

/* --- protobuf ------------------------------------------------------------------------ */

static struct rn_slice slice_of(ProtobufCBinaryData data)
{
    return (struct rn_slice){(const char *)data.data, data.len};
}

int rn_rls_read(struct rn_rls_reader *reader, struct rn_slice message, struct ration_error *error)
{
    ProtobufCAllocator memory = allocator(reader);
    const Rls__RateLimitRequest *from =
        rls__rate_limit_request__unpack(&memory, message.len, (const uint8_t *)message.data);
    int code = 0;

    reader->entry_count = 0;
    reader->request = (struct ration_descriptors){0};
    if (!from && reader->exhausted)
        return rn_error_set(error, RATION_EFULL, 0, "a message of too many parts");
    if (!from)
        return rn_error_set(error, RATION_EPARSE, 0, "not a RateLimitRequest");
    reader->request.hits = from->hits_addend;
    for (size_t i = 0; i < from->n_descriptors && code == 0; i++) {
        const Rls__RateLimitDescriptor *d = from->descriptors[i];
        struct ration_descriptor_ask *ask = &reader->asks[i];

        code = rn_rls_begin(reader, error);
        for (size_t k = 0; k < d->n_entries && code == 0; k++)
            code = rn_rls_add_entry(reader, slice_of(d->entries[k]->key),
                                    slice_of(d->entries[k]->value), error);
        if (code != 0)
            return code;
        ask->hits_given = d->hits_addend != NULL;
        ask->hits = d->hits_addend ? d->hits_addend->value : 0;
        ask->refund = d->is_negative_hits;
        ask->limit_given = d->limit != NULL;
        if (d->limit) {
            ask->requests_per_unit = d->limit->requests_per_unit;
            ask->unit = d->limit->unit <= RATION_UNIT_WEEK ? (enum ration_unit)d->limit->unit
                                                           : RATION_UNIT_UNKNOWN;
        }
    }
    return code == 0 ? rn_rls_end(reader, slice_of(from->domain), error) : code;
}

int rn_rls_read_health(struct rn_rls_reader *reader, struct rn_slice message)
{
    ProtobufCAllocator memory = allocator(reader);
    const Rls__HealthCheckRequest *from =
        rls__health_check_request__unpack(&memory, message.len, (const uint8_t *)message.data);

    if (!from)
        return RATION_EPARSE;
    reader->service = slice_of(from->service);
    return 0;
}
