/* SPDX-License-Identifier: Apache-2.0 */
/* `tokens:` in the section `server:`: who may use the admin port, by name. */
#include "rules/native/native_internal.h"

#define NAME_MAX_BYTES 64

/* Names stand in log lines and in AUTH. */
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

void rn_native_tokens(struct rn_builder *builder, const struct rn_node *node)
{
    if (rn_node_expect(node, RN_NODE_MAP, builder->report))
        RN_NODE_EACH(value, node)
            read_token(builder, value);
}
