/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/replay/run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "cli/output/output.h"
#include "cli/replay/progress.h"
#include "limiter/decide/workspace.h"
#include "limiter/rulebook/reload.h"
#include "rules/report/report.h"

/* Shares of the memory. The rest is for the program itself. */
#define SHARE_TABLES 2
#define SHARE_POPULATION 4
#define SHARE_REORDER 8
#define SHARE_TOUCHED 32
#define SHARE_PENDING 32

/* --- rules ------------------------------------------------------------------------------ */

static bool load_files(struct rn_run_side *side, struct rn_options *options,
                       const struct rn_option_list *files)
{
    struct rn_output complaints = rn_output_to(stderr, options);

    options->words = (const char **)(uintptr_t)files->values;
    options->word_count = files->count;
    side->name = files->values[0];
    if (rn_offline_load(&side->offline, options))
        return true;
    rn_output_report(&complaints, &side->offline.report);
    return false;
}

/* `text`: the rules, if there are no files. */
static bool load_side(struct rn_run *run, const struct rn_option_list *files, const char *text,
                      uint64_t bytes)
{
    struct rn_run_side *side = &run->sides[run->side_count++];
    struct rn_options options = *run->options;
    struct ration_options limiter = {.memory_bytes = bytes};
    struct ration_error error;
    bool any = false;

    if (files->count != 0) {
        if (!load_files(side, &options, files))
            return false;
    } else {
        side->name = "no rules";
        rn_report_init(&side->offline.report);
        side->offline.ruleset =
            rn_ruleset_parse(RN_SLICE("rules"), rn_slice_of(text), &side->offline.report);
        if (side->offline.ruleset == NULL)
            return rn_output_error("out of memory");
    }
    for (uint32_t i = 0; i < side->offline.ruleset->rule_count; i++)
        any |= !side->offline.ruleset->rules[i].envoy;
    if (!any)
        return rn_output_error("%s has no native rule; rules in Envoy's format decide on "
                               "descriptors, which access logs do not have",
                               rn_excerpt(rn_slice_of(side->name)).text);
    if (rn_limiter_open(&limiter, side->offline.ruleset, &side->limiter, &error) != 0)
        return rn_output_error("%s", error.text);
    side->offline.limiter = side->limiter; /* closed with it */
    rn_limiter_detach_clock(side->limiter);
    if (rn_reload_install(side->limiter, side->offline.ruleset, 0, &error) != 0) {
        side->offline.ruleset = NULL;
        return rn_output_error("%s", error.text);
    }
    side->ruleset = side->offline.ruleset;
    return rn_tally_init(&side->tally, side->ruleset, run->side_count - 1,
                         run->options->memory_bytes / SHARE_TOUCHED / RN_SIDES) ||
           rn_output_error("out of memory");
}

/* --- what to read ------------------------------------------------------------------------ */

static bool want(struct rn_run *run, struct rn_slice name, uint32_t *number)
{
    struct rn_logs_plan *plan = &run->plan;

    for (uint32_t i = 0; i < run->given_count; i++)
        if (run->given[i].name_len == name.len &&
            memcmp(run->given[i].name, name.data, name.len) == 0) {
            run->given_used |= UINT32_C(1) << i;
            return true; /* --set says it */
        }
    for (*number = 0; *number < plan->attribute_count; ++*number)
        if (rn_slice_equal(plan->attributes[*number], name))
            return true;
    if (plan->attribute_count == RN_LOGS_ATTRIBUTES)
        return rn_output_error("the rules look at more than %d attributes of requests",
                               RN_LOGS_ATTRIBUTES);
    plan->attributes[plan->attribute_count++] = name;
    return true;
}

/* The name that a request has the attribute under. data NULL: out of memory. */
static struct rn_slice name_in_request(struct rn_run *run, const struct rn_attribute *a)
{
    char name[256];
    int len;

    if (a->source != RN_SOURCE_HEADER && a->source != RN_SOURCE_FORWARDED)
        return a->name;
    len = snprintf(name, sizeof name, "header.%.*s", (int)a->header.len, a->header.data);
    return rn_arena_dup(&run->names,
                        (struct rn_slice){name, (size_t)len < sizeof name ? (size_t)len : 255});
}

