/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serves the files of the dashboard. Browsers ask each time whether a file has changed, so that
 * a new version of rationd never meets an old page.
 */
#include "front/admin/dashboard.h"

#include <strings.h>

#include "front/admin/admin_internal.h"
#include "front/http/static_documents.h"

/* A page that somebody else's text gets into must not become a program: scripts come from files
 * only, and the page talks to nobody but its own origin. */
#define CONTENT_SECURITY_POLICY                                                                    \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "                    \
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"

static struct rn_slice trim(struct rn_slice text)
{
    while (text.len != 0 && (text.data[0] == ' ' || text.data[0] == '\t'))
        text.data++, text.len--;
    while (text.len != 0 && (text.data[text.len - 1] == ' ' || text.data[text.len - 1] == '\t'))
        text.len--;
    return text;
}

/* Takes the text before the first separator off `rest`. */
static struct rn_slice take_until(struct rn_slice *rest, char separator)
{
    const char *end = memchr(rest->data, separator, rest->len);
    struct rn_slice part = {rest->data, end ? (size_t)(end - rest->data) : rest->len};
    size_t step = end ? part.len + 1 : part.len;

    rest->data += step;
    rest->len -= step;
    return trim(part);
}

/* q=0, q=0.0 and so on: not acceptable. */
static bool is_refused(struct rn_slice parameters)
{
    while (parameters.len != 0) {
        struct rn_slice p = take_until(&parameters, ';');

        if (p.len < 3 || (p.data[0] | 0x20) != 'q' || p.data[1] != '=')
            continue;
        for (size_t i = 2; i < p.len; i++)
            if (p.data[i] != '0' && p.data[i] != '.')
                return false;
        return true;
    }
    return false;
}

/* Whether an Accept-Encoding (RFC 9110, 12.5.3) takes gzip. What it says of gzip itself counts
 * more than what it says of *. */
static bool takes_gzip(struct rn_slice accepted)
{
    bool any = false;

    while (accepted.len != 0) {
        struct rn_slice item = take_until(&accepted, ',');
        struct rn_slice coding = item.len != 0 ? take_until(&item, ';') : item;

        if ((coding.len == 4 && strncasecmp(coding.data, "gzip", 4) == 0) ||
            (coding.len == 6 && strncasecmp(coding.data, "x-gzip", 6) == 0))
            return !is_refused(item);
        if (rn_slice_is(coding, "*"))
            any = !is_refused(item);
    }
    return any;
}

static void answer_file(struct rn_http_context *c, struct rn_slice name)
{
    const struct rn_dashboard_file *file = rn_dashboard_files;
    const struct rn_dashboard_file *end = file + rn_dashboard_file_count;
    struct rn_slice known = rn_http_find(c->request, "if-none-match");

    while (file < end && !rn_slice_is(name, file->name))
        file++;
    if (file == end) {
        rn_front_http_error(c, 404, "not_found", "the dashboard has no such file");
        return;
    }
    bool zipped = takes_gzip(rn_http_find(c->request, "accept-encoding"));
    const struct rn_dashboard_bytes *bytes = zipped ? &file->zipped : &file->plain;
    bool fresh = known.data && rn_static_documents_has_tag(known, bytes->tag, true);

    rn_http_put_status(c->out, fresh ? 304 : 200);
    rn_http_put_header(c->out, "ETag", rn_slice_of(bytes->tag));
    rn_http_put_header(c->out, "Cache-Control", RN_SLICE("no-cache"));
    rn_http_put_header(c->out, "Vary", RN_SLICE("Accept-Encoding"));
    if (zipped)
        rn_http_put_header(c->out, "Content-Encoding", RN_SLICE("gzip"));
    rn_http_put_header(c->out, "Content-Security-Policy", RN_SLICE(CONTENT_SECURITY_POLICY));
    rn_http_put_header(c->out, "X-Content-Type-Options", RN_SLICE("nosniff"));
    rn_http_put_header(c->out, "Referrer-Policy", RN_SLICE("no-referrer"));
    rn_http_put_body(c->out, c->keep_alive, c->head || fresh, file->type, bytes->bytes);
}

void rn_admin_get_page(struct rn_http_context *c)
{
    answer_file(c, RN_SLICE("index.html"));
}

void rn_admin_get_page_file(struct rn_http_context *c)
{
    answer_file(c, (struct rn_slice){c->rest.data + 1, c->rest.len - 1}); /* behind the / */
}
