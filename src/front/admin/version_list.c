/* SPDX-License-Identifier: Apache-2.0 */
#include "front/admin/version_list.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[RN_VERSION_HOW_COUNT] = {[RN_VERSION_START] = "start",
                                                        [RN_VERSION_FILES] = "files",
                                                        [RN_VERSION_PUT] = "put",
                                                        [RN_VERSION_DELETE] = "delete",
                                                        [RN_VERSION_ROLLBACK] = "rollback",
                                                        [RN_VERSION_TRIAL] = "trial",
                                                        [RN_VERSION_OTHER_NODE] = "other node"};

const char *rn_version_list_how(enum rn_version_how how)
{
    return names[how];
}

void rn_version_list_clear(struct rn_version_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        rn_buf_done(&list->items[i].text);
    rn_buf_done(&list->reading.text);
    list->count = 0;
    list->missing = 0;
}

void rn_version_list_done(struct rn_version_list *list)
{
    rn_version_list_clear(list);
    if (list->journal.path)
        rn_journal_done(&list->journal);
}

static void drop_oldest(struct rn_version_list *list)
{
    rn_buf_done(&list->items[0].text);
    list->count--;
    memmove(list->items, list->items + 1, list->count * sizeof *list->items);
}

/* Drops the oldest texts until the rest fits. */
static void drop_texts(struct rn_version_list *list)
{
    size_t bytes = 0;

    for (size_t i = list->count; i-- > 0;) {
        struct rn_buf *text = &list->items[i].text;

        bytes += text->len;
        if (text->data && bytes > RN_VERSIONS_BYTES)
            rn_buf_done(text);
    }
}

void rn_version_list_append(struct rn_version_list *list, const struct rn_version *version)
{
    if (list->count == RN_VERSIONS_MAX)
        drop_oldest(list);
    list->items[list->count++] = *version;
    if (version->id > list->last_id)
        list->last_id = version->id;
    drop_texts(list);
}

/* The newest: it was in force just before, in this process or in one that shares the file. */
static bool is_last(const struct rn_version_list *list, const struct rn_version *version)
{
    const struct rn_version *last = list->count != 0 ? &list->items[list->count - 1] : NULL;

    return last && last->digest == version->digest && last->bytes == version->bytes;
}

void rn_version_list_add(struct rn_version_list *list, const struct rn_version *version,
                         struct rn_slice text)
{
    struct rn_version new = *version;
    bool locked = list->journal.path && rn_version_file_lock(list);

    if (!is_last(list, version)) {
        new.id = list->last_id + 1;
        new.text = (struct rn_buf){0};
        if (text.data && text.len <= RN_VERSIONS_BYTES)
            rn_buf_put_slice(&new.text, text);
        if (new.text.failed)
            rn_buf_done(&new.text);
        rn_version_list_append(list, &new);
        if (locked)
            rn_version_file_write(list);
        else
            list->behind = true;
    } else if (locked) {
        rn_journal_unlock(&list->journal);
    }
    list->in_force = list->items[list->count - 1].id;
}

const struct rn_version *rn_version_list_find(const struct rn_version_list *list, uint64_t id)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].id == id)
            return &list->items[i];
    return NULL;
}

const struct rn_version *rn_version_list_find_text(const struct rn_version_list *list,
                                                   uint64_t digest)
{
    for (size_t i = list->count; i-- > 0;)
        if (list->items[i].digest == digest && list->items[i].text.data)
            return &list->items[i];
    return NULL;
}