static bool want_of_rules(struct rn_run *run, const struct rn_ruleset *ruleset)
{
    uint32_t number;

    for (uint32_t i = 0; i < ruleset->attribute_count; i++) {
        const struct rn_attribute *a = &ruleset->attributes[i];

        if (a->source == RN_SOURCE_GEO)
            a = &ruleset->attributes[a->of];
        if (a->source == RN_SOURCE_PATH && !want(run, RN_SLICE("path"), &number))
            return false;
        if (a->source == RN_SOURCE_FORWARDED && !want(run, RN_SLICE("ip"), &number))
            return false;
        if (a->source != RN_SOURCE_PATH && !want(run, name_in_request(run, a), &number))
            return false;
    }
    return true;
}

/* Splits NAME=VALUE. */
static bool split_pair(const char *option, const char *text, struct rn_slice *name,
                       struct rn_slice *value)
{
    const char *equals = strchr(text, '=');

    if (equals == NULL || equals == text || equals[1] == '\0')
        return rn_output_error(
            "%s: found %s, expected NAME=%s, such as %s", option,
            rn_excerpt(rn_slice_of(text)).text, strcmp(option, "--map") == 0 ? "FIELD" : "VALUE",
            strcmp(option, "--map") == 0 ? "api_key=http_x_api_key" : "tier=free");
    *name = (struct rn_slice){text, (size_t)(equals - text)};
    *value = rn_slice_of(equals + 1);
    return true;
}

/* --map duration=took:min: a unit that there is not. */
static bool check_unit(const struct rn_logs_map *map)
{
    const char *colon = memrchr(map->field.data, ':', map->field.len);
    const char *unit = colon != NULL ? colon + 1 : "s";

    return !rn_slice_is(map->name, "duration") ||
           rn_slice_find(rn_slice_of(unit), (const char *const[]){"s", "ms", "us", "ns"}, 4) < 4 ||
           rn_output_error("--map: found the unit %s of durations, expected s, ms, us or ns",
                           rn_excerpt(rn_slice_of(unit)).text);
}

/* Header names ignore case; rules have them in lower case. False: out of memory. */
static bool lower_header(struct rn_run *run, struct rn_slice *name)
{
    char *to;

    if (name->len < 7 || strncasecmp(name->data, "header.", 7) != 0)
        return true;
    *name = rn_arena_dup(&run->names, *name);
    to = (char *)(uintptr_t)name->data;
    for (size_t i = 0; to != NULL && i < name->len; i++)
        to[i] = to[i] >= 'A' && to[i] <= 'Z' ? (char)(to[i] | 0x20) : to[i];
    return to != NULL || rn_output_error("out of memory");
}

static bool plan_reading(struct rn_run *run)
{
    const struct rn_options *o = run->options;
    struct rn_slice name, value;

    for (size_t i = 0; i < o->sets.count; i++) {
        if (!split_pair("--set", o->sets.values[i], &name, &value) || !lower_header(run, &name))
            return false;
        run->given[run->given_count++] =
            (struct ration_attribute){name.data, name.len, value.data, value.len};
    }
    for (size_t i = 0; i < o->maps.count; i++) {
        struct rn_logs_map *map = &run->plan.maps[run->plan.map_count++];

        if (!split_pair("--map", o->maps.values[i], &map->name, &map->field) || !check_unit(map) ||
            !lower_header(run, &map->name))
            return false;
    }
    if (!want(run, rn_slice_of(o->by), &run->whole))
        return false;
    for (uint32_t i = 0; i < run->given_count; i++)
        if (rn_slice_is((struct rn_slice){run->given[i].name, run->given[i].name_len}, o->by))
            run->whole_given = (struct rn_slice){run->given[i].value, run->given[i].value_len};
    for (unsigned i = 0; i < run->side_count; i++)
        if (!want_of_rules(run, run->sides[i].ruleset))
            return false;
    return true;
}

