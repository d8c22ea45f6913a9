/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the tree of a document node by node, within limits.
 *
 * An alias becomes a copy of its anchor's node, since nodes have their own `next` and `key`. Every
 * copied node counts, which bounds the size of nested aliases.
 */
#include "rules/yaml/tree_internal.h"

#include <inttypes.h>
#include <stdlib.h>

#include <ration/error.h>

static int fail_memory(struct rn_tree *tree)
{
    rn_report_error(tree->report, (struct rn_place){.file = tree->file}, "out of memory");
    return RATION_ENOMEM;
}

/* Copies `model` into the arena, if there may be another node. */
static int add_node(struct rn_tree *tree, struct rn_node model, struct rn_place at,
                    struct rn_node **node)
{
    if (tree->nodes == RN_DOCUMENT_NODES) {
        rn_report_error(tree->report, at,
                        "more than %d values, counting what aliases stand for; split the file",
                        RN_DOCUMENT_NODES);
        return RATION_EPARSE;
    }
    tree->nodes++;
    *node = rn_arena_alloc(tree->arena, sizeof model);
    if (*node == NULL)
        return fail_memory(tree);
    **node = model;
    return 0;
}

/* --- putting nodes into place ------------------------------------------------ */

/* Adds a node to the innermost list or map, or makes it the key of the next value. */
static int attach(struct rn_tree *tree, struct rn_node *node)
{
    struct rn_tree_frame *frame = tree->depth > 0 ? &tree->frames[tree->depth - 1] : NULL;

    if (frame == NULL) {
        tree->root = node;
        return 0;
    }
    if (frame->node->kind == RN_NODE_MAP && frame->key == NULL) {
        if (node->kind != RN_NODE_SCALAR) {
            rn_report_error(
                tree->report, node->at,
                node->kind == RN_NODE_LIST
                    ? "a list cannot be a key; put text that begins with \"[\" in quotes"
                    : "a map cannot be a key; a template such as {{ value }} must be "
                      "filled in, or put in quotes");
            return RATION_EPARSE;
        }
        frame->key = node;
        frame->is_merge = !node->quoted && rn_slice_is(node->text, "<<");
        if (frame->is_merge)
            rn_report_error(tree->report, node->at,
                            "merge keys (<<) are not supported; write the keys out");
        return 0;
    }
    node->key = frame->key;
    frame->key = NULL;
    if (frame->is_merge) {
        frame->is_merge = false;
        return 0;
    }
    *(frame->last == NULL ? &frame->node->first : &frame->last->next) = node;
    frame->last = node;
    frame->node->count++;
    return 0;
}

static int fail_depth(struct rn_tree *tree, struct rn_place at)
{
    rn_report_error(tree->report, at, "lists and maps nested more than %d deep", RN_DOCUMENT_DEPTH);
    return RATION_EPARSE;
}

static int compare_keys(const void *left, const void *right)
{
    const struct rn_node *a = *(struct rn_node *const *)left, *b = *(struct rn_node *const *)right;
    int order = rn_slice_compare(a->text, b->text);

    if (order != 0)
        return order;
    if (a->at.line != b->at.line)
        return a->at.line < b->at.line ? -1 : 1;
    return (a->at.column > b->at.column) - (a->at.column < b->at.column);
}

/* --- anchors and aliases ------------------------------------------------------- */

static struct rn_tree_anchor *find_anchor(struct rn_tree *tree, struct rn_slice name)
{
    for (unsigned i = 0; i < tree->anchor_count; i++)
        if (rn_slice_equal(tree->anchors[i].name, name))
            return &tree->anchors[i];
    return NULL;
}

