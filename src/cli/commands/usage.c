/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration usage`: what clients have used, as a table, CSV or JSON, from a daemon or its state file;
 * and `ration usage correct`. Rows are printed page by page, so memory does not grow with them.
 */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "cli/client/daemon.h"
#include "cli/output/columns.h"
#include "limiter/usage/usage_file.h"
#include "rules/report/report.h"
#include "wire/export.h"

#define PAGE_MAX 10000 /* rows that are asked for at a time; the daemon may send fewer */

/* --- printing -------------------------------------------------------------------------------- */

/* Where rows go. */
struct printer {
    const struct rn_options *options;
    struct rn_output out;
    struct rn_columns columns;
    struct rn_buf text;    /* rows as CSV or JSON that are not printed yet */
    struct rn_buf missing; /* nodes whose usage is not complete, as JSON; empty: one node only */
    uint64_t rows;
    bool flushed;
};

static void begin(struct printer *p, const struct rn_options *options)
{
    static const char *const titles[] = {"rule",     "client",     "period", ">admitted",
                                         ">refused", ">corrected", ">units"};

    *p = (struct printer){.options = options, .out = rn_output_to(stdout, options)};
    rn_columns_init(&p->columns, titles, RN_COUNT(titles));
    if (options->csv)
        rn_export_titles(&p->text);
    else if (options->json)
        rn_buf_put_literal(&p->text, "{\"usage\":[");
}

static void put_cells(struct rn_columns *columns, const struct ration_usage *u)
{
    struct rn_slice client = {u->client, u->client_len};

    rn_columns_text(columns, (struct rn_slice){u->rule, u->rule_len});
    rn_columns_text(columns, u->other     ? RN_SLICE("(other)")
                             : client.len ? client
                                          : RN_SLICE("(all)"));
    rn_columns_put(columns, "%s", u->period);
    rn_columns_put(columns, "%" PRId64, u->admitted);
    rn_columns_put(columns, "%" PRIu64, u->refused);
    if (u->corrected == 0)
        rn_columns_put(columns, "%s", "");
    else
        rn_columns_put(columns, "%+" PRId64, u->corrected);
    rn_columns_put(columns, "%" PRId64, rn_export_units(u));
}

static int put_row(void *arg, const struct ration_usage *u)
{
    struct printer *p = arg;
    struct rn_members m = {.out = &p->text};

    if (p->options->csv) {
        rn_export_csv(&p->text, u);
    } else if (p->options->json) {
        rn_buf_put(&p->text, "\n,", p->rows != 0 ? 2 : 1);
        rn_members_open(&m, NULL, '{');
        rn_export_json(&m, u);
        rn_members_close(&m, '}');
    } else {
        put_cells(&p->columns, u);
    }
    p->rows++;
    return 0;
}

/* Prints the rows so far. False after an error message. */
static bool flush(struct printer *p)
{
    bool table = !p->options->csv && !p->options->json;

    if (p->text.failed || p->columns.text.failed)
        return rn_output_error("out of memory");
    if (table && p->rows != 0)
        rn_columns_flush(&p->columns, &p->out);
    fwrite(p->text.data, 1, p->text.len, stdout);
    rn_buf_clear(&p->text);
    p->flushed = true;
    return !ferror(stdout); /* main.c says that the output could not be written */
}

/* Prints the rest. */
static bool end(struct printer *p)
{
    bool table = !p->options->csv && !p->options->json;

    if (table && p->rows == 0)
        rn_output_put(&p->out, RN_PLAIN,
                      p->options->rule || p->options->client || p->options->period
                          ? "no usage fits these options; without them all is listed\n"
                          : "no usage; a rule counts it with usage: true\n");
    if (p->options->json) {
        rn_buf_put_literal(&p->text, "]");
        if (p->missing.len != 0)
            rn_buf_put_literal(&p->text, ",\"missing\":");
        rn_buf_put_slice(&p->text, rn_buf_slice(&p->missing));
        rn_buf_put_literal(&p->text, "}\n");
    }
    if (table && p->rows != 0 && !p->flushed && !p->columns.text.failed) {
        rn_columns_write(&p->columns, &p->out, 0);
        return true;
    }
    return flush(p);
}

static void done(struct printer *p)
{
    rn_columns_done(&p->columns);
    rn_buf_done(&p->text);
    rn_buf_done(&p->missing);
}

/* --- from a daemon --------------------------------------------------------------------------- */

static int64_t read_time(const struct rn_cli_json *row, const char *name)
{
    struct rn_timestamp time = {0};
    char text[40];

    rn_slice_copy(text, sizeof text, rn_cli_json_text(row, name));
    return rn_timestamp_parse(text, &time) ? time.ns / RN_SECOND_NS : 0;
}

/* Turns a row of the daemon back into what it was written from. The bytes of a name that JSON
 * cannot hold go to `name`. False: the row makes no sense. */
static bool read_row(const struct rn_cli_json *row, struct rn_buf *name, struct ration_usage *u)
{
    struct rn_slice rule = rn_cli_json_text(row, "rule"), client = rn_cli_json_text(row, "client");
    struct rn_slice hex = rn_cli_json_text(row, "client_hex");

    *u = (struct ration_usage){.rule = rule.data,
                               .rule_len = rule.len,
                               .other = rn_cli_json_is_true(row, "other"),
                               .start_s = read_time(row, "start"),
                               .end_s = read_time(row, "end")};
    rn_buf_clear(name);
    if (hex.data != NULL) {
        if (!rn_export_unhex(name, hex) || name->failed)
            return false;
        client = rn_buf_slice(name);
    }
    u->client = client.data;
    u->client_len = client.len;
    rn_slice_copy(u->period, sizeof u->period, rn_cli_json_text(row, "period"));
    rn_slice_copy(u->zone, sizeof u->zone, rn_cli_json_text(row, "zone"));
    return rule.data != NULL && (client.data != NULL || u->other) &&
           rn_cli_json_i64(row, "admitted", &u->admitted) &&
           rn_cli_json_i64(row, "corrected", &u->corrected) &&
           rn_cli_json_u64(row, "refused", &u->refused);
}

static void put_parameter(struct rn_buf *target, const char *name, struct rn_slice value)
{
    if (value.data == NULL)
        return;
    rn_buf_putf(target, "&%s=", name);
    rn_cli_http_put_escaped(target, value);
}

static struct rn_slice given(const char *text)
{
    return text != NULL ? rn_slice_of(text) : (struct rn_slice){NULL, 0};
}

/* Asks for the page at the cursor. False after an error message. */
static bool ask_page(struct rn_daemon *d, const char *cursor)
{
    struct rn_buf target = {0};
    bool ok;

    rn_buf_putf(&target, "/v1/usage?limit=%d", PAGE_MAX);
    put_parameter(&target, "rule", given(d->options->rule));
    put_parameter(&target, "client", given(d->options->client));
    put_parameter(&target, "period", given(d->options->period));
    put_parameter(&target, "scope", given(d->options->scope));
    if (cursor[0] != '\0')
        put_parameter(&target, "cursor", rn_slice_of(cursor));
    rn_buf_put_char(&target, '\0');
    if (target.failed)
        ok = rn_output_error("out of memory");
    else
        ok = rn_daemon_do(d, &(struct rn_daemon_request){.method = "GET", .target = target.data});
    rn_buf_done(&target);
    return ok;
}

/* Prints the rows of the page that the daemon has answered with. False after an error message. */
static bool print_page(struct rn_daemon *d, struct printer *p, struct rn_buf *name)
{
    struct ration_usage usage;

    for (const struct rn_cli_json *row = rn_cli_json_list(d->answer, "usage"); row != NULL;
         row = row->next) {
        if (!read_row(row, name, &usage))
            return rn_output_error("the daemon sent a row that makes no sense; is it of the same "
                                   "version as this ration?");
        put_row(p, &usage);
    }
    return true;
}

/* Names the nodes that are missing, of the first page that lacks any: a node that comes back later
 * is still missing there. True if there are any. */
static bool name_missing(const struct rn_daemon *d, struct printer *p)
{
    const struct rn_cli_json *missing = rn_cli_json_get(d->answer, "missing");
    const struct rn_cli_json *node = rn_cli_json_list(d->answer, "missing");

    if (missing == NULL)
        return false;
    rn_buf_clear(&p->missing);
    rn_cli_json_write(&p->missing, missing);
    for (const struct rn_cli_json *n = node; n != NULL; n = n->next) {
        struct rn_slice name = rn_cli_json_text(n, "node");
        char text[RN_TIME_TEXT];

        rn_output_error("not complete: node %s reported last %s ago, and what it has not reported "
                        "is missing; export again when it is back",
                        rn_excerpt(name).text,
                        rn_output_time(rn_cli_json_seconds(n, "last_report"), text));
    }
    return node != NULL;
}

static int show_daemon(struct rn_daemon *d)
{
    struct rn_buf name = {0};
    struct printer printer;
    char cursor[80] = "";
    bool ok, more, missing = false;

    begin(&printer, d->options);
    do {
        struct rn_slice next;

        ok = ask_page(d, cursor) && print_page(d, &printer, &name);
        if (ok && !missing)
            missing = name_missing(d, &printer);
        next = ok ? rn_cli_json_text(d->answer, "next") : (struct rn_slice){NULL, 0};
        more = next.data != NULL && !rn_slice_is(next, cursor);
        rn_slice_copy(cursor, sizeof cursor, next);
        if (more)
            ok = more = flush(&printer);
    } while (more);
    ok = ok && end(&printer);
    done(&printer);
    rn_buf_done(&name);
    return !ok ? RN_EXIT_ERROR : missing ? RN_EXIT_REFUSED : RN_EXIT_OK;
}

/* --- from the state file --------------------------------------------------------------------- */

static bool has_rule(const struct rn_usage_file *file, struct rn_slice rule)
{
    struct rn_usage_slot_text slot;

    for (uint32_t i = 0; i < file->rule_count; i++)
        if (rn_usage_slot_read(&file->rules[i], &slot) &&
            rn_slice_equal(rule, (struct rn_slice){slot.name, slot.name_len}))
            return true;
    return false;
}

static int show_file(const struct rn_options *o)
{
    struct rn_slice rule = given(o->rule), client = given(o->client), period = given(o->period);
    struct ration_usage_query query = {.rule = rule.data,
                                       .rule_len = rule.len,
                                       .client = client.data,
                                       .client_len = client.len,
                                       .period = period.data,
                                       .period_len = period.len,
                                       .limit = PAGE_MAX};
    int64_t now_s = rn_clock_read_ns(CLOCK_REALTIME) / RN_SECOND_NS;
    struct ration_error error = {0};
    struct rn_usage_file *file;
    struct printer printer;
    bool ok = true;

    if (rn_usage_file_read(o->state, &file, &error) != 0) {
        rn_output_error("--state: %s", error.text);
        return RN_EXIT_ERROR;
    }
    if (rule.data != NULL && !has_rule(file, rule)) {
        rn_output_error("%s has no usage of a rule %s; without --rule all are listed", o->state,
                        rn_excerpt(rule).text);
        rn_usage_file_close(file);
        return RN_EXIT_ERROR;
    }
    begin(&printer, o);
    do {
        if (rn_usage_file_each(file, &query, now_s, put_row, &printer, &query.cursor, &error) != 0)
            ok = rn_output_error("%s", error.text);
        else if (query.cursor != 0)
            ok = flush(&printer);
    } while (ok && query.cursor != 0);
    ok = ok && end(&printer);
    done(&printer);
    rn_usage_file_close(file);
    return ok ? RN_EXIT_OK : RN_EXIT_ERROR;
}

int rn_command_usage(const struct rn_options *o)
{
    const char *problem = NULL;

    if (o->csv && o->json)
        problem = "give either --csv or --json";
    else if (o->state != NULL && (o->admin != NULL || o->scope != NULL))
        problem = "--state reads the file of one node and asks no daemon; leave out --admin and "
                  "--scope";
    if (problem == NULL)
        return o->state != NULL ? show_file(o) : rn_daemon_run(o, RN_PORT_ADMIN, show_daemon);
    rn_output_error("%s", problem);
    return RN_EXIT_ERROR;
}

/* --- corrections ----------------------------------------------------------------------------- */

static void put_member(struct rn_daemon *d, const char *name, const char *text)
{
    if (text == NULL)
        return;
    rn_buf_putf(&d->body, ",\"%s\":", name);
    rn_json_put_string(&d->body, rn_slice_of(text));
}

static void put_client(struct rn_daemon *d, struct rn_slice client)
{
    if (rn_export_is_text(client)) {
        put_member(d, "client", client.data);
        return;
    }
    rn_buf_put_literal(&d->body, ",\"client_hex\":\"");
    rn_export_hex(&d->body, client);
    rn_buf_put_char(&d->body, '"');
}

/* Prints the corrected row. */
static void print_corrected(struct rn_daemon *d)
{
    struct rn_output out = rn_output_to(stdout, d->options);
    struct ration_usage usage;
    struct rn_buf name = {0};

    if (!read_row(d->answer, &name, &usage)) {
        rn_output_put(&out, RN_PLAIN, "corrected\n");
    } else {
        rn_output_quoted(&out, (struct rn_slice){usage.client, usage.client_len});
        rn_output_put(&out, RN_PLAIN,
                      " in %s: %" PRId64 " admitted, %+" PRId64 " corrected, %" PRId64
                      " unit%s to bill\n",
                      usage.period, usage.admitted, usage.corrected, rn_export_units(&usage),
                      rn_export_units(&usage) == 1 ? "" : "s");
        if (rn_cli_json_text(d->answer, "scope").data != NULL)
            rn_output_put(&out, RN_PLAIN, "so on this node; ration usage has the sum of all\n");
        else if (usage.admitted == 0 && usage.refused == 0)
            rn_output_put(&out, RN_PLAIN, "nothing was counted: is the name right?\n");
    }
    rn_buf_done(&name);
}

int rn_command_usage_correct(struct rn_daemon *d)
{
    const struct rn_options *o = d->options;

    if (!o->rule || !o->client || !o->period || !o->units) {
        rn_output_error("which rule, client and period, and how many units? write for example "
                        "ration %s %s",
                        o->command->name, o->command->example);
        return RN_EXIT_ERROR;
    }
    rn_buf_putf(&d->body, "{\"units\":%s", o->units);
    put_member(d, "rule", o->rule);
    put_client(d, rn_slice_of(o->client));
    put_member(d, "period", o->period);
    put_member(d, "note", o->note);
    rn_buf_put_char(&d->body, '}');
    if (!rn_daemon_do(d, &(struct rn_daemon_request){.method = "POST", .target = "/v1/usage"}))
        return RN_EXIT_ERROR;
    if (o->json)
        rn_daemon_print(d);
    else
        print_corrected(d);
    return RN_EXIT_OK;
}
