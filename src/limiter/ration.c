/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of the public interface that the table answers.
 */
#include "limiter/limiter.h"
#include "limiter/rulebook/reload.h"

RN_HOT int64_t ration_now(const struct ration *r)
{
    return rn_table_now(r->table);
}

int64_t ration_wall(const struct ration *r, int64_t now_ns)
{
    now_ns = rn_limiter_now(r, now_ns);
    return now_ns + rn_table_wall_offset(r->table, now_ns);
}

uint64_t ration_clean(struct ration *r, int64_t now_ns)
{
    return rn_table_clean(r->table, rn_limiter_now(r, now_ns));
}

void ration_memory(const struct ration *r, int64_t now_ns, struct ration_memory *memory)
{
    struct rn_table_memory m;

    rn_table_memory(r->table, rn_limiter_now(r, now_ns), &m);
    *memory = (struct ration_memory){.bytes = m.bytes,
                                     .slots = m.slots,
                                     .capacity = rn_limiter_capacity(r),
                                     .live = m.live,
                                     .evictions = m.evictions,
                                     .block_bytes = m.block_bytes,
                                     .block_bytes_used = m.block_bytes_used};
}

struct visitor {
    int64_t now_ns;
    int (*see)(void *arg, const struct ration_entry *entry);
    void *arg;
};

static int visit(void *arg, const struct rn_table_entry *entry)
{
    const struct visitor *v = arg;

    return v->see(v->arg, &(struct ration_entry){.hash = entry->tag,
                                                 .idle_after_ns = entry->idle_at_ns - v->now_ns,
                                                 .algorithm = rn_form_algorithm(entry->form)});
}

void ration_each(const struct ration *r, int64_t now_ns,
                 int (*see)(void *arg, const struct ration_entry *entry), void *arg)
{
    struct visitor v = {.now_ns = rn_limiter_now(r, now_ns), .see = see, .arg = arg};

    rn_table_each(r->table, v.now_ns, visit, &v);
}

const char *ration_version(void)
{
    return RATION_VERSION;
}
