/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Setting, deleting, finding and listing bans.
 */
#include "base/error.h"
#include "limiter/limiter.h"
#include "limiter/roster.h"

static int read_client(const struct ration_ban *ban, struct rn_client *client,
                       struct rn_ban_texts *texts, struct ration_error *error)
{
    *client = (struct rn_client){.rule = RN_SLICE(""), .limit = RN_SLICE(""), .note = RN_SLICE("")};
    int code = rn_client_take(client, ban->attributes, ban->count, error);

    return code != 0 ? code : rn_ban_spell(client, texts, error);
}

static int set(struct ration *r, struct rn_client *client, int64_t expires_ns,
               struct ration_error *error)
{
    struct rn_book *book;
    struct rn_roster *roster;
    int code = rn_clients_roster(r, true, &book, &roster, error);

    if (code == 0)
        code = rn_clients_expiry(&r->clients, expires_ns, client, error);
    if (code == 0)
        code = rn_clients_room(r, client, true, error);
    if (code == 0)
        code = rn_ban_check(roster, book, client, error);
    return code != 0 ? code : rn_clients_change(r, RN_BAN_SET, client, error);
}

int rn_ban_set_at(struct ration *r, const struct ration_ban *ban, int64_t now_ns,
                  struct ration_error *error)
{
    struct rn_client client;
    struct rn_ban_texts texts;
    int code = read_client(ban, &client, &texts, error);

    if (code == 0)
        code = rn_client_take_note(&client, "reason", ban->reason, ban->reason_len, error);
    if (code == 0)
        code = rn_clients_begin(r, now_ns, error);
    if (code != 0)
        return code;
    code = set(r, &client, ban->expires_ns, error);
    rn_clients_end(r, code == 0);
    return code;
}

int ration_ban_set(struct ration *r, const struct ration_ban *ban, struct ration_error *error)
{
    return rn_ban_set_at(r, ban, RATION_NOW, error);
}

static const struct rn_entry *find(struct ration *r, const struct rn_client *client,
                                   struct ration_error *error)
{
    const struct rn_entry *found = rn_clients_find(&r->clients, client, true);

    if (!found)
        rn_error_set(error, RATION_EGONE, 0, "there is no ban of such a client");
    return found;
}

int ration_ban_delete(struct ration *r, const struct ration_ban *ban, struct ration_error *error)
{
    struct rn_client client;
    struct rn_ban_texts texts;
    int code = read_client(ban, &client, &texts, error);

    if (code == 0)
        code = rn_clients_begin(r, RATION_NOW, error);
    if (code != 0)
        return code;
    code = find(r, &client, error) ? rn_clients_change(r, RN_BAN_DELETE, &client, error)
                                   : RATION_EGONE;
    rn_clients_end(r, code == 0);
    return code;
}

int ration_ban_find(struct ration *r, struct ration_ban *ban, struct ration_error *error)
{
    const struct rn_entry *found;
    struct rn_client client;
    struct rn_ban_texts texts;
    int code = read_client(ban, &client, &texts, error);

    if (code != 0)
        return code;
    rn_clients_lock(r, RATION_NOW);
    found = find(r, &client, error);
    if (found) {
        ban->sequence = found->sequence;
        ban->active = found->active;
    }
    pthread_mutex_unlock(&r->clients.lock);
    return found ? 0 : RATION_EGONE;
}

static int tell(const struct rn_clients_row *row, const struct rn_client *client,
                int (*see)(void *arg, const struct ration_ban *ban), void *arg)
{
    struct ration_attribute attributes[RN_CLIENT_ATTRIBUTES_MAX];

    for (uint32_t i = 0; i < client->count; i++) {
        const struct rn_client_attribute *a = &client->attributes[i];

        attributes[i] =
            (struct ration_attribute){a->name.data, a->name.len, a->value.data, a->value.len};
    }
    return see(arg, &(struct ration_ban){.attributes = attributes,
                                         .count = client->count,
                                         .expires_ns = row->expires_ns,
                                         .reason = client->note.data,
                                         .reason_len = client->note.len,
                                         .sequence = row->sequence,
                                         .active = row->active});
}

int ration_ban_list(struct ration *r, const struct ration_listing *listing,
                    int (*see)(void *arg, const struct ration_ban *ban), void *arg)
{
    struct rn_clients_list list;
    struct rn_client client;
    int code = rn_clients_list(r, true, listing, &list);

    for (size_t i = 0; i < list.count && code == 0; i++) {
        const struct rn_clients_row *row = &list.rows[i];

        if (rn_client_read((struct rn_slice){list.payloads.data + row->at, row->len}, &client) &&
            tell(row, &client, see, arg) != 0)
            break;
    }
    rn_clients_list_done(&list);
    return code;
}

int ration_ban_each(struct ration *r, int (*see)(void *arg, const struct ration_ban *ban),
                    void *arg)
{
    return ration_ban_list(r, &(struct ration_listing){0}, see, arg);
}
