/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/usage/usage_file.h"

#include <string.h>

#include "base/siphash.h"

#define HEAD_BYTES 4096
#define RULES_MIN 16
#define RULES_MAX 4096
#define BYTES_PER_RULE (UINT64_C(64) << 10)
#define DAY_S INT64_C(86400)

_Static_assert(sizeof(struct rn_usage_group) == 1152, "nothing lies between the entries");
_Static_assert(RULES_MAX <= 1 << 16, "a slot fits `about`");

/* --- layout ------------------------------------------------------------------------- */

/* Where everything lies depends on the size alone. */
void rn_usage_file_lay_out(struct rn_usage_file *file, void *data, uint64_t bytes)
{
    uint64_t rules = bytes / BYTES_PER_RULE, regions;
    char *at = data;

    rules = rules < RULES_MIN ? RULES_MIN : rules > RULES_MAX ? RULES_MAX : rules;
    regions = bytes / sizeof(struct rn_usage_group) / RN_USAGE_REGION + 1;
    regions = (regions + 127) / 128 * 128;
    file->head = data;
    file->rule_count = (uint32_t)rules;
    file->rules = (void *)(at + HEAD_BYTES);
    uint64_t regions_at = HEAD_BYTES + (rules * sizeof *file->rules + 127) / 128 * 128;

    file->regions = (void *)(at + regions_at);
    file->groups = (void *)(at + regions_at + regions);
    file->group_count = (bytes - regions_at - regions) / sizeof *file->groups;
}

/* Stores of whole words, as several threads may store the same. */
static void store_words(uint64_t *to, size_t words, struct rn_slice text)
{
    for (size_t i = 0; i < words; i++) {
        size_t left = text.len > i * 8 ? text.len - i * 8 : 0;
        uint64_t word = 0;

        if (left != 0)
            memcpy(&word, text.data + i * 8, left < 8 ? left : 8);
        __atomic_store_n(&to[i], word, __ATOMIC_RELAXED);
    }
}

void rn_usage_file_load_words(char *to, const uint64_t *from, size_t words)
{
    for (size_t i = 0; i < words; i++) {
        uint64_t word = __atomic_load_n(&from[i], __ATOMIC_RELAXED);

        memcpy(to + i * 8, &word, 8);
    }
}

/* --- rules -------------------------------------------------------------------------- */

int64_t rn_usage_file_slot(struct rn_usage_file *file, struct rn_slice name,
                           enum ration_calendar unit, struct rn_slice zone, uint32_t keep)
{
    const struct rn_hash_key fixed = {RN_USAGE_MAGIC, (uint64_t)unit};
    struct rn_siphash state;

    rn_siphash_init(&state, &fixed);
    rn_siphash_add(&state, name.data, name.len);
    rn_siphash_add(&state, zone.data, zone.len);
    uint64_t tag = rn_siphash_done(&state) | 1;

    for (uint32_t i = 0; i < file->rule_count; i++) {
        struct rn_usage_slot *slot = &file->rules[i];
        uint64_t free = 0;

        if (__atomic_load_n(&slot->tag, __ATOMIC_RELAXED) != tag &&
            !__atomic_compare_exchange_n(&slot->tag, &free, tag, false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_RELAXED) &&
            free != tag)
            continue;
        __atomic_store_n(&slot->unit, (uint32_t)unit, __ATOMIC_RELAXED);
        __atomic_store_n(&slot->name_len, (uint32_t)name.len, __ATOMIC_RELAXED);
        __atomic_store_n(&slot->keep, keep, __ATOMIC_RELAXED);
        store_words(slot->zone, RATION_ZONE_TEXT / 8, zone);
        store_words(slot->name, RN_USAGE_RULE_NAME / 8, name);
        __atomic_store_n(&slot->ready, 1, __ATOMIC_RELEASE);
        return i;
    }
    return -1;
}

