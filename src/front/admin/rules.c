/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules over the admin port: reading, replacing and checking them, reloading the files.
 */
#include <stdio.h>

#include "base/clock.h"
#include "front/admin/admin_internal.h"
#include "limiter/rulebook/reload.h"
#include "rules/report/report.h"

#define YAML "application/yaml"
/* In messages about rules that came with a request. */
#define NAME "rules"  /* of a text without a name */
#define NAME_SIZE 256 /* longer ones are cut */

/* --- versions ------------------------------------------------------------------------------ */

struct version {
    char tag[24]; /* "3", in quotes */
};

static struct version version_of(const struct rn_http_context *c)
{
    struct version v;

    snprintf(v.tag, sizeof v.tag, "\"%llu\"",
             (unsigned long long)ration_rules_version(c->front->limiter));
    return v;
}

/* Whether a list of tags (RFC 9110, 13.1.1: "3", "4" or *) has this one. */
static bool names_version(struct rn_slice list, const char *tag)
{
    while (list.len != 0) {
        const char *comma = memchr(list.data, ',', list.len);
        struct rn_slice word = {list.data, comma ? (size_t)(comma - list.data) : list.len};
        size_t step = comma ? word.len + 1 : word.len;

        while (word.len != 0 && (word.data[0] == ' ' || word.data[0] == '\t'))
            word.data++, word.len--;
        while (word.len != 0 && strchr(" \t", word.data[word.len - 1]))
            word.len--;
        if (rn_slice_is(word, "*") || rn_slice_is(word, tag))
            return true;
        list.data += step;
        list.len -= step;
    }
    return false;
}

/* False after answering that If-Match is for another version. */
static bool is_current(struct rn_http_context *c)
{
    struct rn_slice wanted = rn_http_find(c->request, "if-match");
    struct version v = version_of(c);

    if (!wanted.data || names_version(wanted, v.tag))
        return true;
    rn_front_http_error(c, 412, "changed", "the rules are %s now; If-Match is for %.*s", v.tag,
                        wanted.len < 80 ? (int)wanted.len : 80, wanted.data);
    return false;
}

/* --- reports --------------------------------------------------------------------------------- */

/* The lines of the report. */
static void put_warnings(struct rn_members *m, const struct ration_report *report)
{
    const char *at = report ? ration_report_text(report) : "";

    rn_members_open(m, "warnings", '[');
    while (*at) {
        size_t len = strcspn(at, "\n");

        rn_members_text(m, NULL, (struct rn_slice){at, len});
        at += len + (at[len] == '\n');
    }
    rn_members_close(m, ']');
}

static void answer_bad(struct rn_http_context *c, int code, const struct ration_report *report)
{
    unsigned long long errors = report ? ration_report_errors(report) : 0;
    struct rn_members m;
    char text[40];

    if (code == RATION_ENOMEM) {
        rn_front_http_error(c, 503, "memory", "out of memory");
        return;
    }
    m = rn_admin_begin(c);
    snprintf(text, sizeof text, "%llu error%s", errors, errors == 1 ? "" : "s");
    rn_members_text(&m, "error", RN_SLICE("bad_rules"));
    rn_members_text(&m, "message", rn_slice_of(text));
    rn_members_text(&m, "report", rn_slice_of(report ? ration_report_text(report) : ""));
    rn_front_count(&c->ws->counts->bad[RN_FRONT_ADMIN], 1);
    rn_admin_end(c, &m, 422);
}

/* 200 with the version. `note` may be NULL. */
static void answer_loaded(struct rn_http_context *c, const struct ration_report *report,
                          const char *note)
{
    struct rn_members m = rn_admin_begin(c);
    struct version v = version_of(c);

    rn_members_u64(&m, "version", ration_rules_version(c->front->limiter));
    put_warnings(&m, report);
    if (note)
        rn_members_text(&m, "note", rn_slice_of(note));
    rn_admin_end_with(c, &m, 200, "ETag", rn_slice_of(v.tag));
}

/* --- the rules as they are ------------------------------------------------------------------ */

