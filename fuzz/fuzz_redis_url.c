/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as the address of a Redis, and as an error that sends us to another: no crash,
 * an accepted address is complete, and a refusal says why and where. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "redis/cluster/hash_slot.h"
#include "redis/cluster/redirect.h"
#include "redis/url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int condition)
{
    if (!condition)
        abort();
}

static void demand_ended(const char *text, size_t size)
{
    demand(memchr(text, '\0', size) != NULL);
}

static void demand_host(const char host[RN_URL_ADDRESS])
{
    const char *colon = strrchr(host, ':');

    demand_ended(host, RN_URL_ADDRESS);
    demand(colon != NULL && colon != host);
    demand(strncmp(host, "unix:", 5) != 0 || strchr(host, '/') != NULL);
}

static void demand_whole(const struct rn_url *url)
{
    demand(url->host_count >= 1 && url->host_count <= RN_URL_HOSTS);
    demand(url->host_count == 1 || url->kind != RN_URL_SINGLE);
    for (unsigned i = 0; i < url->host_count; i++)
        demand_host(url->hosts[i]);
    demand_ended(url->user, sizeof url->user);
    demand_ended(url->password, sizeof url->password);
    demand_ended(url->master, sizeof url->master);
    demand_ended(url->asker_password, sizeof url->asker_password);
    demand_ended(url->ca, sizeof url->ca);
    demand(url->user[0] == '\0' || url->password[0] != '\0');
    demand((url->kind == RN_URL_SENTINEL) == (url->master[0] != '\0'));
    demand(url->tls || (url->ca[0] == '\0' && url->cert[0] == '\0' && url->verify == 0));
    demand((url->cert[0] == '\0') == (url->key[0] == '\0'));
    demand(url->db <= 65535 && (url->kind != RN_URL_CLUSTER || url->db == 0));
}

/* The same text as an error of Redis. */
static void demand_verdict(const char *text)
{
    struct rn_redirect verdict;
    bool redirects;

    rn_redirect_parse(text, &verdict);
    redirects = verdict.kind == RN_REDIRECT_MOVED || verdict.kind == RN_REDIRECT_ASK;
    demand(verdict.slot < RN_HASH_SLOTS);
    demand_ended(verdict.address, sizeof verdict.address);
    demand(!redirects || strrchr(verdict.address, ':') != NULL);
    rn_redirect_complete(verdict.address, "host:1");
    demand_ended(verdict.address, sizeof verdict.address);
    demand(!redirects || verdict.address[0] != ':');
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
    demand_verdict(text);
    free(text);
    return 0;
}
