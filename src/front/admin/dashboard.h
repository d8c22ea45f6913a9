/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of the dashboard, which are part of the program: made from web/ by embed_dashboard.py.
 * They are the same for everybody and have no data of anybody. To add one: a file in web/, its
 * name in `dashboard` of meson.build.
 */
#ifndef RN_FRONT_ADMIN_DASHBOARD_H
#define RN_FRONT_ADMIN_DASHBOARD_H

#include "base/slice.h"

/* The bytes of a file in one coding. */
struct rn_dashboard_bytes {
    const char *tag; /* in quotes, as ETag has it; each coding has its own */
    struct rn_slice bytes;
};

struct rn_dashboard_file {
    const char *name; /* within web/ */
    const char *type;
    struct rn_dashboard_bytes plain, zipped; /* zipped: by gzip */
};

extern const struct rn_dashboard_file rn_dashboard_files[];
extern const size_t rn_dashboard_file_count;

#endif
