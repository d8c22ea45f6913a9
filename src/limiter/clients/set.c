/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Setting, deleting, finding and listing overrides and bans. Both are kept as a client
 * (client.h): a ban is an override without rule and limit, and its reason is the note.
 */
#include "base/error.h"
#include "limiter/clients/client_index.h"
#include "limiter/limiter.h"

#define RULE_MAX 1024 /* bytes of a name */
#define LIMIT_MAX 255

static struct ration_override from_ban(const struct ration_ban *ban)
{
    return (struct ration_override){.attributes = ban->attributes,
                                    .count = ban->count,
                                    .expires_ns = ban->expires_ns,
                                    .note = ban->reason,
                                    .note_len = ban->reason_len};
}

/* --- reading ------------------------------------------------------------------------------ */

/* Rule and attributes. The values of a ban may point into `texts`. */
static int read_client(const struct ration_override *o, bool ban, struct rn_client *client,
                       struct rn_ban_texts *texts, struct ration_error *error)
{
    *client =
        (struct rn_client){.rule = ban ? RN_SLICE("") : (struct rn_slice){o->rule, o->rule_len},
                           .limit = RN_SLICE(""),
                           .note = RN_SLICE("")};
    if (!ban && (!o->rule || o->rule_len == 0 || o->rule_len > RULE_MAX))
        return rn_error_set(error, RATION_EINVAL, 0,
                            "an override names its rule, by at most %d bytes; give the name",
                            RULE_MAX);
    int code = rn_client_take(client, o->attributes, o->count, error);

    return code == 0 && ban ? rn_ban_spell(client, texts, error) : code;
}

/* --- setting ------------------------------------------------------------------------------ */

/* Spells the attributes as the rule does. */
static int resolve(struct ration *r, const struct rn_book *book, struct rn_client *client,
                   struct rn_override_key *key, struct ration_error *error)
{
    int code = rn_override_resolve(book, &r->secret, client, key, error);

    for (uint32_t i = 0; i < client->count && code == 0; i++)
        client->attributes[i] = key->attributes[i];
    return code;
}

static int set_locked(struct ration *r, bool ban, struct rn_client *client, int64_t expires_ns,
                      struct ration_error *error)
{
    struct rn_override_key key;
    struct rn_book *book;
    struct rn_client_index *index;
    const struct rn_plan *plan = NULL;
    int code = rn_clients_index(r, ban, &book, &index, error);

    if (code == 0 && !ban) {
        code = resolve(r, book, client, &key, error);
        if (code == 0)
            plan = rn_override_plan(index, book, key.rule, client->limit, &code, error);
    }
    if (code == 0)
        code = rn_clients_expiry(&r->clients, expires_ns, client, error);
    if (code == 0)
        code = rn_clients_room(r, client, ban, error);
    if (code == 0)
        code = ban ? rn_ban_check(index, book, client, error)
                   : rn_override_carry_over(r, book, index, &key, plan, error);
    return code == 0 ? rn_clients_change(r, ban ? RN_BAN_SET : RN_OVERRIDE_SET, client, error)
                     : code;
}

int rn_clients_set(struct ration *r, const struct ration_override *o, bool ban, int64_t now_ns,
                   struct ration_error *error)
{
    struct rn_client client;
    struct rn_ban_texts texts;
    int code = read_client(o, ban, &client, &texts, error);

    if (code == 0 && !ban) {
        client.limit = (struct rn_slice){o->limit, o->limit_len};
        if (!o->limit || o->limit_len == 0 || o->limit_len > LIMIT_MAX)
            return rn_error_set(error, RATION_EINVAL, 0,
                                "an override has a limit, of at most %d bytes; write for example "
                                "1000 per minute",
                                LIMIT_MAX);
    }
    if (code == 0)
        code = rn_client_take_note(&client, ban ? "reason" : "note", o->note, o->note_len, error);
    if (code == 0)
        code = rn_clients_begin(r, now_ns, error);
    if (code != 0)
        return code;
    code = set_locked(r, ban, &client, o->expires_ns, error);
    rn_clients_end(r, code == 0);
    return code;
}

int ration_override_set(struct ration *r, const struct ration_override *o,
                        struct ration_error *error)
{
    return rn_clients_set(r, o, false, RATION_NOW, error);
}

int ration_ban_set(struct ration *r, const struct ration_ban *ban, struct ration_error *error)
{
    const struct ration_override o = from_ban(ban);

    return rn_clients_set(r, &o, true, RATION_NOW, error);
}

/* --- deleting and finding -------------------------------------------------------------------- */

/* Attributes of an override may be spelt as they are stored, or as a client of the rule: then
 * `client` points into `key`. NULL: there is none. */
static const struct rn_entry *find_locked(struct ration *r, bool ban, struct rn_client *client,
                                          struct rn_override_key *key, struct ration_error *error)
{
    const struct rn_entry *found = rn_clients_find(&r->clients, client, ban);

    if (!found && !ban && resolve(r, rn_clients_book(r), client, key, NULL) == 0)
        found = rn_clients_find(&r->clients, client, ban);
    if (!found && ban)
        rn_error_set(error, RATION_EGONE, 0, "there is no ban of such a client");
    else if (!found)
        rn_error_set(error, RATION_EGONE, 0, "there is no override of rule %s for such a client",
                     rn_error_quote(client->rule.data, client->rule.len, 0).text);
    return found;
}

