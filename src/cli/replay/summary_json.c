/* SPDX-License-Identifier: Apache-2.0 */
/* The summary as JSON. */
#include "cli/output/output.h"
#include "cli/replay/summary.h"

#define SECOND INT64_C(1000000000)

/* A time as ISO 8601, to the second; null if there is none. */
static void put_moment(struct rn_members *m, const char *name, int64_t ns)
{
    char text[RN_TIME_TEXT + 1];

    if (ns == 0) {
        rn_members_null(m, name);
        return;
    }
    rn_output_moment(ns, text);
    text[10] = 'T';
    text[19] = 'Z';
    rn_members_text(m, name, (struct rn_slice){text, 20});
}

static void put_limited_for(struct rn_members *m, const struct rn_tally_rule *t)
{
    if (t->limited_s < INT64_MAX / SECOND)
        rn_members_seconds(m, "limited_for", (int64_t)t->limited_s * SECOND + t->limited_rest_ns);
    else
        rn_members_u64(m, "limited_for", t->limited_s);
}

static void put_clients_of(struct rn_members *m, const struct rn_run *run,
                           const struct rn_tally_clients *seen,
                           const struct rn_tally_clients *refused)
{
    bool exact;

    rn_members_open(m, "clients", '{');
    rn_members_u64(m, "seen", rn_tally_seen(&run->shared, seen, &exact));
    rn_members_u64(m, "refused", rn_tally_refused(&run->shared, refused, &exact));
    rn_members_bool(m, "exact", exact);
    rn_members_close(m, '}');
}

static void put_rules(struct rn_members *m, const struct rn_run *run,
                      const struct rn_run_side *side)
{
    rn_members_open(m, "rules", '[');
    for (uint32_t i = 0; i < side->ruleset->rule_count; i++) {
        const struct rn_tally_rule *t = &side->tally.rules[i];

        rn_members_open(m, NULL, '{');
        rn_members_text(m, "rule", rn_slice_of(side->ruleset->rules[i].title));
        rn_members_u64(m, "requests", t->requests);
        rn_members_u64(m, "refused", t->refused);
        rn_members_u64(m, "delayed", t->delayed);
        rn_members_u64(m, "shadowed", t->shadowed);
        put_clients_of(m, run, &t->clients, &t->clients);
        put_moment(m, "first", t->first_ns);
        put_moment(m, "last", t->last_ns);
        put_limited_for(m, t);
        rn_members_close(m, '}');
    }
    rn_members_close(m, ']');
}

/* Any bytes. A NUL becomes U+FFFD as what is not UTF-8 does: readers of JSON may refuse it. */
static void put_client(struct rn_members *m, const struct rn_touched *client)
{
    char text[RN_TOUCHED_NAME];

    for (uint32_t i = 0; i < client->name_len; i++)
        text[i] = client->name[i] != '\0' ? client->name[i] : '\xff';
    rn_members_text(m, "client", (struct rn_slice){text, client->name_len});
}

static void put_top(struct rn_members *m, const struct rn_run *run, struct rn_run_side *side)
{
    size_t count = rn_touched_sort(&side->tally.touched);

    rn_members_open(m, "top", '[');
    for (size_t i = 0; i < count && i < run->options->top; i++) {
        const struct rn_touched *c = &side->tally.touched.rows[i];
        const struct rn_population_row *row = rn_population_find(&run->shared.population, c->hash);

        rn_members_open(m, NULL, '{');
        put_client(m, c);
        rn_members_text(m, "rule", rn_slice_of(side->ruleset->rules[c->rule].title));
        rn_members_u64(m, "refused", c->refused);
        rn_members_u64(m, "delayed", c->delayed);
        if (row != NULL)
            rn_members_u64(m, "requests", row->requests);
        else
            rn_members_null(m, "requests");
        put_moment(m, "first", c->first_ns);
        put_moment(m, "last", c->last_ns);
        rn_members_seconds(m, "limited_for", c->limited_ns);
        rn_members_close(m, '}');
    }
    rn_members_close(m, ']');
}

