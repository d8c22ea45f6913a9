/* SPDX-License-Identifier: Apache-2.0 */
/* The summary as text. */
#include "cli/replay/summary.h"

#include <inttypes.h>
#include <string.h>

#include "cli/output/columns.h"

struct texts {
    char a[RN_COUNT_TEXT], b[RN_COUNT_TEXT], c[RN_COUNT_TEXT], d[RN_COUNT_TEXT];
    char from[RN_TIME_TEXT], to[RN_TIME_TEXT], length[RN_TIME_TEXT];
};

static void put_note(void *arg, const char *text)
{
    const struct rn_output *out = arg;

    rn_output_put(out, RN_PLAIN, "  ");
    rn_output_lines(out, rn_slice_of(text));
    rn_output_put(out, RN_PLAIN, "\n");
}

static void put_head(const struct rn_output *out, const struct rn_run *run)
{
    const struct rn_tally_side *t = &run->sides[0].tally;
    char logs[200];
    struct texts x;
    bool exact, exact_refused;
    uint64_t seen = rn_tally_seen(&run->shared, &t->clients, &exact);
    uint64_t refused = rn_tally_refused(&run->shared, &t->clients, &exact_refused);
    uint64_t left_out = run->reorder.late + rn_run_faulty(run);

    rn_notes_logs(run, logs, sizeof logs);
    rn_output_lines(out, rn_slice_of(logs));
    rn_output_put(out, RN_PLAIN, ": %s requests, %s to %s UTC, under ",
                  rn_output_count(run->requests, x.a), rn_output_moment(run->first_ns, x.from),
                  rn_output_moment(run->last_ns, x.to));
    rn_output_lines(out, rn_slice_of(run->sides[0].name));
    rn_output_put(out, RN_PLAIN, "\n");
    rn_notes_times(run, put_note, (void *)(uintptr_t)out);
    rn_output_put(out, t->refused == 0 ? RN_GOOD : RN_BOLD, "\n%s of %s requests (%s) refused",
                  rn_output_count(t->refused, x.a), rn_output_count(t->requests, x.b),
                  rn_output_share(t->refused, t->requests, x.c));
    if (t->delayed != 0)
        rn_output_put(out, RN_BOLD, ", %s delayed", rn_output_count(t->delayed, x.a));
    if (t->shadowed != 0)
        rn_output_put(out, RN_BOLD, ", %s shadowed", rn_output_count(t->shadowed, x.a));
    if (seen != 0)
        rn_output_put(out, RN_BOLD, "\n%s%s of %s%s clients by %s (%s) refused at least once",
                      exact_refused ? "" : "about ", rn_output_count(refused, x.a),
                      exact ? "" : "about ", rn_output_count(seen, x.b), run->options->by,
                      rn_output_share(refused, seen, x.c));
    rn_output_put(out, RN_PLAIN, "\n");
    if (left_out * 100 >= run->requests && left_out != 0)
        rn_output_put(out, RN_ODD, "%s lines were left out: see Notes\n",
                      rn_output_count(left_out, x.a));
    if (t->unmatched != 0)
        rn_output_put(out, RN_PLAIN, "%s requests (%s) matched no rule\n",
                      rn_output_count(t->unmatched, x.a),
                      rn_output_share(t->unmatched, t->requests, x.c));
    if (t->listed != 0)
        rn_output_put(out, RN_PLAIN, "%s requests were on the deny list\n",
                      rn_output_count(t->listed, x.a));
    if (t->banned != 0)
        rn_output_put(out, RN_PLAIN, "%s requests came during bans that rules began\n",
                      rn_output_count(t->banned, x.a));
}

static void put_rules(const struct rn_output *out, const struct rn_run *run)
{
    static const char *const titles[] = {"rule",     ">requests", ">refused", ">delayed",
                                         ">clients", ">refused",  "from",     "to"};
    const struct rn_run_side *side = &run->sides[0];
    struct rn_columns table;
    struct texts x;

    rn_columns_init(&table, titles, RN_COUNT(titles));
    for (uint32_t i = 0; i < side->ruleset->rule_count; i++) {
        const struct rn_tally_rule *t = &side->tally.rules[i];
        bool exact;

        rn_columns_text(&table, rn_slice_of(side->ruleset->rules[i].title));
        rn_columns_put(&table, "%s", rn_output_count(t->requests, x.a));
        if (t->shadowed != 0)
            rn_columns_put(&table, "%s shadowed", rn_output_count(t->shadowed, x.a));
        else
            rn_columns_put(&table, "%s  %s", rn_output_count(t->refused, x.a),
                           rn_output_share(t->refused, t->requests, x.b));
        rn_columns_put(&table, "%s", t->delayed != 0 ? rn_output_count(t->delayed, x.a) : "");
        rn_columns_put(&table, "%s",
                       rn_output_count(rn_tally_seen(&run->shared, &t->clients, &exact), x.a));
        rn_columns_put(&table, "%s",
                       rn_output_count(rn_tally_refused(&run->shared, &t->clients, &exact), x.a));
        rn_columns_put(&table, "%s", t->first_ns != 0 ? rn_output_moment(t->first_ns, x.from) : "");
        rn_columns_put(&table, "%s", t->last_ns != 0 ? rn_output_moment(t->last_ns, x.to) : "");
    }
    rn_output_put(out, RN_BOLD, "\nRules\n");
    rn_columns_write(&table, out, 2);
    rn_columns_done(&table);
}

