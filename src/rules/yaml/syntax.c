/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Syntax errors. libyaml says what its parser was doing; the author of a file needs to
 * know what to change. A table maps each phrase of libyaml to one of ours. An
 * unknown phrase is passed on unchanged.
 */
#include "rules/yaml/syntax.h"

#include <inttypes.h>
#include <string.h>

#include "base/utf8.h"

struct phrase {
    const char *problem; /* NULL: any */
    const char *context; /* NULL: any */
    const char *words;
    const char *begun; /* what began earlier, if it helps to know where; "": report it there */
};

#define QUOTE_TAG "put text that begins with \"!\" in quotes"

/* The first that fits counts. */
static const struct phrase phrases[] = {
    {"mapping values are not allowed in this context", NULL,
     "a \":\" cannot stand here; check the indentation, and put text that contains \": \" in "
     "quotes",
     NULL},
    {"could not find expected ':'", NULL,
     "expected a key and \": \"; check the indentation, and that no quote is left open", ""},
    {"did not find expected key", NULL, "expected a key; check the indentation and the quotes",
     "the map"},
    {"did not find expected '-' indicator", NULL,
     "expected \"- \" and another item; check the indentation", "the list"},
    {"did not find expected ',' or ']'", NULL, "expected \",\" or \"]\"", "the list"},
    {"did not find expected ',' or '}'", NULL, "expected \",\" or \"}\"", "the map"},
    {"did not find expected node content", NULL, "expected a value", NULL},
    {"found unexpected end of stream", NULL, "a quote that is never closed", ""},
    {"found unexpected document indicator", NULL,
     "a line that begins with \"---\" or \"...\" inside quotes; a closing quote may be missing",
     "the text"},
    {"found unknown escape character", NULL,
     "an unknown escape; write \\\\ for a backslash, or use single quotes", NULL},
    {"did not find expected hexdecimal number", NULL,
     "an incomplete escape; \\x takes 2 hexadecimal digits, \\u takes 4 and \\U takes 8", NULL},
    {"found invalid Unicode character escape code", NULL,
     "an escape that is not a character; instead of a pair such as \\ud83d\\ude00 write the "
     "character itself, or \\U0001f600",
     NULL},
    {"block sequence entries are not allowed in this context", NULL,
     "a list item cannot begin here; put each \"- \" on a line of its own", NULL},
    {"mapping keys are not allowed in this context", NULL,
     "a key cannot begin here; check the indentation", NULL},
    {"found a tab character that violates indentation", NULL,
     "a tab in the indentation; use spaces", NULL},
    {"found a tab character where an indentation space is expected", NULL,
     "a tab in the indentation; use spaces", NULL},
    {"found an indentation indicator equal to 0", NULL, "an indentation of 0; leave the number out",
     NULL},
    {"did not find expected comment or line break", "while scanning a block scalar",
     "text behind \"|\" or \">\"; begin it on the next line, or put the value in quotes", NULL},
    {"found unexpected ':'", NULL, "a \":\" inside text; put the text in quotes", NULL},
    {"did not find expected alphabetic or numeric character", "while scanning an alias",
     "expected a name behind \"*\"; put text that begins with \"*\" in quotes", ""},
    {"did not find expected alphabetic or numeric character", NULL,
     "expected a name behind \"&\"; put text that begins with \"&\" in quotes", ""},
    {"found undefined tag handle", NULL, "an unknown tag; " QUOTE_TAG, NULL},
    {"did not find expected <document start>", NULL,
     "expected the end of the file; check the indentation", NULL},
    {"found incompatible YAML document", NULL, "an unknown version of YAML; leave the line out",
     NULL},
    {"found duplicate %YAML directive", NULL, "%YAML is given twice", NULL},
    {"found duplicate %TAG directive", NULL, "%TAG is given twice", NULL},
    {NULL, "while scanning a tag", "a tag that cannot be read; " QUOTE_TAG, ""},
    {NULL, "while parsing a tag", "a tag that cannot be read; " QUOTE_TAG, ""},
    {NULL, "while scanning a directive",
     "a directive that cannot be read; put text that begins with \"%\" in quotes", ""},
    {NULL, "while scanning a %YAML directive", "a directive that cannot be read; leave it out", ""},
    {NULL, "while scanning a %TAG directive", "a directive that cannot be read; leave it out", ""},
    {NULL, NULL, NULL, NULL},
};

