/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notices changes of files: checks them when the kernel reports a change in their
 * directories, and every two seconds (for network file systems and links to links).
 * Belongs to the thread of the loop.
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
    uint64_t seen;                /* the last stamp of the files */
    uint64_t first_ms, called_ms; /* the first change not reported yet; the last report */
    void (*changed)(void *arg);
    void *arg;
};

void rn_watch_init(struct rn_watch *watch, uv_loop_t *loop);
/* Before the loop's end. */
void rn_watch_done(struct rn_watch *watch);
/* As rn_server_watch. */
int rn_watch_set(struct rn_watch *watch, const char *const *paths, size_t count,
                 void (*changed)(void *arg), void *arg);

#endif
