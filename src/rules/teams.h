/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of all rules files, by team. Files that are named, and those at the
 * root of a directory, belong to the root; each sub-directory is a team. One
 * thread at a time.
 */
#ifndef RN_RULES_TEAMS_H
#define RN_RULES_TEAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/slice.h"

struct rn_report;

struct rn_team_file {
    struct rn_slice path, text;
    struct rn_slice problem; /* data not NULL: why there is no text */
};

struct rn_team {
    struct rn_slice name; /* empty: the root */
    struct rn_team_file *files;
    uint32_t file_count;
    bool kept;       /* these files are an earlier version, */
    uint32_t errors; /* since the current one has this many errors */
    struct rn_arena arena;
};

struct rn_teams {
    struct rn_team *items; /* the root, then the others in the order found */
    uint32_t count;
};

/* Reads files and directories (*.yaml, *.yml and *.json in a directory, sorted by name, and in its
 * sub-directories, but no names with a dot in front). If a file cannot be read, its `problem` says
 * why; a directory without files is reported. NULL: out of memory. */
struct rn_teams *rn_teams_read(const char *const *paths, size_t count, struct rn_report *report);
/* One file at the root, from memory. NULL: out of memory. */
struct rn_teams *rn_teams_of_text(struct rn_slice name, struct rn_slice text);
void rn_teams_free(struct rn_teams *teams);

/* NULL: there is none of this name. */
const struct rn_team *rn_teams_find(const struct rn_teams *teams, struct rn_slice name);
/* Replaces the team's files by those of its earlier version; NULL: by none. False: out of
 * memory. */
bool rn_teams_keep(struct rn_team *team, const struct rn_team *former);
/* Frees the texts of the root's files. */
void rn_teams_drop_root(struct rn_teams *teams);

#endif
