/* SPDX-License-Identifier: Apache-2.0 */
/* Any answer of a Prometheus server: a number, or a sentence that says why not. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/prometheus.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char problem[RN_PROMETHEUS_PROBLEM] = "";
    char *copy = malloc(size + 1); /* exactly as long as the answer, for the address sanitizer */
    double value = 0;

    if (copy == NULL)
        return 0;
    memcpy(copy, data, size);
    copy = realloc(copy, size != 0 ? size : 1);
    if (!rn_prometheus_read(copy, size, &value, problem) && problem[0] == '\0')
        abort();
    free(copy);
    return 0;
}
