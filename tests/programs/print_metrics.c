/* SPDX-License-Identifier: Apache-2.0 */
/* A page of metrics for test_decision_formats.py: every kind, with labels that try to break it. */
#include <stdio.h>

#include "wire/metrics.h"

int main(void)
{
    const struct rn_metrics_label labels[] = {{"rule", RN_SLICE_INIT("a\"b\\c\n} 1 \xc3\xa9\xff")},
                                              {"result", RN_SLICE_INIT("allowed")}};
    struct rn_histogram h = {0};
    struct rn_buf out = {0};

    for (int64_t ns = 1; ns < INT64_C(10000000000); ns = ns * 3 / 2 + 1)
        rn_metrics_histogram_add_many(&h, ns, 1);
    rn_metrics_begin(&out, "ration_decisions_total", RN_METRICS_COUNTER, "Decisions by rule.");
    rn_metrics_put(&out, "ration_decisions_total", labels, 2, 12);
    rn_metrics_begin(&out, "ration_load_ratio", RN_METRICS_GAUGE, "How full the table is.");
    rn_metrics_put_double(&out, "ration_load_ratio", NULL, 0, 1.0 / 3);
    rn_metrics_begin(&out, "ration_decision_seconds", RN_METRICS_HISTOGRAM, "Time of a decision.");
    rn_metrics_put_histogram(&out, "ration_decision_seconds", labels, 2, &h);
    fwrite(out.data, 1, out.len, stdout);
    rn_buf_done(&out);
    return 0;
}
