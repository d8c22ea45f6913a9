/* SPDX-License-Identifier: Apache-2.0 */
/* In the place of zstd.c where there is no libzstd. */
#include <stdio.h>

#include "cli/logs/input.h"

bool rn_input_zstd(struct rn_unpack *unpack, char problem[RN_INPUT_PROBLEM])
{
    (void)unpack;
    snprintf(
        problem, RN_INPUT_PROBLEM,
        "this ration was built without libzstd; unpack it first: zstdcat FILE | ration replay -");
    return false;
}
