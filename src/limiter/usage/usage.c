/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/usage/usage.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "limiter/decide/gather.h"
#include "limiter/limiter.h"
#include "limiter/usage/periods.h"
#include "limiter/usage/usage_file.h"
#include "rules/report/report.h"

int rn_usage_init(struct rn_usage *usage, const struct ration_options *options)
{
    usage->bytes = options->usage_bytes;
    usage->state_path = options->state_path ? strdup(options->state_path) : NULL;
    return options->state_path && !usage->state_path ? RATION_ENOMEM : 0;
}

void rn_usage_done(struct rn_usage *usage)
{
    rn_usage_file_close(usage->file);
    free(usage->state_path);
}

void rn_usage_forgo(struct ration *r)
{
    free(r->usage.state_path);
    r->usage.state_path = NULL;
}

int rn_usage_check_file(const struct rn_usage *usage, struct ration_error *error)
{
    const struct rn_usage_file *file = __atomic_load_n(&usage->file, __ATOMIC_ACQUIRE);

    return file ? rn_side_file_check(&file->side, error) : 0;
}

bool rn_usage_is_needed(const struct rn_ruleset *ruleset)
{
    for (uint32_t i = 0; i < ruleset->rule_count; i++)
        if (ruleset->rules[i].usage)
            return true;
    return false;
}

int rn_usage_open(struct ration *r, const struct rn_ruleset *ruleset, struct ration_error *error)
{
    struct rn_usage *usage = &r->usage;
    struct rn_usage_file *file;

    if (error)
        *error = (struct ration_error){0};
    if (!usage->state_path || !rn_usage_is_needed(ruleset) ||
        __atomic_load_n(&usage->file, __ATOMIC_ACQUIRE))
        return 0;
    int code = rn_usage_file_open(usage->state_path, r->table, usage->bytes, &file, error);

    if (code != 0)
        return code;
    struct rn_usage_file *other = NULL;

    if (!__atomic_compare_exchange_n(&usage->file, &other, file, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE))
        rn_usage_file_close(file); /* another thread was faster */
    return 0;
}

bool rn_usage_fits(const struct rn_ruleset *ruleset, bool has_state, struct rn_report *report)
{
    if (has_state || !rn_usage_is_needed(ruleset))
        return true;
    for (uint32_t i = 0; i < ruleset->rule_count; i++) {
        const struct rn_rule *rule = &ruleset->rules[i];

        if (rule->usage)
            rn_report_error(report, rn_ruleset_place(rule, report),
                            "%s has usage, which is kept beside a state file, and there is none; "
                            "name one (rationd: --state FILE, library: state_path), or leave usage "
                            "out",
                            rn_excerpt(rule->name).text);
    }
    return false;
}

static int64_t slot_of(struct rn_usage_file *file, const struct rn_rule *rule)
{
    return rn_usage_file_slot(file, rule->name, rule->usage->unit, rule->usage->zone,
                              rule->usage->keep);
}

bool rn_usage_prepare(struct ration *r, const struct rn_ruleset *ruleset, struct rn_report *report)
{
    struct ration_error error;

    if (!rn_usage_fits(ruleset, r->usage.state_path != NULL, report))
        return false;
    int code = rn_usage_open(r, ruleset, &error);

    for (uint32_t i = 0; i < ruleset->rule_count; i++) {
        const struct rn_rule *rule = &ruleset->rules[i];
        struct rn_place at = rn_ruleset_place(rule, report);

        if (!rule->usage)
            continue;
        if (code != 0) {
            rn_report_error(report, at, "%s has usage: %s", rn_excerpt(rule->name).text,
                            error.text);
            return false;
        }
        if (slot_of(__atomic_load_n(&r->usage.file, __ATOMIC_ACQUIRE), rule) < 0) {
            rn_report_error(report, at,
                            "%s has usage, and the usage file has no room for more than %u rules, "
                            "former ones included; give it more memory (rationd: --usage-memory), "
                            "or move it away",
                            rn_excerpt(rule->name).text, r->usage.file->rule_count);
            return false;
        }
    }
    return true;
}

/* --- the rules of a book ------------------------------------------------------------- */

static int compare_salts(const void *left, const void *right)
{
    uint64_t a = (*(struct rn_usage_rule *const *)left)->salt;
    uint64_t b = (*(struct rn_usage_rule *const *)right)->salt;

    return (a > b) - (a < b);
}

static int attach_rule(struct rn_usage_file *file, struct rn_book *book, const struct rn_rule *rule)
{
    static const struct rn_limit unlimited = {.form = RN_FORM_NONE};
    struct rn_usage_rule *u = rn_arena_calloc(&book->arena, 1, sizeof *u);

    if (!u)
        return RATION_ENOMEM;
    int64_t slot = slot_of(file, rule);

    if (slot < 0)
        return RATION_EFULL;
    rn_compiled_init_rule(&u->base, book->secret, rule->index,
                          &(struct rn_compiled_rule){.name = rule->name, .limit = &unlimited});
    u->file = file;
    u->calendar = rule->usage->calendar;
    u->salt = rn_siphash(&u->base.seed, "usage", 5);
    u->slot = (uint32_t)slot;
    book->usage[rule->index] = book->usage_by_salt[book->usage_count++] = u;
    return 0;
}

