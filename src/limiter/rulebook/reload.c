/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading rules and putting them in the place of others, and the report about them.
 */
#include "limiter/rulebook/reload.h"

#include <stdlib.h>

#include <ration/rules.h>

#include "base/buf.h"
#include "base/error.h"
#include "limiter/effect/effect.h"
#include "limiter/factor.h"
#include "limiter/limiter.h"
#include "limiter/line/gate.h"
#include "rules/report/report.h"

/* --- reports ------------------------------------------------------------------------ */

struct ration_report {
    size_t errors, warnings;
    struct rn_buf text;              /* with a NUL at the end */
    struct ration_diagnostic *items; /* in the arena, as their texts are */
    size_t item_count;
    struct rn_arena arena;
};

static void append(void *context, const char *text, size_t len)
{
    rn_buf_put(context, text, len);
}

/* Frees `said`, and gives it to the caller as a report if `out` is not NULL. Without memory for all
 * items, the text has to do. Returns `code`. */
static int finish(struct rn_report *said, int code, struct ration_report **out)
{
    struct ration_report *report = out ? calloc(1, sizeof *report) : NULL;

    if (report) {
        report->errors = said->count[RN_ERROR];
        report->warnings = said->count[RN_WARNING];
        rn_report_write(said, append, &report->text);
        rn_buf_put_char(&report->text, '\0');
        report->items = rn_arena_calloc(&report->arena, said->kept_count, sizeof *report->items);
    }
    for (uint32_t i = 0; report && report->items && i < said->kept_count; i++) {
        const struct rn_diagnostic *d = &said->kept[i];
        bool has_file = d->at.file < said->file_count;
        struct rn_slice file =
            rn_arena_dup(&report->arena, has_file ? said->files[d->at.file].name : RN_SLICE(""));
        struct rn_slice message = rn_arena_dup(&report->arena, rn_slice_of(d->message));

        if (!file.data || !message.data)
            break;
        report->items[report->item_count++] =
            (struct ration_diagnostic){.is_error = d->severity == RN_ERROR,
                                       .file = file.data,
                                       .line = d->at.line,
                                       .column = d->at.column,
                                       .message = message.data};
    }
    if (out)
        *out = report;
    rn_report_done(said);
    return code;
}

const char *ration_report_text(const struct ration_report *report)
{
    return report && !report->text.failed ? report->text.data : "";
}

size_t ration_report_errors(const struct ration_report *report)
{
    return report ? report->errors : 0;
}

size_t ration_report_warnings(const struct ration_report *report)
{
    return report ? report->warnings : 0;
}

void ration_report_each(const struct ration_report *report,
                        int (*see)(void *arg, const struct ration_diagnostic *d), void *arg)
{
    for (size_t i = 0; report && i < report->item_count; i++)
        if (see(arg, &report->items[i]) != 0)
            return;
}

void ration_report_free(struct ration_report *report)
{
    if (report) {
        rn_buf_done(&report->text);
        rn_arena_done(&report->arena);
    }
    free(report);
}

/* --- rules ---------------------------------------------------------------------------- */

/* Finds what the rules of a book share with other processes. */
static int attach(struct ration *r, struct rn_book *book, struct ration_error *error)
{
    if (r->watches_effects && !(book->effects = rn_effect_new(book->ruleset)))
        return rn_error_set(error, RATION_ENOMEM, 0, "out of memory");
    if (!rn_factor_attach(book, r->table))
        return rn_error_set(error, RATION_EBOARD, 0, "%s", ration_error_text(RATION_EBOARD));
    if (rn_clients_fill(&r->clients, book) != 0)
        return rn_error_set(error, RATION_ENOMEM, 0, "out of memory");
    struct ration_error usage;
    int code = rn_usage_open(r, book->ruleset, &usage);

    if (code == 0)
        code = rn_usage_attach(r, book, &usage);
    if (code == 0)
        code = rn_reputation_open(r, book->ruleset, error);
    if (usage.text[0] != '\0' && error->text[0] == '\0')
        *error = usage; /* or a notice */
    return code;
}

static bool have_lines(const struct rn_ruleset *ruleset)
{
    for (uint32_t i = 0; i < ruleset->rule_count; i++)
        if (ruleset->rules[i].line_size != 0)
            return true;
    return false;
}

int rn_reload_install(struct ration *r, struct rn_ruleset *ruleset, int64_t now_ns,
                      struct ration_error *error)
{
    *error = (struct ration_error){0};
    pthread_mutex_lock(&r->clients.lock);
    pthread_mutex_lock(&r->shelf.lock);
    /* Only this function replaces it, so it need not be pinned. */
    const struct rn_book *current = __atomic_load_n(&r->shelf.book, __ATOMIC_RELAXED);
    struct rn_book *book = rn_book_new(ruleset, &r->secret, current, now_ns);

    int code =
        book ? attach(r, book, error) : rn_error_set(error, RATION_ENOMEM, 0, "out of memory");

    if (!book)
        rn_ruleset_free(ruleset);
    if (code != 0) {
        rn_book_free(book);
    } else {
        book->version = current ? current->version + 1 : 1;
        struct rn_book *old = rn_pin_shelf_swap(&r->shelf, &r->stats, book);

        /* `current`: also if it is stuck on the shelf. */
        if (current)
            rn_book_carry(book, current);
        rn_limiter_set_capacity(r, ruleset);
        __atomic_store_n(&r->lines_in_rules, have_lines(ruleset), __ATOMIC_RELAXED);
        rn_book_free(old);
        if (ruleset->teams) {
            rn_teams_free(r->teams);
            r->teams = ruleset->teams;
            ruleset->teams = NULL;
        }
    }
    pthread_mutex_unlock(&r->shelf.lock);
    pthread_mutex_unlock(&r->clients.lock);
    rn_gate_poke_all(r, now_ns);
    return code;
}

