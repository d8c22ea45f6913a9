/* SPDX-License-Identifier: Apache-2.0 */
/* In the place of gzip.c where there is no zlib. */
#include <stdio.h>

#include "cli/logs/input.h"

bool rn_input_gzip(struct rn_unpack *unpack, char problem[RN_INPUT_PROBLEM])
{
    (void)unpack;
    snprintf(
        problem, RN_INPUT_PROBLEM,
        "this ration was built without zlib; unpack it first: gunzip -c FILE | ration replay -");
    return false;
}
