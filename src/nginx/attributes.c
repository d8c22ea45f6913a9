/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The request as rules see it:
 *
 *   NAME           by ration_attribute, unless empty: comes first, so that it counts
 *   ip             the address of the connection, or what realip made of it
 *   method         as sent
 *   path           what the client asked for, as it was sent, whatever it was rewritten to
 *   host, scheme   without port; http or https
 *   header.NAME    every header
 *
 * A request has many headers, and most rules need none: what no rule looks at is left
 * out, unless there are bans, which may look at anything.
 */
#include "nginx/module.h"
#include "rules/ruleset.h"

#define FIXED 5 /* ip, method, path, host, scheme */

struct listing {
    ngx_http_request_t *r;
    struct rn_ngx_worker *worker;
    const struct rn_ngx_needed *needed; /* NULL: everything */
    bool headers;                       /* some are needed */
    size_t count;
};

static void add(struct listing *list, struct rn_slice name, struct rn_slice value)
{
    if (value.len == 0)
        return;
    list->worker->attributes[list->count++] =
        (struct ration_attribute){name.data, name.len, value.data, value.len};
}

/* --- which of them the rules need ----------------------------------------------------------- */

struct rn_ngx_needed *rn_ngx_attributes_needed(const struct rn_ruleset *ruleset, ngx_pool_t *pool)
{
    const struct rn_slice prefix = RN_SLICE(RN_NGX_HEADER_PREFIX);
    struct rn_ngx_needed *needed = ngx_pcalloc(pool, sizeof *needed);

    if (!needed)
        return NULL;
    needed->headers = ngx_palloc(pool, (ruleset->attribute_count + 1) * sizeof *needed->headers);
    if (!needed->headers)
        return NULL;
    for (uint32_t i = 0; i < ruleset->attribute_count; i++) {
        const struct rn_attribute *attribute = &ruleset->attributes[i];
        struct rn_slice name = attribute->name, header = attribute->header;

        needed->ip |= rn_slice_is(name, "ip");
        needed->method |= rn_slice_is(name, "method");
        needed->path |= rn_slice_is(name, "path") || attribute->source == RN_SOURCE_PATH;
        needed->host |= rn_slice_is(name, "host");
        needed->scheme |= rn_slice_is(name, "scheme");
        if (header.len == 0 && rn_slice_starts_with(name, prefix))
            header = (struct rn_slice){name.data + prefix.len, name.len - prefix.len};
        if (header.len == 0)
            continue;
        ngx_str_t *to = &needed->headers[needed->header_count++];

        to->len = prefix.len + header.len;
        to->data = ngx_pnalloc(pool, to->len);
        if (!to->data)
            return NULL;
        memcpy(to->data, prefix.data, prefix.len);
        memcpy(to->data + prefix.len, header.data, header.len);
    }
    needed->any = needed->ip || needed->method || needed->path || needed->host || needed->scheme;
    return needed;
}

/* --- room --------------------------------------------------------------------------------- */

/* How many headers there are, and the bytes of all names that must be made. */
static RN_ASIDE size_t measure_headers(const struct listing *list, size_t *count)
{
    size_t bytes = 0;

    for (ngx_list_part_t *part = &list->r->headers_in.headers.part; part; part = part->next) {
        ngx_table_elt_t *headers = part->elts;

        *count += part->nelts;
        for (ngx_uint_t i = 0; !list->needed && i < part->nelts; i++)
            bytes += headers[i].key.len + sizeof RN_NGX_HEADER_PREFIX - 1;
    }
    return bytes;
}

/* No header is left out because there is no room: which ones a client sends is up to it. */
static ngx_int_t make_room(const struct listing *list, size_t count)
{
    struct rn_ngx_worker *worker = list->worker;
    struct ration_attribute *more;

    if (list->headers) {
        size_t name_bytes = measure_headers(list, &count);

        rn_buf_clear(&worker->names);
        if (!rn_buf_reserve(&worker->names, name_bytes + 1))
            return NGX_ERROR;
    }
    if (rn_likely(count <= worker->attribute_room))
        return NGX_OK;
    more = realloc(worker->attributes, 2 * count * sizeof *worker->attributes);
    if (!more)
        return NGX_ERROR;
    worker->attributes = more;
    worker->attribute_room = 2 * count;
    return NGX_OK;
}

/* --- one by one ------------------------------------------------------------------------------ */

