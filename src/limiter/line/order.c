/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A treap whose priorities are hashes of the arrival numbers. Depth is O(log n), so that recursion
 * needs little stack.
 */
#include "limiter/line/order.h"

static uint64_t priority_of(const struct rn_waiter *w)
{
    uint64_t h = (w->arrival ^ w->arrival >> 29) * UINT64_C(0x9E3779B97F4A7C15);

    return (h ^ h >> 32) * UINT64_C(0xD6E8FEB86659FD93);
}

static void add_up(struct rn_waiter *w)
{
    w->count = 1;
    w->standing = w->state == RN_WAITER_STANDS;
    w->sum = w->units;
    w->soonest_ns = w->until_ns;
    for (int side = 0; side < 2; side++) {
        const struct rn_waiter *below = side == 0 ? w->left : w->right;

        if (below) {
            w->count += below->count;
            w->standing += below->standing;
            w->sum += below->sum;
            w->soonest_ns = below->soonest_ns < w->soonest_ns ? below->soonest_ns : w->soonest_ns;
        }
    }
}

/* All before `at` to the left, the others to the right. */
static void split(struct rn_waiter *root, const struct rn_waiter *at, struct rn_waiter **left,
                  struct rn_waiter **right)
{
    if (!root) {
        *left = *right = NULL;
    } else if (rn_order_is_before(root, at->rank, at->arrival)) {
        *left = root;
        split(root->right, at, &root->right, right);
        add_up(root);
    } else {
        *right = root;
        split(root->left, at, left, &root->left);
        add_up(root);
    }
}

static struct rn_waiter *join_trees(struct rn_waiter *left, struct rn_waiter *right)
{
    if (!left || !right)
        return left ? left : right;
    if (priority_of(left) > priority_of(right)) {
        left->right = join_trees(left->right, right);
        add_up(left);
        return left;
    }
    right->left = join_trees(left, right->left);
    add_up(right);
    return right;
}

void rn_order_insert(struct rn_waiter **root, struct rn_waiter *w)
{
    struct rn_waiter *at = *root;

    if (at && priority_of(at) >= priority_of(w)) {
        rn_order_insert(rn_order_is_before(at, w->rank, w->arrival) ? &at->right : &at->left, w);
        add_up(at);
        return;
    }
    split(at, w, &w->left, &w->right);
    add_up(w);
    *root = w;
}

void rn_order_remove(struct rn_waiter **root, struct rn_waiter *w)
{
    struct rn_waiter *at = *root;

    if (at != w) {
        rn_order_remove(rn_order_is_before(at, w->rank, w->arrival) ? &at->right : &at->left, w);
        add_up(at);
        return;
    }
    *root = join_trees(w->left, w->right);
    w->left = w->right = NULL;
}

void rn_order_update(struct rn_waiter *root, struct rn_waiter *w)
{
    if (root != w)
        rn_order_update(rn_order_is_before(root, w->rank, w->arrival) ? root->right : root->left,
                        w);
    add_up(root);
}

struct rn_waiter *rn_order_first(struct rn_waiter *root)
{
    while (root && root->left)
        root = root->left;
    return root;
}

struct rn_waiter *rn_order_first_standing(struct rn_waiter *root)
{
    while (root && root->standing != 0) {
        if (root->left && root->left->standing != 0)
            root = root->left;
        else if (root->state == RN_WAITER_STANDS)
            return root;
        else
            root = root->right;
    }
    return NULL;
}

struct rn_waiter *rn_order_last(struct rn_waiter *root)
{
    while (root && root->right)
        root = root->right;
    return root;
}

struct rn_waiter *rn_order_next(struct rn_waiter *root, const struct rn_waiter *w)
{
    struct rn_waiter *next = NULL;

    while (root) {
        if (root == w || rn_order_is_before(root, w->rank, w->arrival)) {
            root = root->right;
        } else {
            next = root;
            root = root->left;
        }
    }
    return next;
}

struct rn_order_ahead rn_order_ahead(const struct rn_waiter *root, uint32_t rank, uint64_t arrival)
{
    struct rn_order_ahead ahead = {0};

    while (root) {
        if (!rn_order_is_before(root, rank, arrival)) {
            root = root->left;
            continue;
        }
        ahead.count += 1 + (root->left ? root->left->count : 0);
        ahead.units += root->units + (root->left ? root->left->sum : 0);
        root = root->right;
    }
    return ahead;
}

/* `before`: units of all to the left of this part. The estimate rises with the units: if even the
 * last of a part is in time for the one whose time is over first, all of it is. */
static struct rn_waiter *find_late(struct rn_waiter *root, uint64_t before,
                                   const struct rn_estimate *estimate)
{
    if (!root || root->standing == 0 ||
        rn_estimate_at(estimate, before + root->sum) <= root->soonest_ns)
        return NULL;
    struct rn_waiter *late = find_late(root->left, before, estimate);

    if (late)
        return late;
    before += root->units + (root->left ? root->left->sum : 0);
    if (root->state == RN_WAITER_STANDS && rn_estimate_at(estimate, before) > root->until_ns)
        return root;
    return find_late(root->right, before, estimate);
}

struct rn_waiter *rn_order_find_late(struct rn_waiter *root, const struct rn_estimate *estimate)
{
    return find_late(root, 0, estimate);
}
