/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of options and settings, from text. False: it is none of the kind; what would be
 * right is for the caller to say.
 */
#ifndef RN_RATIOND_PARSE_H
#define RN_RATIOND_PARSE_H

#include <stdbool.h>
#include <stdint.h>

/* 64M, 1G, 262144K, 1048576; KiB and the like are the same. */
bool rn_rationd_parse_size(const char *text, uint64_t *bytes);
/* A whole number up to `max`, which is one of 32 bits. */
bool rn_rationd_parse_count(const char *text, uint64_t max, uint32_t *count);
/* true or false. */
bool rn_rationd_parse_flag(const char *text, bool *flag);
/* 5ms, 2 seconds. */
bool rn_rationd_parse_duration(const char *text, int64_t *ns);

#endif