/* A deep copy for an alias at `at`, which stands `depth` deep. */
static int copy_node(struct rn_tree *tree, const struct rn_node *from, struct rn_place at,
                     unsigned depth, struct rn_node **copy)
{
    struct rn_node model = *from, **link;
    int failed;

    model.first = model.next = model.key = NULL;
    if (from->kind != RN_NODE_SCALAR && depth == RN_DOCUMENT_DEPTH)
        return fail_depth(tree, at);
    failed = add_node(tree, model, at, copy);
    if (failed)
        return failed;
    link = &(*copy)->first;
    RN_NODE_EACH(child, from) {
        failed = copy_node(tree, child, at, depth + 1, link);
        if (!failed && child->key != NULL)
            failed = copy_node(tree, child->key, at, depth + 1, &(*link)->key);
        if (failed)
            return failed;
        link = &(*link)->next;
    }
    return 0;
}

int rn_tree_alias(struct rn_tree *tree, struct rn_place at, struct rn_slice name)
{
    const struct rn_tree_anchor *anchor = find_anchor(tree, name);
    struct rn_node *copy;

    if (anchor == NULL) {
        rn_report_error(tree->report, at,
                        "no anchor named %s stands before this alias; put text that begins with "
                        "\"*\" in quotes",
                        rn_excerpt(name).text);
        return RATION_EPARSE;
    }
    for (unsigned i = 0; i < tree->depth; i++) {
        if (tree->frames[i].node == anchor->node) {
            rn_report_error(tree->report, at, "an alias of something that it is a part of");
            return RATION_EPARSE;
        }
    }
    int failed = copy_node(tree, anchor->node, at, tree->depth, &copy);
    if (failed)
        return failed;
    copy->at = at;
    return attach(tree, copy);
}

/* --- what the parser calls ----------------------------------------------------- */

int rn_tree_add(struct rn_tree *tree, const struct rn_node *model, struct rn_slice name)
{
    struct rn_tree_anchor *anchor;
    struct rn_node *node;
    int failed = add_node(tree, *model, model->at, &node);

    if (!failed && node->kind == RN_NODE_SCALAR) {
        node->text = rn_arena_dup(tree->arena, model->text);
        if (node->text.data == NULL)
            failed = fail_memory(tree);
    }
    if (!failed)
        failed = attach(tree, node);
    if (failed)
        return failed;
    if (name.len > 0 && (anchor = find_anchor(tree, name)) != NULL) {
        anchor->node = node; /* a name that is used again means its newest node */
    } else if (name.len > 0) {
        if (tree->anchor_count == RN_DOCUMENT_ANCHORS) {
            rn_report_error(tree->report, node->at, "more than %d anchors", RN_DOCUMENT_ANCHORS);
            return RATION_EPARSE;
        }
        name = rn_arena_dup(tree->arena, name);
        if (name.data == NULL)
            return fail_memory(tree);
        tree->anchors[tree->anchor_count++] = (struct rn_tree_anchor){name, node};
    }
    if (node->kind == RN_NODE_SCALAR)
        return 0;
    if (tree->depth == RN_DOCUMENT_DEPTH)
        return fail_depth(tree, node->at);
    tree->frames[tree->depth++] = (struct rn_tree_frame){.node = node};
    return 0;
}

/* Sorts the keys of a map: duplicates are neighbours, and the first of them was written first. */
int rn_tree_close(struct rn_tree *tree)
{
    const struct rn_node *map = tree->frames[--tree->depth].node;
    size_t count = 0, first = 0;

    if (map->kind != RN_NODE_MAP || map->count < 2)
        return 0;
    const struct rn_node **keys = malloc(map->count * sizeof *keys);
    if (keys == NULL)
        return fail_memory(tree);
    RN_NODE_EACH(value, map)
        keys[count++] = value->key;
    qsort(keys, count, sizeof *keys, compare_keys);
    for (size_t i = 1; i < count; i++) {
        if (!rn_slice_equal(keys[i]->text, keys[first]->text))
            first = i;
        else
            rn_report_error(tree->report, keys[i]->at,
                            "duplicate key %s; the first is at line %" PRIu32 ", column %" PRIu32,
                            rn_excerpt(keys[i]->text).text, keys[first]->at.line,
                            keys[first]->at.column);
    }
    free(keys);
    return 0;
}
