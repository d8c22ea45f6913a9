/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The author and the client of a change, for the log. More people read a log than may use the
 * admin port, and API keys are secrets: the log has just enough of a key to recognise it.
 */
#include "base/utf8.h"
#include "front/admin/admin_internal.h"

#define SHOWN_BYTES 4   /* of a value, at most */
#define MASKED_BYTES 12 /* a shorter value is not shown at all */

static int log_diagnostic(void *arg, const struct ration_diagnostic *d)
{
    (void)arg;
    rn_log(d->is_error ? RN_LOG_ERROR : RN_LOG_WARN, d->is_error ? "rules.error" : "rules.warning",
           RN_LOG_TEXT("file", rn_slice_of(d->file)), RN_LOG_NUMBER("line", d->line),
           RN_LOG_NUMBER("column", d->column), RN_LOG_TEXT("message", rn_slice_of(d->message)));
    return 0;
}

void rn_front_log_report(const struct ration_report *report)
{
    ration_report_each(report, log_diagnostic, NULL);
}

struct rn_author rn_admin_author(const struct rn_http_context *c)
{
    return (struct rn_author){.by = rn_slice_of(rn_conn_peer(c->conn)->text),
                              .token =
                                  c->token ? rn_slice_of(c->token->name) : (struct rn_slice){0}};
}

/* What a request is for, and its address, is no secret; the query string of a path may be. */
static size_t plain_bytes(struct rn_slice name, struct rn_slice value)
{
    const char *query = value.len != 0 ? memchr(value.data, '?', value.len) : NULL;

    if (rn_slice_is(name, "path"))
        return query ? (size_t)(query - value.data) : value.len;
    if (rn_slice_is(name, "ip") || rn_slice_is(name, "method") || rn_slice_is(name, "host"))
        return value.len;
    return 0;
}

void rn_admin_put_value(struct rn_buf *out, enum rn_log_keys keys, struct rn_slice name,
                        struct rn_slice value)
{
    size_t shown = keys == RN_KEYS_FULL ? value.len : 0;

    if (keys == RN_KEYS_MASKED && (shown = plain_bytes(name, value)) == 0) {
        shown = value.len < MASKED_BYTES ? 0 : SHOWN_BYTES;
        while (shown != 0 && !rn_utf8_is_start(value.data[shown])) /* whole characters */
            shown--;
    }
    rn_buf_put(out, value.data, shown);
    if (shown < value.len)
        rn_buf_put_literal(out, "...");
}

struct rn_slice rn_admin_client(struct rn_http_context *c)
{
    const struct rn_params *client = &c->ws->params;
    struct rn_buf *text = &c->ws->scratch;

    rn_buf_clear(text);
    for (uint32_t i = 0; i < client->attribute_count; i++) {
        const struct ration_attribute *a = &client->attributes[i];
        struct rn_slice name = {a->name, a->name_len};

        if (i != 0)
            rn_buf_put_char(text, ' ');
        rn_buf_put_slice(text, name);
        rn_buf_put_char(text, '=');
        rn_admin_put_value(text, c->front->log_keys, name,
                           (struct rn_slice){a->value, a->value_len});
    }
    return rn_buf_slice(text);
}
