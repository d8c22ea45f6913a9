/* SPDX-License-Identifier: Apache-2.0 */
/* Just enough of an HTTP client for outgoing.c: one POST on a connection of its own. Use a real one
 * in your program. */
#ifndef HTTP_CALL_H
#define HTTP_CALL_H

#include <stdbool.h>

struct http_call {
    const char *host, *port, *path; /* "127.0.0.1", "3000", "/charges" */
    const char *key;                /* Idempotency-Key */
    int timeout_s; /* of each step: connecting, sending, each piece of the answer */

    int status;           /* out: 0 if there was no answer */
    char retry_after[64]; /* out: as received; empty if there was none */
};

void http_call_make(struct http_call *call);

#endif
