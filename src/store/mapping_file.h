/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to store/: what all files have in common that processes map and share. Every process that
 * uses one holds a shared flock; a process that gets the exclusive lock is alone. A new file
 * is written under another name and then moved into place, so that a kill leaves no half-written
 * one.
 */
#ifndef RN_STORE_MAPPING_FILE_H
#define RN_STORE_MAPPING_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include <ration/error.h>

#define RN_MAPPING_PATH_BYTES 4096

/* Which file, its name in messages, and where they go. */
struct rn_mapping_file {
    const char *what;           /* "state file" */
    const char *path;           /* NULL: memory without a file */
    struct ration_error *error; /* not NULL */
};

/* The result of one attempt to open. */
enum rn_attempt {
    RN_ATTEMPT_OPENED,
    RN_ATTEMPT_AGAIN, /* the file was made or replaced: try again */
    RN_ATTEMPT_WAIT,  /* another process makes or replaces it */
    RN_ATTEMPT_FAILED,
};

/* Fills the error; a code of 0 is a notice. Returns RN_ATTEMPT_FAILED. */
enum rn_attempt rn_mapping_file_fail(const struct rn_mapping_file *file, int code,
                                     const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Opens the file and locks it: exclusively if *alone. *fd is -1 if there is none. The caller closes
 * it, whatever the result. */
enum rn_attempt rn_mapping_file_lock(const struct rn_mapping_file *file, int *fd, bool *alone);
/* Keeps a shared lock in the place of the exclusive one. */
enum rn_attempt rn_mapping_file_share(const struct rn_mapping_file *file, int fd);

/* A file of that many bytes, with room on the disk, beside the path. `name` is its name. -1: the
 * error is filled. */
int rn_mapping_file_new(const struct rn_mapping_file *file, uint64_t bytes,
                        char name[RN_MAPPING_PATH_BYTES]);
/* Moves it into place, unless another process was faster: its file is as good. `name` is gone
 * then. */
enum rn_attempt rn_mapping_file_place(const struct rn_mapping_file *file, const char *name);

bool rn_mapping_file_is_at(const char *path, int fd);

/* Whether a file in use is still what it was, where it was: RATION_ETORN, RATION_EIO. The error may
 * be NULL here. */
int rn_mapping_file_check(const struct rn_mapping_file *file, int fd, uint64_t bytes);

/* Calls `attempt` until it has an answer; waits two seconds for other processes at most. Follows a
 * symbolic link first, so that the file is replaced and not the link. 0 or RATION_E*. */
int rn_mapping_file_try(struct rn_mapping_file *file, enum rn_attempt (*attempt)(void *arg),
                        void *arg);

#endif
