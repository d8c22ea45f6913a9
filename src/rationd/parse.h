/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses values of options and settings. False: bad value; the caller prints the message.
 */
#ifndef RN_RATIOND_PARSE_H
#define RN_RATIOND_PARSE_H

#include <stdbool.h>
#include <stdint.h>

/* 64M, 1G, 262144K, 1048576; K, KB and KiB are the same. */
bool rn_rationd_parse_size(const char *text, uint64_t *bytes);
/* An integer up to `max`, which fits 32 bits. */
bool rn_rationd_parse_count(const char *text, uint64_t max, uint32_t *count);
/* true or false. */
bool rn_rationd_parse_flag(const char *text, bool *flag);
/* 5ms, 2 seconds. */
bool rn_rationd_parse_duration(const char *text, int64_t *ns);

#endif
