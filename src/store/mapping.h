/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to store/: a table's memory, and what a process has besides.
 */
#ifndef RN_STORE_MAPPING_H
#define RN_STORE_MAPPING_H

#include <stddef.h>

#include "store/layout.h"

/* What the check sum of a header covers. */
#define RN_CHECKED_BYTES offsetof(struct rn_header, check)
uint64_t rn_mapping_header_check(const struct rn_header *header);
/* Whether that sum is right, and everything lies where it must within `bytes`. */
bool rn_mapping_header_is_sound(const struct rn_header *header);

/* Maps a file, or memory if fd is -1. NULL with errno set if it cannot. */
void *rn_mapping_new(uint64_t bytes, int fd);

/* Sets where everything lies in a table of `bytes`, of which block_share percent
 * hold blocks. */
void rn_mapping_plan(struct rn_header *header, uint64_t bytes, double block_share);
/* Fills zeroed memory with an empty table so planned. 0 or RATION_EIO: there are
 * no random numbers. */
int rn_mapping_init(void *mapping, uint64_t bytes, double block_share);

/* The process's part of a table whose header is valid. It owns mapping and fd
 * (-1: none) from now on; rn_mapping_table_free gives up all three without touching the
 * contents. NULL if memory ran out. */
struct rn_table *rn_mapping_table_new(void *mapping, int fd);
void rn_mapping_table_free(struct rn_table *table);

#endif
