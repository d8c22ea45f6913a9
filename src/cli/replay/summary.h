/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run has found: for people as text and as a page, for programs as JSON. All three have the
 * same notes, by which a reader can tell what the figures are worth.
 */
#ifndef RN_CLI_REPLAY_SUMMARY_H
#define RN_CLI_REPLAY_SUMMARY_H

#include "cli/replay/run.h"

void rn_summary_text(struct rn_run *run);
void rn_summary_json(struct rn_run *run);
/* False after an error message. */
bool rn_summary_page(struct rn_run *run, const char *path);

/* notes.c: calls `put` for each sentence about what is not as one would think: faulty lines, what
 * the log lacks, what is not replayed. */
void rn_notes_each(const struct rn_run *run, void (*put)(void *arg, const char *text), void *arg);
/* Those of them that are about the logs: faulty lines and their order. */
void rn_notes_feeds(const struct rn_run *run, void (*put)(void *arg, const char *text), void *arg);
/* Where the times of the logs come from, a sentence for each format. */
void rn_notes_times(const struct rn_run *run, void (*put)(void *arg, const char *text), void *arg);

/* `access.log` or `3 logs`, their formats; cut to fit. */
void rn_notes_logs(const struct rn_run *run, char *text, size_t size);

#endif
