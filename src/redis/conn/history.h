/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a server has the states that it had when it was last talked to. Redis gives a
 * history of states an id of its own, and another one after each start and each failover:
 * what was written last may then be gone. Pure.
 */
#ifndef RN_REDIS_HISTORY_H
#define RN_REDIS_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#define RN_HISTORY_ID 40

#define RN_HISTORY_SHORT 16 /* of which this much tells them apart */

struct rn_history {
    char id[RN_HISTORY_ID + 1]; /* "": nothing was heard of it yet */
    int64_t offset;             /* bytes of it that were last heard of */
    int64_t lost;               /* bytes of the one before, at least, that this one does not have */
};

/* Takes in the answer to INFO replication. True: it is another history than before. The
 * first one says nothing of what was before, and an answer without an id nothing at all. */
bool rn_history_learn(struct rn_history *history, const char *info);
/* How far it has come, from the answer of a server that is being left or goes on: nothing, if
 * that is another history by now. */
void rn_history_note(struct rn_history *history, const char *info);

/* Zeros where nothing was heard of it. */
void rn_history_short(const struct rn_history *history, char out[RN_HISTORY_SHORT + 1]);

#endif
