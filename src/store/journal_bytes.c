/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a journal. Nothing in them is trusted before it checks.
 */
#include <string.h>

#include "base/error.h"
#include "base/siphash.h"
#include "store/journal.h"

struct header {
    uint64_t magic;
    uint32_t version, bytes;
    uint64_t id, check;
};

struct head {
    uint32_t len, kind;
    uint64_t sequence, check;
};

_Static_assert(sizeof(struct header) == RN_JOURNAL_HEADER_BYTES, "no padding");
_Static_assert(sizeof(struct head) == RN_RECORD_HEADER_BYTES, "no padding");

static uint64_t check_header(const struct header *h)
{
    static const struct rn_hash_key fixed = {RN_JOURNAL_MAGIC, RN_JOURNAL_VERSION};

    return rn_siphash(&fixed, h, offsetof(struct header, check));
}

int rn_journal_read_header(const char *bytes, size_t len, const char *what, uint64_t *id,
                           struct ration_error *error)
{
    struct header h;

    if (len >= sizeof h)
        memcpy(&h, bytes, sizeof h);
    if (len < sizeof h || h.magic != RN_JOURNAL_MAGIC)
        return rn_error_set(error, RATION_EFOREIGN, 0,
                            "not a file of %s; it was left alone: move it away", what);
    if (h.version != RN_JOURNAL_VERSION || h.bytes != sizeof h)
        return rn_error_set(error, RATION_EVERSION, 0,
                            "version %u where this library reads %u; it was left alone: use the "
                            "version that wrote it or move it away",
                            h.version, RN_JOURNAL_VERSION);
    if (h.check != check_header(&h) || h.id == 0)
        return rn_error_set(error, RATION_ETORN, 0,
                            "its header is damaged; it was left alone: move it away");
    *id = h.id;
    return 0;
}

void rn_journal_put_header(struct rn_buf *out, uint64_t id)
{
    struct header h = {
        .magic = RN_JOURNAL_MAGIC, .version = RN_JOURNAL_VERSION, .bytes = sizeof h, .id = id};

    h.check = check_header(&h);
    rn_buf_put(out, &h, sizeof h);
}

static uint64_t check_record(uint64_t id, const struct head *head, const char *payload)
{
    const struct rn_hash_key key = {id, RN_JOURNAL_MAGIC};
    struct rn_siphash s;

    rn_siphash_init(&s, &key);
    rn_siphash_add(&s, head, offsetof(struct head, check));
    rn_siphash_add(&s, payload, head->len);
    return rn_siphash_done(&s);
}

void rn_journal_put_record(struct rn_buf *out, uint64_t id, const struct rn_record *record)
{
    struct head head = {
        .len = (uint32_t)record->payload.len, .kind = record->kind, .sequence = record->sequence};

    head.check = check_record(id, &head, record->payload.data);
    rn_buf_put(out, &head, sizeof head);
    rn_buf_put_slice(out, record->payload);
}

int rn_journal_scan(struct rn_journal_scan *scan, const char *bytes, size_t len,
                    int (*see)(void *arg, const struct rn_record *record), void *arg)
{
    struct head head;

    for (size_t at = scan->end; at < len && len - at >= sizeof head;) {
        const char *payload = bytes + at + sizeof head;

        memcpy(&head, bytes + at, sizeof head);
        if (head.len > RN_RECORD_BYTES_MAX || head.len > len - at - sizeof head ||
            head.sequence <= scan->sequence ||
            head.check != check_record(scan->id, &head, payload)) {
            at++; /* no sound record begins here */
            continue;
        }
        struct rn_record record = {head.kind, head.sequence, {payload, head.len}};
        int code = see(arg, &record);

        if (code != 0)
            return code;
        if (scan->skipped == 0)
            scan->skipped_at = scan->end;
        scan->skipped += at - scan->end;
        at += sizeof head + head.len;
        scan->end = at;
        scan->sequence = head.sequence;
        scan->records++;
    }
    return 0;
}
