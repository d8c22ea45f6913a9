/* SPDX-License-Identifier: Apache-2.0 */
/* The journal: what was acknowledged is there, what was not completed is cut off,
 * what is damaged is left out, what is not ours is left alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/journal.h"

#define ROOM 64

/* What a reader has seen: kinds and texts, in order. */
struct seen {
    unsigned count, restarts;
    uint64_t sequence[ROOM];
    uint32_t kind[ROOM];
    char text[ROOM][32];
    int fail_with;
};

static void restart(void *arg)
{
    struct seen *s = arg;

    s->restarts++;
    s->count = 0;
}

static int see(void *arg, const struct rn_record *record)
{
    struct seen *s = arg;

    if (s->fail_with != 0)
        return s->fail_with;
    assert_true(s->count < ROOM && record->payload.len < sizeof s->text[0]);
    s->sequence[s->count] = record->sequence;
    s->kind[s->count] = record->kind;
    memcpy(s->text[s->count], record->payload.data, record->payload.len);
    s->text[s->count++][record->payload.len] = '\0';
    return 0;
}

static struct rn_journal_reader reader_of(struct seen *s)
{
    return (struct rn_journal_reader){restart, see, s};
}

static const char *fresh_path(void)
{
    static char path[64];

    snprintf(path, sizeof path, "/tmp/ration-journal-%ld", (long)getpid());
    unlink(path);
    return path;
}

static struct rn_journal open_journal(const char *path)
{
    struct rn_journal j;

    assert_int_equal(rn_journal_init(&j, path, "overrides and bans"), 0);
    return j;
}

static int try_put(struct rn_journal *j, struct seen *s, const char *text,
                   struct ration_error *error)
{
    struct rn_journal_reader reader = reader_of(s);
    int code = rn_journal_lock(j, &reader, error);

    if (code == 0) {
        code = rn_journal_write(j, &(struct rn_record){7, j->sequence + 1, rn_slice_of(text)}, 1,
                                error);
        rn_journal_unlock(j);
    }
    return code;
}

static void put(struct rn_journal *j, struct seen *s, const char *text)
{
    struct ration_error error;

    if (try_put(j, s, text, &error) != 0)
        fail_msg("%s", error.text);
}

static int read_new(struct rn_journal *j, struct seen *s, struct ration_error *error)
{
    struct rn_journal_reader reader = reader_of(s);

    return rn_journal_read(j, &reader, error);
}

static char *slurp(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    char *bytes = malloc(1 << 16);

    assert_non_null(f);
    *len = fread(bytes, 1, 1 << 16, f);
    fclose(f);
    return bytes;
}

static void spill(const char *path, const char *bytes, size_t len)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, len, f), len);
    fclose(f);
}

/* Three records: "one", "two", "three". */
static char *three_records(const char *path, size_t *len)
{
    struct rn_journal j = open_journal(path);
    struct seen s = {0};

    put(&j, &s, "one");
    put(&j, &s, "two");
    put(&j, &s, "three");
    rn_journal_done(&j);
    return slurp(path, len);
}

static void what_is_written_is_read_by_others_once(void **state)
{
    const char *path = fresh_path();
    struct rn_journal a = open_journal(path), b = open_journal(path);
    struct seen sa = {0}, sb = {0};
    struct ration_error error;
    struct stat st;

    (void)state;
    assert_int_equal(read_new(&b, &sb, &error), 0); /* no file: empty */
    assert_true(rn_journal_is_current(&b));
    put(&a, &sa, "one");
    assert_false(rn_journal_is_current(&b));
    assert_true(rn_journal_is_current(&a));
    assert_int_equal(read_new(&b, &sb, &error), 0);
    assert_string_equal(error.text, "");
    put(&b, &sb, "two");
    put(&a, &sa, "three");
    assert_int_equal(read_new(&b, &sb, &error), 0);
    assert_int_equal(read_new(&b, &sb, &error), 0);
    assert_int_equal(sb.count, 2); /* not its own */
    assert_string_equal(sb.text[0], "one");
    assert_string_equal(sb.text[1], "three");
    assert_int_equal(sb.kind[0], 7);
    assert_int_equal(sb.sequence[0], 1);
    assert_int_equal(sb.sequence[1], 3);
    assert_int_equal(sa.count, 1); /* b's, read before its second write */
    assert_int_equal(sb.restarts, 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0660);
    rn_journal_done(&a);
    rn_journal_done(&b);
    unlink(path);
}