bool rn_usage_slot_read(const struct rn_usage_slot *slot, struct rn_usage_slot_text *text)
{
    if (__atomic_load_n(&slot->ready, __ATOMIC_ACQUIRE) == 0)
        return false;
    rn_usage_file_load_words(text->name, slot->name, RN_USAGE_RULE_NAME / 8);
    rn_usage_file_load_words(text->zone, slot->zone, RATION_ZONE_TEXT / 8);
    text->zone[RATION_ZONE_TEXT - 1] = '\0';
    text->name_len = __atomic_load_n(&slot->name_len, __ATOMIC_RELAXED);
    if (text->name_len > RN_USAGE_RULE_NAME)
        text->name_len = RN_USAGE_RULE_NAME;
    text->unit = (enum ration_calendar)__atomic_load_n(&slot->unit, __ATOMIC_RELAXED);
    text->keep = __atomic_load_n(&slot->keep, __ATOMIC_RELAXED);
    return text->unit >= RATION_CALENDAR_DAY && text->unit <= RATION_CALENDAR_YEAR;
}

/* The longest of each unit, with an hour for a clock that is set back. */
bool rn_usage_slot_is_past(const struct rn_usage_slot *slot, int64_t start_s, int64_t now_s)
{
    static const int64_t longest_s[] = {[RATION_CALENDAR_DAY] = DAY_S + 3600,
                                        [RATION_CALENDAR_WEEK] = 7 * DAY_S + 3600,
                                        [RATION_CALENDAR_MONTH] = 31 * DAY_S + 3600,
                                        [RATION_CALENDAR_YEAR] = 366 * DAY_S};
    uint32_t unit = __atomic_load_n(&slot->unit, __ATOMIC_RELAXED);
    int64_t periods = (int64_t)__atomic_load_n(&slot->keep, __ATOMIC_RELAXED) + 1;

    if (unit < RATION_CALENDAR_DAY || unit > RATION_CALENDAR_YEAR)
        return false;
    return start_s < now_s - periods * longest_s[unit] - DAY_S;
}

/* --- entries ------------------------------------------------------------------------- */

void rn_usage_file_clear(struct rn_usage_counts *counts)
{
    __atomic_store_n(&counts->admitted, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&counts->refused, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&counts->corrected, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&counts->start_s, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&counts->dirty, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&counts->about, 0, __ATOMIC_RELAXED);
}

/* Frees what has this tag. A thread that adds to it just now took `keep` periods to come here: such
 * a sleeper may add its units to another client. */
static bool wipe(struct rn_usage_file *file, uint64_t *tag_at, uint64_t tag,
                 struct rn_usage_counts *counts)
{
    bool mine;

    __atomic_fetch_add(&file->head->wiping, 1, __ATOMIC_RELAXED);
    mine = __atomic_compare_exchange_n(tag_at, &tag, RN_USAGE_WIPED, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_RELAXED);
    if (mine) {
        rn_usage_file_clear(counts);
        __atomic_store_n(tag_at, 0, __ATOMIC_RELEASE);
    }
    __atomic_fetch_sub(&file->head->wiping, 1, __ATOMIC_RELAXED);
    return mine;
}

static void wipe_past(struct rn_usage_file *file, uint64_t tag, int64_t now_s)
{
    for (unsigned choice = 0; choice < RN_USAGE_CHOICES; choice++) {
        struct rn_usage_group *group = rn_usage_group_of(file, tag, choice);

        for (unsigned i = 0; i < RN_USAGE_ENTRIES; i++) {
            struct rn_usage_counts *counts = &group->entries[i].counts;
            uint64_t there = __atomic_load_n(&group->tags[i], __ATOMIC_ACQUIRE);
            uint32_t about = __atomic_load_n(&counts->about, __ATOMIC_ACQUIRE);
            int64_t start_s = __atomic_load_n(&counts->start_s, __ATOMIC_RELAXED);
            uint32_t slot = RN_USAGE_ABOUT_SLOT(about);

            if (there > RN_USAGE_WIPED && about != 0 && slot < file->rule_count &&
                rn_usage_slot_is_past(&file->rules[slot], start_s, now_s) &&
                wipe(file, &group->tags[i], there, counts))
                __atomic_fetch_sub(&file->head->entries, 1, __ATOMIC_RELAXED);
        }
    }
}

static unsigned count_free(const struct rn_usage_group *group)
{
    unsigned count = 0;

    for (unsigned i = 0; i < RN_USAGE_ENTRIES; i++)
        count += __atomic_load_n(&group->tags[i], __ATOMIC_RELAXED) == 0;
    return count;
}

