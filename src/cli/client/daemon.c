/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/daemon.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/utf8.h"
#include "cli/output/output.h"
#include "rules/report/report.h"

#define DEFAULT_HTTP "127.0.0.1:8080"
#define DEFAULT_ADMIN "127.0.0.1:8082"

bool rn_daemon_is_meant(const struct rn_options *o)
{
    return o->word_count == 0 || o->server != NULL || o->http != NULL || o->admin != NULL;
}

/* --- where, and with which token --------------------------------------------------- */

static bool find_token(struct rn_daemon *d)
{
    const char *path = d->options->token_file, *text = rn_endpoint_environment("RATION_TOKEN");
    const char *source = path != NULL ? "--token-file" : "RATION_TOKEN";
    char problem[RN_FILE_PROBLEM];
    size_t len, at = 0;

    if (path == NULL && text == NULL) {
        source = "RATION_TOKEN_FILE";
        path = rn_endpoint_environment(source);
    }
    if (path != NULL) {
        int fd = rn_file_open(path, problem);
        FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;

        if (file == NULL)
            return rn_output_error("%s: %s cannot be opened: %s", source,
                                   rn_excerpt(rn_slice_of(path)).text,
                                   fd < 0 ? problem : strerror(errno));
        len = fread(d->token, 1, sizeof d->token - 1, file);
        fclose(file);
        while (len > 0 && (d->token[len - 1] == '\n' || d->token[len - 1] == '\r'))
            len--;
        d->token[len] = '\0';
    } else if (text != NULL) {
        snprintf(d->token, sizeof d->token, "%s", text);
    } else {
        return true;
    }
    while (d->token[at] > ' ' && d->token[at] <= '~')
        at++;
    if (at == 0 || d->token[at] != '\0' || at == sizeof d->token - 1)
        return rn_output_error(
            "%s: not a token; expected up to 254 letters, digits and signs without "
            "spaces",
            source);
    d->http.token = d->token;
    return true;
}

/* JSON is UTF-8. Replacing bad bytes would make another key of it. */
static bool check_attributes(const struct rn_options *o)
{
    uint32_t point;

    for (size_t i = 0; i < o->attribute_count; i++) {
        const char *text = o->attributes[i].name;
        size_t len = strlen(text);

        for (size_t at = 0, taken; at < len; at += taken) {
            taken = rn_utf8_decode(text + at, len - at, &point);
            if (taken > 0)
                continue;
            return rn_output_error("%s is not UTF-8; the daemon takes no other text",
                                   rn_excerpt((struct rn_slice){text, len}).text);
        }
    }
    return true;
}

bool rn_daemon_init(struct rn_daemon *d, const struct rn_options *options, enum rn_daemon_port port)
{
    bool http = port == RN_PORT_HTTP;
    const char *text = http ? options->http : options->admin, *source = http ? "--http" : "--admin";

    *d = (struct rn_daemon){.options = options, .port = port};
    rn_cli_http_init(&d->http);
    d->http.timeout_ns = options->timeout_ns;
    d->http.endpoint = &d->endpoint;
    if (options->word_count > 0 && (options->command->options & RN_OPTION(RN_OPTION_FILES)) != 0)
        return rn_output_error(
            "give either rules files or the address of a daemon, which has its own rules");
    if (options->state != NULL || options->at.given)
        return rn_output_error("%s is for rules files; the daemon has its own %s",
                               options->state != NULL ? "--state" : "--at",
                               options->state != NULL ? "state" : "time");
    if (options->server != NULL && options->server[0] != '\0') {
        text = options->server;
        source = "--server";
    }
    if (text == NULL) {
        source = http ? "RATION_HTTP" : "RATION_ADMIN";
        text = rn_endpoint_environment(source);
    }
    if (text == NULL)
        text = http ? DEFAULT_HTTP : DEFAULT_ADMIN;
    return check_attributes(options) &&
           rn_endpoint_init(&d->endpoint, options, source, text, RN_ENDPOINT_HTTP) && find_token(d);
}

static void forget_answer(struct rn_daemon *d)
{
    rn_arena_done(&d->arena);
    free(d->copy);
    d->copy = NULL;
    d->answer = NULL;
    d->status = 0;
}

void rn_daemon_done(struct rn_daemon *d)
{
    forget_answer(d);
    rn_buf_done(&d->body);
    rn_cli_http_done(&d->http);
    rn_endpoint_done(&d->endpoint);
}

int rn_daemon_run(const struct rn_options *options, enum rn_daemon_port port,
                  int (*action)(struct rn_daemon *))
{
    struct rn_daemon daemon;
    int status = RN_EXIT_ERROR;

    if (rn_daemon_init(&daemon, options, port))
        status = action(&daemon);
    rn_daemon_done(&daemon);
    return status;
}

/* --- asking ------------------------------------------------------------------------ */

