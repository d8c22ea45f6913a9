/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resolves the attributes of a request, by number: first those it gives, then those
 * computed from them. Rules see nothing else of a request.
 */
#include "base/hints.h"
#include "rules/match/forwarded.h"
#include "rules/match/index_internal.h"
#include "rules/match/match.h"
#include "rules/match/pattern.h"

#define HEADER "header."

/* The values that others are computed from. */
struct origin {
    const struct ration_request *request;
    struct rn_slice peer, path, host; /* data NULL: not given */
};

/* Letter case, a port and a dot at the end make no difference between host names, so that no
 * spelling evades a rule. A text that is too long for a host name is not changed. */
static struct rn_slice spell_host(struct rn_slice host, char scratch[256])
{
    const char *colon = memrchr(host.data, ':', host.len);
    const char *bracket = memrchr(host.data, ']', host.len);
    size_t len = colon && (!bracket || bracket < colon) ? (size_t)(colon - host.data) : host.len;

    if (len > 0 && host.data[len - 1] == '.')
        len--;
    if (len == 0 || len > 255)
        return host;
    for (size_t i = 0; i < len; i++) {
        char c = host.data[i];

        scratch[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    return (struct rn_slice){scratch, len};
}

/* Rules have methods in capitals. Servers that fold the case of a method must not let `post`
 * past a rule for POST. */
static struct rn_slice spell_method(struct rn_slice method, char scratch[RN_METHOD_MAX])
{
    bool small = false;

    for (size_t i = 0; i < method.len; i++)
        small |= method.data[i] >= 'a' && method.data[i] <= 'z';
    if (rn_likely(!small) || method.len > RN_METHOD_MAX)
        return method;
    for (size_t i = 0; i < method.len; i++) {
        char c = method.data[i];

        scratch[i] = c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
    }
    return (struct rn_slice){scratch, method.len};
}

static inline void forget_path(struct rn_values *values)
{
    values->paths.count = 1;
    values->paths.unreadable = false;
    values->paths.text[0] = (struct rn_slice){NULL, 0};
}

/* An empty path is as good as none. */
static inline struct rn_slice read_path(const struct rn_ruleset *ruleset, struct rn_slice target,
                                        struct rn_values *values)
{
    struct rn_slice path = rn_path_cut_query(target);

    if (rn_likely(rn_path_is_plain(path, &ruleset->paths)) || target.len == 0)
        return values->paths.text[0] = path;
    rn_path_read_all(target, &ruleset->paths, &values->paths);
    return values->paths.text[0];
}

/* Stores the attributes that the request has, as rules see them, and the first of each origin. */
static void take_given(const struct rn_ruleset *ruleset, struct origin *origin,
                       struct rn_values *values)
{
    const struct rn_match_index *index = ruleset->index;
    const struct ration_request *request = origin->request;

    for (size_t i = 0; i < request->count; i++) {
        const struct ration_attribute *given = &request->attributes[i];
        struct rn_slice value = {given->value, given->value_len};
        uint16_t name = rn_index_name(index, (struct rn_slice){given->name, given->name_len});

        if (name == UINT16_MAX || !value.data)
            continue;
        if (name == RN_NAME_PATH && !origin->path.data)
            origin->path = value = read_path(ruleset, value, values);
        else if (name == RN_NAME_IP && !origin->peer.data)
            origin->peer = value;
        else if (name == RN_NAME_HOST && value.len > 0 && !origin->host.data)
            origin->host = value = spell_host(value, values->host);
        else if (name == RN_NAME_METHOD)
            value = spell_method(value, values->method);
        for (uint16_t a = index->names[name].attribute; a != RN_NO_ATTRIBUTE; a = index->next[a])
            if (!values->value[a].data)
                values->value[a] = value;
    }
}

/* IPv4 without a port has one spelling, which is used as it stands. */
static void canonicalise(struct rn_slice *value, struct rn_ip *address, char scratch[48])
{
    if (rn_ip_parse_host(value->data, value->len, address, NULL) != 0)
        return;
    if (address->bits == 32 && value->len <= 15 && value->data[0] >= '0' &&
        value->data[value->len - 1] >= '0' && !memchr(value->data, ':', value->len))
        return;
    *value = (struct rn_slice){scratch, rn_ip_write(address, scratch)};
}

/* Follows a header such as X-Forwarded-For from the peer to the client, as far as proxies are
 * trusted. A header that came several times is one list, whose last element is read first. */
static void derive_client(const struct rn_ruleset *ruleset, uint16_t number,
                          const struct origin *origin, struct rn_values *values)
{
    const struct ration_request *request = origin->request;
    const struct rn_attribute *attribute = &ruleset->attributes[number];
    struct rn_slice *value = &values->value[number], header = attribute->header;
    struct rn_ip *address = &values->address[number];
    size_t prefix = sizeof HEADER - 1;

    *value = origin->peer;
    if (!value->data)
        return;
    canonicalise(value, address, values->scratch[number]);
    if (address->bits == 0 || !ruleset->trusted_proxies)
        return;
    struct rn_forwarded walk = {ruleset->trusted_proxies, attribute->forwarded_rfc7239, *address,
                                0};
    bool on = rn_cidr_set_contains(walk.trusted, address);

    for (size_t i = request->count; on && i-- > 0;) {
        const struct ration_attribute *given = &request->attributes[i];

        if (given->name_len == prefix + header.len && given->value &&
            memcmp(given->name, HEADER, prefix) == 0 &&
            memcmp(given->name + prefix, header.data, header.len) == 0)
            on = rn_forwarded_walk(&walk, (struct rn_slice){given->value, given->value_len});
    }
    if (rn_ip_equal(&walk.client, address))
        return;
    *address = walk.client;
    *value =
        (struct rn_slice){values->scratch[number], rn_ip_write(address, values->scratch[number])};
}

static void derive(const struct rn_ruleset *ruleset, uint16_t number, const struct origin *origin,
                   struct rn_values *values)
{
    const struct rn_attribute *attribute = &ruleset->attributes[number];
    struct rn_slice *value = &values->value[number], path = origin->path;

    values->address[number].bits = 0;
    if (attribute->source >= RN_SOURCE_FORWARDED) {
        values->pending[number] = attribute->source == RN_SOURCE_GEO;
        if (attribute->source == RN_SOURCE_FORWARDED)
            derive_client(ruleset, number, origin, values);
        return;
    }
    if (attribute->source == RN_SOURCE_PATH) {
        *value = (struct rn_slice){NULL, 0};
        if (rn_unlikely(values->paths.unreadable)) /* it may mean any segment */
            *value = path;
        else if (path.data && rn_pattern_match_path(attribute->pattern, path))
            *value = rn_pattern_segment(path, attribute->segment);
    }
    if (attribute->is_ip && value->data)
        canonicalise(value, &values->address[number], values->scratch[number]);
    if (attribute->is_number)
        values->has_number[number] =
            value->data && rn_decimal_parse(*value, &values->number[number]);
}

RN_HOT void rn_values_resolve(const struct rn_ruleset *ruleset,
                              const struct ration_request *request, struct rn_values *values)
{
    const struct rn_match_index *index = ruleset->index;
    struct origin origin = {.request = request};

    memset(values->value, 0, ruleset->attribute_count * sizeof *values->value);
    forget_path(values);
    take_given(ruleset, &origin, values);
    if (rn_unlikely(index->path_header != RN_NO_ATTRIBUTE)) {
        struct rn_slice *value = &values->value[index->path_header];

        forget_path(values);
        if (value->data)
            *value = read_path(ruleset, *value, values);
        origin.path = *value;
    }
    for (uint32_t i = 0; i < index->derived_count; i++)
        derive(ruleset, index->derived[i], &origin, values);
}

void rn_values_read_as(const struct rn_ruleset *ruleset, struct rn_values *values, uint32_t n)
{
    const struct rn_match_index *index = ruleset->index;
    const struct origin origin = {.path = values->paths.text[n]};
    uint16_t a = index->path_header;

    if (a == RN_NO_ATTRIBUTE)
        a = index->names[RN_NAME_PATH].attribute;
    if (a != RN_NO_ATTRIBUTE)
        values->value[a] = origin.path;
    for (uint32_t i = 0; i < index->derived_count; i++)
        if (ruleset->attributes[index->derived[i]].source == RN_SOURCE_PATH)
            derive(ruleset, index->derived[i], &origin, values);
    for (uint32_t i = 0; i < index->derived_count; i++) {
        const struct rn_attribute *attribute = &ruleset->attributes[index->derived[i]];

        if (attribute->source != RN_SOURCE_GEO ||
            ruleset->attributes[attribute->of].source != RN_SOURCE_PATH)
            continue;
        values->value[index->derived[i]] = (struct rn_slice){NULL, 0};
        values->pending[index->derived[i]] = true;
    }
}

RN_ASIDE struct rn_slice rn_values_find(const struct rn_ruleset *ruleset, struct rn_values *values,
                                        uint16_t number)
{
    const struct rn_attribute *attribute = &ruleset->attributes[number];
    struct rn_slice address = values->value[attribute->of];
    struct rn_ip ip;

    if (attribute->source != RN_SOURCE_GEO || !values->pending[number])
        return values->value[number];
    values->pending[number] = false;
    if (ruleset->attributes[attribute->of].is_ip)
        ip = values->address[attribute->of];
    else if (!address.data || rn_ip_parse_host(address.data, address.len, &ip, NULL) != 0)
        return values->value[number];
    if (address.data && ip.bits != 0)
        values->value[number] = rn_geo_table_find(
            __atomic_load_n(&attribute->geo->table, __ATOMIC_ACQUIRE), &ip, attribute->field);
    if (attribute->is_number)
        values->has_number[number] =
            values->value[number].data &&
            rn_decimal_parse(values->value[number], &values->number[number]);
    return values->value[number];
}

void rn_values_find_all(const struct rn_ruleset *ruleset, struct rn_values *values)
{
    for (uint32_t i = 0; ruleset->databases && i < ruleset->attribute_count; i++)
        rn_values_find(ruleset, values, (uint16_t)i);
}