static int put_rule(void *arg, const struct ration_rule_info *info)
{
    const struct ration_totals *totals = &info->totals;
    struct rn_members *m = arg;

    rn_members_open(m, NULL, '{');
    rn_members_text(m, "name", (struct rn_slice){info->name, info->name_len});
    rn_members_open(m, "limits", '[');
    for (uint32_t i = 0; i < info->listed; i++) {
        const struct ration_rule_limit *l = &info->limits[i];
        char text[RATION_NAME_SIZE + RATION_LIMIT_TEXT + 2];

        snprintf(text, sizeof text, "%s%s%s", l->tier, l->tier[0] ? ": " : "", l->text);
        rn_members_text(m, NULL, rn_slice_of(text));
    }
    rn_members_close(m, ']');
    if (info->listed)
        rn_members_text(m, "algorithm",
                        rn_slice_of(ration_algorithm_name(info->limits[0].algorithm)));
    rn_members_text(m, "key", rn_slice_of(info->key));
    rn_members_text(m, "mode", info->shadow ? RN_SLICE("shadow") : RN_SLICE("enforce"));
    rn_members_text(m, "file", (struct rn_slice){info->file, info->file_len});
    rn_members_u64(m, "line", info->line);
    rn_members_u64(m, "allowed", totals->allowed);
    rn_members_u64(m, "refused", totals->refused);
    rn_members_u64(m, "shadowed", totals->shadowed);
    rn_members_u64(m, "delayed", totals->delayed);
    rn_members_u64(m, "shadow_delayed", totals->shadow_delayed);
    rn_members_u64(m, "soft", totals->soft);
    rn_members_u64(m, "near", totals->near);
    rn_members_u64(m, "charged", totals->charged);
    rn_members_u64(m, "errors", totals->errors);
    rn_members_close(m, '}');
    return 0;
}

static void answer_yaml(struct rn_http_context *c, struct rn_slice text)
{
    struct version v = version_of(c);

    rn_http_put_status(c->out, 200);
    rn_http_put_header(c->out, "ETag", rn_slice_of(v.tag));
    rn_http_put_header(c->out, "Vary", RN_SLICE("Accept"));
    rn_http_put_body(c->out, c->keep_alive, c->head, YAML, text);
}

/* The first file in Envoy's format that has rules. */
static int find_envoy(void *arg, const struct ration_rule_info *info)
{
    if (info->envoy)
        *(struct rn_excerpt *)arg = rn_excerpt((struct rn_slice){info->file, info->file_len});
    return info->envoy;
}

static void answer_json(struct rn_http_context *c, struct rn_slice text)
{
    const struct rn_front_daemon *daemon = &c->front->daemon;
    struct rn_members m = rn_admin_begin(c);
    struct version v = version_of(c);

    rn_members_u64(&m, "version", ration_rules_version(c->front->limiter));
    rn_members_text(&m, "source", c->front->rules_from_api ? RN_SLICE("api") : RN_SLICE("file"));
    rn_members_open(&m, "files", '[');
    for (size_t i = 0; i < daemon->file_count; i++)
        rn_members_text(&m, NULL, rn_slice_of(daemon->files[i]));
    rn_members_close(&m, ']');
    rn_members_text(&m, "text", text);
    rn_members_open(&m, "rules", '[');
    ration_rules_each(c->front->limiter, put_rule, &m);
    rn_members_close(&m, ']');
    rn_admin_end_with(c, &m, 200, "ETag", rn_slice_of(v.tag));
}

void rn_admin_get_rules(struct rn_http_context *c)
{
    struct rn_slice accept = rn_http_find(c->request, "accept");
    bool yaml = accept.data && memmem(accept.data, accept.len, YAML, sizeof YAML - 1);
    /* The text as it was put, unless it has a secret of the daemon. */
    bool as_given = c->front->rules_from_api && !rn_limiter_has_secrets(c->front->limiter);
    struct rn_slice text = as_given ? rn_buf_slice(&c->front->rules_text) : RN_SLICE("");
    struct rn_excerpt envoy = {{'\0'}};
    char *printed = NULL;

    if (!as_given)
        ration_rules_each(c->front->limiter, find_envoy, &envoy);
    if (envoy.text[0] != '\0' && yaml) { /* putting the text back would lose them */
        rn_front_http_error(c, 409, "envoy",
                            "rules in Envoy's format, such as those of %s, have no native form and "
                            "would be missing; read the files, or GET /v1/rules as JSON",
                            envoy.text);
        return;
    }
    if (!as_given && envoy.text[0] == '\0') {
        if (ration_rules_text(c->front->limiter, &printed, &text.len) != 0) {
            rn_front_http_error(c, 503, "memory", "out of memory");
            return;
        }
        text.data = printed;
    }
    if (yaml)
        answer_yaml(c, text);
    else
        answer_json(c, text);
    ration_text_free(printed);
}

/* --- changes -------------------------------------------------------------------------------- */

int rn_front_put_rules(struct rn_front *front, const char *name, struct rn_slice text,
                       struct rn_author author, struct ration_report **report)
{
    int code = ration_rules_parse(front->limiter, name ? name : NAME, text.data, text.len, report);

