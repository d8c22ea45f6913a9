/* SPDX-License-Identifier: Apache-2.0 */
#include "store/records.h"

#include <stdio.h>

#include "base/error.h"
#include "base/siphash.h"
#include "store/layout.h"
#include "store/mapping_file.h"

#define MAGIC UINT64_C(0x64726F6365726E72) /* "rnrecord" */
#define VERSION 1
#define SUFFIX ".reputation"

#define GROUPS_AT ((sizeof(struct rn_event_ring) + RN_PAGE + 63) / 64 * 64)

_Static_assert(sizeof(struct rn_records_group) == 192, "24 bytes for a record");
_Static_assert(sizeof(struct rn_records_header) <= RN_PAGE, "the header fits its page");

/* --- opening ---------------------------------------------------------------------------- */

/* Removes records that are over: after nine years their times would mean something else
 * (core/record.h). */
static void remove_past(struct rn_records *records, int64_t now_ns)
{
    struct rn_record_view v;

    for (uint64_t i = 0; i < rn_records_capacity(records); i++) {
        struct rn_slot *slot = (struct rn_slot *)(void *)&records->groups[i / RN_RECORDS_GROUP]
                                   .slots[i % RN_RECORDS_GROUP];
        struct rn_slot_value value = rn_slot_load(slot);

        if (value.tag == 0)
            continue;
        rn_record_view(value.state, now_ns, &v);
        if (!v.live)
            rn_slot_swap(slot, value, (struct rn_slot_value){0});
    }
}

int rn_records_open(struct rn_records *records, struct rn_table *table, struct ration_error *error)
{
    char name[RN_MAPPING_PATH_BYTES];
    int len = table->path ? snprintf(name, sizeof name, "%s" SUFFIX, table->path) : 0;
    uint64_t share = table->bytes / RN_RECORDS_SHARE;

    *records = (struct rn_records){0};
    if (len < 0 || (size_t)len >= sizeof name)
        return rn_error_set(error, RATION_EINVAL, 0, "the name of the state file is too long");
    share = share > RN_RECORDS_BYTES_MIN ? share : RN_RECORDS_BYTES_MIN;
    int code = rn_side_file_open(&(struct rn_side_file_plan){.what = "reputation file",
                                                             .path = table->path ? name : NULL,
                                                             .magic = MAGIC,
                                                             .version = VERSION,
                                                             .owner = rn_side_file_owner(table),
                                                             .bytes = RN_PAGE + GROUPS_AT + share},
                                 &records->file, error);

    if (code == 0 && records->file.bytes < GROUPS_AT + sizeof *records->groups) {
        rn_records_close(records);
        code = rn_error_set(error, RATION_ETORN, 0, "%s: too short for a reputation file", name);
    }
    if (code != 0)
        return code;
    char *data = records->file.data;
    uint64_t none = 0, mix = rn_siphash(rn_table_secret(table), "records", 7) | 1;

    records->header = (struct rn_records_header *)(void *)data;
    records->ring = (struct rn_event_ring *)(void *)(data + RN_PAGE);
    records->groups = (struct rn_records_group *)(void *)(data + GROUPS_AT);
    records->group_count = (records->file.bytes - GROUPS_AT) / sizeof *records->groups;
    __atomic_compare_exchange_n(&records->header->mix, &none, mix, false, __ATOMIC_ACQ_REL,
                                __ATOMIC_ACQUIRE);
    records->mix = __atomic_load_n(&records->header->mix, __ATOMIC_ACQUIRE) | 1;
    if (records->file.alone)
        remove_past(records, rn_table_now(table));
    return 0;
}

void rn_records_close(struct rn_records *records)
{
    rn_side_file_close(&records->file);
    *records = (struct rn_records){0};
}

/* --- changing ---------------------------------------------------------------------------- */

struct found {
    unsigned at; /* RN_RECORDS_GROUP: not found */
    struct rn_slot_value value;
};

static struct rn_slot *slot_at(struct rn_records_group *group, unsigned at)
{
    return (struct rn_slot *)(void *)&group->slots[at];
}

static struct found search(struct rn_records_group *group, uint64_t key, unsigned from)
{
    struct found f = {.at = from};

    for (; f.at < RN_RECORDS_GROUP; f.at++) {
        f.value = rn_slot_load(slot_at(group, f.at));
        if (f.value.tag == key)
            break;
    }
    return f;
}

/* The slot that a new record should have: an empty one, else that of the lowest rank. */
static struct found choose(struct rn_records_group *group, int64_t now_ns, uint64_t *rank)
{
    struct found best = {.at = 0};

    *rank = UINT64_MAX;
    for (unsigned i = 0; i < RN_RECORDS_GROUP && *rank != 0; i++) {
        struct rn_slot_value value = rn_slot_load(slot_at(group, i));
        uint64_t its = value.tag != 0 ? rn_record_rank(value.state, now_ns) : 0;

        if (its < *rank) {
            best = (struct found){i, value};
            *rank = its;
        }
    }
    return best;
}

