/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/page/chart.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define put(page, text) rn_buf_put_literal(&(page)->out, text)

/* In units of the picture, which grows with the page. */
#define WIDTH 880.0
#define LABEL_WIDTH 220.0 /* of bars */
#define NOTE_WIDTH 150.0
#define BAR_HEIGHT 22.0
#define COLUMNS_LEFT 70.0 /* room for the scale */
#define COLUMNS_TOP 16.0
#define COLUMNS_HEIGHT 180.0
#define COLUMNS_FOOT 22.0
#define TICKS 6       /* labels below columns, at most */
#define TICK_CHAR 7.0 /* width of a character of them, at most */
#define LABEL_CHARS 32

static const char *const classes[RN_CHART_TONES] = {"good", "odd", "bad"};

static void open_picture(struct rn_page *page, double height)
{
    put(page, "<figure>\n");
    rn_buf_putf(&page->out,
                "<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-labelledby=\"c%u\">\n", WIDTH,
                height, ++page->pictures);
}

static void close_picture(struct rn_page *page, const char *caption,
                          const struct rn_chart_columns *legend)
{
    put(page, "</svg>\n");
    rn_buf_putf(&page->out, "<figcaption id=\"c%u\">", page->pictures);
    rn_page_text(page, rn_slice_of(caption));
    for (size_t i = 0; legend != NULL && i < RN_CHART_TONES; i++)
        if (legend->names[i] != NULL) {
            rn_buf_putf(&page->out, " <span class=\"legend\"><span class=\"key %s\"></span>",
                        classes[i]);
            rn_page_text(page, rn_slice_of(legend->names[i]));
            put(page, "</span>");
        }
    put(page, "</figcaption>\n</figure>\n");
}

/* --- bars ------------------------------------------------------------------------ */

/* The label, cut to what fits. */
static void put_label(struct rn_page *page, struct rn_slice label)
{
    bool cut = label.len > LABEL_CHARS;
    size_t len = cut ? LABEL_CHARS - 1 : label.len;

    while (cut && len > 0 && ((unsigned char)label.data[len] & 0xC0) == 0x80)
        len--;
    rn_page_text(page, (struct rn_slice){label.data, len});
    if (cut)
        put(page, "\xE2\x80\xA6");
}

void rn_chart_bars(struct rn_page *page, const char *caption, const struct rn_chart_bar *bars,
                   size_t count)
{
    double most = 0, room = WIDTH - LABEL_WIDTH - NOTE_WIDTH, y = 0;

    for (size_t i = 0; i < count; i++)
        most = bars[i].value > most ? bars[i].value : most;
    if (count == 0)
        return;
    open_picture(page, (double)count * BAR_HEIGHT + 4);
    for (size_t i = 0; i < count; i++, y += BAR_HEIGHT) {
        double width = most > 0 ? bars[i].value / most * room : 0;

        put(page, "<g><title>");
        rn_page_text(page, bars[i].label);
        put(page, ": ");
        rn_page_text(page, rn_slice_of(bars[i].note));
        rn_buf_putf(&page->out, "</title><text class=\"end\" x=\"%.0f\" y=\"%.1f\">",
                    LABEL_WIDTH - 8, y + 16);
        put_label(page, bars[i].label);
        rn_buf_putf(
            &page->out,
            "</text><rect class=\"%s\" x=\"%.0f\" y=\"%.1f\" width=\"%.1f\" height=\"%.0f\"/>"
            "<text class=\"quiet\" x=\"%.1f\" y=\"%.1f\">",
            classes[bars[i].tone], LABEL_WIDTH, y + 4, width > 1 ? width : 1, BAR_HEIGHT - 7,
            LABEL_WIDTH + width + 6, y + 16);
        rn_page_text(page, rn_slice_of(bars[i].note));
        put(page, "</text></g>\n");
    }
    close_picture(page, caption, NULL);
}

/* --- columns ---------------------------------------------------------------------- */

static uint64_t total_of(const struct rn_chart_columns *chart, size_t column)
{
    uint64_t total = 0;

    for (size_t i = 0; i < RN_CHART_TONES; i++)
        total += chart->values[i] != NULL ? chart->values[i][column] : 0;
    return total;
}

/* The least of 1, 2, 5, 10, 20, ... of which four reach `most`. */
static uint64_t step_of_scale(uint64_t most)
{
    for (uint64_t unit = 1;; unit *= 10)
        for (unsigned i = 0; i < 3; i++) {
            uint64_t step = unit * (i == 0 ? 1 : i == 1 ? 2 : 5);

            if (step >= most / 4 + (most % 4 != 0) || unit > UINT64_MAX / 100)
                return step;
        }
}

