/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/page/page.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

#define LINE_BYTES 1024 /* of a formatted text */

/* Colours are variables, so that pictures follow them, too. Paper is light whatever the screen. */
static const char style[] =
    ":root{color-scheme:light dark;--ground:#fff;--ink:#1c2430;--quiet:#5b6675;--rule:#d9dee5;"
    "--band:#f4f6f8;--good:#3b7dc4;--bad:#c8402f;--odd:#c98a12;--line:#1c2430}\n"
    "@media (prefers-color-scheme:dark){:root{--ground:#14181e;--ink:#e4e8ee;--quiet:#9aa5b4;"
    "--rule:#323a45;--band:#1c222a;--good:#5b9be0;--bad:#ef6a58;--odd:#e0aa3e;--line:#e4e8ee}}\n"
    "@media print{:root{color-scheme:light;--ground:#fff;--ink:#000;--quiet:#444;--rule:#bbb;"
    "--band:#f4f6f8;--good:#3b7dc4;--bad:#c8402f;--odd:#c98a12;--line:#000}\n"
    "body{font-size:9.5pt;max-width:none;margin:0;padding:0}table{font-size:8.5pt}"
    "h2{break-after:avoid}figure,tr,.note,.figures{break-inside:avoid}thead{display:table-header-"
    "group}@page{margin:15mm}}\n"
    "*{box-sizing:border-box;print-color-adjust:exact;-webkit-print-color-adjust:exact}\n"
    "body{font:15px/1.5 system-ui,sans-serif;background:var(--ground);color:var(--ink);"
    "max-width:62rem;margin:0 auto;padding:1.5rem}\n"
    "h1{font-size:1.6rem;line-height:1.2;margin:0 0 .2rem}h2{font-size:1.15rem;margin:2rem 0 "
    ".5rem;border-bottom:1px solid var(--rule);padding-bottom:.2rem}\n"
    ".subtitle{color:var(--quiet);margin:0 0 1rem}p{margin:.5rem 0;max-width:48rem}\n"
    ".note{border-left:4px solid var(--odd);background:var(--band);padding:.4rem .8rem}\n"
    ".figures{display:flex;flex-wrap:wrap;gap:.8rem;margin:1rem 0}.figures div{border:1px solid "
    "var(--rule);border-radius:6px;padding:.5rem .9rem;min-width:8rem}\n"
    ".figures b{display:block;font-size:1.5rem;line-height:1.2}.figures span{color:var(--quiet);"
    "font-size:.85rem}\n"
    ".scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;margin:.5rem 0;"
    "font-variant-numeric:tabular-nums}\n"
    "th,td{text-align:left;padding:.25rem .8rem .25rem 0;border-bottom:1px solid var(--rule);"
    "vertical-align:top;overflow-wrap:anywhere}th{color:var(--quiet);font-weight:600}\n"
    "th{overflow-wrap:normal}.t{white-space:nowrap}td{min-width:6rem}"
    "td:first-child{min-width:8.5rem}th:first-child:nth-last-child(2){width:35%}"
    ".n{text-align:right}td.n{white-space:nowrap;min-width:0}\n"
    "pre{background:var(--band);padding:.6rem .8rem;overflow-x:auto}\n"
    "figure{margin:.8rem 0;overflow-x:auto}figcaption{color:var(--quiet);font-size:.9em;"
    "position:sticky;left:0}\n"
    "svg{display:block;width:100%;min-width:42rem;height:auto}svg "
    "text{fill:var(--ink);font-size:12px}"
    "svg .quiet{fill:var(--quiet)}svg .end{text-anchor:end}svg .middle{text-anchor:middle}\n"
    ".good{fill:var(--good)}.bad{fill:var(--bad)}.odd{fill:var(--odd)}"
    ".grid{stroke:var(--rule)}.mark{stroke:var(--line);stroke-dasharray:4 3}\n"
    "@media print{.scroll,figure{overflow:visible}svg{min-width:0}td{min-width:4rem}"
    "pre{white-space:pre-wrap}}\n"
    ".legend{white-space:nowrap}.key{display:inline-block;width:.8em;height:.8em;margin:0 .3em 0 "
    ".9em;vertical-align:-.05em}"
    ".key.good{background:var(--good)}.key.bad{background:var(--bad)}"
    ".key.odd{background:var(--odd)}\n";

#define put(page, text) rn_buf_put_literal(&(page)->out, text)

/* --- text ----------------------------------------------------------------------- */

void rn_page_text(struct rn_page *page, struct rn_slice text)
{
    for (size_t i = 0, len; i < text.len; i += len) {
        uint32_t point = 0;

        len = rn_utf8_decode(text.data + i, text.len - i, &point);
        if (point == '<')
            put(page, "&lt;");
        else if (point == '>')
            put(page, "&gt;");
        else if (point == '&')
            put(page, "&amp;");
        else if (point == '"')
            put(page, "&quot;");
        else if (len != 0 && (point == '\n' || rn_utf8_is_printable(point)))
            rn_buf_put(&page->out, text.data + i, len);
        else
            put(page, "\xEF\xBF\xBD");
        len = len == 0 ? 1 : len;
    }
}

