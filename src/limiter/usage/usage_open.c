/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a file of usage: beside its state file, or only to be read; moving it into one of another
 * size.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "limiter/usage/usage_file.h"

#define SUFFIX ".usage"

static int64_t load(const int64_t *counter)
{
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

/* False: something does not fit. */
static bool move_entry(struct rn_usage_file *to, const struct rn_usage_place *from, uint32_t slot)
{
    uint64_t tag = from->tag;
    struct rn_usage_counts *counts =
        from->other ? rn_usage_file_other(to, slot, from->start_s)
                    : rn_usage_file_make(to, tag, slot, from->start_s, from->name, from->start_s);

    if (!counts)
        return false;
    rn_usage_add(to, counts, &counts->admitted, load(&from->counts->admitted));
    rn_usage_add(to, counts, &counts->refused, load(&from->counts->refused));
    rn_usage_add(to, counts, &counts->corrected, load(&from->counts->corrected));
    return true;
}

/* Slots keep their numbers, as tags depend on them. */
static bool move(void *to_data, uint64_t to_bytes, const void *from_data, uint64_t from_bytes)
{
    struct rn_usage_file to, from;
    struct rn_usage_place place;
    char name[RATION_USAGE_CLIENT_MAX];

    rn_usage_file_lay_out(&to, to_data, to_bytes);
    rn_usage_file_lay_out(&from, (void *)from_data, from_bytes); /* only read */
    to.head->stamp = from.head->stamp;
    to.head->other = from.head->other;
    for (uint32_t i = 0; i < from.rule_count; i++) {
        if (from.rules[i].tag != 0 && i >= to.rule_count)
            return false;
        if (from.rules[i].tag != 0)
            memcpy(&to.rules[i], &from.rules[i], offsetof(struct rn_usage_slot, other_tags));
    }
    for (uint64_t i = 0; i < rn_usage_file_end(&from); i++)
        if (rn_usage_file_at(&from, i, name, &place) && !move_entry(&to, &place, place.slot))
            return false;
    return true;
}

/* Frees what processes left that were killed while they wiped it. No other process uses it. */
static void clean(struct rn_usage_file *file)
{
    for (uint64_t i = 0; i < file->group_count * RN_USAGE_ENTRIES; i++) {
        struct rn_usage_group *group = &file->groups[i / RN_USAGE_ENTRIES];

        if (group->tags[i % RN_USAGE_ENTRIES] == RN_USAGE_WIPED) {
            rn_usage_file_clear(&group->entries[i % RN_USAGE_ENTRIES].counts);
            group->tags[i % RN_USAGE_ENTRIES] = 0;
        }
    }
    for (uint64_t i = 0; i < (uint64_t)file->rule_count * RN_USAGE_OTHERS; i++) {
        struct rn_usage_slot *rule = &file->rules[i / RN_USAGE_OTHERS];

        if (rule->other_tags[i % RN_USAGE_OTHERS] == RN_USAGE_WIPED) {
            rn_usage_file_clear(&rule->others[i % RN_USAGE_OTHERS]);
            rule->other_tags[i % RN_USAGE_OTHERS] = 0;
        }
    }
    file->head->wiping = 0;
}

static struct rn_side_file_plan plan_of(const char *path)
{
    return (struct rn_side_file_plan){.what = "usage file",
                                      .path = path,
                                      .magic = RN_USAGE_MAGIC,
                                      .version = RN_USAGE_VERSION,
                                      .adopt = true}; /* it is what bills are made from */
}

char *rn_usage_file_path(const char *state_path)
{
    char *real = realpath(state_path, NULL);
    size_t len = strlen(real ? real : state_path);
    char *path = malloc(len + sizeof SUFFIX);

    if (path) {
        memcpy(path, real ? real : state_path, len);
        memcpy(path + len, SUFFIX, sizeof SUFFIX);
    }
    free(real);
    return path;
}

int rn_usage_file_open(const char *state_path, const struct rn_table *table, uint64_t bytes,
                       struct rn_usage_file **out, struct ration_error *error)
{
    struct rn_usage_file *file = calloc(1, sizeof *file);
    char *path = rn_usage_file_path(state_path);
    struct rn_side_file_plan plan = plan_of(path);
    int code = RATION_ENOMEM;

    plan.owner = rn_side_file_owner(table);
    plan.bytes = bytes ? bytes : RN_USAGE_BYTES;
    plan.move = bytes ? move : NULL;
    if (!file || !path)
        rn_error_set(error, code, 0, "out of memory for usage");
    else
        code = rn_side_file_open(&plan, &file->side, error);
    if (code == 0) {
        rn_usage_file_lay_out(file, file->side.data, file->side.bytes);
        if (file->side.alone && file->head->wiping != 0)
            clean(file);
        *out = file;
    } else {
        free(file);
    }
    free(path);
    return code;
}

int rn_usage_file_read(const char *state_path, struct rn_usage_file **out,
                       struct ration_error *error)
{
    struct rn_usage_file *file = calloc(1, sizeof *file);
    char *path = rn_usage_file_path(state_path);
    struct rn_side_file_plan plan = plan_of(path);
    int code = RATION_ENOMEM;

    if (!file || !path)
        rn_error_set(error, code, 0, "out of memory for usage");
    else
        code = rn_side_file_read(&plan, &file->side, error);
    if (code != 0 && path && access(path, F_OK) != 0 && errno == ENOENT)
        rn_error_set(error, code, 0,
                     "there is no usage file \"%s\"; name a state file in which rules with usage "
                     "have counted",
                     path);
    if (code == 0) {
        rn_usage_file_lay_out(file, file->side.data, file->side.bytes);
        *out = file;
    } else {
        free(file);
    }
    free(path);
    return code;
}

void rn_usage_file_close(struct rn_usage_file *file)
{
    if (file)
        rn_side_file_close(&file->side);
    free(file);
}
