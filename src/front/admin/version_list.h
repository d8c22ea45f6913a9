/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The versions of the rules: each text that was in force, who put it there, when and how. The
 * newest RN_VERSIONS_MAX are kept, with at most RN_VERSIONS_BYTES of text; the oldest texts go
 * first.
 *
 * With a path they are kept in a file, too (version_file.c): a journal in which a record VERSION
 * says what a version is, and records PIECE behind it have its text.
 *
 *   VERSION   {"id":4,"made_us":...,"how":"put","by":"127.0.0.1:46312","bytes":120,"text":120,...}
 *   PIECE     at most RN_RECORD_BYTES_MAX bytes of the text, as often as need be
 *
 * In the control thread.
 */
#ifndef RN_FRONT_ADMIN_VERSION_LIST_H
#define RN_FRONT_ADMIN_VERSION_LIST_H

#include "base/buf.h"
#include "base/slice.h"
#include "store/journal.h"

#define RN_VERSIONS_MAX 100
#define RN_VERSIONS_BYTES ((size_t)8 << 20) /* of all texts */
#define RN_VERSIONS_NAME 256                /* bytes of an author that are kept */

/* How rules came into force. The names are in version_list.c. */
enum rn_version_how {
    RN_VERSION_START,
    RN_VERSION_FILES,
    RN_VERSION_PUT,
    RN_VERSION_DELETE,
    RN_VERSION_ROLLBACK,
    RN_VERSION_TRIAL,
    RN_VERSION_OTHER_NODE,
    RN_VERSION_HOW_COUNT
};

struct rn_version {
    uint64_t id;     /* ascending, from 1 on */
    int64_t made_us; /* Unix time */
    enum rn_version_how how;
    uint64_t of;     /* the version that a rollback went back to; else 0 */
    uint64_t digest; /* of the rules: equal rules are one version */
    uint64_t bytes;  /* of the text, also if it is not kept any more */
    uint64_t rules;
    char by[RN_VERSIONS_NAME];    /* an address, or what caused the change */
    char token[RN_VERSIONS_NAME]; /* the name of the author's token; empty: none was needed */
    struct rn_buf text;           /* data NULL: not kept */
};

struct rn_version_list {
    struct rn_version items[RN_VERSIONS_MAX]; /* the oldest first */
    size_t count;
    uint64_t last_id;
    uint64_t in_force;         /* the id; 0: none */
    struct rn_journal journal; /* path NULL: in memory only */
    bool behind;               /* the file lacks something of this list, or has too much */
    /* While the file is read: the version whose text is not complete yet. */
    struct rn_version reading;
    uint64_t missing; /* bytes of its text */
};

const char *rn_version_list_how(enum rn_version_how how);

/* Reads what is in the file (NULL: there is none) and logs what is wrong with it. */
void rn_version_list_open(struct rn_version_list *list, const char *path);
void rn_version_list_done(struct rn_version_list *list);

/* Adds these rules, unless they are those of the last version, and marks them as being in force.
 * Of `version`, id and text are set here; text.data NULL: they have none that can be kept. */
void rn_version_list_add(struct rn_version_list *list, const struct rn_version *version,
                         struct rn_slice text);
/* NULL: there is none of this id (any more). */
const struct rn_version *rn_version_list_find(const struct rn_version_list *list, uint64_t id);
/* The newest version with this digest whose text is kept; or NULL. */
const struct rn_version *rn_version_list_find_text(const struct rn_version_list *list,
                                                   uint64_t digest);

/* --- between version_list.c and version_file.c -------------------------------------------- */

/* Takes the version, and drops what is too much. */
void rn_version_list_append(struct rn_version_list *list, const struct rn_version *version);
/* Forgets all. */
void rn_version_list_clear(struct rn_version_list *list);
/* Reads what another process has added, and locks the file for rn_version_file_write. False: the
 * file cannot be used now; the log says why. */
bool rn_version_file_lock(struct rn_version_list *list);
/* Writes the newest version, or all of them. Ends the lock. */
void rn_version_file_write(struct rn_version_list *list);

#endif
