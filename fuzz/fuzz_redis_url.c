/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as the address of a Redis: no crash, and what is accepted is whole; what is
 * not is told why, and where. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "redis/url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int condition)
{
    if (!condition)
        abort();
}

static void demand_whole(const struct rn_url *url)
{
    const char *colon = strrchr(url->address, ':');

    demand(memchr(url->address, '\0', sizeof url->address) != NULL);
    demand(memchr(url->user, '\0', sizeof url->user) != NULL);
    demand(memchr(url->password, '\0', sizeof url->password) != NULL);
    demand(colon != NULL && colon != url->address);
    demand(strncmp(url->address, "unix:", 5) != 0 || strchr(url->address, '/') != NULL);
    demand(url->user[0] == '\0' || url->password[0] != '\0');
    demand(url->db <= 65535);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    struct rn_url url;
    struct ration_error error = {0};

    demand(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    if (rn_url_parse(text, &url, &error) == 0)
        demand_whole(&url);
    else
        demand(error.code == RATION_EPARSE && error.text[0] != '\0' && error.pos <= strlen(text));
    free(text);
    return 0;
}
