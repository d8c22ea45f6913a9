/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the system knows of this process. What cannot be learnt is 0.
 */
#ifndef RN_FRONT_ADMIN_PROCESS_STATS_H
#define RN_FRONT_ADMIN_PROCESS_STATS_H

#include <stdint.h>

struct rn_process {
    double cpu_seconds; /* of all threads */
    uint64_t resident_bytes, virtual_bytes;
    uint64_t open_fds, max_fds;
};
void rn_process_stats_read(struct rn_process *process);

#endif
