/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints a list of the daemon page by page: it may be too long for one answer.
 */
#ifndef RN_CLI_OUTPUT_PAGED_LIST_H
#define RN_CLI_OUTPUT_PAGED_LIST_H

#include "cli/client/daemon.h"
#include "cli/output/columns.h"

struct rn_paged_list {
    const char *path; /* such as /v1/bans */
    const char *name; /* member of the answer with the entries; also their name for people */
    const char *const *titles;
    size_t title_count;
    /* Adds the cells of one entry. */
    void (*put)(struct rn_columns *columns, const struct rn_cli_json *entry);
};

/* Prints a table, or with --json one object. Returns the exit status. */
int rn_paged_list_print(struct rn_daemon *daemon, const struct rn_paged_list *list);

#endif
