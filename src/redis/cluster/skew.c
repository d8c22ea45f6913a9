/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/cluster/skew.h"

int64_t rn_skew_note(struct rn_skew *skew, int64_t store_us, int64_t sent_ns, int64_t got_ns)
{
    struct rn_skew before = *skew;
    int64_t store_ns = store_us * 1000;
    int64_t low = store_ns - got_ns, high = store_ns - sent_ns;
    int64_t slack = RN_SKEW_STEP_NS + (got_ns - before.at_ns) / 1000 * RN_SKEW_DRIFT_PER_MILLE;

    *skew = (struct rn_skew){.known = true, .low_ns = low, .high_ns = high, .at_ns = got_ns};
    if (!before.known)
        return 0;
    if (low > before.high_ns + slack)
        return low - before.high_ns;
    if (high < before.low_ns - slack)
        return high - before.low_ns;
    /* Of a reply that took long little is known: what is known besides stays. */
    if (high - low > before.high_ns - before.low_ns + slack)
        *skew = before;
    return 0;
}