/* --- deciding ----------------------------------------------------------------------------- */

static void put_decision(struct rn_run *run, const struct rn_logs_entry *e,
                         enum rn_tally_result result)
{
    static const char *const words[] = {"allowed", "delayed", "refused"};
    const struct ration_outcome *o = &run->outcome;
    const struct ration_verdict *v = &o->decision.verdict;
    int64_t wait_ns = result == RN_TALLY_WAITS ? o->delay_ns : v->retry_after_ns;

    fprintf(run->decisions, "%" PRId64 ".%09" PRId64 ",%s,%s,", e->time_ns / 1000000000,
            e->time_ns % 1000000000, words[result], o->rule);
    if (v->remaining != UINT64_MAX) /* no limit applied */
        fprintf(run->decisions, "%" PRIu64, v->remaining);
    fputc(',', run->decisions);
    if (wait_ns == RATION_NEVER)
        fputs("never\n", run->decisions);
    else
        fprintf(run->decisions, "%" PRId64 ".%09" PRId64 "\n", wait_ns / 1000000000,
                wait_ns % 1000000000);
}

static enum rn_tally_result decide(struct rn_run *run, struct rn_run_side *side,
                                   const struct ration_request *request,
                                   const struct rn_logs_entry *e,
                                   const struct rn_tally_whole *whole)
{
    struct ration_outcome *o = &run->outcome;
    enum rn_tally_result result;

    if (ration_decide(side->limiter, request, e->time_ns, o) != 0) {
        side->tally.requests++;
        side->tally.errors++;
        return RN_TALLY_ADMITTED;
    }
    result = rn_tally_add(&side->tally, &run->shared, o, rn_workspace_matches(side->limiter), whole,
                          e->time_ns);
    if (o->due_count != 0 || o->lease != 0)
        rn_pending_add(&run->pending, side->limiter, o,
                       e->time_ns + (e->duration_ns > 0 ? e->duration_ns : 0), e->status);
    if (run->decisions != NULL && side == run->sides)
        put_decision(run, e, result);
    return result;
}

/* Called for each request, in the order of time. */
static void replay_one(void *arg, const struct rn_logs_entry *e)
{
    struct rn_run *run = arg;
    struct ration_attribute attributes[2 * RN_LOGS_ATTRIBUTES];
    struct ration_request request = {.attributes = attributes};
    bool refused[RN_SIDES] = {false, false};
    struct rn_tally_whole whole;

    for (uint32_t i = 0; i < run->plan.attribute_count; i++)
        if (e->attributes[i].data != NULL) {
            run->present[i]++;
            attributes[request.count++] =
                (struct ration_attribute){run->plan.attributes[i].data, run->plan.attributes[i].len,
                                          e->attributes[i].data, e->attributes[i].len};
        }
    for (uint32_t i = 0; i < run->given_count; i++)
        attributes[request.count++] = run->given[i];
    run->first_ns = run->requests++ == 0 ? e->time_ns : run->first_ns;
    run->last_ns = e->time_ns;
    rn_pending_run(&run->pending, e->time_ns);
    if (run->see != NULL) {
        run->see(run, e, &request);
        return;
    }
    whole = rn_tally_whole(run->whole_given.data != NULL ? run->whole_given
                                                         : e->attributes[run->whole]);
    for (unsigned i = 0; i < run->side_count; i++)
        refused[i] = decide(run, &run->sides[i], &request, e, &whole) == RN_TALLY_REFUSED;
    run->both_refused += refused[0] && refused[1];
    run->newly_refused += refused[0] && !refused[1];
    run->no_longer_refused += !refused[0] && refused[1];
}

static void leave_out(struct rn_run *run, int64_t time_ns)
{
    if (run->outside == 0 || time_ns < run->outside_first_ns)
        run->outside_first_ns = time_ns;
    if (run->outside == 0 || time_ns > run->outside_last_ns)
        run->outside_last_ns = time_ns;
    run->outside++;
}

