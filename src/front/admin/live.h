/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams of what is decided, a line of JSON each second, and the sampling that they show.
 */
#ifndef RN_FRONT_ADMIN_LIVE_H
#define RN_FRONT_ADMIN_LIVE_H

#include "front/front.h"

#define RN_LIVE_STREAMS_MAX 128
#define RN_LIVE_RULES_MAX 200 /* of a stream */

struct rn_live_stream;

/* The connection of a stream has ended. NULL: nothing happens. */
void rn_live_drop(struct rn_live_stream *stream);

#endif
