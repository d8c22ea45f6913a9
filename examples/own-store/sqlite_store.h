/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store for libration in an SQLite file. Every process that opens the same file shares its
 * limits. The file is on a local disk: SQLite's locks do not work over a network.
 */
#ifndef SQLITE_STORE_H
#define SQLITE_STORE_H

#include <ration/store.h>

struct sqlite_store;

/* Opens or creates the file. An update gives up after about wait_ms, in which another process may
 * hold the lock. NULL: it failed. */
struct sqlite_store *sqlite_store_open(const char *path, int wait_ms);
/* After ration_close. */
void sqlite_store_close(struct sqlite_store *s);

/* For ration_options.store. */
struct ration_store sqlite_store_ops(struct sqlite_store *s);

#endif
