/* SPDX-License-Identifier: Apache-2.0 */
/* The summary as a page with pictures. */
#include <stdlib.h>

#include "cli/output/output.h"
#include "cli/replay/summary.h"
#include "wire/page/chart.h"

#define BARS 12 /* most of one picture */

/* The beginning of a column of the trend: with the date, if it is as wide as that or the log
 * lasts for days. */
static void label_time(const void *arg, size_t i, char *text, size_t size)
{
    const struct rn_trend *t = arg;
    char moment[RN_TIME_TEXT];
    bool days = t->width_ns * (int64_t)t->count > INT64_C(86400) * 1000000000;

    rn_output_moment(t->from_ns + t->width_ns * (int64_t)i, moment);
    snprintf(text, size, "%.*s", days ? 11 : 8, moment + (days ? 5 : 11));
}

/* Labels at full minutes, hours or days: at most TICKS of them. */
#define TICKS 8
static bool place_tick(const void *arg, size_t i, double *column, char *text, size_t size)
{
    static const int32_t steps_s[] = {1,     2,     5,      10,     15,      30,     60,    120,
                                      300,   600,   900,    1800,   3600,    7200,   10800, 21600,
                                      43200, 86400, 172800, 604800, 1209600, 2592000};
    const struct rn_trend *t = arg;
    int64_t span_s = t->width_ns / 1000000000 * (int64_t)t->count, step_s = 1, at_s;
    char moment[RN_TIME_TEXT];

    for (size_t k = 0; k < RN_COUNT(steps_s) && (k == 0 || span_s / step_s > TICKS); k++)
        step_s = steps_s[k];
    while (span_s / step_s > TICKS)
        step_s *= 2;
    at_s = t->from_ns / 1000000000;
    at_s += (step_s - at_s % step_s) % step_s + (int64_t)i * step_s;
    *column = (double)(at_s - t->from_ns / 1000000000) / ((double)t->width_ns / 1e9);
    if (*column >= (double)t->count)
        return false;
    rn_output_moment(at_s * 1000000000, moment);
    if (step_s >= 86400)
        snprintf(text, size, "%.5s", moment + 5);
    else
        snprintf(text, size, "%.*s", step_s < 60 ? 8 : 5, moment + 11);
    if (step_s < 86400 && at_s % 86400 == 0) /* a day begins */
        snprintf(text, size, "%.5s", moment + 5);
    return true;
}

static void put_timeline(struct rn_page *page, const struct rn_run *run)
{
    static const char *const undelayed[] = {"admitted", NULL, "refused"};
    const struct rn_trend *t = &run->shared.trend;
    char caption[200], width[RN_TIME_TEXT], peak[64];
    uint64_t admitted[RN_TREND_COLUMNS];
    struct rn_chart_columns chart = {
        .caption = caption,
        .names = (const char *const[]){"admitted", "delayed", "refused"},
        .values = {t->values[RN_TREND_ALLOWED], t->values[RN_TREND_DELAYED],
                   t->values[RN_TREND_REFUSED]},
        .count = t->count,
        .label = label_time,
        .tick = place_tick,
        .arg = t,
        .mark = SIZE_MAX,
    };

    if (run->sides[0].tally.delayed == 0) {
        chart.names = undelayed;
        chart.values[RN_CHART_ODD] = NULL;
    }
    label_time(t, rn_trend_peak(t, RN_TREND_REFUSED), peak, sizeof peak);
    snprintf(caption, sizeof caption, "Requests in each %s, times in UTC. %s%s. ",
             rn_output_time(t->width_ns, width),
             run->sides[0].tally.refused != 0 ? "Most were refused at " : "None was refused",
             run->sides[0].tally.refused != 0 ? peak : "");
    rn_page_heading(page, "When");
    rn_chart_columns(page, &chart);
    if (run->side_count < 2)
        return;
    for (size_t i = 0; i < t->count; i++)
        admitted[i] = t->values[RN_TREND_ALLOWED][i] + t->values[RN_TREND_DELAYED][i] +
                      t->values[RN_TREND_REFUSED][i] - t->values[RN_TREND_REFUSED_BEFORE][i];
    chart.names = (const char *const[]){"not refused", NULL, "refused"};
    chart.values[RN_CHART_GOOD] = admitted;
    chart.values[RN_CHART_ODD] = NULL;
    chart.values[RN_CHART_BAD] = t->values[RN_TREND_REFUSED_BEFORE];
    snprintf(caption, sizeof caption, "The same under %.150s. ", run->sides[1].name);
    rn_chart_columns(page, &chart);
}

