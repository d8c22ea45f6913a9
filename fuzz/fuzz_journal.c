/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a journal, in memory and as a file, and as the payload of a record: no
 * crash; what is read as an override or a ban is written as the same bytes again, a sound
 * record is found behind any rubbish, and a file that is not refused takes another one,
 * behind everything that was read, and says what it left out. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "limiter/clients/client.h"
#include "store/journal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int condition)
{
    if (!condition)
        abort();
}

static void read_payload(struct rn_slice payload)
{
    static const struct rn_hash_key secret = {1, 2};
    struct rn_client client;
    struct rn_buf again = {0};

    if (!rn_client_read(payload, &client))
        return;
    demand(client.count <= RN_CLIENT_ATTRIBUTES_MAX && client.note.len <= RATION_NOTE_MAX);
    (void)rn_client_identity(&client, &secret);
    rn_client_write(&client, &again);
    demand(!again.failed && rn_slice_equal(rn_buf_slice(&again), payload));
    rn_buf_done(&again);
}

struct found {
    struct rn_slice last;
    uint64_t sequence;
};

static int see(void *arg, const struct rn_record *record)
{
    struct found *f = arg;

    demand(record->sequence > f->sequence && record->payload.len <= RN_RECORD_BYTES_MAX);
    f->sequence = record->sequence;
    f->last = record->payload;
    read_payload(record->payload);
    return 0;
}

/* The input behind a sound record, and as the payload of another behind that. */
static void wrap(struct rn_slice input)
{
    struct rn_buf bytes = {0};
    struct rn_journal_scan scan = {.id = 7};
    struct found f = {.sequence = 0};

    rn_journal_put_record(&bytes, 7, &(struct rn_record){1, 1, RN_SLICE("first")});
    rn_buf_put_slice(&bytes, input);
    rn_journal_put_record(&bytes, 7, &(struct rn_record){1, UINT64_MAX, input});
    demand(!bytes.failed && rn_journal_scan(&scan, bytes.data, bytes.len, see, &f) == 0);
    demand(scan.end == bytes.len && f.sequence == UINT64_MAX && rn_slice_equal(f.last, input));
    rn_buf_done(&bytes);
}

/* --- as a file ------------------------------------------------------------------ */

static char path[64];

static void remove_file(void)
{
    unlink(path);
}

static void write_file(struct rn_slice input)
{
    int fd;

    if (path[0] == '\0') {
        snprintf(path, sizeof path, "%s/ration-fuzz-journal-%ld",
                 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (long)getpid());
        atexit(remove_file);
    }
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    demand(fd >= 0 && write(fd, input.data, input.len) == (ssize_t)input.len);
    close(fd);
}

struct counted {
    uint64_t count, sequence;
};

static void restart(void *arg)
{
    *(struct counted *)arg = (struct counted){0};
}

static int count(void *arg, const struct rn_record *record)
{
    struct counted *c = arg;

    demand(record->sequence > c->sequence);
    *c = (struct counted){c->count + 1, record->sequence};
    read_payload(record->payload);
    return 0;
}

static void open_file(struct rn_slice input)
{
    struct rn_journal j, other;
    struct counted first = {0}, all = {0};
    struct ration_error error;

    write_file(input);
    demand(rn_journal_init(&j, path, "overrides and bans") == 0 &&
           rn_journal_init(&other, path, "overrides and bans") == 0);
    int code = rn_journal_read(&j, &(struct rn_journal_reader){restart, count, &first}, &error);

    if (code != 0) {
        demand(strstr(error.text, "left alone") != NULL);
    } else if (first.sequence != UINT64_MAX) {
        demand((error.text[0] == '\0') == (input.len != 0 && j.end == input.len && j.skipped == 0));
        demand(rn_journal_lock(&j, &(struct rn_journal_reader){restart, count, &first}, &error) ==
               0);
        demand(rn_journal_write(&j, &(struct rn_record){1, j.sequence + 1, RN_SLICE("last")}, 1,
                                &error) == 0);
        rn_journal_unlock(&j);
        demand(rn_journal_read(&other, &(struct rn_journal_reader){restart, count, &all}, &error) ==
               0);
        demand(all.count == first.count + 1 && all.sequence == first.sequence + 1);
        demand((error.text[0] == '\0') == (other.skipped == 0));
    }
    rn_journal_done(&j);
    rn_journal_done(&other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rn_slice input = {(const char *)data, size};
    struct rn_journal_scan scan = {.end = RN_JOURNAL_HEADER_BYTES};
    struct found f = {.sequence = 0};
    struct ration_error error;

    if (rn_journal_read_header(input.data, size, "x", &scan.id, &error) == 0) {
        demand(rn_journal_scan(&scan, input.data, size, see, &f) == 0);
        demand(scan.end <= size);
    } else {
        demand(error.text[0] != '\0');
    }
    read_payload(input);
    if (size <= RN_RECORD_BYTES_MAX)
        wrap(input);
    open_file(input);
    return 0;
}
