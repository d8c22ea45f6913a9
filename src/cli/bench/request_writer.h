/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a load generator says to a server, and how it understands the answers:
 * RESP or HTTP/1.1. Requests are one template in which the digits of a key are
 * replaced; answers are only counted and classified, never kept.
 */
#ifndef RN_CLI_BENCH_REQUEST_WRITER_H
#define RN_CLI_BENCH_REQUEST_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "cli/options.h"

enum rn_load { RN_LOAD_THROTTLE, RN_LOAD_CHECK, RN_LOAD_TAKE, RN_LOAD_PING };

#define RN_SPEECH_DIGITS 10 /* of a key */
#define RN_SPEECH_MARKS 64  /* places of digits in a request */

struct rn_speech {
    bool http;
    enum rn_load load;
    struct rn_buf request; /* the template */
    struct {
        uint32_t at;    /* in the template */
        uint32_t digit; /* which, from the left */
    } marks[RN_SPEECH_MARKS];
    uint32_t mark_count;
};

/* From --command, --limit, --keys and the attributes; `host` is for HTTP. False
 * after saying on stderr what is wrong. rn_speech_done in any case. */
bool rn_speech_init(struct rn_speech *speech, const struct rn_options *options, bool http,
                    const char *host);
void rn_speech_done(struct rn_speech *speech);

/* Writes one request for key number `key`, speech->request.len bytes. */
void rn_speech_write(const struct rn_speech *speech, uint64_t key, char *out);

/* --- answers ----------------------------------------------------------------- */

enum rn_heard {
    RN_HEARD_MORE,    /* the answer is not complete */
    RN_HEARD_ALLOWED, /* or simply answered */
    RN_HEARD_REFUSED,
    RN_HEARD_ERROR,  /* the server objects */
    RN_HEARD_FOREIGN /* this is no answer of such a server: give up */
};

/* What is remembered within one answer. Zeroed is ready. */
struct rn_response_reader {
    uint64_t left;         /* RESP: values that are still to come. HTTP: bytes of the body */
    uint32_t index;        /* RESP: how many values have come */
    enum rn_heard verdict; /* MORE: not known yet */
    bool in_body;          /* HTTP */
};

/* Takes bytes from the front and sets *used to how many; the rest must be given
 * again with what follows. */
enum rn_heard rn_speech_hear(const struct rn_speech *speech, struct rn_response_reader *listener,
                             const char *data, size_t len, size_t *used);

#endif
