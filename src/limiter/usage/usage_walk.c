/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walking through a file of usage, and the marks of what has changed.
 */
#include "limiter/usage/usage_file.h"

static uint64_t others_of(const struct rn_usage_file *file)
{
    return (uint64_t)file->rule_count * RN_USAGE_OTHERS;
}

void rn_usage_file_mark(struct rn_usage_file *file, struct rn_usage_counts *counts)
{
    uint64_t from_groups = (uint64_t)((char *)counts - (char *)file->groups);
    uint64_t region = from_groups / sizeof *file->groups / RN_USAGE_REGION;

    __atomic_store_n(&counts->dirty, 1, __ATOMIC_SEQ_CST);
    if ((char *)counts >= (char *)file->groups)
        __atomic_store_n(&file->regions[region], 1, __ATOMIC_SEQ_CST);
}

uint64_t rn_usage_file_end(const struct rn_usage_file *file)
{
    return others_of(file) + file->group_count * RN_USAGE_ENTRIES;
}

bool rn_usage_file_at(const struct rn_usage_file *file, uint64_t position,
                      char name[RATION_USAGE_CLIENT_MAX], struct rn_usage_place *place)
{
    uint64_t others = others_of(file);
    bool other = position < others;
    uint64_t entry = other ? 0 : position - others;
    struct rn_usage_slot *rule = &file->rules[other ? position / RN_USAGE_OTHERS : 0];
    struct rn_usage_group *group = &file->groups[entry / RN_USAGE_ENTRIES];
    uint64_t *tag_at = other ? &rule->other_tags[position % RN_USAGE_OTHERS]
                             : &group->tags[entry % RN_USAGE_ENTRIES];

    place->position = position;
    place->tag = __atomic_load_n(tag_at, __ATOMIC_ACQUIRE);
    if (place->tag <= RN_USAGE_WIPED)
        return false;
    place->counts = other ? &rule->others[position % RN_USAGE_OTHERS]
                          : &group->entries[entry % RN_USAGE_ENTRIES].counts;
    uint32_t about = __atomic_load_n(&place->counts->about, __ATOMIC_ACQUIRE);

    if (about == 0 || RN_USAGE_ABOUT_SLOT(about) >= file->rule_count ||
        RN_USAGE_ABOUT_LEN(about) > RATION_USAGE_CLIENT_MAX)
        return false;
    place->other = other;
    place->slot = RN_USAGE_ABOUT_SLOT(about);
    place->name = (struct rn_slice){name, RN_USAGE_ABOUT_LEN(about)};
    if (!other)
        rn_usage_file_load_words(name, group->entries[entry % RN_USAGE_ENTRIES].name,
                                 RATION_USAGE_CLIENT_MAX / 8);
    place->start_s = __atomic_load_n(&place->counts->start_s, __ATOMIC_RELAXED);
    /* Before the tag is read again: with the tag of another client the name may be that one's. */
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(tag_at, __ATOMIC_RELAXED) == place->tag;
}

static void add_up(struct rn_usage_sum *sum, struct rn_usage_counts *counts, bool clear_mark)
{
    if (clear_mark)
        __atomic_exchange_n(&counts->dirty, 0, __ATOMIC_SEQ_CST);
    sum->first = sum->first ? sum->first : counts;
    sum->admitted += __atomic_load_n(&counts->admitted, __ATOMIC_SEQ_CST);
    sum->refused += __atomic_load_n(&counts->refused, __ATOMIC_SEQ_CST);
    sum->corrected += __atomic_load_n(&counts->corrected, __ATOMIC_SEQ_CST);
}

/* Whether an earlier choice is the same group: its entries must not be added twice. */
static bool is_repeated(const struct rn_usage_file *file, uint64_t tag, unsigned choice)
{
    for (unsigned earlier = 0; earlier < choice; earlier++)
        if (rn_usage_group_of(file, tag, earlier) == rn_usage_group_of(file, tag, choice))
            return true;
    return false;
}

struct rn_usage_sum rn_usage_file_sum(const struct rn_usage_file *file,
                                      const struct rn_usage_place *place, bool clear_marks)
{
    struct rn_usage_sum sum = {0};

    if (place->other)
        add_up(&sum, place->counts, clear_marks);
    for (unsigned choice = 0; !place->other && choice < RN_USAGE_CHOICES; choice++) {
        struct rn_usage_group *group = rn_usage_group_of(file, place->tag, choice);

        if (is_repeated(file, place->tag, choice))
            continue;
        for (unsigned i = 0; i < RN_USAGE_ENTRIES; i++) {
            struct rn_usage_counts *counts = &group->entries[i].counts;

            if (__atomic_load_n(&group->tags[i], __ATOMIC_ACQUIRE) == place->tag &&
                __atomic_load_n(&counts->about, __ATOMIC_ACQUIRE) != 0)
                add_up(&sum, counts, clear_marks);
        }
    }
    return sum;
}

/* --- marks --------------------------------------------------------------------------- */

#define REGION_ENTRIES ((uint64_t)RN_USAGE_REGION * RN_USAGE_ENTRIES)

uint64_t rn_usage_file_next_marked(struct rn_usage_file *file, uint64_t position)
{
    uint64_t others = others_of(file), end = rn_usage_file_end(file);

    while (position < others &&
           __atomic_load_n(&file->rules[position / RN_USAGE_OTHERS].tag, __ATOMIC_RELAXED) == 0)
        position = (position / RN_USAGE_OTHERS + 1) * RN_USAGE_OTHERS;
    while (position >= others && position < end && (position - others) % REGION_ENTRIES == 0) {
        uint8_t *region = &file->regions[(position - others) / REGION_ENTRIES];

        if (__atomic_load_n(region, __ATOMIC_SEQ_CST) != 0) {
            __atomic_store_n(region, 0, __ATOMIC_SEQ_CST);
            break;
        }
        position += REGION_ENTRIES;
    }
    return position < end ? position : end;
}

void rn_usage_file_keep_marked(struct rn_usage_file *file, uint64_t position)
{
    uint64_t others = others_of(file);

    if (position >= others && position < rn_usage_file_end(file))
        __atomic_store_n(&file->regions[(position - others) / REGION_ENTRIES], 1, __ATOMIC_SEQ_CST);
}
