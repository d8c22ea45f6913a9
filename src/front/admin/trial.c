/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trying rules before they are in force: those of a text that are new or differ run beside the
 * rules in force, in shadow mode (rules/print/trial.h). The first line of such rules says so, and
 * with them it is kept, shared with other nodes, and gone:
 *
 *     # trial {"since":"2026-11-19T12:00:00Z","by":"ops-anna","before":"files",
 *     "digest":"00d1f35a4c9b27e8","rules":["api.trial"]}
 *
 * `before` is what was in force: the files, or the digest of the text that an operator had put.
 * `digest` is that of the text behind the line. If somebody has changed that text, this is no trial
 * any more: its rules may refuse, and its end would lose the change.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/siphash.h"
#include "front/admin/admin_internal.h"
#include "limiter/rulebook/reload.h"
#include "rules/print/trial.h"

#define MARK "# trial "

/* --- the first line ------------------------------------------------------------------------- */

/* Slices point into `line`. */
struct mark {
    struct rn_buf line;
    struct rn_slice since, by, before, digest;
    struct rn_buf rules; /* names, each with a newline */
};

#define DIGEST_SIZE 24

static void write_digest(char out[DIGEST_SIZE], struct rn_slice text)
{
    static const struct rn_hash_key fixed = {0x747269616C, 1};

    snprintf(out, DIGEST_SIZE, "%016" PRIx64, rn_siphash(&fixed, text.data, text.len));
}

static void mark_done(struct mark *mark)
{
    rn_buf_done(&mark->line);
    rn_buf_done(&mark->rules);
}

/* Of the first line, without its end. */
static size_t line_length(struct rn_slice text)
{
    const char *end = memchr(text.data, '\n', text.len);

    return end ? (size_t)(end - text.data) : text.len;
}

/* Whether the text begins as that of a trial. Call mark_done in any case. */
static bool parse_mark(struct rn_slice text, struct mark *mark)
{
    struct rn_json_token token;
    struct rn_json json;

    *mark = (struct mark){0};
    if (!rn_slice_starts_with(text, RN_SLICE(MARK)))
        return false;
    rn_buf_put(&mark->line, text.data + sizeof MARK - 1, line_length(text) - (sizeof MARK - 1));
    rn_json_init(&json, mark->line.data, mark->line.len);
    if (mark->line.failed || rn_json_next(&json).kind != RN_JSON_OBJECT)
        return false;
    while ((token = rn_json_next(&json)).kind != RN_JSON_END && token.kind != RN_JSON_BAD) {
        if (rn_slice_is(token.name, "since"))
            mark->since = token.text;
        else if (rn_slice_is(token.name, "by"))
            mark->by = token.text;
        else if (rn_slice_is(token.name, "before"))
            mark->before = token.text;
        else if (rn_slice_is(token.name, "digest"))
            mark->digest = token.text;
        else if (token.kind == RN_JSON_ARRAY && rn_slice_is(token.name, "rules"))
            while ((token = rn_json_next(&json)).kind == RN_JSON_STRING) {
                rn_buf_put_slice(&mark->rules, token.text);
                rn_buf_put_char(&mark->rules, '\n');
            }
    }
    return token.kind == RN_JSON_END && !mark->rules.failed && mark->since.data != NULL;
}

static bool is_unchanged(struct rn_slice text, const struct mark *mark)
{
    size_t first = line_length(text);
    char digest[DIGEST_SIZE];

    first += first < text.len;
    write_digest(digest, (struct rn_slice){text.data + first, text.len - first});
    return rn_slice_is(mark->digest, digest);
}

/* Whether a trial is in force. Call mark_done in any case. */
static bool read_mark(const struct rn_front *front, struct mark *mark)
{
    struct rn_slice text = rn_buf_slice(&front->rules_text);

    if (!front->rules_from_api)
        text.len = 0;
    return parse_mark(text, mark) && is_unchanged(text, mark);
}

bool rn_admin_refuse_changed_trial(struct rn_http_context *c, struct rn_slice text)
{
    struct mark mark;
    bool refused = parse_mark(text, &mark) && !is_unchanged(text, &mark);

    if (refused)
        rn_front_http_error(c, 409, "trial",
                            "this is the text of a trial, and was changed since: its first line "
                            "says so. Put the text without this line and without the rules on "
                            "trial, or try it with POST /v1/rules/trial");
    mark_done(&mark);
    return refused;
}

