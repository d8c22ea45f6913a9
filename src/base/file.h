/* SPDX-License-Identifier: Apache-2.0 */
/* Opening files that users name. */
#ifndef RN_BASE_FILE_H
#define RN_BASE_FILE_H

#include <stdbool.h>

#define RN_FILE_PROBLEM 128

/* Opens a regular file for reading, and never waits: a FIFO, a device or a socket is refused.
 * Pipes that a shell has opened, /dev/stdin and /dev/fd/N, are read as well, and /dev/null is
 * an empty file. Returns the descriptor, or -1 with what is wrong, such as "it is a FIFO, not a
 * regular file". */
int rn_file_open(const char *path, char problem[RN_FILE_PROBLEM]);
/* The same, and refuses a file outside `folder`, which links may lead to. `folder` is a real path
 * (realpath(3)). */
int rn_file_open_inside(const char *path, const char *folder, char problem[RN_FILE_PROBLEM]);
/* Whether the path leads to something in `folder`, or to itself; false if it leads nowhere. */
bool rn_file_is_inside(const char *path, const char *folder);
/* Whether both paths lead to one regular file; false if one leads nowhere. */
bool rn_file_is_same(const char *a, const char *b);

#endif