static void a_journal_cut_at_any_byte_keeps_what_was_complete(void **state)
{
    const char *path = fresh_path();
    size_t len;
    char *bytes = three_records(path, &len);
    /* Where the records end. */
    size_t first = 32 + 24 + 3, second = first + 24 + 3;

    (void)state;
    assert_int_equal(len, second + 24 + 5);
    for (size_t cut = 0; cut <= len; cut++) {
        unsigned whole = cut >= len ? 3 : cut >= second ? 2 : cut >= first;
        bool clean = cut == 0 || cut == 32 || cut == first || cut == second || cut == len;
        struct rn_journal j = open_journal(path), again = open_journal(path);
        struct seen s = {0}, t = {0};
        struct ration_error error;

        spill(path, bytes, cut);
        assert_int_equal(read_new(&j, &s, &error), 0);
        assert_int_equal(s.count, whole);
        char expected[256] = "";

        if (cut == 0)
            snprintf(
                expected, sizeof expected,
                "\"%s\": an empty file; the overrides and bans that were in it do not hold any "
                "more",
                path);
        if (!clean)
            snprintf(expected, sizeof expected,
                     "\"%s\": its last %zu bytes, from byte %zu on, are no complete record and "
                     "were left out; a crash, or damage: see which of the overrides and bans are "
                     "missing",
                     path,
                     cut - (whole == 2 ? second
                            : whole    ? first
                            : cut < 32 ? 0
                                       : 32),
                     whole == 2 ? second
                     : whole    ? first
                     : cut < 32 ? 0
                                : (size_t)32);
        assert_string_equal(error.text, expected);
        /* The next write cuts the rest off, and says so. */
        assert_int_equal(try_put(&j, &s, "four", &error), 0);
        assert_true((strstr(error.text, "cut off") != NULL) == !clean);
        assert_int_equal(read_new(&again, &t, &error), 0);
        assert_string_equal(error.text, "");
        assert_int_equal(t.count, whole + 1);
        assert_string_equal(t.text[whole], "four");
        assert_int_equal(t.sequence[whole], whole + 1);
        rn_journal_done(&j);
        rn_journal_done(&again);
    }
    free(bytes);
    unlink(path);
}

static void a_flipped_bit_costs_one_record_at_most(void **state)
{
    static const char *const texts[] = {"one", "two", "three"};
    const char *path = fresh_path();
    size_t len;
    char *bytes = three_records(path, &len);

    (void)state;
    for (size_t at = 0; at < len; at++) {
        struct rn_journal j = open_journal(path);
        struct seen s = {0};
        struct ration_error error;
        int code;

        bytes[at] ^= (char)(1 << at % 8);
        spill(path, bytes, len);
        bytes[at] ^= (char)(1 << at % 8);
        code = read_new(&j, &s, &error);
        if (at < 32) {
            assert_true(code == RATION_EFOREIGN || code == RATION_EVERSION || code == RATION_ETORN);
            assert_non_null(strstr(error.text, "left alone"));
            assert_int_equal(s.count, 0);
        } else {
            assert_int_equal(code, 0);
            assert_int_equal(s.count, 2);
            for (unsigned i = 0; i < s.count; i++)
                assert_string_equal(s.text[i], texts[s.sequence[i] - 1]);
            assert_non_null(strstr(error.text, at < 32 + 2 * 27 ? "damaged bytes were skipped"
                                                                : "were left out"));
            assert_non_null(strstr(error.text, at < 32 + 27       ? "from byte 32 on"
                                               : at < 32 + 2 * 27 ? "from byte 59 on"
                                                                  : "from byte 86 on"));
        }
        rn_journal_done(&j);
    }
    free(bytes);
    unlink(path);
}

