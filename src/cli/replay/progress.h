/* SPDX-License-Identifier: Apache-2.0 */
/* A line on stderr, if that is a terminal: how far it is, lines a second, and the time left. */
#ifndef RN_CLI_REPLAY_PROGRESS_H
#define RN_CLI_REPLAY_PROGRESS_H

#include "cli/logs/feed.h"

struct rn_progress_line {
    uint64_t bytes; /* of all logs; 0: not known */
    uint64_t lines;
    int64_t begun_ns, shown_ns;
    bool on;
};

void rn_progress_init(struct rn_progress_line *progress, uint64_t bytes);
void rn_progress_show(struct rn_progress_line *progress, const struct rn_feeds *feeds);
void rn_progress_done(struct rn_progress_line *progress);

/* For each line. */
static inline void rn_progress_step(struct rn_progress_line *p, const struct rn_feeds *feeds)
{
    if ((++p->lines & 0xFFFF) == 0 && p->on)
        rn_progress_show(p, feeds);
}

#endif
