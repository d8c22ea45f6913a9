/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Overrides and bans: setting, deleting and listing them. Each has an id, the number of the
 * change that set it.
 */
#include <ration/reputation.h>

#include "front/admin/admin_internal.h"
#include "limiter/clients/clients.h"
#include "limiter/rulebook/explain.h"

#define PAGE_COUNT 1000              /* entries of a page by default */
#define PAGE_BYTES ((size_t)1 << 20) /* a page with more begins no further entry */

static void put_members(struct rn_members *m, const struct ration_override *o, bool ban)
{
    rn_members_u64(m, "id", o->sequence);
    if (!ban)
        rn_members_text(m, "rule", (struct rn_slice){o->rule, o->rule_len});
    rn_members_open(m, "attributes", '{');
    for (size_t i = 0; i < o->count; i++) {
        const struct ration_attribute *a = &o->attributes[i];

        rn_members_text_named(m, (struct rn_slice){a->name, a->name_len},
                              (struct rn_slice){a->value, a->value_len});
    }
    rn_members_close(m, '}');
    if (!ban)
        rn_members_text(m, "limit", (struct rn_slice){o->limit, o->limit_len});
    rn_members_seconds(m, "expires_after", o->expires_ns == 0 ? RATION_NEVER : o->expires_ns);
    rn_members_text(m, ban ? "reason" : "note", (struct rn_slice){o->note, o->note_len});
    if (!ban)
        rn_members_bool(m, "active", o->active);
}

/* --- failures -------------------------------------------------------------------------------- */

static void fail(struct rn_http_context *c, int code, const struct ration_error *error)
{
    const char *text = error->text[0] ? error->text : ration_error_text(code);

    if (code == RATION_EINVAL || code == RATION_EPARSE)
        rn_front_http_error(c, 400, "bad_request", "%s", text);
    else if (code == RATION_EFULL)
        rn_front_http_error(c, 507, "full", "%s", text);
    else
        rn_front_http_error(c, 503, "store", "%s", text);
}

/* Tells other nodes, if there are any. */
static void notify_fleet(const struct rn_http_context *c)
{
    const struct rn_front_fleet *fleet = &c->front->fleet;

    if (fleet->changed)
        fleet->changed(fleet->arg);
}

/* --- setting --------------------------------------------------------------------------------- */

/* False after answering. */
static bool read_client(struct rn_http_context *c, bool ban, unsigned members,
                        struct ration_override *o)
{
    const struct rn_params *client = &c->ws->params;
    struct rn_admin_params params;

    if (!rn_admin_read(c, &params, members | RN_ADMIN_ATTRIBUTES | (ban ? 0 : RN_ADMIN_RULE)))
        return false;
    struct rn_slice note = ban ? params.reason : params.note;

    *o = (struct ration_override){.rule = params.rule.data,
                                  .rule_len = params.rule.len,
                                  .attributes = client->attributes,
                                  .count = client->attribute_count,
                                  .limit = params.limit.data,
                                  .limit_len = params.limit.len,
                                  .expires_ns = params.for_ns,
                                  .note = note.data,
                                  .note_len = note.len};
    if (ban && o->count == 0)
        rn_front_http_error(
            c, 400, "bad_request",
            "\"attributes\" are missing: the client to ban, such as {\"ip\": \"192.0.2.7\"}");
    else if (!ban && !o->rule)
        rn_front_http_error(c, 400, "bad_request", "\"rule\" is missing: whose limit is replaced");
    else
        return true;
    return false;
}

static void log_set(struct rn_http_context *c, const struct ration_override *o, bool ban)
{
    int64_t seconds = o->expires_ns / 1000000000;

    if (ban)
        rn_admin_log(c, "ban.set", RN_LOG_NUMBER("id", o->sequence),
                     RN_LOG_TEXT("client", rn_admin_client(c)), RN_LOG_NUMBER("seconds", seconds),
                     RN_LOG_TEXT("reason", (o->note ? (struct rn_slice){o->note, o->note_len}
                                                    : RN_SLICE(""))));
    else
        rn_admin_log(c, "override.set", RN_LOG_NUMBER("id", o->sequence),
                     RN_LOG_TEXT("rule", ((struct rn_slice){o->rule, o->rule_len})),
                     RN_LOG_TEXT("client", rn_admin_client(c)),
                     RN_LOG_TEXT("limit", ((struct rn_slice){o->limit, o->limit_len})),
                     RN_LOG_NUMBER("seconds", seconds));
}

static void set(struct rn_http_context *c, bool ban, unsigned members)
{
    struct ration *r = c->front->limiter;
    struct ration_error error = {0};
    char note[RATION_MESSAGE_SIZE] = "";
    struct ration_override o;

    if (!read_client(c, ban, members | RN_ADMIN_FOR, &o) ||
        (!ban && !rn_admin_find_rule(c, (struct rn_slice){o.rule, o.rule_len})))
        return;
    if (!ban && !o.limit) {
        rn_front_http_error(
            c, 400, "bad_request",
            "\"limit\" is missing; write one such as \"1000 per minute\" or \"unlimited\"");
        return;
    }
    int code = rn_clients_set(r, &o, ban, RATION_NOW, &error);

    if (code != 0) {
        fail(c, code, &error);
        return;
    }
    rn_clients_look_up(r, &o, ban, NULL);
    log_set(c, &o, ban);
    notify_fleet(c);
    struct rn_members m = rn_admin_begin(c);

    put_members(&m, &o, ban);
    if (ban)
        rn_explain_unused_attribute(r, o.attributes, o.count, note);
    if (note[0])
        rn_members_text(&m, "note", rn_slice_of(note));
    rn_admin_end(c, &m, 200);
}

