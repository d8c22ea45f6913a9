/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Noticing that files have changed: by looking at them when the kernel reports
 * something in their directories, and every two seconds anyway (network file
 * systems, links to links). One thread: that of the loop.
 */
#ifndef RN_NET_WATCH_H
#define RN_NET_WATCH_H

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct rn_watch {
    uv_timer_t look, quiet;
    char **paths;
    size_t count;
    struct rn_watch_folder **folders;
    size_t folder_count;
    uint64_t seen;                /* of what is in the files' place */
    uint64_t first_ms, called_ms; /* a change not told yet; the last call */
    void (*changed)(void *arg);
    void *arg;
};

void rn_watch_init(struct rn_watch *watch, uv_loop_t *loop);
/* Before the loop's end. */
void rn_watch_done(struct rn_watch *watch);
/* As rn_server_watch. */
int rn_watch_set(struct rn_watch *watch, const char *const *paths, size_t count,
                 void (*changed)(void *arg), void *arg);

/* A number that changes with what is in the place of these paths: which file a
 * link leads to, its size and times; of a directory, its visible entries and theirs. */
uint64_t rn_watch_stamp_read(const char *const *paths, size_t count);

#endif
