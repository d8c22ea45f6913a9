/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Overrides and bans as values, and as bytes.
 */
#include "limiter/clients/client.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "base/utf8.h"

/* --- bytes ------------------------------------------------------------------------ */

static void put_text(struct rn_buf *out, struct rn_slice text)
{
    uint16_t len = (uint16_t)text.len;

    rn_buf_put(out, &len, sizeof len);
    rn_buf_put_slice(out, text);
}

void rn_client_write(const struct rn_client *client, struct rn_buf *out)
{
    uint8_t count = (uint8_t)client->count;

    rn_buf_put(out, &client->expires_wall_ns, sizeof client->expires_wall_ns);
    rn_buf_put(out, &count, sizeof count);
    put_text(out, client->rule);
    put_text(out, client->limit);
    put_text(out, client->note);
    for (uint32_t i = 0; i < client->count; i++) {
        put_text(out, client->attributes[i].name);
        put_text(out, client->attributes[i].value);
    }
    if (client->made_us != 0)
        rn_buf_put(out, &client->made_us, sizeof client->made_us);
}

/* Takes `len` bytes off the front. NULL: there are fewer. */
static const char *take_bytes(struct rn_slice *from, size_t len)
{
    const char *at = from->data;

    if (from->len < len)
        return NULL;
    from->data += len;
    from->len -= len;
    return at;
}

static bool take_text(struct rn_slice *from, struct rn_slice *text)
{
    const char *at = take_bytes(from, sizeof(uint16_t));
    uint16_t len;

    if (!at)
        return false;
    memcpy(&len, at, sizeof len);
    *text = (struct rn_slice){take_bytes(from, len), len};
    return text->data != NULL;
}

bool rn_client_read(struct rn_slice payload, struct rn_client *client)
{
    const char *expiry = take_bytes(&payload, sizeof client->expires_wall_ns);
    const char *count = expiry ? take_bytes(&payload, 1) : NULL;

    if (!count || (unsigned char)*count > RN_CLIENT_ATTRIBUTES_MAX)
        return false;
    memcpy(&client->expires_wall_ns, expiry, sizeof client->expires_wall_ns);
    client->count = (unsigned char)*count;
    if (!take_text(&payload, &client->rule) || !take_text(&payload, &client->limit) ||
        !take_text(&payload, &client->note) || client->note.len > RATION_NOTE_MAX)
        return false;
    for (uint32_t i = 0; i < client->count; i++)
        if (!take_text(&payload, &client->attributes[i].name) ||
            !take_text(&payload, &client->attributes[i].value))
            return false;
    const char *made = take_bytes(&payload, sizeof client->made_us);

    client->made_us = 0;
    if (made)
        memcpy(&client->made_us, made, sizeof client->made_us);
    return (!made || client->made_us > 0) && payload.len == 0 && client->expires_wall_ns >= 0;
}

/* --- identity ----------------------------------------------------------------------- */

uint64_t rn_client_identity(const struct rn_client *client, const struct rn_hash_key *secret)
{
    uint64_t sum = client->count;
    struct rn_siphash s;

    for (uint32_t i = 0; i < client->count; i++) {
        const struct rn_client_attribute *a = &client->attributes[i];

        rn_siphash_init(&s, secret);
        rn_siphash_add(&s, a->name.data, a->name.len);
        rn_siphash_add(&s, a->value.data, a->value.len);
        sum += rn_siphash_done(&s);
    }
    rn_siphash_init(&s, secret);
    rn_siphash_add(&s, &sum, sizeof sum);
    rn_siphash_add(&s, client->rule.data, client->rule.len);
    return rn_siphash_done(&s);
}

void rn_client_name(const struct rn_client *client, char out[RN_CLIENT_NAME])
{
    static const struct rn_hash_key keys[2] = {
        {UINT64_C(0x6E6F697461722D31), UINT64_C(0x7465656C662D3A31)},
        {UINT64_C(0x6E6F697461722D32), UINT64_C(0x7465656C662D3A32)}};
    char text[RN_CLIENT_NAME + 1];

    snprintf(text, sizeof text, "%016" PRIx64 "%016" PRIx64, rn_client_identity(client, &keys[0]),
             rn_client_identity(client, &keys[1]));
    memcpy(out, text, RN_CLIENT_NAME);
}

