/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The URL of a Redis:
 *
 *   redis://host                       port 6379, database 0
 *   redis://user:password@host:6380/2
 *   redis://:password@[::1]:6379
 *   redis+unix:///run/redis.sock?db=2
 *   redis+unix://user:password@/run/redis.sock
 *   redis+cluster://user:password@a:7000,b:7000,c
 *   redis+sentinel://user:password@a,b:26380,c/mymaster/2?sentinel_password=...
 *
 * With rediss instead of redis: TLS. ?ca=FILE (default: the system's authorities),
 * ?cert=FILE&key=FILE for a client certificate, ?verify=ca to accept any server name, ?verify=no
 * to accept any certificate.
 *
 * User, password, the name of the master and the values of options may hold %XX for characters
 * that have a meaning in a URL.
 */
#ifndef RN_REDIS_URL_H
#define RN_REDIS_URL_H

#include <stdbool.h>

#include <ration/error.h>

#define RN_URL_WORD 256
#define RN_URL_HOSTS 16
#define RN_URL_ADDRESS 300 /* host:port or unix:PATH, as rn_address_parse reads it */

enum rn_url_kind { RN_URL_SINGLE, RN_URL_CLUSTER, RN_URL_SENTINEL };
enum rn_url_verify { RN_URL_VERIFY_NAME, RN_URL_VERIFY_CA, RN_URL_VERIFY_NOT };

struct rn_url {
    enum rn_url_kind kind;
    unsigned host_count;
    char hosts[RN_URL_HOSTS]
              [RN_URL_ADDRESS]; /* the server; or the nodes or Sentinels to ask for the topology */
    char user[RN_URL_WORD];     /* "": the default user */
    char password[RN_URL_WORD]; /* "": none */
    unsigned db;
    char master[RN_URL_WORD];                                  /* its name in Sentinel */
    char asker[RN_URL_WORD], asker_password[RN_URL_WORD];      /* the login at Sentinel */
    bool tls;                                                  /* the fields below need it */
    char ca[RN_URL_WORD], cert[RN_URL_WORD], key[RN_URL_WORD]; /* paths; "": none given */
    enum rn_url_verify verify;
};

/* 0, or RATION_EPARSE with `error` filled in. A message never holds the password. */
int rn_url_parse(const char *text, struct rn_url *out, struct ration_error *error);

#endif
