/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads `wait`, `max_wait` and `queue` of a rule: whether requests wait in line until the limit has
 * room for them, how many, how long, and in which order.
 */
#include "rules/native/native_internal.h"

#define SIZE 100
#define SIZE_MOST 1000000
#define MAX_WAIT_NS INT64_C(5000000000)
#define MAX_WAIT_MOST_NS INT64_C(3600000000000)

static const char *const waits[] = {"return", "hold"};
static const char *const orders[] = {"priority", "arrival"};

static void read_size(struct rn_builder *builder, const struct rn_node *node, struct rn_rule *rule)
{
    uint64_t size;

    if (node->kind == RN_NODE_SCALAR && node->text.len != 0 && node->text.data[0] == '-') {
        rn_report_error(builder->report, node->at,
                        "a queue for %s requests; write a number from 1 to %d",
                        rn_excerpt(node->text).text, SIZE_MOST);
        return;
    }
    if (!rn_node_as_uint(node, builder->report, &size))
        return;
    if (size != 0 && size <= SIZE_MOST)
        rule->line_size = (uint32_t)size;
    else
        rn_report_error(builder->report, node->at,
                        "a queue for %llu requests; write a number from 1 to %d%s",
                        (unsigned long long)size, SIZE_MOST,
                        size == 0 ? ", or leave out queue if nobody may wait" : "");
}

static void read_queue(struct rn_builder *builder, const struct rn_node *map, struct rn_rule *rule)
{
    static const char *const keys[] = {"size", "max_wait", "by"};
    const struct rn_node *size = rn_node_find(map, "size"), *by = rn_node_find(map, "by");
    const struct rn_node *longest = rn_node_find(map, "max_wait");

    if (map->kind == RN_NODE_SCALAR && !rn_node_is_null(map)) {
        read_size(builder, map, rule);
        return;
    }
    if (map->kind != RN_NODE_MAP) {
        rn_report_error(builder->report, map->at,
                        "\"queue\" must be a number or a map, found %s; write for example 50, or "
                        "{size: 50, max_wait: 5s}",
                        rn_node_describe(map).text);
        return;
    }
    rn_native_map(builder, map, keys, RN_COUNT(keys));
    if (size != NULL)
        read_size(builder, size, rule);
    if (longest != NULL && rule->max_wait_ns != 0)
        rn_report_error(builder->report, longest->at,
                        "max_wait in queue and beside it; leave out one of the two");
    else if (longest != NULL)
        rn_native_duration(builder, longest, &rule->max_wait_ns);
    int order = by == NULL ? -1 : rn_native_word(builder, by, "order", orders, RN_COUNT(orders));

    rule->line_by_arrival = order == 1;
    if (order == 0 && rule->priority.attribute == RN_NO_ATTRIBUTE)
        rn_report_warning(builder->report, by->at,
                          "a queue by priority under a limit without priority: all wait in the "
                          "order of arrival; add priority, or leave out by");
}

/* The index in `waits`; -1 after an error. People write how long here, which is max_wait. */
static int read_wait(struct rn_builder *builder, const struct rn_node *node)
{
    if (node->kind == RN_NODE_SCALAR &&
        (node->text.len == 0 || node->text.data[0] < '0' || node->text.data[0] > '9'))
        return rn_native_word(builder, node, "wait", waits, RN_COUNT(waits));
    rn_report_error(builder->report, node->at,
                    "\"wait\" must be hold or return, found %s; for a longest wait write wait: "
                    "hold and max_wait: 5s",
                    rn_node_describe(node).text);
    return -1;
}

void rn_native_waiting(struct rn_builder *builder, const struct rn_node *map, struct rn_rule *rule)
{
    const struct rn_node *wait = rn_node_find(map, "wait"), *queue = rn_node_find(map, "queue");
    const struct rn_node *longest = rn_node_find(map, "max_wait");
    int word = wait == NULL ? -1 : read_wait(builder, wait);

    if (longest != NULL)
        rn_native_duration(builder, longest, &rule->max_wait_ns);
    rule->hold = word == 1 || queue != NULL;
    if (queue == NULL)
        return;
    rule->line_size = SIZE;
    if (word == 0)
        rn_report_error(builder->report, wait->at,
                        "wait: return beside queue: a request in the queue is held until its turn "
                        "has come; leave out one of the two");
    read_queue(builder, queue, rule);
}

/* Why wait, max_wait or queue of a rule has no effect, and what to do about it; NULL: it has one.
 */
static const char *find_fault(const struct rn_rule *rule, bool has_leaky, bool has_others)
{
    if (!has_leaky && !has_others && (!rule->throttle.on || rule->line_size != 0))
        return "has no effect: nothing is refused under this limit; leave it out";
    if (rule->by_outcome && rule->line_size != 0)
        return "is not for charge_on: a request that goes ahead is not charged yet, so all that "
               "wait would go ahead together; leave out one of the two";
    if (has_leaky || rule->throttle.on || (rule->hold && !rule->by_outcome))
        return NULL;
    return rule->by_outcome
               ? "has no effect: nothing waits under charge_on; leave it out, or add throttle"
               : "has no effect: nothing waits under this limit; add wait: hold";
}

/* `longest` is the node of max_wait, if there is one. */
static void bound_wait(struct rn_builder *builder, const struct rn_node *longest,
                       struct rn_rule *rule)
{
    int64_t slowed_ns = rule->throttle.max_ns; /* this delay is part of the wait */

    if (rule->max_wait_ns > MAX_WAIT_MOST_NS)
        rn_report_error(builder->report, longest->at,
                        "nobody may stand in line for longer than 1h; write a shorter max_wait");
    if (rule->max_wait_ns == 0)
        rule->max_wait_ns = slowed_ns > MAX_WAIT_NS ? slowed_ns : MAX_WAIT_NS;
}

void rn_native_waiting_finish(struct rn_builder *builder, const struct rn_node *map,
                              struct rn_rule *rule)
{
    const struct rn_node *queue = rn_node_find(map, "queue"),
                         *longest = rn_node_find(map, "max_wait");
    const struct rn_node *at = queue != NULL ? queue
                               : rule->hold  ? rn_node_find(map, "wait")
                                             : longest;
    bool has_leaky = false, has_others = false;
    const struct rn_rule_limit *each;
    const char *fault;

    if (at == NULL)
        return;
    RN_RULE_EACH_LIMIT(each, rule)
    {
        bool is_leaky = each->spec.algorithm == RATION_LEAKY_BUCKET;

        has_leaky |= is_leaky;
        has_others |= !is_leaky;
    }
    fault = find_fault(rule, has_leaky, has_others);
    if (fault != NULL) {
        rn_report_error(builder->report, at->at, "%s %s",
                        queue != NULL ? "queue"
                        : rule->hold  ? "wait: hold"
                                      : "max_wait",
                        fault);
        return;
    }
    if (rule->hold && has_others && !rule->by_outcome && rule->line_size == 0)
        rule->line_size = SIZE;
    if (longest == NULL && queue != NULL)
        longest = rn_node_find(queue, "max_wait");
    if (rule->line_size != 0)
        bound_wait(builder, longest, rule);
}

void rn_native_queue_of_envoy(struct rn_builder *builder, const struct rn_node *queue,
                              struct rn_rule *rule)
{
    rule->hold = true;
    rule->line_size = SIZE;
    read_queue(builder, queue, rule);
    bound_wait(builder, rn_node_find(queue, "max_wait"), rule);
}
