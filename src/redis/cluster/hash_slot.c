/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/cluster/hash_slot.h"

#include <string.h>

/* CRC-16/XMODEM: polynomial x^16 + x^12 + x^5 + 1, from zero, highest bit first. Bit by
 * bit: the tags hashed here have three bytes, and are hashed rarely. */
uint16_t rn_hash_slot_of(struct rn_slice name)
{
    const char *open = name.len > 0 ? memchr(name.data, '{', name.len) : NULL;
    size_t rest = open ? name.len - (size_t)(open + 1 - name.data) : 0;
    const char *shut = rest > 0 ? memchr(open + 1, '}', rest) : NULL;
    unsigned crc = 0;

    if (shut && shut > open + 1)
        name = (struct rn_slice){open + 1, (size_t)(shut - open - 1)};
    for (size_t i = 0; i < name.len; i++) {
        crc ^= (unsigned)(unsigned char)name.data[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 0x8000 ? (crc << 1 ^ 0x1021) & 0xffff : crc << 1;
    }
    return (uint16_t)(crc % RN_HASH_SLOTS);
}

/* --- CLUSTER SLOTS ------------------------------------------------------------------- */

static bool is_array(const redisReply *reply, size_t least)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements >= least;
}

static bool is_number(const redisReply *reply, long long least, long long most)
{
    return reply->type == REDIS_REPLY_INTEGER && reply->integer >= least && reply->integer <= most;
}

/* An array: host, port, and more. The host is null or "" if the server does not know its own. */
static bool read_server(const redisReply *server, const char *near, char out[RN_URL_ADDRESS])
{
    if (!is_array(server, 2) || !is_number(server->element[1], 1, 65535))
        return false;
    const redisReply *host = server->element[0];
    bool is_named = host->type == REDIS_REPLY_STRING && strcmp(host->str, "?") != 0;

    if (host->type != REDIS_REPLY_STRING && host->type != REDIS_REPLY_NIL)
        return false;
    if (!rn_redirect_address(is_named ? host->str : "", (unsigned)server->element[1]->integer, out))
        return false;
    rn_redirect_complete(out, near);
    return true;
}

bool rn_hash_slot_read_map(const redisReply *reply, const char *near,
                           const struct rn_hash_slot_visit *visit)
{
    struct rn_hash_slot_range range;
    char replica[RN_URL_ADDRESS];

    if (!is_array(reply, 1))
        return false;
    for (size_t i = 0; i < reply->elements; i++) {
        const redisReply *entry = reply->element[i];

        if (!is_array(entry, 3) || !is_number(entry->element[0], 0, RN_HASH_SLOTS - 1) ||
            !is_number(entry->element[1], entry->element[0]->integer, RN_HASH_SLOTS - 1) ||
            !read_server(entry->element[2], near, range.address))
            return false;
        range.first = (uint16_t)entry->element[0]->integer;
        range.last = (uint16_t)entry->element[1]->integer;
        visit->range(visit->arg, &range);
        for (size_t k = 3; k < entry->elements; k++) {
            if (!read_server(entry->element[k], near, replica))
                return false;
            visit->replica(visit->arg, replica);
        }
    }
    return true;
}
