/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/replay/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/output/output.h"

#define EVERY_NS INT64_C(300000000)

void rn_progress_init(struct rn_progress_line *p, uint64_t bytes)
{
    *p = (struct rn_progress_line){
        .bytes = bytes, .begun_ns = rn_clock_boot_ns(), .on = isatty(STDERR_FILENO) != 0};
}

void rn_progress_show(struct rn_progress_line *p, const struct rn_feeds *feeds)
{
    int64_t now_ns = rn_clock_boot_ns(), took_ns = now_ns - p->begun_ns;
    uint64_t read = rn_feeds_read(feeds), rate;
    char left[RN_TIME_TEXT], lines[RN_COUNT_TEXT], a_second[RN_COUNT_TEXT];

    if (now_ns - p->shown_ns < EVERY_NS || took_ns <= 0)
        return;
    p->shown_ns = now_ns;
    rate = (uint64_t)((double)p->lines * 1e9 / (double)took_ns);
    fprintf(stderr, "\r\033[K%s lines, %s a second", rn_output_count(p->lines, lines),
            rn_output_count(rate / 1000 * 1000, a_second));
    if (p->bytes != 0 && read != 0 && read <= p->bytes)
        fprintf(stderr, ", %.0f %%, %s left", 100.0 * (double)read / (double)p->bytes,
                rn_output_time(
                    (int64_t)((double)took_ns / (double)read * (double)(p->bytes - read)), left));
    fflush(stderr);
}

void rn_progress_done(struct rn_progress_line *p)
{
    if (p->on && p->shown_ns != 0)
        fputs("\r\033[K", stderr);
}
