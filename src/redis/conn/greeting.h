/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a link says first: who we are, which database, what the scripts are, and whether
 * the states are those of the last time; and that it is up when all of it has been
 * answered well.
 */
#ifndef RN_REDIS_GREETING_H
#define RN_REDIS_GREETING_H

#include "redis/conn/link.h"

/* The connection has been made. */
void rn_greeting_send(struct rn_link *link);

/* link.c: as rn_link_send, also before it is up. */
bool rn_link_push(struct rn_link *link, int argc, const char **argv, const size_t *lens,
                  rn_link_reply *reply, void *arg);

#endif
