/* SPDX-License-Identifier: Apache-2.0 */
/* Files as trees, and what is said about those that are none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "document_fixture.h"

static const struct rn_node *parse(const char *text)
{
    if (parse_bytes(text, strlen(text)) != 0)
        fail_msg("%s: %s", text, report.kept[0].message);
    assert_int_equal(report.count[RN_ERROR], 0);
    assert_non_null(document.root);
    return document.root;
}

/* Like JSON without quotes, for looking at a whole tree. */
static void describe(const struct rn_node *node, FILE *out)
{
    if (node->kind == RN_NODE_SCALAR) {
        fprintf(out, node->quoted ? "'%s'" : "%s", node->text.data);
        return;
    }
    fputs(node->kind == RN_NODE_LIST ? "[" : "{", out);
    uint32_t count = 0;
    RN_NODE_EACH(child, node) {
        fputs(count++ == 0 ? "" : " ", out);
        if (node->kind == RN_NODE_MAP)
            fprintf(out, "%s:", child->key->text.data);
        else
            assert_null(child->key);
        describe(child, out);
    }
    assert_int_equal(count, node->count);
    fputs(node->kind == RN_NODE_LIST ? "]" : "}", out);
}

static void assert_tree(const char *yaml, const char *expected)
{
    char *text = NULL;
    size_t len = 0;
    const struct rn_node *root = parse(yaml);
    FILE *out = open_memstream(&text, &len);

    describe(root, out);
    fclose(out);
    assert_string_equal(text, expected);
    free(text);
}

static void assert_at(const struct rn_node *node, uint32_t line, uint32_t column)
{
    assert_int_equal(node->at.line, line);
    assert_int_equal(node->at.column, column);
    assert_int_equal(node->at.file, document.file);
}

static void a_file_becomes_a_tree(void **state)
{
    (void)state;
    assert_tree("limits:\n  - name: login\n    key: [ip, \"user\"]\n  - 5\nmode: 'x'\n",
                "{limits:[{name:login key:[ip 'user']} 5] mode:'x'}");
    assert_tree("a: |\n  x\n  y\nb:\nc: ''\nd: !!str 5\ne: !!int \"5\"\nf: ! 7\n",
                "{a:'x\ny\n' b: c:'' d:'5' e:5 f:'7'}");
    assert_tree("just text", "just text");
    assert_tree("{}", "{}");
    assert_tree("--- [1]\n...\n", "[1]");
    assert_tree("? a\n: b\n", "{a:b}");
}

static void every_node_has_its_place(void **state)
{
    const struct rn_node *root =
        parse("# rules\na: 1\nb:\n  - x\n  - \xc3\xb6: \"y\"\n    z: 2\nc:\n");
    const struct rn_node *b = rn_node_find(root, "b"), *map = b->first->next;

    (void)state;
    assert_at(root, 2, 1);
    assert_at(root->first, 2, 4);
    assert_at(root->first->key, 2, 1);
    assert_at(b, 4, 3);
    assert_at(map, 5, 5);
    assert_at(map->first, 5, 8);
    assert_at(map->first->next->key, 6, 5);
    assert_at(rn_node_find(root, "c"), 7, 3);
    assert_null(rn_node_find(root, "d"));
    assert_null(rn_node_find(b, "x"));
}

static void json_is_read_with_tabs_and_without_spaces(void **state)
{
    const char *json =
        "\t{\t\"a\":1,\n\t\t\"b\":[true,null,\"x\\u00e9\\/\\n\"],\r\n\t\"c\":{\"d\":-1.5e3}\n"
        "\t}\n\t\n";
    const struct rn_node *root;

    (void)state;
    assert_tree(json, "{a:1 b:[true null 'x\xc3\xa9/\n'] c:{d:-1.5e3}}");
    root = document.root;
    assert_at(root, 1, 2);
    assert_at(root->first, 1, 8);
    assert_at(rn_node_find(root, "b")->key, 2, 3);
    assert_at(rn_node_find(rn_node_find(root, "c"), "d"), 3, 11);
    assert_tree("\xef\xbb\xbf{\"a\":\"b\"}", "{a:'b'}");
    assert_at(document.root->first->key, 1, 2);
}

