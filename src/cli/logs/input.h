/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines of a file, a pipe or standard input, unpacked if it is compressed by gzip or zstd: its
 * first bytes tell that, not its name.
 */
#ifndef RN_CLI_LOGS_INPUT_H
#define RN_CLI_LOGS_INPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

#define RN_INPUT_PROBLEM 160

/* How compressed bytes become plain ones: gzip.c and zstd.c, or gzip_none.c and zstd_none.c. */
struct rn_unpack {
    void *state;
    /* Unpacks from `in` to `out`; moves both. Returns what is wrong with the file, or NULL. *whole:
     * what was read so far could be the whole file. */
    const char *(*run)(void *state, struct rn_slice *in, char **out, char *out_end, bool *whole);
    void (*free)(void *state);
};
#define RN_INPUT_DAMAGED "has damaged compressed data"
/* False: out of memory, or this program was built without the library; `problem` says so. */
bool rn_input_gzip(struct rn_unpack *unpack, char problem[RN_INPUT_PROBLEM]);
bool rn_input_zstd(struct rn_unpack *unpack, char problem[RN_INPUT_PROBLEM]);

struct rn_input {
    uint64_t line;                  /* number of the last line, from 1 */
    uint64_t size;                  /* of the file; 0: not known, as of a pipe */
    uint64_t read;                  /* bytes of the file so far */
    char problem[RN_INPUT_PROBLEM]; /* why it ended before its end; empty: nothing */

    int fd; /* private from here on */
    char *buffer;
    size_t at, end; /* of the buffer: what has not been handed out */
    bool finished, packed, whole;
    bool skips; /* the rest of a line that was too long comes next */
    struct rn_unpack unpack;
    char *raw; /* compressed bytes */
    struct rn_slice raw_left;
};

/* Opens a file, "-" is standard input, and fills the buffer once. False after an error message on
 * stderr. Call rn_input_close in any case. */
bool rn_input_open(struct rn_input *input, const char *path);
void rn_input_close(struct rn_input *input);

/* What is in the buffer before the first line has been taken: to find out the format. */
struct rn_slice rn_input_peek(const struct rn_input *input);

/* The next line without its end, `\n` or `\r\n`; it may be changed, and is gone with the next call.
 * A line above RN_LOGS_LINE_MAX is cut to one byte more than that. False: there are no more. */
bool rn_input_next(struct rn_input *input, struct rn_slice *line);

#endif
