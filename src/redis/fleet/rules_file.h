/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules that operators have set, kept in a file beside the state, so that they hold again
 * after a restart.
 */
#ifndef RN_REDIS_RULES_FILE_H
#define RN_REDIS_RULES_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/* Whole or not at all; false, and the log says why, if not. An empty text: the files of rules
 * hold. */
bool rn_rules_file_save(const char *path, struct rn_slice text, int64_t made_us);
/* Appends the rules. False: there are none, or the file is not readable, which the log says.
 * *made_us is set if it was read. */
bool rn_rules_file_load(const char *path, struct rn_buf *text, int64_t *made_us);

#endif
