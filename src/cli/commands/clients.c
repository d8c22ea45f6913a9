/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration override`: another limit for one key of a rule; and `ration ban`: refuses all requests
 * with certain attributes.
 */
#include <inttypes.h>
#include <string.h>

#include "cli/client/daemon.h"
#include "cli/output/columns.h"
#include "cli/output/daemon_reply.h"

/* Entries of a page. Each page costs the daemon a walk over all; it may end one earlier. */
#define PAGE_MAX 10000

/* `ration ban …`; else `ration override …`. */
static bool is_ban(const struct rn_options *options)
{
    return strncmp(options->command->name, "ban ", 4) == 0;
}

static const char *path_of(const struct rn_options *options)
{
    return is_ban(options) ? "/v1/bans" : "/v1/overrides";
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

/* Asks for the entries after id `after` (0: from the start), and adds them to the table or prints
 * them as JSON. False after an error message. */
static bool put_page(struct rn_daemon *d, uint64_t after, struct rn_columns *columns, bool *any)
{
    const char *name = is_ban(d->options) ? "bans" : "overrides";
    const struct rn_cli_json *entry = NULL;
    struct rn_buf target = {0}, json = {0};
    bool ok = false;

    rn_buf_putf(&target, "%s?limit=%d&after=%" PRIu64, path_of(d->options), PAGE_MAX, after);
    if (d->options->rule != NULL) {
        rn_buf_put_literal(&target, "&rule=");
        rn_cli_http_put_escaped(&target, rn_slice_of(d->options->rule));
    }
    rn_buf_put_char(&target, '\0');
    if (!target.failed)
        ok = rn_daemon_do(d, &(struct rn_daemon_request){.method = "GET", .target = target.data});
    if (ok && d->options->json && after == 0)
        rn_buf_putf(&json, "{\"%s\":[", name);
    for (entry = ok ? rn_cli_json_list(d->answer, name) : NULL; entry; entry = entry->next) {
        if (d->options->json) {
            rn_buf_put_literal(&json, "\n");
            rn_buf_put(&json, ",", *any);
            rn_cli_json_write(&json, entry);
        } else {
            put_client(columns, entry);
        }
        *any = true;
    }
    fwrite(json.data, 1, json.len, stdout);
    if (target.failed || columns->text.failed || json.failed) {
        rn_output_error("out of memory");
        ok = false;
    }
    rn_buf_done(&target);
    rn_buf_done(&json);
    return ok;
}

/* Page by page: the list may be too long for one answer. */
int rn_command_client_list(struct rn_daemon *d)
{
    static const char *const override_titles[] = {"rule", "client", "limit", "ends in", "note"};
    static const char *const ban_titles[] = {"client", "ends in", "reason"};
    bool ban = is_ban(d->options);
    struct rn_output out = rn_output_to(stdout, d->options);
    bool json = d->options->json, any = false, ok, more;
    struct rn_columns columns;
    uint64_t next = 0, automatic = 0;

    rn_columns_init(&columns, ban ? ban_titles : override_titles, ban ? 3 : 5);
    do {
        uint64_t after = next;

        ok = put_page(d, after, &columns, &any);
        more = ok && rn_cli_json_u64(d->answer, "next", &next) && next > after;
        if (more && !json)
            rn_columns_flush(&columns, &out);
    } while (more);
    if (ok && json)
        printf("]}\n");
    else if (ok && any)
        rn_columns_write(&columns, &out, 0);
    else if (ok)
        rn_output_put(&out, RN_PLAIN, "no %s\n", ban ? "bans" : "overrides");
    if (ok && !json && rn_cli_json_u64(d->answer, "automatic", &automatic) && automatic != 0)
        rn_output_put(&out, RN_DIM,
                      "rules ban %" PRIu64 " client%s: ration reputation list --banned\n",
                      automatic, automatic == 1 ? "" : "s");
    rn_columns_done(&columns);
    return ok ? RN_EXIT_OK : RN_EXIT_ERROR;
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

/* False after an error message: a ban without attributes would ban every client. */
static bool begin_body(struct rn_daemon *d)
{
    const struct rn_options *o = d->options;

    if (is_ban(o) && o->attribute_count == 0)
        return rn_output_error("which client? write for example ration %s %s", o->command->name,
                               o->command->example);
    rn_buf_put_char(&d->body, '{');
    rn_daemon_put_attributes(d);
    if (!is_ban(o))
        put_text(d, "rule", o->words[0]);
    return true;
}

static bool send_body(struct rn_daemon *d, const char *method)
{
    rn_buf_put_char(&d->body, '}');
    return rn_daemon_do(
        d, &(struct rn_daemon_request){.method = method, .target = path_of(d->options)});
}

/* Prints the new override or ban. */
static void print_set(struct rn_daemon *d)
{
    const struct rn_options *o = d->options;
    bool ban = is_ban(o);
    struct rn_output out = rn_output_to(stdout, o), err = rn_output_to(stderr, o);
    struct rn_slice note = ban ? rn_cli_json_text(d->answer, "note") : RN_SLICE("");
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
    if (note.len != 0) {
        rn_output_put(&err, RN_PLAIN, "ration: note: ");
        rn_output_lines(&err, note);
        rn_output_put(&err, RN_PLAIN, "\n");
    }
}

int rn_command_client_set(struct rn_daemon *d)
{
    const struct rn_options *o = d->options;
    bool ban = is_ban(o);

    if (!ban && o->limit == NULL) {
        rn_output_error("which limit? write for example ration override set %s",
                        o->command->example);
        return RN_EXIT_ERROR;
    }
    if (!begin_body(d))
        return RN_EXIT_ERROR;
    if (o->for_ns != 0) {
        rn_buf_put_literal(&d->body, ",\"for\":");
        rn_json_put_seconds(&d->body, o->for_ns);
    }
    put_text(d, "limit", ban ? NULL : o->limit);
    put_text(d, ban ? "reason" : "note", ban ? o->reason : o->note);
    if (!send_body(d, "PUT"))
        return RN_EXIT_ERROR;
    if (o->json)
        rn_daemon_print(d);
    else
        print_set(d);
    return RN_EXIT_OK;
}

int rn_command_client_delete(struct rn_daemon *d)
{
    struct rn_output out = rn_output_to(stdout, d->options);
    bool deleted;

    if (!begin_body(d) || !send_body(d, "DELETE"))
        return RN_EXIT_ERROR;
    deleted = rn_cli_json_is_true(d->answer, "deleted");
    if (d->options->json)
        rn_daemon_print(d);
    else if (deleted)
        rn_output_put(&out, RN_PLAIN, "deleted\n");
    else
        rn_output_put(&out, RN_PLAIN, "there was no such %s\n",
                      is_ban(d->options) ? "ban" : "override");
    return deleted ? RN_EXIT_OK : RN_EXIT_REFUSED;
}