static void an_alias_is_a_copy_of_its_anchor(void **state)
{
    (void)state;
    assert_tree("a: &x {b: [1, 2]}\nc: *x\nd: &x 3\ne: [*x, *x]\n*x : 4\n",
                "{a:{b:[1 2]} c:{b:[1 2]} d:3 e:[3 3] 3:4}");
    const struct rn_node *c = rn_node_find(document.root, "c");
    assert_at(c, 2, 4);
    assert_at(c->first->key, 1, 8);
    assert_refused("a: &x [*x]", "1:8: an alias of something that it is a part of");
    assert_refused("a: *x", "1:4: no anchor named \"x\" stands before this alias; put text that "
                            "begins with \"*\" in quotes");
    assert_refused("a: **", "1:4: expected a name behind \"*\"; put text that begins with \"*\" in "
                            "quotes");
}

/* Nine levels of ten aliases each: a billion values in 400 bytes. */
static void nested_aliases_are_bounded(void **state)
{
    char text[2000];
    size_t at = (size_t)sprintf(text, "a: &a0 [x]\n");

    (void)state;
    for (int i = 1; i <= 9; i++) {
        at += (size_t)sprintf(text + at, "b%d: &a%d [", i, i);
        for (int j = 0; j < 10; j++)
            at += (size_t)sprintf(text + at, "*a%d,", i - 1);
        at += (size_t)sprintf(text + at, "]\n");
    }
    assert_int_equal(parse_bytes(text, at), RATION_EPARSE);
    assert_string_equal(
        report.kept[0].message,
        "more than 2000000 values, counting what aliases stand for; split the file");
    assert_null(document.root);
}

static void too_many_anchors_are_refused(void **state)
{
    char text[8000];
    size_t at = 0;

    (void)state;
    for (int i = 0; i < RN_DOCUMENT_ANCHORS; i++)
        at += (size_t)sprintf(text + at, "- &x%d 1\n", i);
    assert_int_equal(parse_bytes(text, at), 0);
    at += (size_t)sprintf(text + at, "- &y 1\n");
    assert_bytes_refused(text, at, "257:3: more than 256 anchors");
}

static void depth_is_bounded_also_through_aliases(void **state)
{
    char text[400] = "";

    (void)state;
    memset(text, '[', 64);
    memset(text + 64, ']', 64);
    assert_int_equal(parse_bytes(text, 128), 0);
    memset(text, '[', 65);
    memset(text + 65, ']', 65);
    assert_bytes_refused(text, 130, "1:65: lists and maps nested more than 64 deep");
    memset(text, '[', 200);
    assert_bytes_refused(text, 200, "1:65: lists and maps nested more than 64 deep");

    strcpy(text, "- &a ");
    for (int i = 0; i < 40; i++)
        strcat(text, "[");
    for (int i = 0; i < 40; i++)
        strcat(text, "]");
    strcat(text, "\n- ");
    for (int i = 0; i < 23; i++)
        strcat(text, "[");
    size_t len = strlen(text);
    sprintf(text + len, "*a]]]]]]]]]]]]]]]]]]]]]]]");
    assert_int_equal(parse_bytes(text, strlen(text)), 0);
    sprintf(text + len, "[*a]]]]]]]]]]]]]]]]]]]]]]]]");
    assert_refused(text, "2:27: lists and maps nested more than 64 deep");
}

static void duplicate_keys_are_reported_and_the_tree_is_kept(void **state)
{
    (void)state;
    assert_refused("a: 1\nb: {c: 1, \"c\": 2}\na: 3\na: 4\n",
                   "2:11: duplicate key \"c\"; the first is at line 2, column 5");
    assert_int_equal(report.kept_count, 3);
    assert_string_equal(report.kept[1].message,
                        "duplicate key \"a\"; the first is at line 1, column 1");
    assert_int_equal(report.kept[2].at.line, 4);
    assert_non_null(document.root);
    assert_tree("[{a: 1}, {a: 1}, {A: 1, a: 2, \"\": 3, aa: 4}]",
                "[{a:1} {a:1} {A:1 a:2 :3 aa:4}]");
}

