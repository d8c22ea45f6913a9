/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /limits of the HTTP port, if `publish: public`, and GET /v1/limits of the admin port: the
 * limits as users of the API should read them. Written once for each version of the rules.
 */
#include <stdio.h>

#include "base/siphash.h"
#include "front/admin/admin_internal.h"
#include "front/http/static_documents.h"
#include "limiter/limiter.h"

/* A minute: rules change. */
#define CACHE_CONTROL "public, max-age=60"

/* Writes all formats again if the rules are others. False: out of memory. */
static bool refresh(struct rn_front *front)
{
    struct rn_published *p = &front->published;
    struct rn_pin pin = rn_pin_take_counted(&front->limiter->shelf);
    uint64_t version = pin.book ? pin.book->version : 0;
    bool good = true;

    if (p->version != version + 1) {
        for (size_t f = 0; f < RN_PUBLISH_FORMATS; f++) {
            struct rn_buf *text = &p->texts[f];

            rn_buf_clear(text);
            rn_publish_put(text, pin.book ? pin.book->ruleset : NULL, (enum rn_publish_format)f);
            good &= !text->failed;
            snprintf(
                p->tags[f], sizeof p->tags[f], "\"%016llx\"",
                (unsigned long long)rn_siphash(&(struct rn_hash_key){1, f}, text->data, text->len));
        }
        p->version = good ? version + 1 : 0;
    }
    rn_pin_drop(&pin);
    return good;
}

static void answer(struct rn_http_context *c, enum rn_publish_format format)
{
    const struct rn_published *p = &c->front->published;
    struct rn_slice known = rn_http_find(c->request, "if-none-match");
    bool fresh = known.data && rn_static_documents_has_tag(known, p->tags[format], true);

    rn_http_put_status(c->out, fresh ? 304 : 200);
    rn_http_put_header(c->out, "ETag", rn_slice_of(p->tags[format]));
    rn_http_put_header(c->out, "Cache-Control", RN_SLICE(CACHE_CONTROL));
    rn_http_put_header(c->out, "Vary", RN_SLICE("Accept"));
    rn_http_put_header(c->out, "X-Content-Type-Options", RN_SLICE("nosniff"));
    rn_http_put_header(c->out, "Content-Security-Policy",
                       RN_SLICE("default-src 'none'; style-src 'unsafe-inline'"));
    rn_http_put_body(c->out, c->keep_alive, c->head || fresh, rn_publish_types[format],
                     rn_buf_slice(&p->texts[format]));
}

void rn_front_http_limits(struct rn_http_context *c)
{
    enum rn_publish_format format = rn_publish_accepted(rn_http_find(c->request, "accept"));

    if (format == RN_PUBLISH_FORMATS) {
        rn_front_http_error(c, 406, "not_acceptable",
                            "the limits are there as text/html, text/markdown and "
                            "application/json; Accept names none of them");
        return;
    }
    pthread_mutex_lock(&c->front->published.lock);
    if (refresh(c->front))
        answer(c, format);
    else
        rn_front_http_error(c, 503, "memory", "out of memory");
    pthread_mutex_unlock(&c->front->published.lock);
}

void rn_front_http_public_limits(struct rn_http_context *c)
{
    if (c->front->publishes)
        rn_front_http_limits(c);
    else
        rn_front_http_error(c, 404, "not_found",
                            "the limits are not published; to publish them, set publish: public");
}
