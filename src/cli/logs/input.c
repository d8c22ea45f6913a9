/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/logs/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/logs/format.h"
#include "cli/output/output.h"
#include "rules/report/report.h"

#define BUFFER_BYTES (512u << 10)
#define RAW_BYTES (128u << 10)

static bool complain(struct rn_input *input, const char *problem)
{
    snprintf(input->problem, sizeof input->problem, "%s", problem);
    input->finished = true;
    return false;
}

/* Reads bytes of the file. 0: its end. */
static size_t read_some(struct rn_input *input, char *to, size_t room)
{
    ssize_t got;

    do
        got = read(input->fd, to, room);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        complain(input, strerror(errno));
    input->read += got > 0 ? (size_t)got : 0;
    return got > 0 ? (size_t)got : 0;
}

/* Unpacks at least a byte into the buffer. */
static bool unpack_some(struct rn_input *input)
{
    char *out = input->buffer + input->end, *out_end = input->buffer + BUFFER_BYTES;

    while (out == input->buffer + input->end) {
        const char *problem;
        bool at_end = false;

        if (input->raw_left.len == 0) {
            input->raw_left.data = input->raw;
            input->raw_left.len = read_some(input, input->raw, RAW_BYTES);
            at_end = input->raw_left.len == 0;
        }
        problem =
            input->unpack.run(input->unpack.state, &input->raw_left, &out, out_end, &input->whole);
        if (problem != NULL) {
            input->end = (size_t)(out - input->buffer); /* what came before */
            return complain(input, problem);
        }
        if (at_end && out == input->buffer + input->end)
            return input->whole || input->problem[0] != '\0'
                       ? false
                       : complain(input, "ends in the middle of compressed data");
    }
    input->end = (size_t)(out - input->buffer);
    return true;
}

/* More bytes into the buffer, behind what has not been handed out. False: there are no more. */
static bool fill(struct rn_input *input)
{
    size_t got;

    if (input->finished)
        return false;
    if (input->at > 0) {
        memmove(input->buffer, input->buffer + input->at, input->end - input->at);
        input->end -= input->at;
        input->at = 0;
    }
    if (input->packed) {
        input->finished = !unpack_some(input);
        return !input->finished;
    }
    got = read_some(input, input->buffer + input->end, BUFFER_BYTES - input->end);
    input->end += got;
    input->finished = got == 0;
    return got != 0;
}

/* A pipe may bring the first bytes one by one. */
static void fill_at_least(struct rn_input *input, size_t bytes)
{
    while (input->end < bytes && fill(input))
        ;
}

/* What else logs come in, and what makes plain text of it. */
static bool complain_of_packing(struct rn_input *input)
{
    static const struct {
        const char *bytes, *name, *command;
        size_t len, at;
    } others[] = {
        {"BZh", "compressed by bzip2", "bzip2 -dc", 3, 0},
        {"\xfd"
         "7zXZ",
         "compressed by xz", "xz -dc", 5, 0},
        {"\x04\x22\x4d\x18", "compressed by lz4", "lz4 -dc", 4, 0},
        {"\x1f\x9d", "compressed by compress", "zcat", 2, 0},
        {"PK\x03\x04", "a zip archive", "unzip -p", 4, 0},
        {"ustar", "a tar archive", "tar -xOf", 5, 257},
    };

    for (size_t i = 0; i < RN_COUNT(others); i++)
        if (input->end >= others[i].at + others[i].len &&
            memcmp(input->buffer + others[i].at, others[i].bytes, others[i].len) == 0) {
            snprintf(input->problem, sizeof input->problem,
                     "it is %s, which is not read; write for example %s FILE | ration ... -",
                     others[i].name, others[i].command);
            return false;
        }
    return true;
}

