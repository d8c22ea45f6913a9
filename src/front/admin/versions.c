/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The versions of the rules over the admin port: what was in force, by whose change, and going
 * back.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/siphash.h"
#include "front/admin/admin_internal.h"

/* --- noting --------------------------------------------------------------------------------- */

struct digest {
    struct rn_siphash hash;
    uint64_t rules;
};

static void add_text(struct digest *digest, struct rn_slice text)
{
    rn_siphash_add(&digest->hash, &text.len, sizeof text.len);
    rn_siphash_add(&digest->hash, text.data, text.len);
}

/* Rules in Envoy's format are in no text: what is listed of them tells whether they have changed.
 */
static int add_rule(void *arg, const struct ration_rule_info *info)
{
    struct digest *digest = arg;

    digest->rules++;
    if (!info->envoy)
        return 0;
    add_text(digest, (struct rn_slice){info->name, info->name_len});
    add_text(digest, info->shadow ? RN_SLICE("shadow") : RN_SLICE("enforce"));
    for (uint32_t i = 0; i < info->listed; i++)
        add_text(digest, rn_slice_of(info->limits[i].text));
    return 0;
}

void rn_front_note_rules(struct rn_front *front, struct rn_author author, enum rn_version_how how,
                         uint64_t of)
{
    static const struct rn_hash_key fixed = {0x72756C6573, 1};
    struct digest digest = {.rules = 0};
    struct rn_version version = {
        .made_us = rn_clock_read_ns(CLOCK_REALTIME) / 1000, .how = how, .of = of};
    struct rn_rules_text rules;

    if (!front->versions_open || rn_admin_rules_text(front, &rules) != 0)
        return;
    rn_siphash_init(&digest.hash, &fixed);
    add_text(&digest, rules.text);
    ration_rules_each(front->limiter, add_rule, &digest);
    version.digest = rn_siphash_done(&digest.hash);
    version.rules = digest.rules;
    rn_slice_copy(version.by, sizeof version.by, author.by);
    rn_slice_copy(version.token, sizeof version.token, author.token);
    if (rules.envoy.text[0] != '\0')
        rules.text = (struct rn_slice){0};
    version.bytes = rules.text.len;
    rn_version_list_add(&front->versions, &version, rules.text);
    ration_text_free(rules.printed);
}

void rn_front_open_versions(struct rn_front *front, const char *path)
{
    struct rn_slice by = front->rules_from_api ? RN_SLICE("state") : RN_SLICE("files");

    rn_version_list_open(&front->versions, path);
    front->versions_open = true;
    rn_front_note_rules(front, (struct rn_author){.by = by}, RN_VERSION_START, 0);
}

/* --- reading -------------------------------------------------------------------------------- */

static void put_version(struct rn_members *m, const struct rn_version *version, uint64_t in_force)
{
    bool has_token = version->token[0] != '\0';

    rn_members_u64(m, "id", version->id);
    rn_admin_put_time(m, "time", version->made_us * 1000);
    rn_members_text(m, "by", rn_slice_of(has_token ? version->token : version->by));
    if (has_token)
        rn_members_text(m, "token", rn_slice_of(version->token));
    else
        rn_members_null(m, "token");
    rn_members_text(m, "how", rn_slice_of(rn_version_list_how(version->how)));
    if (version->of != 0)
        rn_members_u64(m, "of", version->of);
    else
        rn_members_null(m, "of");
    rn_members_u64(m, "bytes", version->bytes);
    rn_members_u64(m, "rules", version->rules);
    rn_members_bool(m, "in_force", version->id == in_force);
    rn_members_bool(m, "text_kept", version->text.data != NULL);
}

/* The newest first. */
void rn_admin_get_versions(struct rn_http_context *c)
{
    const struct rn_version_list *list = &c->front->versions;
    struct rn_admin_params params;

    if (!rn_admin_read_query(c, &params, RN_ADMIN_COUNT | RN_ADMIN_OFFSET))
        return;
    uint64_t count = params.count != 0 ? params.count : RN_VERSIONS_MAX;
    struct rn_members m = rn_admin_begin(c);

    rn_members_u64(&m, "kept", list->count);
    rn_members_open(&m, "versions", '[');
    for (uint64_t i = params.offset; i < list->count && i - params.offset < count; i++) {
        rn_members_open(&m, NULL, '{');
        put_version(&m, &list->items[list->count - 1 - i], list->in_force);
        rn_members_close(&m, '}');
    }
    rn_members_close(&m, ']');
    rn_admin_end(c, &m, 200);
}

/* NULL after answering that there is no such version. */
static const struct rn_version *find(struct rn_http_context *c, uint64_t id)
{
    const struct rn_version_list *list = &c->front->versions;
    const struct rn_version *version = rn_version_list_find(list, id);

    if (!version)
        rn_front_http_error(c, 404, "no_version",
                            "there is no version %" PRIu64 "; %zu are kept, from %" PRIu64
                            " to %" PRIu64 ": GET /v1/rules/versions lists them",
                            id, list->count, list->count != 0 ? list->items[0].id : 0,
                            list->last_id);
    return version;
}

void rn_admin_get_version(struct rn_http_context *c)
{
    struct rn_json_token number = {.kind = RN_JSON_NUMBER,
                                   .text = {c->rest.data + 1, c->rest.len - 1}};
    const struct rn_version *version;
    struct rn_members m;
    uint64_t id;

    if (!rn_json_u64(&number, &id)) {
        rn_front_http_error(c, 404, "no_version",
                            "%s is not the id of a version; GET /v1/rules/versions lists them",
                            rn_excerpt(number.text).text);
        return;
    }
    if (!(version = find(c, id)))
        return;
    m = rn_admin_begin(c);
    put_version(&m, version, c->front->versions.in_force);
    if (version->text.data)
        rn_members_text(&m, "text", rn_buf_slice(&version->text));
    else
        rn_members_null(&m, "text");
    rn_admin_end(c, &m, 200);
}

/* --- going back ----------------------------------------------------------------------------- */

void rn_admin_rollback(struct rn_http_context *c)
{
    const struct rn_version *version;
    struct rn_admin_params params;
    char name[64];

    if (!rn_admin_read(c, &params, RN_ADMIN_VERSION))
        return;
    if (!params.given) {
        rn_front_http_error(c, 400, "bad_request",
                            "\"version\" is missing: the id of one, as GET /v1/rules/versions "
                            "lists them");
        return;
    }
    if (!rn_admin_rules_are_current(c) || !(version = find(c, params.version)))
        return;
    if (!version->text.data) {
        rn_front_http_error(c, 409, "no_text",
                            "the text of version %" PRIu64 " is not kept: it was in Envoy's format "
                            "in files, or is too old; put the rules themselves",
                            params.version);
        return;
    }
    snprintf(name, sizeof name, "version %" PRIu64, params.version);
    uint64_t of = version->id;

    if (rn_admin_change_rules(c, &(struct rn_rules_change){.name = name,
                                                           .text = rn_buf_slice(&version->text),
                                                           .how = RN_VERSION_ROLLBACK,
                                                           .of = of}))
        rn_admin_log(c, "rules.rollback", RN_LOG_NUMBER("of", of),
                     RN_LOG_NUMBER("version", ration_rules_version(c->front->limiter)));
}