static void put_scale(struct rn_page *page, uint64_t most, uint64_t step)
{
    for (uint64_t value = 0; value <= most; value += step) {
        double y = COLUMNS_TOP + COLUMNS_HEIGHT * (1 - (double)value / (double)most);

        rn_buf_putf(&page->out,
                    "<line class=\"grid\" x1=\"%.0f\" x2=\"%.0f\" y1=\"%.1f\" y2=\"%.1f\"/>"
                    "<text class=\"quiet end\" x=\"%.0f\" y=\"%.1f\">%" PRIu64 "</text>\n",
                    COLUMNS_LEFT, WIDTH, y, y, COLUMNS_LEFT - 6, y + 4, value);
    }
}

/* One column, its parts on top of each other. */
static void put_column(struct rn_page *page, const struct rn_chart_columns *chart, size_t column,
                       double width, uint64_t most)
{
    double x = COLUMNS_LEFT + width * (double)column, y = COLUMNS_TOP + COLUMNS_HEIGHT;
    double gap = width > 4 ? 1 : 0;
    char text[64];

    if (total_of(chart, column) == 0)
        return;
    chart->label(chart->arg, column, text, sizeof text);
    put(page, "<g><title>");
    rn_page_text(page, rn_slice_of(text));
    for (size_t i = 0; i < RN_CHART_TONES; i++)
        if (chart->values[i] != NULL) {
            rn_buf_putf(&page->out, "\n%" PRIu64 " ", chart->values[i][column]);
            rn_page_text(page, rn_slice_of(chart->names[i]));
        }
    put(page, "</title>");
    for (size_t i = 0; i < RN_CHART_TONES; i++) {
        uint64_t value = chart->values[i] != NULL ? chart->values[i][column] : 0;
        double height = COLUMNS_HEIGHT * (double)value / (double)most;

        if (value == 0)
            continue;
        height = height < 1 ? 1 : height; /* little is still something */
        y -= height;
        rn_buf_putf(&page->out,
                    "<rect class=\"%s\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"/>",
                    classes[i], x, y, width - gap, height);
    }
    put(page, "</g>\n");
}

/* From x on, or to the edge of the picture, if it is too long for the room there. */
static void put_tick(struct rn_page *page, double x, const char *text)
{
    bool fits = x + TICK_CHAR * (double)strlen(text) <= WIDTH;

    rn_buf_putf(&page->out, "<text class=\"quiet%s\" x=\"%.1f\" y=\"%.1f\">", fits ? "" : " end",
                fits ? x : WIDTH, COLUMNS_TOP + COLUMNS_HEIGHT + 16);
    rn_page_text(page, rn_slice_of(text));
    put(page, "</text>\n");
}

static void put_ticks(struct rn_page *page, const struct rn_chart_columns *chart, double width)
{
    size_t every = chart->count / TICKS + 1;
    double column;
    char text[64];

    for (size_t i = 0; chart->tick == NULL && i < chart->count; i += every) {
        chart->label(chart->arg, i, text, sizeof text);
        put_tick(page, COLUMNS_LEFT + width * (double)i, text);
    }
    for (size_t i = 0;
         chart->tick != NULL && chart->tick(chart->arg, i, &column, text, sizeof text); i++) {
        rn_buf_putf(&page->out,
                    "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" "
                    "y2=\"%.1f\"/>",
                    COLUMNS_LEFT + width * column, COLUMNS_LEFT + width * column,
                    COLUMNS_TOP + COLUMNS_HEIGHT, COLUMNS_TOP + COLUMNS_HEIGHT + 5);
        put_tick(page, COLUMNS_LEFT + width * column + 3, text);
    }
}

void rn_chart_columns(struct rn_page *page, const struct rn_chart_columns *chart)
{
    double width = (WIDTH - COLUMNS_LEFT) / (double)(chart->count != 0 ? chart->count : 1);
    uint64_t most = 0, step;

    for (size_t i = 0; i < chart->count; i++)
        most = total_of(chart, i) > most ? total_of(chart, i) : most;
    if (most == 0)
        return;
    step = step_of_scale(most);
    most = (most + step - 1) / step * step;
    open_picture(page, COLUMNS_TOP + COLUMNS_HEIGHT + COLUMNS_FOOT);
    put_scale(page, most, step);
    for (size_t i = 0; i < chart->count; i++)
        put_column(page, chart, i, width, most);
    put_ticks(page, chart, width);
    if (chart->mark <= chart->count && chart->mark_label != NULL) {
        double x = COLUMNS_LEFT + width * (double)chart->mark;
        bool left = x > WIDTH / 2;

        rn_buf_putf(&page->out,
                    "<line class=\"mark\" x1=\"%.1f\" x2=\"%.1f\" y1=\"0\" y2=\"%.1f\"/>"
                    "<text%s x=\"%.1f\" y=\"12\">",
                    x, x, COLUMNS_TOP + COLUMNS_HEIGHT, left ? " class=\"end\"" : "",
                    left ? x - 6 : x + 6);
        rn_page_text(page, rn_slice_of(chart->mark_label));
        put(page, "</text>\n");
    }
    close_picture(page, chart->caption, chart);
}