static void files_of_others_are_refused_and_left_alone(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        int code;
        const char *says;
    } files[] = {
        {"#!/bin/sh\necho these are forty bytes of something else\n", 40, RATION_EFOREIGN,
         "not a file of overrides and bans; it was left alone"},
        {"x", 1, RATION_EFOREIGN, "not a file of overrides and bans"},
        {"rnclient\2\0\0\0\40\0\0\0________________", 32, RATION_EVERSION,
         "version 2 where this library reads 1; it was left alone"},
        {"rnclient\1\0\0\0\40\0\0\0________________", 32, RATION_ETORN, "header is damaged"},
    };
    const char *path = fresh_path();

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct rn_journal j = open_journal(path);
        struct seen s = {0};
        struct ration_error error;
        size_t len;

        spill(path, files[i].bytes, files[i].len);
        assert_int_equal(read_new(&j, &s, &error), files[i].code);
        assert_non_null(strstr(error.text, files[i].says));
        assert_non_null(strstr(error.text, path));
        assert_true(rn_journal_is_current(&j)); /* said once */
        assert_int_equal(try_put(&j, &s, "mine", &error), files[i].code);
        char *after = slurp(path, &len);

        assert_int_equal(len, files[i].len);
        assert_memory_equal(after, files[i].bytes, len);
        free(after);
        /* Moved away, it is out of the way. */
        unlink(path);
        put(&j, &s, "mine");
        unlink(path);
        rn_journal_done(&j);
    }
}

static void what_is_no_file_is_refused(void **state)
{
    const char *path = fresh_path();
    struct rn_journal j = open_journal(path);
    struct seen s = {0};
    struct ration_error error;

    (void)state;
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(read_new(&j, &s, &error), RATION_EFOREIGN);
    assert_non_null(strstr(error.text, "not a regular file"));
    unlink(path);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    assert_int_equal(read_new(&j, &s, &error), RATION_EIO);
    unlink(path);
    rn_journal_done(&j);
}

/* --- replacing ------------------------------------------------------------------------------ */

struct few {
    unsigned at;
};

static bool next_even(void *arg, struct rn_record *record)
{
    struct few *f = arg;

    f->at += 2;
    *record = (struct rn_record){7, f->at, RN_SLICE("kept")};
    return f->at <= 4;
}

static void a_rewritten_journal_is_read_anew_and_counts_on(void **state)
{
    const char *path = fresh_path();
    struct rn_journal a = open_journal(path), b = open_journal(path), c = open_journal(path);
    struct seen sa = {0}, sb = {0}, sc = {0};
    struct rn_journal_reader reader = reader_of(&sa);
    struct ration_error error;

    (void)state;
    for (unsigned i = 0; i < 6; i++)
        put(&a, &sa, "text");
    assert_int_equal(read_new(&b, &sb, &error), 0);
    assert_int_equal(sb.count, 6);
    assert_int_equal(rn_journal_lock(&a, &reader, &error), 0);
    assert_int_equal(rn_journal_rewrite(&a, next_even, &(struct few){0}, &error), 0);
    assert_int_equal(a.fd, -1);
    assert_false(rn_journal_is_current(&b));
    assert_int_equal(read_new(&b, &sb, &error), 0);
    assert_int_equal(sb.restarts, 1);
    assert_int_equal(sb.count, 3); /* and a mark: numbers go on behind it */
    assert_int_equal(sb.kind[2], RN_RECORD_MARK);
    assert_int_equal(sb.sequence[2], 6);
    put(&c, &sc, "next");
    assert_int_equal(c.sequence, 7);
    assert_int_equal(sc.count, 3);
    /* The process that rewrote the file need not read it again. */
    sa.count = sa.restarts = 0;
    assert_int_equal(read_new(&a, &sa, &error), 0);
    assert_int_equal(sa.restarts, 0);
    assert_int_equal(sa.count, 1);
    rn_journal_done(&a);
    rn_journal_done(&b);
    rn_journal_done(&c);
    unlink(path);
}

