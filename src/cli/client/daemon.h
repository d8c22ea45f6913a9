/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A running rationd and what it answers, for commands: they ask, and look at the
 * answer as a tree. All that can go wrong on the way is said here.
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
    struct rn_buf body; /* of the next request: for the command to fill */

    /* Of the last request; until the next one. */
    unsigned status;
    struct rn_slice text;             /* the body as it came */
    const struct rn_cli_json *answer; /* NULL: none, or one that is no JSON */
    char *copy;                       /* private from here on */
    struct rn_arena arena;
};

/* Whether a command that can also do without is to ask the daemon. */
bool rn_daemon_is_meant(const struct rn_options *options);

/* Finds out where it is and with which token; connects later. False after
 * saying on stderr what is wrong. rn_daemon_done in any case. */
bool rn_daemon_init(struct rn_daemon *daemon, const struct rn_options *options,
                    enum rn_daemon_port port);
void rn_daemon_done(struct rn_daemon *daemon);

/* All of a command that asks: init, `action`, done. Its exit status. */
int rn_daemon_run(const struct rn_options *options, enum rn_daemon_port port,
                  int (*action)(struct rn_daemon *));

/* What to ask. The body is daemon->body if anything is in it, which is emptied. */
struct rn_daemon_request {
    const char *method, *target;
    const char *accept, *if_match; /* as in caller.h; may be NULL */
};

/* True: rationd answered with JSON, or with what was asked for instead, also if
 * that is a refusal or an objection (400, 404 of something, 412, 422, 429).
 * False: no such answer; daemon->http.problem says why. */
bool rn_daemon_try(struct rn_daemon *daemon, const struct rn_daemon_request *question);
/* The same, and says on stderr what is wrong. */
bool rn_daemon_ask(struct rn_daemon *daemon, const struct rn_daemon_request *question);
/* And also objections are said on stderr: true only if the status is 200. */
bool rn_daemon_do(struct rn_daemon *daemon, const struct rn_daemon_request *question);

/* Says on stderr what the daemon objects to, or why it did not answer. */
void rn_daemon_complain(const struct rn_daemon *daemon);

/* --json: the answer as it came, with a line end. */
void rn_daemon_print(const struct rn_daemon *daemon);

/* "attributes":{...} of the command line, into the body. */
void rn_daemon_put_attributes(struct rn_daemon *daemon);

#endif
