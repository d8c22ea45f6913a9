/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Setting and deleting overrides and bans. Each has an id, the number of the change
 * that set it.
 */
#include <ration/clients.h>

#include "front/admin.h"
#include "limiter/note.h"

/* --- failures -------------------------------------------------------------------------------- */

static void fail(struct rn_exchange *x, int code, const struct ration_error *error)
{
    const char *text = error->text[0] ? error->text : ration_error_text(code);

    if (code == RATION_EINVAL || code == RATION_EPARSE)
        rn_exchange_error(x, 400, "bad_request", "%s", text);
    else if (code == RATION_EFULL)
        rn_exchange_error(x, 507, "full", "%s", text);
    else
        rn_exchange_error(x, 503, "store", "%s", text);
}

static bool has_attributes(struct rn_exchange *x)
{
    if (x->desk->query.attribute_count != 0)
        return true;
    rn_exchange_error(x, 400, "bad_request",
                      "\"attributes\" are missing: whom to ban, such as {\"ip\": \"192.0.2.7\"}");
    return false;
}

/* Other nodes are told, if there are any. */
static void tell_fleet(const struct rn_exchange *x)
{
    const struct rn_front_fleet *fleet = &x->front->fleet;

    if (fleet->changed)
        fleet->changed(fleet->arg);
}

/* --- what was set ------------------------------------------------------------------------------
 */

static struct ration_override override_of(const struct rn_exchange *x,
                                          const struct rn_change *change)
{
    const struct rn_query *query = &x->desk->query;

    return (struct ration_override){.rule = change->rule.data,
                                    .rule_len = change->rule.len,
                                    .attributes = query->attributes,
                                    .count = query->attribute_count,
                                    .limit = change->limit.data,
                                    .limit_len = change->limit.len,
                                    .expires_ns = change->for_ns,
                                    .note = change->note.data,
                                    .note_len = change->note.len};
}

static struct ration_ban ban_of(const struct rn_exchange *x, const struct rn_change *change)
{
    const struct rn_query *query = &x->desk->query;

    return (struct ration_ban){.attributes = query->attributes,
                               .count = query->attribute_count,
                               .expires_ns = change->for_ns,
                               .reason = change->reason.data,
                               .reason_len = change->reason.len};
}

static bool names_rule(struct rn_exchange *x, const struct rn_change *change)
{
    if (!change->rule.data)
        rn_exchange_error(x, 400, "bad_request", "\"rule\" is missing: whose limit is replaced");
    return change->rule.data != NULL;
}

static bool has_limit(struct rn_exchange *x, const struct rn_change *change)
{
    if (!change->limit.data)
        rn_exchange_error(x, 400, "bad_request",
                          "\"limit\" is missing, such as \"1000 per minute\" or \"unlimited\"");
    return change->limit.data != NULL;
}

void rn_admin_put_override(struct rn_exchange *x)
{
    struct ration_error error = {0};
    struct ration_override o;
    struct rn_change change;
    struct rn_members m;
    int code;

    if (!rn_admin_read(x, &change,
                       RN_CHANGE_ATTRIBUTES | RN_CHANGE_RULE | RN_CHANGE_LIMIT | RN_CHANGE_FOR |
                           RN_CHANGE_NOTE) ||
        !names_rule(x, &change) || !rn_admin_know_rule(x, change.rule) || !has_limit(x, &change))
        return;
    o = override_of(x, &change);
    code = ration_override_set(x->front->limiter, &o, &error);
    if (code != 0) {
        fail(x, code, &error);
        return;
    }
    ration_override_find(x->front->limiter, &o, NULL);
    rn_admin_log(x, "override.set", RN_LOG_NUMBER("id", o.sequence),
                 RN_LOG_TEXT("rule", change.rule), RN_LOG_TEXT("client", rn_admin_client(x)),
                 RN_LOG_TEXT("limit", change.limit),
                 RN_LOG_NUMBER("seconds", change.for_ns / 1000000000));
    tell_fleet(x);
    m = rn_admin_begin(x);
    rn_admin_put_override_members(&m, &o);
    rn_admin_end(x, &m, 200);
}

void rn_admin_put_ban(struct rn_exchange *x)
{
    struct ration_error error = {0};
    struct rn_change change;
    char note[RATION_MESSAGE_SIZE];
    struct ration_ban ban;
    struct rn_members m;
    int code;

    if (!rn_admin_read(x, &change, RN_CHANGE_ATTRIBUTES | RN_CHANGE_FOR | RN_CHANGE_REASON) ||
        !has_attributes(x))
        return;
    ban = ban_of(x, &change);
    code = ration_ban_set(x->front->limiter, &ban, &error);
    if (code != 0) {
        fail(x, code, &error);
        return;
    }
    ration_ban_find(x->front->limiter, &ban, NULL);
    rn_admin_log(x, "ban.set", RN_LOG_NUMBER("id", ban.sequence),
                 RN_LOG_TEXT("client", rn_admin_client(x)),
                 RN_LOG_NUMBER("seconds", change.for_ns / 1000000000),
                 RN_LOG_TEXT("reason", change.reason.data ? change.reason : RN_SLICE("")));
    tell_fleet(x);
    m = rn_admin_begin(x);
    rn_admin_put_ban_members(&m, &ban);
    rn_note_unknown(x->front->limiter, ban.attributes, ban.count, note);
    if (note[0])
        rn_members_text(&m, "note", rn_slice_of(note));
    rn_admin_end(x, &m, 200);
}

