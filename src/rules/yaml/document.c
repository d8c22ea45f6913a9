/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses a file into a tree with libyaml. We use libyaml's events: its documents lose
 * the start of a value and expand aliases without a bound.
 */
#include "rules/yaml/document.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yaml.h>

#include <ration/error.h>

#include "rules/yaml/syntax.h"
#include "rules/yaml/tree_internal.h"

/* --- libyaml's input ----------------------------------------------------------- */

/* JSON may be indented with tabs. libyaml accepts tabs inside brackets, but not before the first
 * or after the last bracket; read_input replaces those with spaces. */
struct input {
    struct rn_slice text;
    size_t from, to; /* a tab before `from` or after `to` becomes a space */
    size_t at;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static int read_input(void *data, unsigned char *buffer, size_t size, size_t *size_read)
{
    struct input *input = data;
    size_t left = input->text.len - input->at, count = left < size ? left : size;

    if (count > 0)
        memcpy(buffer, input->text.data + input->at, count);
    for (size_t i = 0; i < count; i++)
        if (buffer[i] == '\t' && (input->at + i < input->from || input->at + i >= input->to))
            buffer[i] = ' ';
    input->at += count;
    *size_read = count;
    return 1;
}

/* --- events ---------------------------------------------------------------------- */

static struct rn_place place_at(const struct rn_tree *tree, yaml_mark_t mark)
{
    return (struct rn_place){tree->file, (uint32_t)mark.line + 1, (uint32_t)mark.column + 1};
}

static struct rn_slice slice_of(const yaml_char_t *text)
{
    return text == NULL ? (struct rn_slice){0} : rn_slice_of((const char *)text);
}

#define STANDARD_TAG "tag:yaml.org,2002:"

static void apply_tag(struct rn_tree *tree, struct rn_node *node, const yaml_char_t *name)
{
    static const char *const texts[] = {"!", STANDARD_TAG "str"};
    static const char *const others[] = {STANDARD_TAG "int", STANDARD_TAG "float",
                                         STANDARD_TAG "bool", STANDARD_TAG "null"};
    struct rn_slice tag = slice_of(name);
    char spelled[sizeof(struct rn_excerpt)];

    if (tag.data == NULL)
        return;
    bool is_text = rn_slice_find(tag, texts, RN_COUNT(texts)) < RN_COUNT(texts);

    if (node->kind == RN_NODE_SCALAR &&
        (is_text || rn_slice_find(tag, others, RN_COUNT(others)) < RN_COUNT(others))) {
        node->quoted = is_text;
        return;
    }
    if (rn_slice_starts_with(tag, RN_SLICE(STANDARD_TAG))) {
        snprintf(spelled, sizeof spelled, "!!%s", tag.data + sizeof STANDARD_TAG - 1);
        tag = rn_slice_of(spelled);
    }
    rn_report_error(tree->report, node->at, "the tag %s is not supported; remove it",
                    rn_excerpt(tag).text);
}

static int on_event(struct rn_tree *tree, const yaml_event_t *event)
{
    struct rn_node node = {.at = place_at(tree, event->start_mark)};

    switch (event->type) {
    case YAML_SCALAR_EVENT:
        node.kind = RN_NODE_SCALAR;
        node.quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
        node.text =
            (struct rn_slice){(const char *)event->data.scalar.value, event->data.scalar.length};
        apply_tag(tree, &node, event->data.scalar.tag);
        return rn_tree_add(tree, &node, slice_of(event->data.scalar.anchor));
    case YAML_SEQUENCE_START_EVENT:
        node.kind = RN_NODE_LIST;
        apply_tag(tree, &node, event->data.sequence_start.tag);
        return rn_tree_add(tree, &node, slice_of(event->data.sequence_start.anchor));
    case YAML_MAPPING_START_EVENT:
        node.kind = RN_NODE_MAP;
        apply_tag(tree, &node, event->data.mapping_start.tag);
        return rn_tree_add(tree, &node, slice_of(event->data.mapping_start.anchor));
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return rn_tree_close(tree);
    case YAML_ALIAS_EVENT:
        return rn_tree_alias(tree, node.at, slice_of(event->data.alias.anchor));
    case YAML_DOCUMENT_START_EVENT:
        if (tree->root != NULL)
            rn_report_error(tree->report, node.at,
                            "a second document begins here; a file holds one: split it");
        return 0;
    case YAML_DOCUMENT_END_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_NO_EVENT:
        return 0;
    }
    return 0;
}

/* --- running the parser -------------------------------------------------------- */

static int fail_memory(struct rn_report *report, uint32_t file)
{
    rn_report_error(report, (struct rn_place){.file = file}, "out of memory");
    return RATION_ENOMEM;
}

/* Runs until the first document ends, or an error makes it impossible to go on. */
static int run_parser(struct rn_tree *tree, yaml_parser_t *parser)
{
    bool ended = false;
    int failed = 0;

    while (!failed && !ended) {
        yaml_event_t event;

        if (!yaml_parser_parse(parser, &event)) {
            struct rn_syntax_fault fault = {.problem = parser->problem,
                                            .context = parser->context,
                                            .at = place_at(tree, parser->problem_mark)};

            if (parser->error == YAML_MEMORY_ERROR)
                return fail_memory(tree->report, tree->file);
            if (parser->error == YAML_READER_ERROR)
                fault.at = rn_report_place(tree->report, tree->file, parser->problem_offset);
            else if (parser->context != NULL)
                fault.begun = place_at(tree, parser->context_mark);
            rn_syntax_report(tree->report, &fault);
            return RATION_EPARSE;
        }
        ended = event.type == YAML_STREAM_END_EVENT ||
                (event.type == YAML_DOCUMENT_START_EVENT && tree->root != NULL);
        failed = on_event(tree, &event);
        yaml_event_delete(&event);
    }
    return failed;
}

static int build_tree(struct rn_document *document, struct rn_report *report)
{
    struct rn_tree tree = {.arena = &document->arena, .report = report, .file = document->file};
    struct rn_slice text = report->files[document->file].text;
    struct input input = {.text = text, .to = text.len};
    size_t from = 0, to = text.len;
    yaml_parser_t parser;

    while (from < to && is_blank(text.data[from]))
        from++;
    while (to > from && is_blank(text.data[to - 1]))
        to--;
    if (from < to && (text.data[from] == '{' || text.data[from] == '[')) {
        input.from = from;
        input.to = to;
    }
    if (!yaml_parser_initialize(&parser))
        return fail_memory(report, document->file);
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input(&parser, read_input, &input);
    int failed = run_parser(&tree, &parser);
    yaml_parser_delete(&parser);
    if (!failed)
        document->root = tree.root;
    if (!failed && (tree.root == NULL || rn_node_is_null(tree.root))) {
        rn_report_error(report, (struct rn_place){.file = document->file}, "the file is empty");
        document->root = NULL;
    }
    return failed;
}

/* Adds the file to the report. */
static int add_file(struct rn_document *document, struct rn_slice name, struct rn_slice text,
                    struct rn_report *report)
{
    *document = (struct rn_document){.root = NULL};
    rn_arena_init(&document->arena);
    document->file = rn_report_add_file(report, name, text);
    return document->file == RN_REPORT_NO_FILE ? fail_memory(report, document->file) : 0;
}

int rn_document_parse(struct rn_document *document, struct rn_slice name, const char *bytes,
                      size_t len, struct rn_report *report)
{
    struct rn_slice text = {bytes, len > RN_DOCUMENT_BYTES ? 0 : len};
    uint32_t errors = report->count[RN_ERROR];
    int failed = add_file(document, name, text, report);

    if (failed)
        return failed;
    if (len > RN_DOCUMENT_BYTES) {
        rn_report_error(report, (struct rn_place){.file = document->file},
                        "the file is larger than %zu MiB; split it", RN_DOCUMENT_BYTES >> 20);
        return RATION_EPARSE;
    }
    if (!rn_syntax_check_text(report, document->file))
        return RATION_EPARSE;
    failed = build_tree(document, report);
    return failed == 0 && report->count[RN_ERROR] > errors ? RATION_EPARSE : failed;
}

void rn_document_done(struct rn_document *document)
{
    rn_arena_done(&document->arena);
    document->root = NULL;
}

/* --- files ------------------------------------------------------------------------ */

bool rn_document_read(const char *path, const char *folder, char **bytes, size_t *len,
                      char reason[RN_FILE_PROBLEM])
{
    int fd = folder ? rn_file_open_inside(path, folder, reason) : rn_file_open(path, reason);
    size_t room = 0, used = 0;
    char *buffer = NULL;
    ssize_t got = 1;
    int error = 0;

    if (fd < 0)
        return false;
    while (error == 0 && got != 0 && used <= RN_DOCUMENT_BYTES) { /* or one byte more: too large */
        if (used == room) {
            room = room == 0 ? (size_t)64 << 10 : room * 2;
            char *larger = realloc(buffer, room);

            if (larger == NULL) {
                error = ENOMEM;
                break;
            }
            buffer = larger;
        }
        got = read(fd, buffer + used, room - used);
        if (got < 0 && errno != EINTR)
            error = errno;
        used += got > 0 ? (size_t)got : 0;
    }
    close(fd);
    if (error != 0) {
        free(buffer);
        snprintf(reason, RN_FILE_PROBLEM, "%s", strerror(error));
        return false;
    }
    *bytes = buffer;
    *len = used;
    return true;
}

int rn_document_refuse(struct rn_document *document, struct rn_slice name, struct rn_slice problem,
                       struct rn_report *report)
{
    int failed = add_file(document, name, (struct rn_slice){0}, report);

    if (failed)
        return failed;
    rn_report_error(report, (struct rn_place){.file = document->file}, "%.*s", (int)problem.len,
                    problem.data);
    return RATION_EIO;
}
