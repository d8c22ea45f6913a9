/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file of records that only grows at its end, read and written by several
 * processes. What the records say is the caller's business.
 *
 *   header   magic | version | bytes of the header | id | check sum       32 bytes
 *   record   bytes of the payload | kind | sequence | check sum           24 bytes
 *            payload
 *
 * The id is random and part of every check sum, so that no payload can pass for
 * a record. Sequence numbers ascend. A writer holds an exclusive lock, has read
 * all that others wrote, and appends with one write and fdatasync: what was
 * acknowledged is there after a kill or a power cut. What a writer did not
 * complete does not check and is cut off by the next one. Bytes that do not
 * check with sound records behind them are damage: they are skipped.
 *
 * A file is opened for each operation, so that locks of a process and its
 * children are apart and a file that was replaced is noticed.
 */
#ifndef RN_STORE_JOURNAL_H
#define RN_STORE_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <ration/error.h>

#include "base/buf.h"
#include "base/slice.h"

#define RN_JOURNAL_MAGIC UINT64_C(0x746E65696C636E72) /* "rnclient" */
#define RN_JOURNAL_VERSION 1
#define RN_JOURNAL_HEADER_BYTES 32
#define RN_RECORD_HEADER_BYTES 24
#define RN_RECORD_BYTES_MAX 16384 /* of a payload */

#define RN_RECORD_MARK 0 /* a kind that says nothing but how far numbers have come */

struct rn_record {
    uint32_t kind;
    uint64_t sequence;
    struct rn_slice payload;
};

/* Told what is in the file. `see` returns 0, or a code that ends the reading. */
struct rn_journal_reader {
    void (*restart)(void *arg); /* another file: what was seen before is void */
    int (*see)(void *arg, const struct rn_record *record);
    void *arg;
};

/* One thread at a time. */
struct rn_journal {
    char *path;
    const char *what; /* in messages: "overrides and bans" */
    /* How far the file has been read: */
    uint64_t id;       /* of which file; 0: of none */
    uint64_t end;      /* behind its last sound record */
    uint64_t sequence; /* of that, also across files */
    uint64_t records;  /* in the file */
    uint64_t skipped;  /* damaged bytes among them */
    dev_t device;
    ino_t inode;
    off_t size;
    int fd; /* locked for writing, else -1 */
};

/* The path is copied; `what` is a constant, the word for the records in messages. 0 or
 * RATION_ENOMEM. */
int rn_journal_init(struct rn_journal *j, const char *path, const char *what);
void rn_journal_done(struct rn_journal *j);

/* Whether the file looks as it did after the last call: no need to read it. */
bool rn_journal_is_current(const struct rn_journal *j);

/* Reads what is new. A file that is not there is an empty one. 0 or RATION_E*:
 * EFOREIGN, EVERSION, ETORN if it is none of ours and was left alone, EBUSY if
 * another process held its lock for two seconds, EIO, ENOMEM, or what `see` returned.
 * On success error->text is empty, or a notice: what was skipped or left out. */
int rn_journal_read(struct rn_journal *j, const struct rn_journal_reader *reader,
                    struct ration_error *error);

/* Locks the file, which is created if need be, and reads what is new. To be
 * followed by any number of rn_journal_write and rn_journal_rewrite, and
 * rn_journal_unlock. Notices as above, and what was cut off. */
int rn_journal_lock(struct rn_journal *j, const struct rn_journal_reader *reader,
                    struct ration_error *error);
void rn_journal_unlock(struct rn_journal *j);

/* Appends records, which have the next sequence numbers from j->sequence + 1 on. If
 * it fails, RATION_EIO, the file is as it was. */
int rn_journal_write(struct rn_journal *j, const struct rn_record *records, size_t n,
                     struct ration_error *error);

/* Puts a new file with the records that `next` hands out in the place of this
 * one, whole or not at all. Sequence numbers stay and must ascend. Ends the
 * lock, as does rn_journal_unlock. */
int rn_journal_rewrite(struct rn_journal *j, bool (*next)(void *arg, struct rn_record *record),
                       void *arg, struct ration_error *error);

/* --- the bytes ---------------------------------------------------------------- */

/* RATION_EFOREIGN, EVERSION, ETORN (error->text says why), or 0 with *id set. */
int rn_journal_read_header(const char *bytes, size_t len, const char *what, uint64_t *id,
                           struct ration_error *error);
void rn_journal_put_header(struct rn_buf *out, uint64_t id);
void rn_journal_put_record(struct rn_buf *out, uint64_t id, const struct rn_record *record);

struct rn_journal_scan {
    uint64_t id;
    uint64_t sequence; /* of the last record */
    size_t end;        /* behind the last sound record, */
    uint64_t records;  /* how many there were, */
    uint64_t skipped;  /* and bytes among them that were none, */
    size_t skipped_at; /* the first of them here */
};
/* Goes through records from bytes[scan->end] on. 0, or what `see` returned. */
int rn_journal_scan(struct rn_journal_scan *scan, const char *bytes, size_t len,
                    int (*see)(void *arg, const struct rn_record *record), void *arg);

#endif
