/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration rules`: the rules of a running daemon; `ration shadow`: its shadow mode;
 * `ration health`: whether it takes requests.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/client/daemon.h"
#include "cli/output/columns.h"
#include "rules/report/report.h"
#include "rules/yaml/document.h"

/* Reads the file, or standard input for -, into the body. */
static bool read_file(struct rn_daemon *d)
{
    const char *name = d->options->words[0];
    bool from_stdin = strcmp(name, "-") == 0;
    char problem[RN_FILE_PROBLEM];
    int fd = from_stdin ? STDIN_FILENO : rn_file_open(name, problem);
    FILE *file = from_stdin ? stdin : fd >= 0 ? fdopen(fd, "r") : NULL;
    bool ok = file != NULL;

    while (ok && d->body.len <= RN_DOCUMENT_BYTES) {
        char *room = rn_buf_reserve(&d->body, 1 << 16);
        size_t got = room == NULL ? 0 : fread(room, 1, 1 << 16, file);

        d->body.len += got;
        if (got == 0)
            break;
    }
    ok = ok && !ferror(file) && !d->body.failed;
    if (!ok)
        rn_output_error("%s cannot be read: %s", rn_excerpt(rn_slice_of(name)).text,
                        fd < 0 ? problem : strerror(errno));
    if (file != NULL && file != stdin)
        fclose(file);
    if (ok && d->body.len == 0) {
        rn_output_error("%s is empty; expected rules", rn_excerpt(rn_slice_of(name)).text);
        ok = false;
    }
    return ok;
}

/* Prints errors and warnings of the rules. */
static void put_report(const struct rn_output *out, struct rn_slice report)
{
    rn_output_lines(out, report);
    if (report.len > 0 && report.data[report.len - 1] != '\n')
        rn_output_put(out, RN_PLAIN, "\n");
}

/* Sends the request and prints the answer: `rules version 4` and notes; or why the rules are bad,
 * or that they have another version. Returns the exit status. */
static int change(struct rn_daemon *d, const struct rn_daemon_request *request, const char *done)
{
    const struct rn_options *o = d->options;
    struct rn_output out = rn_output_to(stdout, o), err = rn_output_to(stderr, o);
    const struct rn_cli_json *warning;
    struct rn_slice note;
    uint64_t version;

    if (!rn_daemon_ask(d, request))
        return RN_EXIT_ERROR;
    if (o->json)
        rn_daemon_print(d);
    if (d->status != 200) {
        if (!o->json)
            put_report(&err, rn_cli_json_text(d->answer, "report"));
        if (d->status == 412)
            rn_output_error("the daemon's rules are no longer version %s; \"ration rules get\" "
                            "shows what they are now",
                            o->if_version);
        else
            rn_daemon_complain(d);
        return RN_EXIT_ERROR;
    }
    if (o->json)
        return RN_EXIT_OK;
    put_report(&out, rn_cli_json_text(d->answer, "warnings"));
    for (warning = rn_cli_json_list(d->answer, "warnings"); warning; warning = warning->next)
        put_report(&out, warning->text);
    rn_output_put(&out, RN_GOOD, "%s", done);
    if (rn_cli_json_u64(d->answer, "version", &version))
        rn_output_put(&out, RN_PLAIN, ": version %" PRIu64, version);
    rn_output_put(&out, RN_PLAIN, "\n");
    note = rn_cli_json_text(d->answer, "note");
    rn_output_lines(&out, note);
    rn_output_put(&out, RN_PLAIN, note.len > 0 ? "\n" : "");
    return RN_EXIT_OK;
}

/* --- the verbs --------------------------------------------------------------------- */

int rn_command_rules_get(struct rn_daemon *d)
{
    struct rn_output out = rn_output_to(stdout, d->options);
    const char *accept = d->options->json ? NULL : "application/yaml";

    if (!rn_daemon_do(d, &(struct rn_daemon_request){"GET", "/v1/rules", accept, NULL}))
        return RN_EXIT_ERROR;
    if (d->options->json)
        rn_daemon_print(d);
    else
        rn_output_lines(&out, d->text);
    return RN_EXIT_OK;
}

/* Sends the file with its name, which the daemon's messages then show. */
static int send_file(struct rn_daemon *d, const char *method, const char *path,
                     const char *if_match, const char *done)
{
    struct rn_daemon_request request = {.method = method, .if_match = if_match};
    struct rn_buf target = {0};
    int status = RN_EXIT_ERROR;

    rn_buf_putf(&target, "%s?name=", path);
    for (const char *at = d->options->words[0]; *at; at++)
        rn_buf_putf(&target, "%%%02x", (unsigned char)*at);
    rn_buf_put_char(&target, '\0');
    request.target = target.data;
    if (target.failed)
        rn_output_error("out of memory");
    else if (read_file(d))
        status = change(d, &request, done);
    rn_buf_done(&target);
    return status;
}

int rn_command_rules_push(struct rn_daemon *d)
{
    return send_file(d, "PUT", "/v1/rules", d->options->if_version, "in force");
}

int rn_command_rules_validate(struct rn_daemon *d)
{
    return send_file(d, "POST", "/v1/rules/validate", NULL, "valid");
}

/* A list of names of the last answer, after `what`. */
static void put_names(const struct rn_output *out, const struct rn_daemon *d, const char *list,
                      const char *what)
{
    const struct rn_cli_json *name = rn_cli_json_list(d->answer, list);
    const char *before = what;

    for (; name != NULL; name = name->next) {
        rn_output_put(out, RN_PLAIN, "%s", before);
        rn_output_escaped(out, name->text);
        before = ", ";
    }
    rn_output_put(out, RN_PLAIN, before == what ? "" : "\n");
}

int rn_command_rules_trial(struct rn_daemon *d)
{
    const struct rn_options *o = d->options;
    struct rn_output out = rn_output_to(stdout, o);

    if (o->word_count != (o->end ? 0 : 1)) {
        rn_output_error(
            "rules trial takes one FILE, or --end; write for example ration rules trial "
            "rules.yaml");
        return RN_EXIT_ERROR;
    }
    if (o->end)
        return change(d,
                      &(struct rn_daemon_request){.method = "DELETE",
                                                  .target = "/v1/rules/trial",
                                                  .if_match = o->if_version},
                      "the trial has ended");
    int status = send_file(d, "POST", "/v1/rules/trial", o->if_version, "on trial");

    if (status == RN_EXIT_OK && !o->json) {
        put_names(&out, d, "added", "tried, and refusing nothing: ");
        put_names(&out, d, "changed", "they differ from those in force: ");
        put_names(&out, d, "removed", "in force until you push the file, as it lacks them: ");
    }
    return status;
}

/* --- versions ---------------------------------------------------------------------- */

static void put_version(struct rn_columns *columns, const struct rn_cli_json *v)
{
    struct rn_slice how = rn_cli_json_text(v, "how");
    uint64_t id = 0, of = 0, rules = 0, bytes = 0;

    rn_cli_json_u64(v, "id", &id);
    rn_cli_json_u64(v, "rules", &rules);
    rn_cli_json_u64(v, "bytes", &bytes);
    rn_columns_put(columns, "%" PRIu64, id);
    rn_columns_text(columns, rn_cli_json_text(v, "time"));
    if (rn_cli_json_u64(v, "of", &of))
        rn_columns_put(columns, "rollback of %" PRIu64, of);
    else
        rn_columns_text(columns, how);
    rn_columns_text(columns, rn_cli_json_text(v, "by"));
    rn_columns_put(columns, "%" PRIu64, rules);
    rn_columns_put(columns, "%" PRIu64, bytes);
    rn_columns_put(columns, "%s",
                   rn_cli_json_is_true(v, "in_force")     ? "in force"
                   : !rn_cli_json_is_true(v, "text_kept") ? "no text"
                                                          : "");
}

int rn_command_rules_versions(struct rn_daemon *d)
{
    static const char *const titles[] = {"version", "time", "how", "by", ">rules", ">bytes", ""};
    struct rn_output out = rn_output_to(stdout, d->options);
    struct rn_columns columns;

    if (!rn_daemon_do(d,
                      &(struct rn_daemon_request){.method = "GET", .target = "/v1/rules/versions"}))
        return RN_EXIT_ERROR;
    if (d->options->json) {
        rn_daemon_print(d);
        return RN_EXIT_OK;
    }
    rn_columns_init(&columns, titles, 7);
    for (const struct rn_cli_json *v = rn_cli_json_list(d->answer, "versions"); v; v = v->next)
        put_version(&columns, v);
    rn_columns_write(&columns, &out, 0);
    rn_columns_done(&columns);
    return RN_EXIT_OK;
}

/* The number of a version on the command line. False after an error message. */
static bool read_version(const struct rn_options *o, uint64_t *id)
{
    struct rn_json_token token = {.kind = RN_JSON_NUMBER, .text = rn_slice_of(o->words[0])};

    return rn_json_u64(&token, id) ||
           rn_output_error(
               "%s is not the number of a version; \"ration rules versions\" lists them",
               rn_excerpt(token.text).text);
}

int rn_command_rules_show(struct rn_daemon *d)
{
    struct rn_output out = rn_output_to(stdout, d->options);
    char target[64];
    uint64_t id;

    if (!read_version(d->options, &id))
        return RN_EXIT_ERROR;
    snprintf(target, sizeof target, "/v1/rules/versions/%" PRIu64, id);
    if (!rn_daemon_do(d, &(struct rn_daemon_request){.method = "GET", .target = target}))
        return RN_EXIT_ERROR;
    if (d->options->json) {
        rn_daemon_print(d);
    } else if (rn_cli_json_is_true(d->answer, "text_kept")) {
        rn_output_lines(&out, rn_cli_json_text(d->answer, "text"));
    } else {
        rn_output_error("the text of version %" PRIu64 " is not kept", id);
        return RN_EXIT_ERROR;
    }
    return RN_EXIT_OK;
}

int rn_command_rules_rollback(struct rn_daemon *d)
{
    struct rn_daemon_request request = {
        .method = "POST", .target = "/v1/rules/rollback", .if_match = d->options->if_version};
    uint64_t id;

    if (!read_version(d->options, &id))
        return RN_EXIT_ERROR;
    rn_buf_putf(&d->body, "{\"version\":%" PRIu64 "}", id);
    return change(d, &request, "in force");
}

int rn_command_rules_delete(struct rn_daemon *d)
{
    return change(d, &(struct rn_daemon_request){.method = "DELETE", .target = "/v1/rules"},
                  "the files are in force");
}

int rn_command_rules_reload(struct rn_daemon *d)
{
    return change(d, &(struct rn_daemon_request){.method = "POST", .target = "/v1/rules/reload"},
                  "reloaded");
}

/* `ration shadow on`, `off` or `status`. */
int rn_command_shadow(struct rn_daemon *d)
{
    const char *wanted = d->options->command->name + sizeof "shadow";
    struct rn_output out = rn_output_to(stdout, d->options);
    bool ask = strcmp(wanted, "status") == 0;

    if (!ask)
        rn_buf_putf(&d->body, "{\"shadow\":%s}", strcmp(wanted, "on") == 0 ? "true" : "false");
    if (!rn_daemon_do(
            d, &(struct rn_daemon_request){.method = ask ? "GET" : "PUT", .target = "/v1/shadow"}))
        return RN_EXIT_ERROR;
    if (d->options->json)
        rn_daemon_print(d);
    else if (rn_cli_json_is_true(d->answer, "shadow"))
        rn_output_put(&out, RN_ODD, "shadow mode is on: no request is refused\n");
    else
        rn_output_put(&out, RN_PLAIN, "shadow mode is off: limits are enforced\n");
    return RN_EXIT_OK;
}

int rn_command_health(struct rn_daemon *d)
{
    struct rn_output out = rn_output_to(stdout, d->options);
    struct rn_slice reason;
    bool ready;

    if (!rn_daemon_ask(d, &(struct rn_daemon_request){.method = "GET", .target = "/readyz"}))
        return RN_EXIT_ERROR;
    ready = rn_cli_json_is_true(d->answer, "ready");
    reason = rn_cli_json_text(d->answer, "reason");
    if (d->options->json)
        rn_daemon_print(d);
    else if (ready)
        rn_output_put(&out, RN_PLAIN, "ready\n");
    else
        rn_output_put(&out, RN_BAD, "not ready: %.*s\n", (int)reason.len, reason.data);
    return ready ? RN_EXIT_OK : RN_EXIT_REFUSED;
}