static void put_rule_bars(struct rn_page *page, const struct rn_run_side *side)
{
    struct rn_chart_bar bars[BARS];
    char notes[BARS][2 * RN_COUNT_TEXT + 4], a[RN_COUNT_TEXT], b[RN_COUNT_TEXT];
    size_t count = 0;

    for (uint32_t i = 0; i < side->ruleset->rule_count && count < BARS; i++) {
        const struct rn_tally_rule *t = &side->tally.rules[i];

        if (t->refused == 0)
            continue;
        snprintf(notes[count], sizeof notes[count], "%s (%s)", rn_output_count(t->refused, a),
                 rn_output_share(t->refused, t->requests, b));
        bars[count] = (struct rn_chart_bar){rn_slice_of(side->ruleset->rules[i].title),
                                            (double)t->refused, notes[count], RN_CHART_BAD};
        count++;
    }
    rn_chart_bars(page, "Requests refused by each rule, and their share of its requests.", bars,
                  count);
}

/* Whether anything was delayed: else there is no column for it. */
static bool has_delays(const struct rn_run_side *side)
{
    bool any = false;

    for (uint32_t i = 0; i < side->ruleset->rule_count; i++)
        any |= side->tally.rules[i].delayed != 0;
    return any;
}

static void put_rule(struct rn_page *page, const struct rn_run *run, uint32_t index, bool delays)
{
    const struct rn_run_side *side = &run->sides[0];
    const struct rn_tally_rule *t = &side->tally.rules[index];
    char text[RN_COUNT_TEXT], from[RN_TIME_TEXT], to[RN_TIME_TEXT];
    bool exact;

    rn_page_cell(page, rn_slice_of(side->ruleset->rules[index].title));
    rn_page_cellf(page, "%s", rn_output_count(t->requests, text));
    if (t->shadowed != 0)
        rn_page_cellf(page, "%s shadowed", rn_output_count(t->shadowed, text));
    else
        rn_page_cellf(page, "%s", rn_output_count(t->refused, text));
    rn_page_cellf(page, "%s",
                  rn_output_share(t->shadowed != 0 ? t->shadowed : t->refused, t->requests, text));
    if (delays)
        rn_page_cellf(page, "%s", rn_output_count(t->delayed, text));
    rn_page_cellf(page, "%s",
                  rn_output_count(rn_tally_seen(&run->shared, &t->clients, &exact), text));
    rn_page_cellf(page, "%s",
                  rn_output_count(rn_tally_refused(&run->shared, &t->clients, &exact), text));
    if (t->first_ns != 0)
        rn_page_cell_times(page, rn_output_moment(t->first_ns, from),
                           rn_output_moment(t->last_ns, to));
    else
        rn_page_cell(page, RN_SLICE(""));
}

static void put_rules(struct rn_page *page, const struct rn_run *run)
{
    static const char *const titles[] = {
        "rule",     ">requests", ">refused",         ">share",
        ">delayed", ">clients",  ">clients refused", "@first, last (UTC)"};
    static const char *const without[] = {
        "rule",     ">requests",        ">refused",          ">share",
        ">clients", ">clients refused", "@first, last (UTC)"};
    bool delays = has_delays(&run->sides[0]);

    rn_page_heading(page, "Rules");
    put_rule_bars(page, &run->sides[0]);
    rn_page_table_open(page, delays ? titles : without,
                       delays ? RN_COUNT(titles) : RN_COUNT(without));
    for (uint32_t i = 0; i < run->sides[0].ruleset->rule_count; i++)
        put_rule(page, run, i, delays);
    rn_page_table_close(page);
}

static void put_clients(struct rn_page *page, struct rn_run *run)
{
    static const char *const titles[] = {
        "client", "rule", ">refused", ">of", ">delayed", "@first, last (UTC)", "@limited for"};
    static const char *const without[] = {
        "client", "rule", ">refused", ">of", "@first, last (UTC)", "@limited for"};
    struct rn_run_side *side = &run->sides[0];
    size_t count = rn_touched_sort(&side->tally.touched), shown;
    const struct rn_touched *rows = side->tally.touched.rows;
    struct rn_chart_bar bars[BARS];
    bool delays = has_delays(side);
    char notes[BARS][RN_COUNT_TEXT], a[RN_COUNT_TEXT], from[RN_TIME_TEXT], to[RN_TIME_TEXT];

    if (count == 0)
        return;
    rn_page_heading(page, "Clients");
    for (shown = 0; shown < count && shown < BARS && rows[shown].refused != 0; shown++)
        bars[shown] = (struct rn_chart_bar){{rows[shown].name, rows[shown].name_len},
                                            (double)rows[shown].refused,
                                            rn_output_count(rows[shown].refused, notes[shown]),
                                            RN_CHART_BAD};
    rn_chart_bars(page, "The clients refused most: requests refused.", bars, shown);
    rn_page_table_open(page, delays ? titles : without,
                       delays ? RN_COUNT(titles) : RN_COUNT(without));
    for (size_t i = 0; i < count && i < run->options->top; i++) {
        const struct rn_population_row *row =
            rn_population_find(&run->shared.population, rows[i].hash);

        rn_page_cell(page, (struct rn_slice){rows[i].name, rows[i].name_len});
        rn_page_cell(page, rn_slice_of(side->ruleset->rules[rows[i].rule].title));
        rn_page_cellf(page, "%s", rn_output_count(rows[i].refused, a));
        rn_page_cellf(page, "%s", row != NULL ? rn_output_count(row->requests, a) : "");
        if (delays)
            rn_page_cellf(page, "%s", rn_output_count(rows[i].delayed, a));
        rn_page_cell_times(page, rn_output_moment(rows[i].first_ns, from),
                           rn_output_moment(rows[i].last_ns, to));
        rn_page_cellf(page, "%s", rn_output_time(rows[i].limited_ns, from));
    }
    rn_page_table_close(page);
}

