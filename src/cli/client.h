/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One HTTP request after the other on one connection, each within a deadline.
 * Prints nothing: what went wrong is in `problem`.
 */
#ifndef RN_CLI_CLIENT_H
#define RN_CLI_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "cli/address.h"

#define RN_CLIENT_BODY_MAX (64 << 20)

struct rn_client {
    struct rn_address address;
    const char *token;  /* NULL: none. Borrowed */
    int64_t timeout_ns; /* for a request as a whole, connecting included */
    int wake_fd;        /* -1, or what ends a request early when it becomes readable */

    bool unreachable;  /* the last request failed since nobody listens there */
    char problem[400]; /* of the last request that failed: a sentence, no line end */

    int fd; /* private from here on. -1: not connected */
    struct rn_buf out, in;
    int64_t deadline_ns;
};

struct rn_client_request {
    const char *method, *target;
    struct rn_slice body; /* data NULL: none */
    const char *accept;   /* a media type; NULL: JSON */
    const char *if_match; /* a version; NULL: any */
};

struct rn_client_answer {
    unsigned status;
    char *body; /* the client's until the next request; writable */
    size_t body_len;
};

/* The address is filled by the caller before the first request. */
void rn_client_init(struct rn_client *client);
void rn_client_done(struct rn_client *client);
bool rn_client_ask(struct rn_client *client, const struct rn_client_request *request,
                   struct rn_client_answer *answer);

#endif
