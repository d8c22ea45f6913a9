/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes answers of Envoy's rate limit service: protobuf-c packs them from structs on the stack.
 */
#include <stdio.h>

#include "wire/rls_internal.h"
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

    if (o->decided_by < 0)
        return 0;
    const struct ration_descriptor_status *status = &o->statuses[o->decided_by];
    bool banned =
        !status->limited && !o->allowed && status->reset_ns > 0 && status->reset_ns != RATION_NEVER;
    uint64_t values[RN_RLS_HEADERS] = {status->requests_per_unit, status->remaining,
                                       (uint64_t)rn_rls_seconds(status->reset_ns)};
    size_t count = o->allowed ? RN_RLS_HEADERS - 1 : RN_RLS_HEADERS;

    values[3] = values[2] != 0 ? values[2] : 1;
    /* A ban has no limit to tell, only its end. */
    size_t first = status->limited ? 0 : banned ? RN_RLS_HEADERS - 1 : count;

    for (size_t i = first; i < count; i++) {
        headers[i - first].name = names[i];
        snprintf(headers[i - first].value, sizeof headers->value, "%llu",
                 (unsigned long long)values[i]);
    }
    return count - first;
}

/* The messages of one status. */
struct status_parts {
    Rls__DescriptorStatus status;
    Rls__RateLimit limit;
    Rls__Duration reset;
};

static void fill_status(struct status_parts *t, const struct ration_descriptor_status *from)
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

/* --- metadata ----------------------------------------------------------------------- */

static Rls__Struct *make_struct(struct rn_rls_reader *reader, const struct rn_rls_node *node);

static Rls__ListValue *make_list(struct rn_rls_reader *reader, const struct rn_rls_node *node);

/* NULL: no room. */
static Rls__Value *make_value(struct rn_rls_reader *reader, const struct rn_rls_node *node)
{
    Rls__Value *value = rn_rls_take(reader, sizeof *value);
    double number = 0;

    if (!value)
        return NULL;
    rls__value__init(value);
    switch (rn_rls_kind(node, &number)) {
    case RN_RLS_MAP:
        value->kind_case = RLS__VALUE__KIND_STRUCT_VALUE;
        value->struct_value = make_struct(reader, node);
        return value->struct_value ? value : NULL;
    case RN_RLS_LIST:
        value->kind_case = RLS__VALUE__KIND_LIST_VALUE;
        value->list_value = make_list(reader, node);
        return value->list_value ? value : NULL;
    case RN_RLS_NULL:
        value->kind_case = RLS__VALUE__KIND_NULL_VALUE;
        break;
    case RN_RLS_TRUE:
    case RN_RLS_FALSE:
        value->kind_case = RLS__VALUE__KIND_BOOL_VALUE;
        value->bool_value = node->leaf->value[0] == 't';
        break;
    case RN_RLS_NUMBER:
        value->kind_case = RLS__VALUE__KIND_NUMBER_VALUE;
        value->number_value = number;
        break;
    case RN_RLS_TEXT:
        value->kind_case = RLS__VALUE__KIND_STRING_VALUE;
        value->string_value =
            (ProtobufCBinaryData){node->leaf->value_len, (uint8_t *)(uintptr_t)node->leaf->value};
        break;
    }
    return value;
}

static Rls__ListValue *make_list(struct rn_rls_reader *reader, const struct rn_rls_node *node)
{
    Rls__ListValue *list = rn_rls_take(reader, sizeof *list);
    Rls__Value **values = rn_rls_take(reader, node->count * sizeof(Rls__Value *));

    if (!list || !values)
        return NULL;
    rls__list_value__init(list);
    list->values = values;
    for (const struct rn_rls_node *child = node->first; child; child = child->next)
        if (!(values[list->n_values++] = make_value(reader, child)))
            return NULL;
    return list;
}

static Rls__Struct *make_struct(struct rn_rls_reader *reader, const struct rn_rls_node *node)
{
    Rls__Struct *map = rn_rls_take(reader, sizeof *map);
    Rls__Field *fields = rn_rls_take(reader, node->count * sizeof *fields);
    Rls__Field **list = rn_rls_take(reader, node->count * sizeof(Rls__Field *));

    if (!map || !fields || !list)
        return NULL;
    rls__struct__init(map);
    map->fields = list;
    for (const struct rn_rls_node *child = node->first; child; child = child->next) {
        Rls__Field *field = list[map->n_fields] = &fields[map->n_fields];

        rls__field__init(field);
        field->key = (ProtobufCBinaryData){child->name.len, (uint8_t *)(uintptr_t)child->name.data};
        field->value = make_value(reader, child);
        map->n_fields++;
        if (!field->value)
            return NULL;
    }
    return map;
}

/* --- answers ------------------------------------------------------------------------ */

void rn_rls_write(struct rn_buf *out, struct rn_rls_reader *reader,
                  const struct ration_descriptors_outcome *o, const struct rn_rls_extra *extra)
{
    Rls__RateLimitResponse response = RLS__RATE_LIMIT_RESPONSE__INIT;
    const struct rn_rls_node *root = extra->metadata ? rn_rls_tree(reader) : NULL;
    struct status_parts parts[RATION_DESCRIPTORS_MAX];
    Rls__DescriptorStatus *statuses[RATION_DESCRIPTORS_MAX];
    struct rn_rls_header headers[RN_RLS_HEADERS];
    Rls__HeaderValue values[RN_RLS_HEADERS], *value_list[RN_RLS_HEADERS];

    for (size_t i = 0; i < o->count; i++) {
        fill_status(&parts[i], &o->statuses[i]);
        statuses[i] = &parts[i].status;
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
    if (extra->metadata)
        response.dynamic_metadata = root ? make_struct(reader, root) : NULL;
    put_message(out, &response.base);
}

void rn_rls_write_health(struct rn_buf *out, enum rn_health health)
{
    Rls__HealthCheckResponse response = RLS__HEALTH_CHECK_RESPONSE__INIT;

    response.status = health;
    put_message(out, &response.base);
}
