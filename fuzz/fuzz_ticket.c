/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a ticket, and as the body of one that is signed: no crash; what is
 * accepted has one form only, and survives being written as text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "limiter/tickets/ticket.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct rn_hash_key key = {1, 2}, other = {3, 4};
    struct rn_ticket ticket, again;
    unsigned char body[RN_TICKET_BODY_MAX];
    char text[RATION_TICKET_SIZE], twice[RATION_TICKET_SIZE];

    if (rn_ticket_parse((struct rn_slice){(const char *)data, size}, &key, 1, &ticket)) {
        rn_ticket_write(&ticket, &key, text);
        demand(strlen(text) == size && memcmp(text, data, size) == 0);
    }
    if (!rn_ticket_parse_body(data, size, &ticket))
        return 0;
    demand(rn_ticket_write_body(&ticket, body) == size && memcmp(body, data, size) == 0);
    rn_ticket_write(&ticket, &key, text);
    demand(rn_ticket_parse(rn_slice_of(text), &key, 1, &again));
    rn_ticket_write(&again, &key, twice);
    demand(strcmp(text, twice) == 0);
    demand(!rn_ticket_parse(rn_slice_of(text), &other, 1, &again));
    return 0;
}
