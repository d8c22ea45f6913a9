/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Usage as Redis has it: names of keys, and the text of groups, files and rows. Redis is not
 * trusted: every number has bounds, and text that goes to logs or people has known characters.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/siphash.h"
#include "redis/fleet/fleet_internal.h"

#define HEX "0123456789abcdef"
#define DIGITS 16        /* of a hash */
#define IDS (2 * DIGITS) /* of a state file and a row in it */
#define UTC "UTC"

/* The same on all nodes, and no secret. */
static const struct rn_hash_key name_key = {0x75736167652f6772, 0x6f75702f626b742e};

/* --- writing ---------------------------------------------------------------------------------- */

uint64_t rn_fleet_usage_hash(struct rn_slice client, bool other)
{
    return other ? 0 : rn_siphash(&name_key, client.data, client.len);
}

void rn_fleet_usage_group_write(struct rn_buf *out, const struct ration_usage *usage, uint32_t keep)
{
    rn_buf_putf(out, "%" PRId64 " %" PRId64 " %" PRIu32 " %s %s ", usage->start_s, usage->end_s,
                keep, usage->period, usage->zone[0] ? usage->zone : UTC);
    rn_buf_put(out, usage->rule, usage->rule_len);
}

uint64_t rn_fleet_usage_group_id(const struct ration_usage *usage)
{
    const char *zone = usage->zone[0] ? usage->zone : UTC;
    struct rn_siphash s;

    rn_siphash_init(&s, &name_key);
    rn_siphash_add(&s, &usage->start_s, sizeof usage->start_s);
    rn_siphash_add(&s, &usage->end_s, sizeof usage->end_s);
    rn_siphash_add(&s, zone, strlen(zone) + 1);
    rn_siphash_add(&s, usage->rule, usage->rule_len);
    return rn_siphash_done(&s);
}

void rn_fleet_usage_key_write(struct rn_buf *out, uint64_t group, unsigned bucket)
{
    rn_buf_putf(out, RN_FLEET_USAGE_INDEX ":%016" PRIx64, group);
    if (bucket < RN_FLEET_USAGE_BUCKETS)
        rn_buf_putf(out, ":%03x", bucket);
}

/* --- reading ---------------------------------------------------------------------------------- */

/* The text before the next blank, which is skipped. */
static struct rn_slice next_word(struct rn_slice *rest)
{
    const char *blank = rest->len > 0 ? memchr(rest->data, ' ', rest->len) : NULL;
    size_t len = blank ? (size_t)(blank - rest->data) : rest->len;
    struct rn_slice word = {rest->data, len};

    *rest =
        (struct rn_slice){rest->data + len + (blank != NULL), rest->len - len - (blank != NULL)};
    return word;
}

/* Digits, at most `most`. */
static bool read_number(struct rn_slice word, uint64_t most, uint64_t *number)
{
    *number = 0;
    for (size_t i = 0; i < word.len; i++) {
        unsigned digit = (unsigned)(unsigned char)word.data[i] - '0';

        if (digit > 9 || *number > (most - digit) / 10)
            return false;
        *number = *number * 10 + digit;
    }
    return word.len > 0;
}

static bool read_signed(struct rn_slice word, int64_t *number)
{
    bool below = word.len > 0 && word.data[0] == '-';
    uint64_t size;

    if (!read_number((struct rn_slice){word.data + below, word.len - below},
                     (uint64_t)INT64_MAX + below, &size))
        return false;
    *number = below ? (int64_t)(0 - size) : (int64_t)size;
    return true;
}

/* A word of printable ASCII, terminated. */
static bool read_text(struct rn_slice word, char *out, size_t size)
{
    if (word.len == 0 || word.len >= size)
        return false;
    for (size_t i = 0; i < word.len; i++)
        if (word.data[i] <= ' ' || word.data[i] > '~')
            return false;
    memcpy(out, word.data, word.len);
    out[word.len] = '\0';
    return true;
}

static bool read_id(struct rn_slice word, uint64_t *id)
{
    *id = 0;
    for (size_t i = 0; i < word.len; i++) {
        const char *digit = memchr(HEX, word.data[i], sizeof HEX - 1);

        if (!digit)
            return false;
        *id = *id << 4 | (uint64_t)(digit - HEX);
    }
    return word.len == DIGITS;
}

bool rn_fleet_usage_group_read(struct rn_slice field, struct rn_slice value,
                               struct rn_fleet_usage_group *group)
{
    struct ration_usage *usage = &group->usage;
    uint64_t number, gone, start, end, keep;

    *group = (struct rn_fleet_usage_group){.id = 0};
    if (!read_id(field, &group->id) || !read_number(next_word(&value), UINT32_MAX, &number) ||
        number == 0 || !read_number(next_word(&value), INT64_MAX, &gone) ||
        !read_number(next_word(&value), INT64_MAX, &start) ||
        !read_number(next_word(&value), INT64_MAX, &end) || start >= end ||
        !read_number(next_word(&value), UINT32_MAX, &keep) ||
        !read_text(next_word(&value), usage->period, sizeof usage->period) ||
        !read_text(next_word(&value), usage->zone, sizeof usage->zone) || value.len == 0)
        return false;
    if (strcmp(usage->zone, UTC) == 0)
        usage->zone[0] = '\0';
    group->number = (uint32_t)number;
    usage->start_s = (int64_t)start;
    usage->end_s = (int64_t)end;
    usage->rule = value.data;
    usage->rule_len = value.len;
    return group->id == rn_fleet_usage_group_id(usage);
}

bool rn_fleet_usage_file_read(struct rn_slice field, struct rn_slice value,
                              struct rn_fleet_usage_file *file)
{
    char host[RN_FLEET_HOST];
    uint64_t id, seen, gone;

    if (!read_id(field, &id) || !read_number(next_word(&value), INT64_MAX, &seen) ||
        !read_number(next_word(&value), UINT64_MAX, &file->unpublished) ||
        !read_number(next_word(&value), INT64_MAX, &gone) || !read_text(value, host, sizeof host))
        return false;
    file->seen_s = (int64_t)seen;
    snprintf(file->name, sizeof file->name, "%s/%016" PRIx64, host, id);
    return true;
}

bool rn_fleet_usage_row_read(struct rn_slice field, struct rn_slice value,
                             struct rn_fleet_usage_row *row)
{
    uint64_t file, tag, stamp;

    if (field.len <= IDS || !read_id((struct rn_slice){field.data, DIGITS}, &file) ||
        !read_id((struct rn_slice){field.data + DIGITS, DIGITS}, &tag))
        return false;
    row->other = field.data[IDS] == RN_FLEET_USAGE_OTHER;
    row->client = (struct rn_slice){field.data + IDS + 1, field.len - IDS - 1};
    row->hash = rn_fleet_usage_hash(row->client, row->other);
    if (row->other ? row->client.len != 0 : field.data[IDS] != RN_FLEET_USAGE_CLIENT)
        return false;
    return row->client.len <= RATION_USAGE_CLIENT_MAX &&
           read_number(next_word(&value), UINT64_MAX, &stamp) &&
           read_signed(next_word(&value), &row->admitted) &&
           read_number(next_word(&value), UINT64_MAX, &row->refused) &&
           read_signed(value, &row->corrected);
}
