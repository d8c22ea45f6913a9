/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which attributes the rules look at, found once: a request has many headers, and most
 * rules want none of them.
 */
#include "nginx/module.h"
#include "rules/ruleset.h"

static const struct rn_slice prefix = RN_SLICE_INIT(RN_NGX_HEADER_PREFIX);

/* The header that an attribute is read from; empty: none. */
static struct rn_slice header_of(const struct rn_attribute *attribute)
{
    struct rn_slice name = attribute->name;

    if (attribute->header.len != 0 || !rn_slice_starts_with(name, prefix))
        return attribute->header;
    return (struct rn_slice){name.data + prefix.len, name.len - prefix.len};
}

static ngx_int_t add_header(struct rn_ngx_wanted *wanted, struct rn_slice header, ngx_pool_t *pool)
{
    ngx_str_t *name = &wanted->headers[wanted->header_count++];

    name->len = prefix.len + header.len;
    name->data = ngx_pnalloc(pool, name->len);
    if (!name->data)
        return NGX_ERROR;
    memcpy(name->data, prefix.data, prefix.len);
    memcpy(name->data + prefix.len, header.data, header.len);
    return NGX_OK;
}

static ngx_int_t add_attribute(struct rn_ngx_wanted *wanted, const struct rn_attribute *attribute,
                               ngx_pool_t *pool)
{
    struct rn_slice header = header_of(attribute);

    wanted->ip |= rn_slice_is(attribute->name, "ip");
    wanted->method |= rn_slice_is(attribute->name, "method");
    wanted->path |= rn_slice_is(attribute->name, "path") || attribute->source == RN_SOURCE_PATH;
    wanted->host |= rn_slice_is(attribute->name, "host");
    wanted->scheme |= rn_slice_is(attribute->name, "scheme");
    wanted->any = wanted->ip || wanted->method || wanted->path || wanted->host || wanted->scheme;
    return header.len != 0 ? add_header(wanted, header, pool) : NGX_OK;
}

struct rn_ngx_wanted *rn_ngx_wanted_new(const struct rn_ruleset *ruleset, ngx_pool_t *pool)
{
    struct rn_ngx_wanted *wanted = ngx_pcalloc(pool, sizeof *wanted);

    if (!wanted)
        return NULL;
    wanted->headers = ngx_palloc(pool, (ruleset->attribute_count + 1) * sizeof *wanted->headers);
    if (!wanted->headers)
        return NULL;
    for (uint32_t i = 0; i < ruleset->attribute_count; i++)
        if (add_attribute(wanted, &ruleset->attributes[i], pool) != NGX_OK)
            return NULL;
    return wanted;
}