void rn_admin_put_override(struct rn_http_context *c)
{
    set(c, false, RN_ADMIN_LIMIT | RN_ADMIN_NOTE);
}

void rn_admin_put_ban(struct rn_http_context *c)
{
    set(c, true, RN_ADMIN_REASON);
}

/* --- deleting -------------------------------------------------------------------------------- */

/* Deletes the one with this id while the list is read. */
struct removal {
    struct rn_http_context *c;
    bool ban;
    uint64_t id;
    int code;
    struct ration_error error;
};

static void answer_deleted(struct rn_http_context *c, int code, const struct ration_error *error)
{
    struct rn_members m;

    if (code != 0 && code != RATION_EGONE) {
        fail(c, code, error);
        return;
    }
    m = rn_admin_begin(c);
    rn_members_bool(&m, "deleted", code == 0);
    rn_admin_end(c, &m, 200);
}

static void note_deleted(struct rn_http_context *c, const struct ration_override *o, bool ban)
{
    if (ban)
        rn_admin_log(c, "ban.delete", RN_LOG_NUMBER("id", o->sequence),
                     RN_LOG_TEXT("client", rn_admin_client(c)));
    else
        rn_admin_log(c, "override.delete", RN_LOG_NUMBER("id", o->sequence),
                     RN_LOG_TEXT("rule", ((struct rn_slice){o->rule, o->rule_len})),
                     RN_LOG_TEXT("client", rn_admin_client(c)));
    notify_fleet(c);
}

/* The log line needs the attributes of what is deleted. */
static int remove_client(void *arg, const struct ration_override *o)
{
    struct removal *removal = arg;
    struct rn_params *client = &removal->c->ws->params;

    if (o->sequence != removal->id)
        return 0;
    removal->code = rn_clients_delete(removal->c->front->limiter, o, removal->ban, &removal->error);
    if (removal->code == 0) {
        client->attribute_count = (uint32_t)o->count;
        memcpy(client->attributes, o->attributes, o->count * sizeof *o->attributes);
        note_deleted(removal->c, o, removal->ban);
    }
    return 1;
}

static void delete_by_id(struct rn_http_context *c, bool ban)
{
    struct removal removal = {.c = c, .ban = ban, .code = RATION_EGONE};
    struct rn_json_token number = {.kind = RN_JSON_NUMBER,
                                   .text = {c->rest.data + 1, c->rest.len - 1}};

    if (!rn_json_u64(&number, &removal.id)) {
        rn_front_http_error(c, 400, "bad_request", "an id is a number, as in the list");
        return;
    }
    /* The first one with this id or a larger one. */
    struct ration_listing listing = {.after = removal.id - 1, .limit = 1};
    int code = rn_clients_each(c->front->limiter, ban, &listing, remove_client, &removal);

    answer_deleted(c, code != 0 ? code : removal.code, &removal.error);
}

static void delete_one(struct rn_http_context *c, bool ban)
{
    struct ration *r = c->front->limiter;
    struct ration_error error = {0};
    struct ration_override o;

    if (c->rest.len > 1) {
        delete_by_id(c, ban);
        return;
    }
    if (!read_client(c, ban, 0, &o))
        return;
    rn_clients_look_up(r, &o, ban, NULL); /* its id, for the log */
    int code = rn_clients_delete(r, &o, ban, &error);

    if (code == 0)
        note_deleted(c, &o, ban);
    answer_deleted(c, code, &error);
}

void rn_admin_delete_override(struct rn_http_context *c)
{
    delete_one(c, false);
}

void rn_admin_delete_ban(struct rn_http_context *c)
{
    delete_one(c, true);
}

/* --- pages ----------------------------------------------------------------------------------- */

struct page {
    struct rn_members m;
    bool ban;
    uint64_t most, count, last;
    bool more;
};

static int list_client(void *arg, const struct ration_override *o)
{
    struct page *page = arg;

    page->more = page->count == page->most || (page->count != 0 && page->m.out->len >= PAGE_BYTES);
    if (page->more)
        return 1;
    page->count++;
    page->last = o->sequence;
    rn_members_open(&page->m, NULL, '{');
    put_members(&page->m, o, page->ban);
    rn_members_close(&page->m, '}');
    return 0;
}

/* How many clients rules ban, if rules do so at all: they are listed elsewhere. */
static void put_automatic(struct rn_members *m, struct ration *r)
{
    struct ration_reputation_totals totals;

    ration_reputation_totals(r, &totals);
    if (totals.capacity != 0)
        rn_members_u64(m, "automatic", totals.banned);
}

static void list(struct rn_http_context *c, bool ban)
{
    struct rn_admin_params params;

    if (!rn_admin_read_query(c, &params, RN_ADMIN_PAGE | (ban ? 0 : RN_ADMIN_RULE)))
        return;
    struct page page = {.ban = ban, .most = params.page ? params.page : PAGE_COUNT};
    /* One more than fits, to know whether there is a next page. */
    struct ration_listing listing = {.rule = params.rule.data,
                                     .rule_len = params.rule.len,
                                     .after = params.after,
                                     .limit = (size_t)page.most + 1};

    page.m = rn_admin_begin(c);
    rn_members_open(&page.m, ban ? "bans" : "overrides", '[');
    int code = rn_clients_each(c->front->limiter, ban, &listing, list_client, &page);

    rn_members_close(&page.m, ']');
    if (ban)
        put_automatic(&page.m, c->front->limiter);
    if (page.more)
        rn_members_u64(&page.m, "next", page.last);
    if (code != 0)
        page.m.out->failed = true;
    rn_admin_end(c, &page.m, 200);
}

void rn_admin_get_overrides(struct rn_http_context *c)
{
    list(c, false);
}

void rn_admin_get_bans(struct rn_http_context *c)
{
    list(c, true);
}