static void put_figures(struct rn_page *page, const struct rn_run *run)
{
    const struct rn_tally_side *t = &run->sides[0].tally;
    char a[RN_COUNT_TEXT], b[RN_COUNT_TEXT];
    bool exact;
    uint64_t seen = rn_tally_seen(&run->shared, &t->clients, &exact);
    uint64_t refused = rn_tally_refused(&run->shared, &t->clients, &exact);

    rn_page_figures_open(page);
    rn_page_figure(page, "requests", "%s", rn_output_count(t->requests, a));
    rn_page_figure(page, "requests refused", "%s (%s)", rn_output_count(t->refused, a),
                   rn_output_share(t->refused, t->requests, b));
    if (t->delayed != 0)
        rn_page_figure(page, "requests delayed", "%s", rn_output_count(t->delayed, a));
    rn_page_figure(page, "clients", "%s%s", exact ? "" : "about ", rn_output_count(seen, a));
    rn_page_figure(page, "clients refused at least once", "%s%s (%s)", exact ? "" : "about ",
                   rn_output_count(refused, a), rn_output_share(refused, seen, b));
    rn_page_figures_close(page);
}

static void put_changes(struct rn_page *page, const struct rn_run *run)
{
    static const char *const titles[] = {"", ">by both", ">newly", ">no longer"};
    uint64_t clients[4];
    char a[RN_COUNT_TEXT];

    if (run->side_count < 2)
        return;
    rn_run_count_changed(run, clients);
    rn_page_heading(page, "What changes");
    rn_page_paragraph(page, "%s compared with %s.", run->sides[0].name, run->sides[1].name);
    rn_page_table_open(page, titles, RN_COUNT(titles));
    rn_page_cell(page, RN_SLICE("requests refused"));
    rn_page_cellf(page, "%s", rn_output_count(run->both_refused, a));
    rn_page_cellf(page, "%s", rn_output_count(run->newly_refused, a));
    rn_page_cellf(page, "%s", rn_output_count(run->no_longer_refused, a));
    rn_page_cell(page, RN_SLICE("clients refused"));
    rn_page_cellf(page, "%s", rn_output_count(clients[3], a));
    rn_page_cellf(page, "%s", rn_output_count(clients[1], a));
    rn_page_cellf(page, "%s", rn_output_count(clients[2], a));
    rn_page_table_close(page);
}

static void put_note(void *arg, const char *text)
{
    rn_page_paragraph(arg, "%s", text);
}

bool rn_summary_page(struct rn_run *run, const char *path)
{
    struct rn_page page;
    char logs[200], subtitle[400], from[RN_TIME_TEXT], to[RN_TIME_TEXT];
    bool saved;

    rn_notes_logs(run, logs, sizeof logs);
    if (run->requests == 0)
        snprintf(subtitle, sizeof subtitle, "%s, under %s: no requests", logs, run->sides[0].name);
    else
        snprintf(subtitle, sizeof subtitle, "%s, %s to %s UTC, under %s", logs,
                 rn_output_moment(run->first_ns, from), rn_output_moment(run->last_ns, to),
                 run->sides[0].name);
    rn_page_open(&page, "What these rules would have done", subtitle);
    put_figures(&page, run);
    if (run->requests != 0)
        put_timeline(&page, run);
    put_changes(&page, run);
    put_rules(&page, run);
    put_clients(&page, run);
    rn_page_heading(&page, "Notes");
    rn_notes_times(run, put_note, &page);
    rn_notes_each(run, put_note, &page);
    rn_page_close(&page);
    saved = rn_output_save(path, &page.out);
    rn_page_done(&page);
    return saved;
}
