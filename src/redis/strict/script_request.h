/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run of a script over keys of one slot, by whoever knows the script: those of
 * leases and reports, which are not charges. It is run at most once: redis/strict/script_call.h.
 */
#ifndef RN_REDIS_SCRIPT_REQUEST_H
#define RN_REDIS_SCRIPT_REQUEST_H

#include "redis/strict/script_call.h"

#define RN_SCRIPT_REQUEST_KEYS 64
#define RN_SCRIPT_REQUEST_ARGS 192

struct rn_script_request {
    enum rn_script script;
    const struct rn_slice *keys, *args; /* borrowed during the call only; the first key's
                                           slot is that of all */
    size_t key_count, arg_count;
    int64_t until_ns; /* what was not run is not sent again later, of rn_wheel_now; 0: within the
                         store's deadline from now */
    /* Once, unless the call was not begun. NULL: lost; whether it was run is not known.
     * An error of Redis is a reply: the script was not run, or failed. */
    rn_link_reply *reply;
    void *arg;
};

/* False: not sent. */
bool rn_script_request_send(struct rn_script_caller *calls, const struct rn_script_request *ask);

#endif
