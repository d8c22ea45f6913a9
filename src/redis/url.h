/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where Redis is:
 *
 *   redis://host                       port 6379, database 0
 *   redis://user:password@host:6380/2
 *   redis://:password@[::1]:6379
 *   redis+unix:///run/redis.sock?db=2
 *   redis+unix://user:password@/run/redis.sock
 *
 * User and password may hold %XX for what has a meaning in a URL.
 */
#ifndef RN_REDIS_URL_H
#define RN_REDIS_URL_H

#include <ration/error.h>

#define RN_URL_WORD 256

struct rn_url {
    char address[300];          /* as rn_address_parse reads it: host:port or unix:PATH */
    char user[RN_URL_WORD];     /* "": the default one */
    char password[RN_URL_WORD]; /* "": none */
    unsigned db;
};

/* RATION_EPARSE with `error` filled otherwise. A message never holds the password. */
int rn_url_parse(const char *text, struct rn_url *out, struct ration_error *error);

#endif
