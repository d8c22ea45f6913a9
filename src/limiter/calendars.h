/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calendars of limits that are not from rules files: of each unit and time zone one,
 * made when it is first asked for and kept until the limiter is closed. Thread-safe; finding
 * one that is there takes no lock.
 */
#ifndef RN_LIMITER_CALENDARS_H
#define RN_LIMITER_CALENDARS_H

#include <ration/error.h>

#include "core/limit.h"

#define RN_CALENDARS_MAX 256 /* callers name the zones; days take 146 KB each */
#define RN_CALENDARS_UTC 4   /* besides: nobody who names many zones can take those of UTC away */

struct rn_calendars;

struct rn_calendars *rn_calendars_new(void);
void rn_calendars_free(struct rn_calendars *calendars);

/* Attaches the calendar of `spec` to its compiled limit. RATION_EINVAL for a zone that is not
 * known here, RATION_EFULL, RATION_ENOMEM; `error` (may be NULL) says which. */
int rn_calendars_attach(struct rn_calendars *calendars, const struct ration_limit *spec,
                        struct rn_limit *limit, struct ration_error *error);

#endif