/* --- from callers --------------------------------------------------------------------- */

int rn_client_take(struct rn_client *client, const struct ration_attribute *attributes,
                   size_t count, struct ration_error *error)
{
    if (count > RN_CLIENT_ATTRIBUTES_MAX || (count != 0 && !attributes))
        return rn_error_set(error, RATION_EINVAL, 0, "%zu attributes; give at most %d", count,
                            RN_CLIENT_ATTRIBUTES_MAX);
    for (size_t i = 0; i < count; i++) {
        const struct ration_attribute *a = &attributes[i];

        if (!a->name || a->name_len == 0 || a->name_len > RATION_ATTRIBUTE_NAME_MAX)
            return rn_error_set(error, RATION_EINVAL, 0,
                                "attribute %zu has a name of %zu bytes; give it 1 to %d", i + 1,
                                a->name ? a->name_len : 0, RATION_ATTRIBUTE_NAME_MAX);
        if (!a->value || a->value_len == 0 || a->value_len > RATION_ATTRIBUTE_VALUE_MAX)
            return rn_error_set(error, RATION_EINVAL, 0,
                                "attribute %s has a value of %zu bytes; give it 1 to %d",
                                rn_error_quote(a->name, a->name_len, 0).text,
                                a->value ? a->value_len : 0, RATION_ATTRIBUTE_VALUE_MAX);
        client->attributes[i] =
            (struct rn_client_attribute){{a->name, a->name_len}, {a->value, a->value_len}};
        for (size_t k = 0; k < i; k++)
            if (rn_slice_equal(client->attributes[k].name, client->attributes[i].name))
                return rn_error_set(error, RATION_EINVAL, 0,
                                    "attribute %s is given twice; give it once",
                                    rn_error_quote(a->name, a->name_len, 0).text);
    }
    client->count = (uint32_t)count;
    return 0;
}

int rn_client_take_note(struct rn_client *client, const char *what, const char *note, size_t len,
                        struct ration_error *error)
{
    uint32_t point;

    client->note = note ? (struct rn_slice){note, len} : RN_SLICE("");
    if (client->note.len > RATION_NOTE_MAX)
        return rn_error_set(error, RATION_EINVAL, 0, "a %s of %zu bytes; write at most %d", what,
                            len, RATION_NOTE_MAX);
    for (size_t at = 0, n; at < client->note.len; at += n) {
        n = rn_utf8_decode(note + at, len - at, &point);
        if (n == 0 || !rn_utf8_is_printable(point))
            return rn_error_set(error, RATION_EINVAL, at,
                                "a %s with a byte 0x%02x at %zu, which is not plain text; write "
                                "UTF-8 without control characters",
                                what, (unsigned)(unsigned char)note[at], at);
    }
    return 0;
}

bool rn_client_is_valid(const struct rn_client *client)
{
    struct ration_attribute attributes[RN_CLIENT_ATTRIBUTES_MAX];
    struct rn_client copy;

    for (uint32_t i = 0; i < client->count; i++) {
        const struct rn_client_attribute *a = &client->attributes[i];

        attributes[i] =
            (struct ration_attribute){a->name.data, a->name.len, a->value.data, a->value.len};
    }
    return rn_client_take(&copy, attributes, client->count, NULL) == 0 &&
           rn_client_take_note(&copy, "note", client->note.data, client->note.len, NULL) == 0;
}

int rn_client_spell_path(struct rn_slice *path, const struct rn_path_settings *settings,
                         struct rn_path_readings *readings, struct ration_error *error)
{
    rn_path_read_all(*path, settings, readings);
    if (readings->unreadable || readings->text[0].len > RATION_ATTRIBUTE_VALUE_MAX)
        return rn_error_set(error, RATION_EINVAL, 0,
                            "%s can be read in too many ways; write the path as it is served",
                            rn_error_quote(path->data, path->len, 0).text);
    *path = readings->text[0];
    return 0;
}
