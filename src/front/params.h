/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a caller asks, whatever protocol it speaks: by rules (attributes of a
 * request) or by a limit that it brings along (a key and the limit's text).
 */
#ifndef RN_FRONT_PARAMS_H
#define RN_FRONT_PARAMS_H

#include <ration/rules.h>

#include "base/slice.h"
#include "wire/json.h"
#include "wire/resp.h"

#define RN_PARAMS_ATTRIBUTES_MAX RN_RESP_ATTRIBUTES_MAX
#define RN_STATUS_MIN 100
#define RN_STATUS_MAX 999
#define RN_RESERVE_FOR_NS INT64_C(60000000000) /* how long a reservation stays open unless told */

enum rn_wait {
    RN_WAIT_AS_RULE,
    RN_WAIT_RETURN, /* tell the delay */
    RN_WAIT_HOLD,   /* hold the reply until it has passed */
};

struct rn_params {
    bool by_limit; /* `key` and `limit` count, not the attributes */
    struct rn_slice key;
    struct ration_limit limit;
    uint32_t attribute_count;
    struct ration_attribute attributes[RN_PARAMS_ATTRIBUTES_MAX];
    uint64_t cost;
    bool cost_given;
    bool credit; /* `cost` units are given back: it was negative */
    bool drain;
    bool peek;
    bool shadow;      /* nothing is refused or delayed */
    bool keep_places; /* a check answers with the lease of its places */
    bool full;        /* RESP: the reply is for a gateway */
    enum rn_wait wait;
    int64_t max_wait_ns;    /* a longer delay is a refusal; 0: as the rules say */
    int64_t for_ns;         /* of a lease or reservation; 0: not given */
    struct rn_slice lease;  /* the ticket; data NULL: not given */
    struct rn_slice rule;   /* data NULL: not given */
    struct rn_slice charge; /* the ticket of what is due; data NULL: not given */
    uint64_t status;        /* of the outcome; 0: not given */
};

/* Members of a JSON object, as bits: which ones a caller may give. */
enum rn_param {
    RN_PARAM_ATTRIBUTES = 1,
    RN_PARAM_COST = 2,
    RN_PARAM_WAIT = 4,
    RN_PARAM_PEEK = 8,
    RN_PARAM_KEY = 16, /* and limit, algorithm */
    RN_PARAM_FOR = 32,
    RN_PARAM_LEASE = 64,
    RN_PARAM_RULE = 128,
    RN_PARAM_CHARGE = 256, /* and status */
    RN_PARAM_DRAIN = 512,
    RN_PARAM_CREDIT = 1024, /* the cost may be negative, of callers that may change state */
};

/* Everything but the attributes as of a request that says nothing: cost 1. */
void rn_params_init(struct rn_params *params);

/* Reads the members of the object that the last token began. 0, or RATION_EINVAL
 * with json->error: what is wrong and where. `members` are those that may be
 * given; that something is missing is for rn_params_check to find. */
int rn_params_read(struct rn_params *params, struct rn_json *json, unsigned members);

/* Single members, for those who read an object of their own: the value that the
 * token began. `expected` objects to a value of another kind. */
int rn_params_read_attributes(struct rn_params *params, struct rn_json *json,
                              const struct rn_json_token *token);
int rn_params_read_cost(struct rn_params *params, struct rn_json *json,
                        const struct rn_json_token *token);
int rn_params_expected(struct rn_json *json, const struct rn_json_token *token, const char *what);

/* Whether the params is one by rules or by a limit, and not both or neither. */
int rn_params_check(struct rn_params *params, struct ration_error *error);

/* A limit as text: 0, or RATION_EINVAL and in `error` what is wrong and where. */
int rn_params_parse_limit(struct rn_slice text, struct ration_limit *limit,
                          struct ration_error *error);
/* The same for the params, and the algorithm's name if one was given (data NULL: not). */
int rn_params_set_limit(struct rn_params *params, struct rn_slice text, struct rn_slice algorithm,
                        struct ration_error *error);

/* RATION_EINVAL: too many. The name is put into lower case where it stands. */
int rn_params_add(struct rn_params *params, char *name, size_t name_len, struct rn_slice value);

#endif
