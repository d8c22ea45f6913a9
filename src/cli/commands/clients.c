/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration override`: another limit for one key of a rule; and `ration ban`: refuses all requests
 * with certain attributes.
 */
#include <string.h>

#include "cli/output/daemon_reply.h"
#include "cli/output/paged_list.h"

/* `ration ban …`; else `ration override …`. */
static bool is_ban(const struct rn_options *options)
{
    return strncmp(options->command->name, "ban ", 4) == 0;
}

/* --- list -------------------------------------------------------------------------- */

static void put_client(struct rn_columns *columns, const struct rn_cli_json *v)
{
    bool ban = rn_cli_json_get(v, "rule") == NULL;
    char text[RN_TIME_TEXT];

    if (!ban)
        rn_columns_text(columns, rn_cli_json_text(v, "rule"));
    rn_daemon_reply_pairs(columns, rn_cli_json_get(v, "attributes"));
    if (!ban)
        rn_columns_text(columns, rn_cli_json_text(v, "limit"));
    rn_columns_put(columns, "%s", rn_output_time(rn_cli_json_seconds(v, "expires_after"), text));
    rn_columns_text(columns, rn_cli_json_text(v, ban ? "reason" : "note"));
}

static int list(struct rn_daemon *d)
{
    static const char *const override_titles[] = {"rule", "client", "limit", "ends in", "note"};
    static const char *const ban_titles[] = {"client", "ends in", "reason"};
    bool ban = is_ban(d->options);

    return rn_paged_list_print(d,
                               &(struct rn_paged_list){.path = ban ? "/v1/bans" : "/v1/overrides",
                                                       .name = ban ? "bans" : "overrides",
                                                       .titles = ban ? ban_titles : override_titles,
                                                       .title_count = ban ? 3 : 5,
                                                       .put = put_client});
}

/* --- set, delete ------------------------------------------------------------------- */

static void put_text(struct rn_daemon *d, const char *name, const char *text)
{
    if (text == NULL)
        return;
    rn_buf_put_char(&d->body, ',');
    rn_json_put_string(&d->body, rn_slice_of(name));
    rn_buf_put_char(&d->body, ':');
    rn_json_put_string(&d->body, rn_slice_of(text));
}

static void begin_body(struct rn_daemon *d)
{
    rn_buf_put_char(&d->body, '{');
    if (!is_ban(d->options)) {
        rn_buf_put_literal(&d->body, "\"rule\":");
        rn_json_put_string(&d->body, rn_slice_of(d->options->words[0]));
        rn_buf_put_char(&d->body, ',');
    }
    rn_daemon_put_attributes(d);
}

static bool send_body(struct rn_daemon *d, const char *method)
{
    rn_buf_put_char(&d->body, '}');
    return rn_daemon_do(
        d, &(struct rn_daemon_request){
               .method = method, .target = is_ban(d->options) ? "/v1/bans" : "/v1/overrides"});
}

/* Prints the new override or ban. */
static void print_set(struct rn_daemon *d)
{
    const struct rn_options *o = d->options;
    bool ban = is_ban(o);
    struct rn_output out = rn_output_to(stdout, o);
    char text[RN_TIME_TEXT];

    rn_daemon_reply_attributes(&out, rn_cli_json_get(d->answer, "attributes"));
    if (ban) {
        rn_output_put(&out, RN_PLAIN, " is banned");
    } else {
        rn_output_put(&out, RN_PLAIN, " may have ");
        rn_output_escaped(&out, rn_cli_json_text(d->answer, "limit"));
        rn_output_put(&out, RN_PLAIN, " of %s", o->words[0]);
    }
    if (o->for_ns != 0)
        rn_output_put(&out, RN_PLAIN, " for %s", rn_output_time(o->for_ns, text));
    else if (ban)
        rn_output_put(&out, RN_PLAIN, " until the ban is deleted");
    rn_output_put(&out, RN_PLAIN, "\n");
    struct rn_slice note = ban ? rn_cli_json_text(d->answer, "note") : RN_SLICE("");

    if (note.len != 0) {
        struct rn_output err = rn_output_to(stderr, o);

        rn_output_put(&err, RN_PLAIN, "ration: note: ");
        rn_output_lines(&err, note);
        rn_output_put(&err, RN_PLAIN, "\n");
    }
}

static int set(struct rn_daemon *d)
{
    const struct rn_options *o = d->options;
    bool ban = is_ban(o);

    begin_body(d);
    if (!ban)
        put_text(d, "limit", o->limit);
    if (o->for_ns != 0) {
        rn_buf_put_literal(&d->body, ",\"for\":");
        rn_json_put_seconds(&d->body, o->for_ns);
    }
    put_text(d, ban ? "reason" : "note", ban ? o->reason : o->note);
    if (!send_body(d, "PUT"))
        return RN_EXIT_ERROR;
    if (o->json)
        rn_daemon_print(d);
    else
        print_set(d);
    return RN_EXIT_OK;
}

static int delete_one(struct rn_daemon *d)
{
    struct rn_output out = rn_output_to(stdout, d->options);

    begin_body(d);
    if (!send_body(d, "DELETE"))
        return RN_EXIT_ERROR;
    bool deleted = rn_cli_json_is_true(d->answer, "deleted");

    if (d->options->json)
        rn_daemon_print(d);
    else if (deleted)
        rn_output_put(&out, RN_PLAIN, "deleted\n");
    else
        rn_output_put(&out, RN_PLAIN, "there was no such %s\n",
                      is_ban(d->options) ? "ban" : "override");
    return deleted ? RN_EXIT_OK : RN_EXIT_REFUSED;
}

/* --- commands ------------------------------------------------------------------------ */

/* A ban without attributes would ban every client. */
static bool names_client(const struct rn_options *options)
{
    if (!is_ban(options) || options->attribute_count > 0)
        return true;
    rn_output_error("which client? write for example ration %s %s", options->command->name,
                    options->command->example);
    return false;
}

int rn_command_client_list(const struct rn_options *options)
{
    return rn_daemon_run(options, RN_PORT_ADMIN, list);
}

int rn_command_client_set(const struct rn_options *options)
{
    if (!names_client(options))
        return RN_EXIT_ERROR;
    if (is_ban(options) || options->limit != NULL)
        return rn_daemon_run(options, RN_PORT_ADMIN, set);
    rn_output_error("which limit? write for example ration override set %s",
                    options->command->example);
    return RN_EXIT_ERROR;
}

int rn_command_client_delete(const struct rn_options *options)
{
    return names_client(options) ? rn_daemon_run(options, RN_PORT_ADMIN, delete_one)
                                 : RN_EXIT_ERROR;
}
