/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the section `server:`: settings of rationd, which are kept as text for rationd to parse,
 * and `tokens:`, which name the users of the admin port.
 */
#include <string.h>

#include "rules/native/native_internal.h"

/* --- tokens ------------------------------------------------------------------------ */

#define NAME_MAX_BYTES 64

/* Names appear in log lines and in AUTH. */
static bool check_name(struct rn_builder *builder, const struct rn_node *key)
{
    const struct rn_token_setting *tokens = builder->tokens.items;
    bool good = key->text.len > 0 && key->text.len <= NAME_MAX_BYTES;

    for (size_t i = 0; good && i < key->text.len; i++) {
        char c = key->text.data[i];

        good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '-' || c == '_' || c == '.';
    }
    if (!good)
        rn_report_error(builder->report, key->at,
                        "%s cannot name a token; write up to %d letters, digits, '-', '_' or '.'",
                        rn_excerpt(key->text).text, NAME_MAX_BYTES);
    if (rn_slice_is(key->text, "default") || rn_slice_is(key->text, "admin")) {
        rn_report_error(
            builder->report, key->at, "%s cannot name a token: %s", rn_excerpt(key->text).text,
            rn_slice_is(key->text, "admin") ? "admin is the one of admin_token"
                                            : "Redis clients send it when they have no name");
        good = false;
    }
    for (uint32_t i = 0; good && i < builder->tokens.count; i++) {
        if (rn_slice_equal(tokens[i].name, key->text)) {
            rn_report_error(builder->report, key->at,
                            "token %s is given already, at %.*s:%u; keep one of them",
                            rn_excerpt(key->text).text, (int)tokens[i].file.len,
                            tokens[i].file.data, tokens[i].line);
            good = false;
        }
    }
    return good;
}

/* A text that is not empty, in the arena; data NULL after reporting. */
static struct rn_slice read_text(struct rn_builder *builder, const struct rn_node *node)
{
    struct rn_slice text;

    if (!rn_node_as_text(node, builder->report, &text))
        return (struct rn_slice){0};
    if (text.len > 0)
        return rn_builder_dup(builder, text);
    rn_report_error(builder->report, node->at, "%s must not be empty",
                    rn_excerpt(node->key->text).text);
    return (struct rn_slice){0};
}

static void read_token(struct rn_builder *builder, const struct rn_node *node)
{
    static const char *const keys[] = {"token", "token_file", "scope"};
    static const char *const scopes[] = {"metrics", "read", "admin"};
    struct rn_token_setting read = {
        .file = builder->file, .line = node->key->at.line, .column = node->key->at.column};

    if (node->kind != RN_NODE_MAP) /* without its text, which may be the token */
        rn_report_error(builder->report, node->at,
                        "token %s: expected a map such as {token_file: FILE, scope: read}",
                        rn_excerpt(node->key->text).text);
    if (!check_name(builder, node->key) || node->kind != RN_NODE_MAP ||
        !rn_native_map(builder, node, keys, RN_COUNT(keys)))
        return;
    const struct rn_node *text = rn_node_find(node, "token"),
                         *path = rn_node_find(node, "token_file"),
                         *scope = rn_node_find(node, "scope");
    int word = scope ? rn_native_word(builder, scope, "scope", scopes, RN_COUNT(scopes)) : -1;

    if (!scope)
        rn_report_error(builder->report, node->at,
                        "scope is missing; add scope: metrics, read or admin");
    if (!text == !path)
        rn_report_error(builder->report, node->at,
                        "token %s needs either token_file: FILE or token: TEXT",
                        rn_excerpt(node->key->text).text);
    if (word < 0 || !text == !path)
        return;
    read.name = rn_builder_dup(builder, node->key->text);
    read.scope = (enum rn_token_scope)(RN_SCOPE_METRICS + word);
    *(text ? &read.text : &read.path) = read_text(builder, text ? text : path);

    struct rn_token_setting *token =
        rn_builder_push(builder, &builder->tokens, sizeof(struct rn_token_setting));

    if (token)
        *token = read;
}

/* --- settings ---------------------------------------------------------------------- */

/* A list of listeners, as a text with commas between them. */
static bool read_listeners(struct rn_builder *builder, const struct rn_node *node,
                           struct rn_slice *value)
{
    static const char *const names[] = {"http", "grpc", "resp", "admin"};
    char *text = rn_builder_alloc(builder, node->count + 1, sizeof "admin,");
    size_t len = 0;

    if (text == NULL)
        return false;
    RN_NODE_EACH(item, node) {
        int name = rn_native_word(builder, item, "listener", names, RN_COUNT(names));

        if (name < 0)
            return false;
        if (len > 0)
            text[len++] = ',';
        memcpy(text + len, names[name], strlen(names[name]));
        len += strlen(names[name]);
    }
    *value = (struct rn_slice){text, len};
    return true;
}

static void read_setting(struct rn_builder *builder, const struct rn_node *node)
{
    const struct rn_setting *settings = builder->settings.items;
    bool is_list = rn_slice_is(node->key->text, "tls") && node->kind == RN_NODE_LIST;
    struct rn_setting *setting;
    struct rn_slice value;

    if (is_list ? !read_listeners(builder, node, &value)
                : !rn_node_as_text(node, builder->report, &value))
        return;
    for (uint32_t i = 0; i < builder->settings.count; i++) {
        if (rn_slice_equal(settings[i].name, node->key->text)) {
            rn_report_error(builder->report, node->key->at,
                            "%s is given already, at %.*s:%u; keep one of them",
                            rn_excerpt(node->key->text).text, (int)settings[i].file.len,
                            settings[i].file.data, settings[i].line);
            return;
        }
    }
    setting = rn_builder_setting(builder);
    if (setting == NULL)
        return;
    *setting = (struct rn_setting){.name = rn_builder_dup(builder, node->key->text),
                                   .value = rn_builder_dup(builder, value),
                                   .file = builder->file,
                                   .line = node->at.line,
                                   .column = node->at.column};
}

static const char *const server_keys[] = {"http",
                                          "resp",
                                          "grpc",
                                          "admin",
                                          "state",
                                          "memory",
                                          "usage_memory",
                                          "workers",
                                          "redis",
                                          "redis_file",
                                          "admin_token",
                                          "admin_token_file",
                                          "tokens",
                                          "connections",
                                          "input_memory",
                                          "waiting",
                                          "trust_local",
                                          "per_address",
                                          "tls_cert",
                                          "tls_key",
                                          "tls_client_ca",
                                          "tls_min",
                                          "tls",
                                          "grpc_max_age",
                                          "rls_headers",
                                          "rls_metadata",
                                          "rls_quota_mode",
                                          "redis_deadline",
                                          "redis_nodes",
                                          "redis_key_secret",
                                          "redis_key_secret_file",
                                          "redis_changes",
                                          "publish",
                                          "log_keys",
                                          "log_format",
                                          "log_level"};

void rn_native_server(struct rn_builder *builder, const struct rn_node *node)
{
    if (!rn_native_map(builder, node, server_keys, RN_COUNT(server_keys)))
        return;
    RN_NODE_EACH(value, node) {
        if (!rn_slice_is(value->key->text, "tokens")) {
            if (rn_slice_find(value->key->text, server_keys, RN_COUNT(server_keys)) <
                RN_COUNT(server_keys))
                read_setting(builder, value);
        } else if (rn_node_expect(value, RN_NODE_MAP, builder->report)) {
            RN_NODE_EACH(token, value)
                read_token(builder, token);
        }
    }
}