    front->puts++;
    if (code != 0) {
        front->puts_failed++;
        rn_log(RN_LOG_WARN, "rules.refused", RN_LOG_AUTHOR(author),
               RN_LOG_NUMBER("errors", *report ? ration_report_errors(*report) : 0),
               RN_LOG_TEXT("kept", RN_SLICE("the former rules")));
        return code;
    }
    front->rules_from_api = true;
    front->rules_loaded_ns = rn_clock_read_ns(CLOCK_REALTIME);
    rn_buf_clear(&front->rules_text);
    rn_buf_put_slice(&front->rules_text, text);
    rn_log(RN_LOG_INFO, "rules.put", RN_LOG_AUTHOR(author),
           RN_LOG_NUMBER("version", ration_rules_version(front->limiter)),
           RN_LOG_NUMBER("bytes", text.len));
    return 0;
}

static bool has_body(struct rn_http_context *c)
{
    if (c->request->body.len != 0)
        return true;
    rn_front_http_error(c, 400, "bad_request", "the body is empty; send rules as YAML or JSON");
    return false;
}

/* ?name=FILE: the name of the text in messages. False after answering. */
static bool read_name(struct rn_http_context *c, char out[NAME_SIZE])
{
    struct rn_slice rest = c->request->query, name, value;
    char *decoded = c->ws->names; /* a target is no longer than a head */
    bool bad = false;

    rn_slice_copy(out, NAME_SIZE, RN_SLICE(NAME));
    while (!bad && rn_http_query_next(&rest, &decoded, &name, &value, &bad))
        if (rn_slice_is(name, "name") && value.len != 0)
            rn_slice_copy(out, NAME_SIZE, value);
    return !bad || rn_admin_refuse_escape(c);
}

static int note_kept(void *arg, const struct ration_team_info *info)
{
    *(bool *)arg |= info->kept;
    return 0;
}

static void reload(struct rn_http_context *c)
{
    const struct rn_front_daemon *daemon = &c->front->daemon;
    struct ration_report *report = NULL;
    int code = daemon->reload(daemon->arg, rn_admin_author(c), &report);
    const char *note = NULL;
    bool kept = false;

    ration_teams_each(c->front->limiter, note_kept, &kept);
    if (kept)
        note = "teams with errors in their files keep their former rules";
    else if (c->front->rules_from_api)
        note = "the files are in order; the rules that an operator has set stay in force";
    if (code == 0)
        answer_loaded(c, report, note);
    else
        answer_bad(c, code, report);
    ration_report_free(report);
}

/* False: the change will not outlast a restart, although there is a place to keep it. */
static bool keep_rules(const struct rn_http_context *c, struct rn_slice text)
{
    const struct rn_front_fleet *fleet = &c->front->fleet;

    return !fleet->rules_changed || fleet->rules_changed(fleet->arg, text);
}

/* How long the new rules last. */
static const char *note_on_rules(const struct rn_front *front, bool kept)
{
    if (!kept)
        return "these rules could not be saved and last until the next restart; the log says why";
    if (front->fleet.changed)
        return "these rules last on all nodes until they are replaced or deleted";
    if (front->fleet.rules_changed)
        return "these rules last until they are replaced or deleted";
    return "these rules last until the next reload or restart, since there is no --state to keep "
           "them beside";
}

void rn_admin_put_rules(struct rn_http_context *c)
{
    struct rn_slice text = c->request->body;
    struct ration_report *report = NULL;
    char name[NAME_SIZE];
    int code;

    if (!has_body(c) || !is_current(c) || !read_name(c, name))
        return;
    if (c->front->fleet.changed && text.len > c->front->fleet.rules_max) {
        rn_front_http_error(c, 413, "too_large",
                            "%zu bytes of rules; nodes share at most %zu, put more into files",
                            text.len, c->front->fleet.rules_max);
        return;
    }
    code = rn_front_put_rules(c->front, name, text, rn_admin_author(c), &report);
    if (code == 0)
        answer_loaded(c, report, note_on_rules(c->front, keep_rules(c, text)));
    else
        answer_bad(c, code, report);
    ration_report_free(report);
}

/* Goes back to the files, on all nodes that share. */
void rn_admin_delete_rules(struct rn_http_context *c)
{
    if (!is_current(c))
        return;
    if (keep_rules(c, (struct rn_slice){0}))
        reload(c);
    else
        rn_front_http_error(c, 503, "store",
                            "the rules could not be deleted from the disk; the log says why");
}

void rn_admin_validate(struct rn_http_context *c)
{
    struct rn_slice text = c->request->body;
    struct ration_report *report = NULL;
    char name[NAME_SIZE];
    struct rn_members m;
    int code;

    if (!has_body(c) || !read_name(c, name))
        return;
    code = ration_rules_validate(name, text.data, text.len, &report);
    if (code == 0) {
        m = rn_admin_begin(c);
        rn_members_bool(&m, "valid", true);
        put_warnings(&m, report);
        rn_admin_end(c, &m, 200);
    } else {
        answer_bad(c, code, report);
    }
    ration_report_free(report);
}

void rn_admin_reload(struct rn_http_context *c)
{
    if (is_current(c))
        reload(c);
}
