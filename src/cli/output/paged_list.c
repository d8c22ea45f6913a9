/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output/paged_list.h"

#include <inttypes.h>

/* Entries of a page. Each page costs the daemon a walk over all; it may end one earlier. */
#define PAGE_MAX 10000

struct print {
    const struct rn_paged_list *list;
    struct rn_output out;
    struct rn_columns columns;
    struct rn_buf json;
    bool any;
};

/* Asks for the entries after id `after`; 0: from the start. */
static bool ask(struct rn_daemon *d, const struct rn_paged_list *list, uint64_t after)
{
    const char *rule = d->options->rule;
    struct rn_buf target = {0};
    bool ok = false;

    rn_buf_putf(&target, "%s?limit=%d&after=%" PRIu64, list->path, PAGE_MAX, after);
    if (rule != NULL) {
        rn_buf_put_literal(&target, "&rule=");
        rn_cli_http_put_escaped(&target, rn_slice_of(rule));
    }
    rn_buf_put_char(&target, '\0');
    if (target.failed)
        rn_output_error("out of memory");
    else
        ok = rn_daemon_do(d, &(struct rn_daemon_request){.method = "GET", .target = target.data});
    rn_buf_done(&target);
    return ok;
}

/* Writes the entries so far, of a page that is not the last. */
static void flush(struct print *p, bool json)
{
    if (json)
        fwrite(p->json.data, 1, p->json.len, p->out.file);
    else
        rn_columns_flush(&p->columns, &p->out);
    rn_buf_clear(&p->json);
}

static bool print_all(struct rn_daemon *d, struct print *p)
{
    bool json = d->options->json;
    uint64_t next = 0, after;

    if (json)
        rn_buf_putf(&p->json, "{\"%s\":[", p->list->name);
    do {
        after = next;
        if (!ask(d, p->list, after))
            return false;
        const struct rn_cli_json *entry = rn_cli_json_list(d->answer, p->list->name);

        for (; entry != NULL; entry = entry->next, p->any = true) {
            if (json) {
                rn_buf_put_literal(&p->json, "\n");
                rn_buf_put(&p->json, ",", p->any);
                rn_cli_json_write(&p->json, entry);
            } else {
                p->list->put(&p->columns, entry);
            }
        }
        rn_cli_json_u64(d->answer, "next", &next);
        if (next > after)
            flush(p, json);
    } while (next > after);
    if (json) {
        rn_buf_put_literal(&p->json, "]}\n");
        flush(p, true);
    } else if (p->any) {
        rn_columns_write(&p->columns, &p->out, 0);
    } else {
        rn_output_put(&p->out, RN_PLAIN, "no %s\n", p->list->name);
    }
    return true;
}

int rn_paged_list_print(struct rn_daemon *d, const struct rn_paged_list *list)
{
    struct print p = {.list = list, .out = rn_output_to(stdout, d->options)};
    bool ok;

    rn_columns_init(&p.columns, list->titles, list->title_count);
    ok = print_all(d, &p);
    if (p.columns.text.failed || p.json.failed) {
        rn_output_error("out of memory");
        ok = false;
    }
    rn_columns_done(&p.columns);
    rn_buf_done(&p.json);
    return ok ? RN_EXIT_OK : RN_EXIT_ERROR;
}
