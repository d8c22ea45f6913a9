/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/utf8.h"
#include "cli/output/output.h"
#include "cli/replay/summary.h"
#include "rules/report/report.h"

#define NOTE_BYTES 512
#define FIRST_CALENDAR_NS (INT64_C(1577836800) * 1000000000) /* 2020, base/calendar.c */

struct writer {
    void (*put)(void *arg, const char *text);
    void *arg;
};

static void note(const struct writer *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void note(const struct writer *w, const char *format, ...)
{
    char text[NOTE_BYTES];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    w->put(w->arg, text);
}

/* --- logs --------------------------------------------------------------------------------- */

static const char *const kinds[RN_LOGS_FAULTS] = {
    [RN_LOGS_SPLIT] = "not of this format",
    [RN_LOGS_TIME] = "without a time that can be read",
    [RN_LOGS_STATUS] = "with a status that is none",
    [RN_LOGS_LONG] = "longer than 65536 bytes",
    [RN_LOGS_BINARY] = "binary",
};

/* An excerpt of a line in quotes, without control characters. */
static void put_excerpt(struct rn_buf *out, const struct rn_feed_faults *f)
{
    rn_buf_clear(out);
    rn_utf8_escape_quoted(out, (struct rn_slice){f->excerpt, f->excerpt_len});
    rn_buf_put(out, "", 1);
}

static void note_faults(const struct writer *w, const struct rn_feed *s)
{
    struct rn_buf excerpt = {0};
    char count[RN_COUNT_TEXT], numbers[80];

    for (unsigned kind = RN_LOGS_GOOD + 1; kind < RN_LOGS_FAULTS; kind++) {
        const struct rn_feed_faults *f = &s->faults[kind];
        size_t len = 0;

        if (f->count == 0)
            continue;
        for (uint64_t i = 0; i < f->count && i < RN_FEED_SHOWN; i++)
            len += (size_t)snprintf(numbers + len, sizeof numbers - len, "%s%" PRIu64,
                                    i == 0 ? "" : ", ", f->lines[i]);
        put_excerpt(&excerpt, f);
        note(w, "%s: %s line%s %s, at %s%s; the first begins with %s", s->path,
             rn_output_count(f->count, count), f->count == 1 ? "" : "s", kinds[kind], numbers,
             f->count > RN_FEED_SHOWN ? ", ..." : "", excerpt.data != NULL ? excerpt.data : "");
    }
    if (s->lines > 0 && s->faults[RN_LOGS_TIME].count * 2 > s->lines)
        note(w,
             "%s: most lines, read as %s, have no time that can be read; --map time=FIELD says "
             "which field it is, --format which format",
             s->path, s->reader->format->title);
    else if (s->lines > 0 && s->requests * 2 < s->lines)
        note(w, "%s: most lines could not be read as %s; if it is another format, give --format",
             s->path, s->reader->format->title);
    if (s->input.problem[0] != '\0')
        note(w, "%s %s; what comes after that is missing", s->path, s->input.problem);
    if (s->lines == 0)
        note(w, "%s is empty", s->path);
    rn_buf_done(&excerpt);
}

static void note_order(const struct writer *w, const struct rn_run *run)
{
    char count[RN_COUNT_TEXT], from[RN_TIME_TEXT], to[RN_TIME_TEXT];

    if (run->reorder.late != 0)
        note(w,
             "left out: %s requests whose lines are older than others before them by more than "
             "--reorder allows; logs that are given as files of their own are merged by time",
             rn_output_count(run->reorder.late, count));
    if (run->reorder.early != 0)
        note(w,
             "%s requests could not wait for older ones as long as --reorder says; give more "
             "--memory",
             rn_output_count(run->reorder.early, count));
    if (run->outside != 0 && run->requests == 0)
        note(w, "all %s requests, of %s to %s UTC, are before --from or not before --to",
             rn_output_count(run->outside, count), rn_output_moment(run->outside_first_ns, from),
             rn_output_moment(run->outside_last_ns, to));
    else if (run->outside != 0)
        note(w, "%s requests are before --from or not before --to",
             rn_output_count(run->outside, count));
}

static bool has_durations(const struct rn_run *run)
{
    for (size_t i = 0; i < run->feeds.count; i++)
        if (run->feeds.items[i].reader->has_duration)
            return true;
    return false;
}

/* --- names ---------------------------------------------------------------------------------- */

/* `--map apikey: nothing looks at apikey; did you mean api_key?` */
static void note_unused(const struct writer *w, const struct rn_run *run, const char *option,
                        struct rn_slice name)
{
    char known[RN_LOGS_ATTRIBUTES][80];
    const char *candidates[RN_LOGS_ATTRIBUTES], *meant;

    for (uint32_t i = 0; i < run->plan.attribute_count; i++) {
        rn_slice_copy(known[i], sizeof known[i], run->plan.attributes[i]);
        candidates[i] = known[i];
    }
    meant = rn_suggest(name, candidates, run->plan.attribute_count);
    note(w, "%s %.*s: no rule looks at %.*s%s%s%s", option, (int)name.len, name.data, (int)name.len,
         name.data, meant != NULL ? "; did you mean " : "", meant != NULL ? meant : "",
         meant != NULL ? "?" : "");
}

/* The fields that a format of positions has, `remote_addr, ..., extra1, extra2, ...`; "" of others,
 * and if logs differ. */
static void put_fields(const struct rn_run *run, char *text, size_t size)
{
    const struct rn_logs_format *format = run->feeds.items[0].reader->format;
    size_t len;

    text[0] = '\0';
    for (size_t i = 0; i < run->feeds.count; i++)
        if (format == NULL || format->fields == NULL ||
            run->feeds.items[i].reader->format != format)
            return;
    len = (size_t)snprintf(text, size, "; its fields are ");
    for (size_t i = 0; format->fields[i] != NULL && len < size; i++)
        len += (size_t)snprintf(text + len, size - len, "%s, ", format->fields[i]);
    if (len < size)
        snprintf(text + len, size - len, "and extra1, extra2, ... behind them");
}

/* Whether a log can have a status: those of JSON lines always can. */
static bool has_status_field(const struct rn_run *run)
{
    for (size_t i = 0; i < run->feeds.count; i++)
        if (run->feeds.items[i].reader->format != NULL &&
            run->feeds.items[i].reader->status != RN_LOGS_NO_SLOT)
            return true;
    return false;
}

static void note_map(const struct writer *w, const struct rn_run *run,
                     const struct rn_logs_map *map)
{
    static const char *const own[] = {"time", "end", "status", "request", "duration"};
    char fields[NOTE_BYTES] = "";
    uint32_t i = 0;

    if (rn_slice_find(map->name, own, RN_COUNT(own)) < RN_COUNT(own)) {
        if (rn_slice_is(map->name, "duration") && !has_durations(run))
            note(w, "--map duration=%.*s: no request has a duration there", (int)map->field.len,
                 map->field.data);
        if (rn_slice_is(map->name, "status") && !has_status_field(run)) {
            put_fields(run, fields, sizeof fields);
            note(w, "--map status=%.*s: no log has that field%s", (int)map->field.len,
                 map->field.data, fields);
        }
        return;
    }
    while (i < run->plan.attribute_count && !rn_slice_equal(run->plan.attributes[i], map->name))
        i++;
    if (i == run->plan.attribute_count) {
        note_unused(w, run, "--map", map->name);
    } else if (run->present[i] == 0) {
        put_fields(run, fields, sizeof fields);
        note(w, "--map %.*s=%.*s: no request has that field%s", (int)map->name.len, map->name.data,
             (int)map->field.len, map->field.data, fields);
    }
}

/* What --map and --set say for nothing. */
static void note_names(const struct writer *w, const struct rn_run *run)
{
    for (uint32_t i = 0; i < run->plan.map_count; i++)
        note_map(w, run, &run->plan.maps[i]);
    for (uint32_t i = 0; i < run->given_count; i++)
        if ((run->given_used >> i & 1) == 0)
            note_unused(w, run, "--set",
                        (struct rn_slice){run->given[i].name, run->given[i].name_len});
}

/* --- rules ---------------------------------------------------------------------------------- */

/* Whether requests of the log ever had what the rules call so. */
static bool is_present(const struct rn_run *run, const struct rn_ruleset *ruleset, uint16_t number)
{
    const struct rn_attribute *a = &ruleset->attributes[number];

    if (a->source == RN_SOURCE_GEO)
        a = &ruleset->attributes[a->of];
    for (uint32_t i = 0; i < run->given_count; i++)
        if (rn_slice_equal(a->name, (struct rn_slice){run->given[i].name, run->given[i].name_len}))
            return true;
    for (uint32_t i = 0; i < run->plan.attribute_count; i++) {
        struct rn_slice name = run->plan.attributes[i];
        bool header = a->header.data != NULL && rn_slice_starts_with(name, RN_SLICE("header.")) &&
                      rn_slice_equal((struct rn_slice){name.data + 7, name.len - 7}, a->header);
        bool path = a->source == RN_SOURCE_PATH && rn_slice_is(name, "path");

        if (run->present[i] != 0 && (header || path || rn_slice_equal(name, a->name)))
            return true;
    }
    return false;
}

static void add_missing(const struct rn_run *run, const struct rn_ruleset *ruleset, uint16_t number,
                        char *text, size_t size)
{
    const struct rn_attribute *a = &ruleset->attributes[number];
    size_t len = strlen(text);
    char name[80];

    snprintf(name, sizeof name, "%s%.*s", a->source == RN_SOURCE_HEADER ? "header." : "",
             (int)(a->source == RN_SOURCE_HEADER ? a->header.len : a->name.len),
             a->source == RN_SOURCE_HEADER ? a->header.data : a->name.data);
    if (!is_present(run, ruleset, number) && strstr(text, name) == NULL)
        snprintf(text + len, size - len, "%s%s", len == 0 ? "" : ", ", name);
}

/* The attributes that the rule needs and no request had. */
static void find_missing(const struct rn_run *run, const struct rn_ruleset *ruleset,
                         const struct rn_rule *rule, char *text, size_t size)
{
    text[0] = '\0';
    for (uint32_t i = 0; i < rule->alternative_count; i++)
        for (uint32_t k = 0; k < rule->alternatives[i].condition_count; k++)
            if (!rule->alternatives[i].conditions[k].negated)
                add_missing(run, ruleset, rule->alternatives[i].conditions[k].attribute, text,
                            size);
    for (uint32_t i = 0; i < rule->key_count; i++) {
        bool any = false;

        for (uint8_t k = 0; k < rule->key[i].count; k++)
            any |= is_present(run, ruleset, rule->key[i].attributes[k]);
        for (uint8_t k = 0; !any && k < rule->key[i].count; k++)
            add_missing(run, ruleset, rule->key[i].attributes[k], text, size);
    }
    if (rule->tier_attribute != RN_NO_ATTRIBUTE && rule->tier_choice != RN_TIER_ONLY)
        add_missing(run, ruleset, rule->tier_attribute, text, size);
}

static bool has_form(const struct rn_rule *rule, bool (*is)(enum rn_form form))
{
    const struct rn_rule_limit *limit;

    RN_RULE_EACH_LIMIT(limit, rule)
    if (is(limit->limit.form))
        return true;
    return false;
}

static bool is_calendar(const struct rn_rule *rule)
{
    const struct rn_rule_limit *limit;

    RN_RULE_EACH_LIMIT(limit, rule)
    if (limit->limit.calendar_id != 0)
        return true;
    return false;
}

static void note_rule(const struct writer *w, const struct rn_run *run,
                      const struct rn_run_side *side, const struct rn_rule *rule)
{
    const struct rn_tally_rule *t = &side->tally.rules[rule->index];
    char missing[200], count[RN_COUNT_TEXT];

    find_missing(run, side->ruleset, rule, missing, sizeof missing);
    if (rule->envoy)
        note(w, "rule %s is in Envoy's format: access logs have no descriptors", rule->title);
    else if (missing[0] != '\0')
        note(w, "rule %s needs %s, which %s not have; it matched %s", rule->title, missing,
             run->feeds.count == 1 ? "this log does" : "these logs do",
             t->requests == 0 ? "nothing" : "only requests for which that does not matter");
    else if (t->requests == 0)
        note(w, "rule %s matched nothing", rule->title);
    if (t->requests != 0 && has_form(rule, rn_form_is_places) && !has_durations(run))
        note(w,
             "rule %s limits requests in flight: without durations in the log (--map "
             "duration=FIELD) it refuses nothing here",
             rule->title);
    if (t->in_line != 0)
        note(w,
             "rule %s: %s requests would have stood in line; they count as delayed, and are not "
             "charged when their turn comes",
             rule->title, rn_output_count(t->in_line, count));
    if (rule->by_outcome && t->requests != 0)
        note(w, "rule %s charges by the status in the log", rule->title);
    if (rn_rule_follows(rule))
        note(w, "rule %s follows signals, which a log does not have: its limits are as written",
             rule->title);
    if (rule->spread_ns != 0)
        note(w,
             "rule %s spreads the ends of its windows over clients by a secret: each client's "
             "windows end at other times than on your servers",
             rule->title);
    if (rule->shadow && !side->ruleset->shadow)
        note(w,
             "rule %s is in shadow mode: what it would refuse counts as shadowed; for the clients, "
             "replay it without mode: shadow",
             rule->title);
    if (is_calendar(rule) && run->first_ns < FIRST_CALENDAR_NS)
        note(w, "rule %s: its calendar begins in 2020; windows before that are by UTC",
             rule->title);
}

/* --- memory ----------------------------------------------------------------------------------- */

static void note_memory(const struct writer *w, const struct rn_run *run)
{
    char count[RN_COUNT_TEXT];

    for (unsigned i = 0; i < run->side_count; i++) {
        struct ration_memory memory;

        ration_memory(run->sides[i].limiter, run->last_ns, &memory);
        if (memory.evictions != 0)
            note(w,
                 "%s: %s clients were forgotten while they had something spent, so more was "
                 "admitted than would be; give more --memory",
                 run->sides[i].name, rn_output_count(memory.evictions, count));
        if (run->sides[i].tally.touched.floor != 0)
            note(w,
                 "the list of clients is not exact: a count may be short by %s; give more "
                 "--memory",
                 rn_output_count(run->sides[i].tally.touched.floor, count));
        if (run->sides[i].tally.errors != 0)
            note(w,
                 "%s: %s requests could not be decided: too many limits apply, or the memory "
                 "is full",
                 run->sides[i].name, rn_output_count(run->sides[i].tally.errors, count));
    }
    if (run->shared.population.full)
        note(w,
             "numbers of clients are estimates (HyperLogLog, standard error %s); "
             "give more --memory for exact ones",
             RN_DISTINCT_ERROR);
    if (run->pending.dropped != 0)
        note(w, "%s requests in flight at once were too many to remember; give more --memory",
             rn_output_count(run->pending.dropped, count));
}

void rn_notes_feeds(const struct rn_run *run, void (*put)(void *arg, const char *text), void *arg)
{
    struct writer w = {put, arg};

    for (size_t i = 0; i < run->feeds.count; i++)
        note_faults(&w, &run->feeds.items[i]);
    note_order(&w, run);
    if (run->requests != 0)
        note_names(&w, run);
}

void rn_notes_each(const struct rn_run *run, void (*put)(void *arg, const char *text), void *arg)
{
    struct writer w = {put, arg};

    rn_notes_feeds(run, put, arg);
    for (unsigned i = 0; i < run->side_count; i++)
        if (run->sides[i].ruleset->shadow)
            note(&w,
                 "%s has mode: shadow for all rules: what they would refuse counts as shadowed; "
                 "for the clients, replay them without it",
                 run->sides[i].name);
    for (uint32_t i = 0; run->requests != 0 && i < run->sides[0].ruleset->rule_count; i++)
        note_rule(&w, run, &run->sides[0], &run->sides[0].ruleset->rules[i]);
    if (run->present[run->whole] == 0 && run->whole_given.data == NULL && run->requests != 0)
        note(&w,
             "no request has %s, so clients are not counted for all rules together; choose "
             "with --by",
             run->options->by);
    note_memory(&w, run);
}

void rn_notes_times(const struct rn_run *run, void (*put)(void *arg, const char *text), void *arg)
{
    static const char *const grains[] = {"to the second", "to the millisecond",
                                         "finer than a millisecond"};
    struct writer w = {put, arg};

    for (size_t i = 0; i < run->feeds.count; i++) {
        const struct rn_feed *s = &run->feeds.items[i];
        bool told = s->requests == 0;

        for (size_t k = 0; k < i; k++)
            told |= run->feeds.items[k].reader->format == s->reader->format &&
                    run->feeds.items[k].reader->grain == s->reader->grain;
        if (!told)
            note(&w, "times are %s: %s%s", grains[s->reader->grain], s->reader->format->times,
                 s->reader->has_duration ? "" : "; the log has no durations");
    }
}

void rn_notes_logs(const struct rn_run *run, char *text, size_t size)
{
    if (run->feeds.count == 1)
        snprintf(text, size, "%s (%s)",
                 strcmp(run->feeds.items[0].path, "-") == 0 ? "standard input"
                                                            : run->feeds.items[0].path,
                 run->feeds.items[0].reader->format != NULL
                     ? run->feeds.items[0].reader->format->title
                     : "empty");
    else
        snprintf(text, size, "%zu logs", run->feeds.count);
}
