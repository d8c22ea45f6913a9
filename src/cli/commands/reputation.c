/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration reputation`: clients that rules with `escalate` have banned or count refusals of, and
 * those that have earned more under rules with `earn`; and lifting bans.
 */
#include <inttypes.h>

#include "cli/client/daemon.h"
#include "cli/output/columns.h"

#define PAGE_MAX 10000 /* entries of a page */

/* --- list -------------------------------------------------------------------------- */

/* A cell that is empty for 0. */
static void put_number(struct rn_columns *columns, uint64_t number, const char *unit)
{
    if (number != 0)
        rn_columns_put(columns, "%" PRIu64 "%s", number, unit);
    else
        rn_columns_put(columns, "%s", "");
}

static void put_client(struct rn_columns *columns, const struct rn_cli_json *v)
{
    struct rn_slice key = rn_cli_json_text(v, "key");
    uint64_t level = 0, refusals = 0;
    int percent = rn_cli_json_percent(v, "earned");
    char text[RN_TIME_TEXT];

    if (rn_cli_json_is_true(v, "banned"))
        rn_columns_mark_bad(columns);
    rn_cli_json_u64(v, "level", &level);
    rn_cli_json_u64(v, "refusals", &refusals);
    rn_columns_text(columns, rn_cli_json_text(v, "rule"));
    rn_columns_text(columns, key.data != NULL ? key : RN_SLICE("(unknown)"));
    rn_columns_text(columns, rn_cli_json_text(v, "hash"));
    rn_columns_put(columns, "%s",
                   rn_cli_json_is_true(v, "banned")
                       ? rn_output_time(rn_cli_json_seconds(v, "ends_after"), text)
                       : "");
    put_number(columns, level, "");
    put_number(columns, refusals, "");
    put_number(columns, percent > 100 ? (uint64_t)percent : 0, "%");
}

/* Asks for the entries from `after` on, and adds them to the table or prints them as JSON. False
 * after an error message. */
static bool put_page(struct rn_daemon *d, uint64_t after, struct rn_columns *columns, bool *any)
{
    const struct rn_options *o = d->options;
    struct rn_buf target = {0}, json = {0};
    bool ok = false;

    rn_buf_putf(&target, "/v1/reputation?limit=%d&after=%" PRIu64 "%s", PAGE_MAX, after,
                o->banned ? "&banned=true" : "");
    if (o->rule != NULL) {
        rn_buf_put_literal(&target, "&rule=");
        rn_cli_http_put_escaped(&target, rn_slice_of(o->rule));
    }
    rn_buf_put_char(&target, '\0');
    if (!target.failed)
        ok = rn_daemon_do(d, &(struct rn_daemon_request){.method = "GET", .target = target.data});
    if (ok && o->json && after == 0)
        rn_buf_put_literal(&json, "{\"clients\":[");
    for (const struct rn_cli_json *v = ok ? rn_cli_json_list(d->answer, "clients") : NULL; v;
         v = v->next) {
        if (o->json) {
            rn_buf_put_literal(&json, "\n");
            rn_buf_put(&json, ",", *any);
            rn_cli_json_write(&json, v);
        } else {
            put_client(columns, v);
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

int rn_command_reputation_list(struct rn_daemon *d)
{
    static const char *const titles[] = {"rule",   "client",    "hash",   "banned for",
                                         ">level", ">refusals", ">earned"};
    struct rn_output out = rn_output_to(stdout, d->options);
    bool json = d->options->json, any = false, ok, more;
    struct rn_columns columns;
    uint64_t next = 0;

    rn_columns_init(&columns, titles, 7);
    do {
        uint64_t after = next;

        ok = put_page(d, after, &columns, &any);
        more = ok && rn_cli_json_u64(d->answer, "next", &next) && next > after;
        if (more && !json)
            rn_columns_flush(&columns, &out);
    } while (more);
    if (ok && json)
        printf("]}\n");
    else if (ok && any)
        rn_columns_write(&columns, &out, 0);
    else if (ok)
        rn_output_put(&out, RN_PLAIN,
                      d->options->banned ? "no rule bans a client\n"
                                         : "no rule keeps anything of a client\n");
    rn_columns_done(&columns);
    return ok ? RN_EXIT_OK : RN_EXIT_ERROR;
}

/* --- lift -------------------------------------------------------------------------- */

int rn_command_reputation_lift(struct rn_daemon *d)
{
    const struct rn_options *o = d->options;
    struct rn_output out = rn_output_to(stdout, o);
    uint64_t count = 0;

    if ((o->hash == NULL) == (o->attribute_count == 0)) {
        rn_output_error("which client? write for example ration reputation lift %s, or --rule NAME "
                        "--hash HASH as ration reputation list shows them%s",
                        o->command->example, o->hash != NULL ? "; not both" : "");
        return RN_EXIT_ERROR;
    }
    rn_buf_put_char(&d->body, '{');
    if (o->hash == NULL) {
        rn_daemon_put_attributes(d);
    } else {
        rn_buf_put_literal(&d->body, "\"hash\":");
        rn_json_put_string(&d->body, rn_slice_of(o->hash));
    }
    if (o->rule != NULL) {
        rn_buf_put_literal(&d->body, ",\"rule\":");
        rn_json_put_string(&d->body, rn_slice_of(o->rule));
    }
    rn_buf_put_char(&d->body, '}');
    if (!rn_daemon_do(d,
                      &(struct rn_daemon_request){.method = "DELETE", .target = "/v1/reputation"}))
        return RN_EXIT_ERROR;
    rn_cli_json_u64(d->answer, "lifted", &count);
    if (o->json)
        rn_daemon_print(d);
    else if (count == 0)
        rn_output_put(&out, RN_PLAIN, "no rule has banned it or counts its refusals\n");
    else
        rn_output_put(&out, RN_PLAIN, "forgotten under %" PRIu64 " rule%s\n", count,
                      count == 1 ? "" : "s");
    return count > 0 ? RN_EXIT_OK : RN_EXIT_REFUSED;
}
