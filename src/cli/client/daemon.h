/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to a running rationd, for commands. The answer is a JSON tree. This file prints all
 * errors of the conversation.
 */
#ifndef RN_CLI_CLIENT_DAEMON_H
#define RN_CLI_CLIENT_DAEMON_H

#include "cli/client/endpoint.h"
#include "cli/client/http.h"
#include "cli/client/json.h"
#include "cli/options.h"

enum rn_daemon_port { RN_PORT_HTTP, RN_PORT_ADMIN };

struct rn_daemon {
    const struct rn_options *options;
    enum rn_daemon_port port;
    struct rn_endpoint endpoint;
    struct rn_cli_http http;
    char token[256];
    struct rn_buf body; /* of the next request; the command fills it */

    /* The last answer, until the next request. */
    unsigned status;
    struct rn_slice text;             /* body, unchanged */
    const struct rn_cli_json *answer; /* NULL: no answer, or not JSON */
    char *copy;                       /* private from here on */
    struct rn_arena arena;
};

/* Whether a command that also works on rules files must ask the daemon. */
bool rn_daemon_is_meant(const struct rn_options *options);

/* Finds the address and the token; connects later. False after an error message on stderr. Call
 * rn_daemon_done in any case. */
bool rn_daemon_init(struct rn_daemon *daemon, const struct rn_options *options,
                    enum rn_daemon_port port);
void rn_daemon_done(struct rn_daemon *daemon);

/* Runs init, `action` and done. Returns the exit status. */
int rn_daemon_run(const struct rn_options *options, enum rn_daemon_port port,
                  int (*action)(struct rn_daemon *));

/* The body is daemon->body, if it is not empty; sending clears it. */
struct rn_daemon_request {
    const char *method, *target;
    const char *accept, *if_match; /* as in http.h; may be NULL */
};

/* True: rationd answered with JSON, or with the type in `accept`; this includes refusals and errors
 * (400, 404, 412, 422, 429). False: no such answer; daemon->http.problem says why. */
bool rn_daemon_try(struct rn_daemon *daemon, const struct rn_daemon_request *question);
/* The same, and prints the problem on stderr. */
bool rn_daemon_ask(struct rn_daemon *daemon, const struct rn_daemon_request *question);
/* The same, and prints errors in the answer. True only if the status is 200. */
bool rn_daemon_do(struct rn_daemon *daemon, const struct rn_daemon_request *question);

/* Prints the daemon's error message, or why it did not answer. */
void rn_daemon_complain(const struct rn_daemon *daemon);

/* --json: prints the answer unchanged, with a newline. */
void rn_daemon_print(const struct rn_daemon *daemon);

/* Appends "attributes":{...} of the command line to the body. */
void rn_daemon_put_attributes(struct rn_daemon *daemon);

#endif