static bool fits(const char *pattern, const char *text)
{
    return pattern == NULL || (text != NULL && strcmp(pattern, text) == 0);
}

void rn_syntax_report(struct rn_report *report, const struct rn_syntax_fault *fault)
{
    struct rn_slice text = report->files[fault->at.file].text;
    const struct phrase *phrase = phrases;

    if (fits("found character that cannot start any token", fault->problem)) {
        size_t offset = rn_report_offset(report, fault->at);
        char c = offset < text.len ? text.data[offset] : '\0';

        if (c == '\t')
            rn_report_error(report, fault->at, "a tab in the indentation; use spaces");
        else
            rn_report_error(report, fault->at, "%s cannot begin a value; put the text in quotes",
                            rn_excerpt((struct rn_slice){&c, 1}).text);
        return;
    }
    bool list = fits("did not find expected ',' or ']'", fault->problem);
    bool map = fits("did not find expected ',' or '}'", fault->problem);
    bool at_end = rn_report_offset(report, fault->at) >= text.len;

    if (at_end && fits("did not find expected node content", fault->problem)) {
        rn_report_error(
            report, fault->at,
            "the file ends where a value is missing; is a \"[\" or \"{\" never closed?");
        return;
    }
    if ((list || map) && at_end) {
        /* libyaml reports an open bracket at the end of the file; we report where it opens. */
        rn_report_error(report, fault->begun, "a \"%c\" that is never closed", list ? '[' : '{');
        return;
    }
    while (!fits(phrase->problem, fault->problem) || !fits(phrase->context, fault->context))
        phrase++;
    if (phrase->words == NULL)
        rn_report_error(report, fault->at, "%s",
                        fault->problem != NULL ? fault->problem : "a syntax error");
    else if (phrase->begun == NULL || fault->begun.line == 0)
        rn_report_error(report, fault->at, "%s", phrase->words);
    else if (phrase->begun[0] == '\0')
        rn_report_error(report, fault->begun, "%s", phrase->words);
    else
        rn_report_error(report, fault->at, "%s; %s begins at line %" PRIu32 ", column %" PRIu32,
                        phrase->words, phrase->begun, fault->begun.line, fault->begun.column);
}

bool rn_syntax_check_text(struct rn_report *report, uint32_t file)
{
    struct rn_slice text = report->files[file].text;
    uint32_t point = 0;
    size_t at = 0, size;

    for (; at < text.len; at += size) {
        size = rn_utf8_decode(text.data + at, text.len - at, &point);
        bool is_printable = /* YAML 1.2.2, 5.1 */
            point == '\t' || point == '\n' || point == '\r' || (point >= 0x20 && point <= 0x7e) ||
            point == 0x85 ||
            (point >= 0xa0 && point != 0xfeff && point != 0xfffe && point != 0xffff);

        if (size == 0 || !is_printable)
            break;
    }
    if (at == text.len)
        return true;
    struct rn_place place = rn_report_place(report, file, at);

    if (at == 0 && text.len > 1 &&
        (memcmp(text.data, "\xff\xfe", 2) == 0 || memcmp(text.data, "\xfe\xff", 2) == 0))
        rn_report_error(report, place, "the file is in UTF-16; save it as UTF-8");
    else if (size == 0)
        rn_report_error(report, place, "the byte 0x%02x is not UTF-8; save the file as UTF-8",
                        (unsigned char)text.data[at]);
    else if (point == 0)
        rn_report_error(report, place, "a NUL byte; is this a text file, saved as UTF-8?");
    else
        rn_report_error(report, place,
                        "the control character U+%04" PRIX32 "; remove it, or write \"\\u%04" PRIx32
                        "\" in double quotes",
                        point, point);
    return false;
}
