/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a client writes into a forwarding header, the address that the last
 * trusted proxy appends to it is the client's. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rules/match/forwarded.h"

#define CLIENT_TEXT "198.51.100.7"

static const struct rn_ip peer = {{10, 0, 0, 1}, 32}, client = {{198, 51, 100, 7}, 32};
static const struct rn_cidr proxies[] = {{{{10}, 32}, 8}};
static const struct rn_cidr_set trusted = {proxies, 1};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct rn_forwarded start(bool rfc7239)
{
    return (struct rn_forwarded){&trusted, rfc7239, peer, 0};
}

static void demand_client(const uint8_t *data, size_t size, const char *appended, bool rfc7239)
{
    size_t len = strlen(appended);
    char *header = malloc(size + len);
    struct rn_forwarded walk = start(rfc7239);

    if (!header)
        return;
    if (size > 0)
        memcpy(header, data, size);
    memcpy(header + size, appended, len);
    if (rn_forwarded_walk(&walk, (struct rn_slice){header, size + len}) ||
        !rn_ip_equal(&walk.client, &client))
        abort();
    free(header);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int rfc7239 = 0; rfc7239 < 2; rfc7239++) {
        struct rn_forwarded walk = start(rfc7239);

        rn_forwarded_walk(&walk, (struct rn_slice){(const char *)data, size});
        if (walk.client.bits != 32 && walk.client.bits != 128)
            abort();
    }
    demand_client(data, size, "," CLIENT_TEXT, false);
    demand_client(data, size, ", " CLIENT_TEXT ", 10.0.0.2", false);
    demand_client(data, size, ", for=" CLIENT_TEXT, true);
    demand_client(data, size, ", for=\"" CLIENT_TEXT ":80\";proto=https, for=10.0.0.2", true);
    return 0;
}
