/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file beside the state file that keeps the rules set by an operator, so that they apply after a
 * restart.
 */
#ifndef RN_REDIS_RULES_FILE_H
#define RN_REDIS_RULES_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/* Saves atomically. False: not saved; the log says why. An empty text: the rules files apply. */
bool rn_rules_file_save(const char *path, struct rn_slice text, int64_t made_us);
/* Appends the rules to `text`. False: there are none, or the file cannot be read; the log says so.
 * Sets *made_us if the file was read. */
bool rn_rules_file_load(const char *path, struct rn_buf *text, int64_t *made_us);

#endif