int rn_clients_delete(struct ration *r, const struct ration_override *o, bool ban,
                      struct ration_error *error)
{
    struct rn_client client;
    struct rn_ban_texts texts;
    struct rn_override_key key;
    int code = read_client(o, ban, &client, &texts, error);

    if (code == 0)
        code = rn_clients_begin(r, RATION_NOW, error);
    if (code != 0)
        return code;
    code = find_locked(r, ban, &client, &key, error)
               ? rn_clients_change(r, ban ? RN_BAN_DELETE : RN_OVERRIDE_DELETE, &client, error)
               : RATION_EGONE;
    rn_clients_end(r, code == 0);
    return code;
}

int ration_override_delete(struct ration *r, const struct ration_override *o,
                           struct ration_error *error)
{
    return rn_clients_delete(r, o, false, error);
}

int ration_ban_delete(struct ration *r, const struct ration_ban *ban, struct ration_error *error)
{
    const struct ration_override o = from_ban(ban);

    return rn_clients_delete(r, &o, true, error);
}

int rn_clients_look_up(struct ration *r, struct ration_override *o, bool ban,
                       struct ration_error *error)
{
    const struct rn_entry *found;
    struct rn_client client;
    struct rn_ban_texts texts;
    struct rn_override_key key;
    int code = read_client(o, ban, &client, &texts, error);

    if (code != 0)
        return code;
    rn_clients_lock(r, RATION_NOW);
    found = find_locked(r, ban, &client, &key, error);
    if (found) {
        o->sequence = found->sequence;
        o->active = found->active;
    }
    pthread_mutex_unlock(&r->clients.lock);
    return found ? 0 : RATION_EGONE;
}

int ration_override_find(struct ration *r, struct ration_override *o, struct ration_error *error)
{
    return rn_clients_look_up(r, o, false, error);
}

int ration_ban_find(struct ration *r, struct ration_ban *ban, struct ration_error *error)
{
    struct ration_override o = from_ban(ban);
    int code = rn_clients_look_up(r, &o, true, error);

    if (code == 0) {
        ban->sequence = o.sequence;
        ban->active = o.active;
    }
    return code;
}

/* --- listing -------------------------------------------------------------------------------- */

int rn_clients_each(struct ration *r, bool ban, const struct ration_listing *listing,
                    rn_clients_see *see, void *arg)
{
    struct ration_attribute attributes[RN_CLIENT_ATTRIBUTES_MAX];
    struct rn_clients_list list;
    struct rn_client client;
    int code = rn_clients_list(r, ban, listing, &list);

    for (size_t i = 0; i < list.count && code == 0; i++) {
        const struct rn_clients_row *row = &list.rows[i];

        if (!rn_client_read((struct rn_slice){list.payloads.data + row->at, row->len}, &client))
            continue;
        for (uint32_t k = 0; k < client.count; k++) {
            const struct rn_client_attribute *a = &client.attributes[k];

            attributes[k] =
                (struct ration_attribute){a->name.data, a->name.len, a->value.data, a->value.len};
        }
        if (see(arg, &(struct ration_override){.rule = client.rule.data,
                                               .rule_len = client.rule.len,
                                               .attributes = attributes,
                                               .count = client.count,
                                               .limit = client.limit.data,
                                               .limit_len = client.limit.len,
                                               .expires_ns = row->expires_ns,
                                               .note = client.note.data,
                                               .note_len = client.note.len,
                                               .sequence = row->sequence,
                                               .active = row->active}) != 0)
            break;
    }
    rn_clients_list_done(&list);
    return code;
}

struct ban_viewer {
    int (*see)(void *arg, const struct ration_ban *ban);
    void *arg;
};

static int show_ban(void *arg, const struct ration_override *o)
{
    const struct ban_viewer *v = arg;

    return v->see(v->arg, &(struct ration_ban){.attributes = o->attributes,
                                               .count = o->count,
                                               .expires_ns = o->expires_ns,
                                               .reason = o->note,
                                               .reason_len = o->note_len,
                                               .sequence = o->sequence,
                                               .active = o->active});
}

int ration_override_list(struct ration *r, const struct ration_listing *listing,
                         rn_clients_see *see, void *arg)
{
    return rn_clients_each(r, false, listing, see, arg);
}

int ration_ban_list(struct ration *r, const struct ration_listing *listing,
                    int (*see)(void *arg, const struct ration_ban *ban), void *arg)
{
    return rn_clients_each(r, true, listing, show_ban, &(struct ban_viewer){see, arg});
}

int ration_override_each(struct ration *r, const char *rule, size_t rule_len, rn_clients_see *see,
                         void *arg)
{
    return rn_clients_each(r, false, &(struct ration_listing){.rule = rule, .rule_len = rule_len},
                           see, arg);
}

int ration_ban_each(struct ration *r, int (*see)(void *arg, const struct ration_ban *ban),
                    void *arg)
{
    return ration_ban_list(r, &(struct ration_listing){0}, see, arg);
}
