/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes charges for the scripts and reads their answers. Pure: no I/O.
 *
 * Scripts count in whole microseconds and in doubles, which are exact below 2^53. Limits that would
 * exceed that cannot be counted in Redis, and are refused when they are loaded.
 */
#ifndef RN_REDIS_CODEC_H
#define RN_REDIS_CODEC_H

#include "redis/scripts/script.h"
#include "store/store.h"

#define RN_CODEC_BYTES 128 /* of a charge's argument, at most */
#define RN_CODEC_NUMBERS 6 /* in an answer */
#define RN_CODEC_NUMBER 8  /* bytes */
#define RN_CODEC_ANSWER (RN_CODEC_NUMBER * RN_CODEC_NUMBERS)

/* Names of keys in Redis: ration:{TAG}:KIND:KEY. All parts come from a hash, none from a client.
 * In a cluster a call has keys of one tag only: few tags make large batches, many tags spread the
 * keys evenly. Each 64th of the hash slots has one tag, so masters with the same number of slots
 * have the same share of the keys, give or take one tag. */
#define RN_CODEC_NAME 40
#define RN_CODEC_TAGS 64
static inline unsigned rn_codec_tag(uint64_t key)
{
    return (unsigned)(key >> 58);
}
/* The text of a tag. */
struct rn_slice rn_codec_tag_name(unsigned tag);
size_t rn_codec_name(const struct rn_charge *charge, char out[RN_CODEC_NAME]);
/* The KIND of keys of a script that decides charges. */
char rn_codec_kind(enum rn_script script);
/* Whether the charge uses the reset log of its key (scripts/batch.lua), and the name of that. */
bool rn_codec_uses_reset_log(const struct rn_charge *charge);
size_t rn_codec_reset_log_name(const struct rn_charge *charge, char out[RN_CODEC_NAME]);
/* The same, from the name of the key. */
size_t rn_codec_reset_log_of(struct rn_slice name, char out[RN_CODEC_NAME]);
/* The key with the number of a worker's last report to a tag: scripts/report.lua. */
size_t rn_codec_report_number_name(unsigned tag, uint64_t holder, char out[RN_CODEC_NAME]);
/* The key with the history of a tag (scripts/history.lua); RN_CODEC_TAGS: of all tags. */
size_t rn_codec_history_name(unsigned tag, char out[RN_CODEC_NAME]);
/* The same, from the name of a key. */
size_t rn_codec_history_of(struct rn_slice name, char out[RN_CODEC_NAME]);

/* NULL, or a constant text: why Redis cannot count this limit, and what to write instead. */
const char *rn_codec_fault(const struct rn_limit *limit);

/* A bucket counted in parts of a unit, so small that each tick refills a whole number of them: see
 * scripts/bucket.lua. */
struct rn_codec_parts {
    int64_t tick_us;
    int64_t paid, unit, full; /* parts per tick, per unit, of a full bucket */
};
/* For a bucket without fault. */
void rn_codec_bucket(const struct rn_limit *limit, struct rn_codec_parts *out);
/* Whole microseconds, rounded up. */
int64_t rn_codec_us(int64_t ns);

/* The strict script of a limit. RN_SCRIPTS: none; the limit has no state, or a form that Redis
 * cannot count (rn_codec_fault says so). */
enum rn_script rn_codec_script(const struct rn_limit *limit);
/* Whether the limit can have leases; others are strict, whatever their rule says. */
bool rn_codec_leases(const struct rn_limit *limit);
/* The script of a charge: the one with leases if the charge is flagged and the limit can. */
enum rn_script rn_codec_script_of(const struct rn_charge *charge);

/* Writes the charge's argument; returns its length. `reset_log`: the position of the reset log
 * among the keys of the call, from 1; for charges that use one. */
size_t rn_codec_write(const struct rn_charge *charge, size_t reset_log, char out[RN_CODEC_BYTES]);

/* A call for a lease: see scripts/leases.lua. */
struct rn_codec_lease_request {
    uint64_t want, keep, back, least; /* units */
    int64_t lease_ns;
    uint64_t holder, call;
    int64_t ends_us; /* when the current lease ends, by the server's clock; 0: not known */

    /* To return `back`, the unspent units of a worker that was killed: */
    uint64_t known; /* units that Redis knew of after it ran `call` */
    int64_t mark;   /* the receipt */
};
/* The limit as its script reads it: RN_CODEC_PARAMS bytes at most. The argument of a lease needs
 * it; it may outlive the limit. */
#define RN_CODEC_PARAMS 56
size_t rn_codec_params(const struct rn_charge *charge, char out[RN_CODEC_PARAMS]);
size_t rn_codec_write_lease(const struct rn_codec_lease_request *request, const char *params,
                            size_t len, char out[RN_CODEC_BYTES]);
size_t rn_codec_write_return(const struct rn_codec_lease_request *request, const char *params,
                             size_t len, char out[RN_CODEC_BYTES]);

/* Reads whole numbers as batch.lua writes them. Anything else, or beyond 64 bits, is INT64_MIN. */
void rn_codec_numbers(const char *bytes, size_t count, int64_t *out);
/* Fills in answer and error. An answer that makes no sense is RATION_ESTORE: Redis was out of
 * memory, or the key holds something else. */
void rn_codec_read(struct rn_charge *charge, const char answer[RN_CODEC_ANSWER]);

#endif
