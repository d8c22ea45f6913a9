/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a path as matching does: as it is if it is plain, otherwise all its readings. */
#ifndef PATH_FIXTURE_H
#define PATH_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "rules/match/path.h"

static const struct rn_path_settings defaults;
static struct rn_path_readings readings;

static inline void read_text(struct rn_slice target, const struct rn_path_settings *settings)
{
    memset(&readings, 0xee, sizeof readings); /* the caller's memory is not zeroed */
    if (rn_path_is_plain(rn_path_cut_query(target), settings)) {
        readings.count = 1;
        readings.unreadable = false;
        readings.text[0] = rn_path_cut_query(target);
    } else {
        rn_path_read_all(target, settings, &readings);
    }
}

#endif
