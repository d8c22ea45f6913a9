/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replacing the rules over the admin port: by a text, or by those of the files.
 */
#include <stdio.h>

#include "base/clock.h"
#include "front/admin/admin_internal.h"

#define NAME "rules" /* in messages, of a text without a name */

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

/* --- by a text ------------------------------------------------------------------------------ */

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

/* What to know of the new rules: that of the change, and how long they last. */
static void put_note(struct rn_members *m, struct rn_slice note, const char *lasting)
{
    struct rn_buf text = {0};

    rn_buf_put_slice(&text, note);
    if (note.len != 0)
        rn_buf_put_literal(&text, "; ");
    rn_buf_put_slice(&text, rn_slice_of(lasting));
    rn_members_text(m, "note", rn_buf_slice(&text));
    rn_buf_done(&text);
}

bool rn_admin_change_rules(struct rn_http_context *c, const struct rn_rules_change *change)
{
    struct rn_front *front = c->front;
    struct rn_author author = rn_admin_author(c);
    struct ration_report *report = NULL;

    if (front->fleet.changed && change->text.len > front->fleet.rules_max) {
        rn_front_http_error(c, 413, "too_large",
                            "%zu bytes of rules; nodes share at most %zu, put more into files",
                            change->text.len, front->fleet.rules_max);
        return false;
    }
    int code = rn_front_put_rules(front, change->name, change->text, author, &report);

    if (code == 0) {
        const char *lasting = note_on_rules(front, keep_rules(c, change->text));
        struct rn_members m = rn_admin_begin_loaded(c, report);

        rn_front_note_rules(front, author, change->how, change->of);
        if (change->put_more)
            change->put_more(&m, change->arg);
        put_note(&m, change->note, lasting);
        rn_admin_end_loaded(c, &m);
    } else {
        rn_admin_answer_bad_rules(c, code, report);
    }
    ration_report_free(report);
    return code == 0;
}

void rn_admin_put_rules(struct rn_http_context *c)
{
    char name[RN_ADMIN_RULES_NAME];

    if (rn_admin_has_rules(c) && rn_admin_rules_are_current(c) && rn_admin_read_name(c, name) &&
        !rn_admin_refuse_changed_trial(c, c->request->body))
        rn_admin_change_rules(c, &(struct rn_rules_change){.name = name,
                                                           .text = c->request->body,
                                                           .how = RN_VERSION_PUT});
}

/* --- by the files --------------------------------------------------------------------------- */

static int note_kept(void *arg, const struct ration_team_info *info)
{
    *(bool *)arg |= info->kept;
    return 0;
}

static bool reload(struct rn_http_context *c, enum rn_version_how how)
{
    const struct rn_front_daemon *daemon = &c->front->daemon;
    struct rn_author author = rn_admin_author(c);
    struct ration_report *report = NULL;
    int code = daemon->reload(daemon->arg, author, &report);
    const char *note = NULL;
    bool kept = false;

    ration_teams_each(c->front->limiter, note_kept, &kept);
    if (kept)
        note = "teams with errors in their files keep their former rules";
    else if (c->front->rules_from_api)
        note = "the files are in order; the rules that an operator has set stay in force";
    if (code == 0) {
        struct rn_members m = rn_admin_begin_loaded(c, report);

        rn_front_note_rules(c->front, author, how, 0);
        if (note)
            rn_members_text(&m, "note", rn_slice_of(note));
        rn_admin_end_loaded(c, &m);
    } else {
        rn_admin_answer_bad_rules(c, code, report);
    }
    ration_report_free(report);
    return code == 0;
}

bool rn_admin_use_files(struct rn_http_context *c, enum rn_version_how how)
{
    if (keep_rules(c, (struct rn_slice){0}))
        return reload(c, how);
    rn_front_http_error(c, 503, "store",
                        "the rules could not be deleted from the disk; the log says why");
    return false;
}

void rn_admin_delete_rules(struct rn_http_context *c)
{
    if (rn_admin_rules_are_current(c))
        rn_admin_use_files(c, RN_VERSION_DELETE);
}

void rn_admin_reload(struct rn_http_context *c)
{
    if (rn_admin_rules_are_current(c))
        reload(c, RN_VERSION_FILES);
}
