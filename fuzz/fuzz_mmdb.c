/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a database of networks: no crash, something is said about what is refused, and what
 * is accepted answers for every address. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rules/geo/geo_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ration_error error = {.text = ""};
    struct rn_geo_table *table = rn_geo_table_new(data, size, &error);

    if (table == NULL && error.text[0] == '\0')
        abort();
    for (unsigned i = 0; table != NULL && i < 256; i++) {
        struct rn_ip ip = {.bits = i % 2 == 0 ? 32 : 128};
        size_t bytes = ip.bits / 8;

        for (size_t n = 0; n < bytes; n++)
            ip.bytes[n] = (uint8_t)(n == 0 ? i : i * 37 + n * 101 + size);
        for (unsigned field = 0; field < RN_GEO_FIELDS; field++) {
            struct rn_slice found = rn_geo_table_find(table, &ip, (enum rn_geo_field)field);
            char copy[RN_GEO_TEXT_MAX];

            if (found.len > sizeof copy || (found.data == NULL) != (found.len == 0))
                abort();
            if (found.data != NULL)
                memcpy(copy, found.data, found.len); /* the sanitizer sees where it reads */
        }
    }
    rn_geo_table_free(table);
    return 0;
}