static void put_clients(const struct rn_output *out, struct rn_run *run)
{
    static const char *const titles[] = {"client",   "rule",  ">refused", ">of",
                                         ">delayed", "first", "last",     "limited for"};
    struct rn_run_side *side = &run->sides[0];
    size_t count = rn_touched_sort(&side->tally.touched);
    struct rn_columns table;
    struct texts x;

    if (count == 0)
        return;
    rn_columns_init(&table, titles, RN_COUNT(titles));
    for (size_t i = 0; i < count && i < run->options->top; i++) {
        const struct rn_touched *c = &side->tally.touched.rows[i];
        const struct rn_population_row *row = rn_population_find(&run->shared.population, c->hash);

        rn_columns_text(&table, (struct rn_slice){c->name, c->name_len});
        rn_columns_text(&table, rn_slice_of(side->ruleset->rules[c->rule].title));
        rn_columns_put(&table, "%s", rn_output_count(c->refused, x.a));
        rn_columns_put(&table, "%s", row != NULL ? rn_output_count(row->requests, x.b) : "");
        rn_columns_put(&table, "%s", c->delayed != 0 ? rn_output_count(c->delayed, x.c) : "");
        rn_columns_put(&table, "%s", rn_output_moment(c->first_ns, x.from));
        rn_columns_put(&table, "%s", rn_output_moment(c->last_ns, x.to));
        rn_columns_put(&table, "%s", rn_output_time(c->limited_ns, x.length));
    }
    rn_output_put(out, RN_BOLD, "\nClients limited most\n");
    rn_columns_write(&table, out, 2);
    rn_columns_done(&table);
    if (count > run->options->top)
        rn_output_put(out, RN_DIM, "  and %s more; --top lists more\n",
                      rn_output_count(count - run->options->top, x.a));
}

static void put_changes(const struct rn_output *out, const struct rn_run *run)
{
    uint64_t clients[4];
    struct texts x;

    if (run->side_count < 2)
        return;
    rn_run_count_changed(run, clients);
    rn_output_put(out, RN_BOLD, "\nWhat changes\n");
    rn_output_put(out, RN_PLAIN, "  requests refused by ");
    rn_output_lines(out, rn_slice_of(run->sides[1].name));
    rn_output_put(out, RN_PLAIN, ": %s; by ", rn_output_count(run->sides[1].tally.refused, x.a));
    rn_output_lines(out, rn_slice_of(run->sides[0].name));
    rn_output_put(out, RN_PLAIN, ": %s\n", rn_output_count(run->sides[0].tally.refused, x.b));
    rn_output_put(out, RN_PLAIN, "  %s refused by both, %s newly refused, %s no longer refused\n",
                  rn_output_count(run->both_refused, x.a), rn_output_count(run->newly_refused, x.b),
                  rn_output_count(run->no_longer_refused, x.c));
    rn_output_put(out, RN_PLAIN, "  clients by %s: %s refused by both, %s newly, %s no longer%s\n",
                  run->options->by, rn_output_count(clients[3], x.a),
                  rn_output_count(clients[1], x.b), rn_output_count(clients[2], x.c),
                  run->shared.population.full ? " (of those that fit the memory)" : "");
}

void rn_summary_text(struct rn_run *run)
{
    struct rn_output out = rn_output_to(stdout, run->options);
    struct texts x;
    double seconds = (double)run->took_ns / 1e9;

    if (run->requests == 0) {
        rn_output_put(&out, RN_PLAIN, "no requests\n");
    } else {
        put_head(&out, run);
        put_rules(&out, run);
        put_clients(&out, run);
        put_changes(&out, run);
    }
    rn_output_put(&out, RN_BOLD, "\nNotes\n");
    rn_notes_each(run, put_note, &out);
    rn_output_put(
        &out, RN_DIM, "  replayed in %s, %s requests a second\n",
        rn_output_time(run->took_ns, x.length),
        rn_output_count(seconds > 0 ? (uint64_t)((double)run->requests / seconds) : 0, x.a));
}