/* A list of names, each with a newline. */
static void put_names(struct rn_members *m, const char *name, struct rn_slice list)
{
    rn_members_open(m, name, '[');
    while (list.len != 0) {
        size_t len = (size_t)((const char *)memchr(list.data, '\n', list.len) - list.data);

        rn_members_text(m, NULL, (struct rn_slice){list.data, len});
        list = (struct rn_slice){list.data + len + 1, list.len - len - 1};
    }
    rn_members_close(m, ']');
}

void rn_admin_put_trial(struct rn_members *m, const struct rn_front *front)
{
    struct mark mark;

    if (read_mark(front, &mark)) {
        rn_members_open(m, "trial", '{');
        rn_members_text(m, "since", mark.since);
        rn_members_text(m, "by", mark.by);
        put_names(m, "rules", rn_buf_slice(&mark.rules));
        rn_members_close(m, '}');
    } else {
        rn_members_null(m, "trial");
    }
    mark_done(&mark);
}

/* --- beginning ------------------------------------------------------------------------------ */

/* What is in force now, before a first trial. */
static struct rn_slice put_before(const struct rn_front *front, char text[24])
{
    const struct rn_version_list *list = &front->versions;
    const struct rn_version *now = rn_version_list_find(list, list->in_force);

    if (!front->rules_from_api)
        return RN_SLICE("files");
    snprintf(text, 24, "%016" PRIx64, now ? now->digest : 0);
    return rn_slice_of(text);
}

static void put_mark(struct rn_buf *out, struct rn_slice before, struct rn_author author,
                     const struct rn_trial *trial)
{
    struct rn_members m = {.out = out};
    char digest[DIGEST_SIZE];

    write_digest(digest, rn_buf_slice(&trial->text));
    rn_buf_put_literal(out, MARK);
    rn_members_open(&m, NULL, '{');
    rn_admin_put_time(&m, "since", rn_clock_read_ns(CLOCK_REALTIME));
    rn_members_text(&m, "by", author.token.data ? author.token : author.by);
    rn_members_text(&m, "before", before);
    rn_members_text(&m, "digest", rn_slice_of(digest));
    put_names(&m, "rules", rn_buf_slice(&trial->added));
    rn_members_close(&m, '}');
    rn_buf_put_char(out, '\n');
}

/* Sections that are not tried, in words. */
static void put_differences(struct rn_buf *out, unsigned differs)
{
    static const struct {
        unsigned section;
        const char *words;
    } all[] = {{RN_TRIAL_MODE, "mode"},
               {RN_TRIAL_PATHS, "paths"},
               {RN_TRIAL_ATTRIBUTES, "attributes of the same name"},
               {RN_TRIAL_SIGNALS, "signals of the same name"},
               {RN_TRIAL_LISTS, "allow and deny"}};
    const char *before = "";

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!(differs & all[i].section))
            continue;
        rn_buf_putf(out, "%s%s", before, all[i].words);
        before = ", ";
    }
}

static void put_trial(struct rn_members *m, void *arg)
{
    const struct rn_trial *trial = arg;

    put_names(m, "added", rn_buf_slice(&trial->added));
    put_names(m, "changed", rn_buf_slice(&trial->changed));
    put_names(m, "removed", rn_buf_slice(&trial->removed));
}

static void refuse_empty(struct rn_http_context *c, const struct rn_trial *trial)
{
    struct rn_buf differences = {0};

    put_differences(&differences, trial->differs);
    if (trial->removed.len != 0)
        rn_buf_putf(&differences, "%srules that this text lacks", trial->differs ? ", " : "");
    rn_buf_put_char(&differences, '\0');
    rn_front_http_error(c, 400, "nothing_to_try",
                        "no rule of this text is new or differs from those in force%s%s",
                        differences.len > 1 ? "; what differs cannot be tried: " : "",
                        differences.failed ? "" : differences.data);
    rn_buf_done(&differences);
}