/* The first choice while half of it is free, so that most entries are found at once; then the
 * emptiest, so that the file fills evenly: the first client finds no room when about 85 percent are
 * in use. NULL: all are full. */
static struct rn_usage_group *choose_group(const struct rn_usage_file *file, uint64_t tag)
{
    struct rn_usage_group *best = NULL;
    unsigned most = 0;

    for (unsigned choice = 0; choice < RN_USAGE_CHOICES; choice++) {
        struct rn_usage_group *group = rn_usage_group_of(file, tag, choice);
        unsigned count = count_free(group);

        if (choice == 0 && count >= RN_USAGE_ENTRIES / 2)
            return group;
        best = count > most ? group : best;
        most = count > most ? count : most;
    }
    return best;
}

/* Sets the tag of a free entry, unless another thread has set it in that group meanwhile. */
static struct rn_usage_counts *claim(struct rn_usage_file *file, uint64_t tag)
{
    struct rn_usage_group *group;

    while ((group = choose_group(file, tag)) != NULL)
        for (unsigned i = 0; i < RN_USAGE_ENTRIES; i++) {
            uint64_t there = 0;

            if (__atomic_compare_exchange_n(&group->tags[i], &there, tag, false, __ATOMIC_ACQ_REL,
                                            __ATOMIC_ACQUIRE)) {
                __atomic_fetch_add(&file->head->entries, 1, __ATOMIC_RELAXED);
                return &group->entries[i].counts;
            }
            if (there == tag)
                return &group->entries[i].counts;
        }
    return NULL;
}

struct rn_usage_counts *rn_usage_file_make(struct rn_usage_file *file, uint64_t tag, uint32_t slot,
                                           int64_t start_s, struct rn_slice client, int64_t now_s)
{
    struct rn_usage_counts *counts = rn_usage_file_find(file, tag);

    if (!counts) {
        /* Before the entry is placed: what is past must not crowd a group. */
        if (count_free(rn_usage_group_of(file, tag, 0)) < RN_USAGE_ENTRIES / 2)
            wipe_past(file, tag, now_s);
        counts = claim(file, tag);
    }
    if (!counts || __atomic_load_n(&counts->about, __ATOMIC_ACQUIRE) != 0)
        return counts;
    store_words(((struct rn_usage_entry *)(void *)counts)->name, RATION_USAGE_CLIENT_MAX / 8,
                client);
    __atomic_store_n(&counts->start_s, start_s, __ATOMIC_RELAXED);
    __atomic_store_n(&counts->about, RN_USAGE_ABOUT(slot, client.len), __ATOMIC_RELEASE);
    return counts;
}

/* There are more of them than a rule keeps periods: the oldest may go. */
struct rn_usage_counts *rn_usage_file_other(struct rn_usage_file *file, uint32_t slot,
                                            int64_t start_s)
{
    struct rn_usage_slot *rule = &file->rules[slot];
    uint64_t tag = rn_usage_tag(slot, 0, start_s);

    for (;;) {
        int64_t oldest_s = INT64_MAX;
        unsigned oldest = 0;

        for (unsigned i = 0; i < RN_USAGE_OTHERS; i++) {
            struct rn_usage_counts *counts = &rule->others[i];
            uint64_t there = 0;

            if (__atomic_compare_exchange_n(&rule->other_tags[i], &there, tag, false,
                                            __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) ||
                there == tag) {
                __atomic_store_n(&counts->start_s, start_s, __ATOMIC_RELAXED);
                __atomic_store_n(&counts->about, RN_USAGE_ABOUT(slot, 0), __ATOMIC_RELEASE);
                return counts;
            }
            int64_t there_s = __atomic_load_n(&counts->about, __ATOMIC_ACQUIRE) == 0
                                  ? INT64_MAX
                                  : __atomic_load_n(&counts->start_s, __ATOMIC_RELAXED);

            oldest = there_s < oldest_s ? i : oldest;
            oldest_s = there_s < oldest_s ? there_s : oldest_s;
        }
        uint64_t goes = __atomic_load_n(&rule->other_tags[oldest], __ATOMIC_ACQUIRE);

        if (goes > RN_USAGE_WIPED)
            wipe(file, &rule->other_tags[oldest], goes, &rule->others[oldest]);
    }
}
