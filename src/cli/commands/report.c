/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration report`: whether the rules do what they are for, from what a daemon has counted, or
 * a replay: as text, JSON or a page.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/client/daemon.h"
#include "cli/output/columns.h"
#include "cli/report/findings.h"
#include "rules/report/report.h"
#include "wire/page/chart.h"

#define SHARE "5%"
#define BARS 20
#define REPLAY_MAX ((size_t)64 << 20) /* bytes of JSON */
#define PIECE ((size_t)1 << 16)

/* 5, 5% or 0.5% as thousandths. False after an error message. */
static bool read_share(const char *text, uint64_t *permille)
{
    char *end;
    double percent = strtod(text, &end);

    end += *end == '%';
    if (end != text && *end == '\0' && end[-1] != '%' && percent > 0 && percent < 1)
        return rn_output_error("--share: found %s; write %g%%, or %g%% if you mean a part of 1",
                               rn_excerpt(rn_slice_of(text)).text, percent, 100 * percent);
    if (end == text || *end != '\0' || !(percent >= 0 && percent < 100))
        return rn_output_error("--share: %s is not a share of clients; write for example 5%%",
                               rn_excerpt(rn_slice_of(text)).text);
    *permille = (uint64_t)(percent * 10 + 0.5);
    return true;
}

static uint64_t number(const struct rn_cli_json *object, const char *name)
{
    uint64_t n = 0;

    rn_cli_json_u64(object, name, &n);
    return n;
}

/* --- JSON --------------------------------------------------------------------------- */

static void put_json(const struct rn_findings *f, const struct rn_cli_json *facts)
{
    struct rn_buf text = {0};
    struct rn_members m = {.out = &text};

    rn_members_open(&m, NULL, '{');
    rn_output_number(&m, "share", (double)f->share_permille / 1000, 3);
    rn_members_open(&m, "findings", '[');
    for (size_t i = 0; i < f->count; i++) {
        const struct rn_findings_item *finding = &f->items[i];

        rn_members_open(&m, NULL, '{');
        rn_members_text(&m, "kind", rn_slice_of(rn_findings_word(finding->kind)));
        rn_members_text(&m, finding->kind == RN_FINDING_UNCOVERED ? "request" : "rule",
                        finding->rule);
        rn_members_text(&m, "message", rn_findings_message(f, finding));
        rn_members_close(&m, '}');
    }
    rn_members_close(&m, ']');
    rn_members_name(&m, "facts");
    rn_cli_json_write(&text, facts);
    rn_members_close(&m, '}');
    rn_output_json(&text);
}

/* --- text --------------------------------------------------------------------------- */

static void put_summary(struct rn_buf *out, const struct rn_cli_json *facts)
{
    struct rn_slice since = rn_cli_json_text(facts, "since");
    char text[RN_COUNT_TEXT];

    rn_buf_putf(out, "%s requests", rn_output_count(number(facts, "requests"), text));
    if (since.data != NULL)
        rn_buf_putf(out, " since %.*s", (int)since.len, since.data);
    rn_buf_putf(out, ", %s refused", rn_output_count(number(facts, "refused"), text));
    rn_buf_putf(out, ", %s that no rule covers", rn_output_count(number(facts, "unmatched"), text));
}

/* What a rule has done, as the columns of a table. */
enum { ROW_REQUESTS, ROW_REFUSED, ROW_CLIENTS, ROW_CLIENTS_REFUSED, ROW_NEAR, ROW_COUNTS };

struct row {
    char name[256];
    char counts[ROW_COUNTS][RN_COUNT_TEXT];
};

static void make_row(struct row *row, const struct rn_cli_json *rule)
{
    struct rn_slice name = rn_cli_json_text(rule, "rule");
    uint64_t refused = number(rule, "refused"), shadowed = number(rule, "shadowed");
    bool shadow =
        rn_slice_is(rn_cli_json_text(rule, "mode"), "shadow") || (refused == 0 && shadowed != 0);

    snprintf(row->name, sizeof row->name, "%.*s%s", (int)name.len,
             name.data != NULL ? name.data : "", shadow ? " (shadow)" : "");
    rn_output_count(rn_findings_requests(rule), row->counts[ROW_REQUESTS]);
    rn_output_count(refused + shadowed, row->counts[ROW_REFUSED]);
    rn_output_count(rn_findings_clients(rule), row->counts[ROW_CLIENTS]);
    rn_output_count(rn_findings_refused(rule), row->counts[ROW_CLIENTS_REFUSED]);
    if (rn_cli_json_get(rule, "clients_near") != NULL)
        rn_output_count(number(rule, "clients_near"), row->counts[ROW_NEAR]);
    else /* a replay does not tell */
        snprintf(row->counts[ROW_NEAR], RN_COUNT_TEXT, "-");
}

static void put_rules(struct rn_columns *columns, const struct rn_cli_json *facts)
{
    struct row row;

    for (const struct rn_cli_json *r = rn_cli_json_list(facts, "rules"); r != NULL; r = r->next) {
        make_row(&row, r);
        rn_columns_text(columns, rn_slice_of(row.name));
        for (int i = 0; i < ROW_COUNTS; i++)
            rn_columns_put(columns, "%s", row.counts[i]);
    }
}

static void put_text(const struct rn_findings *f, const struct rn_cli_json *facts,
                     const struct rn_options *options)
{
    static const char *const titles[] = {"rule",     ">requests", ">refused",
                                         ">clients", ">refused",  ">near"};
    struct rn_output out = rn_output_to(stdout, options);
    enum rn_finding_kind kind = RN_FINDING_KINDS;
    struct rn_columns columns;
    struct rn_buf line = {0};

    put_summary(&line, facts);
    rn_output_escaped(&out, rn_buf_slice(&line));
    rn_output_put(&out, RN_PLAIN, "\n\n");
    rn_columns_init(&columns, titles, sizeof titles / sizeof *titles);
    put_rules(&columns, facts);
    rn_columns_write(&columns, &out, 0);
    for (size_t i = 0; i < f->count; i++) {
        if (f->items[i].kind != kind) {
            kind = f->items[i].kind;
            rn_output_put(&out, RN_BOLD, "\n%s\n", rn_findings_heading(kind));
        }
        struct rn_slice message = rn_findings_message(f, &f->items[i]); /* names are escaped */

        rn_output_put(&out, RN_PLAIN, "  %.*s\n", (int)message.len, message.data);
    }
    if (f->count == 0)
        rn_output_put(&out, RN_GOOD, "\nnothing to change\n");
    rn_columns_done(&columns);
    rn_buf_done(&line);
}

/* --- the page ----------------------------------------------------------------------- */

static void put_bars(struct rn_page *page, const struct rn_cli_json *facts)
{
    struct rn_chart_bar bars[BARS];
    char notes[BARS][24];
    size_t count = 0;

    for (const struct rn_cli_json *r = rn_cli_json_list(facts, "rules"); r && count < BARS;
         r = r->next) {
        uint64_t clients = rn_findings_clients(r), refused = rn_findings_refused(r);
        double share = clients == 0 ? 0 : (double)refused * 100 / (double)clients;

        if (refused == 0 || (rn_cli_json_get(r, "keyed") && !rn_cli_json_is_true(r, "keyed")))
            continue;
        share = share < 100 ? share : 100;
        snprintf(notes[count], sizeof notes[count], "%.1f %%", share);
        bars[count] = (struct rn_chart_bar){.label = rn_cli_json_text(r, "rule"),
                                            .value = share,
                                            .note = notes[count],
                                            .tone = RN_CHART_BAD};
        count++;
    }
    rn_chart_bars(page, "Share of the clients of each rule that it has refused.", bars, count);
}

static void put_findings(struct rn_page *page, const struct rn_findings *f)
{
    enum rn_finding_kind kind = RN_FINDING_KINDS;

    for (size_t i = 0; i < f->count; i++) {
        struct rn_slice message = rn_findings_message(f, &f->items[i]);

        if (f->items[i].kind != kind) {
            kind = f->items[i].kind;
            rn_page_heading(page, rn_findings_heading(kind));
        }
        rn_page_paragraph(page, "%.*s", (int)message.len, message.data);
    }
    if (f->count == 0)
        rn_page_note(page, "Nothing to change.");
}

static bool save_page(const struct rn_findings *f, const struct rn_cli_json *facts,
                      const char *path)
{
    static const char *const titles[] = {"rule",     ">requests",        ">refused",
                                         ">clients", ">clients refused", ">clients near"};
    struct rn_buf line = {0};
    struct rn_page page;
    struct row row;

    put_summary(&line, facts);
    rn_buf_put_char(&line, '\0');
    rn_page_open(&page, "What the limits have done", line.failed ? NULL : line.data);
    put_findings(&page, f);
    rn_page_heading(&page, "Rules");
    rn_page_table_open(&page, titles, sizeof titles / sizeof *titles);
    for (const struct rn_cli_json *r = rn_cli_json_list(facts, "rules"); r != NULL; r = r->next) {
        make_row(&row, r);
        rn_page_cell(&page, rn_slice_of(row.name));
        for (int i = 0; i < ROW_COUNTS; i++)
            rn_page_cellf(&page, "%s", row.counts[i]);
    }
    rn_page_table_close(&page);
    put_bars(&page, facts);
    rn_page_paragraph(&page, "%sWhat shadow mode would have refused counts as refused.",
                      rn_cli_json_text(facts, "since").data != NULL
                          ? "Clients are counted by an estimate with an error of about 5 %. "
                          : "");
    rn_page_close(&page);
    bool saved = rn_output_save(path, &page.out);

    rn_page_done(&page);
    rn_buf_done(&line);
    return saved;
}

/* --- the command -------------------------------------------------------------------- */

static int report(const struct rn_options *o, const struct rn_cli_json *facts)
{
    struct rn_findings findings = {0};
    int status = RN_EXIT_ERROR;

    if (!read_share(o->share != NULL ? o->share : SHARE, &findings.share_permille))
        return RN_EXIT_ERROR;
    rn_findings_draw(&findings, facts);
    if (findings.failed)
        rn_output_error("out of memory");
    else if (o->html == NULL || save_page(&findings, facts, o->html))
        status = RN_EXIT_OK;
    if (status == RN_EXIT_OK && o->json)
        put_json(&findings, facts);
    else if (status == RN_EXIT_OK && o->html == NULL)
        put_text(&findings, facts, o);
    rn_findings_done(&findings);
    return status;
}

static int report_daemon(struct rn_daemon *d)
{
    if (!rn_daemon_do(d, &(struct rn_daemon_request){.method = "GET", .target = "/v1/report"}))
        return RN_EXIT_ERROR;
    return report(d->options, d->answer);
}

/* False after an error message. */
static bool read_file(const char *path, struct rn_buf *text)
{
    struct rn_excerpt name = rn_excerpt(rn_slice_of(path));
    char problem[RN_FILE_PROBLEM], *room;
    int fd = strcmp(path, "-") == 0 ? STDIN_FILENO : rn_file_open(path, problem);
    ssize_t got = 1;

    if (fd < 0)
        return rn_output_error("--replay: %s cannot be read: %s", name.text, problem);
    while (got > 0 && text->len <= REPLAY_MAX && (room = rn_buf_reserve(text, PIECE)) != NULL) {
        got = read(fd, room, PIECE);
        text->len += got > 0 ? (size_t)got : 0;
    }
    if (fd != STDIN_FILENO)
        close(fd);
    if (got < 0)
        return rn_output_error("--replay: %s cannot be read: %s", name.text, strerror(errno));
    if (text->failed || text->len > REPLAY_MAX)
        return rn_output_error("--replay: %s is too large for a report", name.text);
    return true;
}

static int report_replay(const struct rn_options *o)
{
    struct rn_excerpt name = rn_excerpt(rn_slice_of(o->replayed));
    const struct rn_cli_json *facts;
    int status = RN_EXIT_ERROR;
    struct rn_buf text = {0};
    struct rn_arena arena;

    rn_arena_init(&arena);
    if (read_file(o->replayed, &text)) {
        facts = rn_cli_json_get(rn_cli_json_parse(&arena, text.data, text.len, NULL), "replayed");
        if (rn_cli_json_get(facts, "rules") != NULL)
            status = report(o, facts);
        else
            rn_output_error("--replay: %s is not what ration replay --json prints", name.text);
    }
    rn_arena_done(&arena);
    rn_buf_done(&text);
    return status;
}

/* False after an error message. */
static bool check_options(const struct rn_options *o)
{
    if (o->json && o->html != NULL && strcmp(o->html, "-") == 0)
        return rn_output_error("--json writes to standard output; name a file for --html");
    if (o->replayed != NULL && o->html != NULL && rn_file_is_same(o->replayed, o->html))
        return rn_output_error("--html: %s is the replay to read, and would be lost; name another "
                               "file",
                               rn_excerpt(rn_slice_of(o->html)).text);
    return o->replayed == NULL || o->admin == NULL ||
           rn_output_error("give either --replay or --admin: a report is of a replay, or of a "
                           "daemon");
}

int rn_command_report(const struct rn_options *options)
{
    if (!check_options(options))
        return RN_EXIT_ERROR;
    if (options->replayed != NULL)
        return report_replay(options);
    return rn_daemon_run(options, RN_PORT_ADMIN, report_daemon);
}
