/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list of the daemon's, page after page: printed as it comes, since it may be too
 * long for one answer.
 */
#ifndef RN_CLI_OUTPUT_PAGED_LIST_H
#define RN_CLI_OUTPUT_PAGED_LIST_H

#include "cli/client/daemon.h"
#include "cli/output/columns.h"

struct rn_paged_list {
    const char *path; /* of the list: /v1/bans */
    const char *name; /* of the member that has the entries; and what to call them */
    const char *const *titles;
    size_t title_count;
    /* The cells of one entry. */
    void (*put)(struct rn_columns *columns, const struct rn_cli_json *entry);
};

/* As a table, or with --json as one object. The exit status. */
int rn_paged_list_print(struct rn_daemon *daemon, const struct rn_paged_list *list);

#endif
