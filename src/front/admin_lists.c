/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of overrides and bans, page by page: a page ends where as many are on it as
 * were asked for, or as many bytes as one answer may have. The next one begins behind
 * the id of its last.
 */
#include <ration/clients.h>

#include "front/admin.h"

#define PAGE_COUNT 1000              /* unless told */
#define PAGE_BYTES ((size_t)1 << 20) /* after which no further one is begun */

/* --- members --------------------------------------------------------------------------------- */

static void put_attributes(struct rn_members *m, const struct ration_attribute *attributes,
                           size_t count)
{
    rn_members_open(m, "attributes", '{');
    for (size_t i = 0; i < count; i++) {
        const struct ration_attribute *a = &attributes[i];

        rn_members_text_named(m, (struct rn_slice){a->name, a->name_len},
                              (struct rn_slice){a->value, a->value_len});
    }
    rn_members_close(m, '}');
}

static void put_expiry(struct rn_members *m, int64_t expires_ns)
{
    rn_members_seconds(m, "expires_after", expires_ns == 0 ? RATION_NEVER : expires_ns);
}

void rn_admin_put_override_members(struct rn_members *m, const struct ration_override *o)
{
    rn_members_u64(m, "id", o->sequence);
    rn_members_text(m, "rule", (struct rn_slice){o->rule, o->rule_len});
    put_attributes(m, o->attributes, o->count);
    rn_members_text(m, "limit", (struct rn_slice){o->limit, o->limit_len});
    put_expiry(m, o->expires_ns);
    rn_members_text(m, "note", (struct rn_slice){o->note, o->note_len});
    rn_members_bool(m, "active", o->active);
}

void rn_admin_put_ban_members(struct rn_members *m, const struct ration_ban *ban)
{
    rn_members_u64(m, "id", ban->sequence);
    put_attributes(m, ban->attributes, ban->count);
    put_expiry(m, ban->expires_ns);
    rn_members_text(m, "reason", (struct rn_slice){ban->reason, ban->reason_len});
}

/* --- pages ----------------------------------------------------------------------------------- */

struct page {
    struct rn_members m;
    uint64_t most, count, last;
    bool more;
};

/* False after answering. */
static bool begin_page(struct rn_exchange *x, unsigned members, const char *name, struct page *page,
                       struct ration_listing *listing)
{
    struct rn_change change;

    if (!rn_admin_read_query(x, &change, members | RN_CHANGE_PAGE))
        return false;
    *page = (struct page){.most = change.page ? change.page : PAGE_COUNT};
    /* One more than fits, to learn whether there is one. */
    *listing = (struct ration_listing){.rule = change.rule.data,
                                       .rule_len = change.rule.len,
                                       .after = change.after,
                                       .limit = (size_t)page->most + 1};
    page->m = rn_admin_begin(x);
    rn_members_open(&page->m, name, '[');
    return true;
}

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

static void end_page(struct rn_exchange *x, struct page *page, int code)
{
    rn_members_close(&page->m, ']');
    if (page->more)
        rn_members_u64(&page->m, "next", page->last);
    if (code != 0)
        page->m.out->failed = true;
    rn_admin_end(x, &page->m, 200);
}

static int list_override(void *arg, const struct ration_override *o)
{
    struct page *page = arg;

    if (!has_room(page, o->sequence))
        return 1;
    rn_members_open(&page->m, NULL, '{');
    rn_admin_put_override_members(&page->m, o);
    rn_members_close(&page->m, '}');
    return 0;
}

static int list_ban(void *arg, const struct ration_ban *ban)
{
    struct page *page = arg;

    if (!has_room(page, ban->sequence))
        return 1;
    rn_members_open(&page->m, NULL, '{');
    rn_admin_put_ban_members(&page->m, ban);
    rn_members_close(&page->m, '}');
    return 0;
}

void rn_admin_get_overrides(struct rn_exchange *x)
{
    struct ration_listing listing;
    struct page page;

    if (begin_page(x, RN_CHANGE_RULE, "overrides", &page, &listing))
        end_page(x, &page, ration_override_list(x->front->limiter, &listing, list_override, &page));
}

void rn_admin_get_bans(struct rn_exchange *x)
{
    struct ration_listing listing;
    struct page page;

    if (begin_page(x, 0, "bans", &page, &listing))
        end_page(x, &page, ration_ban_list(x->front->limiter, &listing, list_ban, &page));
}