bool rn_run_all(struct rn_run *run)
{
    const struct rn_timestamp *from = &run->options->from, *to = &run->options->to;
    int64_t begun_ns = rn_clock_boot_ns();
    const struct rn_logs_entry *e;
    struct rn_progress_line progress;
    bool ok = true;

    rn_progress_init(&progress, run->feeds.bytes);
    while (ok && (e = rn_feeds_next(&run->feeds)) != NULL) {
        rn_progress_step(&progress, &run->feeds);
        if ((from->given && e->time_ns < from->ns) || (to->given && e->time_ns >= to->ns))
            leave_out(run, e->time_ns);
        else
            ok = rn_reorder_add(&run->reorder, e);
    }
    ok = ok && (run->feeds.failed || rn_reorder_finish(&run->reorder));
    rn_progress_done(&progress);
    rn_tally_flush(&run->shared);
    run->took_ns = rn_clock_boot_ns() - begun_ns;
    if (run->decisions != NULL && (fflush(run->decisions) != 0 || ferror(run->decisions)))
        return rn_output_error("--decisions: %s", strerror(errno != 0 ? errno : EIO));
    return ok ? !run->feeds.failed : rn_output_error("out of memory");
}

/* --- files -------------------------------------------------------------------------------- */

/* What is read must not be written over. */
static bool check_output(const struct rn_options *o, const char *option, const char *path)
{
    const struct rn_option_list *rules[] = {&o->rules, &o->against};

    for (size_t i = 0; path != NULL && i < o->word_count; i++)
        if (rn_file_is_same(path, o->words[i]))
            return rn_output_error("%s: %s is a log to read, and would be lost; name another file",
                                   option, rn_excerpt(rn_slice_of(path)).text);
    for (size_t k = 0; path != NULL && k < RN_COUNT(rules); k++)
        for (size_t i = 0; i < rules[k]->count; i++)
            if (rn_file_is_same(path, rules[k]->values[i]))
                return rn_output_error("%s: %s has rules, and would be lost; name another file",
                                       option, rn_excerpt(rn_slice_of(path)).text);
    return true;
}

/* Each file is asked for once, and pairs are compared without the kernel: there may be thousands.
 */
static bool check_logs(const struct rn_options *o)
{
    struct stat *files = calloc(o->word_count, sizeof *files);
    bool ok = files != NULL || o->word_count == 0 || rn_output_error("out of memory");

    for (size_t i = 0; ok && i < o->word_count; i++) {
        if (stat(o->words[i], &files[i]) != 0 || !S_ISREG(files[i].st_mode)) {
            files[i].st_nlink = 0;
            continue;
        }
        for (size_t k = 0; ok && k < i; k++)
            if (files[k].st_nlink != 0 && files[k].st_ino == files[i].st_ino &&
                files[k].st_dev == files[i].st_dev)
                ok = rn_output_error("%s and %s are the same log; its requests would count twice",
                                     rn_excerpt(rn_slice_of(o->words[k])).text,
                                     rn_excerpt(rn_slice_of(o->words[i])).text);
    }
    free(files);
    return ok;
}

static bool check_files(const struct rn_options *o)
{
    if (!check_logs(o))
        return false;
    if (o->html != NULL && o->decisions != NULL &&
        (strcmp(o->html, o->decisions) == 0 || rn_file_is_same(o->html, o->decisions)))
        return rn_output_error("--html and --decisions write to one file; name another for one of "
                               "them");
    if (o->json && ((o->html != NULL && strcmp(o->html, "-") == 0) ||
                    (o->decisions != NULL && strcmp(o->decisions, "-") == 0)))
        return rn_output_error("--json writes to standard output; name a file for %s",
                               o->html != NULL && strcmp(o->html, "-") == 0 ? "--html"
                                                                            : "--decisions");
    return check_output(o, "--html", o->html) && check_output(o, "--decisions", o->decisions);
}

/* --- opening ------------------------------------------------------------------------------ */