static void a_journal_that_is_gone_is_empty(void **state)
{
    const char *path = fresh_path();
    struct rn_journal j = open_journal(path);
    struct seen s = {0};
    struct ration_error error;

    (void)state;
    put(&j, &s, "one");
    unlink(path);
    assert_false(rn_journal_is_current(&j));
    assert_int_equal(read_new(&j, &s, &error), 0);
    assert_int_equal(s.restarts, 1);
    put(&j, &s, "two");
    assert_int_equal(j.sequence, 2);
    rn_journal_done(&j);
    unlink(path);
}

static void a_reader_that_fails_reads_all_again(void **state)
{
    const char *path = fresh_path();
    size_t len;
    struct rn_journal j = open_journal(path);
    struct seen s = {.fail_with = RATION_ENOMEM};
    struct ration_error error;

    (void)state;
    free(three_records(path, &len));
    assert_int_equal(read_new(&j, &s, &error), RATION_ENOMEM);
    s.fail_with = 0;
    assert_int_equal(read_new(&j, &s, &error), 0);
    assert_int_equal(s.count, 3);
    rn_journal_done(&j);
    unlink(path);
}

/* A payload that looks like a record is none, also when what is before it is
 * damaged: it would have to know the id. */
static void a_payload_does_not_pass_for_a_record(void **state)
{
    struct rn_buf forged = {0}, bytes = {0};
    struct rn_journal_scan scan = {.id = 42};
    struct seen s = {0};

    (void)state;
    rn_journal_put_record(&forged, 43, &(struct rn_record){1, 9, RN_SLICE("f")});
    rn_journal_put_record(&bytes, 42, &(struct rn_record){1, 1, rn_buf_slice(&forged)});
    bytes.data[0] ^= 1;
    assert_int_equal(rn_journal_scan(&scan, bytes.data, bytes.len, see, &s), 0);
    assert_int_equal(s.count, 0);
    assert_int_equal(scan.end, 0);
    rn_buf_done(&forged);
    rn_buf_done(&bytes);
}

static void writers_take_turns(void **state)
{
    const char *path = fresh_path();
    struct seen s = {0};
    struct ration_error error;
    struct rn_journal j = open_journal(path);

    (void)state;
    for (unsigned p = 0; p < 3; p++) {
        if (fork() != 0)
            continue;
        struct rn_journal mine = open_journal(path);
        struct seen t = {0};
        int code = 0;

        for (unsigned i = 0; i < 10 && code == 0; i++)
            code = try_put(&mine, &t, "x", &error);
        _exit(code != 0);
    }
    for (unsigned p = 0; p < 3; p++) {
        int status;

        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    assert_int_equal(read_new(&j, &s, &error), 0);
    assert_int_equal(s.count, 30);
    for (unsigned i = 0; i < 30; i++)
        assert_int_equal(s.sequence[i], i + 1);
    rn_journal_done(&j);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_by_others_once),
        cmocka_unit_test(a_journal_cut_at_any_byte_keeps_what_was_complete),
        cmocka_unit_test(a_flipped_bit_costs_one_record_at_most),
        cmocka_unit_test(files_of_others_are_refused_and_left_alone),
        cmocka_unit_test(what_is_no_file_is_refused),
        cmocka_unit_test(a_rewritten_journal_is_read_anew_and_counts_on),
        cmocka_unit_test(a_journal_that_is_gone_is_empty),
        cmocka_unit_test(a_reader_that_fails_reads_all_again),
        cmocka_unit_test(a_payload_does_not_pass_for_a_record),
        cmocka_unit_test(writers_take_turns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
