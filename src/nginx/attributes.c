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
 * What no rule looks at is left out (wanted.c), unless a ban may.
 */
#include "nginx/module.h"

#define FIXED 5 /* ip, method, path, host, scheme */

struct listing {
    ngx_http_request_t *r;
    struct rn_ngx_worker *worker;
    const struct rn_ngx_wanted *wanted; /* NULL: everything */
    bool headers;                       /* some are wanted */
    size_t count;
};

static void add(struct listing *list, struct rn_slice name, struct rn_slice value)
{
    if (value.len == 0)
        return;
    list->worker->attributes[list->count++] =
        (struct ration_attribute){name.data, name.len, value.data, value.len};
}

/* --- room --------------------------------------------------------------------------------- */

/* How many headers there are, and the bytes of all names that are to be made. */
static RN_ASIDE size_t measure_headers(const struct listing *list, size_t *count)
{
    size_t bytes = 0;

    for (ngx_list_part_t *part = &list->r->headers_in.headers.part; part; part = part->next) {
        ngx_table_elt_t *headers = part->elts;

        *count += part->nelts;
        for (ngx_uint_t i = 0; !list->wanted && i < part->nelts; i++)
            bytes += headers[i].key.len + sizeof RN_NGX_HEADER_PREFIX - 1;
    }
    return bytes;
}

static RN_ASIDE ngx_int_t make_more_room(struct rn_ngx_worker *worker, size_t attributes)
{
    struct ration_attribute *more =
        realloc(worker->attributes, 2 * attributes * sizeof *worker->attributes);

    if (!more)
        return NGX_ERROR;
    worker->attributes = more;
    worker->attribute_room = 2 * attributes;
    return NGX_OK;
}

/* No header is left out for want of room: which ones a client sends is up to it. */
static ngx_int_t make_room(const struct listing *list, size_t count)
{
    struct rn_ngx_worker *worker = list->worker;

    if (list->headers) {
        size_t name_bytes = measure_headers(list, &count);

        rn_buf_clear(&worker->names);
        if (!rn_buf_reserve(&worker->names, name_bytes + 1))
            return NGX_ERROR;
    }
    return rn_likely(count <= worker->attribute_room) ? NGX_OK : make_more_room(worker, count);
}

/* --- one by one ------------------------------------------------------------------------------ */

/* A variable need not be copied. */
static ngx_int_t read_given(ngx_http_request_t *r, struct rn_ngx_attribute *attribute,
                            ngx_str_t *value)
{
    const ngx_http_variable_value_t *variable;

    if (attribute->variable == NGX_ERROR)
        return ngx_http_complex_value(r, &attribute->value, value);
    variable = ngx_http_get_flushed_variable(r, (ngx_uint_t)attribute->variable);
    if (variable && !variable->not_found)
        *value = (ngx_str_t){variable->len, variable->data};
    else
        *value = (ngx_str_t){0};
    return NGX_OK;
}

static ngx_int_t add_given(struct listing *list, const ngx_array_t *given)
{
    struct rn_ngx_attribute *attributes = given->elts;

    for (ngx_uint_t i = 0; i < given->nelts; i++) {
        ngx_str_t value;

        if (read_given(list->r, &attributes[i], &value) != NGX_OK)
            return NGX_ERROR;
        add(list, rn_ngx_slice(attributes[i].name), rn_ngx_slice(value));
    }
    return NGX_OK;
}

static struct rn_slice address_of(ngx_http_request_t *r)
{
#if (NGX_HAVE_UNIX_DOMAIN)
    if (r->connection->sockaddr->sa_family == AF_UNIX) /* from this machine */
        return RN_SLICE("127.0.0.1");
#endif
    return rn_ngx_slice(r->connection->addr_text);
}

/* As the client sent it, whatever it was rewritten to: rules read it themselves, and
 * what nginx has decoded cannot be told from what was never encoded. */
static struct rn_slice path_of(ngx_http_request_t *r)
{
    return rn_ngx_slice(r->unparsed_uri.len != 0 ? r->unparsed_uri : r->uri);
}

static struct rn_slice scheme_of(ngx_http_request_t *r)
{
#if (NGX_HTTP_SSL)
    if (r->connection->ssl)
        return RN_SLICE("https");
#endif
    (void)r;
    return RN_SLICE("http");
}

static void add_header(struct listing *list, const ngx_table_elt_t *header)
{
    struct rn_buf *names = &list->worker->names;
    char *name = names->data + names->len;
    size_t len = header->key.len + sizeof RN_NGX_HEADER_PREFIX - 1;

    rn_buf_put_literal(names, RN_NGX_HEADER_PREFIX);
    rn_buf_put(names, header->lowcase_key, header->key.len);
    add(list, (struct rn_slice){name, len}, rn_ngx_slice(header->value));
}

static void add_if_wanted(struct listing *list, const ngx_table_elt_t *header)
{
    size_t prefix = sizeof RN_NGX_HEADER_PREFIX - 1, len = header->key.len;

    for (size_t i = 0; i < list->wanted->header_count; i++) {
        ngx_str_t name = list->wanted->headers[i];

        if (name.len != prefix + len || memcmp(name.data + prefix, header->lowcase_key, len) != 0)
            continue;
        add(list, rn_ngx_slice(name), rn_ngx_slice(header->value));
        return;
    }
}

static RN_ASIDE void add_headers(struct listing *list)
{
    for (ngx_list_part_t *part = &list->r->headers_in.headers.part; part; part = part->next) {
        ngx_table_elt_t *headers = part->elts;

        for (ngx_uint_t i = 0; i < part->nelts; i++) {
            if (list->wanted)
                add_if_wanted(list, &headers[i]);
            else
                add_header(list, &headers[i]);
        }
    }
}

static RN_ASIDE void add_fixed(struct listing *list)
{
    const struct rn_ngx_wanted *wanted = list->wanted;
    ngx_http_request_t *r = list->r;

    if (!wanted || wanted->ip)
        add(list, RN_SLICE("ip"), address_of(r));
    if (!wanted || wanted->method)
        add(list, RN_SLICE("method"), rn_ngx_slice(r->method_name));
    if (!wanted || wanted->path)
        add(list, RN_SLICE("path"), path_of(r));
    if (!wanted || wanted->host)
        add(list, RN_SLICE("host"), rn_ngx_slice(r->headers_in.server));
    if (!wanted || wanted->scheme)
        add(list, RN_SLICE("scheme"), scheme_of(r));
}

RN_HOT ngx_int_t rn_ngx_attributes_read(ngx_http_request_t *r, struct rn_ngx_worker *worker,
                                        bool whole, struct ration_request *request)
{
    const struct rn_ngx_location *location = rn_ngx_location_of(r);
    const ngx_array_t *given = location->attributes;
    struct listing list = {
        .r = r, .worker = worker, .wanted = whole || worker->banning ? NULL : worker->wanted};

    list.headers = !list.wanted || list.wanted->header_count != 0;
    if (make_room(&list, FIXED + (given ? given->nelts : 0)) != NGX_OK)
        return NGX_ERROR;
    if (given && add_given(&list, given) != NGX_OK)
        return NGX_ERROR;
    if (!list.wanted || list.wanted->any)
        add_fixed(&list);
    if (list.headers)
        add_headers(&list);
    *request = (struct ration_request){.attributes = worker->attributes,
                                       .count = list.count,
                                       .shadow = location->mode == RN_NGX_SHADOW};
    return NGX_OK;
}
