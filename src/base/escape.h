/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Somebody's text made fit to be shown: nothing written here makes a terminal
 * do anything but show it.
 */
#ifndef RN_BASE_ESCAPE_H
#define RN_BASE_ESCAPE_H

#include "base/buf.h"

/* All but printable characters as \xNN, quotes and backslashes behind a
 * backslash. */
void rn_escape_put(struct rn_buf *out, struct rn_slice text);
/* The same in quotes. */
void rn_escape_put_quoted(struct rn_buf *out, struct rn_slice text);
/* Text of several lines: line feeds, quotes and backslashes stay as they are. */
void rn_escape_put_lines(struct rn_buf *out, struct rn_slice text);

#endif
