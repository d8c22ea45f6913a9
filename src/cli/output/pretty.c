/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output/pretty.h"

#include <inttypes.h>

#include <ration/ration.h>

#include "base/utf8.h"

/* Writes the comma after the previous member, a newline, and the name. */
static void begin(struct rn_pretty *json, const char *name)
{
    if (json->depth > 0)
        fprintf(json->file, "%s\n%*s", json->first ? "" : ",", 2 * json->depth, "");
    if (name != NULL)
        fprintf(json->file, "\"%s\": ", name);
    json->first = false;
}

static void end(const struct rn_pretty *json)
{
    if (json->depth == 0)
        fputc('\n', json->file);
}

void rn_pretty_open(struct rn_pretty *json, const char *name, char bracket)
{
    begin(json, name);
    fputc(bracket, json->file);
    json->depth++;
    json->first = true;
}

void rn_pretty_close(struct rn_pretty *json, char bracket)
{
    json->depth--;
    if (!json->first)
        fprintf(json->file, "\n%*s", 2 * json->depth, "");
    fputc(bracket, json->file);
    json->first = false;
    end(json);
}

void rn_pretty_text(struct rn_pretty *json, const char *name, struct rn_slice text)
{
    begin(json, name);
    fputc('"', json->file);
    for (size_t at = 0; at < text.len;) {
        uint32_t point = 0xFFFD;
        size_t taken = rn_utf8_decode(text.data + at, text.len - at, &point);

        if (taken == 0 || (point <= 0xFFFF && !rn_utf8_is_printable(point)))
            fprintf(json->file, "\\u%04x", (unsigned)(taken == 0 ? 0xFFFD : point));
        else
            fprintf(json->file, "%s%.*s", point == '"' || point == '\\' ? "\\" : "", (int)taken,
                    text.data + at);
        at += taken == 0 ? 1 : taken;
    }
    fputc('"', json->file);
    end(json);
}

void rn_pretty_uint(struct rn_pretty *json, const char *name, uint64_t value)
{
    begin(json, name);
    fprintf(json->file, "%" PRIu64, value);
    end(json);
}

void rn_pretty_number(struct rn_pretty *json, const char *name, double value)
{
    char text[400];
    int len = snprintf(text, sizeof text, "%.3f", value);

    while (text[len - 1] == '0')
        len--;
    len -= text[len - 1] == '.';
    begin(json, name);
    fprintf(json->file, "%.*s", len, text);
    end(json);
}

void rn_pretty_bool(struct rn_pretty *json, const char *name, bool value)
{
    begin(json, name);
    fputs(value ? "true" : "false", json->file);
    end(json);
}

void rn_pretty_null(struct rn_pretty *json, const char *name)
{
    begin(json, name);
    fputs("null", json->file);
    end(json);
}

void rn_pretty_seconds(struct rn_pretty *json, const char *name, int64_t ns)
{
    if (ns == RATION_NEVER) {
        rn_pretty_null(json, name);
        return;
    }
    char text[40];
    int len =
        snprintf(text, sizeof text, "%" PRId64 ".%09" PRId64, ns / 1000000000, ns % 1000000000);

    while (text[len - 1] == '0')
        len--;
    len -= text[len - 1] == '.';
    begin(json, name);
    fprintf(json->file, "%.*s", len, text);
    end(json);
}
