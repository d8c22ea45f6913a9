/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our JSON reader and writer against jansson. Both must refuse the same texts and
 * find the same values in the others, with three exceptions: jansson has no numbers
 * beyond int64 and double, takes more levels than we do, and overlooks a NUL behind
 * a number or a word.
 */
#ifndef JSON_ORACLE_H
#define JSON_ORACLE_H

#include <stddef.h>

/* What they disagree about; NULL if nothing. */
const char *json_oracle_fault(const char *text, size_t len);

#endif