static bool fail_as_stranger(struct rn_daemon *d)
{
    d->answer = NULL;
    return rn_cli_http_fail(
        &d->http,
        "what answers at %s is not rationd%s (HTTP status %u); %s ADDR names another address",
        d->endpoint.address.text, d->port == RN_PORT_ADMIN ? "'s admin port" : "", d->status,
        d->port == RN_PORT_ADMIN ? "--admin" : "--http");
}

/* Every failure that rationd reports is an object with `error`; a refusal has `allowed`, /readyz
 * `ready`. */
static bool read_answer(struct rn_daemon *d, const struct rn_cli_http_response *answer,
                        const char *accept)
{
    d->status = answer->status;
    d->text = (struct rn_slice){answer->body, answer->body_len};
    if (answer->status == 401)
        return rn_cli_http_fail(
            &d->http, "rationd at %s wants a token%s; --token-file FILE or RATION_TOKEN gives one",
            d->endpoint.address.text, d->http.token != NULL ? ", and not this one" : "");
    if (accept != NULL && answer->status == 200)
        return strncmp(answer->type, accept, strlen(accept)) == 0 || fail_as_stranger(d);
    d->copy = malloc(answer->body_len + 1);
    if (d->copy == NULL)
        return rn_cli_http_fail(&d->http, "out of memory");
    memcpy(d->copy, answer->body, answer->body_len);
    d->answer = rn_cli_json_parse(&d->arena, d->copy, answer->body_len, NULL);
    if (d->answer == NULL || d->answer->kind != RN_JSON_OBJECT ||
        (d->status != 200 && rn_cli_json_text(d->answer, "error").data == NULL &&
         rn_cli_json_get(d->answer, "allowed") == NULL &&
         rn_cli_json_get(d->answer, "ready") == NULL))
        return fail_as_stranger(d);
    /* Unknown endpoint: this is the daemon's other port. */
    if (d->status == 404 && rn_slice_is(rn_cli_json_text(d->answer, "error"), "not_found") &&
        memmem(d->text.data, d->text.len, "/v1/", 4) != NULL)
        return fail_as_stranger(d);
    return true;
}

bool rn_daemon_try(struct rn_daemon *d, const struct rn_daemon_request *q)
{
    struct rn_cli_http_request request = {
        .method = q->method, .target = q->target, .accept = q->accept, .if_match = q->if_match};
    struct rn_cli_http_response answer;
    bool ok;

    forget_answer(d);
    if (d->body.failed)
        return rn_cli_http_fail(&d->http, "out of memory");
    if (d->body.len > 0)
        request.body = rn_buf_slice(&d->body);
    ok = rn_cli_http_ask(&d->http, &request, &answer);
    rn_buf_clear(&d->body);
    return ok && read_answer(d, &answer, q->accept);
}

bool rn_daemon_ask(struct rn_daemon *d, const struct rn_daemon_request *q)
{
    if (rn_daemon_try(d, q))
        return true;
    rn_daemon_complain(d);
    return false;
}

void rn_daemon_complain(const struct rn_daemon *d)
{
    struct rn_output err = {.file = stderr};
    struct rn_slice message = rn_cli_json_text(d->answer, "message");
    bool files = (d->options->command->options & RN_OPTION(RN_OPTION_FILES)) != 0;

    if (d->answer == NULL && d->http.unreachable)
        rn_output_error("%s; is it running? %s ADDR names another address%s", d->http.problem,
                        d->port == RN_PORT_HTTP ? "--http" : "--admin",
                        files ? ", and with a rules file none is asked" : "");
    else if (d->answer == NULL)
        rn_output_error("%s", d->http.problem);
    if (d->answer == NULL)
        return;
    fflush(stdout);
    fputs("ration: ", stderr);
    if (message.data == NULL)
        fprintf(stderr, "rationd at %s answered with HTTP status %u", d->endpoint.address.text,
                d->status);
    else
        rn_output_lines(&err, message);
    fputc('\n', stderr);
}

bool rn_daemon_do(struct rn_daemon *d, const struct rn_daemon_request *q)
{
    if (!rn_daemon_ask(d, q))
        return false;
    if (d->status == 200)
        return true;
    rn_daemon_complain(d);
    return false;
}

void rn_daemon_print(const struct rn_daemon *d)
{
    fwrite(d->text.data, 1, d->text.len, stdout);
    if (d->text.len == 0 || d->text.data[d->text.len - 1] != '\n')
        fputc('\n', stdout);
}

void rn_daemon_put_attributes(struct rn_daemon *d)
{
    const struct rn_options *o = d->options;

    rn_buf_put_literal(&d->body, "\"attributes\":{");
    for (size_t i = 0; i < o->attribute_count; i++) {
        const struct ration_attribute *a = &o->attributes[i];

        if (i > 0)
            rn_buf_put_char(&d->body, ',');
        rn_json_put_string(&d->body, (struct rn_slice){a->name, a->name_len});
        rn_buf_put_char(&d->body, ':');
        rn_json_put_string(&d->body, (struct rn_slice){a->value, a->value_len});
    }
    rn_buf_put_char(&d->body, '}');
}
