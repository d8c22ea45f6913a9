/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mapped file of fixed size beside the state file, shared by the processes that share the
 * table; or memory, if the table has no file. What is in it is the caller's business: it must be
 * position-independent, only ever be changed atomically, and zeros must be a valid content.
 *
 *   header   magic | version | bytes | id | check sum | owner     one page
 *   data     the caller's
 *
 * Every process that uses the file holds a shared flock. A process that is alone may replace or
 * resize it, and clean up what killed processes left.
 */
#ifndef RN_STORE_SIDE_FILE_H
#define RN_STORE_SIDE_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include <ration/error.h>

#include "store/table.h"

#define RN_SIDE_FILE_HEAD 4096
#define RN_SIDE_FILE_BYTES_MIN (UINT64_C(64) << 10)
#define RN_SIDE_FILE_BYTES_MAX RN_TABLE_BYTES_MAX

struct rn_side_file_plan {
    const char *what; /* in messages: "usage file" */
    const char *path; /* NULL: memory of this process */
    uint64_t magic;   /* differs for each kind of file */
    uint32_t version; /* of what the caller has in it */
    uint64_t owner;   /* rn_side_file_owner of the table */
    uint64_t bytes;   /* all of a new file, its header too; rounded down to pages */
    bool adopt;       /* a file of another table becomes this table's, else an empty one replaces
                         it */
    /* Puts what was in a file of another size into a new one, which is zeroed. Called if no other
     * process uses the file. False: it does not fit; or NULL: a file keeps its size. */
    bool (*move)(void *to, uint64_t to_bytes, const void *from, uint64_t from_bytes);
};

struct rn_side_file {
    void *data;     /* zeroed when it is new; aligned to a page */
    uint64_t bytes; /* of it */
    uint64_t id;    /* random; kept as long as the content is */
    bool alone;     /* no other process used it when it was opened */
    /* For side_file.c: */
    const char *what;
    void *mapping;
    int fd;     /* -1: memory */
    char *path; /* absolute; NULL: memory */
};

/* Says which table a file belongs to without giving its secret away. */
uint64_t rn_side_file_owner(const struct rn_table *table);

/* 0, or RATION_E* with `error` filled. A file of another size that other processes use keeps it. A
 * foreign or damaged file is left alone. error->text may hold a notice on success, else
 * it is "". */
int rn_side_file_open(const struct rn_side_file_plan *plan, struct rn_side_file *file,
                      struct ration_error *error);
/* Maps a file, of whatever size and table, to be read only: what, path, magic and version are
 * needed of the plan. Takes no lock: a file that is replaced meanwhile stays as it was. */
int rn_side_file_read(const struct rn_side_file_plan *plan, struct rn_side_file *file,
                      struct ration_error *error);
/* All zeros is a file that is closed. */
void rn_side_file_close(struct rn_side_file *file);

/* As rn_table_check_file. */
int rn_side_file_check(const struct rn_side_file *file, struct ration_error *error);

#endif