int rn_usage_attach(struct ration *r, struct rn_book *book, struct ration_error *error)
{
    struct rn_usage_file *file = __atomic_load_n(&r->usage.file, __ATOMIC_ACQUIRE);
    uint32_t rules = book->ruleset->rule_count;
    int code = 0;

    if (!file || !rn_usage_is_needed(book->ruleset))
        return 0;
    book->usage = rn_arena_calloc(&book->arena, rules, sizeof *book->usage);
    book->usage_by_salt = rn_arena_calloc(&book->arena, rules, sizeof *book->usage_by_salt);
    if (!book->usage || !book->usage_by_salt)
        code = RATION_ENOMEM;
    for (uint32_t i = 0; i < rules && code == 0; i++)
        if (book->ruleset->rules[i].usage)
            code = attach_rule(file, book, &book->ruleset->rules[i]);
    if (code == RATION_EFULL)
        return rn_error_set(error, code, 0,
                            "the usage file has no room for more than %u rules, former ones "
                            "included; give it more memory, or move it away",
                            file->rule_count);
    if (code != 0)
        return rn_error_set(error, code, 0, "out of memory");
    qsort(book->usage_by_salt, book->usage_count, sizeof *book->usage_by_salt, compare_salts);
    return 0;
}

struct rn_usage_rule *rn_usage_find(const struct rn_book *book,
                                    const struct ration_receipt *receipt)
{
    struct rn_usage_rule wanted = {.salt = receipt->salt};
    struct rn_usage_rule *key = &wanted;

    if (!rn_usage_is_receipt(receipt) || book->usage_count == 0)
        return NULL;
    struct rn_usage_rule **found = bsearch(&key, book->usage_by_salt, book->usage_count,
                                           sizeof *book->usage_by_salt, compare_salts);

    return found ? *found : NULL;
}

/* --- counting ---------------------------------------------------------------------- */

/* The calendar begins in 2020 and lasts for 50 years; times beyond belong to its ends. */
static RN_ASIDE uint32_t find_period(const struct rn_calendar *calendar, int64_t wall_ns)
{
    uint32_t low = 0, high = calendar->count - 1;

    while (low < high) { /* the last boundary that is not later */
        uint32_t middle = low + (high - low + 1) / 2;

        if (calendar->ends[middle] <= wall_ns)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* As Unix time. */
static inline int64_t period_start_s(struct rn_usage_rule *rule, int64_t wall_ns)
{
    const struct rn_calendar *calendar = rule->calendar;
    uint32_t at = __atomic_load_n(&rule->at, __ATOMIC_RELAXED);

    if (rn_unlikely(at + 1 >= calendar->count || calendar->ends[at] > wall_ns ||
                    calendar->ends[at + 1] <= wall_ns)) {
        at = find_period(calendar, wall_ns);
        __atomic_store_n(&rule->at, at, __ATOMIC_RELAXED);
    }
    return calendar->ends[at] / RN_SECOND_NS;
}

/* The row `other`, and counts that it was needed. */
static RN_ASIDE struct rn_usage_counts *find_other(struct rn_usage_rule *rule, int64_t start_s)
{
    __atomic_fetch_add(&rule->file->head->other, 1, __ATOMIC_RELAXED);
    return rn_usage_file_other(rule->file, rule->slot, start_s);
}

static RN_ASIDE struct rn_usage_counts *make_row(struct rn_usage_rule *rule, uint64_t tag,
                                                 const struct rn_applied *client, int64_t start_s,
                                                 int64_t wall_ns)
{
    char text[RATION_USAGE_CLIENT_MAX];
    struct rn_slice name = client->usage_name;

    if (!name.data)
        name = (struct rn_slice){
            text, rn_usage_client(client->key, client->key_names, client->key_count, text)};
    struct rn_usage_counts *counts =
        rn_usage_file_make(rule->file, tag, rule->slot, start_s, name, wall_ns / RN_SECOND_NS);

    return counts ? counts : find_other(rule, start_s);
}

static int64_t bounded(uint64_t units)
{
    return units < RN_USAGE_UNITS_MOST ? (int64_t)units : RN_USAGE_UNITS_MOST;
}

RN_HOT void rn_usage_count(struct rn_usage_rule *rule, const struct rn_applied *client,
                           uint64_t hash, bool admitted, uint64_t units, int64_t wall_ns)
{
    if (units == 0 && !client->rule->by_outcome)
        return; /* a charge by outcome knows the client by its hash alone: it needs a row */
    int64_t start_s = period_start_s(rule, wall_ns);
    uint64_t tag = rn_usage_tag(rule->slot, hash, start_s);
    struct rn_usage_counts *counts = rn_usage_file_find(rule->file, tag);

    if (rn_unlikely(!counts || __atomic_load_n(&counts->about, __ATOMIC_ACQUIRE) == 0))
        counts = make_row(rule, tag, client, start_s, wall_ns);
    rn_usage_add(rule->file, counts, admitted ? &counts->admitted : &counts->refused,
                 bounded(units));
}

void rn_usage_adjust(struct rn_usage_rule *rule, uint64_t hash, int64_t units, int64_t wall_ns)
{
    int64_t start_s = period_start_s(rule, wall_ns);
    uint64_t tag = rn_usage_tag(rule->slot, hash, start_s);
    struct rn_usage_counts *counts = rn_usage_file_find(rule->file, tag);

    if (!counts || __atomic_load_n(&counts->about, __ATOMIC_ACQUIRE) == 0)
        counts = find_other(rule, start_s);
    units = units < 0 ? -bounded(-(uint64_t)units) : bounded((uint64_t)units);
    rn_usage_add(rule->file, counts, &counts->admitted, units);
}