/* Attributes of ration_attribute. A value that is one variable need not be copied. */
static ngx_int_t add_given(struct listing *list, const ngx_array_t *given)
{
    struct rn_ngx_attribute *attributes = given->elts;

    for (ngx_uint_t i = 0; i < given->nelts; i++) {
        ngx_int_t index = attributes[i].variable;
        ngx_str_t value = {0};

        if (index == NGX_ERROR) {
            if (ngx_http_complex_value(list->r, &attributes[i].value, &value) != NGX_OK)
                return NGX_ERROR;
        } else {
            const ngx_http_variable_value_t *v =
                ngx_http_get_flushed_variable(list->r, (ngx_uint_t)index);

            if (v && !v->not_found)
                value = (ngx_str_t){v->len, v->data};
        }
        add(list, rn_ngx_slice(attributes[i].name), rn_ngx_slice(value));
    }
    return NGX_OK;
}

static void add_header(struct listing *list, const ngx_table_elt_t *header)
{
    struct rn_buf *names = &list->worker->names;
    size_t prefix = sizeof RN_NGX_HEADER_PREFIX - 1, len = header->key.len;

    for (size_t i = 0; list->needed && i < list->needed->header_count; i++) {
        ngx_str_t name = list->needed->headers[i];

        if (name.len == prefix + len && memcmp(name.data + prefix, header->lowcase_key, len) == 0) {
            add(list, rn_ngx_slice(name), rn_ngx_slice(header->value));
            return;
        }
    }
    if (list->needed)
        return;
    struct rn_slice name = {names->data + names->len, prefix + len};

    rn_buf_put_literal(names, RN_NGX_HEADER_PREFIX);
    rn_buf_put(names, header->lowcase_key, len);
    add(list, name, rn_ngx_slice(header->value));
}

static RN_ASIDE void add_headers(struct listing *list)
{
    for (ngx_list_part_t *part = &list->r->headers_in.headers.part; part; part = part->next) {
        ngx_table_elt_t *headers = part->elts;

        for (ngx_uint_t i = 0; i < part->nelts; i++)
            add_header(list, &headers[i]);
    }
}

/* The path is as the client sent it, whatever it was rewritten to: rules decode it
 * themselves, and what nginx has decoded does not show what was encoded. */
static RN_ASIDE void add_fixed(struct listing *list)
{
    const struct rn_ngx_needed *needed = list->needed;
    ngx_http_request_t *r = list->r;
    struct rn_slice ip = rn_ngx_slice(r->connection->addr_text), scheme = RN_SLICE("http");

#if (NGX_HAVE_UNIX_DOMAIN)
    if (r->connection->sockaddr->sa_family == AF_UNIX) /* from this machine */
        ip = RN_SLICE("127.0.0.1");
#endif
#if (NGX_HTTP_SSL)
    if (r->connection->ssl)
        scheme = RN_SLICE("https");
#endif
    if (!needed || needed->ip)
        add(list, RN_SLICE("ip"), ip);
    if (!needed || needed->method)
        add(list, RN_SLICE("method"), rn_ngx_slice(r->method_name));
    if (!needed || needed->path)
        add(list, RN_SLICE("path"),
            rn_ngx_slice(r->unparsed_uri.len != 0 ? r->unparsed_uri : r->uri));
    if (!needed || needed->host)
        add(list, RN_SLICE("host"), rn_ngx_slice(r->headers_in.server));
    if (!needed || needed->scheme)
        add(list, RN_SLICE("scheme"), scheme);
}

RN_HOT ngx_int_t rn_ngx_attributes_read(ngx_http_request_t *r, struct rn_ngx_worker *worker,
                                        bool whole, struct ration_request *request)
{
    const struct rn_ngx_location *location = rn_ngx_location_of(r);
    const ngx_array_t *given = location->attributes;
    struct listing list = {
        .r = r, .worker = worker, .needed = whole || worker->banning ? NULL : worker->needed};

    list.headers = !list.needed || list.needed->header_count != 0;
    if (make_room(&list, FIXED + (given ? given->nelts : 0)) != NGX_OK)
        return NGX_ERROR;
    if (given && add_given(&list, given) != NGX_OK)
        return NGX_ERROR;
    if (!list.needed || list.needed->any)
        add_fixed(&list);
    if (list.headers)
        add_headers(&list);
    *request = (struct ration_request){.attributes = worker->attributes,
                                       .count = list.count,
                                       .shadow = location->mode == RN_NGX_SHADOW};
    return NGX_OK;
}
