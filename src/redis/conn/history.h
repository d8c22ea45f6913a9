/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a server still has the data it had when the link last talked to it. Redis marks each
 * history of its data set with a replication id, and starts a new id after each restart and each
 * failover: the last writes may then be lost. Pure.
 */
#ifndef RN_REDIS_HISTORY_H
#define RN_REDIS_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#define RN_HISTORY_ID 40    /* characters of a replication id */
#define RN_HISTORY_SHORT 16 /* its first ones are enough to tell ids apart */

struct rn_history {
    char id[RN_HISTORY_ID + 1]; /* "": not known yet */
    int64_t offset;             /* the replication offset last seen */
    int64_t lost;               /* bytes of the previous history that this one lacks, at least */
};

/* Takes the reply to INFO replication. True: the history is another one than before. The first
 * reply never is, and a reply without an id changes nothing. */
bool rn_history_learn(struct rn_history *history, const char *info);
/* Updates the offset from such a reply, if the history is still the same. */
void rn_history_note(struct rn_history *history, const char *info);

/* The short id; zeros if it is not known. */
void rn_history_short(const struct rn_history *history, char out[RN_HISTORY_SHORT + 1]);

#endif