/* Whether the first bytes are those of a compressed file; then what has been read is that. */
static bool open_packed(struct rn_input *input)
{
    static const char gzip[] = "\x1f\x8b", zstd[] = "\x28\xb5\x2f\xfd";
    bool is_gzip = input->end >= 2 && memcmp(input->buffer, gzip, 2) == 0;
    bool is_zstd = input->end >= 4 && memcmp(input->buffer, zstd, 4) == 0;

    if (!is_gzip && !is_zstd)
        return true;
    input->packed = true;
    input->raw = malloc(BUFFER_BYTES);
    if (input->raw == NULL)
        return complain(input, "out of memory");
    memcpy(input->raw, input->buffer, input->end);
    input->raw_left = (struct rn_slice){input->raw, input->end};
    input->end = 0;
    if (!(is_gzip ? rn_input_gzip : rn_input_zstd)(&input->unpack, input->problem))
        return false;
    fill(input);
    return true;
}

/* The mark of UTF-8 that editors and spreadsheets put in front of a text. */
static void skip_mark(struct rn_input *input)
{
    fill_at_least(input, 3);
    if (input->end >= 3 && memcmp(input->buffer, "\xef\xbb\xbf", 3) == 0)
        input->at = 3;
}

bool rn_input_open(struct rn_input *input, const char *path)
{
    struct stat status;
    bool is_stdin = strcmp(path, "-") == 0;
    struct rn_excerpt name = rn_excerpt(rn_slice_of(is_stdin ? "standard input" : path));

    *input = (struct rn_input){.fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)};
    if (input->fd < 0 || fstat(input->fd, &status) != 0)
        return rn_output_error("%s cannot be opened: %s", name.text, strerror(errno));
    if (S_ISDIR(status.st_mode))
        return rn_output_error("%s is a directory; give the files in it", name.text);
    input->size = S_ISREG(status.st_mode) ? (uint64_t)status.st_size : 0;
    input->buffer = malloc(BUFFER_BYTES);
    if (input->buffer == NULL)
        return rn_output_error("out of memory");
    fill_at_least(input, 4);
    if (!open_packed(input) || !complain_of_packing(input))
        return rn_output_error("%s: %s", name.text, input->problem);
    skip_mark(input);
    if (input->problem[0] != '\0' && input->end == 0)
        return rn_output_error("%s cannot be read: %s", name.text, input->problem);
    return true;
}

void rn_input_close(struct rn_input *input)
{
    if (input->unpack.free != NULL)
        input->unpack.free(input->unpack.state);
    if (input->fd > STDIN_FILENO)
        close(input->fd);
    free(input->buffer);
    free(input->raw);
    input->buffer = input->raw = NULL;
    input->unpack.free = NULL;
    input->fd = -1;
}

struct rn_slice rn_input_peek(const struct rn_input *input)
{
    return (struct rn_slice){input->buffer + input->at, input->end - input->at};
}

/* The rest of a line that is too long. */
static void skip_line(struct rn_input *input)
{
    for (;;) {
        char *from = input->buffer + input->at;
        char *stop = memchr(from, '\n', input->end - input->at);

        if (stop != NULL) {
            input->at = (size_t)(stop + 1 - input->buffer);
            return;
        }
        input->at = input->end;
        if (!fill(input))
            return;
    }
}

bool rn_input_next(struct rn_input *input, struct rn_slice *line)
{
    char *from, *stop;

    if (input->skips)
        skip_line(input);
    input->skips = false;
    for (size_t seen = 0;;) {
        from = input->buffer + input->at;
        stop = memchr(from + seen, '\n', input->end - input->at - seen);
        seen = input->end - input->at;
        if (stop != NULL || seen > RN_LOGS_LINE_MAX || !fill(input))
            break;
    }
    from = input->buffer + input->at;
    if (stop == NULL && input->at == input->end)
        return false;
    input->line++;
    *line = (struct rn_slice){from, stop != NULL ? (size_t)(stop - from) : input->end - input->at};
    input->at += line->len + (stop != NULL);
    if (line->len > RN_LOGS_LINE_MAX) {
        line->len = RN_LOGS_LINE_MAX + 1;
        input->skips = stop == NULL; /* later: the line that is handed out must stay */
    }
    while (line->len > 0 && line->data[line->len - 1] == '\r')
        line->len--;
    return true;
}