/* Why there is no ruleset. */
static int fault_of(const struct rn_report *said)
{
    return said->count[RN_ERROR] != 0 ? RATION_EPARSE : RATION_ENOMEM;
}

static int install(struct ration *r, struct rn_ruleset *ruleset, struct rn_report *said)
{
    struct ration_error error;

    if (ruleset && !rn_usage_prepare(r, ruleset, said)) {
        rn_ruleset_free(ruleset);
        ruleset = NULL;
    }
    if (!ruleset)
        return fault_of(said);
    int code = rn_reload_install(r, ruleset, rn_limiter_now(r, RATION_NOW), &error);

    if (code != 0 && code != RATION_ENOMEM && code != RATION_EBOARD)
        rn_report_error(said, (struct rn_place){.file = RN_REPORT_NO_FILE}, "%s", error.text);
    return code;
}

static struct rn_ruleset *read_files(struct ration *r, const char *const *paths, size_t count,
                                     struct rn_report *said)
{
    rn_report_init(said);
    return rn_ruleset_reload(paths, count, r->teams, &r->host, said);
}

int ration_rules_load(struct ration *r, const char *const *paths, size_t count,
                      struct ration_report **report)
{
    struct rn_report said;

    pthread_mutex_lock(&r->load_lock); /* only loading replaces `teams` */
    int code = install(r, read_files(r, paths, count, &said), &said);

    pthread_mutex_unlock(&r->load_lock);
    return finish(&said, code, report);
}

int rn_reload_try(struct ration *r, const char *const *paths, size_t count,
                  struct ration_report **report)
{
    struct rn_report said;

    pthread_mutex_lock(&r->load_lock);
    struct rn_ruleset *ruleset = read_files(r, paths, count, &said);

    pthread_mutex_unlock(&r->load_lock);
    bool fits = ruleset && rn_usage_fits(ruleset, r->usage.state_path != NULL, &said);
    int code = fits ? 0 : fault_of(&said);

    rn_ruleset_free(ruleset);
    return finish(&said, code, report);
}

int ration_rules_parse(struct ration *r, const char *name, const char *text, size_t len,
                       struct ration_report **report)
{
    struct rn_report said;

    rn_report_init(&said);
    struct rn_ruleset *ruleset =
        rn_ruleset_parse_for(&r->host, rn_slice_of(name), (struct rn_slice){text, len}, &said);

    return finish(&said, install(r, ruleset, &said), report);
}

int rn_reload_validate(const char *name, struct rn_slice text, struct ration_report **report,
                       uint32_t *count)
{
    struct rn_report said;

    rn_report_init(&said);
    struct rn_ruleset *ruleset = rn_ruleset_parse(rn_slice_of(name), text, &said);
    int code = ruleset ? 0 : fault_of(&said);

    if (ruleset)
        *count = ruleset->rule_count;
    rn_ruleset_free(ruleset);
    return finish(&said, code, report);
}

int ration_rules_validate(const char *name, const char *text, size_t len,
                          struct ration_report **report)
{
    uint32_t count;

    return rn_reload_validate(name, (struct rn_slice){text, len}, report, &count);
}

int rn_reload_make_trial(struct ration *r, const char *name, struct rn_slice text,
                         struct rn_slice ended, struct rn_trial *trial,
                         struct ration_report **report)
{
    struct rn_pin pin = rn_pin_take_counted(&r->shelf);
    struct rn_report said;

    rn_report_init(&said);
    struct rn_ruleset *ruleset = rn_ruleset_parse_for(&r->host, rn_slice_of(name), text, &said);
    bool made =
        ruleset && pin.book && rn_trial_make(pin.book->ruleset, ruleset, ended, &said, trial);
    int code = made ? 0 : fault_of(&said);

    rn_pin_drop(&pin);
    rn_ruleset_free(ruleset);
    return finish(&said, code, report);
}

int rn_reload_without_trial(struct ration *r, struct rn_slice ended, struct rn_buf *text)
{
    struct rn_pin pin = rn_pin_take_counted(&r->shelf);
    bool made = pin.book && rn_trial_end(pin.book->ruleset, ended, text);

    rn_pin_drop(&pin);
    return made ? 0 : RATION_ENOMEM;
}

uint64_t ration_rules_version(const struct ration *r)
{
    return __atomic_load_n(&r->shelf.version, __ATOMIC_ACQUIRE);
}

void ration_teams_each(struct ration *r, int (*see)(void *arg, const struct ration_team_info *info),
                       void *arg)
{
    pthread_mutex_lock(&r->shelf.lock);
    for (uint32_t i = 1; r->teams && i < r->teams->count; i++) { /* 0 is the root */
        const struct rn_team *team = &r->teams->items[i];

        if (see(arg, &(struct ration_team_info){.name = team->name.data,
                                                .name_len = team->name.len,
                                                .kept = team->kept,
                                                .errors = team->errors}) != 0)
            break;
    }
    pthread_mutex_unlock(&r->shelf.lock);
}

int ration_rule_totals(struct ration *r, const char *name, size_t len, struct ration_totals *totals)
{
    int code = RATION_EINVAL;

    pthread_mutex_lock(&r->shelf.lock);
    const struct rn_book *book = __atomic_load_n(&r->shelf.book, __ATOMIC_RELAXED);
    const struct rn_rule *rule = book ? rn_book_find(book, (struct rn_slice){name, len}) : NULL;

    if (rule) {
        struct rn_counts sum;

        rn_book_totals(book, rule, &sum);
        rn_stats_set_totals(totals, &sum);
        code = 0;
    }
    pthread_mutex_unlock(&r->shelf.lock);
    return code;
}
