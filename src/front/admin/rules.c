/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules over the admin port: reading and checking them, and reports about them. rule_changes.c
 * replaces them.
 */
#include <stdio.h>

#include "front/admin/admin_internal.h"
#include "front/http/static_documents.h"
#include "limiter/rulebook/reload.h"
#include "rules/report/report.h"
#include "wire/schema.h"

#define YAML "application/yaml"

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

bool rn_admin_rules_are_current(struct rn_http_context *c)
{
    struct rn_slice wanted = rn_http_find(c->request, "if-match");
    struct version v = version_of(c);

    if (!wanted.data || rn_static_documents_has_tag(wanted, v.tag, false))
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

static int put_diagnostic(void *arg, const struct ration_diagnostic *d)
{
    struct rn_members *m = arg;

    rn_members_open(m, NULL, '{');
    rn_members_text(m, "file", rn_slice_of(d->file));
    rn_members_u64(m, "line", d->line);
    rn_members_u64(m, "column", d->column);
    rn_members_text(m, "severity", d->is_error ? RN_SLICE("error") : RN_SLICE("warning"));
    rn_members_text(m, "message", rn_slice_of(d->message));
    rn_members_close(m, '}');
    return 0;
}

/* For programs that mark the lines of a text, such as editors. */
static void put_diagnostics(struct rn_members *m, const struct ration_report *report)
{
    rn_members_open(m, "diagnostics", '[');
    ration_report_each(report, put_diagnostic, m);
    rn_members_close(m, ']');
}

void rn_admin_answer_bad_rules(struct rn_http_context *c, int code,
                               const struct ration_report *report)
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
    put_diagnostics(&m, report);
    rn_front_count(&c->ws->counts->bad[RN_FRONT_ADMIN], 1);
    rn_admin_end(c, &m, 422);
}

struct rn_members rn_admin_begin_loaded(struct rn_http_context *c,
                                        const struct ration_report *report)
{
    struct rn_members m = rn_admin_begin(c);

    rn_members_u64(&m, "version", ration_rules_version(c->front->limiter));
    put_warnings(&m, report);
    return m;
}

void rn_admin_end_loaded(struct rn_http_context *c, struct rn_members *m)
{
    struct version v = version_of(c);

    rn_admin_end_with(c, m, 200, "ETag", rn_slice_of(v.tag));
}

/* --- the rules as they are ------------------------------------------------------------------ */

void rn_admin_put_rule_info(struct rn_members *m, const struct ration_rule_info *info)
{
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
}

static int put_rule(void *arg, const struct ration_rule_info *info)
{
    const struct ration_totals *totals = &info->totals;
    struct rn_members *m = arg;

    rn_members_open(m, NULL, '{');
    rn_admin_put_rule_info(m, info);
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
static int see_envoy(void *arg, const struct ration_rule_info *info)
{
    if (info->envoy)
        *(struct rn_excerpt *)arg = rn_excerpt((struct rn_slice){info->file, info->file_len});
    return info->envoy;
}

bool rn_admin_find_envoy(struct rn_front *front, struct rn_excerpt *file)
{
    file->text[0] = '\0';
    ration_rules_each(front->limiter, see_envoy, file);
    return file->text[0] != '\0';
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
    rn_admin_put_trial(&m, c->front);
    rn_members_open(&m, "rules", '[');
    ration_rules_each(c->front->limiter, put_rule, &m);
    rn_members_close(&m, ']');
    rn_admin_end_with(c, &m, 200, "ETag", rn_slice_of(v.tag));
}

/* The schema is that of the program: it changes when rationd does. */
void rn_admin_get_schema(struct rn_http_context *c)
{
    rn_http_put_status(c->out, 200);
    rn_http_put_header(c->out, "Cache-Control", RN_SLICE("max-age=3600"));
    rn_http_put_body(c->out, c->keep_alive, c->head, "application/schema+json", rn_schema_json);
}

int rn_admin_rules_text(struct rn_front *front, struct rn_rules_text *out)
{
    /* The text as it was put, unless it has a secret of the daemon. */
    bool as_given = front->rules_from_api && !rn_limiter_has_secrets(front->limiter);

    *out = (struct rn_rules_text){0};
    if (as_given) {
        out->text = rn_buf_slice(&front->rules_text);
        return 0;
    }
    rn_admin_find_envoy(front, &out->envoy);
    int code = ration_rules_text(front->limiter, &out->printed, &out->text.len);

    out->text.data = out->printed;
    return code;
}

void rn_admin_get_rules(struct rn_http_context *c)
{
    struct rn_slice accept = rn_http_find(c->request, "accept");
    bool yaml = accept.data && memmem(accept.data, accept.len, YAML, sizeof YAML - 1);
    struct rn_rules_text rules;

    if (rn_admin_rules_text(c->front, &rules) != 0) {
        rn_front_http_error(c, 503, "memory", "out of memory");
        return;
    }
    bool lacks_some = rules.envoy.text[0] != '\0'; /* putting the text back would lose them */

    if (yaml && lacks_some)
        rn_front_http_error(c, 409, "envoy",
                            "rules in Envoy's format, such as those of %s, have no native form and "
                            "would be missing; read the files, or GET /v1/rules as JSON",
                            rules.envoy.text);
    else if (yaml)
        answer_yaml(c, rules.text);
    else
        answer_json(c, lacks_some ? RN_SLICE("") : rules.text);
    ration_text_free(rules.printed);
}

/* --- checking ------------------------------------------------------------------------------- */

bool rn_admin_has_rules(struct rn_http_context *c)
{
    if (c->request->body.len != 0)
        return true;
    rn_front_http_error(c, 400, "bad_request", "the body is empty; send rules as YAML or JSON");
    return false;
}

bool rn_admin_read_name(struct rn_http_context *c, char out[RN_ADMIN_RULES_NAME])
{
    struct rn_slice rest = c->request->query, name, value;
    char *decoded = c->ws->names; /* a target is no longer than a head */
    bool bad = false;

    rn_slice_copy(out, RN_ADMIN_RULES_NAME, RN_SLICE("rules"));
    while (!bad && rn_http_query_next(&rest, &decoded, &name, &value, &bad))
        if (rn_slice_is(name, "name") && value.len != 0)
            rn_slice_copy(out, RN_ADMIN_RULES_NAME, value);
    return !bad || rn_admin_refuse_escape(c);
}

void rn_admin_validate(struct rn_http_context *c)
{
    struct rn_slice text = c->request->body;
    struct ration_report *report = NULL;
    char name[RN_ADMIN_RULES_NAME];
    struct rn_members m;
    uint32_t count = 0;
    int code;

    if (!rn_admin_has_rules(c) || !rn_admin_read_name(c, name))
        return;
    code = rn_reload_validate(name, text, &report, &count);
    if (code == 0) {
        m = rn_admin_begin(c);
        rn_members_bool(&m, "valid", true);
        rn_members_u64(&m, "rules", count);
        put_warnings(&m, report);
        put_diagnostics(&m, report);
        rn_admin_end(c, &m, 200);
    } else {
        rn_admin_answer_bad_rules(c, code, report);
    }
    ration_report_free(report);
}
