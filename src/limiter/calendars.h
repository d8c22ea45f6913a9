/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calendars of limits that are not from rules files: one for each unit and time zone, made when
 * it is first needed and kept until the limiter is closed. Thread-safe; finding one takes no lock.
 */
#ifndef RN_LIMITER_CALENDARS_H
#define RN_LIMITER_CALENDARS_H

#include <ration/error.h>

#include "core/limit.h"

#define RN_CALENDARS_MAX 256 /* callers name the zones; days take 146 KB each */
#define RN_CALENDARS_UTC 4   /* besides: callers with many zones cannot use up those of UTC */

struct rn_calendars;

struct rn_calendars *rn_calendars_new(void);
void rn_calendars_free(struct rn_calendars *calendars);

/* Attaches the calendar of `spec` to its compiled limit. RATION_EINVAL for a zone that is not
 * known here, RATION_EFULL, RATION_ENOMEM; `error` (may be NULL) says which. */
int rn_calendars_attach(struct rn_calendars *calendars, const struct ration_limit *spec,
                        struct rn_limit *limit, struct ration_error *error);

#endif