static void unsupported_yaml_is_refused(void **state)
{
    (void)state;
    assert_refused("b: 1\n<<: {a: 1}\nc: 2\n",
                   "2:1: merge keys (<<) are not supported; write the keys out");
    assert_int_equal(document.root->count, 2);
    assert_tree("'<<': 1", "{<<:1}");
    assert_refused("a: 1\n---\nb: x: y\n",
                   "2:1: a second document begins here; a file holds one: split it");
    assert_non_null(document.root);
    assert_refused("a: !secret x", "1:4: the tag \"!secret\" is not supported; remove it");
    assert_refused("a: !!binary x", "1:4: the tag \"!!binary\" is not supported; remove it");
    assert_refused("a: !!map {}", "1:4: the tag \"!!map\" is not supported; remove it");
    assert_refused("a: !!str []", "1:4: the tag \"!!str\" is not supported; remove it");
    assert_refused("{[a]: 1}",
                   "1:2: a list cannot be a key; put text that begins with \"[\" in quotes");
    assert_refused("a: {{ limit }}", "1:5: a map cannot be a key; a template such as {{ value }} "
                                     "must be filled in, or put in quotes");
}

static void a_file_without_content_is_an_error(void **state)
{
    (void)state;
    assert_refused("", "0:0: the file is empty");
    assert_refused("\n# nothing\n", "0:0: the file is empty");
    assert_refused("---\n", "0:0: the file is empty");
    assert_refused("\xef\xbb\xbf", "0:0: the file is empty");
    assert_int_equal(parse_bytes(NULL, 0), RATION_EPARSE);
}

static void too_large_a_file_is_not_read(void **state)
{
    size_t len = RN_DOCUMENT_BYTES + 1;
    char *text = malloc(len);

    (void)state;
    memset(text, ' ', len);
    assert_bytes_refused(text, len, "0:0: the file is larger than 16 MiB; split it");
    text[0] = 'a';
    assert_int_equal(parse_bytes(text, len - 1), 0);
    free(text);
}

static void a_file_is_read_and_one_that_cannot_be_is_named(void **state)
{
    char path[] = "/tmp/ration-document-XXXXXX", reason[RN_FILE_PROBLEM], *bytes;
    int fd = mkstemp(path);
    size_t len;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "a: 1\n", 5), 5);
    close(fd);
    assert_true(rn_document_read(path, NULL, &bytes, &len, reason));
    assert_int_equal(len, 5);
    assert_memory_equal(bytes, "a: 1\n", 5);
    free(bytes);
    unlink(path);
    assert_false(rn_document_read(path, NULL, &bytes, &len, reason));
    assert_string_equal(reason, "No such file or directory");
    assert_false(rn_document_read("/", NULL, &bytes, &len, reason));
    assert_string_equal(reason, "it is a directory, not a regular file");
    assert_int_equal(rn_document_refuse(&document, rn_slice_of(path), rn_slice_of(reason), &report),
                     RATION_EIO);
    assert_first(path, "0:0: it is a directory, not a regular file");
    assert_null(document.root);
}

#define WITH_REPORT(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_REPORT(a_file_becomes_a_tree),
        WITH_REPORT(every_node_has_its_place),
        WITH_REPORT(json_is_read_with_tabs_and_without_spaces),
        WITH_REPORT(an_alias_is_a_copy_of_its_anchor),
        WITH_REPORT(nested_aliases_are_bounded),
        WITH_REPORT(too_many_anchors_are_refused),
        WITH_REPORT(depth_is_bounded_also_through_aliases),
        WITH_REPORT(duplicate_keys_are_reported_and_the_tree_is_kept),
        WITH_REPORT(unsupported_yaml_is_refused),
        WITH_REPORT(a_file_without_content_is_an_error),
        WITH_REPORT(too_large_a_file_is_not_read),
        WITH_REPORT(a_file_is_read_and_one_that_cannot_be_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
