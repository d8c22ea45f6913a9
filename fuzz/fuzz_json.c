/* SPDX-License-Identifier: Apache-2.0 */
/* Any text: jansson and we agree whether it is JSON and what it says. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/json_oracle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *fault = json_oracle_fault((const char *)data, size);

    if (fault) {
        fprintf(stderr, "they disagree about %s\n", fault);
        abort();
    }
    return 0;
}
