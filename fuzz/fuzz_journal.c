/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a journal, and as the payload of a record: no crash; what is read
 * as an override or a ban is written as the same bytes again, and a sound record
 * is found behind any rubbish. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "limiter/client.h"
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rn_slice input = {(const char *)data, size};
    struct rn_journal_scan scan = {.end = RN_JOURNAL_HEADER_BYTES};
    struct found f = {.sequence = 0};
    struct ration_error error;

    if (rn_journal_read_header(input.data, size, &scan.id, &error) == 0) {
        demand(rn_journal_scan(&scan, input.data, size, see, &f) == 0);
        demand(scan.end <= size);
    } else {
        demand(error.text[0] != '\0');
    }
    read_payload(input);
    if (size <= RN_RECORD_BYTES_MAX)
        wrap(input);
    return 0;
}
