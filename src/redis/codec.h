/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A charge as the scripts read it, and their answer as a charge's. Pure: no I/O.
 *
 * Scripts count in whole microseconds and in doubles, which are exact below 2^53.
 * Limits that would pass that are not for Redis, and are refused when they are loaded.
 */
#ifndef RN_REDIS_CODEC_H
#define RN_REDIS_CODEC_H

#include "redis/scripts/script.h"
#include "store/store.h"

#define RN_CODEC_BYTES 128 /* of an argument, at most */
#define RN_CODEC_NUMBERS 6 /* of an answer */
#define RN_CODEC_NUMBER 8  /* bytes */
#define RN_CODEC_ANSWER (RN_CODEC_NUMBER * RN_CODEC_NUMBERS)

/* ration:{TAG}:KIND:KEY, all of them derived from a hash: no caller's text. In a cluster a
 * call has keys of one TAG: few of them make large batches, many spread keys evenly among
 * masters. There is one in each 64th of the slots, so that masters with the same number of
 * slots have the same share of the keys, or one more or less. */
#define RN_CODEC_NAME 40
#define RN_CODEC_TAGS 64
static inline unsigned rn_codec_tag(uint64_t key)
{
    return (unsigned)(key >> 58);
}
/* As it is in names. */
struct rn_slice rn_codec_tag_name(unsigned tag);
size_t rn_codec_name(const struct rn_charge *charge, char out[RN_CODEC_NAME]);
/* KIND of the states of a script that decides charges. */
char rn_codec_kind(enum rn_script script);
/* Whether the charge goes with what is remembered of resets of its key (scripts/batch.lua), and
 * the name of that. */
bool rn_codec_uses_reset_log(const struct rn_charge *charge);
size_t rn_codec_reset_log_name(const struct rn_charge *charge, char out[RN_CODEC_NAME]);
/* The same of the name of a state. */
size_t rn_codec_reset_log_of(struct rn_slice name, char out[RN_CODEC_NAME]);
/* Of the number of a holder's last report to a tag: scripts/report.lua. */
size_t rn_codec_report_number_name(unsigned tag, uint64_t holder, char out[RN_CODEC_NAME]);
/* Of the history of a tag: scripts/history.lua. RN_CODEC_TAGS: of all. */
size_t rn_codec_history_name(unsigned tag, char out[RN_CODEC_NAME]);
/* Of the tag in the name of a state. */
size_t rn_codec_history_of(struct rn_slice name, char out[RN_CODEC_NAME]);

/* NULL, or a constant text that says why Redis cannot hold this limit, and what would
 * be right. */
const char *rn_codec_fault(const struct rn_limit *limit);

/* A bucket in parts of a unit so small that each tick pays off a whole number of them:
 * see scripts/bucket.lua. */
struct rn_codec_parts {
    int64_t tick_us;
    int64_t paid, unit, full; /* parts: a tick's, a unit's, all */
};
/* Of a bucket without fault. */
void rn_codec_bucket(const struct rn_limit *limit, struct rn_codec_parts *out);
/* In whole microseconds, rounded up. */
int64_t rn_codec_us(int64_t ns);

/* Of a limit without fault that has a state. */
enum rn_script rn_codec_script(const struct rn_limit *limit);
/* Whether there are leases of such a limit: others are strict, whatever is asked for. */
bool rn_codec_leases(const struct rn_limit *limit);
/* Of a charge: with leases, if it is flagged so and there are any. */
enum rn_script rn_codec_script_of(const struct rn_charge *charge);

/* The charge's argument; returns its length. `pardon`: which key of the call, from 1 on, tells
 * of resets; for charges that go with one. */
size_t rn_codec_write(const struct rn_charge *charge, size_t pardon, char out[RN_CODEC_BYTES]);

/* A call for a lease: see leases.lua. */
struct rn_codec_lease_request {
    uint64_t want, keep, back, least; /* units */
    int64_t lease_ns;
    uint64_t holder, call;
    int64_t ends_us; /* of what is held, by the clock of the store; 0: not known */

    /* To return what a holder that was killed had not spent, `back`: */
    uint64_t known; /* what the store knew of, once `call` was run */
    int64_t mark;   /* the receipt */
};
/* The limit as its script reads it: RN_CODEC_PARAMS bytes at most. Needed for the
 * argument of a lease, and outlives the limit. */
#define RN_CODEC_PARAMS 56
size_t rn_codec_params(const struct rn_charge *charge, char out[RN_CODEC_PARAMS]);
size_t rn_codec_write_lease(const struct rn_codec_lease_request *request, const char *params,
                            size_t len, char out[RN_CODEC_BYTES]);
size_t rn_codec_write_return(const struct rn_codec_lease_request *request, const char *params,
                             size_t len, char out[RN_CODEC_BYTES]);

/* Whole numbers as batch.lua writes them. What is none, or beyond 64 bits, is INT64_MIN. */
void rn_codec_numbers(const char *bytes, size_t count, int64_t *out);
/* Fills answer and error. Numbers that tell of no answer, such as where there
 * was no memory or the key holds something else, are RATION_ESTORE. */
void rn_codec_read(struct rn_charge *charge, const char answer[RN_CODEC_ANSWER]);

#endif
