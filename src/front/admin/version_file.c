/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the versions of rules in a journal. A version whose text is not complete, since its writer
 * was killed or bytes are damaged, is left out.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "front/admin/version_list.h"
#include "net/log.h"
#include "wire/json.h"
#include "wire/members.h"

#define WHAT "versions of rules"
#define VERSION 101 /* kinds of records; those of overrides and bans are small numbers */
#define PIECE 102
#define KINDS_OF_OTHERS 100
#define PIECE_BYTES (RN_RECORD_BYTES_MAX - sizeof(uint64_t)) /* behind the id of the version */
#define HEAD_BYTES 4096                                      /* of a VERSION, at most */
#define SMALL_FILE (UINT64_C(64) << 10)                      /* is never rewritten */
/* Beyond these, no process of ours wrote it: later ids must be exact as numbers of JSON, and the
 * time in ns. */
#define ID_MAX (UINT64_C(1) << 52)
#define MADE_US_MAX ((uint64_t)INT64_MAX / 1000)

/* --- reading ----------------------------------------------------------------------------- */

static enum rn_version_how read_how(struct rn_slice name)
{
    enum rn_version_how how = 0;

    while (how < RN_VERSION_HOW_COUNT - 1 && !rn_slice_is(name, rn_version_list_how(how)))
        how++;
    return how;
}

/* False: not what this program writes. */
static bool read_version(struct rn_slice payload, struct rn_version *version, uint64_t *text)
{
    char bytes[HEAD_BYTES];
    struct rn_json_token token;
    struct rn_json json;
    uint64_t made_us = 0;
    const struct {
        const char *name;
        uint64_t *to;
    } numbers[] = {{"id", &version->id},         {"made_us", &made_us},      {"of", &version->of},
                   {"digest", &version->digest}, {"bytes", &version->bytes}, {"text", text},
                   {"rules", &version->rules}};

    if (payload.len > sizeof bytes)
        return false;
    *version = (struct rn_version){0};
    *text = 0;
    memcpy(bytes, payload.data, payload.len);
    rn_json_init(&json, bytes, payload.len);
    if (rn_json_next(&json).kind != RN_JSON_OBJECT)
        return false;
    while ((token = rn_json_next(&json)).kind != RN_JSON_END && token.kind != RN_JSON_BAD) {
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
            if (rn_slice_is(token.name, numbers[i].name))
                rn_json_u64(&token, numbers[i].to);
        if (rn_slice_is(token.name, "how"))
            version->how = read_how(token.text);
        else if (rn_slice_is(token.name, "by"))
            rn_slice_copy(version->by, sizeof version->by, token.text);
        else if (rn_slice_is(token.name, "token"))
            rn_slice_copy(version->token, sizeof version->token, token.text);
    }
    version->made_us = (int64_t)made_us;
    return token.kind == RN_JSON_END && version->id != 0 && version->id <= ID_MAX &&
           made_us <= MADE_US_MAX && *text <= RN_VERSIONS_BYTES;
}

static void take_if_complete(struct rn_version_list *list)
{
    if (list->missing != 0)
        return;
    if (list->reading.text.failed)
        rn_buf_done(&list->reading.text);
    rn_version_list_append(list, &list->reading);
    list->reading = (struct rn_version){0};
}

static int see(void *arg, const struct rn_record *record)
{
    struct rn_version_list *list = arg;
    uint64_t id;

    if (record->kind == VERSION) {
        rn_buf_done(&list->reading.text);
        if (!read_version(record->payload, &list->reading, &list->missing)) {
            list->reading.id = list->missing = 0;
            return 0;
        }
        take_if_complete(list);
    } else if (record->kind == PIECE && record->payload.len >= sizeof id) {
        size_t len = record->payload.len - sizeof id;

        memcpy(&id, record->payload.data, sizeof id);
        if (list->missing == 0 || id != list->reading.id || len > list->missing)
            return 0;
        rn_buf_put(&list->reading.text, record->payload.data + sizeof id, len);
        list->missing -= len;
        take_if_complete(list);
    } else if (record->kind != RN_RECORD_MARK && record->kind <= KINDS_OF_OTHERS) {
        return RATION_EFOREIGN;
    }
    return 0;
}

static void restart(void *arg)
{
    rn_version_list_clear(arg);
}

static void log_notice(struct rn_version_list *list, const struct ration_error *error)
{
    if (error->text[0] != '\0')
        rn_log(RN_LOG_WARN, "versions.damaged", RN_LOG_TEXT("text", rn_slice_of(error->text)),
               RN_LOG_TEXT("meaning", RN_SLICE("versions of rules are missing from the list; the "
                                               "rules in force are not affected")));
    else if (list->missing != 0)
        rn_log(RN_LOG_WARN, "versions.damaged",
               RN_LOG_TEXT("file", rn_slice_of(list->journal.path)),
               RN_LOG_NUMBER("version", list->reading.id),
               RN_LOG_TEXT("meaning", RN_SLICE("the text of its last version is not complete, so "
                                               "this version is left out")));
}

void rn_version_list_open(struct rn_version_list *list, const char *path)
{
    const struct rn_journal_reader reader = {restart, see, list};
    struct ration_error error = {0};

    *list = (struct rn_version_list){.journal = {.fd = -1}};
    if (!path || rn_journal_init(&list->journal, path, WHAT) != 0)
        return;
    int code = rn_journal_read(&list->journal, &reader, &error);

    if (code == 0) {
        log_notice(list, &error);
        return;
    }
    rn_log(
        RN_LOG_ERROR, "versions.unreadable", RN_LOG_TEXT("error", rn_slice_of(error.text)),
        RN_LOG_TEXT("meaning", RN_SLICE("earlier versions of rules are not listed, and later ones "
                                        "are in memory only; the rules in force are not "
                                        "affected")));
    rn_version_list_clear(list);
    if (code == RATION_EFOREIGN || code == RATION_EVERSION || code == RATION_ETORN)
        rn_journal_done(&list->journal); /* the file is left alone */
}