static void put_in_force(struct rn_http_context *c, const struct mark *former,
                         const struct rn_trial *trial)
{
    struct rn_author author = rn_admin_author(c);
    struct rn_buf text = {0}, note = {0};
    char digest[24];
    struct rn_slice before = former->before.data ? former->before : put_before(c->front, digest);

    put_mark(&text, before, author, trial);
    rn_buf_put_slice(&text, rn_buf_slice(&trial->text));
    if (trial->differs != 0) {
        rn_buf_put_literal(&note, "as they would change the rules in force, these differences are "
                                  "not tried: ");
        put_differences(&note, trial->differs);
    }
    if (text.failed)
        rn_front_http_error(c, 503, "memory", "out of memory");
    else if (rn_admin_change_rules(c, &(struct rn_rules_change){.name = "the rules with a trial",
                                                                .text = rn_buf_slice(&text),
                                                                .how = RN_VERSION_TRIAL,
                                                                .note = rn_buf_slice(&note),
                                                                .put_more = put_trial,
                                                                .arg = (void *)trial}))
        rn_admin_log(c, "rules.trial",
                     RN_LOG_NUMBER("version", ration_rules_version(c->front->limiter)));
    rn_buf_done(&text);
    rn_buf_done(&note);
}

void rn_admin_begin_trial(struct rn_http_context *c)
{
    struct ration_report *report = NULL;
    struct rn_trial trial = {0};
    struct rn_excerpt envoy = {{'\0'}};
    char name[RN_ADMIN_RULES_NAME];
    struct mark former;

    if (!rn_admin_has_rules(c) || !rn_admin_rules_are_current(c) || !rn_admin_read_name(c, name))
        return;
    if (rn_admin_find_envoy(c->front, &envoy)) {
        rn_front_http_error(c, 409, "envoy",
                            "rules in Envoy's format are in force, such as those of %s; they have "
                            "no native form, so nothing can be tried beside them. They have a "
                            "shadow mode of their own: shadow_mode: true",
                            envoy.text);
        return;
    }
    read_mark(c->front, &former);
    int code = rn_reload_make_trial(c->front->limiter, name, c->request->body,
                                    rn_buf_slice(&former.rules), &trial, &report);

    if (code != 0)
        rn_admin_answer_bad_rules(c, code, report);
    else if (trial.added.len == 0)
        refuse_empty(c, &trial);
    else
        put_in_force(c, &former, &trial);
    ration_report_free(report);
    rn_trial_done(&trial);
    mark_done(&former);
}

/* --- the end -------------------------------------------------------------------------------- */

/* The text that was in force before: as it was put, or if it is not kept any more, its rules. */
static bool find_text(struct rn_front *front, const struct mark *mark, struct rn_buf *text)
{
    char digest[24] = "";
    const struct rn_version *version;

    rn_slice_copy(digest, sizeof digest, mark->before);
    version = rn_version_list_find_text(&front->versions, strtoull(digest, NULL, 16));
    if (!version)
        return rn_reload_without_trial(front->limiter, rn_buf_slice(&mark->rules), text) == 0;
    rn_buf_put_slice(text, rn_buf_slice(&version->text));
    return !text->failed;
}

/* Answers, too. */
static bool end_trial(struct rn_http_context *c, const struct mark *mark)
{
    struct rn_buf text = {0};
    bool ended = false;

    if (rn_slice_is(mark->before, "files"))
        return rn_admin_use_files(c, RN_VERSION_TRIAL);
    if (find_text(c->front, mark, &text))
        ended =
            rn_admin_change_rules(c, &(struct rn_rules_change){.name = "the rules before the trial",
                                                               .text = rn_buf_slice(&text),
                                                               .how = RN_VERSION_TRIAL});
    else
        rn_front_http_error(c, 503, "memory", "out of memory");
    rn_buf_done(&text);
    return ended;
}

void rn_admin_end_trial(struct rn_http_context *c)
{
    struct mark mark;

    if (!rn_admin_rules_are_current(c))
        return;
    if (!read_mark(c->front, &mark))
        rn_front_http_error(c, 404, "no_trial", "no rules are on trial");
    else if (end_trial(c, &mark))
        rn_admin_log(c, "rules.trial_ended",
                     RN_LOG_NUMBER("version", ration_rules_version(c->front->limiter)));
    mark_done(&mark);
}