static bool open_decisions(struct rn_run *run)
{
    const char *path = run->options->decisions;

    if (path == NULL)
        return true;
    run->decisions = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
    if (run->decisions == NULL)
        return rn_output_error("--decisions: %s cannot be written: %s",
                               rn_excerpt(rn_slice_of(path)).text, strerror(errno));
    fputs("time,decision,rule,remaining,wait\n", run->decisions);
    return true;
}

static bool complain_of_format(const char *name)
{
    const char *names[16], *meant;
    size_t count = 0;

    for (; count < rn_logs_format_count; count++)
        names[count] = rn_logs_formats[count]->name;
    meant = rn_suggest(rn_slice_of(name), names, count);
    if (meant != NULL)
        return rn_output_error("--format: there is no %s; did you mean %s?",
                               rn_excerpt(rn_slice_of(name)).text, meant);
    return rn_output_error("--format: found %s, expected combined, apache, nginx-json, caddy, "
                           "traefik, envoy, haproxy, alb, csv or json",
                           rn_excerpt(rn_slice_of(name)).text);
}

static bool check_times(const struct rn_options *o)
{
    if ((o->from.given && o->from.relative) || (o->to.given && o->to.relative))
        return rn_output_error("--from and --to take times such as 2026-11-19T08:00:00Z, not "
                               "lengths from now");
    return !o->from.given || !o->to.given || o->from.ns < o->to.ns ||
           rn_output_error("--from is not before --to; there would be no request between them");
}

bool rn_run_open(struct rn_run *run, const struct rn_options *o, const char *text)
{
    const struct rn_logs_format *format = o->format != NULL ? rn_logs_format_of(o->format) : NULL;
    uint64_t bytes = o->memory_bytes / SHARE_TABLES;

    *run = (struct rn_run){.options = o};
    rn_arena_init(&run->names);
    if (o->format != NULL && format == NULL)
        return complain_of_format(o->format);
    if (!check_times(o) || !check_files(o))
        return false;
    if (o->rules.count == 0 && text == NULL)
        return rn_output_error("no rules given; write for example ration %s --rules rules.yaml "
                               "access.log",
                               o->command->name);
    bytes = o->against.count != 0 ? bytes / 2 : bytes;
    if (!load_side(run, &o->rules, text, bytes) ||
        (o->against.count != 0 && !load_side(run, &o->against, NULL, bytes)))
        return false;
    if (!plan_reading(run))
        return false;
    if (!rn_population_init(&run->shared.population, o->memory_bytes / SHARE_POPULATION) ||
        !rn_pending_init(&run->pending, o->memory_bytes / SHARE_PENDING) ||
        !rn_reorder_init(&run->reorder, run->plan.attribute_count, o->reorder_ns,
                         o->memory_bytes / SHARE_REORDER, replay_one, run))
        return rn_output_error("out of memory");
    return rn_feeds_open(&run->feeds, &run->plan, format, o->words, o->word_count) &&
           open_decisions(run);
}

void rn_run_done(struct rn_run *run)
{
    rn_feeds_close(&run->feeds);
    rn_arena_done(&run->names);
    rn_reorder_done(&run->reorder);
    rn_pending_done(&run->pending);
    rn_population_done(&run->shared.population);
    for (unsigned i = 0; i < run->side_count; i++) {
        rn_tally_done(&run->sides[i].tally);
        rn_offline_done(&run->sides[i].offline);
    }
    if (run->decisions != NULL && run->decisions != stdout)
        fclose(run->decisions);
}

uint64_t rn_run_faulty(const struct rn_run *run)
{
    uint64_t faulty = 0;

    for (size_t i = 0; i < run->feeds.count; i++)
        faulty += run->feeds.items[i].lines - run->feeds.items[i].requests;
    return faulty;
}

void rn_run_count_changed(const struct rn_run *run, uint64_t clients[4])
{
    const struct rn_population *p = &run->shared.population;

    memset(clients, 0, 4 * sizeof *clients);
    for (size_t i = 0; i < p->size; i++)
        if (p->rows[i].hash & RN_POPULATION_WHOLE)
            clients[(p->rows[i].refused[0] != 0) + 2 * (p->rows[i].refused[1] != 0)]++;
}