/* --- writing ----------------------------------------------------------------------------- */

static void log_unsaved(struct rn_version_list *list, const struct ration_error *error)
{
    list->behind = true;
    rn_log(RN_LOG_WARN, "versions.unsaved", RN_LOG_TEXT("error", rn_slice_of(error->text)),
           RN_LOG_TEXT("meaning", RN_SLICE("the list of versions of rules is in memory only")));
}

bool rn_version_file_lock(struct rn_version_list *list)
{
    const struct rn_journal_reader reader = {restart, see, list};
    struct ration_error error = {0};

    if (rn_journal_lock(&list->journal, &reader, &error) != 0) {
        log_unsaved(list, &error);
        return false;
    }
    log_notice(list, &error);
    return true;
}

/* The records of one version. */
struct pieces {
    struct rn_buf bytes; /* all payloads */
    struct rn_record *records;
    size_t count;
};

static void put_head(struct rn_buf *out, const struct rn_version *version)
{
    struct rn_members m = {.out = out};

    rn_members_open(&m, NULL, '{');
    rn_members_u64(&m, "id", version->id);
    rn_members_u64(&m, "made_us", (uint64_t)version->made_us);
    rn_members_text(&m, "how", rn_slice_of(rn_version_list_how(version->how)));
    rn_members_text(&m, "by", rn_slice_of(version->by));
    rn_members_text(&m, "token", rn_slice_of(version->token));
    rn_members_u64(&m, "of", version->of);
    rn_members_u64(&m, "digest", version->digest);
    rn_members_u64(&m, "bytes", version->bytes);
    rn_members_u64(&m, "rules", version->rules);
    rn_members_u64(&m, "text", version->text.len);
    rn_members_close(&m, '}');
}

/* False: out of memory. */
static bool make_pieces(const struct rn_version *version, struct pieces *pieces)
{
    const struct rn_buf *text = &version->text;
    size_t at = 0;

    pieces->count = 1 + (text->len + PIECE_BYTES - 1) / PIECE_BYTES;
    pieces->records = calloc(pieces->count, sizeof *pieces->records);
    rn_buf_clear(&pieces->bytes);
    put_head(&pieces->bytes, version);
    size_t head = pieces->bytes.len;

    for (; at < text->len; at += PIECE_BYTES) {
        rn_buf_put(&pieces->bytes, &version->id, sizeof version->id);
        rn_buf_put(&pieces->bytes, text->data + at,
                   text->len - at < PIECE_BYTES ? text->len - at : PIECE_BYTES);
    }
    if (!pieces->records || pieces->bytes.failed)
        return false;
    pieces->records[0] = (struct rn_record){.kind = VERSION, .payload = {pieces->bytes.data, head}};
    for (size_t i = 1; i < pieces->count; i++) {
        size_t from = head + (i - 1) * RN_RECORD_BYTES_MAX, left = pieces->bytes.len - from;

        pieces->records[i] = (struct rn_record){
            .kind = PIECE,
            .payload = {pieces->bytes.data + from,
                        left < RN_RECORD_BYTES_MAX ? left : RN_RECORD_BYTES_MAX}};
    }
    return true;
}

static void pieces_done(struct pieces *pieces)
{
    free(pieces->records);
    rn_buf_done(&pieces->bytes);
    *pieces = (struct pieces){0};
}

/* The records of all versions, for a new file. */
struct walk {
    const struct rn_version_list *list;
    size_t version, record;
    uint64_t sequence;
    bool failed; /* out of memory */
    struct pieces pieces;
};

static bool next(void *arg, struct rn_record *record)
{
    struct walk *walk = arg;

    if (walk->record == walk->pieces.count) {
        pieces_done(&walk->pieces);
        walk->record = 0;
        if (walk->version == walk->list->count)
            return false;
        walk->failed = !make_pieces(&walk->list->items[walk->version++], &walk->pieces);
        if (walk->failed)
            return false;
    }
    *record = walk->pieces.records[walk->record++];
    record->sequence = ++walk->sequence;
    return true;
}

/* Whether more than half of the file is of versions that were dropped. */
static bool is_large(const struct rn_version_list *list)
{
    uint64_t live = 0;

    for (size_t i = 0; i < list->count; i++)
        live += list->items[i].text.len + HEAD_BYTES / 4;
    return list->journal.end > SMALL_FILE && list->journal.end > 2 * live;
}

static int append(struct rn_version_list *list, struct ration_error *error)
{
    struct pieces pieces = {0};
    int code = RATION_ENOMEM;

    if (make_pieces(&list->items[list->count - 1], &pieces)) {
        for (size_t i = 0; i < pieces.count; i++)
            pieces.records[i].sequence = list->journal.sequence + i + 1;
        code = rn_journal_write(&list->journal, pieces.records, pieces.count, error);
    } else {
        rn_error_set(error, code, 0, "out of memory");
    }
    pieces_done(&pieces);
    return code;
}

void rn_version_file_write(struct rn_version_list *list)
{
    struct walk walk = {.list = list};
    struct ration_error error = {0};
    bool all = list->behind || is_large(list);
    int code = all ? rn_journal_rewrite(&list->journal, next, &walk, &error) : append(list, &error);

    pieces_done(&walk.pieces);
    rn_journal_unlock(&list->journal);
    if (all && list->journal.sequence < walk.sequence)
        list->journal.sequence = walk.sequence;
    list->behind = walk.failed;
    if (code != 0)
        log_unsaved(list, &error);
}
