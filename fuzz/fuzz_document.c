/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a file: no crash; every node lies inside the text, and every error
 * can be printed. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rules/yaml/document.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int condition)
{
    if (!condition)
        abort();
}

static void check_output(void *context, const char *text, size_t len)
{
    *(size_t *)context += len;
    for (size_t i = 0; i < len; i++)
        demand((unsigned char)text[i] >= ' ' || text[i] == '\n');
}

static void read_values(const struct rn_node *node, struct rn_report *report)
{
    struct rn_slice text;
    uint64_t number;
    uint8_t percent;
    int64_t ns;
    bool truth;

    rn_node_as_text(node, report, &text);
    rn_node_as_uint(node, report, &number);
    rn_node_as_bool(node, report, &truth);
    rn_node_as_percent(node, report, &percent);
    rn_node_as_duration(node, report, &ns);
}

/* Returns how many nodes there are. */
static size_t walk(const struct rn_node *node, unsigned depth, struct rn_report *report)
{
    static const char *const allowed[] = {"name", "key", "limit", "algorithm"};
    uint32_t count = 0;
    size_t nodes = 1;

    demand(depth <= RN_DOCUMENT_DEPTH + 1 && node->at.line > 0 && node->at.column > 0);
    demand(node->kind == RN_NODE_SCALAR ? node->text.data[node->text.len] == '\0'
                                        : node->text.data == NULL);
    read_values(node, report);
    RN_NODE_EACH(child, node) {
        demand((child->key != NULL) == (node->kind == RN_NODE_MAP));
        if (child->key != NULL)
            rn_report_unknown_key(report, child, allowed, 4);
        nodes += walk(child, depth + 1, report);
        count++;
    }
    demand(count == node->count);
    return nodes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rn_report report; /* large */
    struct rn_document document;
    size_t written = 0;

    rn_report_init(&report);
    int failed = rn_document_parse(&document, RN_SLICE("f"), (const char *)data, size, &report);
    demand((failed != 0) == (report.count[RN_ERROR] > 0));
    demand(failed != 0 || document.root != NULL);
    if (document.root != NULL)
        demand(walk(document.root, 1, &report) <= RN_DOCUMENT_NODES);
    rn_document_done(&document);
    rn_report_write(&report, check_output, &written);
    demand((report.kept_count > 0) == (written > 0));
    rn_report_done(&report);
    return 0;
}
