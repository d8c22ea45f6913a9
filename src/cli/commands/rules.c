/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration rules`: the rules of a running daemon.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/client/daemon.h"
#include "cli/output/output.h"
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

static void put_warnings(const struct rn_output *out, const struct rn_cli_json *answer)
{
    const struct rn_cli_json *w = rn_cli_json_get(answer, "warnings");

    if (w != NULL && w->kind == RN_JSON_STRING)
        put_report(out, w->text);
    for (w = rn_cli_json_list(answer, "warnings"); w != NULL; w = w->next)
        put_report(out, w->text);
}

/* Prints an answer other than 200: bad rules, or another version. */
static int put_objection(struct rn_daemon *d)
{
    struct rn_output err = rn_output_to(stderr, d->options);
    struct rn_slice report = rn_cli_json_text(d->answer, "report");

    if (d->options->json)
        rn_daemon_print(d);
    if (report.len > 0 && !d->options->json)
        put_report(&err, report);
    if (d->status == 412)
        rn_output_error("the daemon's rules are no longer version %s; \"ration rules get\" shows "
                        "what they are now",
                        d->options->if_version);
    else
        rn_daemon_complain(d);
    return RN_EXIT_ERROR;
}

/* Prints an answer with status 200: `rules version 4` and notes. */
static int put_change(struct rn_daemon *d, const char *what)
{
    struct rn_output out = rn_output_to(stdout, d->options);
    struct rn_slice note = rn_cli_json_text(d->answer, "note");
    uint64_t version;

    if (d->options->json) {
        rn_daemon_print(d);
        return RN_EXIT_OK;
    }
    put_warnings(&out, d->answer);
    rn_output_put(&out, RN_GOOD, "%s", what);
    if (rn_cli_json_u64(d->answer, "version", &version))
        rn_output_put(&out, RN_PLAIN, ": version %" PRIu64, version);
    rn_output_put(&out, RN_PLAIN, "\n");
    if (note.len > 0) {
        rn_output_lines(&out, note);
        rn_output_put(&out, RN_PLAIN, "\n");
    }
    return RN_EXIT_OK;
}

/* --- the verbs --------------------------------------------------------------------- */

static int get(struct rn_daemon *d)
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
    struct rn_daemon_request question = {.method = method, .if_match = if_match};
    struct rn_buf target = {0};
    int status = RN_EXIT_ERROR;

    rn_buf_putf(&target, "%s?name=", path);
    for (const char *at = d->options->words[0]; *at; at++)
        rn_buf_putf(&target, "%%%02x", (unsigned char)*at);
    rn_buf_put_char(&target, '\0');
    question.target = target.data;
    if (target.failed)
        rn_output_error("out of memory");
    else if (read_file(d) && rn_daemon_ask(d, &question))
        status = d->status == 200 ? put_change(d, done) : put_objection(d);
    rn_buf_done(&target);
    return status;
}

static int push(struct rn_daemon *d)
{
    return send_file(d, "PUT", "/v1/rules", d->options->if_version, "in force");
}

static int validate(struct rn_daemon *d)
{
    return send_file(d, "POST", "/v1/rules/validate", NULL, "valid");
}

static int delete (struct rn_daemon *d)
{
    if (!rn_daemon_ask(d, &(struct rn_daemon_request){"DELETE", "/v1/rules", NULL, NULL}))
        return RN_EXIT_ERROR;
    return d->status == 200 ? put_change(d, "the files are in force") : put_objection(d);
}

static int reload(struct rn_daemon *d)
{
    if (!rn_daemon_ask(d, &(struct rn_daemon_request){"POST", "/v1/rules/reload", NULL, NULL}))
        return RN_EXIT_ERROR;
    return d->status == 200 ? put_change(d, "reloaded") : put_objection(d);
}

int rn_command_rules_get(const struct rn_options *options)
{
    return rn_daemon_run(options, RN_PORT_ADMIN, get);
}

int rn_command_rules_push(const struct rn_options *options)
{
    return rn_daemon_run(options, RN_PORT_ADMIN, push);
}

int rn_command_rules_validate(const struct rn_options *options)
{
    return rn_daemon_run(options, RN_PORT_ADMIN, validate);
}

int rn_command_rules_delete(const struct rn_options *options)
{
    return rn_daemon_run(options, RN_PORT_ADMIN, delete);
}

int rn_command_rules_reload(const struct rn_options *options)
{
    return rn_daemon_run(options, RN_PORT_ADMIN, reload);
}
