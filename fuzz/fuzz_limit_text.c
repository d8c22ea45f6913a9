/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a limit: no crash, and whatever is accepted survives a round trip. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <ration/limit.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int condition)
{
    if (!condition)
        abort();
}

static uint64_t capacity(const struct ration_limit *limit)
{
    return limit->burst ? limit->burst : limit->amount;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ration_limit limit, again;
    struct ration_error error;
    char text[128];

    if (ration_limit_parse((const char *)data, size, &limit, &error) != 0) {
        demand(error.pos <= size && error.text[0] != '\0' &&
               strlen(error.text) < sizeof error.text);
        return 0;
    }
    size_t len = ration_limit_write(&limit, text, sizeof text);
    demand(len < sizeof text && strlen(text) == len);
    demand(ration_limit_parse(text, len, &again, NULL) == 0);
    demand(again.algorithm == limit.algorithm && again.amount == limit.amount &&
           again.period_ns == limit.period_ns && capacity(&again) == capacity(&limit) &&
           again.queue == limit.queue && again.step_ns == limit.step_ns &&
           again.calendar == limit.calendar && strcmp(again.zone, limit.zone) == 0);
    return 0;
}
