/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The `metadata:` of limits as dynamic_metadata: leaves with dotted names become a tree, which is
 * written as google.protobuf.Struct or as JSON. The tree is in the reader's arena; if it does not
 * fit, the answer has no metadata.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "wire/rls_internal.h"

#define DEPTH_MAX 16
#define NUMBER_MAX 63

/* --- leaves ------------------------------------------------------------------------- */

static struct rn_slice dup(struct rn_rls_reader *reader, const char *data, size_t len)
{
    char *copy = rn_rls_take(reader, len);

    if (copy && len != 0)
        memcpy(copy, data, len);
    return (struct rn_slice){copy, len};
}

void rn_rls_keep(void *arg, const struct ration_metadata *leaf)
{
    struct rn_rls_reader *reader = arg;
    struct rn_slice key = dup(reader, leaf->key, leaf->key_len);
    struct rn_slice value = dup(reader, leaf->value, leaf->value_len);

    if (reader->leaf_count == RN_RLS_LEAVES_MAX || !key.data || !value.data)
        return;
    reader->leaves[reader->leaf_count++] =
        (struct ration_metadata){key.data, key.len, value.data, value.len, leaf->text};
}

/* --- the tree ----------------------------------------------------------------------- */

static struct rn_rls_node *child_of(struct rn_rls_reader *reader, struct rn_rls_node *node,
                                    struct rn_slice name)
{
    struct rn_rls_node **end = &node->first;

    for (; *end; end = &(*end)->next)
        if (rn_slice_equal((*end)->name, name))
            return *end;
    *end = rn_rls_take(reader, sizeof **end);
    if (!*end)
        return NULL;
    **end = (struct rn_rls_node){.name = name};
    node->count++;
    return *end;
}

/* If two limits have the same key, the first one counts. */
struct rn_rls_node *rn_rls_tree(struct rn_rls_reader *reader)
{
    struct rn_rls_node *root = reader->leaf_count != 0 ? rn_rls_take(reader, sizeof *root) : NULL;

    if (!root)
        return NULL;
    *root = (struct rn_rls_node){0};
    struct rn_rls_node *all = child_of(reader, root, RN_SLICE("metadata"));

    for (uint32_t i = 0; i < reader->leaf_count; i++) {
        const struct ration_metadata *leaf = &reader->leaves[i];
        struct rn_slice rest = {leaf->key, leaf->key_len};
        struct rn_rls_node *node = all;

        for (int depth = 1; node; depth++) {
            const char *dot = depth < DEPTH_MAX ? memchr(rest.data, '.', rest.len) : NULL;
            size_t len = dot ? (size_t)(dot - rest.data) : rest.len;

            node = child_of(reader, node, (struct rn_slice){rest.data, len});
            if (!dot || (node && node->leaf))
                break;
            rest = (struct rn_slice){dot + 1, rest.len - len - 1};
        }
        if (!node)
            return NULL;
        if (!node->leaf && !node->first)
            node->leaf = leaf;
    }
    return root;
}

/* --- the type of a leaf ------------------------------------------------------------- */

static bool read_number(struct rn_slice text, double *number)
{
    char copy[NUMBER_MAX + 1], *end;

    if (text.len == 0 || text.len > NUMBER_MAX || !strchr("+-.0123456789", text.data[0]))
        return false;
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    errno = 0;
    *number = strtod(copy, &end);
    return *end == '\0' && errno == 0 && isfinite(*number) && !memchr(copy, 'x', text.len) &&
           !memchr(copy, 'X', text.len);
}

static bool is_list(const struct rn_rls_node *node)
{
    char number[24];
    size_t at = 0;

    for (const struct rn_rls_node *child = node->first; child; child = child->next) {
        snprintf(number, sizeof number, "%zu", at++);
        if (!rn_slice_is(child->name, number))
            return false;
    }
    return true;
}

enum rn_rls_kind rn_rls_kind(const struct rn_rls_node *node, double *number)
{
    struct rn_slice value;

    if (node->first)
        return is_list(node) ? RN_RLS_LIST : RN_RLS_MAP;
    value = (struct rn_slice){node->leaf->value, node->leaf->value_len};
    if (node->leaf->text)
        return RN_RLS_TEXT;
    if (value.len == 0)
        return RN_RLS_NULL;
    if (rn_slice_is(value, "true"))
        return RN_RLS_TRUE;
    if (rn_slice_is(value, "false"))
        return RN_RLS_FALSE;
    return read_number(value, number) ? RN_RLS_NUMBER : RN_RLS_TEXT;
}
