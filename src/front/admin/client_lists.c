/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of overrides and bans, page by page: a page ends where as many are on it as
 * were asked for, or as many bytes as one answer may have. The next one begins behind
 * the id of its last.
 */
#include "front/admin/admin_internal.h"
#include "limiter/clients/clients.h"

#define PAGE_COUNT 1000              /* unless told */
#define PAGE_BYTES ((size_t)1 << 20) /* after which no further one is begun */

/* --- members --------------------------------------------------------------------------------- */

void rn_admin_put_client_members(struct rn_members *m, const struct ration_override *o, bool ban)
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

/* --- pages ----------------------------------------------------------------------------------- */

struct page {
    struct rn_members m;
    bool ban;
    uint64_t most, count, last;
    bool more;
};

/* Whether the one with this id goes on it. */
static bool has_room(struct page *page, uint64_t id)
{
    page->more = page->count == page->most || (page->count != 0 && page->m.out->len >= PAGE_BYTES);
    if (page->more)
        return false;
    page->count++;
    page->last = id;
    return true;
}

static int list_client(void *arg, const struct ration_override *o)
{
    struct page *page = arg;

    if (!has_room(page, o->sequence))
        return 1;
    rn_members_open(&page->m, NULL, '{');
    rn_admin_put_client_members(&page->m, o, page->ban);
    rn_members_close(&page->m, '}');
    return 0;
}

static void list(struct rn_http_context *c, bool ban)
{
    struct rn_admin_params params;

    if (!rn_admin_read_query(c, &params, RN_ADMIN_PAGE | (ban ? 0 : RN_ADMIN_RULE)))
        return;
    struct page page = {.ban = ban, .most = params.page ? params.page : PAGE_COUNT};
    /* One more than fits, to learn whether there is one. */
    struct ration_listing listing = {.rule = params.rule.data,
                                     .rule_len = params.rule.len,
                                     .after = params.after,
                                     .limit = (size_t)page.most + 1};

    page.m = rn_admin_begin(c);
    rn_members_open(&page.m, ban ? "bans" : "overrides", '[');
    int code = rn_clients_each(c->front->limiter, ban, &listing, list_client, &page);

    rn_members_close(&page.m, ']');
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