static void count_loss(struct rn_records *records, uint64_t word, int64_t now_ns)
{
    struct rn_records_header *h = records->header;
    struct rn_record_view v;

    rn_record_view(word, now_ns, &v);
    if (v.live)
        __atomic_fetch_add(v.banned           ? &h->lost_bans
                           : v.percent != 100 ? &h->lost_earned
                                              : &h->lost_counts,
                           1, __ATOMIC_RELAXED);
}

static void set_rule(struct rn_records_group *group, unsigned at, uint64_t hint)
{
    if (__atomic_load_n(&group->rules[at], __ATOMIC_RELAXED) != hint)
        __atomic_store_n(&group->rules[at], hint, __ATOMIC_RELAXED);
}

/* The record was entered at `mine`. If it is in a lower slot, too, that one counts, and this one is
 * removed: false. One in a higher slot was entered by a thread that did not see this one yet: the
 * one that is worth more stays, here. */
static bool settle(struct rn_records_group *group, const struct rn_records_change *c, unsigned mine)
{
    const struct rn_slot_value empty = {0};
    struct found first = search(group, c->key, 0);

    if (first.at < mine) {
        rn_slot_swap(slot_at(group, mine), (struct rn_slot_value){c->key, c->after}, empty);
        return false;
    }
    struct found other = search(group, c->key, mine + 1);

    if (other.at == RN_RECORDS_GROUP)
        return true;
    if (rn_record_rank(other.value.state, c->now_ns) > rn_record_rank(c->after, c->now_ns))
        rn_slot_swap(slot_at(group, mine), (struct rn_slot_value){c->key, c->after}, other.value);
    rn_slot_swap(slot_at(group, other.at), other.value, empty);
    return true;
}

/* Those that a thread left in a higher slot. */
static void remove_others(struct rn_records_group *group, uint64_t key)
{
    for (struct found f = search(group, key, 0); f.at < RN_RECORDS_GROUP;
         f = search(group, key, f.at + 1))
        rn_slot_swap(slot_at(group, f.at), f.value, (struct rn_slot_value){0});
}

enum step { DONE, LOST, AGAIN };

static enum step enter(struct rn_records *records, struct rn_records_group *group,
                       struct rn_records_change *c)
{
    uint64_t rank;
    struct found f = choose(group, c->now_ns, &rank);

    if (rank != 0 && rank >= rn_record_rank(c->after, c->now_ns)) {
        count_loss(records, c->after, c->now_ns);
        return LOST;
    }
    if (!rn_slot_swap(slot_at(group, f.at), f.value, (struct rn_slot_value){c->key, c->after}))
        return AGAIN;
    if (rank != 0)
        count_loss(records, f.value.state, c->now_ns);
    set_rule(group, f.at, c->rule ^ c->key);
    return settle(group, c, f.at) ? DONE : AGAIN;
}

bool rn_records_change(struct rn_records *records, struct rn_records_change *c)
{
    struct rn_records_group *group = rn_records_group(records, c->key);
    enum step step = AGAIN;

    while (step == AGAIN) {
        struct found f = search(group, c->key, 0);
        bool known = f.at < RN_RECORDS_GROUP;

        c->before = known ? f.value.state : 0;
        c->after = c->follow(c->arg, c->before);
        if (c->after == c->before)
            return true;
        if (!known) {
            step = enter(records, group, c);
            continue;
        }
        bool swapped = rn_slot_swap(slot_at(group, f.at), f.value,
                                    c->after != 0 ? (struct rn_slot_value){c->key, c->after}
                                                  : (struct rn_slot_value){0});

        if (swapped && c->after != 0)
            set_rule(group, f.at, c->rule ^ c->key);
        else if (swapped)
            remove_others(group, c->key);
        step = swapped ? DONE : AGAIN;
    }
    return step == DONE;
}

/* --- reading ------------------------------------------------------------------------------ */

uint64_t rn_records_rule(const struct rn_records *records, uint64_t key)
{
    struct rn_records_group *group = rn_records_group(records, key);
    unsigned at = search(group, key, 0).at;

    return at < RN_RECORDS_GROUP ? __atomic_load_n(&group->rules[at], __ATOMIC_RELAXED) ^ key : 0;
}

uint64_t rn_records_each(const struct rn_records *records, uint64_t position,
                         int (*see)(void *arg, const struct rn_records_entry *entry), void *arg)
{
    for (; position < rn_records_capacity(records); position++) {
        struct rn_records_group *group = &records->groups[position / RN_RECORDS_GROUP];
        unsigned at = (unsigned)(position % RN_RECORDS_GROUP);
        struct rn_slot_value value = rn_slot_load(slot_at(group, at));

        if (value.tag == 0 || search(group, value.tag, 0).at < at)
            continue;
        uint64_t rule = __atomic_load_n(&group->rules[at], __ATOMIC_RELAXED) ^ value.tag;

        if (see(arg, &(struct rn_records_entry){value.tag, rule, value.state}) != 0)
            return position + 1;
    }
    return position;
}
