/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parameters of an operator's request: the members of the admin port's bodies and
 * query strings, besides the attributes of a client.
 */
#ifndef RN_FRONT_ADMIN_PARAMS_H
#define RN_FRONT_ADMIN_PARAMS_H

#include "front/params.h"

/* Those that may be given, and those that were. */
enum rn_admin_param {
    RN_ADMIN_ATTRIBUTES = 1,
    RN_ADMIN_COST = 2,
    RN_ADMIN_RULE = 4,
    RN_ADMIN_ADD = 8,
    RN_ADMIN_REMAINING = 16,
    RN_ADMIN_LIMIT = 32,
    RN_ADMIN_FOR = 64,
    RN_ADMIN_NOTE = 128,
    RN_ADMIN_REASON = 256,
    RN_ADMIN_SHADOW = 512,
    RN_ADMIN_COUNT = 1024, /* in query strings only */
    RN_ADMIN_PAGE = 2048,  /* limit and after, in query strings only */
    RN_ADMIN_MATCHING = 4096,
    RN_ADMIN_VALUE = 8192,
    RN_ADMIN_HASH = 16384,     /* of a client's key */
    RN_ADMIN_BANNED = 32768,   /* in query strings only */
    RN_ADMIN_OFFSET = 65536,   /* in query strings only */
    RN_ADMIN_VERSION = 131072, /* of the rules */
};

/* Slices point into what was read. */
struct rn_admin_params {
    struct rn_params *client; /* where attributes and cost go */
    unsigned given;
    struct rn_slice rule; /* data NULL: not given */
    int64_t add;
    uint64_t remaining;
    struct rn_slice limit; /* as text, not parsed */
    int64_t for_ns;        /* 0: for ever */
    struct rn_slice note, reason;
    struct rn_slice hash; /* as text, not parsed */
    bool shadow, matching, banned;
    double value; /* of a signal */
    uint64_t count, offset;
    uint64_t version; /* its id */
    uint64_t page;    /* entries of it; 0: not given */
    uint64_t after;   /* the id before it */
};

/* Reads the members of the object that the last token began. 0, or RATION_EINVAL with
 * json->error. */
int rn_admin_params_read(struct rn_admin_params *params, struct rn_json *json, unsigned allowed);

/* Reads one parameter of a query string: rule, count, offset, limit, after and banned if they are
 * allowed, anything else as an attribute of the client if those are. Changes `name` to lower case
 * in place. 0, or RATION_EINVAL with `error`. */
int rn_admin_params_read_one(struct rn_admin_params *params, struct rn_slice name,
                             struct rn_slice value, unsigned allowed, struct ration_error *error);

#endif
