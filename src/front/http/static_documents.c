/* SPDX-License-Identifier: Apache-2.0 */
#include "front/http/static_documents.h"

/* An hour: another version of rationd may have another document. */
#define CACHE_CONTROL "public, max-age=3600"

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

bool rn_static_documents_has_tag(struct rn_slice list, const char *tag, bool weak)
{
    while (list.len != 0) {
        const char *comma = memchr(list.data, ',', list.len);
        struct rn_slice word = {list.data, comma ? (size_t)(comma - list.data) : list.len};
        size_t step = comma ? word.len + 1 : word.len;

        while (word.len != 0 && is_blank(word.data[0]))
            word.data++, word.len--;
        while (word.len != 0 && is_blank(word.data[word.len - 1]))
            word.len--;
        if (weak && rn_slice_starts_with(word, RN_SLICE("W/")))
            word.data += 2, word.len -= 2;
        if (rn_slice_is(word, "*") || rn_slice_is(word, tag))
            return true;
        list.data += step;
        list.len -= step;
    }
    return false;
}

void rn_static_documents_answer(struct rn_http_context *c, enum rn_static_document_name name)
{
    const struct rn_static_document *document = &rn_static_documents[name];
    struct rn_slice known = rn_http_find(c->request, "if-none-match");
    bool fresh = known.data && rn_static_documents_has_tag(known, document->tag, true);

    rn_http_put_status(c->out, fresh ? 304 : 200);
    rn_http_put_header(c->out, "ETag", rn_slice_of(document->tag));
    rn_http_put_header(c->out, "Cache-Control", RN_SLICE(CACHE_CONTROL));
    /* A 304 has the length that a 200 would have, and no body, as for HEAD (RFC 9110, 8.6). */
    rn_http_put_body(c->out, c->keep_alive, c->head || fresh, "application/json", document->text);
}
