/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time zones from the system's files (TZif, RFC 8536, versions 1 to 4). The C library has
 * only one zone for the whole process.
 *
 * A loaded zone is immutable: any thread may use it. Times are seconds since 1970 UTC,
 * offsets seconds east of it.
 */
#ifndef RN_BASE_ZONE_H
#define RN_BASE_ZONE_H

#include <stddef.h>
#include <stdint.h>

#include <ration/error.h>

#include "base/civil.h"

/* Offsets are smaller than this, in both directions. */
#define RN_ZONE_OFFSET_BOUND_S (26 * 3600)

struct rn_zone;

/* `name` as in the tz database, such as Europe/Rome; "UTC" and "" need no file. Files are in
 * $TZDIR or else /usr/share/zoneinfo. On failure returns RATION_EINVAL (no such zone),
 * RATION_EPARSE (a damaged file), RATION_EIO or RATION_ENOMEM, and fills `error` (may be
 * NULL). */
int rn_zone_load(const char *name, struct rn_zone **zone, struct ration_error *error);

/* The same from the bytes of a file, which need not be trusted. */
int rn_zone_parse(const void *bytes, size_t len, struct rn_zone **zone, struct ration_error *error);

void rn_zone_free(struct rn_zone *zone);

int32_t rn_zone_offset_at(const struct rn_zone *zone, int64_t unix_s);

/* When the local day begins: the first time at which local clocks show its midnight or
 * later. Where clocks skip midnight, this is the moment of the change; where midnight comes
 * twice, the first; a skipped day begins with the next. Never decreases from date to date.
 * The year must be within ±10^6. */
int64_t rn_zone_local_to_unix(const struct rn_zone *zone, struct rn_civil date);

#endif
