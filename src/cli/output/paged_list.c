/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output/paged_list.h"

#include <inttypes.h>

/* Entries of a page. Each page costs the daemon a walk over all; it may end one earlier. */
#define PAGE_MAX 10000

/* Asks for the entries after id `after` (0: from the start), and adds them to the table or prints
 * them as JSON. False after an error message. */
static bool put_page(struct rn_daemon *d, const struct rn_paged_list *list, uint64_t after,
                     struct rn_columns *columns, bool *any)
{
    struct rn_buf target = {0}, json = {0};
    const struct rn_cli_json *entry = NULL;
    bool ok = false;

    rn_buf_putf(&target, "%s?limit=%d&after=%" PRIu64, list->path, PAGE_MAX, after);
    if (d->options->rule != NULL) {
        rn_buf_put_literal(&target, "&rule=");
        rn_cli_http_put_escaped(&target, rn_slice_of(d->options->rule));
    }
    rn_buf_put_char(&target, '\0');
    if (!target.failed)
        ok = rn_daemon_do(d, &(struct rn_daemon_request){.method = "GET", .target = target.data});
    if (ok && d->options->json && after == 0)
        rn_buf_putf(&json, "{\"%s\":[", list->name);
    for (entry = ok ? rn_cli_json_list(d->answer, list->name) : NULL; entry; entry = entry->next) {
        if (d->options->json) {
            rn_buf_put_literal(&json, "\n");
            rn_buf_put(&json, ",", *any);
            rn_cli_json_write(&json, entry);
        } else {
            list->put(columns, entry);
        }
        *any = true;
    }
    fwrite(json.data, 1, json.len, stdout);
    if (target.failed || columns->text.failed || json.failed) {
        rn_output_error("out of memory");
        ok = false;
    }
    rn_buf_done(&target);
    rn_buf_done(&json);
    return ok;
}

int rn_paged_list_print(struct rn_daemon *d, const struct rn_paged_list *list)
{
    struct rn_output out = rn_output_to(stdout, d->options);
    bool json = d->options->json, any = false, ok, more;
    struct rn_columns columns;
    uint64_t next = 0;

    rn_columns_init(&columns, list->titles, list->title_count);
    do {
        uint64_t after = next;

        ok = put_page(d, list, after, &columns, &any);
        more = ok && rn_cli_json_u64(d->answer, "next", &next) && next > after;
        if (more && !json)
            rn_columns_flush(&columns, &out);
    } while (more);
    if (ok && json)
        printf("]}\n");
    else if (ok && any)
        rn_columns_write(&columns, &out, 0);
    else if (ok)
        rn_output_put(&out, RN_PLAIN, "no %s\n", list->name);
    rn_columns_done(&columns);
    return ok ? RN_EXIT_OK : RN_EXIT_ERROR;
}