/* --- deleting -------------------------------------------------------------------------------- */

/* One that was found by its id, and deleted while it was seen. */
struct removal {
    struct rn_exchange *x;
    uint64_t id;
    int code;
    struct ration_error error;
};

static void answer_deleted(struct rn_exchange *x, int code, const struct ration_error *error)
{
    struct rn_members m;

    if (code != 0 && code != RATION_EGONE) {
        fail(x, code, error);
        return;
    }
    m = rn_admin_begin(x);
    rn_members_bool(&m, "deleted", code == 0);
    rn_admin_end(x, &m, 200);
}

/* The number behind /v1/overrides/ in the path. */
static bool read_id(struct rn_exchange *x, uint64_t *id)
{
    struct rn_json_token number = {.kind = RN_JSON_NUMBER,
                                   .text = {x->rest.data + 1, x->rest.len - 1}};

    if (rn_json_u64(&number, id))
        return true;
    rn_exchange_error(x, 400, "bad_request", "an id is a number, as the list tells it");
    return false;
}

static void tell_override_deleted(struct rn_exchange *x, const struct ration_override *o)
{
    rn_admin_log(x, "override.delete", RN_LOG_NUMBER("id", o->sequence),
                 RN_LOG_TEXT("rule", ((struct rn_slice){o->rule, o->rule_len})),
                 RN_LOG_TEXT("client", rn_admin_client(x)));
    tell_fleet(x);
}

static void tell_ban_deleted(struct rn_exchange *x, const struct ration_ban *ban)
{
    rn_admin_log(x, "ban.delete", RN_LOG_NUMBER("id", ban->sequence),
                 RN_LOG_TEXT("client", rn_admin_client(x)));
    tell_fleet(x);
}

/* The client of what is deleted, for the log line. */
static void take_attributes(struct rn_exchange *x, const struct ration_attribute *attributes,
                            size_t count)
{
    struct rn_query *query = &x->desk->query;

    query->attribute_count = (uint32_t)count;
    memcpy(query->attributes, attributes, count * sizeof *attributes);
}

static int remove_override(void *arg, const struct ration_override *o)
{
    struct removal *removal = arg;

    if (o->sequence != removal->id)
        return 0;
    removal->code = ration_override_delete(removal->x->front->limiter, o, &removal->error);
    if (removal->code == 0) {
        take_attributes(removal->x, o->attributes, o->count);
        tell_override_deleted(removal->x, o);
    }
    return 1;
}

static int remove_ban(void *arg, const struct ration_ban *ban)
{
    struct removal *removal = arg;

    if (ban->sequence != removal->id)
        return 0;
    removal->code = ration_ban_delete(removal->x->front->limiter, ban, &removal->error);
    if (removal->code == 0) {
        take_attributes(removal->x, ban->attributes, ban->count);
        tell_ban_deleted(removal->x, ban);
    }
    return 1;
}

/* The first that is not before it: itself, if it is there. */
static struct ration_listing only(uint64_t id)
{
    return (struct ration_listing){.after = id - 1, .limit = 1};
}

static void delete_override_by_id(struct rn_exchange *x)
{
    struct removal removal = {.x = x, .code = RATION_EGONE};
    struct ration_listing listing;
    int code;

    if (!read_id(x, &removal.id))
        return;
    listing = only(removal.id);
    code = ration_override_list(x->front->limiter, &listing, remove_override, &removal);
    answer_deleted(x, code != 0 ? code : removal.code, &removal.error);
}

static void delete_ban_by_id(struct rn_exchange *x)
{
    struct removal removal = {.x = x, .code = RATION_EGONE};
    struct ration_listing listing;
    int code;

    if (!read_id(x, &removal.id))
        return;
    listing = only(removal.id);
    code = ration_ban_list(x->front->limiter, &listing, remove_ban, &removal);
    answer_deleted(x, code != 0 ? code : removal.code, &removal.error);
}

void rn_admin_delete_override(struct rn_exchange *x)
{
    struct ration_error error = {0};
    struct ration_override o;
    struct rn_change change;
    int code;

    if (x->rest.len > 1) {
        delete_override_by_id(x);
        return;
    }
    if (!rn_admin_read(x, &change, RN_CHANGE_ATTRIBUTES | RN_CHANGE_RULE))
        return;
    if (!names_rule(x, &change))
        return;
    o = override_of(x, &change);
    ration_override_find(x->front->limiter, &o, NULL); /* its id, for the log */
    code = ration_override_delete(x->front->limiter, &o, &error);
    if (code == 0)
        tell_override_deleted(x, &o);
    answer_deleted(x, code, &error);
}

void rn_admin_delete_ban(struct rn_exchange *x)
{
    struct ration_error error = {0};
    struct rn_change change;
    struct ration_ban ban;
    int code;

    if (x->rest.len > 1) {
        delete_ban_by_id(x);
        return;
    }
    if (!rn_admin_read(x, &change, RN_CHANGE_ATTRIBUTES) || !has_attributes(x))
        return;
    ban = ban_of(x, &change);
    ration_ban_find(x->front->limiter, &ban, NULL); /* its id, for the log */
    code = ration_ban_delete(x->front->limiter, &ban, &error);
    if (code == 0)
        tell_ban_deleted(x, &ban);
    answer_deleted(x, code, &error);
}
