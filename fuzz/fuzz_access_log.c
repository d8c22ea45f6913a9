/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of access logs. The first byte says which format; after that come lines, the first of them
 * the titles if the format has some. Values must lie in their line, and a format that is found by
 * the first lines must be able to read one of them.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/logs/format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct rn_logs_plan plan = {
    .attributes = {RN_SLICE_INIT("ip"), RN_SLICE_INIT("method"), RN_SLICE_INIT("path"),
                   RN_SLICE_INIT("host"), RN_SLICE_INIT("user"), RN_SLICE_INIT("header.x-a"),
                   RN_SLICE_INIT("extra"), RN_SLICE_INIT("within")},
    .attribute_count = 8,
    .maps = {{RN_SLICE_INIT("extra"), RN_SLICE_INIT("extra3")},
             {RN_SLICE_INIT("within"), RN_SLICE_INIT("a.b.c")}},
    .map_count = 2,
};

static void demand(bool good)
{
    if (!good)
        abort();
}

static void check_entry(const struct rn_logs_entry *e, struct rn_slice line)
{
    demand(e->status == 0 || (e->status >= 100 && e->status <= 599));
    demand(e->duration_ns >= -1);
    for (uint32_t i = 0; i < plan.attribute_count; i++) {
        struct rn_slice value = e->attributes[i];
        bool is_constant = rn_slice_is(value, "/"); /* of a URL without a path */

        demand(value.data == NULL || value.len > 0);
        demand(value.data == NULL || is_constant ||
               (value.data >= line.data && value.data + value.len <= line.data + line.len));
    }
}

/* Copies of exactly the size: the sanitizer notices a byte too far. */
static void read_lines(const struct rn_logs_format *format, const char *at, const char *end)
{
    struct rn_logs_reader *reader = malloc(sizeof *reader);
    bool begun = false;

    demand(reader != NULL);
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((stop != NULL ? stop : end) - at);
        char *copy = malloc(len > 0 ? len : 1);
        struct rn_slice line = {copy, len};
        struct rn_logs_entry entry;

        demand(copy != NULL);
        memcpy(copy, at, len);
        at += len + 1;
        if (!begun && !rn_logs_reader_init(reader, format, &plan, line)) {
            free(copy);
            break;
        }
        if ((begun || !format->titled) && rn_logs_reader_read(reader, line, &entry) == RN_LOGS_GOOD)
            check_entry(&entry, line);
        begun = true;
        free(copy);
    }
    free(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;

    if (size < 2)
        return 0;
    read_lines(rn_logs_formats[data[0] % rn_logs_format_count], text + 1, text + size);
    (void)rn_logs_detect(&plan, (struct rn_slice){text + 1, size - 1});
    return 0;
}