static void put_formatted(struct rn_page *page, const char *format, va_list arguments)
{
    char text[LINE_BYTES];
    int len = vsnprintf(text, sizeof text, format, arguments);
    size_t kept = len < 0 ? 0 : (size_t)len < sizeof text ? (size_t)len : sizeof text - 1;

    rn_page_text(page, (struct rn_slice){text, kept});
}

/* --- the page ------------------------------------------------------------------- */

void rn_page_open(struct rn_page *page, const char *title, const char *subtitle)
{
    *page = (struct rn_page){.columns = 0};
    put(page, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
              "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>");
    rn_page_text(page, rn_slice_of(title));
    put(page, "</title>\n<style>\n");
    rn_buf_put(&page->out, style, sizeof style - 1);
    put(page, "</style>\n</head>\n<body>\n<h1>");
    rn_page_text(page, rn_slice_of(title));
    put(page, "</h1>\n");
    if (subtitle != NULL) {
        put(page, "<p class=\"subtitle\">");
        rn_page_text(page, rn_slice_of(subtitle));
        put(page, "</p>\n");
    }
}

void rn_page_close(struct rn_page *page)
{
    put(page, "</body>\n</html>\n");
}

void rn_page_done(struct rn_page *page)
{
    rn_buf_done(&page->out);
}

/* --- parts ---------------------------------------------------------------------- */

void rn_page_heading(struct rn_page *page, const char *text)
{
    put(page, "<h2>");
    rn_page_text(page, rn_slice_of(text));
    put(page, "</h2>\n");
}

void rn_page_paragraph(struct rn_page *page, const char *format, ...)
{
    va_list arguments;

    put(page, "<p>");
    va_start(arguments, format);
    put_formatted(page, format, arguments);
    va_end(arguments);
    put(page, "</p>\n");
}

void rn_page_note(struct rn_page *page, const char *format, ...)
{
    va_list arguments;

    put(page, "<p class=\"note\">");
    va_start(arguments, format);
    put_formatted(page, format, arguments);
    va_end(arguments);
    put(page, "</p>\n");
}

void rn_page_code(struct rn_page *page, struct rn_slice text)
{
    put(page, "<pre>");
    rn_page_text(page, text);
    put(page, "</pre>\n");
}

void rn_page_figures_open(struct rn_page *page)
{
    put(page, "<div class=\"figures\">\n");
}

void rn_page_figure(struct rn_page *page, const char *label, const char *format, ...)
{
    va_list arguments;

    put(page, "<div><b>");
    va_start(arguments, format);
    put_formatted(page, format, arguments);
    va_end(arguments);
    put(page, "</b><span>");
    rn_page_text(page, rn_slice_of(label));
    put(page, "</span></div>\n");
}

void rn_page_figures_close(struct rn_page *page)
{
    put(page, "</div>\n");
}

/* --- tables --------------------------------------------------------------------- */

static void put_class(struct rn_page *page, size_t column)
{
    if (page->kinds[column] != 0)
        rn_buf_putf(&page->out, " class=\"%c\"", page->kinds[column]);
    put(page, ">");
}

void rn_page_table_open(struct rn_page *page, const char *const *titles, size_t count)
{
    page->columns = count < RN_PAGE_COLUMNS ? count : RN_PAGE_COLUMNS;
    page->cell = 0;
    put(page, "<div class=\"scroll\"><table>\n<thead><tr>");
    for (size_t i = 0; i < page->columns; i++) {
        page->kinds[i] = titles[i][0] == '>' ? 'n' : titles[i][0] == '@' ? 't' : 0;
        put(page, "<th scope=\"col\"");
        put_class(page, i);
        rn_page_text(page, rn_slice_of(titles[i] + (page->kinds[i] != 0)));
        put(page, "</th>");
    }
    put(page, "</tr></thead>\n<tbody>\n");
}

static void open_cell(struct rn_page *page)
{
    if (page->cell == 0)
        put(page, "<tr>");
    put(page, "<td");
    put_class(page, page->cell);
}

static void close_cell(struct rn_page *page)
{
    put(page, "</td>");
    if (++page->cell == page->columns) {
        put(page, "</tr>\n");
        page->cell = 0;
    }
}

void rn_page_cell(struct rn_page *page, struct rn_slice text)
{
    open_cell(page);
    rn_page_text(page, text);
    close_cell(page);
}

void rn_page_cellf(struct rn_page *page, const char *format, ...)
{
    va_list arguments;

    open_cell(page);
    va_start(arguments, format);
    put_formatted(page, format, arguments);
    va_end(arguments);
    close_cell(page);
}

void rn_page_cell_times(struct rn_page *page, const char *from, const char *to)
{
    open_cell(page);
    rn_page_text(page, rn_slice_of(from));
    put(page, ",<br>");
    rn_page_text(page, rn_slice_of(to));
    close_cell(page);
}

void rn_page_table_close(struct rn_page *page)
{
    put(page, "</tbody>\n</table></div>\n");
}
