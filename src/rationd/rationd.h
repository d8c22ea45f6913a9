/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon: main.c opens and serves, ready.c says when it is ready, reload.c replaces the
 * rules. All of this runs in the control thread.
 */
#ifndef RN_RATIOND_RATIOND_H
#define RN_RATIOND_RATIOND_H

#include "rationd/membership.h"
#include "rationd/poller.h"

struct rn_rationd {
    struct rn_rationd_options options;
    struct ration *limiter;
    struct rn_server *server;
    struct rn_front front;
    struct rn_shared_store shared;   /* if options.shares */
    struct rn_membership membership; /* if options.shares */
    struct rn_poller poller;
    struct rn_timer ready_timer; /* runs until Redis is reached */
    int64_t ready_by_ns;
    bool accepting; /* the workers accept clients */
    bool hangup_due, reload_due;
    uint64_t scopes_checked; /* without Redis: the version of the rules that were checked, + 1 */
    uint32_t file_count;     /* rules files at the start */
    uint64_t usage_other;    /* how often units went to `other` of usage; UINT64_MAX: not known */
    bool usage_full;         /* the log says so */
};

/* --- reload.c ------------------------------------------------------------------------------- */

/* Reads the files again; `d` is a struct rn_rationd. If an operator has set rules, checks the files
 * only. 0, or RATION_E*: the former rules stay. */
int rn_rationd_reload(void *d, struct rn_author author, struct ration_report **report);
/* SIGHUP, and a changed file: reload when no reply of the control thread waits for Redis. Such a
 * reply may read the rules that a reload replaces (front/await/fiber_pool.h). */
void rn_rationd_hangup(void *d);
void rn_rationd_files_changed(void *d);
/* Does a reload that had to wait. */
void rn_rationd_reload_if_due(struct rn_rationd *d);

/* --- ready.c -------------------------------------------------------------------------------- */

/* Without Redis the daemon is ready now. With Redis it is ready when all loops are connected, the
 * changes of other nodes are in force and leased limits start full, or after a timeout: then
 * on_store_failure decides, with the rules and clients kept in files. Connections are not accepted
 * until Redis is reached, so that on_store_failure does not decide merely because Redis is still
 * being connected. */
void rn_rationd_ready(void *d);

#endif