static void put_side(struct rn_members *m, struct rn_run *run, unsigned number, const char *name)
{
    struct rn_run_side *side = &run->sides[number];
    const struct rn_tally_side *t = &side->tally;

    rn_members_open(m, name, '{');
    rn_members_text(m, "rules_file", rn_slice_of(side->name));
    rn_members_u64(m, "requests", t->requests);
    rn_members_u64(m, "refused", t->refused);
    rn_members_u64(m, "delayed", t->delayed);
    rn_members_u64(m, "shadowed", t->shadowed);
    rn_members_u64(m, "unmatched", t->unmatched);
    rn_members_u64(m, "denied_by_list", t->listed);
    rn_members_u64(m, "refused_by_bans", t->banned);
    rn_members_u64(m, "errors", t->errors);
    put_clients_of(m, run, &run->sides[0].tally.clients, &t->clients);
    put_rules(m, run, side);
    put_top(m, run, side);
    rn_members_close(m, '}');
}

static void put_logs(struct rn_members *m, const struct rn_run *run)
{
    static const char *const names[RN_LOGS_FAULTS] = {
        [RN_LOGS_SPLIT] = "format", [RN_LOGS_TIME] = "time",     [RN_LOGS_STATUS] = "status",
        [RN_LOGS_LONG] = "long",    [RN_LOGS_BINARY] = "binary",
    };

    rn_members_open(m, "logs", '[');
    for (size_t i = 0; i < run->feeds.count; i++) {
        const struct rn_feed *s = &run->feeds.items[i];

        rn_members_open(m, NULL, '{');
        rn_members_text(m, "file", rn_slice_of(s->path));
        if (s->reader->format != NULL)
            rn_members_text(m, "format", rn_slice_of(s->reader->format->name));
        else
            rn_members_null(m, "format");
        rn_members_u64(m, "lines", s->lines);
        rn_members_u64(m, "requests", s->requests);
        rn_members_open(m, "faulty", '{');
        for (unsigned kind = RN_LOGS_GOOD + 1; kind < RN_LOGS_FAULTS; kind++)
            rn_members_u64(m, names[kind], s->faults[kind].count);
        rn_members_close(m, '}');
        rn_members_close(m, '}');
    }
    rn_members_close(m, ']');
}

static void put_timeline(struct rn_members *m, const struct rn_run *run)
{
    static const char *const names[RN_TREND_ROWS] = {"allowed", "delayed", "refused",
                                                     "refused_against"};
    const struct rn_trend *t = &run->shared.trend;

    rn_members_open(m, "timeline", '{');
    put_moment(m, "from", t->from_ns);
    rn_members_seconds(m, "width", t->width_ns);
    for (unsigned row = 0; row < RN_TREND_ROWS; row++) {
        if (row == RN_TREND_REFUSED_BEFORE && run->side_count < 2)
            continue;
        rn_members_open(m, names[row], '[');
        for (size_t i = 0; i < t->count; i++)
            rn_members_u64(m, NULL, t->values[row][i]);
        rn_members_close(m, ']');
    }
    rn_members_close(m, '}');
}

static void put_note(void *arg, const char *text)
{
    rn_members_text(arg, NULL, rn_slice_of(text));
}

void rn_summary_json(struct rn_run *run)
{
    struct rn_buf text = {0};
    struct rn_members m = {.out = &text};
    uint64_t clients[4];

    rn_members_open(&m, NULL, '{');
    put_logs(&m, run);
    put_moment(&m, "from", run->first_ns);
    put_moment(&m, "to", run->last_ns);
    rn_members_u64(&m, "late", run->reorder.late);
    rn_members_u64(&m, "outside", run->outside);
    rn_members_text(&m, "by", rn_slice_of(run->options->by));
    put_side(&m, run, 0, "replayed");
    if (run->side_count > 1) {
        rn_run_count_changed(run, clients);
        put_side(&m, run, 1, "against");
        rn_members_open(&m, "changes", '{');
        rn_members_u64(&m, "refused_by_both", run->both_refused);
        rn_members_u64(&m, "newly_refused", run->newly_refused);
        rn_members_u64(&m, "no_longer_refused", run->no_longer_refused);
        rn_members_u64(&m, "clients_refused_by_both", clients[3]);
        rn_members_u64(&m, "clients_newly_refused", clients[1]);
        rn_members_u64(&m, "clients_no_longer_refused", clients[2]);
        rn_members_close(&m, '}');
    }
    put_timeline(&m, run);
    rn_members_open(&m, "notes", '[');
    rn_notes_times(run, put_note, &m);
    rn_notes_each(run, put_note, &m);
    rn_members_close(&m, ']');
    rn_members_close(&m, '}');
    rn_output_json(&text);
}
